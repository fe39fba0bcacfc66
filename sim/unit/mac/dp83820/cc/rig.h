// SPDX-License-Identifier: Apache-2.0
// The DP83820's model on a bus with a host: memory that tracks the owner of each byte, a driver's
// register accesses, and both sides of the wire.
#pragma once
#include <algorithm>
#include <cinttypes>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "sim/unit/internal/unit/testbench.h"
#include "sim/gen/hvia_layout.h"
#include "sim/model/dp83820.h"
#include "sim/model/host_bridge.h"
#include "sim/model/pci_bus.h"

namespace testbench {

using hvia::Dp83820;
using hvia::HostBridge;
using hvia::HostCommand;
using hvia::HostResult;
using hvia::PciBus;
using unit::Fail;

using Bytes = std::vector<uint8_t>;

constexpr int64_t kClock = 30'000;  // ps
constexpr uint32_t kOwn = hvia::kMacDescriptorCommandStatusOwnMask;
constexpr uint32_t kOk = hvia::kMacDescriptorCommandStatusOKMask;
constexpr uint32_t kMore = hvia::kMacDescriptorCommandStatusMoreMask;
constexpr uint32_t kSize = hvia::kMacDescriptorCommandStatusSizeMask;
constexpr uint32_t kDescriptor = hvia::kMacDescriptorStride;
constexpr uint8_t kGuard = 0xa5;

// Memory that the chip may write only at bytes that the driver gave it.
class Memory : public hvia::HostMemoryPort {
 public:
  static constexpr uint32_t kBytes = 1 << 17;
  Memory() : bytes_(kBytes, kGuard), chips_(kBytes, 0) {}

  uint32_t ReadDword(uint32_t address) override {
    if (address + 4 > kBytes) Fail("the chip reads at %#" PRIx32 ", beyond what it was given", address);
    // The driver must not touch a descriptor between the chip's reads of its first and last dword.
    if (address < rings_) inside_ = (address % kDescriptor) / 4 + 1 < descriptor_dwords_;
    return Get(address);
  }
  void WriteDword(uint32_t address, uint32_t data, uint8_t byte_enables) override {
    for (uint32_t i = 0; i < 4; ++i) {
      if (!(byte_enables >> i & 1)) continue;
      if (address + i >= kBytes || !chips_[address + i]) Fail("the chip writes at %#" PRIx32 ", which it was not given", address + i);
      bytes_[address + i] = static_cast<uint8_t>(data >> (8 * i));
      ++written_;
    }
  }
  void BurstEnd() override {}

  uint32_t Get(uint32_t address) const {
    return bytes_[address] | uint32_t{bytes_[address + 1]} << 8 | uint32_t{bytes_[address + 2]} << 16 | uint32_t{bytes_[address + 3]} << 24;
  }
  void Put(uint32_t address, uint32_t data) {
    for (uint32_t i = 0; i < 4; ++i) bytes_[address + i] = static_cast<uint8_t>(data >> (8 * i));
  }
  uint8_t* At(uint32_t address) { return &bytes_[address]; }
  void Give(uint32_t address, uint32_t bytes) { std::fill_n(chips_.begin() + address, bytes, 1); }
  void TakeBack(uint32_t address, uint32_t bytes) { std::fill_n(chips_.begin() + address, bytes, 0); }
  void SetRings(uint32_t end, uint32_t dwords) { rings_ = end, descriptor_dwords_ = dwords; }
  bool inside() const { return inside_; }
  void Leave() { inside_ = false; }  // the chip was reset, or has stopped
  uint64_t written() const { return written_; }

 private:
  Bytes bytes_;
  std::vector<uint8_t> chips_;
  uint32_t rings_ = 0, descriptor_dwords_ = 4;
  bool inside_ = false;
  uint64_t written_ = 0;
};

struct Setup {
  hvia::Dp83820Timing chip;
  hvia::HostBridgeTiming host;
  hvia::HostBridgeNoise noise;
  int chip_bits = 32, bus_bits = 32, host_bits = 32;
  bool skip = false;  // skip idle clocks
};

class Rig {
 public:
  explicit Rig(const Setup& setup)
      : setup_(setup), bridge(&memory, setup.host, setup.host_bits), bus(setup.bus_bits), chip(setup.chip, setup.chip_bits) {
    bridge.SetNoise(setup.noise);
    chip.Reset(now);
    pins = bus.Clock(chip.drive(), bridge.drive(), bridge.gnt_n(), bridge.idsel());
  }
  virtual ~Rig() = default;

