// SPDX-License-Identifier: Apache-2.0
// Plays a script of frames on a network without nodes and prints the events.
// Arguments: the number of nodes, then --param NAME=VALUE and --wire-fault FAULT
// as of hvia-sim. The script is on standard input, sorted by time:
//   TIME send NODE DESTINATION SOURCE BYTES NUMBER
//   TIME hold NODE 0|1
// Output:
//   sent START SOURCE DESTINATION NUMBER FAULTS
//   came TIME NODE NUMBER good|damaged
//   port NODE and the counts of its SwitchPort, in the layout's order
//   wire NODE and its sent, arrived and damaged frames, then those of the switch to it
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/fabric/model_params.h"
#include "sim/fabric/network.h"

namespace hvia::fabric {
namespace {

constexpr size_t kNumberOffset = kEthernetHeaderSize;

uint32_t Number(const std::vector<uint8_t>& frame) {
  uint32_t v = 0;
  for (size_t i = 0; i < 4; ++i) v = v << 8 | frame[kNumberOffset + i];
  return v;
}

// Sink prints its node's frames at their arrival, which is after the announcement.
class Sink : public FrameSink {
 public:
  explicit Sink(int node) : node_(node) {}
  void Deliver(Frame frame) override { Print(frame, "good"); }
  void DeliverDamaged(Frame frame) override { Print(frame, "damaged"); }

 private:
  void Print(const Frame& frame, const char* state) const {
    const uint32_t number = frame.bytes.size() >= kNumberOffset + 4 ? Number(frame.bytes) : 0;
    std::printf("came %" PRId64 " %d %u %s\n", frame.last_byte, node_, number, state);
  }
  const int node_;
};

struct Action {
  Time time;
  bool hold, on;
  int node;
  uint64_t destination, source;
  size_t bytes;
  uint32_t number;
};

std::vector<uint8_t> Build(const Action& a) {
  std::vector<uint8_t> f(a.bytes);
  for (size_t i = 0; i < 6; ++i) {
    f[kEthernetHeaderDestinationOffset + i] = static_cast<uint8_t>(a.destination >> (40 - 8 * i));
    f[kEthernetHeaderSourceOffset + i] = static_cast<uint8_t>(a.source >> (40 - 8 * i));
  }
  for (size_t i = 0; i < 4; ++i) f[kNumberOffset + i] = static_cast<uint8_t>(a.number >> (24 - 8 * i));
  return f;
}

bool Read(Action* a) {
  std::string word;
  if (!(std::cin >> a->time >> word)) return false;
  a->hold = word == "hold";
  if (a->hold) std::cin >> a->node >> a->on;
  else std::cin >> a->node >> a->destination >> a->source >> a->bytes >> a->number;
  if (!std::cin) throw std::runtime_error("the script ends within a line");
  return true;
}

int Play(int argc, char** argv) {
  std::vector<std::string> replaced;
  std::vector<WireFaultRule> rules;
  const int nodes = argc > 1 ? std::stoi(argv[1]) : 0;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--param") replaced.push_back(argv[i + 1]);
    else rules.push_back(ParseWireFault(argv[i + 1]));
  }
  std::vector<ReplacedParam> ignored;
  const Params params = ReplaceModelParams(*FindProfile("hvia-ge"), replaced, false, &ignored);
  Network network(params, nodes, true);
  network.SetFaults(rules, 1);
  std::vector<std::unique_ptr<Sink>> sinks;
  std::vector<FrameSink*> list;
  for (int i = 0; i < nodes; ++i) {
    sinks.push_back(std::make_unique<Sink>(i));
    list.push_back(sinks.back().get());
  }
  network.Connect(list);
  network.AddObserver([](Time start, int source, int destination, const std::vector<uint8_t>& bytes, uint32_t faults) {
    std::printf("sent %" PRId64 " %d %d %u %u\n", start, source, destination, Number(bytes), faults);
  });
  Action a;
  bool more = Read(&a);
  Time now = INT64_MIN;
  for (;;) {
    const Time event = network.NextEvent();
    if (!more && event == kNever) break;
    if (more && a.time <= event) {
      now = a.time;
      if (a.hold) {
        network.Hold(a.node, a.on, now);
      } else {
        const std::vector<uint8_t> f = Build(a);
        network.Plug(a.node).Transmit(now, f.data(), f.size());
      }
      more = Read(&a);
      continue;
    }
    if (event < now) throw std::runtime_error("an event at " + std::to_string(event) + " after " + std::to_string(now));
    now = event;
    network.Step(now);
    if (network.NextEvent() <= now) throw std::runtime_error("time does not advance beyond " + std::to_string(now));
  }
  for (int i = 0; i < nodes; ++i) {
    const SwitchPortCounts p = network.Port(i);
    std::printf("port %d", i);
    for (const uint64_t v : {p.received, p.wrong_fcs, p.filtered, p.flooded, p.moved, p.unlearned, p.forwarded, p.no_room, p.highest_filling, p.aged}) std::printf(" %" PRIu64, v);
    const WireCounts up = network.FromNode(i), down = network.FromSwitch(i);
    std::printf("\nwire %d", i);
    for (const uint64_t v : {up.sent, up.arrived, up.damaged, down.sent, down.arrived, down.damaged}) std::printf(" %" PRIu64, v);
    std::printf("\n");
  }
  return 0;
}

}  // namespace
}  // namespace hvia::fabric

int main(int argc, char** argv) {
  try {
    return hvia::fabric::Play(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "player: %s\n", e.what());
    return 1;
  }
}
