// SPDX-License-Identifier: Apache-2.0
// Parameters of class model that a run replaces (--param NAME=VALUE): the
// board of the build stays, the models around it get other figures.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/gen/hvia_params.h"

namespace hvia::fabric {

// ReplacedParam is one value that is not the profile's.
struct ReplacedParam {
  std::string name;
  int64_t value = 0;
};

struct ParamError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Puts the values NAME=VALUE into a copy of the profile. `replaced` gets what
// differs from the profile, in the order of the parameters' table, so that it
// depends on the configuration and on nothing else. With `slow_sdram` (strap
// SlowSdram) the card counts for a slow SDRAM clock, which must be given then.
// Throws ParamError for a name that is unknown, given twice or not of class
// model, and for a value that the models cannot take.
Params ReplaceModelParams(const Params& profile, const std::vector<std::string>& texts, bool slow_sdram, std::vector<ReplacedParam>* replaced);

}  // namespace hvia::fabric