  // One clock, or with `skip` the first one before `bound` in which something can happen.
  void Step(int64_t bound = INT64_MAX) {
    if (setup_.skip && chip.quiet() && bridge.quiet()) {
      const int64_t event = std::min(chip.NextEvent(), bound);
      if (event == INT64_MAX) Fail("waiting without a next event");
      const int64_t clocks = (event - now + kClock - 1) / kClock - 1;
      if (clocks > 0) {
        bus.Skip(static_cast<uint64_t>(clocks));
        bridge.Skip(static_cast<uint64_t>(clocks));
        now += clocks * kClock;
        skipped += static_cast<uint64_t>(clocks);
      }
    }
    now += kClock;
    ++unit::clocks();
    chip.Tick(pins, now);
    bridge.Tick(pins);
    pins = bus.Clock(chip.drive(), bridge.drive(), bridge.gnt_n(), bridge.idsel());
    if (bus.violation_count() != 0) Fail("bus rule: %s", bus.violations().front().c_str());
    if (!chip.misuse().empty() && !misuse_expected) Fail("%s", chip.misuse().c_str());
    Dp83820::Sent s;
    while (chip.PopSent(&s)) OnSent(std::move(s));
  }
  void Run(int64_t clocks) {
    for (const int64_t end = now + clocks * kClock; now < end;) Step(end);
  }
  // Runs until the condition holds. Fails after `limit` clocks.
  void Until(const char* what, const std::function<bool()>& condition, int64_t limit = 200'000) {
    const int64_t end = now + limit * kClock;
    while (!condition()) {
      if (now >= end) Fail("waited %" PRId64 " clocks for %s", limit, what);
      Step(end);
    }
  }

  HostResult Do(HostCommand::Kind kind, uint32_t address, uint32_t data, uint8_t enables = 15) {
    Post(kind, address, data, enables);
    HostResult r;
    bool got = false;
    Until("a register access", [&] { return got || (got = bridge.PopResult(&r)); });
    // Results of earlier commands come first.
    while (bridge.pending() != 0 || bridge.PopResult(&r)) Step(now + kClock);
    return r;
  }
  void Post(HostCommand::Kind kind, uint32_t address, uint32_t data, uint8_t enables = 15) {
    HostCommand c;
    c.kind = kind;
    c.address = address;
    c.data[0] = data;
    c.byte_enables[0] = enables;
    bridge.Post(c);
  }
  void DropResults() {
    HostResult r;
    while (bridge.PopResult(&r)) continue;
  }
  void Write(size_t reg, uint32_t data) {
    const HostResult r = Do(HostCommand::kMemoryWrite, hvia::kMacRegisterBase + static_cast<uint32_t>(reg), data);
    if (r.status != HostResult::kOk) Fail("write of register %#zx: %s", reg, hvia::HostResultStatusName(r.status));
  }
  uint32_t Read(size_t reg) {
    const HostResult r = Do(HostCommand::kMemoryRead, hvia::kMacRegisterBase + static_cast<uint32_t>(reg), 0);
    if (r.status != HostResult::kOk) Fail("read of register %#zx: %s", reg, hvia::HostResultStatusName(r.status));
    return r.data;
  }
  uint32_t ReadConfig(size_t offset) {
    const HostResult r = Do(HostCommand::kConfigRead, static_cast<uint32_t>(offset), 0);
    if (r.status != HostResult::kOk) Fail("configuration read %#zx: %s", offset, hvia::HostResultStatusName(r.status));
    return r.data;
  }
  void WriteConfig(size_t offset, uint32_t data, uint8_t enables = 15) {
    const HostResult r = Do(HostCommand::kConfigWrite, static_cast<uint32_t>(offset), data, enables);
    if (r.status != HostResult::kOk) Fail("configuration write %#zx: %s", offset, hvia::HostResultStatusName(r.status));
  }
  // Maps the registers and enables the chip on the bus.
  void Enumerate(uint8_t latency_timer = 255) {
    WriteConfig(hvia::kPciConfigBar1Offset, hvia::kMacRegisterBase);
    WriteConfig(hvia::kPciConfigHeaderOffset, uint32_t{latency_timer} << hvia::kPciConfigHeaderLatencyTimerLsb);
    WriteConfig(hvia::kPciConfigCommandOffset, hvia::kPciConfigCommandMemoryEnableMask | hvia::kPciConfigCommandMasterEnableMask |
                                                   hvia::kPciConfigCommandParityResponseMask);
  }
  void SetStation(const uint8_t* address, uint32_t rfcr) {
    for (uint32_t i = 0; i < 6; i += 2) {
      Write(hvia::kMacRFCROffset, i << hvia::kMacRFCRAddressLsb);
      Write(hvia::kMacRFDROffset, address[i] | uint32_t{address[i + 1]} << 8);
    }
    Write(hvia::kMacRFCROffset, rfcr);
  }

