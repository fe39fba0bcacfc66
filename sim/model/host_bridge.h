// SPDX-License-Identifier: Apache-2.0
// The host's side of the PCI segment: central arbiter, target for host memory, and the master that
// executes the processor's stores and loads. Purely synchronous: call Tick once per PCI clock with
// the sampled pins. drive(), gnt_n() and idsel() hold the bridge's outputs during the next clock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>

#include "sim/gen/hvia_params.h"
#include "sim/model/host_memory_port.h"
#include "sim/model/pci_bus.h"
#include "sim/model/splitmix.h"

namespace hvia {

// HostBridgeTiming: the bridge's delays, in PCI clocks.
struct HostBridgeTiming {
  int arbitration = 2;    // REQ# sampled to GNT# driven, at least 1
  int devsel = 2;         // address phase to DEVSEL#: 1 fast, 2 medium, 3 slow
  int read_initial = 8;   // address phase to the first TRDY# of a read, at least devsel and 2
  int write_initial = 2;  // address phase to the first TRDY# of a write, at least devsel
  int read_wait_every = 0;   // dwords between wait states inside a read burst, 0 = none
  int write_wait_every = 0;  // dwords between wait states inside a write burst, 0 = none
  int wait_clocks = 1;       // wait states each time, at most 7
  int posted_write = 1;   // Post to FRAME# on an idle bus, at least 1
};

// HostBridgeTimingOf returns the timing of a profile.
HostBridgeTiming HostBridgeTimingOf(const Params& params);

// HostBridgeNoise: probabilities in 1/1000, for unit tests. Only the seed decides. With all zero
// the bridge behaves the same every time.
struct HostBridgeNoise {
  uint64_t seed = 1;
  int retry = 0;         // retry of a card's transaction
  int disconnect = 0;    // disconnect of a data phase, with or without data
  int target_abort = 0;  // target abort of a card's transaction
  int wait = 0;          // 1 to 5 wait states in a data phase (also on IRDY# as master)
  int devsel = 0;        // fast or slow DEVSEL#
  int narrow = 0;        // a 64-bit transaction gets 32 bits
  int grant_loss = 0;    // loss of GNT#, per clock
  int bad_parity = 0;    // inverted PAR, per clock driven
  int bad_data = 0;      // bad parity of a data phase, in either direction
  int perr = 0;          // PERR# for a data phase that the card wrote
  int split = 0;         // a burst of stores ends after a dword; a store of another source may come before the rest
};

struct HostCommand {
  enum Kind : uint8_t { kConfigRead, kConfigWrite, kMemoryRead, kMemoryWrite };
  static constexpr int kMaxDwords = 8;
  Kind kind = kMemoryWrite;
  uint32_t address = 0;  // aligned; for a configuration access the register's offset
  int count = 1;         // dwords; 1 for all but kMemoryWrite
  uint32_t data[kMaxDwords] = {};
  uint8_t byte_enables[kMaxDwords] = {15, 15, 15, 15, 15, 15, 15, 15};
  uint64_t token = 0;  // returned with the result
  uint16_t bad_parity = 0;  // bit 0: of the address phase, bit 1 + n: of dword n
  int source = 0;      // the thread; stores of one thread stay in order
};

struct HostResult {
  enum Status : uint8_t { kOk, kMasterAbort, kTargetAbort, kRetryLimit };
  Status status = kOk;
  HostCommand::Kind kind = HostCommand::kMemoryWrite;
  uint64_t token = 0;
  uint32_t data = 0;      // of a read
  uint64_t posted = 0;    // clock of Post
  uint64_t begin = 0;     // clock of the first address phase
  uint64_t done = 0;      // clock of the last data phase
  int retries = 0;        // transactions ended by STOP# without data
  int disconnects = 0;    // ended by STOP# after data, with dwords left
};

const char* HostResultStatusName(HostResult::Status status);

class HostBridge {
 public:
  // bits: 32, or 64 if the bridge moves 64 bits for a master that requests it. As a master it uses
  // 32.
  HostBridge(HostMemoryPort* memory, const HostBridgeTiming& timing, int bits = 32);
  void SetTiming(const HostBridgeTiming& timing);
  void SetNoise(const HostBridgeNoise& noise);

