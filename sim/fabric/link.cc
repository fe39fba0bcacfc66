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
  sinks_[0] = a;
  sinks_[1] = b;
}

Time Link::Transmit(int end, Time t, const uint8_t* data, size_t bytes) {
  if (bytes < kMinFrame || bytes > kMaxFrame) {
    throw std::runtime_error("link: a frame of " + std::to_string(bytes) + " bytes at end " + std::to_string(end) + ": Ethernet takes " +
                             std::to_string(kMinFrame) + " to " + std::to_string(kMaxFrame));
  }
  const Time start = std::max(t, free_at_[end]);
  const Time body = static_cast<Time>(bytes) * byte_time_;
  const Time gone = start + preamble_ + body + fcs_;
  free_at_[end] = gone + gap_;
  ++frames_;
  Frame frame;
  frame.bytes.assign(data, data + bytes);
  frame.first_byte = start + preamble_ + byte_time_ + latency_;
  frame.last_byte = start + Duration(bytes);
  for (const FrameObserver& o : observers_) o(start, end, 1 - end, frame.bytes);
  sinks_[1 - end]->Deliver(std::move(frame));
  return gone;
}

}  // namespace hvia::fabric
