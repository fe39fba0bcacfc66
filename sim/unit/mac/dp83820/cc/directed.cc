// SPDX-License-Identifier: Apache-2.0
// Each behaviour of the chip separately, with the exact outcome.
#include <cstring>
#include <memory>

#include "sim/unit/mac/dp83820/cc/rig.h"

namespace testbench {
namespace {

constexpr uint8_t kStation[6] = {0x02, 0x48, 0x56, 0x49, 0x41, 0x07};
constexpr uint8_t kOther[6] = {0x02, 0x48, 0x56, 0x49, 0x41, 0x08};
constexpr uint8_t kGroup[6] = {0x01, 0x00, 0x5e, 0x00, 0x00, 0x01};
constexpr uint8_t kAll[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
constexpr uint32_t kFilter = hvia::kMacRFCREnableMask | hvia::kMacRFCRAPMMask | hvia::kMacRFCRAAMMask | hvia::kMacRFCRAABMask;
constexpr uint32_t kMaxDma512 = 7u << hvia::kMacTXCFGMXDMALsb;
constexpr uint32_t kFill512 = 16u << hvia::kMacTXCFGFLTHLsb;
constexpr uint32_t kRxDrainMost = 31u << hvia::kMacRXCFGDRTHLsb;
constexpr uint32_t kTxBuffers = 0x4000, kRxBuffers = 0x10000, kBuffer = 0x1000;
constexpr int64_t kByte = 8'000;

Setup Plain(int bits) {
  Setup s;
  s.chip = hvia::Dp83820TimingOf(*hvia::FindProfile("hvia-ge"));
  s.host.arbitration = 1;
  s.host.read_initial = 3;
  s.host.write_initial = 2;
  s.chip_bits = s.bus_bits = s.host_bits = bits;
  return s;
}

// A driver with one ring for each direction.
class Driver : public Rig {
 public:
  Driver(const Setup& s, unit::Rng* rng, uint32_t tx_count = 2, uint32_t rx_count = 2)
      : Rig(s), rng_(rng), tx{0x0400, tx_count}, rx{0x0800, rx_count} {
    memory.SetRings(0x1000, 4);
    tx.Link(&memory);
    rx.Link(&memory);
    // At first the driver owns all receive descriptors.
    for (uint32_t i = 0; i < rx_count; ++i) memory.Put(rx.Address(i) + hvia::kMacDescriptorCommandStatusOffset, kOwn);
    Enumerate();
    Configure();
  }
  void Configure(uint32_t rxcfg = kMaxDma512 | kRxDrainMost, uint32_t rfcr = kFilter, uint32_t txcfg = kMaxDma512 | kFill512) {
    Write(hvia::kMacCFGOffset, hvia::kMacCFGEXTSTSMask | hvia::kMacCFGMODE1000Mask | (setup_.chip_bits == 64 ? hvia::kMacCFGDATA64Mask : 0));
    Write(hvia::kMacTXCFGOffset, txcfg);
    Write(hvia::kMacRXCFGOffset, rxcfg);
    Write(hvia::kMacTXDPOffset, tx.Address(tx_next));
    Write(hvia::kMacRXDPOffset, rx.Address(rx_next));
    SetStation(kStation, rfcr);
  }
  // Puts a frame of one fragment into the ring, without a kick.
  uint32_t Queue(const Bytes& frame, uint32_t flags = 0) {
    const uint32_t n = tx_next++;
    HandsOff();
    const uint32_t buffer = kTxBuffers + kBuffer * (n % tx.count);
    std::copy(frame.begin(), frame.end(), memory.At(buffer));
    Arm(&memory, tx.Address(n), buffer, kOwn | flags | static_cast<uint32_t>(frame.size()), true);
    return tx.Address(n);
  }
  void KickTransmit() { Write(hvia::kMacCROffset, hvia::kMacCRTXEMask); }
  void KickReceive() { Write(hvia::kMacCROffset, hvia::kMacCRRXEMask); }
  // Gives the chip a receive buffer.
  uint32_t Free(uint32_t size = 2048) {
    const uint32_t n = rx_next++;
    HandsOff();
    const uint32_t buffer = kRxBuffers + kBuffer * (n % rx.count);
    std::fill_n(memory.At(buffer), kBuffer, kGuard);
    memory.Give(buffer, size);
    Arm(&memory, rx.Address(n), buffer, size, true);
    return rx.Address(n);
  }
  // Waits, because a descriptor must not change while the chip reads it.
  void HandsOff() {
    Until("the chip to read a descriptor", [&] { return !memory.inside(); });
  }
  uint8_t* BufferOf(uint32_t descriptor) { return memory.At(memory.Get(descriptor + hvia::kMacDescriptorBufferAddressOffset)); }
  Bytes Frame(size_t bytes, const uint8_t* destination = kStation) { return RandomFrame(rng_, destination, bytes); }
  uint32_t WaitOwn(const char* what, uint32_t descriptor, bool own) {
    Until(what, [&] { return ((Status(memory, descriptor) & kOwn) != 0) == own; });
    Run(10);  // the rest of the burst, with wait states
    if (memory.Get(descriptor + hvia::kMacDescriptorExtendedStatusOffset) != 0) Fail("%s: the extended status was not written with the status", what);
    return Status(memory, descriptor);
  }
  // Receives one frame and expects the outcome `status` (without Own), or none if it is 0.
  void Check(const char* what, const Bytes& frame, uint32_t status, bool bad_fcs = false, bool symbol_error = false) {
    const uint32_t d = Free();
    KickReceive();
    Run(40);
    const uint64_t before = memory.written();
    const Bytes wire = Arrive(frame, now + kClock, bad_fcs, symbol_error);
    Run(static_cast<int64_t>(wire.size()) * kByte / kClock + 700);
    const uint32_t got = Status(memory, d);
    if (status == 0) {
      if (got & kOwn) Fail("%s: %zu bytes ended with status %08" PRIx32 ", want nothing", what, wire.size(), got);
      if (memory.written() != before) Fail("%s: the chip wrote %" PRIu64 " bytes, want none", what, memory.written() - before);
      rx_next--;  // the same descriptor again
      return;
    }
    if (got != (status | kOwn)) Fail("%s: %zu bytes ended with status %08" PRIx32 ", want %08" PRIx32, what, wire.size(), got, status | kOwn);
    const size_t kept = status & kSize;
    if (!std::equal(wire.begin(), wire.begin() + static_cast<int64_t>(kept), BufferOf(d))) Fail("%s: the frame in memory is not that on the wire", what);
    for (size_t i = kept; i < kBuffer; ++i)
      if (BufferOf(d)[i] != kGuard) Fail("%s: byte %zu after the frame was written", what, i);
  }

  unit::Rng* rng_;
  Ring tx, rx;
  uint32_t tx_next = 0, rx_next = 0;
};

uint32_t Received(uint32_t size, uint32_t destination_class, uint32_t bits) {
  return size | destination_class << hvia::kMacDescriptorCommandStatusDestinationClassLsb | bits;
}

void Registers(unit::Rng*, int bits) {
  Rig r(Plain(bits));
  if (r.ReadConfig(hvia::kPciConfigIDOffset) != (hvia::kMacVendorID | hvia::kMacDeviceID << 16)) Fail("vendor and device are wrong");
  if (r.Do(HostCommand::kMemoryRead, 0, 0).status != HostResult::kMasterAbort) Fail("a register answered before memory was enabled");
  r.WriteConfig(hvia::kPciConfigBar1Offset, 0xffffffff);
  if (r.ReadConfig(hvia::kPciConfigBar1Offset) != ~(hvia::kMacRegisterBytes - 1)) Fail("BAR 1 has the wrong size");
  r.WriteConfig(hvia::kPciConfigBar0Offset, 0xffffffff);
  if (r.ReadConfig(hvia::kPciConfigBar0Offset) != 0xffffff01u) Fail("BAR 0 is not 256 bytes of I/O");
  r.Enumerate(0x40);
  if (((r.ReadConfig(hvia::kPciConfigHeaderOffset) >> 8) & 0xff) != 0x40) Fail("the latency timer does not hold");
  if (r.Do(HostCommand::kMemoryRead, hvia::kMacRegisterBase + hvia::kMacRegisterBytes, 0).status != HostResult::kMasterAbort)
    Fail("the chip answers beyond BAR 1");
  for (size_t reg : {hvia::kMacTXDPOffset, hvia::kMacRXDPOffset, hvia::kMacIMROffset}) {
    r.Write(reg, 0x12345678);
    if (r.Read(reg) != 0x12345678) Fail("register %#zx does not hold", reg);
    r.Do(HostCommand::kMemoryWrite, hvia::kMacRegisterBase + static_cast<uint32_t>(reg), 0xaabbccdd, 2);
    if (r.Read(reg) != 0x1234cc78) Fail("register %#zx ignores byte enables", reg);
    r.Write(reg, 0);
  }
  r.SetStation(kStation, 2u << hvia::kMacRFCRAddressLsb);
  if (r.Read(hvia::kMacRFDROffset) != (kStation[2] | uint32_t{kStation[3]} << 8)) Fail("RFDR does not hold");
  // Each burst of the host is cut after one dword, and continues.
  HostCommand c;
  c.address = hvia::kMacRegisterBase + static_cast<uint32_t>(hvia::kMacIMROffset);
  c.count = 2;
  c.data[0] = hvia::kMacISRTXIDLEMask;
  c.data[1] = 1;
  r.bridge.Post(c);
  HostResult result;
  r.Until("a burst into the registers", [&] { return r.bridge.PopResult(&result); });
  if (result.status != HostResult::kOk || result.disconnects + result.retries == 0) Fail("a burst into the registers was not cut");
  if (r.Read(hvia::kMacIMROffset) != hvia::kMacISRTXIDLEMask || r.Read(hvia::kMacIEROffset) != 1) Fail("a burst into the registers went astray");
  if (!r.chip.inta_n()) Fail("INTA# without a cause");
  // An idle transmitter without a descriptor.
  r.Write(hvia::kMacTXCFGOffset, kMaxDma512 | kFill512);
  r.Write(hvia::kMacTXDPOffset, 0x100);
  r.memory.Put(0x108, 0);
  r.Write(hvia::kMacCROffset, hvia::kMacCRTXEMask);
  r.Run(60);
  if (r.chip.inta_n()) Fail("no INTA# with TXIDLE");
  if (r.Read(hvia::kMacISROffset) != hvia::kMacISRTXIDLEMask) Fail("ISR is not TXIDLE alone");
  if (r.Read(hvia::kMacISROffset) != 0 || !r.chip.inta_n()) Fail("reading ISR does not clear it");
  r.chip.Reset(r.now);
  r.Run(3);
  if (r.Do(HostCommand::kMemoryRead, hvia::kMacRegisterBase, 0).status != HostResult::kMasterAbort) Fail("RST# leaves the chip on the bus");
}

void Transmit(unit::Rng* rng, int bits) {
  Driver r(Plain(bits), rng);
  // Idle and kick: the chip reads the same descriptor again.
  r.KickTransmit();
  r.Run(60);
  if (r.Read(hvia::kMacCROffset) & hvia::kMacCRTXEMask) Fail("the transmitter is not idle without a descriptor");
  for (size_t bytes : {60u, 61u, 62u, 63u, 64u, 65u, 511u, 512u, 513u, 1023u, 1025u, 1513u, 1514u, 17u}) {
    const Bytes frame = r.Frame(bytes);
    r.Read(hvia::kMacISROffset);
    const uint32_t d = r.Queue(frame);
    r.Run(300);
    if (!(Status(r.memory, d) & kOwn)) Fail("an idle transmitter reads its descriptor without a kick");
    const int64_t kick = r.now;
    r.KickTransmit();
    const uint32_t status = r.WaitOwn("a transmit status", d, false);
    if (status != (kOk | bytes)) Fail("transmit status of %zu bytes is %08" PRIx32, bytes, status);
    r.Until("a frame on the wire", [&] { return !r.sent.empty(); });
    const Dp83820::Sent s = r.sent.front();
    r.sent.clear();
    if (s.cut || s.bytes.size() != bytes + 4 || !std::equal(frame.begin(), frame.end(), s.bytes.begin())) Fail("%zu bytes were not sent as they were", bytes);
    const uint32_t fcs = hvia::EthernetFcs(frame.data(), bytes);
    if (std::memcmp(&fcs, &s.bytes[bytes], 4) != 0) Fail("the FCS of %zu bytes is wrong", bytes);
    // Store and forward: starts right after the last byte was read, not before.
    const int64_t least = kick + static_cast<int64_t>((bytes + 3) / 4) * kClock / (bits / 32) + r.setup_.chip.transmit_delay;
    if (s.start < least || s.start > r.now + r.setup_.chip.transmit_delay) Fail("%zu bytes left at %" PRId64 " ps, now %" PRId64, bytes, s.start, r.now);
    r.Run(60);
    if (r.Read(hvia::kMacISROffset) != (hvia::kMacISRTXOKMask | hvia::kMacISRTXIDLEMask)) Fail("ISR after a frame is not TXOK and TXIDLE");
  }
  // The CRC of a known text.
  if (hvia::EthernetFcs(reinterpret_cast<const uint8_t*>("123456789"), 9) != 0xcbf43926u) Fail("this is not CRC-32");
  // Without FCS, and padded.
  const Bytes frame = r.Frame(80);
  r.Queue(frame, hvia::kMacDescriptorCommandStatusSuppressCrcMask);
  r.KickTransmit();
  r.Until("a frame with a given FCS", [&] { return !r.sent.empty(); });
  if (r.sent.front().bytes != frame) Fail("SuppressCrc adds bytes");
  r.sent.clear();
  r.Run(60);
  r.Write(hvia::kMacTXCFGOffset, kMaxDma512 | kFill512 | hvia::kMacTXCFGATPMask);
  const Bytes small = r.Frame(17);
  r.Queue(small);
  r.KickTransmit();
  r.Until("a padded frame", [&] { return !r.sent.empty(); });
  Bytes padded = small;
  padded.resize(60);
  const uint32_t fcs = hvia::EthernetFcs(padded.data(), padded.size());
  for (int i = 0; i < 4; ++i) padded.push_back(static_cast<uint8_t>(fcs >> (8 * i)));
  if (r.sent.front().bytes != padded) Fail("ATP does not pad with zeros to 60 bytes");
  r.sent.clear();
  r.Run(60);

  // A chain that ends: link 0, then another descriptor after it.
  const uint32_t last = r.tx.Address(r.tx_next), next = r.tx.Address(r.tx_next + 1);
  r.memory.Put(last + hvia::kMacDescriptorLinkOffset, 0);
  r.Queue(r.Frame(100));
  r.KickTransmit();
  r.WaitOwn("the end of the chain", last, false);
  r.Queue(r.Frame(101));
  r.KickTransmit();
  r.Run(300);
  if (!(Status(r.memory, next) & kOwn)) Fail("the chip went on at the end of the chain");
  r.memory.Put(last + hvia::kMacDescriptorLinkOffset, next);
  r.KickTransmit();
  r.WaitOwn("the frame after the end of the chain", next, false);
}

// While a frame is on the wire the chip fetches the following ones, up to the FIFO's capacity. They
// follow each other at the wire's speed.
void Prefetch(unit::Rng* rng, int bits) {
  Setup s = Plain(bits);
  s.chip.byte_time = 10 * kByte;  // 100 Mb/s: slower than the bus in all cases
  Driver r(s, rng, 8, 2);
  std::vector<uint32_t> d;
  for (int i = 0; i < 8; ++i) d.push_back(r.Queue(r.Frame(1514)));
  r.KickTransmit();
  const auto done = [&] {
    int n = 0;
    for (uint32_t a : d) n += !(Status(r.memory, a) & kOwn);
    return n;
  };
  r.Until("the first frame on the wire", [&] { return !r.sent.empty(); });
  const int64_t start = r.sent.front().start;
  // 1,514 bytes take 121 us. After 67 us 830 bytes have left. The FIFO then holds 5 frames and
  // 1,024 bytes of the sixth, and lacks 512 bytes of space for its last burst.
  r.Run(67'000'000 / kClock);
  if (done() != 5) Fail("%d frames were fetched into a FIFO that holds 5", done());
  r.Until("eight frames", [&] { return r.sent.size() == 8; });
  const int64_t each = (8 + 1518 + 12) * s.chip.byte_time;
  for (int64_t i = 0; i < 8; ++i)
    if (r.sent[static_cast<size_t>(i)].start != start + i * each) Fail("frame %" PRId64 " does not follow at the wire's speed", i);
  if (r.chip.statistics().transmitted != 8) Fail("transmitted is not counted");
}

// Drain threshold: the wire starts inside the frame. A slow host causes an underrun.
void Drain(unit::Rng* rng, int bits) {
  constexpr uint32_t kDrain512 = 16u << hvia::kMacTXCFGDRTHLsb;
  {
    Driver r(Plain(bits), rng);
    r.Configure(kMaxDma512, kFilter, kMaxDma512 | kFill512 | kDrain512);
    const uint32_t d = r.Queue(r.Frame(1400));
    r.KickTransmit();
    r.WaitOwn("a frame with drain threshold", d, false);
    r.Until("it", [&] { return !r.sent.empty(); });
    const Dp83820::Sent& s = r.sent.front();
    if (s.cut || r.now - s.start < 1400 / 4 / (bits / 32) * kClock / 2) Fail("the drain threshold did not begin inside the frame");
  }
  Setup slow = Plain(bits);
  slow.host.read_wait_every = 1;
  slow.host.wait_clocks = 7;
  Driver r(slow, rng);
  r.Configure(kMaxDma512, kFilter, kMaxDma512 | kFill512 | kDrain512);
  r.Read(hvia::kMacISROffset);
  const uint32_t d = r.Queue(r.Frame(1400));
  r.KickTransmit();
  const uint32_t status = r.WaitOwn("a frame that runs dry", d, false);
  if (status != (hvia::kMacDescriptorCommandStatusUnderrunMask | 1400)) Fail("status after an underrun is %08" PRIx32, status);
  if (r.sent.size() != 1 || !r.sent.front().cut || r.sent.front().bytes.size() >= 1400) Fail("an underrun does not cut the frame");
  if (r.chip.statistics().transmit_underrun != 1) Fail("the underrun is not counted");
  r.Run(100);
  if ((r.Read(hvia::kMacISROffset) & (hvia::kMacISRTXURNMask | hvia::kMacISRTXERRMask | hvia::kMacISRTXOKMask)) !=
      (hvia::kMacISRTXURNMask | hvia::kMacISRTXERRMask))
    Fail("ISR after an underrun is not TXURN and TXERR");
  r.sent.clear();
  const uint32_t e = r.Queue(r.Frame(300));
  r.KickTransmit();
  if (r.WaitOwn("the frame after an underrun", e, false) != (kOk | 300)) Fail("the frame after an underrun suffers");
}

void Filters(unit::Rng* rng, int bits) {
  Driver r(Plain(bits), rng);
  const struct {
    const uint8_t* destination;
    uint32_t bit, destination_class;
  } cases[] = {{kStation, hvia::kMacRFCRAPMMask, 1}, {kOther, hvia::kMacRFCRAAUMask, 1}, {kGroup, hvia::kMacRFCRAAMMask, 2}, {kAll, hvia::kMacRFCRAABMask, 3}};
  r.KickReceive();
  for (const auto& c : cases) {
    for (uint32_t on : {0u, 1u}) {
      uint32_t all = hvia::kMacRFCRAPMMask | hvia::kMacRFCRAAUMask | hvia::kMacRFCRAAMMask | hvia::kMacRFCRAABMask;
      all = on ? c.bit : all & ~c.bit;
      // Accepting all unicast includes the station's address.
      const bool accepted = on || (c.bit == hvia::kMacRFCRAPMMask);
      r.Write(hvia::kMacRFCROffset, hvia::kMacRFCREnableMask | all);
      r.Check("filter", r.Frame(100, c.destination), accepted ? Received(104, c.destination_class, kOk) : 0);
    }
  }
  const uint64_t filtered = r.chip.statistics().filtered;
  if (filtered != 3) Fail("%" PRIu64 " frames filtered, want 3", filtered);
  r.Write(hvia::kMacRFCROffset, kFilter & ~hvia::kMacRFCREnableMask);
  r.Check("filter off", r.Frame(100, kAll), 0);
  if (r.chip.statistics().disabled != 1) Fail("a frame before the filter was enabled is not counted");
}

void Errors(unit::Rng* rng, int bits) {
  constexpr uint32_t kFcsError = hvia::kMacDescriptorCommandStatusFcsErrorMask, kSymbol = hvia::kMacDescriptorCommandStatusSymbolErrorMask,
                     kRunt = hvia::kMacDescriptorCommandStatusRuntMask, kLong = hvia::kMacDescriptorCommandStatusTooLongMask;
  for (uint32_t accept : {0u, 1u, 2u, 4u, 7u}) {
    const bool aep = accept & 1, arp = accept & 2, alp = accept & 4;
    const uint32_t rxcfg = (aep ? hvia::kMacRXCFGAEPMask : 0) | (arp ? hvia::kMacRXCFGARPMask : 0) | (alp ? hvia::kMacRXCFGALPMask : 0);
    for (uint32_t drain : {0u, kRxDrainMost}) {
      Driver r(Plain(bits), rng);
      r.Configure(kMaxDma512 | drain | rxcfg);
      // A frame that has started to leave the FIFO cannot be rejected.
      const bool early = drain != 0;
      r.Check("good", r.Frame(60), Received(64, 1, kOk));
      r.Check("good", r.Frame(1514), Received(1518, 1, kOk));
      r.Check("FCS", r.Frame(200), aep ? Received(204, 1, kFcsError) : 0, true);
      r.Check("FCS", r.Frame(1000), aep || early ? Received(1004, 1, kFcsError) : 0, true);
      r.Check("symbol", r.Frame(200), aep ? Received(204, 1, kSymbol) : 0, false, true);
      r.Check("runt", r.Frame(59), arp ? Received(63, 1, kRunt | kOk) : aep ? Received(63, 1, kRunt) : 0);
      r.Check("runt", r.Frame(30), aep ? Received(34, 1, kRunt | kFcsError) : 0, true);
      r.Check("long", r.Frame(1515), alp ? Received(1519, 1, kOk) : aep || early ? Received(1518, 1, kLong) : 0);
      r.Check("long", r.Frame(2042), alp ? Received(2046, 1, kOk) : aep || early ? Received(1518, 1, kLong) : 0);
      r.Check("very long", r.Frame(3000), alp && (aep || early) ? Received(2046, 1, kLong) : !alp && (aep || early) ? Received(1518, 1, kLong) : 0);
      const auto& s = r.chip.statistics();
      const uint64_t bad = aep ? 0 : early ? 2 : 3, runt = aep ? (arp ? 0 : 0) : arp ? 1 : 2, long_frames = aep || early ? 0 : alp ? 1 : 3;
      if (s.rejected_bad != bad || s.rejected_runt != runt || s.rejected_long != long_frames)
        Fail("rejected %" PRIu64 " bad, %" PRIu64 " runts, %" PRIu64 " long, want %" PRIu64 " %" PRIu64 " %" PRIu64, s.rejected_bad, s.rejected_runt,
             s.rejected_long, bad, runt, long_frames);
      if (s.overrun != 0 || s.filtered != 0) Fail("counted what did not happen");
    }
  }
}

// DMA starts inside a frame, at the configured threshold.
void Early(unit::Rng* rng, int bits) {
  for (uint32_t drain : {0u, 8u, 31u}) {
    Driver r(Plain(bits), rng);
    r.Configure(kMaxDma512 | drain << hvia::kMacRXCFGDRTHLsb);
    const uint32_t d = r.Free();
    r.KickReceive();
    r.Run(60);
    const int64_t first = r.now + 2 * kClock;
    r.Arrive(r.Frame(1000), first);
    const int64_t there = first + r.setup_.chip.receive_delay + (drain == 0 ? 1003 : 8 * static_cast<int64_t>(drain) - 1) * kByte;
    while (r.now < there) {
      if (r.memory.written() != 0) Fail("DRTH %" PRIu32 ": the chip writes before the threshold", drain);
      r.Step();
    }
    r.Run(8);
    if (r.memory.written() == 0) Fail("DRTH %" PRIu32 ": the chip does not write with the threshold", drain);
    r.WaitOwn("a frame", d, true);
    if (bits == 32 && drain == 31 && r.bus.statistics().card_transactions != 5) // descriptor, 512, 492, status, next descriptor
      Fail("a frame of 1,004 bytes took %" PRIu64 " transactions", r.bus.statistics().card_transactions);
  }
}

// Frames over several descriptors, both ways.
void Fragments(unit::Rng* rng, int bits) {
  Driver r(Plain(bits), rng, 4, 8);
  const Bytes frame = r.Frame(1000);
  const uint32_t sizes[] = {13, 487, 500};
  uint32_t at = 0;
  for (int i = 0; i < 3; ++i) {
    const uint32_t buffer = kTxBuffers + kBuffer * static_cast<uint32_t>(i) + 1 + static_cast<uint32_t>(i);
    std::copy_n(frame.begin() + at, sizes[i], r.memory.At(buffer));
    // The driver arms the first descriptor last, as a real driver does.
    Arm(&r.memory, r.tx.Address(static_cast<uint32_t>(i)), buffer, (i == 0 ? 0 : kOwn) | (i == 2 ? 0 : kMore) | sizes[i], true);
    at += sizes[i];
  }
  r.memory.Put(r.tx.Address(0) + hvia::kMacDescriptorCommandStatusOffset, kOwn | kMore | sizes[0]);
  r.KickTransmit();
  r.Until("a frame of three fragments", [&] { return !r.sent.empty(); });
  if (!std::equal(frame.begin(), frame.end(), r.sent.front().bytes.begin()) || r.sent.front().bytes.size() != 1004) Fail("fragments are not put together");
  if (r.WaitOwn("the last fragment", r.tx.Address(2), false) != (kOk | sizes[2])) Fail("status of the last fragment");
  if (Status(r.memory, r.tx.Address(0)) != (kMore | sizes[0]) || Status(r.memory, r.tx.Address(1)) != (kMore | sizes[1])) Fail("status of a fragment with More");

  uint32_t d[4];
  for (uint32_t& a : d) a = r.Free(304);
  r.KickReceive();
  r.Run(50);
  const Bytes wire = r.Arrive(r.Frame(1000), r.now + kClock);
  for (int i = 0; i < 4; ++i) {
    const uint32_t want = i < 3 ? kOwn | kMore | 304 : kOwn | Received(1004 - 3 * 304, 1, kOk);
    const uint32_t got = r.WaitOwn("a part of a frame", d[i], true);
    if (got != want) Fail("status of part %d is %08" PRIx32 ", want %08" PRIx32, i, got, want);
    if (!std::equal(wire.begin() + 304 * i, wire.begin() + std::min(304 * (i + 1), 1004), r.BufferOf(d[i]))) Fail("part %d has wrong bytes", i);
  }
}

// A receiver without descriptors: its FIFO fills, byte by byte, and the rest is lost.
void Overrun(unit::Rng* rng, int bits) {
  Setup s = Plain(bits);
  s.chip.receive_fifo = 4096;
  Driver r(s, rng, 2, 16);
  r.KickReceive();
  r.Run(60);
  if (!(r.Read(hvia::kMacISROffset) & hvia::kMacISRRXIDLEMask)) Fail("no RXIDLE without a descriptor");
  struct Want {
    Bytes wire;
    bool after_loss;
  };
  std::vector<Want> want;
  size_t held = 0;
  bool lost = false;
  uint64_t losses = 0;
  int64_t at = r.now + kClock;
  for (size_t bytes : {1514u, 1514u, 500u, 1000u, 400u, 156u, 60u, 84u, 60u}) {
    const Bytes wire = r.Arrive(r.Frame(bytes), at);
    at += static_cast<int64_t>(wire.size() + 20) * kByte;
    if (held + wire.size() <= 4096) {
      held += wire.size();
      want.push_back({wire, lost});
      lost = false;
    } else {
      lost = true;
      losses++;
    }
  }
  if (held != 4096 || losses != 3 || !lost) Fail("the case is not what it should be: %zu bytes, %" PRIu64 " lost", held, losses);
  r.Run((at - r.now) / kClock + 20);
  if (r.chip.statistics().overrun != losses) Fail("%" PRIu64 " overruns, want %" PRIu64, r.chip.statistics().overrun, losses);
  if (!(r.Read(hvia::kMacISROffset) & hvia::kMacISRRXORNMask)) Fail("no RXORN");
  std::vector<uint32_t> d;
  for (size_t i = 0; i <= want.size(); ++i) d.push_back(r.Free());
  r.KickReceive();
  for (size_t i = 0; i < want.size(); ++i) {
    const uint32_t status = r.WaitOwn("a frame out of the FIFO", d[i], true);
    const uint32_t expect = kOwn | Received(static_cast<uint32_t>(want[i].wire.size()), 1, kOk) |
                            (want[i].after_loss ? hvia::kMacDescriptorCommandStatusOverrunMask : 0);
    if (status != expect) Fail("frame %zu after overruns has status %08" PRIx32 ", want %08" PRIx32, i, status, expect);
    if (!std::equal(want[i].wire.begin(), want[i].wire.end(), r.BufferOf(d[i]))) Fail("frame %zu has wrong bytes", i);
  }
  // The next frame reports the last loss.
  r.Run(20);
  const Bytes wire = r.Arrive(r.Frame(100), r.now + kClock);
  const uint32_t status = r.WaitOwn("the frame after the last loss", d.back(), true);
  const uint32_t flag = lost ? hvia::kMacDescriptorCommandStatusOverrunMask : 0;
  if (status != (kOwn | flag | Received(104, 1, kOk))) Fail("the frame after the last loss has status %08" PRIx32, status);

  // Overrun inside a frame that is partly in memory: the frame is truncated.
  s.chip.receive_fifo = 600;
  s.host.write_wait_every = 1;
  s.host.wait_clocks = 7;
  Driver slow(s, rng);
  const uint32_t e = slow.Free();
  slow.KickReceive();
  slow.Run(60);
  const Bytes cut = slow.Arrive(slow.Frame(1500), slow.now + kClock);
  const uint32_t got = slow.WaitOwn("a frame that is cut", e, true);
  const size_t size = got & kSize;
  if ((got & ~kSize) != (kOwn | hvia::kMacDescriptorCommandStatusOverrunMask | Received(0, 1, 0)) || size < 600 || size >= 1500) Fail("a cut frame has status %08" PRIx32, got);
  if (!std::equal(cut.begin(), cut.begin() + static_cast<int64_t>(size), slow.BufferOf(e))) Fail("a truncated frame has wrong bytes");
}

// CR: disable, reset, and a receiver enabled inside a frame.
void Commands(unit::Rng* rng, int bits) {
  Driver r(Plain(bits), rng, 4, 4);
  // Enabled inside a frame: the frame is not recognized.
  uint32_t d = r.Free();
  r.Arrive(r.Frame(1000), r.now + kClock);
  r.Run(50);
  r.KickReceive();
  r.Run(500);
  if (Status(r.memory, d) & kOwn || r.chip.statistics().disabled != 1) Fail("a frame that had started before CR.RXE was received");
  Bytes wire = r.Arrive(r.Frame(300), r.now + kClock);
  r.WaitOwn("the frame after it", d, true);
  // RXD: the present frame is the last.
  d = r.Free();
  r.KickReceive();
  r.Run(40);
  wire = r.Arrive(r.Frame(1400), r.now + kClock);
  r.Run(200);
  r.Write(hvia::kMacCROffset, hvia::kMacCRRXDMask);
  if (r.WaitOwn("the present frame after CR.RXD", d, true) != (kOwn | Received(1404, 1, kOk))) Fail("CR.RXD hurts the present frame");
  r.Run(100);
  if (r.Read(hvia::kMacCROffset) & hvia::kMacCRRXEMask) Fail("the receiver continues after CR.RXD");
  d = r.Free();
  r.Arrive(r.Frame(200), r.now + kClock);
  r.Run(300);
  if (Status(r.memory, d) & kOwn) Fail("a frame was received after CR.RXD");
  // RXR empties the FIFO.
  r.rx_next--;
  r.KickReceive();
  r.Run(40);
  r.Write(hvia::kMacCROffset, hvia::kMacCRRXDMask);
  r.KickReceive();
  r.memory.TakeBack(r.rx.Address(r.rx_next), kDescriptor);
  r.Run(40);
  r.Arrive(r.Frame(64), r.now + kClock);
  r.Run(10);
  r.Write(hvia::kMacCROffset, hvia::kMacCRRXRMask);
  r.Run(100);
  if (r.chip.statistics().receive_dropped != 1 || r.Read(hvia::kMacRXDPOffset) != 0) Fail("CR.RXR does not empty the receiver");
  r.Write(hvia::kMacRXDPOffset, r.rx.Address(r.rx_next));
  d = r.Free();
  r.KickReceive();
  r.Run(40);
  r.Arrive(r.Frame(90), r.now + kClock);
  if (r.WaitOwn("a frame after CR.RXR", d, true) != (kOwn | Received(94, 1, kOk))) Fail("the receiver does not come back");

  // TXD: the present frame is the last; TXE continues with the next.
  const uint32_t a = r.Queue(r.Frame(1200)), b = r.Queue(r.Frame(200));
  r.KickTransmit();
  r.Run(100);
  r.Write(hvia::kMacCROffset, hvia::kMacCRTXDMask);
  if (r.WaitOwn("the present frame after CR.TXD", a, false) != (kOk | 1200)) Fail("CR.TXD hurts the present frame");
  r.Run(400);
  if (!(Status(r.memory, b) & kOwn)) Fail("the transmitter continues after CR.TXD");
  r.KickTransmit();
  r.WaitOwn("the next frame after CR.TXE", b, false);
  r.Until("both", [&] { return r.sent.size() == 2; });
  // TXR inside a frame removes it.
  r.sent.clear();
  const uint32_t c = r.Queue(r.Frame(1500));
  r.KickTransmit();
  r.Run(150);
  r.Write(hvia::kMacCROffset, hvia::kMacCRTXRMask);
  r.Run(600);
  if (!(Status(r.memory, c) & kOwn) || !r.sent.empty() || r.chip.statistics().transmit_dropped != 1) Fail("CR.TXR does not take the frame back: status %08" PRIx32 ", %zu sent, %" PRIu64 " dropped", Status(r.memory, c), r.sent.size(), r.chip.statistics().transmit_dropped);
  r.tx_next--;
  r.Write(hvia::kMacTXDPOffset, r.tx.Address(r.tx_next));
  const uint32_t e = r.Queue(r.Frame(333));
  r.KickTransmit();
  if (r.WaitOwn("a frame after CR.TXR", e, false) != (kOk | 333)) Fail("the transmitter does not come back");
  r.Run(60);
  // RST clears everything except the configuration space.
  r.Write(hvia::kMacCROffset, hvia::kMacCRRSTMask);
  for (size_t reg : {hvia::kMacCFGOffset, hvia::kMacTXCFGOffset, hvia::kMacRXCFGOffset, hvia::kMacTXDPOffset, hvia::kMacRXDPOffset, hvia::kMacRFCROffset, hvia::kMacCROffset})
    if (r.Read(reg) != 0) Fail("register %#zx survives CR.RST", reg);
  r.Configure();
  const uint32_t f = r.Queue(r.Frame(99));
  r.KickTransmit();
  if (r.WaitOwn("a frame after CR.RST", f, false) != (kOk | 99)) Fail("the chip does not come back from CR.RST");
}

void Aborts(unit::Rng* rng, int bits) {
  for (bool target : {false, true}) {
    for (bool receive : {false, true}) {
      Setup s = Plain(bits);
      Driver r(s, rng);
      if (target) {
        hvia::HostBridgeNoise noise;
        noise.target_abort = 1000;
        noise.seed = rng->Next();
        r.bridge.SetNoise(noise);
      } else {
        r.Write(receive ? hvia::kMacRXDPOffset : hvia::kMacTXDPOffset, hvia::kPciMemorySize);
      }
      r.Write(hvia::kMacCROffset, receive ? hvia::kMacCRRXEMask : hvia::kMacCRTXEMask);
      // The bridge aborts one in four of the data phases that it offers.
      r.Until("an abort", [&] {
        const auto& c = r.chip.statistics();
        if (c.master_aborts + c.target_aborts != 0) return true;
        if (target && r.chip.quiet()) r.Post(HostCommand::kMemoryWrite, hvia::kMacRegisterBase, receive ? hvia::kMacCRRXEMask : hvia::kMacCRTXEMask);
        r.DropResults();
        return false;
      });
      r.bridge.SetNoise({});
      r.memory.Leave();
      r.Run(40);
      r.DropResults();
      const uint32_t isr = r.Read(hvia::kMacISROffset);
      const uint32_t bit = target ? hvia::kMacISRRTABTMask : hvia::kMacISRRMABTMask, other = target ? hvia::kMacISRRMABTMask : hvia::kMacISRRTABTMask;
      if (!(isr & bit) || (isr & other)) Fail("ISR after an abort is %08" PRIx32, isr);
      const uint32_t want = target ? hvia::kPciConfigCommandReceivedTargetAbortMask : hvia::kPciConfigCommandReceivedMasterAbortMask;
      if (!(r.ReadConfig(hvia::kPciConfigCommandOffset) & want)) Fail("the PCI status does not report the abort");
      r.WriteConfig(hvia::kPciConfigCommandOffset, want, 12);
      if (r.ReadConfig(hvia::kPciConfigCommandOffset) & want) Fail("the PCI status is not cleared by 1");
      if (r.Read(hvia::kMacCROffset) != 0) Fail("an engine runs after an abort");
      r.Write(hvia::kMacCROffset, hvia::kMacCRRSTMask);
      r.Configure();
      const uint32_t d = r.Queue(r.Frame(70));
      r.KickTransmit();
      if (r.WaitOwn("a frame after an abort", d, false) != (kOk | 70)) Fail("the chip does not come back from an abort");
    }
  }
}

// Without GNT# a burst continues until the latency timer expires.
void Latency(unit::Rng* rng, int bits) {
  for (uint8_t timer : {16, 255}) {
    Driver r(Plain(bits), rng);
    r.WriteConfig(hvia::kPciConfigHeaderOffset, uint32_t{timer} << hvia::kPciConfigHeaderLatencyTimerLsb);
    const Bytes frame = r.Frame(1514);
    const uint32_t d = r.Queue(frame);
    r.KickTransmit();
    // Runs until the chip is inside a burst of the frame.
    r.Until("the frame's first burst", [&] { return !r.pins.frame_n() && !r.pins.irdy_n() && r.bus.statistics().card_dwords > 8; });
    r.Run(30);
    const int64_t asked = r.now;
    r.Read(hvia::kMacIMROffset);
    const int64_t took = (r.now - asked) / kClock;
    if (timer == 16 ? took > 16 : took < 30) Fail("latency timer %d: the host waited %" PRId64 " clocks", timer, took);
    r.WaitOwn("the frame", d, false);
    r.Until("the frame on the wire", [&] { return !r.sent.empty(); });
    if (!std::equal(frame.begin(), frame.end(), r.sent.front().bytes.begin())) Fail("a burst that was cut short went wrong");
  }
}

// The model reports a driver's misuse.
void Misuse(unit::Rng* rng, int bits) {
  const auto expect = [&](const char* what, const std::function<void(Driver*)>& doing) {
    Driver r(Plain(bits), rng);
    r.misuse_expected = true;
    doing(&r);
    if (r.chip.misuse().empty()) Fail("the model does not report %s", what);
  };
  expect("TXDP of a running transmitter", [](Driver* r) {
    r->Queue(r->Frame(1500));
    r->KickTransmit();
    r->Write(hvia::kMacTXDPOffset, 0);
  });
  expect("RXDP of a running receiver", [](Driver* r) {
    r->Free();
    r->KickReceive();
    r->Run(40);
    r->Write(hvia::kMacRXDPOffset, 0);
  });
  expect("a receive buffer at 4 modulo 8", [](Driver* r) {
    const uint32_t d = r->Free();
    r->memory.Put(d + hvia::kMacDescriptorBufferAddressOffset, kRxBuffers + 4);
    r->KickReceive();
    r->Run(60);
  });
  expect("a fill threshold below the burst", [](Driver* r) { r->Write(hvia::kMacTXCFGOffset, kMaxDma512 | kFill512 / 2); });
  expect("thresholds beyond the FIFO", [](Driver* r) { r->Write(hvia::kMacTXCFGOffset, kMaxDma512 | 128u << hvia::kMacTXCFGFLTHLsb | 128u); });
  expect("64-bit addresses", [](Driver* r) { r->Write(hvia::kMacCFGOffset, hvia::kMacCFGM64ADDRMask); });
}

// RST# at any clock of a transfer. Afterwards the chip is as new.
void Resets(unit::Rng* rng, int bits) {
  for (int i = 0; i < 40; ++i) {
    Driver r(Plain(bits), rng, 4, 4);
    for (int k = 0; k < 3; ++k) r.Free();
    r.KickReceive();
    for (int k = 0; k < 3; ++k) r.Queue(r.Frame(rng->Range(60, 1514)));
    r.Arrive(r.Frame(1000), r.now + 1'000'000);
    r.Arrive(r.Frame(500), r.now + 20'000'000);
    r.KickTransmit();
    r.Run(static_cast<int64_t>(rng->Below(1200)));
    r.chip.Reset(r.now);
    r.bus.Reset();
    r.memory.Leave();
    if (r.chip.drive().oe != 0 || !r.chip.drive().req_n) Fail("the chip drives in reset");
    // The host is reset too.
    r.bridge = HostBridge(&r.memory, r.setup_.host, bits);
    r.pins = r.bus.Clock(r.chip.drive(), r.bridge.drive(), true, false);
    r.sent.clear();
    r.Run(4);
    const uint64_t written = r.memory.written();
    r.Run(2000);
    if (r.memory.written() != written || !r.sent.empty()) Fail("old state survived RST#");
    if (r.ReadConfig(hvia::kPciConfigBar1Offset) != 0) Fail("BAR 1 survives RST#");
    r.tx_next = r.rx_next = 0;
    r.Enumerate();
    r.Configure();
    if (Status(r.memory, r.tx.Address(0)) & kOwn) r.memory.Put(r.tx.Address(0) + hvia::kMacDescriptorCommandStatusOffset, 0);
    const uint32_t d = r.Queue(r.Frame(128)), e = r.Free();
    r.KickTransmit();
    r.KickReceive();
    r.Run(40);
    r.Arrive(r.Frame(256), r.now + kClock);
    if (r.WaitOwn("a frame after RST#", d, false) != (kOk | 128)) Fail("the transmitter does not come back from RST#");
    if (r.WaitOwn("a frame after RST#", e, true) != (kOwn | Received(260, 1, kOk))) Fail("the receiver does not come back from RST#");
  }
}

}  // namespace

void Directed(unit::Rng* rng, int bits) {
  Registers(rng, bits);
  Transmit(rng, bits);
  Prefetch(rng, bits);
  Drain(rng, bits);
  Filters(rng, bits);
  Errors(rng, bits);
  Early(rng, bits);
  Fragments(rng, bits);
  Overrun(rng, bits);
  Commands(rng, bits);
  Aborts(rng, bits);
  Latency(rng, bits);
  Misuse(rng, bits);
  Resets(rng, bits);
}

}  // namespace testbench
