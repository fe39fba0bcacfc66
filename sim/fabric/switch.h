// SPDX-License-Identifier: Apache-2.0
// A learning Ethernet switch, store and forward, with a cable to a node in each
// of its ports.
//
// A frame is judged when its last byte is there. A wrong FCS: it is dropped.
// Else its source address is learned as behind its port, and it goes into the
// output queue of the port behind which its destination is, or of all others if
// that is not known or is a group. An address from which no frame came for
// SwitchAgeingTime is forgotten. The table is aged when a good frame arrives,
// before anything else is done with it.
//
// A frame takes room of a queue, its bytes and FCS, from then on until its last
// byte has left the port. One that finds no room is dropped. Of several inputs
// those that were refused come first: each of them, in the order in which they
// were, has the room of one largest frame kept for it, until it is served or
// the queue is empty. Real senders drift against each other; here their frames
// may keep step for ever, and without this the one whose frame comes just
// before another's would take every room that gets free.
//
// It leaves after the latency of the switch, in the order of the queue, at the
// rate of the wire. There is no PAUSE. What happens at one instant happens in
// this order: rooms get free, frames arrive, frames leave, each by port number.
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

// SwitchPortCounts are those of layout's SwitchPort.
struct SwitchPortCounts {
  uint64_t received = 0, wrong_fcs = 0, filtered = 0, flooded = 0, moved = 0, unlearned = 0;
  uint64_t forwarded = 0, no_room = 0, highest_filling = 0, aged = 0;
};

class Switch {
 public:
  // One plug for each port, which is the switch's end of a cable.
  Switch(const Params& params, const std::vector<LinkEnd>& plugs);
  FrameSink* Sink(size_t port) { return &ports_[port]; }

  // Earliest arrival that is announced, or departure; kNever if there is none.
  Time NextEvent() const;
  // Does the work at exactly that time.
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
    std::deque<Arrival> arriving;  // announced, in the order of their ends: a cable keeps it
    std::deque<Waiting> queue;
    uint64_t filling = 0;       // bytes of the queue and of the frame that leaves
    uint64_t leaving = 0;       // bytes of that frame
    Time left = kNever;         // when its last byte has left
    std::deque<size_t> refused;  // inputs whose last frame found no room, the longest waiting first
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
