// SPDX-License-Identifier: Apache-2.0
// Frames of 1,514 bytes back to back on the card's bus: measures the time of a 512-byte burst and
// of a frame.
#include "sim/unit/mac/dp83820/cc/speed.h"

#include <map>

#include "sim/unit/mac/dp83820/cc/rig.h"

namespace testbench {
namespace {

constexpr uint8_t kStation[6] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55};
constexpr uint32_t kTxBuffers = 0x4000, kRxBuffers = 0x10000, kBuffer = 0x1000;
constexpr int64_t kWire = 8'000;  // ps, a byte at 1 Gb/s
constexpr uint64_t kRunUp = 10;   // frames until the FIFO is full
constexpr size_t kFrame = hvia::kMaxFrame, kBurst = 512;

// The card's memory and arbiter, from its contract, without its logic.
Setup Card(int bits, int64_t byte_time) {
  Setup s;
  s.chip = hvia::Dp83820TimingOf(*hvia::FindProfile("hvia-ge"));
  s.chip.byte_time = byte_time;
  s.host.arbitration = 1;
  s.host.read_initial = 3;
  s.host.write_initial = 2;
  s.chip_bits = s.bus_bits = s.host_bits = bits;
  return s;
}

class Line : public Rig {
 public:
  Line(int bits, bool transmit, bool receive, int64_t byte_time) : Rig(Card(bits, byte_time)), rng_(1), transmit_(transmit), receive_(receive) {}

  Speeds Go(uint64_t frames) {
    memory.SetRings(0x1000, 4);
    tx_.Link(&memory);
    rx_.Link(&memory);
    Enumerate();
    Write(hvia::kMacCFGOffset, hvia::kMacCFGEXTSTSMask | hvia::kMacCFGMODE1000Mask | (setup_.chip_bits == 64 ? hvia::kMacCFGDATA64Mask : 0));
    Write(hvia::kMacTXCFGOffset, 7u << hvia::kMacTXCFGMXDMALsb | static_cast<uint32_t>(kBurst / 32) << hvia::kMacTXCFGFLTHLsb);
    Write(hvia::kMacRXCFGOffset, 7u << hvia::kMacRXCFGMXDMALsb | 31u << hvia::kMacRXCFGDRTHLsb);
    Write(hvia::kMacTXDPOffset, tx_.Address(0));
    Write(hvia::kMacRXDPOffset, rx_.Address(0));
    SetStation(kStation, hvia::kMacRFCREnableMask | hvia::kMacRFCRAPMMask);
    for (uint32_t i = 0; i < tx_.count; ++i) ArmTransmit(i);
    for (uint32_t i = 0; i < rx_.count; ++i) ArmReceive(i);
    Write(hvia::kMacCROffset, (transmit_ ? hvia::kMacCRTXEMask : 0) | (receive_ ? hvia::kMacCRRXEMask : 0));
    int64_t arrival = now + 50 * kClock;
    const Bytes frame = RandomFrame(&rng_, kStation, kFrame);
    for (uint64_t i = 0; receive_ && i < frames * (transmit_ ? 3 : 1); ++i) {
      Arrive(frame, arrival);
      arrival += std::max(kWire, setup_.chip.byte_time) * static_cast<int64_t>(kFrame + 4 + 20) * (setup_.chip.byte_time < kWire ? 2 : 1);
    }
    const int64_t end = now + static_cast<int64_t>(frames) * 2000 * kClock;
    while ((transmit_ && tx_done_ < frames) || (receive_ && rx_done_ < frames)) {
      if (now > end) Fail("the line stalls");
      Clock();
    }
    Speeds s;
    s.read_burst = Mean(starts_[false]);
    s.write_burst = Mean(starts_[true]);
    s.transmit_frame = transmit_ ? (tx_last_ - tx_first_) / static_cast<double>(tx_done_ - 1 - kRunUp) : 0;
    s.receive_frame = receive_ ? (rx_last_ - rx_first_) / static_cast<double>(rx_done_ - 1 - kRunUp) : 0;
    s.read_bytes = bytes_[false];
    s.write_bytes = bytes_[true];
    s.descriptor_read = descriptor_;
    s.status_write = status_;
    s.retry = chip.statistics().retries + chip.statistics().disconnects;
    return s;
  }

