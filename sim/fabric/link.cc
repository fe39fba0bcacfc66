// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/link.h"

#include <algorithm>
#include <stdexcept>

namespace hvia::fabric {

namespace {

std::string Party(int number) { return number == static_cast<int>(kWireSwitch) ? "the switch" : "node " + std::to_string(number); }

}  // namespace

Link::Link(const Params& params, int a, int b)
    : parties_{a, b},
      byte_time_(8 * params.WireBitTime),
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
    throw std::runtime_error("link: a frame of " + std::to_string(bytes) + " bytes from " + Party(parties_[end]) + ": Ethernet takes " +
                             std::to_string(kMinFrame) + " to " + std::to_string(kMaxFrame));
  }
  const Time start = std::max(t, free_at_[end]);
  free_at_[end] = start + Occupancy(bytes);
  ++directions_[1 - end].counts.sent;
  Content content{{data, data + bytes}, false};
  if (!faults_) {
    for (const FrameObserver& o : observers_) o(start, parties_[end], parties_[1 - end], content.bytes, 0);
    Pass(1 - end, start, 1, std::move(content));
  } else {
    const WireFate fate = faults_->Judge(end, start, start + preamble_, byte_time_, content.bytes);
    for (const FrameObserver& o : observers_) o(start, parties_[end], parties_[1 - end], content.bytes, fate.faults);
    Disturb(1 - end, start, fate, std::move(content));
  }
  return free_at_[end] - gap_;
}

void Link::Disturb(int end, Time start, WireFate fate, Content content) {
  Direction& d = directions_[end];
  GoOn(end, start);
  const bool back = fate.overtaken_by != 0 && d.behind.size() < kBridgeMaxHeldFrames;
  if (!back) fate.faults &= ~(1u << kWireFaultReorder);
  for (size_t i = 0; i < WireFaults::kKinds; ++i) d.counts.faults[i] += fate.faults >> i & 1;
  if (fate.lost) return;
  if (fate.damaged) {
    WireFaults::Damage(fate, &content.bytes);
    content.damaged = true;
  }
  if (back) {
    d.behind.push_back({fate.overtaken_by, fate.start + fate.patience, fate.copies, std::move(content)});
    FindNextEvent();
    return;
  }
  Pass(end, fate.start, fate.copies, std::move(content));
  if (d.behind.empty()) return;
  for (auto b = d.behind.begin(); b != d.behind.end();) {
    if (--b->left != 0) {
      ++b;
      continue;
    }
    Pass(end, fate.start, b->copies, std::move(b->content));
    b = d.behind.erase(b);
  }
  FindNextEvent();
}

void Link::Step(Time t) {
  for (int end = 0; end < 2; ++end) GoOn(end, t);
}

void Link::GoOn(int end, Time t) {
  Direction& d = directions_[end];
  if (d.behind.empty()) return;
  for (;;) {
    const auto first = std::min_element(d.behind.begin(), d.behind.end(), [](const Behind& a, const Behind& b) { return a.until < b.until; });
    if (first == d.behind.end() || first->until > t) break;
    Pass(end, first->until, first->copies, std::move(first->content));
    d.behind.erase(first);
  }
  FindNextEvent();
}

void Link::FindNextEvent() {
  next_event_ = kNever;
  for (const Direction& d : directions_)
    for (const Behind& b : d.behind) next_event_ = std::min(next_event_, b.until);
}

void Link::Pass(int end, Time start, int copies, Content content) {
  Direction& d = directions_[end];
  for (; copies > 0; --copies) {
    Content copy = copies > 1 ? content : std::move(content);
    if (!d.held) {
      Carry(end, start, std::move(copy));
    } else if (d.kept.size() == kBridgeMaxHeldFrames) {
      throw std::runtime_error("link: the wire to " + Party(parties_[end]) + " is held and keeps " + std::to_string(d.kept.size()) +
                               " frames, which is all it can: release it (HoldWire) before " + Party(parties_[1 - end]) + " sends more");
    } else {
      d.kept.push_back({start, std::move(copy)});
    }
  }
}

void Link::Carry(int end, Time start, Content content) {
  Direction& d = directions_[end];
  start = std::max(start, d.free_at);
  const Time fcs = content.damaged ? 0 : fcs_;  // its bytes contain the rest of its FCS
  const Time length = preamble_ + static_cast<Time>(content.bytes.size()) * byte_time_ + fcs;
  d.free_at = start + length + gap_;
  Frame frame;
  frame.first_byte = start + preamble_ + byte_time_ + latency_;
  frame.last_byte = start + length + latency_;
  frame.bytes = std::move(content.bytes);
  for (const ArrivalObserver& o : arrival_observers_) o(frame.last_byte, parties_[1 - end], parties_[end]);
  if (content.damaged) {
    ++d.counts.damaged;
    d.sink->DeliverDamaged(std::move(frame));
  } else {
    ++d.counts.arrived;
    d.sink->Deliver(std::move(frame));
  }
}

void Link::Hold(int end, bool on, Time t) {
  Direction& d = directions_[end];
  d.held = on;
  if (on) return;
  for (; !d.kept.empty(); d.kept.pop_front()) Carry(end, std::max(t, d.kept.front().start), std::move(d.kept.front().content));
}

}  // namespace hvia::fabric
