// SPDX-License-Identifier: Apache-2.0

// Testbench of byte_packer against a plain array of bytes: every pair of short beats at every start
// lane, then random packets of several segments, with idle clocks, back-pressure and clears.
#include <memory>
#include <vector>

#include "Vhvia_byte_packer.h"
#include "sim/unit/internal/unit/testbench.h"

using unit::Fail;

namespace {

constexpr unsigned kBytes = TB_W / 8;

struct Beat {
  uint64_t data;
  unsigned offset, bytes;
  bool last;
};

using unit::Traffic;

class Testbench {
 public:
  explicit Testbench(uint64_t seed) : rng(seed), top(new Vhvia_byte_packer) {
    top->rst_ni = 0;
    top->clear_i = 0;
    top->in_valid_i = 0;
    top->out_ready_i = 0;
    for (int i = 0; i < 4; i++) Clock();
    top->rst_ni = 1;
    Clock();
  }

  void Clock() {
    top->clk_i = 0;
    top->eval();
    top->clk_i = 1;
    top->eval();
    unit::clocks()++;
  }

  // Sends one packet and checks the output. Returns its clocks.
  uint64_t Packet(unsigned lane, const std::vector<Beat>& beats, Traffic traffic) {
    std::vector<uint8_t> want;
    for (const Beat& b : beats) {
      for (unsigned i = 0; i < b.bytes; i++) want.push_back(b.data >> (8 * (b.offset + i)));
    }
    // A last beat without bytes, when no bytes are held, yields a beat without lanes.
    const bool empty_end = beats.back().bytes == 0 && !want.empty() && (lane + want.size()) % kBytes == 0;
    const uint64_t begin = unit::clocks();
    size_t in = 0, got = 0, out_beats = 0;
    bool done = false, offered = false;
    while (!done) {
      if (unit::clocks() - begin > 64 * (beats.size() + 4)) {
        Fail("packet of %zu beats at lane %u stalls after beat %zu", beats.size(), lane, in);
      }
      if (!offered) offered = in < beats.size() && !rng.Chance(traffic.idle, 4);
      top->in_valid_i = offered;
      if (offered) {
        const Beat& b = beats[in];
        top->in_data_i = b.data;
        top->in_offset_i = b.offset;
        top->in_bytes_i = b.bytes;
        top->in_last_i = b.last;
      } else {
        // Inputs without valid must be ignored.
        top->in_data_i = rng.Next();
        top->in_offset_i = 0;
        top->in_bytes_i = rng.Below(kBytes + 1);
        top->in_last_i = rng.Bits(1);
      }
      // The lane matters only with the first beat.
      top->start_lane_i = in == 0 ? lane : rng.Below(kBytes);
      top->out_ready_i = !rng.Chance(traffic.pressure, 4);
      top->clk_i = 0;
      top->eval();
      if (offered && top->in_ready_o) {
        in++;
        offered = false;
      }
      if (top->out_valid_o && top->out_ready_i) {
        done = Check(lane, want, empty_end, &got, out_beats);
        out_beats++;
      }
      top->clk_i = 1;
      top->eval();
      unit::clocks()++;
    }
    if (in != beats.size()) Fail("the packet ended after %zu of %zu beats", in, beats.size());
    top->in_valid_i = 0;
    top->out_ready_i = 1;
    top->eval();
    if (top->out_valid_o || !top->quiet_o) Fail("not quiet after a packet");
    packets++;
    bytes += want.size();
    return unit::clocks() - begin;
  }

  // Sends part of a packet, then drops it.
  void Abandon(const std::vector<Beat>& beats) {
    for (const Beat& b : beats) {
      if (b.last) break;
      top->start_lane_i = 1;
      top->in_valid_i = 1;
      top->in_data_i = b.data;
      top->in_offset_i = b.offset;
      top->in_bytes_i = b.bytes;
      top->in_last_i = 0;
      top->out_ready_i = 1;
      Clock();
    }
    top->in_valid_i = 0;
    top->clear_i = 1;
    top->out_ready_i = rng.Bits(1);
    Clock();
    top->clear_i = 0;
    top->eval();
    if (top->out_valid_o) Fail("a beat of a packet that was cleared");
  }