  // Samples the pins of the clock that ends here.
  void Tick(const PciPins& pins) {
    clock_++;
    if (steady_ && queue_.empty() && pins.req_n && pins.high == steady_high_) return;
    Work(pins);
  }
  // Skips clocks in which nothing happened. Only while quiet().
  void Skip(uint64_t clocks) { clock_ += clocks; }
  // True if Tick changes nothing while the pins are unchanged and nothing is posted.
  bool quiet() const { return steady_ && queue_.empty() && results_.empty(); }

  const PciDrive& drive() const { return drive_; }
  bool gnt_n() const { return gnt_n_; }
  bool idsel() const { return idsel_; }
  uint64_t clock() const { return clock_; }

  // The card's next read of the dword at this address gets bad parity.
  void SpoilRead(uint32_t address) { spoiled_ = address & ~3u; }

  // RST#: the bridge releases the bus too. Pending commands end in master abort.
  void Reset();

  // Commands are executed one by one, in order.
  void Post(const HostCommand& command);
  size_t pending() const { return queue_.size(); }
  // Takes the oldest result, if any.
  bool PopResult(HostResult* result);

 private:
  enum class MasterState : uint8_t { kIdle, kAddress, kData, kTurn };
  enum class TargetState : uint8_t { kIdle, kDecode, kWait, kOffer, kStop, kTurn };
  struct Entry {
    HostCommand command;
    HostResult result;
    int index = 0;  // dword at which it continues after a split
  };

  void Work(const PciPins& p);
  void Arbitrate(const PciPins& p);
  void MasterTick(const PciPins& p);
  void MasterBegin();
  void MasterOffer();
  void MasterFinish();
  void MasterYield();
  void Complete(HostResult::Status status);
  void TargetTick(const PciPins& p);
  void TargetOffer();
  void TargetNextPhase();
  void TargetStop();
  void TargetFinish();
  bool Chance(int permille);
  void Drive(uint16_t lines) { drive_.oe |= lines; }
  void Release(uint16_t lines) { drive_.oe &= static_cast<uint16_t>(~lines); }

  static constexpr uint32_t kNowhere = ~0u;

  HostMemoryPort* memory_;
  int bits_;
  uint16_t parity_lines_;
  HostBridgeTiming timing_;
  HostBridgeNoise noise_;
  bool noisy_ = false;
  SplitMix random_{1};
  uint64_t clock_ = 0;
  PciDrive drive_;
  bool steady_ = false;
  uint16_t steady_high_ = 0;
  bool gnt_n_ = true;
  bool idsel_ = false;

  // Arbiter
  bool was_gnt_n_ = true;       // as sampled one clock earlier
  bool was_frame_n_ = true;
  int request_clocks_ = 0;
  int grant_idle_clocks_ = 0;
  bool bridge_turn_ = false;    // the card had a turn while the bridge was waiting
  bool card_on_bus_ = false;    // the transaction is the card's

  // Master
  std::deque<Entry> queue_;
  std::deque<HostResult> results_;
  MasterState master_ = MasterState::kIdle;
  int index_ = 0;               // dword of the present data phase
  int wait_ = 0;                // clocks until IRDY#
  int age_ = 0;                 // clocks since the address phase
  int backoff_ = 0;
  bool selected_ = false, aborted_ = false, moved_ = false;
  bool split_ = false;          // the burst is split after the present data phase

  // Target
  TargetState target_ = TargetState::kIdle;
  uint32_t address_ = 0;
  bool read_ = false;
  int target_age_ = 0;          // clocks since the address phase
  int devsel_ = 2;              // of this transaction
  int target_wait_ = 0;         // clocks until TRDY#
  bool wide_ = false;           // 64 bits for each data phase
  uint32_t dwords_ = 0;
  bool retry_ = false, target_abort_ = false;
  uint32_t spoiled_ = kNowhere;
  int perr_clocks_ = 0;         // PERR#: 3 with PAR, 2 asserted, 1 driven high

  bool bad_ad_ = false;         // the data on AD gets bad parity
};

}  // namespace hvia
