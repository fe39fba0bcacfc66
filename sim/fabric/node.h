// SPDX-License-Identifier: Apache-2.0
// What the fabric knows of a host's card and what a card knows of the fabric.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

#include "sim/fabric/link.h"
#include "sim/fabric/time.h"
#include "sim/gen/hvia_params.h"

namespace hvia::fabric {

class HostMemory;

// Fabric is what a node may ask of its surroundings.
class Fabric {
 public:
  virtual ~Fabric() = default;
  // Answers the HostRead of a slot. Reads of one slot are answered in order.
  // The host sees the value at `when`, but never before the instant after the
  // event in which this is called.
  virtual void ReadComplete(int slot, uint32_t value, Time when) = 0;
  // Ends the run: the model has found something that must not happen.
  virtual void Fault(int node, const std::string& text) = 0;
};

// OutputError: a file that was asked for cannot be written.
struct OutputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Surroundings is what a node is built with.
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

// Node is one host's card with everything between it and the host's memory.
// All calls come from the simulation thread, with times that never go back.
class Node : public FrameSink {
 public:
  // How long before time 0 the node must begin to be ready at time 0.
  virtual Time BootSpan() const = 0;
  // Starts the boot at that (negative) time; its work is done in Step.
  virtual void Boot(Time start) = 0;
  // Asked at time 0: empty when the node is usable, else what it lacks.
  virtual std::string NotReady() const = 0;

  // Earliest time with work, kNever if there is none and no timer runs. Not
  // before the time of the last call into the node.
  virtual Time NextEvent() const = 0;
  // Does the work at exactly that time.
  virtual void Step(Time t) = 0;
  // True when the node, left alone, will never again do anything that a host
  // or the wire could see. A node with housekeeping (refresh)
  // overrides this, so that a deadlock is still found and free mode sleeps.
  virtual bool Quiescent() const { return NextEvent() == kNever; }

  // A posted write burst of one slot's thread reaches the host bridge. It
  // comes before the events of its instant, except when a thread was woken
  // by a deadline at that instant: then the node has already made its step.
  virtual void HostWrite(Time t, int slot, uint32_t address, const uint32_t* data, int count) = 0;
  // A register read; answered by Fabric::ReadComplete.
  virtual void HostRead(Time t, int slot, uint32_t address) = 0;
  // RST# of the system bus from now on and for that span; then the host
  // configures the card again. Until that is done reads give all ones and
  // writes are lost, those in flight as well. Host memory stays. False if this
  // kind of node has no such line.
  virtual bool BusReset(Time t, Time span) {
    (void)t, (void)span;
    return false;
  }
  // Level of the interrupt line.
  virtual bool InterruptLevel() const = 0;
  // The run has ended: completes the files of the node. Throws OutputError.
  virtual void Finish() {}
};

}  // namespace hvia::fabric