 private:
  void ArmTransmit(uint32_t n) {
    Arm(&memory, tx_.Address(n), kTxBuffers + kBuffer * (n % tx_.count), kOwn | static_cast<uint32_t>(kFrame), true);
  }
  void ArmReceive(uint32_t n) {
    const uint32_t buffer = kRxBuffers + kBuffer * (n % rx_.count);
    memory.Give(buffer, 2048);
    Arm(&memory, rx_.Address(n), buffer, 2048, true);
  }

  void Clock() {
    const bool was_idle = pins.idle(), was_frame = pins.frame_n();
    Step();
    clock_++;
    if (was_frame && !pins.frame_n()) chips_ = chip.drive().oe & hvia::kPciFrame;
    if (was_frame && !pins.frame_n() && chips_) {
      write_ = pins.cbe_n & 1;
      const uint32_t address = static_cast<uint32_t>(pins.ad);
      if (address >= kTxBuffers) {
        // From one burst of a frame to its next: only the bus lies between them.
        if (last_data_ && last_write_ == write_ && address == last_address_ + kBurst && only_) starts_[write_].push_back(clock_ - begin_);
        last_data_ = true;
        last_write_ = write_;
        last_address_ = address;
        only_ = true;
      } else {
        only_ = false;
        last_data_ = last_data_ && transmit_ && receive_;
      }
      data_ = address >= kTxBuffers;
      begin_ = clock_;
    }
    if (!was_idle && pins.idle()) {
      if (chips_ && !data_) (write_ ? status_ : descriptor_) = clock_ - begin_ + 1;  // with the idle clock
    }
    if (chips_ && !pins.irdy_n() && !pins.trdy_n() && data_) bytes_[write_] += setup_.bus_bits / 8;
    if (memory.inside()) return;
    while (transmit_ && !(Status(memory, tx_.Address(tx_count_)) & kOwn)) {
      if (tx_done_ == kRunUp) tx_first_ = clock_;
      tx_last_ = clock_;
      tx_done_++;
      ArmTransmit(tx_count_++);
      Post(HostCommand::kMemoryWrite, hvia::kMacRegisterBase + static_cast<uint32_t>(hvia::kMacCROffset), hvia::kMacCRTXEMask);
    }
    while (receive_ && (Status(memory, rx_.Address(rx_count_)) & kOwn)) {
      if (rx_done_ == kRunUp) rx_first_ = clock_;
      rx_last_ = clock_;
      rx_done_++;
      ArmReceive(rx_count_++);
      if (transmit_) Post(HostCommand::kMemoryWrite, hvia::kMacRegisterBase + static_cast<uint32_t>(hvia::kMacCROffset), hvia::kMacCRRXEMask);
    }
    DropResults();
  }

  static double Mean(const std::vector<int64_t>& v) {
    double sum = 0;
    for (int64_t x : v) sum += static_cast<double>(x);
    return v.empty() ? 0 : sum / static_cast<double>(v.size());
  }

  unit::Rng rng_;
  const bool transmit_, receive_;
  Ring tx_{0x0400, 2}, rx_{0x0800, 2};
  uint32_t tx_count_ = 0, rx_count_ = 0;
  uint64_t tx_done_ = 0, rx_done_ = 0;
  double tx_first_ = 0, tx_last_ = 0, rx_first_ = 0, rx_last_ = 0;
  int64_t clock_ = 0, begin_ = 0, descriptor_ = 0, status_ = 0;
  bool chips_ = false, write_ = false, data_ = false, last_data_ = false, last_write_ = false, only_ = false;
  uint32_t last_address_ = 0;
  std::map<bool, std::vector<int64_t>> starts_;
  std::map<bool, uint64_t> bytes_;
};

}  // namespace

Speeds Measure(int bits, bool transmit, bool receive, uint64_t frames, int64_t byte_time) {
  return Line(bits, transmit, receive, byte_time).Go(frames);
}

}  // namespace testbench
