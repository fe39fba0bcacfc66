// SPDX-License-Identifier: Apache-2.0
// A test device, not a card. It moves a block of memory to another node at fixed costs, so that
// tests of the bridge, virtual time and the wire need no RTL. Both directions share one bus. One
// transfer is sent at a time. The wire is the real link.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <queue>
#include <vector>

#include "sim/fabric/host_memory.h"
#include "sim/fabric/node.h"
#include "sim/gen/hvia_layout.h"

namespace hvia::fabric {

class EchoNode : public Node {
 public:
  explicit EchoNode(const Surroundings& s) : s_(s) {}

  Time BootSpan() const override;
  void Boot(Time start) override;
  std::string NotReady() const override;
  Time NextEvent() const override { return events_.empty() ? kNever : events_.top().time; }
  void Step(Time t) override;
  void HostWrite(Time t, int slot, uint32_t address, const uint32_t* data, int count) override;
  void HostRead(Time t, int slot, uint32_t address) override;
  bool InterruptLevel() const override { return interrupt_; }
  void Deliver(Frame frame) override;

 private:
  enum class Kind { kBooted, kFetched, kPayloadRead, kFrameGone, kStatusWritten, kArrived, kStored, kRegisterRead };
  struct Event {
    Time time;
    uint64_t sequence;  // orders simultaneous events by creation
    Kind kind;
    int slot;
    uint32_t address;
    bool operator>(const Event& o) const { return time != o.time ? time > o.time : sequence > o.sequence; }
  };

  void Schedule(Time t, Kind kind, int slot = 0, uint32_t address = 0) { events_.push({t, next_sequence_++, kind, slot, address}); }
  // Takes the bus for one burst when it is free. Returns the end of the burst.
  Time TakeBus(Time t, int overhead_clocks, uint32_t bytes);
  void StartTransfer(Time t);
  void ReadRequest(Time t);
  void StartFrame(Time t);
  void ReadBurst(Time t);
  void StartStore(Time t);
  void StoreBurst(Time t);
  uint32_t ReadRegister(uint32_t address) const;

  const Surroundings s_;
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
  uint64_t next_sequence_ = 0;
  bool booted_ = false;
  Time bus_free_ = INT64_MIN;

  std::deque<uint32_t> requests_;  // addresses of unfinished requests
  std::array<uint32_t, kEchoRequestSize / 4> request_{};
  uint32_t sent_ = 0;  // bytes of the transfer on the wire
  std::vector<uint8_t> frame_;
  uint32_t read_ = 0;  // bytes of the frame's payload read so far

  std::deque<Frame> in_flight_;  // announced by the link, in order of arrival
  std::deque<std::vector<uint8_t>> arrived_;
  uint32_t stored_ = 0;
  uint32_t received_ = 0;
  bool interrupt_ = false;
};

}  // namespace hvia::fabric
