// SPDX-License-Identifier: Apache-2.0
// A full-duplex Ethernet cable between two nodes, or between a node and the
// switch, with the PHYs at its ends. Those exchange nothing but frames with times.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/fabric/time.h"
#include "sim/fabric/wire_faults.h"
#include "sim/gen/hvia_layout.h"
#include "sim/gen/hvia_params.h"

namespace hvia::fabric {

// Frame is an Ethernet frame as it arrives.
struct Frame {
  std::vector<uint8_t> bytes;  // without preamble and FCS
  Time first_byte = 0;  // first byte of the frame has arrived at the receiver
  Time last_byte = 0;   // last byte of the FCS has arrived at the receiver
};

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // Announces a frame of the future. The sink does nothing before its times.
  virtual void Deliver(Frame frame) = 0;
  // Announces a damaged frame: at least one byte between preamble and gap, the last four not the
  // FCS of the others. A receiver that keeps only good frames ignores it.
  virtual void DeliverDamaged(Frame frame) { (void)frame; }
};

// FrameObserver sees every frame as it was sent into a cable: the time its
// preamble begins at the sender, sender, receiver (a node, or kWireSwitch),
// content, and what is done to it in flight (bit n for WireFault n).
using FrameObserver = std::function<void(Time start, int source, int destination, const std::vector<uint8_t>& bytes, uint32_t faults)>;
// ArrivalObserver gets the time of a frame's last byte as soon as that is known.
using ArrivalObserver = std::function<void(Time end, int source, int destination)>;

// WireCounts are the frames of one direction.
struct WireCounts {
  uint64_t sent = 0;
  uint64_t arrived = 0;  // and those announced; damaged ones are not among them
  uint64_t damaged = 0;
  uint64_t faults[WireFaults::kKinds] = {};  // by WireFault
};

class Link {
 public:
  // The parties at its ends: nodes, or kWireSwitch.
  Link(const Params& params, int a, int b);
  // What the wire does to frames; set before the first one, if at all.
  void SetFaults(WireFaults faults) { faults_ = std::move(faults); }
  void Connect(FrameSink* a, FrameSink* b);
  void AddObserver(FrameObserver observer) { observers_.push_back(std::move(observer)); }
  void AddArrivalObserver(ArrivalObserver observer) { arrival_observers_.push_back(std::move(observer)); }

  // What the PHYs at both ends see: the link, and the first time after t at which that may change.
  bool Up(Time t) const { return !faults_ || faults_->LinkUp(t); }
  Time NextChange(Time t) const { return faults_ ? faults_->NextLinkChange(t) : kNever; }

  // Earliest begin of the next preamble at that end.
  Time FreeAt(int end) const { return free_at_[end]; }
  // Sends one frame whose preamble begins at `t` or when the wire is free.
  // Returns the time at which the last byte of the FCS has left.
  Time Transmit(int end, Time t, const uint8_t* data, size_t bytes);
  // Of the frames that an end sent.
  const WireCounts& Counts(int end) const { return directions_[1 - end].counts; }

  // Earliest time at which a frame stops waiting to be overtaken, kNever if none waits.
  Time NextEvent() const { return next_event_; }
  // Does the work at exactly that time.
  void Step(Time t);

  // Holds the wire towards an end, or releases it, at time t. A frame transmitted meanwhile leaves
  // its sender as usual and is stored, as in a switch. At the release the stored frames continue
  // back to back at the wire's rate, and later ones follow them. Frames transmitted before are not
  // held. Repeating a call changes nothing.
  void Hold(int end, bool on, Time t);
  // Frames that are held towards that end.
  size_t Held(int end) const { return directions_[end].kept.size(); }

  // From the begin of the preamble to the last byte of the FCS at the receiver.
  Time Duration(size_t bytes) const { return preamble_ + static_cast<Time>(bytes) * byte_time_ + fcs_ + latency_; }

 private:
  struct Content {
    std::vector<uint8_t> bytes;
    bool damaged;
  };
  struct Kept {
    Time start;  // at the sender
    Content content;
  };
  // Behind is a frame that others shall overtake.
  struct Behind {
    uint64_t left;  // how many others still have to pass
    Time until;     // when it goes on at the latest
    int copies;
    Content content;
  };
  // Direction is the wire towards one end, behind its sender.
  struct Direction {
    FrameSink* sink = nullptr;
    bool held = false;
    std::deque<Kept> kept;
    Time free_at = INT64_MIN;  // later than the sender's only behind frames that were held or delayed
    std::deque<Behind> behind;
    WireCounts counts;
  };

  // Time that a frame and the gap behind it take of the wire.
  Time Occupancy(size_t bytes) const { return preamble_ + static_cast<Time>(bytes) * byte_time_ + fcs_ + gap_; }
  // The way of a frame to an end: Disturb, Pass, Carry.
  void Disturb(int end, Time start, WireFate fate, Content content);
  void Pass(int end, Time start, int copies, Content content);
  void Carry(int end, Time start, Content content);
  // Releases the frames that may wait until t at the latest.
  void GoOn(int end, Time t);
  void FindNextEvent();

  const int parties_[2];  // at the ends
  const Time byte_time_;
  const Time preamble_;
  const Time fcs_;
  const Time gap_;
  const Time latency_;
  Direction directions_[2];
  Time free_at_[2];
  std::optional<WireFaults> faults_;
  Time next_event_ = kNever;
  std::vector<FrameObserver> observers_;
  std::vector<ArrivalObserver> arrival_observers_;
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
