// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/link.h"

#include <algorithm>
#include <stdexcept>

#include "sim/gen/hvia_layout.h"

namespace hvia::fabric {

Link::Link(const Params& params)
    : byte_time_(8 * params.WireBitTime),
      preamble_(params.WirePreambleBytes * byte_time_),
      fcs_(params.WireFcsBytes * byte_time_),
      gap_(params.WireGapBytes * byte_time_),
      latency_(params.PhyTransmitDelay + params.CableDelay + params.PhyReceiveDelay),
      free_at_{INT64_MIN, INT64_MIN} {}

void Link::Connect(FrameSink* a, FrameSink* b) {
  directions_[0].sink = a;
  directions_[1].sink = b;
}

Time Link::Transmit(int end, Time t, const uint8_t* data, size_t bytes) {
  if (bytes < kMinFrame || bytes > kMaxFrame) {
    throw std::runtime_error("link: a frame of " + std::to_string(bytes) + " bytes at end " + std::to_string(end) + ": Ethernet takes " +
                             std::to_string(kMinFrame) + " to " + std::to_string(kMaxFrame));
  }
  const Time start = std::max(t, free_at_[end]);
  free_at_[end] = start + Occupancy(bytes);
  ++frames_;
  std::vector<uint8_t> frame(data, data + bytes);
  for (const FrameObserver& o : observers_) o(start, end, 1 - end, frame);
  Direction& d = directions_[1 - end];
  if (!d.held) {
    Carry(1 - end, start, std::move(frame));
  } else if (d.kept.size() == kBridgeMaxHeldFrames) {
    throw std::runtime_error("link: the wire to node " + std::to_string(1 - end) + " is held and keeps " + std::to_string(d.kept.size()) +
                             " frames, which is all it can: release it (HoldWire) before node " + std::to_string(end) + " sends more");
  } else {
    d.kept.push_back({start, std::move(frame)});
  }
  return free_at_[end] - gap_;
}

void Link::Carry(int end, Time start, std::vector<uint8_t> bytes) {
  Direction& d = directions_[end];
  start = std::max(start, d.free_at);
  d.free_at = start + Occupancy(bytes.size());
  Frame frame;
  frame.first_byte = start + preamble_ + byte_time_ + latency_;
  frame.last_byte = start + Duration(bytes.size());
  frame.bytes = std::move(bytes);
  for (const ArrivalObserver& o : arrival_observers_) o(frame.last_byte, 1 - end, end);
  d.sink->Deliver(std::move(frame));
}

void Link::Hold(int end, bool on, Time t) {
  Direction& d = directions_[end];
  d.held = on;
  if (on) return;
  for (; !d.kept.empty(); d.kept.pop_front()) Carry(end, std::max(t, d.kept.front().start), std::move(d.kept.front().bytes));
}

}  // namespace hvia::fabric
