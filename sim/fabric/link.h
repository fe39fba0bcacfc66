// SPDX-License-Identifier: Apache-2.0
// A full-duplex Ethernet cable between two nodes. Nodes exchange nothing but
// frames with times, so that a link can later cross a thread or a switch.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/fabric/time.h"
#include "sim/gen/hvia_params.h"

namespace hvia::fabric {

// Frame is an Ethernet frame without preamble and FCS as it arrives.
struct Frame {
  std::vector<uint8_t> bytes;
  Time first_byte = 0;  // first byte of the frame has arrived at the receiver
  Time last_byte = 0;   // last byte of the FCS has arrived at the receiver
};

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // Announces a frame of the future. The sink does nothing before its times.
  virtual void Deliver(Frame frame) = 0;
};

// FrameObserver sees every frame: the time its preamble begins at the sender,
// sender, receiver and content.
using FrameObserver = std::function<void(Time start, int source, int destination, const std::vector<uint8_t>& bytes)>;

class Link {
 public:
  explicit Link(const Params& params);
  void Connect(FrameSink* a, FrameSink* b);
  void AddObserver(FrameObserver observer) { observers_.push_back(std::move(observer)); }

  // Earliest begin of the next preamble at that end.
  Time FreeAt(int end) const { return free_at_[end]; }
  // Sends one frame whose preamble begins at `t` or when the wire is free.
  // Returns the time at which the last byte of the FCS has left.
  Time Transmit(int end, Time t, const uint8_t* data, size_t bytes);
  uint64_t Frames() const { return frames_; }
  // From the begin of the preamble to the last byte of the FCS at the receiver.
  Time Duration(size_t bytes) const { return preamble_ + static_cast<Time>(bytes) * byte_time_ + fcs_ + latency_; }

 private:
  const Time byte_time_;
  const Time preamble_;
  const Time fcs_;
  const Time gap_;
  const Time latency_;
  FrameSink* sinks_[2] = {nullptr, nullptr};
  Time free_at_[2];
  uint64_t frames_ = 0;
  std::vector<FrameObserver> observers_;
};

// LinkEnd is one plug of the cable.
struct LinkEnd {
  Link* link = nullptr;
  int end = 0;
  bool Connected() const { return link != nullptr; }
  Time FreeAt() const { return link->FreeAt(end); }
  Time Transmit(Time t, const uint8_t* data, size_t bytes) const { return link->Transmit(end, t, data, bytes); }
};

}  // namespace hvia::fabric
