// SPDX-License-Identifier: Apache-2.0
// A full-duplex Ethernet cable between two nodes, or between a node and the switch, with the PHYs
// at its ends. The two ends exchange only frames with times.
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

// Frame is an Ethernet frame at the receiver.
struct Frame {
  std::vector<uint8_t> bytes;  // without preamble and FCS
  Time first_byte = 0;  // arrival of the first byte of the frame
  Time last_byte = 0;   // arrival of the last byte of the FCS
};

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // Announces a frame in advance. The sink does nothing before the frame's times.
  virtual void Deliver(Frame frame) = 0;
  // Announces a damaged frame. It has at least one byte between preamble and gap, and no good FCS.
  // A receiver that keeps only good frames ignores it.
  virtual void DeliverDamaged(Frame frame) { (void)frame; }
};

// FrameObserver sees every frame that enters a cable: start of its preamble at the sender, sender,
// receiver (a node, or kWireSwitch), content, and its injected faults (bit n for WireFault n).
using FrameObserver = std::function<void(Time start, int source, int destination, const std::vector<uint8_t>& bytes, uint32_t faults)>;
// ArrivalObserver receives the time of a frame's last byte as soon as the link knows it.
using ArrivalObserver = std::function<void(Time end, int source, int destination)>;

// WireCounts are the frames of one direction.
struct WireCounts {
  uint64_t sent = 0;
  uint64_t arrived = 0;  // includes announced frames, not damaged ones
  uint64_t damaged = 0;
  uint64_t faults[WireFaults::kKinds] = {};  // by WireFault
};

class Link {
 public:
  // The parties at the ends: nodes, or kWireSwitch.
  Link(const Params& params, int a, int b);
  // Injects faults. Call it before the first frame.
  void SetFaults(WireFaults faults) { faults_ = std::move(faults); }
  void Connect(FrameSink* a, FrameSink* b);
  void AddObserver(FrameObserver observer) { observers_.push_back(std::move(observer)); }
  void AddArrivalObserver(ArrivalObserver observer) { arrival_observers_.push_back(std::move(observer)); }

  // The link state that both PHYs see, and the first time after t at which it may change.
  bool Up(Time t) const { return !faults_ || faults_->LinkUp(t); }
  Time NextChange(Time t) const { return faults_ ? faults_->NextLinkChange(t) : kNever; }

  // Earliest start of the next preamble at that end.
  Time FreeAt(int end) const { return free_at_[end]; }
  // Sends one frame. Its preamble starts at `t`, or when the wire is free. Returns when the last
  // byte of the FCS has left.
  Time Transmit(int end, Time t, const uint8_t* data, size_t bytes);
  // Counts of the frames that an end sent.
  const WireCounts& Counts(int end) const { return directions_[1 - end].counts; }

  // Earliest time at which a frame stops waiting to be overtaken, or kNever.
  Time NextEvent() const { return next_event_; }
  // Does the work that is due at t.
  void Step(Time t);

  // Holds the wire towards an end, or releases it, at time t. A frame transmitted meanwhile leaves
  // its sender as usual and is stored, as in a switch. At the release the stored frames continue
  // back to back at the wire's rate, and later ones follow them. Frames transmitted before are not
  // held. Repeating a call changes nothing.
  void Hold(int end, bool on, Time t);
  size_t Held(int end) const { return directions_[end].kept.size(); }

  // From the start of the preamble to the arrival of the last byte of the FCS.
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
  // Behind is a frame that waits until others have overtaken it.
  struct Behind {
    uint64_t left;  // number of frames that still have to pass
    Time until;     // latest time at which it continues
    int copies;
    Content content;
  };
  // Direction is the wire towards one end, after its sender.
  struct Direction {
    FrameSink* sink = nullptr;
    bool held = false;
    std::deque<Kept> kept;
    Time free_at = INT64_MIN;  // later than the sender's after held or delayed frames
    std::deque<Behind> behind;
    WireCounts counts;
  };

  // Time for which a frame and the gap after it occupy the wire.
  Time Occupancy(size_t bytes) const { return preamble_ + static_cast<Time>(bytes) * byte_time_ + fcs_ + gap_; }
  // The stages that each frame passes, in this order.
  void Disturb(int end, Time start, WireFate fate, Content content);
  void Pass(int end, Time start, int copies, Content content);
  void Carry(int end, Time start, Content content);
  // Releases the frames whose time limit is at most t.
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
