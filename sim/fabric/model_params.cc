// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/model_params.h"

#include <cerrno>
#include <cstdlib>

namespace hvia::fabric {
namespace {

[[noreturn]] void Fail(const std::string& text, const std::string& why) { throw ParamError("--param " + text + ": " + why); }

const ParamName& Find(const std::string& text, const std::string& name) {
  for (const ParamName& p : kParamNames) {
    if (name != p.name) continue;
    if (p.cls == ParamClass::kElaboration) Fail(text, "the RTL is built with " + name + " (class elaboration): a run cannot replace it, choose or add a profile");
    if (p.cls == ParamClass::kHost) Fail(text, name + " belongs to the host's programs (class host or driver), which the simulator does not know: give it to the program's cost model or driver");
    return p;
  }
  Fail(text, "there is no parameter " + name + ": see docs/reference/params.md");
}

int64_t Parse(const std::string& text, const std::string& number, const ParamName& p) {
  char* end = nullptr;
  errno = 0;
  const long long v = std::strtoll(number.c_str(), &end, 10);
  if (number.empty() || *end != 0 || errno != 0 || v < p.least || v > p.most) {
    Fail(text, "must be a whole number from " + std::to_string(p.least) + " to " + std::to_string(p.most));
  }
  return v;
}

// Checks relations between parameters. The strap selects one of the two sets of clock counts that
// the SDRAM controller was built with.
std::string Contradiction(const Params& p, bool slow) {
  const auto is = [&p](const char* name, int64_t value) { return std::string(name) + " = " + std::to_string(value); };
  const struct {
    const char *phase, *period;
    int64_t phase_value, period_value;
  } phases[] = {{"MacClockPhase", "MacClockPeriod", p.MacClockPhase, p.MacClockPeriod}, {"SdramClockPhase", "SdramClockPeriod", p.SdramClockPhase, p.SdramClockPeriod}};
  for (const auto& c : phases)
    if (c.phase_value >= c.period_value) return is(c.phase, c.phase_value) + " is not below " + is(c.period, c.period_value);
  const struct {
    const char *time, *clocks;
    int64_t time_value, clocks_value;
  } waits[] = {
      {"SdramRcdTime", slow ? "SdramSlowRcdClocks" : "SdramRcdClocks", p.SdramRcdTime, slow ? p.SdramSlowRcdClocks : p.SdramRcdClocks},
      {"SdramRpTime", slow ? "SdramSlowRpClocks" : "SdramRpClocks", p.SdramRpTime, slow ? p.SdramSlowRpClocks : p.SdramRpClocks},
      {"SdramRasTime", slow ? "SdramSlowRasClocks" : "SdramRasClocks", p.SdramRasTime, slow ? p.SdramSlowRasClocks : p.SdramRasClocks},
      {"SdramRcTime", slow ? "SdramSlowRcClocks" : "SdramRcClocks", p.SdramRcTime, slow ? p.SdramSlowRcClocks : p.SdramRcClocks},
      {"SdramRrdTime", slow ? "SdramSlowRcdClocks" : "SdramRcdClocks", p.SdramRrdTime, slow ? p.SdramSlowRcdClocks : p.SdramRcdClocks},
      {"SdramPowerUpTime", slow ? "SdramSlowPowerUpClocks" : "SdramPowerUpClocks", p.SdramPowerUpTime, slow ? p.SdramSlowPowerUpClocks : p.SdramPowerUpClocks},
  };
  for (const auto& w : waits) {
    if (w.clocks_value * p.SdramClockPeriod < w.time_value) {
      return is(w.time, w.time_value) + " is longer than the " + is(w.clocks, w.clocks_value) + " of this build with " + is("SdramClockPeriod", p.SdramClockPeriod);
    }
  }
  const int64_t refresh = slow ? p.SdramSlowRefreshClocks : p.SdramRefreshClocks;
  if (refresh * p.SdramClockPeriod > p.SdramRefreshTime) {
    return is("SdramRefreshTime", p.SdramRefreshTime) + " is shorter than the " + is(slow ? "SdramSlowRefreshClocks" : "SdramRefreshClocks", refresh) + " of this build with " + is("SdramClockPeriod", p.SdramClockPeriod);
  }
  if (p.NICReceiveCoalesceTime % 1000 != 0) return is("NICReceiveCoalesceTime", p.NICReceiveCoalesceTime) + " is not a multiple of 1 ns, which the NIC's register counts";
  if (p.NICTransmitCoalesceTime % 1000 != 0) return is("NICTransmitCoalesceTime", p.NICTransmitCoalesceTime) + " is not a multiple of 1 ns, which the NIC's register counts";
  if (p.BridgeReadInitialClocks < p.BridgeDevselClocks) return is("BridgeReadInitialClocks", p.BridgeReadInitialClocks) + " comes before " + is("BridgeDevselClocks", p.BridgeDevselClocks);
  if (p.BridgeWriteInitialClocks < p.BridgeDevselClocks) return is("BridgeWriteInitialClocks", p.BridgeWriteInitialClocks) + " comes before " + is("BridgeDevselClocks", p.BridgeDevselClocks);
  // The sender's MAC delivers a frame at its next clock, up to a period after the preamble started.
  const int64_t arrival = (p.WirePreambleBytes + 1) * 8 * p.WireBitTime + p.PhyTransmitDelay + p.CableDelay + p.PhyReceiveDelay;
  if (arrival < p.MacClockPeriod) return "a frame's first byte arrives after " + std::to_string(arrival) + " ps of preamble, PHYs and cable, less than " + is("MacClockPeriod", p.MacClockPeriod);
  return "";
}

}  // namespace

Params ReplaceModelParams(const Params& profile, const std::vector<std::string>& texts, bool slow_sdram, std::vector<ReplacedParam>* replaced) {
  Params params = profile;
  std::vector<std::string> seen;
  std::string all;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) Fail(text, "want NAME=VALUE");
    const std::string name = text.substr(0, equals);
    const ParamName& p = Find(text, name);
    for (const std::string& s : seen)
      if (s == name) Fail(text, name + " is given twice");
    seen.push_back(name);
    params.*p.member = Parse(text, text.substr(equals + 1), p);
    all += (all.empty() ? "" : ", ") + text;
  }
  if (texts.empty() && !slow_sdram) return params;
  const std::string why = Contradiction(params, slow_sdram);
  if (!why.empty() && slow_sdram) {
    throw ParamError("strap SlowSdram: " + why + ": give --param SdramClockPeriod=" + std::to_string(params.SdramSlowClockPeriod) + (all.empty() ? "" : " instead of " + all));
  }
  if (!why.empty()) Fail(all, why + ": the models cannot run like that");
  for (const ParamName& p : kParamNames) {
    if (p.member != nullptr && params.*p.member != profile.*p.member) replaced->push_back({p.name, params.*p.member});
  }
  return params;
}

}  // namespace hvia::fabric
