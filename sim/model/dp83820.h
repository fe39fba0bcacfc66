// SPDX-License-Identifier: Apache-2.0
// The DP83820 Gigabit Ethernet controller at its pins: target and master of its PCI bus, transmit
// and receive engines with their FIFOs, and the wire side in picoseconds. It behaves as its drivers
// expect. Where they leave it open, it behaves as its 100 Mb/s sister DP83815, which has a data
// sheet. Registers and descriptors are those of the layout.
//
// Purely synchronous on the bus: call Tick once per PCI clock with the sampled pins and the time of
// that edge. drive() holds the chip's outputs during the next clock. Each byte of a frame has a
// time on the wire; the clock edges only determine when the bus side notices.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "sim/gen/hvia_params.h"
#include "sim/model/ethernet_fcs.h"
#include "sim/model/pci_bus.h"

namespace hvia {

// Dp83820Timing: the chip's delays. Clocks are clocks of its bus; times are in picoseconds.
struct Dp83820Timing {
  int react_clocks = 4;       // CR.TXE, or the end of a frame's status write, to the request for the next transmit descriptor
  int register_initial = 3;   // FRAME# to TRDY# of a register access, at least 2 (medium DEVSEL#)
  int read_wait_every = 0;    // data phases between IRDY# wait states of its reads, 0 = none
  int write_wait_every = 0;   // likewise of its writes
  int64_t transmit_delay = 250'000;  // FIFO to PHY
  int64_t receive_delay = 250'000;   // PHY to the FIFO
  int64_t byte_time = 8'000;
  int preamble_bytes = 8;
  int gap_bytes = 12;
  int transmit_fifo = 8192;   // bytes
  int receive_fifo = 32768;
  bool eager = false;         // works in every clock, also idle ones: the reference for skipping
};

// Dp83820TimingOf returns the timing of a profile.
Dp83820Timing Dp83820TimingOf(const Params& params);

struct Dp83820Statistics {
  uint64_t transmitted = 0;         // frames started on the wire and complete
  uint64_t transmit_underrun = 0;   // cut on the wire: the FIFO underran
  uint64_t transmit_dropped = 0;    // removed by a reset before they started on the wire
  uint64_t received = 0;            // status written with OK
  uint64_t received_bad = 0;        // status written without OK
  uint64_t filtered = 0;            // for another address
  uint64_t disabled = 0;            // the receiver was off when they started
  uint64_t rejected_bad = 0;        // FCS or symbol error, nothing reached the bus
  uint64_t rejected_long = 0;
  uint64_t rejected_runt = 0;
  uint64_t overrun = 0;             // exceeded the FIFO: lost, or truncated if a part was in memory
  uint64_t receive_dropped = 0;     // removed by a reset
  uint64_t parity_errors = 0;       // wrong PAR in data for the chip
  uint64_t retries = 0;             // its transactions that ended by STOP# without data
  uint64_t disconnects = 0;         // by STOP# after data
  uint64_t master_aborts = 0;
  uint64_t target_aborts = 0;
};

class Dp83820 {
 public:
  static constexpr int64_t kNever = INT64_MAX;

  // Arriving is a frame at the PHY's output: all bytes between preamble and gap.
  struct Arriving {
    std::vector<uint8_t> bytes;   // FCS included
    int64_t first_byte = 0;       // arrival of byte 0; the others follow at wire speed
    bool symbol_error = false;
  };
  // Sent is a frame at the PHY's input.
  struct Sent {
    std::vector<uint8_t> bytes;   // FCS included
    int64_t start = 0;            // start of the preamble
    bool cut = false;             // underrun or reset: ends early, without a good FCS
  };

  Dp83820(const Dp83820Timing& timing, int bus_bits);

  // RST#: as after power-on. A frame that is arriving is lost.
  void Reset(int64_t now);
  // Samples the pins of the clock that ends now.
  void Tick(const PciPins& pins, int64_t now);
  // True if Tick changes nothing before NextEvent() while the pins are unchanged.
  bool quiet() const { return steady_; }
  int64_t NextEvent() const;
  const PciDrive& drive() const { return drive_; }
  bool inta_n() const { return (isr_ & imr_) == 0 || (ier_ & 1) == 0; }

