// SPDX-License-Identifier: Apache-2.0
// Replaces parameters of class model in a run (--param NAME=VALUE). The board of the build stays
// the same; the models around it get other values.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/gen/hvia_params.h"

namespace hvia::fabric {

// ReplacedParam is a value that differs from the profile.
struct ReplacedParam {
  std::string name;
  int64_t value = 0;
};

struct ParamError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Puts the values NAME=VALUE into a copy of the profile. `replaced` receives the differences from
// the profile, in the order of the parameters' table, so that it depends on the configuration only.
// With `slow_sdram` (strap SlowSdram) the card's clock counts are for a slow SDRAM clock, which
// must then be given. Throws ParamError for a name that is unknown, repeated or not of class model,
// and for a value that the models cannot take.
Params ReplaceModelParams(const Params& profile, const std::vector<std::string>& texts, bool slow_sdram, std::vector<ReplacedParam>* replaced);

}  // namespace hvia::fabric
