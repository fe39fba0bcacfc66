// SPDX-License-Identifier: Apache-2.0

// Testbench of vi_list against a queue. With few VIs, one often enters in the clock in which it
// leaves. With all VIs the list becomes full. It also runs empty.
#include <algorithm>
#include <deque>
#include <memory>

#include "Vhvia_vi_list.h"
#include "sim/unit/internal/unit/testbench.h"

using unit::Fail;

int main(int argc, char** argv) {
  unit::Start(argc, argv, 0);
  unit::Rng rng(unit::options().seed);
  auto top = std::make_unique<Vhvia_vi_list>();
  auto clock = [&] {
    unit::Clock(*top);
  };
  top->rst_ni = top->push_i = top->pop_i = 0;
  for (int i = 0; i < 4; i++) clock();
  top->rst_ni = 1;
  clock();

  std::deque<unsigned> want;
  uint64_t together = 0, again = 0, full = 0, empty = 0;
  unsigned vis = unit::kVIs, pushes = 2, pops = 2;
  for (uint64_t i = 0; i < unit::options().size; i++) {
    if (rng.Chance(1, 1000)) {
      vis = rng.Chance(1, 3) ? unit::kVIs : static_cast<unsigned>(rng.Range(1, 6));
      pushes = rng.Below(5);
      pops = rng.Below(5);
    }
    top->push_i = rng.Chance(pushes, 4);
    top->push_vi_i = rng.Below(vis);
    top->pop_i = !want.empty() && rng.Chance(pops, 4);
    top->eval();
    if (top->any_o != !want.empty()) Fail("any is %u with %zu VIs in the list", top->any_o, want.size());
    if (top->any_o && top->vi_o != want.front()) Fail("VI %u is the first, want %u", top->vi_o, want.front());
    const bool leaves = top->pop_i && want.front() == top->push_vi_i;
    if (top->pop_i) want.pop_front();
    const bool enters = top->push_i && std::find(want.begin(), want.end(), top->push_vi_i) == want.end();
    if (enters) want.push_back(top->push_vi_i);
    if (top->quiet_o != (!enters && !top->pop_i)) Fail("quiet is %u, with a push %d and a pop %u", top->quiet_o, enters, top->pop_i);
    together += top->push_i && top->pop_i;
    again += top->push_i && leaves;
    full += want.size() == unit::kVIs;
    empty += want.empty();
    clock();
  }
  for (uint64_t n : {together, again, full, empty}) {
    if (n == 0 && unit::options().size >= 100'000) Fail("together %" PRIu64 ", again %" PRIu64 ", full %" PRIu64 ", empty %" PRIu64, together, again, full, empty);
  }
  std::printf("together %" PRIu64 "\nagain %" PRIu64 "\nfull %" PRIu64 "\nempty %" PRIu64 "\nclocks %" PRIu64 "\npassed 1\n", together, again, full, empty,
              unit::clocks());
  return 0;
}
