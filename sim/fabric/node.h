// SPDX-License-Identifier: Apache-2.0
// The interface between the fabric and a host's card, in both directions.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

#include "sim/fabric/link.h"
#include "sim/fabric/time.h"
#include "sim/gen/hvia_params.h"

namespace hvia::fabric {

class HostMemory;

// Fabric serves the nodes.
class Fabric {
 public:
  virtual ~Fabric() = default;
  // Completes the HostRead of a slot. Reads of one slot complete in order. The host sees the value
  // at `when`, but not before the instant after the present event.
  virtual void ReadComplete(int slot, uint32_t value, Time when) = 0;
  // Ends the run: the model has detected a fault.
  virtual void Fault(int node, const std::string& text) = 0;
};

// OutputError: a requested file cannot be written.
struct OutputError : std::runtime_error {
  static constexpr int kExit = 3;  // the exit code
  using std::runtime_error::runtime_error;
};

// Surroundings are the arguments from which a node is built.
struct Surroundings {
  int index = 0;
  std::string name;
  const Params* params = nullptr;
  uint64_t seed = 0;
  HostMemory* memory = nullptr;
  Fabric* fabric = nullptr;
  int nodes = 1;  // of the fabric
  LinkEnd link;   // unconnected when the fabric has one node
};

// Node is one host's card with everything between the card and the host's memory. All calls come
// from the simulation thread, with times that never decrease.
class Node : public FrameSink {
 public:
  // How long before time 0 the boot must start.
  virtual Time BootSpan() const = 0;
  // Starts the boot at that (negative) time. Step does its work.
  virtual void Boot(Time start) = 0;
  // Called at time 0. Empty when the node is usable, else the reason.
  virtual std::string NotReady() const = 0;

  // Earliest time with work, or kNever. Not before the time of the last call into the node.
  virtual Time NextEvent() const = 0;
  // Does the work that is due at t.
  virtual void Step(Time t) = 0;
  // True when the node alone will never again do anything that a host or the wire could see. A node
  // with housekeeping (refresh) overrides this, so that a deadlock is still found and free mode
  // sleeps.
  virtual bool Quiescent() const { return NextEvent() == kNever; }

  // As NextEvent, without housekeeping that PassOver can leave out.
  virtual Time NextVisible() const { return NextEvent(); }
  // Only housekeeping happens in any node before `until`: leaves it out, except the end of it.
  // Returns false if there is nothing to leave out.
  virtual bool PassOver(Time until) {
    (void)until;
    return false;
  }

  // A posted write burst of one slot's thread reaches the host bridge. It precedes the events of
  // its instant, except when a deadline woke the thread at that instant: then the node has already
  // made its step.
  virtual void HostWrite(Time t, int slot, uint32_t address, const uint32_t* data, int count) = 0;
  // Reads a register. Fabric::ReadComplete returns the value.
  virtual void HostRead(Time t, int slot, uint32_t address) = 0;
  // Asserts RST# of the system bus for `span`. Then the host configures the card again. Until that
  // is done, reads return all ones and writes are lost, also those in flight. Host memory is
  // unchanged. Returns false if this kind of node has no RST#.
  virtual bool BusReset(Time t, Time span) {
    (void)t, (void)span;
    return false;
  }
  // Core clocks simulated so far, without those skipped as idle.
  virtual uint64_t Clocks() const { return 0; }
  // Level of the interrupt line.
  virtual bool InterruptLevel() const = 0;
  // The run has ended: completes the node's files. Throws OutputError.
  virtual void Finish() {}
};

}  // namespace hvia::fabric