  // Sets the state of the link from `now` on. Without a link the chip reads frames into its FIFO as
  // usual, but starts none on the wire. It sends them when the link is back.
  void SetLink(bool up, int64_t now);

  // Announces a frame. Frames must be in the order of their times and not overlap.
  void Receive(Arriving frame);
  // Takes the oldest sent frame, if any. It is available at the first edge after its first bit has
  // left the FIFO, so before `start` if transmit_delay exceeds a clock. With a drain threshold
  // (TXCFG.DRTH) it is available only after its last byte has crossed the bus.
  bool PopSent(Sent* sent);

  const Dp83820Statistics& statistics() const { return stats_; }
  // The host's first misuse of the chip, or empty.
  const std::string& misuse() const { return misuse_; }

 private:
  enum class MasterState : uint8_t { kIdle, kAddress, kData, kTurn };
  enum class TargetState : uint8_t { kIdle, kDecode, kOffer, kStop, kTurn };
  enum class Space : uint8_t { kConfig, kRegisters };
  enum Client : uint8_t { kNobody, kTransmit, kReceive };
  enum class TxState : uint8_t { kIdle, kReact, kRefresh, kDescriptor, kRoom, kFragment, kStatus };
  enum class RxState : uint8_t { kIdle, kRefresh, kDescriptor, kData, kStatus };
  struct Descriptor {
    uint32_t link = 0, buffer = 0, command = 0, extended = 0;
  };
  // One burst of an engine, in one or more transactions.
  struct Job {
    bool active = false;
    Client client = kNobody;
    bool write = false;
    bool data = false;       // frame data, else a descriptor
    uint32_t address = 0;    // of dword 0
    int dwords = 0;
    int index = 0;           // dwords moved
    size_t base = 0;         // receive data: offset of dword 0 in the frame
    size_t bytes = 0;        // receive data: limit of the burst
  };
  struct TxFrame {
    std::vector<uint8_t> bytes;
    bool complete = false;
    bool suppress_fcs = false;
    bool ready = false, started = false, gone = false, cut = false;
    int64_t ready_at = 0;    // when the FIFO held enough to start
    int64_t start = 0;       // when its preamble leaves the FIFO
  };
  struct RxFrame {
    std::vector<uint8_t> bytes;
    int64_t first = 0;       // when byte 0 enters the FIFO
    size_t kept = 0;         // limit of the bytes for memory: the frame, or its truncated size
    size_t drained = 0;      // bytes in memory
    bool complete = false;   // the end is in the FIFO, status is known
    bool committed = false;  // a part may be in memory: it cannot be rejected any more
    bool overrun = false;    // a frame before it was lost, or it was truncated
    bool symbol_error = false;
    uint32_t status = 0;
  };

  void Work(const PciPins& p);
  // Wire
  void WireIn();
  void Accept(Arriving frame);
  bool Filtered(const std::vector<uint8_t>& bytes, uint32_t* destination_class) const;
  void Finish(RxFrame* frame);
  bool Reject(const RxFrame& frame);
  size_t Arrived(const RxFrame& frame) const;
  size_t ReceiveHeld() const;
  void Overflow();
  void WireOut();
  void Send(TxFrame* frame);
  int64_t Left(const TxFrame& frame) const;
  int64_t TransmitHeld() const;
  // Engines
  void Engines();
  void TransmitGo();
  void ReceiveGo();
  void TransmitDescriptor();
  void TransmitBurstDone();
  void TransmitStatusDone();
  void ReceiveDescriptor();
  void ReceiveBurstDone();
  void ReceiveStatusDone();
  void TransmitReset();
  void ReceiveReset();
  void StopEngines();
  bool TransmitWants() const;
  bool ReceiveWants() const;
  bool Follows() const;
  int64_t TransmitNeeds() const;
  bool ReceiveBurstReady() const;
  size_t Burst(uint32_t config) const;
  void JobDone();
  // Master
  void MasterTick(const PciPins& p);
  void MasterBegin();
  void MasterOffer(const PciPins& p);
  void MasterReady(const PciPins& p);
  void MasterPhase();
  void MasterFinish();
  void Choose();
  void Trim(int phase);
  bool Wide() const { return asked64_ && (!selected_ || wide_); }
  uint32_t Give(int index, uint8_t* byte_enables) const;
  void Take(uint32_t data);
  void Request();
  // Target
  void TargetTick(const PciPins& p);
  void TargetOffer(const PciPins& p);
  void TargetFinish();
  uint32_t ReadTarget() const;
  void WriteTarget(uint32_t data, uint8_t byte_enables);
  void ReadDone();
  uint32_t ReadConfig(uint32_t offset) const;
  void WriteConfig(uint32_t offset, uint32_t data, uint32_t mask);
  uint32_t ReadRegister(uint32_t offset) const;
  void WriteRegister(uint32_t offset, uint32_t data, uint32_t mask);
  void Command(uint32_t strobes);
  void CheckParity(const PciPins& p);
  void Misuse(const std::string& text);
  void Drive(uint16_t lines) { drive_.oe = static_cast<uint16_t>(drive_.oe | lines); }
  void Release(uint16_t lines) { drive_.oe = static_cast<uint16_t>(drive_.oe & ~lines); }
  uint32_t DescriptorBytes() const;