  std::vector<Beat> RandomPacket() {
    std::vector<Beat> beats;
    unsigned segments = rng.Range(1, 6);
    for (unsigned s = 0; s < segments; s++) {
      unsigned left = rng.Chance(1, 4) ? rng.Below(4 * kBytes) : rng.Below(3);
      if (rng.Chance(1, 16)) left = rng.Below(1515);
      bool dense = rng.Bits(1);  // as from memory: only first and last beat partial
      unsigned offset = rng.Below(kBytes);
      do {
        unsigned room = kBytes - offset;
        unsigned n = dense ? std::min(left, room) : rng.Below(std::min(left, room) + 1);
        beats.push_back({rng.Next() & Mask(), offset, n, false});
        left -= n;
        offset = dense ? 0 : rng.Below(kBytes);
      } while (left != 0);
    }
    beats.back().last = true;
    return beats;
  }

  static uint64_t Mask() { return TB_W == 64 ? ~0ull : (1ull << (TB_W % 64)) - 1; }

  unit::Rng rng;
  uint64_t packets = 0, bytes = 0;

 private:
  bool Check(unsigned lane, const std::vector<uint8_t>& want, bool empty_end, size_t* got, size_t beat) {
    const unsigned first = beat == 0 ? lane : 0;
    const size_t left = want.size() - *got;
    const unsigned n = std::min<size_t>(left, kBytes - first);
    const unsigned strobe = ((1u << n) - 1) << first;
    if (top->out_strb_o != strobe || top->out_bytes_o != n) {
      Fail("beat %zu of a packet of %zu bytes at lane %u: lanes %x, %u bytes; want lanes %x, %u bytes", beat,
           want.size(), lane, top->out_strb_o, top->out_bytes_o, strobe, n);
    }
    for (unsigned i = 0; i < n; i++) {
      uint8_t b = static_cast<uint64_t>(top->out_data_o) >> (8 * (first + i));
      if (b != want[*got + i]) Fail("byte %zu is %02x, want %02x", *got + i, b, want[*got + i]);
    }
    *got += n;
    bool last = *got == want.size() && (n == 0 || !empty_end);
    if (last != static_cast<bool>(top->out_last_o)) Fail("beat %zu after %zu of %zu bytes: last is %d", beat, *got, want.size(), top->out_last_o);
    return last;
  }

  std::unique_ptr<Vhvia_byte_packer> top;
};

}  // namespace

int main(int argc, char** argv) {
  unit::Start(argc, argv, 0);
  Testbench testbench(unit::options().seed);

  // Every pair of beats at every lane.
  for (unsigned lane = 0; lane < kBytes; lane++) {
    for (unsigned o1 = 0; o1 < kBytes; o1++) {
      for (unsigned n1 = 0; n1 <= kBytes - o1; n1++) {
        testbench.Packet(lane, {{testbench.rng.Next() & Testbench::Mask(), o1, n1, true}}, {0, 0});
        for (unsigned o2 = 0; o2 < kBytes; o2++) {
          for (unsigned n2 = 0; n2 <= kBytes - o2; n2++) {
            testbench.Packet(lane,
                         {{testbench.rng.Next() & Testbench::Mask(), o1, n1, false},
                          {testbench.rng.Next() & Testbench::Mask(), o2, n2, true}},
                         {0, testbench.rng.Bits(1)});
          }
        }
      }
    }
  }

  // A beat per clock at every lane.
  for (unsigned lane = 0; lane < kBytes; lane++) {
    std::vector<Beat> beats;
    for (unsigned i = 0; i < 100; i++) beats.push_back({testbench.rng.Next() & Testbench::Mask(), 0, kBytes, i == 99});
    uint64_t clocks = testbench.Packet(lane, beats, {0, 0});
    if (clocks != 100 + (lane != 0)) Fail("100 full beats at lane %u took %" PRIu64 " clocks", lane, clocks);
  }

  for (uint64_t i = 0; i < unit::options().size; i++) {
    std::vector<Beat> beats = testbench.RandomPacket();
    if (testbench.rng.Chance(1, 16)) testbench.Abandon(beats);
    testbench.Packet(testbench.rng.Below(kBytes), beats, unit::kTraffic[i % 5]);
  }
  std::printf("packets %" PRIu64 "\nbytes %" PRIu64 "\nclocks %" PRIu64 "\npassed 1\n", testbench.packets, testbench.bytes,
              unit::clocks());
  return 0;
}
