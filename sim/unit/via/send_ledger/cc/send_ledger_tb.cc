// SPDX-License-Identifier: Apache-2.0

// Testbench of the ledger between models of its neighbours: a transmit engine that serves
// descriptors of several VIs (with held and released queues) and jobs, builds messages of random
// numbers of frames, and sometimes fails; a wire for each VI that drops, doubles and delays frames
// and acknowledgements; a peer that accepts in order, reports gaps, NAKs, answers reads and sends
// requests; a receive engine that reports all that; completions, errors and NAKs with
// back-pressure; and a manager that connects, disconnects, resets and withdraws handles meanwhile.
//
// There are two models: of the ledger's rules (model.h), and of the peers, which must receive every
// frame of every message once and in order. A descriptor may complete without error only when its
// peer has its last frame, or its read response was reported.
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
