// SPDX-License-Identifier: Apache-2.0
// Builds the texts of messages.
#pragma once
#include <cinttypes>
#include <cstdio>
#include <sstream>
#include <string>

#include "sim/fabric/time.h"

namespace hvia::fabric {

template <typename... Parts>
std::string Text(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

inline std::string Hex(uint64_t v) {
  char b[24];
  std::snprintf(b, sizeof b, "%#" PRIx64, v);
  return b;
}

inline std::string At(Time t) { return Text("t=", t, " ps"); }

}  // namespace hvia::fabric