  // Sends a frame to the chip, with its first byte at the PHY at `first`. Adds the FCS, a wrong one
  // if `bad_fcs`.
  Bytes Arrive(Bytes frame, int64_t first, bool bad_fcs = false, bool symbol_error = false) {
    const uint32_t fcs = hvia::EthernetFcs(frame.data(), frame.size()) ^ (bad_fcs ? 0x10000u : 0);
    for (int i = 0; i < 4; ++i) frame.push_back(static_cast<uint8_t>(fcs >> (8 * i)));
    chip.Receive(Dp83820::Arriving{frame, first, symbol_error});
    return frame;
  }

  const Setup setup_;
  int64_t now = 0;
  uint64_t skipped = 0;
  bool misuse_expected = false;
  Memory memory;
  HostBridge bridge;
  PciBus bus;
  Dp83820 chip;
  hvia::PciPins pins;
  std::deque<Dp83820::Sent> sent;

 protected:
  virtual void OnSent(Dp83820::Sent s) { sent.push_back(std::move(s)); }
};

// Ring writes a ring of descriptors closed by its links.
struct Ring {
  uint32_t base = 0;
  uint32_t count = 0;
  uint32_t Address(uint32_t n) const { return base + kDescriptor * (n % count); }
  void Link(Memory* m) const {
    for (uint32_t i = 0; i < count; ++i) {
      m->Put(Address(i) + hvia::kMacDescriptorLinkOffset, Address(i + 1));
      m->Put(Address(i) + hvia::kMacDescriptorBufferAddressOffset, 0);
      m->Put(Address(i) + hvia::kMacDescriptorCommandStatusOffset, 0);
      m->Put(Address(i) + hvia::kMacDescriptorExtendedStatusOffset, 0);
    }
  }
};

inline uint32_t Status(const Memory& m, uint32_t descriptor) { return m.Get(descriptor + hvia::kMacDescriptorCommandStatusOffset); }

// Arm gives the chip a descriptor: its buffer, and the other bytes that the chip may write.
inline void Arm(Memory* m, uint32_t descriptor, uint32_t buffer, uint32_t command, bool extended) {
  m->Put(descriptor + hvia::kMacDescriptorBufferAddressOffset, buffer);
  m->Put(descriptor + hvia::kMacDescriptorExtendedStatusOffset, 0xdeadbeef);
  m->Put(descriptor + hvia::kMacDescriptorCommandStatusOffset, command);
  m->Give(descriptor + hvia::kMacDescriptorCommandStatusOffset, extended ? 8 : 4);
}

inline Bytes RandomFrame(unit::Rng* rng, const uint8_t* destination, size_t bytes) {
  Bytes f(bytes);
  for (uint8_t& b : f) b = static_cast<uint8_t>(rng->Next());
  std::copy_n(destination, std::min<size_t>(6, bytes), f.begin());
  return f;
}

// Directed tests each behaviour of the chip separately.
void Directed(unit::Rng* rng, int bits);

}  // namespace testbench
