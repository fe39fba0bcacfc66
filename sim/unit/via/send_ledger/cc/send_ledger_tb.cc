// SPDX-License-Identifier: Apache-2.0

// Testbench of the ledger alone. Around it: a transmit engine that serves descriptors of several
// VIs (with the queue that is held and released) and jobs, builds messages of random numbers of
// frames, fails now and then; a wire for each VI that drops, doubles and delays frames and
// acknowledgements; a peer that accepts in order, reports gaps, NAKs, answers reads and sends
// requests; a receive engine that reports all that; completions, errors, NAKs with back-pressure;
// and a manager that connects, disconnects, resets and withdraws handles in the middle of it.
//
// Two models. The ledger's rules, kept here once more for each VI, predict every answer, strobe,
// job and completion in its clock; the operation that ends in a clock is read from the design, what
// it must do is not. And the peers: they get every frame of every message in order and once, and a
// descriptor completes well only when its peer has its last frame, or its answer was reported.
#include "sim/unit/via/send_ledger/cc/directed.h"
#include "sim/unit/via/send_ledger/cc/world.h"

int main(int argc, char** argv) {
  unit::Start(argc, argv);
  std::map<std::string, uint64_t> figures;
  Directed(&figures);
  unit::Rng rng(unit::options().seed);
  for (uint64_t n = 0; n < unit::options().size; n++) {
    World b(rng.Next());
    b.Run();
    for (const auto& [name, value] : b.figures) {
      const bool longest = name.size() > 7 && name.rfind("_clocks") == name.size() - 7 && name != "quiet_clocks";
      figures[name] = longest ? std::max(figures[name], value) : figures[name] + value;
    }
  }
  return unit::Pass(figures);
}
