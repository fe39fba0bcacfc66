// SPDX-License-Identifier: Apache-2.0
// A plain Ethernet NIC, used by the baselines. It has the card's raw-frame port and nothing else.
// The model is event-driven: system bus, wire and firmware take time, the logic between them takes
// none.
//
// System bus: one burst at a time, in the order of the requests, each with the host bridge's
// timing.
//
// Transmit: a write of the tail reaches the ring after the firmware's time. Then the NIC reads
// entries ahead, gathers the pieces of a frame from memory one by one, and sends the frame when it
// is complete. Meanwhile it reads the next frame, as long as a buffer is free.
//
// Receive: a frame that has arrived waits in the FIFO for the firmware's time. Then it is written
// to the next buffer, or dropped if there is none.
//
// When software restarts a ring, bursts in flight run to their end and do not affect the new ring.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include "sim/fabric/host_memory.h"
#include "sim/fabric/node.h"
#include "sim/fabric/recorder.h"
#include "sim/gen/hvia_layout.h"

namespace hvia::fabric {

class PlainNic : public Node {
 public:
  PlainNic(const Surroundings& s, Recorder* recorder);

  Time BootSpan() const override;
  void Boot(Time start) override;
  std::string NotReady() const override;
  Time NextEvent() const override;
  void Step(Time t) override;
  void HostWrite(Time t, int slot, uint32_t address, const uint32_t* data, int count) override;
  void HostRead(Time t, int slot, uint32_t address) override;
  bool BusReset(Time t, Time span) override;
  bool InterruptLevel() const override { return (status_ & enable_) != 0; }
  void Deliver(Frame frame) override;

 private:
  using Action = std::function<void(Time)>;
  // Called at a burst's end with: time, whether a target claimed it, bytes.
  using Done = std::function<void(Time, bool, const std::vector<uint8_t>&)>;
  // What cancels an event.
  enum class Kind {
    kWire,  // nothing (a frame arrives)
    kBoot,  // RST# (the host finds the NIC)
    kHost,  // RST# (an access to the registers)
    kChip,  // RST# and a soft reset
    kTail,  // as kChip, and a new start of the transmit ring
  };
  struct Event {
    Kind kind;
    Action act;
  };
  struct Entry {
    uint32_t address = 0, length = 0, index = 0;
    bool bad = false;  // its read failed
    bool More() const { return (length & kRawEntryLengthMoreMask) != 0; }
    uint32_t Bytes() const { return length & kRawEntryLengthBytesMask; }
    // Its length is valid, and its buffer lies inside one page.
    bool Usable(bool transmit) const;
  };
  // A ring as software configured it, and the NIC's view of it.
  struct Ring {
    bool transmit = false;
    uint64_t start = 0;  // number of starts
    int bursts = 0;      // in flight
    uint32_t base = 0, log2 = 0, tail = 0, head = 0;
    uint32_t known = 0;         // tail as the NIC knows it
    uint32_t fetch = 0;         // next entry to read
    bool fetching = false;      // a burst of entries is in flight
    std::deque<Entry> entries;  // read, not started
    uint32_t Mask() const { return (1u << log2) - 1; }
    bool Busy() const { return bursts != 0 || !entries.empty(); }
  };
  // How frames raise a cause.
  struct Moderation {
    uint32_t cause = 0;
    uint32_t time_ns = 0, frames = 0;  // the registers
    uint32_t unreported = 0;
    Time first = 0;  // time of the first unreported frame
    bool Full() const { return unreported != 0 && (time_ns == 0 || (frames != 0 && unreported >= frames)); }
  };

  static constexpr uint32_t kNobody = 0xffffffffu;  // the value of a read that no target claims
  static constexpr uint32_t kCauses = kRegisterInterruptStatusRawReceiveMask | kRegisterInterruptStatusRawTransmitMask | kRegisterInterruptStatusBusErrorMask;

  void At(Time t, Kind kind, Action act);
  void Forget(std::initializer_list<Kind> kinds);
  Time Deadline(const Moderation& m) const;
  void Count(uint32_t counter, uint64_t n = 1) { counters_[counter] += static_cast<uint32_t>(n); }

  // The system clock's edge at or after t.
  Time Edge(Time t) const;
  // Takes the bus as soon as it is free, for the NIC or for the host. Returns when the bus is free
  // again.
  Time TakeBus(Time t, int64_t clocks, bool ours);
  int64_t BurstClocks(bool write, uint32_t address, uint32_t bytes) const;
  // A read fetches bytes.size() bytes.
  void Burst(Time t, Ring& ring, bool write, uint32_t address, std::vector<uint8_t> bytes, Done done);
  void ReadMemory(uint32_t address, std::vector<uint8_t>* bytes);
  void WriteMemory(uint32_t address, const std::vector<uint8_t>& bytes);

  void Write(Time t, uint32_t offset, uint32_t v);
  uint32_t Read(uint32_t offset) const;
  bool Quiet() const;
  static uint32_t RingLog2(uint32_t v);
  void StartRing(Time t, Ring& ring, uint32_t base, uint32_t log2);
  void LearnTail(Time t);
  void SoftReset();
  void ResetRegisters();
  void CountInterrupt();
  void Raise(uint32_t cause);
  void Raise(Moderation& m);
  void Notify(Time t, Moderation& m);

  static uint32_t EntryAddress(const Ring& ring, uint32_t index);
  void Fetch(Time t, Ring& ring);
  void Return(Time t, Ring& ring, const Entry& e, uint32_t status, bool notify);

  void Transmit(Time t);
  void Refuse(Time t);
  void ReadPiece(Time t, uint32_t address, uint32_t left);
  void EndFrame(Time t);
  void Send(Time t);

  void Arrive(Time t, const std::vector<uint8_t>& frame);
  void PopFrame();
  void Receive(Time t);
  void RefuseBuffer(Time t, const Entry& e);
  void Store(Time t, const Entry& e, uint32_t from);

  const Surroundings s_;
  Recorder* const recorder_;
  std::map<std::pair<Time, uint64_t>, Event> events_;  // by time, then by creation
  uint64_t next_ = 0;
  Time now_ = INT64_MIN;  // latest time seen in any call
  Time bus_free_ = INT64_MIN;
  bool configured_ = false;
  Time configured_at_ = INT64_MIN;
  std::deque<int> reads_;  // slots of register reads in flight

  bool on_ = false;         // Control.Enable
  bool resetting_ = false;  // Control.SoftReset
  int bursts_ = 0;          // in flight, of both rings
  uint32_t status_ = 0, enable_ = 0;
  bool line_ = false;  // the interrupt level that was counted last
  uint8_t mac_[6] = {};
  Ring tx_, rx_;
  Moderation tx_moderation_, rx_moderation_;
  uint32_t counters_[kCounterSlots] = {};

  // The frame that is being gathered.
  bool started_ = false;
  bool rejected_ = false;  // its remaining entries complete with Error
  bool reading_ = false;
  std::vector<Entry> pieces_;
  std::vector<uint8_t> frame_;
  // Frames that were read and have not left. The first one is on the wire.
  std::deque<std::vector<uint8_t>> out_;
  bool sending_ = false;

  std::deque<std::vector<uint8_t>> fifo_;
  uint64_t fifo_bytes_ = 0;
  size_t ready_ = 0;  // frames of the FIFO that the firmware has processed
  bool storing_ = false;
};

}  // namespace hvia::fabric
