// SPDX-License-Identifier: Apache-2.0
// A learning Ethernet switch, store and forward, with a cable to a node in each of its ports.
//
// The switch handles a frame when its last byte arrives. It drops a frame with a wrong FCS. Else it
// learns the source address and queues the frame at the port of its destination, or at all other
// ports if the destination is unknown or a group. It forgets an address that sent no frame for
// SwitchAgeingTime, and ages the table when a good frame arrives.
//
// A frame occupies its bytes and FCS in the queue until its last byte has left the port. A frame
// that does not fit is dropped, and its input becomes starved. Starved inputs, oldest first, have
// the space of one largest frame reserved until they are served or the queue is empty. Real senders
// drift against each other. Here frames may keep step forever, and without the reservation an input
// whose frame comes just before another's would take all free space.
//
// A frame leaves after the latency of the switch, in the order of the queue, at the rate of the
// wire. There is no PAUSE. Order within one instant: space is freed, frames arrive, frames leave,
// each by port number.
#pragma once
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <vector>

#include "sim/fabric/link.h"
#include "sim/fabric/time.h"
#include "sim/gen/hvia_params.h"

namespace hvia::fabric {

// SwitchPortCounts are the counters of layout's SwitchPort.
struct SwitchPortCounts {
  uint64_t received = 0, wrong_fcs = 0, filtered = 0, flooded = 0, moved = 0, unlearned = 0;
  uint64_t forwarded = 0, no_room = 0, highest_filling = 0, aged = 0;
};

class Switch {
 public:
  // Each port gets one plug, the switch's end of a cable.
  Switch(const Params& params, const std::vector<LinkEnd>& plugs);
  FrameSink* Sink(size_t port) { return &ports_[port]; }

  // Earliest announced arrival, or departure; kNever if there is none.
  Time NextEvent() const;
  // Does the work that is due at t.
  void Step(Time t);
  const SwitchPortCounts& Counts(size_t port) const { return ports_[port].counts; }

 private:
  struct Arrival {
    Frame frame;
    bool damaged;
  };
  struct Waiting {
    Time ready;
    std::vector<uint8_t> bytes;
  };
  struct Entry {
    uint64_t address;
    size_t port;
    Time heard;  // when the last frame from it arrived
  };
  struct Port : FrameSink {
    void Deliver(Frame frame) override { arriving.push_back({std::move(frame), false}); }
    void DeliverDamaged(Frame frame) override { arriving.push_back({std::move(frame), true}); }

    LinkEnd plug;
    std::deque<Arrival> arriving;  // announced, in the order of their ends, as the cable delivers
    std::deque<Waiting> queue;
    uint64_t filling = 0;       // bytes of the queue and of the leaving frame
    uint64_t leaving = 0;       // bytes of the leaving frame
    Time left = kNever;         // when its last byte has left
    std::deque<size_t> starved;  // starved inputs, the longest waiting first
    SwitchPortCounts counts;
  };

  uint64_t Size(size_t bytes) const { return bytes + fcs_bytes_; }
  static Time NextStart(const Port& out);
  static void FreeRoom(Port* out, Time t);
  void Receive(size_t port, Time t, Arrival arrival);
  void Age(Time t);
  void Learn(size_t port, Time t, uint64_t address);
  void Enqueue(size_t from, Port* out, Time t, const std::vector<uint8_t>& bytes);

  const Time latency_;
  const uint64_t room_, fcs_bytes_;
  const size_t table_entries_;
  const Time ageing_;
  std::vector<Port> ports_;
  std::list<Entry> entries_;  // the table, the longest unheard address first
  std::map<uint64_t, std::list<Entry>::iterator> table_;  // by address
};

}  // namespace hvia::fabric