  const Dp83820Timing timing_;
  const bool wide_bus_;
  int64_t now_ = INT64_MIN;
  PciDrive drive_;
  bool steady_ = false;
  uint16_t steady_high_ = 0;
  Dp83820Statistics stats_;
  std::string misuse_;

  // Configuration space and registers
  uint32_t pci_command_ = 0, pci_status_ = 0;  // both at their bits of the dword
  uint32_t pci_header_ = 0, pci_interrupt_ = 0, bar0_ = 0, bar1_ = 0;
  uint32_t cfg_ = 0, isr_ = 0, imr_ = 0, ier_ = 0, txcfg_ = 0, rxcfg_ = 0, rfcr_ = 0;
  uint32_t txdp_ = 0, rxdp_ = 0;
  std::array<uint8_t, 6> station_ = {};

  // Target
  TargetState target_ = TargetState::kIdle;
  Space space_ = Space::kConfig;
  uint32_t target_address_ = 0;
  uint32_t target_data_ = 0;
  bool target_read_ = false;
  int target_age_ = 0;
  bool was_frame_n_ = true;
  bool parity_due_ = false;      // PAR of this clock covers the data that the chip took in the last one
  bool parity_master_ = false;
  bool parity_value_ = false, parity64_due_ = false, parity64_value_ = false;

  // Master
  MasterState master_ = MasterState::kIdle;
  Job job_;
  Client last_ = kNobody;        // owner of the last burst while the other one waits
  int wait_ = 0, age_ = 0, latency_ = 0, backoff_ = 0;
  int phases_ = 0;               // data phases of this transaction
  bool selected_ = false, aborted_ = false, moved_ = false, stopped_ = false;
  bool asked64_ = false, wide_ = false;

  // Transmit
  TxState tx_ = TxState::kIdle;
  int react_ = 0;
  bool tx_disable_ = false;
  bool tx_done_ = false;         // the descriptor at TXDP is done, its link was 0
  Descriptor tx_descriptor_;
  bool tx_cut_ = false;          // the frame of the status was cut on the wire
  bool tx_open_ = false;         // the last frame of the FIFO is incomplete
  uint32_t tx_cursor_ = 0;       // next byte of the fragment
  uint32_t tx_left_ = 0;         // bytes of the fragment
  std::deque<TxFrame> tx_fifo_;
  int64_t wire_free_ = INT64_MIN;
  bool link_ = true;
  std::deque<Sent> sent_;

  // Receive
  RxState rx_ = RxState::kIdle;
  bool rx_enabled_ = false;
  bool rx_halt_ = false;         // CR.RXD: idle after the present frame
  bool rx_done_ = false;
  Descriptor rx_descriptor_;
  uint32_t rx_cursor_ = 0;
  uint32_t rx_space_ = 0;        // bytes left in the buffer
  uint32_t rx_stored_ = 0;       // bytes in the buffer
  bool rx_more_ = false;         // the present status is not the frame's last
  uint32_t rx_status_ = 0;
  bool rx_lost_ = false;         // a frame was lost: the next status reports it
  std::deque<Arriving> coming_;
  std::deque<RxFrame> rx_fifo_;
};

}  // namespace hvia
