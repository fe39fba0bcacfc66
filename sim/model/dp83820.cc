// SPDX-License-Identifier: Apache-2.0
#include "sim/model/dp83820.h"

#include <algorithm>
#include <cstdio>

#include "sim/gen/hvia_layout.h"

namespace hvia {
namespace {

constexpr int kDevselLimit = 4;        // clocks after the address phase: subtractive decode
constexpr int kDevsel = 2;             // medium
constexpr int kRequestAway = 2;        // clocks without REQ# after STOP#
constexpr uint32_t kSiliconRevision = 0x0103;  // SRR
constexpr uint32_t kEthernetController = 0x020000;
constexpr uint32_t kBar0Bytes = 256;   // I/O
constexpr size_t kShortest = kMinFrame + kFcsBytes;  // a shorter frame is a runt
constexpr size_t kLongest = kMaxFrame + kFcsBytes;   // a longer frame is too long, unless RXCFG.ALP
constexpr size_t kTruncated = 2046;    // a longer frame is truncated to this size
constexpr uint32_t kUnicast = 1, kMulticast = 2, kBroadcast = 3;  // DestinationClass
// The card does not use I/O space (BAR 0), so the layout does not name these.
constexpr uint8_t kIoRead = 2, kIoWrite = 3;
constexpr uint32_t kIoEnable = 1;

constexpr uint32_t kCommandWritable = kIoEnable | kPciConfigCommandMemoryEnableMask | kPciConfigCommandMasterEnableMask |
                                      kPciConfigCommandParityResponseMask | kPciConfigCommandSerrEnableMask;
constexpr uint32_t kErrors = kMacDescriptorCommandStatusFcsErrorMask | kMacDescriptorCommandStatusSymbolErrorMask |
                             kMacDescriptorCommandStatusRuntMask | kMacDescriptorCommandStatusTooLongMask;

bool IsMemoryRead(uint8_t c) {
  return c == kPciCommandMemoryRead || c == kPciCommandMemoryReadLine || c == kPciCommandMemoryReadMultiple;
}
bool IsMemoryWrite(uint8_t c) { return c == kPciCommandMemoryWrite || c == kPciCommandMemoryWriteInvalidate; }
bool IsRead(uint8_t c) { return IsMemoryRead(c) || c == kPciCommandConfigRead || c == kIoRead; }

uint32_t Mask(uint8_t byte_enables) {
  uint32_t mask = 0;
  for (int i = 0; i < 4; ++i)
    if (byte_enables >> i & 1) mask |= 0xffu << (8 * i);
  return mask;
}

// Number of complete byte times in a span, 0 if it is negative.
int64_t Bytes(int64_t span, int64_t byte_time) { return span <= 0 ? 0 : span / byte_time; }

}  // namespace

Dp83820Timing Dp83820TimingOf(const Params& params) {
  Dp83820Timing t;
  t.react_clocks = static_cast<int>(params.MacReactClocks);
  t.register_initial = static_cast<int>(params.MacRegisterInitialClocks);
  t.read_wait_every = static_cast<int>(params.MacReadWaitEvery);
  t.write_wait_every = static_cast<int>(params.MacWriteWaitEvery);
  t.transmit_delay = params.MacTransmitDelay;
  t.receive_delay = params.MacReceiveDelay;
  t.byte_time = 8 * params.WireBitTime;
  t.preamble_bytes = static_cast<int>(params.WirePreambleBytes);
  t.gap_bytes = static_cast<int>(params.WireGapBytes);
  t.transmit_fifo = static_cast<int>(params.MacTransmitFifoBytes);
  t.receive_fifo = static_cast<int>(params.MacReceiveFifoBytes);
  return t;
}

Dp83820::Dp83820(const Dp83820Timing& timing, int bus_bits) : timing_(timing), wide_bus_(bus_bits == 64) {}

void Dp83820::Misuse(const std::string& text) {
  if (misuse_.empty()) misuse_ = "DP83820 at " + std::to_string(now_) + " ps: " + text;
}

void Dp83820::Reset(int64_t now) {
  now_ = now;
  // A frame that started before the end of the reset is not recognized.
  while (!coming_.empty() && coming_.front().first_byte + timing_.receive_delay <= now) {
    stats_.disabled++;
    coming_.pop_front();
  }
  TransmitReset();
  ReceiveReset();
  drive_ = PciDrive{};
  target_ = TargetState::kIdle;
  master_ = MasterState::kIdle;
  job_ = Job{};
  last_ = kNobody;
  backoff_ = 0;
  parity_due_ = parity64_due_ = false;
  was_frame_n_ = true;
  pci_command_ = pci_status_ = pci_header_ = pci_interrupt_ = bar0_ = bar1_ = 0;
  cfg_ = isr_ = imr_ = ier_ = txcfg_ = rxcfg_ = rfcr_ = 0;
  station_ = {};
  steady_ = false;
}

void Dp83820::Tick(const PciPins& pins, int64_t now) {
  // NextEvent is relative to the last edge.
  const bool nothing = !timing_.eager && steady_ && pins.high == steady_high_ && pins.gnt_n && !pins.idsel && now < NextEvent();
  now_ = now;
  if (!nothing) Work(pins);
}

void Dp83820::Work(const PciPins& p) {
  const bool drove_ad = drive_.oe & kPciAd;
  CheckParity(p);
  WireIn();
  TargetTick(p);
  MasterTick(p);
  if (tx_ == TxState::kReact && react_ > 0) react_--;
  WireOut();
  Engines();
  Request();

  // The owner of GNT# parks the idle bus.
  if (master_ == MasterState::kIdle && target_ == TargetState::kIdle) {
    if (p.idle() && !p.gnt_n)
      Drive(kPciAd | kPciCbe);
    else
      Release(kPciAd | kPciCbe);
  }

  // PAR follows AD and C/BE# by one clock.
  constexpr uint16_t kNarrow = kPciPar, kBoth = kPciPar | kPciPar64;
  if (drove_ad) {
    Drive(wide_bus_ ? kBoth : kNarrow);
    drive_.Set(kPciPar, PciParity(p.ad, p.cbe_n));
    drive_.Set(kPciPar64, PciParity64(p.ad, p.cbe_n));
  } else {
    Release(kBoth);
  }

  steady_ = p.idle() && was_frame_n_ && p.gnt_n && !p.idsel && p.req_n && drive_.req_n && drive_.oe == 0 && backoff_ == 0 && !parity_due_ &&
            !parity64_due_ && master_ == MasterState::kIdle && target_ == TargetState::kIdle && !TransmitWants() && !ReceiveWants() &&
            tx_ != TxState::kReact && !job_.active;
  steady_high_ = p.high;
  was_frame_n_ = p.frame_n();
}

// ---- Wire ----

void Dp83820::Receive(Arriving frame) { coming_.push_back(std::move(frame)); }

void Dp83820::SetLink(bool up, int64_t now) {
  link_ = up;
  if (up) wire_free_ = std::max(wire_free_, now);
}

bool Dp83820::PopSent(Sent* sent) {
  if (sent_.empty()) return false;
  *sent = std::move(sent_.front());
  sent_.pop_front();
  return true;
}

// Bytes of the frame that have entered the FIFO, including those already in memory.
size_t Dp83820::Arrived(const RxFrame& frame) const {
  if (frame.complete) return frame.kept;
  if (now_ < frame.first) return 0;
  return std::min(frame.kept, static_cast<size_t>((now_ - frame.first) / timing_.byte_time) + 1);
}

size_t Dp83820::ReceiveHeld() const {
  size_t held = 0;
  for (const RxFrame& f : rx_fifo_) held += Arrived(f) - f.drained;
  return held;
}

// Processes everything that has arrived, in order.
void Dp83820::WireIn() {
  for (;;) {
    if (!rx_fifo_.empty() && !rx_fifo_.back().complete) {
      Overflow();
      if (!rx_fifo_.empty() && !rx_fifo_.back().complete) {
        RxFrame& f = rx_fifo_.back();
        if (now_ < f.first + static_cast<int64_t>(f.bytes.size() - 1) * timing_.byte_time) return;
        Finish(&f);
      }
    }
    if (coming_.empty() || coming_.front().first_byte + timing_.receive_delay > now_) return;
    Accept(std::move(coming_.front()));
    coming_.pop_front();
  }
}

void Dp83820::Accept(Arriving frame) {
  if (frame.bytes.empty()) return;
  if (!rx_enabled_ || !(rfcr_ & kMacRFCREnableMask)) {
    stats_.disabled++;
    return;
  }
  uint32_t destination_class = 0;
  if (Filtered(frame.bytes, &destination_class)) {
    stats_.filtered++;
    return;
  }
  RxFrame f;
  f.first = frame.first_byte + timing_.receive_delay;
  f.bytes = std::move(frame.bytes);
  f.kept = std::min(f.bytes.size(), (rxcfg_ & kMacRXCFGALPMask) ? kTruncated : kLongest);
  f.symbol_error = frame.symbol_error;
  f.status = destination_class << kMacDescriptorCommandStatusDestinationClassLsb;
  f.overrun = rx_lost_;
  rx_lost_ = false;
  rx_fifo_.push_back(std::move(f));
}

bool Dp83820::Filtered(const std::vector<uint8_t>& bytes, uint32_t* destination_class) const {
  if (bytes.size() < station_.size()) {
    // A frame cut before its address ends is filtered.
    return true;
  }
  const bool broadcast = std::all_of(bytes.begin(), bytes.begin() + 6, [](uint8_t b) { return b == 0xff; });
  if (broadcast) {
    *destination_class = kBroadcast;
    return !(rfcr_ & kMacRFCRAABMask);
  }
  if (bytes[0] & 1) {
    *destination_class = kMulticast;
    return !(rfcr_ & kMacRFCRAAMMask);
  }
  *destination_class = kUnicast;
  if (rfcr_ & kMacRFCRAAUMask) return false;
  return !(rfcr_ & kMacRFCRAPMMask) || !std::equal(station_.begin(), station_.end(), bytes.begin());
}

// The FIFO overflows with the arriving frame. Removes the frame if none of it has left.
void Dp83820::Overflow() {
  if (ReceiveHeld() <= static_cast<size_t>(timing_.receive_fifo)) return;
  RxFrame& f = rx_fifo_.back();
  stats_.overrun++;
  isr_ |= kMacISRRXORNMask;
  if (!f.committed) {
    rx_lost_ = true;
    rx_fifo_.pop_back();
    return;
  }
  f.kept = Arrived(f) - (ReceiveHeld() - static_cast<size_t>(timing_.receive_fifo));
  f.overrun = true;
  f.complete = true;
}

// The frame's last byte is in the FIFO: determines the status.
void Dp83820::Finish(RxFrame* frame) {
  RxFrame& f = *frame;
  f.complete = true;
  const size_t size = f.bytes.size();
  if (!HasGoodFcs(f.bytes)) f.status |= kMacDescriptorCommandStatusFcsErrorMask;
  if (f.symbol_error) f.status |= kMacDescriptorCommandStatusSymbolErrorMask;
  if (size < kShortest) f.status |= kMacDescriptorCommandStatusRuntMask;
  if (size > f.kept) f.status |= kMacDescriptorCommandStatusTooLongMask;
  const bool fine = (f.status & kErrors & ~kMacDescriptorCommandStatusRuntMask) == 0 && (size >= kShortest || (rxcfg_ & kMacRXCFGARPMask));
  if (fine) f.status |= kMacDescriptorCommandStatusOKMask;
  if (fine || !Reject(f)) return;
  // Only the last frame of the FIFO can be arriving.
  rx_lost_ = rx_lost_ || f.overrun;
  rx_fifo_.pop_back();
}

// Rejects a frame with an error if none of it has left the FIFO.
bool Dp83820::Reject(const RxFrame& f) {
  if (f.committed || (rxcfg_ & kMacRXCFGAEPMask)) return false;
  if (f.status & (kMacDescriptorCommandStatusFcsErrorMask | kMacDescriptorCommandStatusSymbolErrorMask))
    (f.status & kMacDescriptorCommandStatusRuntMask ? stats_.rejected_runt : stats_.rejected_bad)++;
  else
    (f.status & kMacDescriptorCommandStatusRuntMask ? stats_.rejected_runt : stats_.rejected_long)++;
  return true;
}

// Bytes of a frame that have left the FIFO for the wire.
int64_t Dp83820::Left(const TxFrame& frame) const {
  if (!frame.started) return 0;
  const int64_t gone = Bytes(now_ - frame.start - timing_.preamble_bytes * timing_.byte_time, timing_.byte_time);
  return std::min(gone, static_cast<int64_t>(frame.bytes.size()));
}

int64_t Dp83820::TransmitHeld() const {
  int64_t held = 0;
  for (const TxFrame& f : tx_fifo_)
    if (!f.cut) held += static_cast<int64_t>(f.bytes.size()) - Left(f);
  return held;
}

// The wire's side of the transmit FIFO. Frames follow each other at the wire's times. Only the fill
// level of the FIFO is checked with the bus clock.
void Dp83820::WireOut() {
  const size_t drain = 32 * static_cast<size_t>((txcfg_ & kMacTXCFGDRTHMask) >> kMacTXCFGDRTHLsb);
  for (TxFrame& f : tx_fifo_) {
    if (f.ready) continue;
    // A frame that exceeds the FIFO starts when the FIFO is full.
    const bool stuck = tx_ == TxState::kRoom && tx_fifo_.size() == 1 && TransmitHeld() + TransmitNeeds() > timing_.transmit_fifo;
    if (!f.complete && !(drain != 0 && f.bytes.size() >= drain) && !stuck) break;
    f.ready = true;
    f.ready_at = now_;
  }
  while (!tx_fifo_.empty()) {
    TxFrame& f = tx_fifo_.front();
    if (!f.ready) return;
    if (!f.started) {
      const int64_t start = std::max(f.ready_at, wire_free_);
      if (start > now_ || !link_) return;
      f.started = true;
      f.start = start;
    }
    const int64_t head = timing_.preamble_bytes * timing_.byte_time;
    if (!f.complete && !f.cut && Bytes(now_ - f.start - head + timing_.byte_time, timing_.byte_time) > static_cast<int64_t>(f.bytes.size())) {
      stats_.transmit_underrun++;
      isr_ |= kMacISRTXURNMask;
      f.cut = f.gone = true;
      wire_free_ = now_ + timing_.gap_bytes * timing_.byte_time;
      sent_.push_back(Sent{f.bytes, f.start + timing_.transmit_delay, true});
    }
    if (!f.complete) return;
    if (!f.gone) Send(&f);
    if (!f.cut && now_ < f.start + head + static_cast<int64_t>(f.bytes.size()) * timing_.byte_time) return;
    tx_fifo_.pop_front();
  }
}

void Dp83820::Send(TxFrame* frame) {
  frame->gone = true;
  Sent s;
  s.bytes = frame->bytes;
  s.start = frame->start + timing_.transmit_delay;
  if (!frame->suppress_fcs) {
    if ((txcfg_ & kMacTXCFGATPMask) && s.bytes.size() < kMinFrame) s.bytes.resize(kMinFrame);
    AppendFcs(&s.bytes);
  }
  const int64_t length = timing_.preamble_bytes + static_cast<int64_t>(s.bytes.size()) + timing_.gap_bytes;
  wire_free_ = frame->start + length * timing_.byte_time;
  stats_.transmitted++;
  sent_.push_back(std::move(s));
}

int64_t Dp83820::NextEvent() const {
  int64_t next = kNever;
  if (!coming_.empty()) next = coming_.front().first_byte + timing_.receive_delay;
  if (!rx_fifo_.empty() && !rx_fifo_.back().complete) {
    const RxFrame& f = rx_fifo_.back();
    // The index of the next arriving byte that changes something.
    size_t byte = f.bytes.size() - 1;
    const size_t others = ReceiveHeld() - (Arrived(f) - f.drained);
    const size_t fits = static_cast<size_t>(timing_.receive_fifo) - std::min(others, static_cast<size_t>(timing_.receive_fifo)) + f.drained;
    if (fits < f.kept) byte = std::min(byte, fits);
    const size_t drain = 8 * static_cast<size_t>((rxcfg_ & kMacRXCFGDRTHMask) >> kMacRXCFGDRTHLsb);
    if (drain != 0 && rx_ == RxState::kData && rx_fifo_.size() == 1 && f.drained + drain <= f.kept && f.drained + drain > Arrived(f))
      byte = std::min(byte, f.drained + drain - 1);
    next = std::min(next, f.first + static_cast<int64_t>(byte) * timing_.byte_time);
  }
  if (!tx_fifo_.empty() && tx_fifo_.front().ready) {
    const TxFrame& f = tx_fifo_.front();
    const int64_t head = timing_.preamble_bytes * timing_.byte_time;
    if (!f.started) {
      if (link_) next = std::min(next, wire_free_);
    } else if (!f.cut) {
      int64_t byte = static_cast<int64_t>(f.bytes.size());
      if (tx_ == TxState::kRoom) byte = std::min(byte, std::max(Left(f) + TransmitHeld() + TransmitNeeds() - timing_.transmit_fifo, int64_t{0}));
      // The time at which a complete frame has left, or an incomplete one underruns.
      next = std::min(next, f.start + head + byte * timing_.byte_time);
    }
  }
  return next;
}

// ---- Engines ----

size_t Dp83820::Burst(uint32_t config) const {
  static_assert(kMacTXCFGMXDMALsb == kMacRXCFGMXDMALsb && kMacTXCFGMXDMAMask == kMacRXCFGMXDMAMask, "one decoding for both");
  const uint32_t code = (config & kMacTXCFGMXDMAMask) >> kMacTXCFGMXDMALsb;
  return code == 0 ? 1024 : size_t{4} << code;
}

uint32_t Dp83820::DescriptorBytes() const {
  return static_cast<uint32_t>((cfg_ & kMacCFGEXTSTSMask) ? kMacDescriptorSize : kMacDescriptorExtendedStatusOffset);
}

// Free FIFO bytes that the fragment's next burst requires.
int64_t Dp83820::TransmitNeeds() const {
  const int64_t fill = 32 * static_cast<int64_t>((txcfg_ & kMacTXCFGFLTHMask) >> kMacTXCFGFLTHLsb);
  return std::max(std::min(fill, static_cast<int64_t>(timing_.transmit_fifo)), static_cast<int64_t>(std::min<size_t>(Burst(txcfg_), tx_left_)));
}

bool Dp83820::ReceiveBurstReady() const {
  if (rx_ != RxState::kData || rx_fifo_.empty() || rx_space_ == 0) return false;
  const RxFrame& f = rx_fifo_.front();
  const size_t there = Arrived(f) - f.drained;
  if (f.complete) return there != 0;
  const size_t drain = 8 * static_cast<size_t>((rxcfg_ & kMacRXCFGDRTHMask) >> kMacRXCFGDRTHLsb);
  return drain != 0 && there >= drain;
}

bool Dp83820::TransmitWants() const {
  return tx_ == TxState::kRefresh || tx_ == TxState::kDescriptor || tx_ == TxState::kFragment || tx_ == TxState::kStatus;
}

bool Dp83820::ReceiveWants() const {
  return rx_ == RxState::kRefresh || rx_ == RxState::kDescriptor || rx_ == RxState::kStatus || ReceiveBurstReady();
}

// Steps that require neither the bus nor another clock.
void Dp83820::Engines() {
  if (tx_ == TxState::kReact && react_ == 0) tx_ = tx_done_ ? TxState::kRefresh : TxState::kDescriptor;
  if (tx_ == TxState::kRoom && TransmitHeld() + TransmitNeeds() <= timing_.transmit_fifo) tx_ = TxState::kFragment;

  if (rx_ == RxState::kData && !job_.active) {
    if (rx_halt_ && (rx_fifo_.empty() || !rx_fifo_.front().committed)) {
      rx_ = RxState::kIdle;
      return;
    }
    if (rx_fifo_.empty()) return;
    RxFrame& f = rx_fifo_.front();
    const bool all = f.complete && f.drained == f.kept;
    if (!all && rx_space_ != 0) return;
    rx_more_ = !all;
    // A status holds the bytes in its buffer. Errors and OK belong to the frame's last buffer.
    rx_status_ = kMacDescriptorCommandStatusOwnMask | rx_stored_;
    if (rx_more_) {
      rx_status_ |= kMacDescriptorCommandStatusMoreMask;
      f.committed = true;
    } else {
      rx_status_ |= f.status;
      if (f.overrun) rx_status_ |= kMacDescriptorCommandStatusOverrunMask;
    }
    rx_ = RxState::kStatus;
  }
}

void Dp83820::TransmitGo() {
  tx_disable_ = false;
  if (tx_ != TxState::kIdle) return;
  tx_ = TxState::kReact;
  react_ = timing_.react_clocks;
}

void Dp83820::ReceiveGo() {
  rx_enabled_ = true;
  rx_halt_ = false;
  if (rx_ == RxState::kIdle) rx_ = rx_done_ ? RxState::kRefresh : RxState::kDescriptor;
}

void Dp83820::TransmitDescriptor() {
  const uint32_t command = tx_descriptor_.command;
  if (!(command & kMacDescriptorCommandStatusOwnMask) || (tx_disable_ && !tx_open_)) {
    tx_ = TxState::kIdle;
    tx_disable_ = false;
    isr_ |= kMacISRTXIDLEMask;
    return;
  }
  if (!tx_open_) {
    tx_fifo_.emplace_back();
    tx_open_ = true;
  }
  tx_fifo_.back().suppress_fcs = command & kMacDescriptorCommandStatusSuppressCrcMask;
  tx_cursor_ = tx_descriptor_.buffer;
  tx_left_ = command & kMacDescriptorCommandStatusSizeMask;
  if (tx_left_ == 0) {
    Misuse("a transmit fragment of 0 bytes");
    TransmitBurstDone();
    return;
  }
  tx_ = TxState::kRoom;
}

void Dp83820::TransmitBurstDone() {
  if (tx_left_ != 0) {
    tx_ = TxState::kRoom;
    return;
  }
  tx_ = TxState::kStatus;
  if (tx_descriptor_.command & kMacDescriptorCommandStatusMoreMask) return;
  tx_fifo_.back().complete = true;
  tx_cut_ = tx_fifo_.back().cut;
  tx_open_ = false;
}

void Dp83820::TransmitStatusDone() {
  const bool more = tx_descriptor_.command & kMacDescriptorCommandStatusMoreMask;
  if (!more) isr_ |= tx_cut_ ? kMacISRTXERRMask : kMacISRTXOKMask;
  if (tx_descriptor_.link == 0) {
    tx_done_ = true;
    tx_ = TxState::kIdle;
    isr_ |= kMacISRTXIDLEMask;
    return;
  }
  txdp_ = tx_descriptor_.link;
  if (tx_disable_ && !more) {
    tx_disable_ = false;
    tx_ = TxState::kIdle;
    return;
  }
  tx_ = TxState::kReact;
  react_ = timing_.react_clocks;
}

void Dp83820::ReceiveDescriptor() {
  if (rx_halt_ && (rx_fifo_.empty() || !rx_fifo_.front().committed)) {
    rx_ = RxState::kIdle;
    return;
  }
  if (rx_descriptor_.command & kMacDescriptorCommandStatusOwnMask) {
    rx_ = RxState::kIdle;
    isr_ |= kMacISRRXIDLEMask;
    return;
  }
  rx_cursor_ = rx_descriptor_.buffer & ~7u;
  rx_space_ = rx_descriptor_.command & kMacDescriptorCommandStatusSizeMask;
  rx_stored_ = 0;
  if (rx_descriptor_.buffer & 7) Misuse("a receive buffer that does not begin at a multiple of 8");
  if (rx_space_ == 0) Misuse("a receive buffer of 0 bytes");
  rx_ = RxState::kData;
}

void Dp83820::ReceiveBurstDone() {
  const uint32_t moved = static_cast<uint32_t>(rx_fifo_.front().drained - job_.base);
  rx_cursor_ += moved;
  rx_stored_ += moved;
  rx_space_ -= moved;
}

void Dp83820::ReceiveStatusDone() {
  if (!rx_more_) {
    const bool ok = rx_status_ & kMacDescriptorCommandStatusOKMask;
    (ok ? stats_.received : stats_.received_bad)++;
    isr_ |= ok ? kMacISRRXOKMask : kMacISRRXERRMask;
    rx_fifo_.pop_front();
  }
  if (rx_descriptor_.link == 0) {
    rx_done_ = true;
    rx_ = RxState::kIdle;
    isr_ |= kMacISRRXIDLEMask;
    return;
  }
  rxdp_ = rx_descriptor_.link;
  rx_ = rx_halt_ && !rx_more_ ? RxState::kIdle : RxState::kDescriptor;
}

// Frames whose preamble has started stay on the wire.
void Dp83820::TransmitReset() {
  while (!tx_fifo_.empty() && !tx_fifo_.back().started) {
    stats_.transmit_dropped++;
    tx_fifo_.pop_back();
  }
  if (!tx_fifo_.empty() && !tx_fifo_.back().complete) {
    TxFrame& f = tx_fifo_.back();
    if (!f.gone) {
      sent_.push_back(Sent{f.bytes, f.start + timing_.transmit_delay, true});
      wire_free_ = now_ + timing_.gap_bytes * timing_.byte_time;
    }
    stats_.transmit_dropped++;
    tx_fifo_.pop_back();
  }
  if (job_.client == kTransmit) job_.active = false;
  tx_open_ = tx_disable_ = tx_done_ = false;
  tx_left_ = 0;
  txdp_ = 0;
  tx_ = TxState::kIdle;
}

void Dp83820::ReceiveReset() {
  stats_.receive_dropped += rx_fifo_.size();
  rx_fifo_.clear();
  if (job_.client == kReceive) job_.active = false;
  rx_enabled_ = rx_halt_ = rx_done_ = rx_lost_ = false;
  rxdp_ = 0;
  rx_ = RxState::kIdle;
}

// After an abort the engines stop until a reset.
void Dp83820::StopEngines() {
  const uint32_t transmit = txdp_, receive = rxdp_;
  TransmitReset();
  ReceiveReset();
  txdp_ = transmit;  // the failing descriptor
  rxdp_ = receive;
}

// ---- Master ----

// Chooses between the engines. They alternate; receive goes first.
void Dp83820::Choose() {
  const bool transmit = TransmitWants(), receive = ReceiveWants();
  if (!transmit && !receive) return;
  job_ = Job{};
  job_.client = receive && (!transmit || last_ != kReceive) ? kReceive : kTransmit;
  last_ = job_.client;
  job_.active = true;
  const uint32_t status_bytes = DescriptorBytes() - static_cast<uint32_t>(kMacDescriptorCommandStatusOffset);
  if (job_.client == kTransmit) {
    switch (tx_) {
      case TxState::kStatus:
        job_.write = true;
        job_.address = (txdp_ & ~7u) + static_cast<uint32_t>(kMacDescriptorCommandStatusOffset);
        job_.dwords = static_cast<int>(status_bytes / 4);
        break;
      case TxState::kFragment: {
        const uint32_t begin = tx_cursor_ & ~((wide_bus_ && (cfg_ & kMacCFGDATA64Mask)) ? 7u : 3u);
        const uint32_t end = std::min(tx_cursor_ + tx_left_, begin + static_cast<uint32_t>(Burst(txcfg_)));
        job_.data = true;
        job_.address = begin;
        job_.dwords = static_cast<int>((end - begin + 3) / 4);
        break;
      }
      default:
        job_.address = txdp_ & ~7u;
        job_.dwords = static_cast<int>(DescriptorBytes() / 4);
        break;
    }
    return;
  }
  switch (rx_) {
    case RxState::kStatus:
      job_.write = true;
      job_.address = (rxdp_ & ~7u) + static_cast<uint32_t>(kMacDescriptorCommandStatusOffset);
      job_.dwords = static_cast<int>(status_bytes / 4);
      break;
    case RxState::kData: {
      RxFrame& f = rx_fifo_.front();
      f.committed = true;
      job_.write = true;
      job_.data = true;
      job_.address = rx_cursor_;
      job_.base = f.drained;
      job_.bytes = std::min<size_t>(Burst(rxcfg_), rx_space_);
      job_.dwords = static_cast<int>((job_.bytes + 3) / 4);
      Trim(2);
      break;
    }
    default:
      job_.address = rxdp_ & ~7u;
      job_.dwords = static_cast<int>(DescriptorBytes() / 4);
      break;
  }
}

// Ends the burst of an arriving frame before a data phase whose bytes are missing (`phase` dwords
// from the present one). The rest keeps 8 bytes together, so that the next burst starts at a
// multiple of 8.
void Dp83820::Trim(int phase) {
  if (job_.client != kReceive || !job_.data) return;
  const RxFrame& f = rx_fifo_.front();
  if (f.complete) {
    job_.dwords = static_cast<int>((std::min(job_.bytes, f.kept - job_.base) + 3) / 4);
    return;
  }
  const int next = (job_.index + phase + 1) & ~1;
  const size_t there = Arrived(f) - job_.base;
  if (next < job_.dwords && there < 4 * static_cast<size_t>(next) + 8) job_.dwords = next;
}

// Returns a dword of a write.
uint32_t Dp83820::Give(int index, uint8_t* byte_enables) const {
  *byte_enables = 15;
  if (!job_.data) {
    if (index == 1) return 0;  // extended status: no VLAN tag, no checksum
    if (job_.client == kReceive) return rx_status_;
    const uint32_t c = tx_descriptor_.command;
    uint32_t status = c & ~(kMacDescriptorCommandStatusOwnMask | kMacDescriptorCommandStatusOKMask | kMacDescriptorCommandStatusUnderrunMask |
                            kMacDescriptorCommandStatusOverrunMask);
    if (!(c & kMacDescriptorCommandStatusMoreMask)) {
      status |= tx_cut_ ? kMacDescriptorCommandStatusUnderrunMask : kMacDescriptorCommandStatusOKMask;
    }
    return status;
  }
  const RxFrame& f = rx_fifo_.front();
  const size_t at = job_.base + 4 * static_cast<size_t>(index);
  const size_t end = std::min(f.kept, job_.base + job_.bytes);
  uint32_t word = 0;
  uint8_t enables = 0;
  for (size_t i = 0; i < 4 && at + i < end; ++i) {
    word |= uint32_t{f.bytes[at + i]} << (8 * i);
    enables = static_cast<uint8_t>(enables | 1u << i);
  }
  *byte_enables = enables;
  return word;
}

// Stores the next dword of a read.
void Dp83820::Take(uint32_t data) {
  if (job_.data) {
    const uint32_t address = job_.address + 4 * static_cast<uint32_t>(job_.index);
    std::vector<uint8_t>& bytes = tx_fifo_.back().bytes;
    for (uint32_t i = 0; i < 4; ++i) {
      if (tx_left_ == 0 || address + i != tx_cursor_) continue;
      bytes.push_back(static_cast<uint8_t>(data >> (8 * i)));
      tx_cursor_++;
      tx_left_--;
    }
    return;
  }
  Descriptor& d = job_.client == kTransmit ? tx_descriptor_ : rx_descriptor_;
  switch (job_.index) {
    case kMacDescriptorLinkOffset / 4: d.link = data; break;
    case kMacDescriptorBufferAddressOffset / 4: d.buffer = data; break;
    case kMacDescriptorCommandStatusOffset / 4: d.command = data; break;
    default: d.extended = data; break;
  }
}

void Dp83820::JobDone() {
  job_.active = false;
  if (job_.client == kTransmit) {
    switch (tx_) {
      case TxState::kRefresh:
        if (tx_descriptor_.link == 0) {
          tx_ = TxState::kIdle;
          isr_ |= kMacISRTXIDLEMask;
        } else {
          tx_done_ = false;
          txdp_ = tx_descriptor_.link;
          tx_ = TxState::kDescriptor;
        }
        break;
      case TxState::kDescriptor: TransmitDescriptor(); break;
      case TxState::kFragment: TransmitBurstDone(); break;
      case TxState::kStatus: TransmitStatusDone(); break;
      default: break;
    }
    return;
  }
  switch (rx_) {
    case RxState::kRefresh:
      if (rx_descriptor_.link == 0) {
        rx_ = RxState::kIdle;
        isr_ |= kMacISRRXIDLEMask;
      } else {
        rx_done_ = false;
        rxdp_ = rx_descriptor_.link;
        rx_ = RxState::kDescriptor;
      }
      break;
    case RxState::kDescriptor: ReceiveDescriptor(); break;
    case RxState::kData: ReceiveBurstDone(); break;
    case RxState::kStatus: ReceiveStatusDone(); break;
    default: break;
  }
}

// Whether an engine continues at once after the burst in flight.
bool Dp83820::Follows() const {
  if (job_.client == kTransmit) {
    if (ReceiveWants()) return true;
    // After a fragment's last burst comes its status; after others the next burst, if the FIFO can
    // take it.
    if (job_.data) {
      const int64_t rest = static_cast<int64_t>(4 * (job_.dwords - job_.index));
      return tx_left_ <= rest || TransmitHeld() + std::min<int64_t>(rest, tx_left_) + TransmitNeeds() <= timing_.transmit_fifo;
    }
    return tx_ == TxState::kStatus && tx_descriptor_.link != 0 && timing_.react_clocks == 0;
  }
  if (TransmitWants()) return true;
  if (job_.data) {
    const RxFrame& f = rx_fifo_.front();
    if (f.complete) return true;
    const size_t end = job_.base + 4 * static_cast<size_t>(job_.dwords);
    const size_t drain = 8 * static_cast<size_t>((rxcfg_ & kMacRXCFGDRTHMask) >> kMacRXCFGDRTHLsb);
    return Arrived(f) >= end + drain;
  }
  return rx_ == RxState::kStatus && rx_descriptor_.link != 0 && !(rx_halt_ && !rx_more_);
}

void Dp83820::Request() {
  bool wanted;
  if (master_ == MasterState::kAddress || master_ == MasterState::kData)
    wanted = Follows();
  else
    wanted = job_.active || TransmitWants() || ReceiveWants();
  if (!(pci_command_ & kPciConfigCommandMasterEnableMask)) wanted = false;
  if (master_ == MasterState::kIdle && !wanted) last_ = kNobody;
  // Two clocks without REQ# after STOP#, including the idle one.
  if (stopped_) {
    stopped_ = false;
    backoff_ = kRequestAway;
  }
  drive_.req_n = !wanted || backoff_ > 0;
  if (backoff_ > 0) backoff_--;
}

void Dp83820::MasterBegin() {
  if (!job_.active) Choose();
  const int left = job_.dwords - job_.index;
  const uint32_t address = job_.address + 4 * static_cast<uint32_t>(job_.index);
  drive_.ad = address;
  drive_.cbe_n = static_cast<uint8_t>(job_.write ? kPciCommandMemoryWrite : kPciCommandMemoryRead);
  // A single qword goes as 32 bits: FRAME# would have to rise before the target shows its width.
  asked64_ = wide_bus_ && (cfg_ & kMacCFGDATA64Mask) && address % 8 == 0 && left >= 4;
  selected_ = aborted_ = moved_ = wide_ = false;
  drive_.Set(kPciFrame, false);
  drive_.Set(kPciIrdy, true);
  drive_.Set(kPciReq64, !asked64_);
  Drive(kPciAd | kPciCbe | kPciFrame);
  if (wide_bus_) Drive(kPciReq64);
  master_ = MasterState::kAddress;
  age_ = 0;
  phases_ = 0;
  latency_ = static_cast<int>((pci_header_ & kPciConfigHeaderLatencyTimerMask) >> kPciConfigHeaderLatencyTimerLsb);
}

// Puts the data phase at job_.index on the bus. IRDY# follows at once or after a wait state.
void Dp83820::MasterOffer(const PciPins& p) {
  const int every = job_.write ? timing_.write_wait_every : timing_.read_wait_every;
  wait_ = every != 0 && phases_ != 0 && phases_ % every == 0 ? 1 : 0;
  MasterPhase();
  drive_.Set(kPciIrdy, true);
  if (wait_ == 0) MasterReady(p);
}

void Dp83820::MasterPhase() {
  uint8_t low = 15, high = 0;
  uint32_t low_data = 0, high_data = 0;
  const bool two = Wide() && job_.index + 1 < job_.dwords;
  if (job_.write) {
    low_data = Give(job_.index, &low);
    if (two) high_data = Give(job_.index + 1, &high);
    drive_.ad = low_data | uint64_t{high_data} << 32;
  } else if (two) {
    high = 15;
  }
  drive_.cbe_n = static_cast<uint8_t>(~(low | high << 4));
  if (!wide_bus_) drive_.cbe_n &= 15;
}

// Asserts IRDY#, and decides whether this is the last data phase.
void Dp83820::MasterReady(const PciPins& p) {
  const int phase = Wide() ? 2 : 1;
  Trim(phase);
  const bool expired = latency_ == 0 && p.gnt_n && phases_ != 0;
  const bool last = job_.index + phase >= job_.dwords || expired;
  drive_.Set(kPciIrdy, false);
  drive_.Set(kPciFrame, last);
  if (last) drive_.Set(kPciReq64, true);
}

void Dp83820::MasterFinish() {
  drive_.Set(kPciIrdy, true);
  Release(kPciAd | kPciCbe | kPciFrame | kPciReq64);
  master_ = MasterState::kTurn;
}

void Dp83820::MasterTick(const PciPins& p) {
  switch (master_) {
    case MasterState::kTurn:
      Release(kPciIrdy);
      master_ = MasterState::kIdle;
      [[fallthrough]];
    case MasterState::kIdle:
      if (p.gnt_n || !p.idle() || drive_.req_n) return;
      if (!job_.active && !TransmitWants() && !ReceiveWants()) return;
      MasterBegin();
      return;
    case MasterState::kAddress:
      Drive(kPciIrdy);  // not before: the last master has just released it
      if (!job_.write) Release(kPciAd);
      master_ = MasterState::kData;
      MasterOffer(p);
      return;
    case MasterState::kData:
      break;
  }

  age_++;
  if (latency_ > 0) latency_--;
  if (!p.devsel_n() && !selected_) {
    wide_ = asked64_ && !p.ack64_n();
    selected_ = true;
  }
  const bool stop = !p.stop_n();
  const bool gone = !selected_ && age_ >= kDevselLimit;
  const bool target_abort = stop && p.devsel_n();
  const bool offered = !p.irdy_n();
  const bool last_phase = p.frame_n();
  const bool xfer = offered && !p.trdy_n() && !p.devsel_n() && !aborted_;
  if (xfer) {
    const int moved = std::min(wide_ ? 2 : 1, job_.dwords - job_.index);
    for (int i = 0; i < moved; ++i) {
      if (!job_.write) Take(static_cast<uint32_t>(p.ad >> (32 * i)));
      job_.index++;
    }
    if (!job_.write) {
      parity_due_ = parity_master_ = true;
      parity_value_ = PciParity(p.ad, p.cbe_n);
      parity64_due_ = wide_;
      parity64_value_ = PciParity64(p.ad, p.cbe_n);
    }
    if (job_.client == kReceive && job_.data) {
      RxFrame& f = rx_fifo_.front();
      f.drained = std::min({f.kept, job_.base + job_.bytes, job_.base + 4 * static_cast<size_t>(job_.index)});
    }
    moved_ = true;
    phases_++;
    if (!last_phase && !stop) {
      MasterOffer(p);
      return;
    }
  }
  if (stop) stopped_ = true;
  const bool ended = offered && (!p.trdy_n() || stop || gone || aborted_);
  if (ended && last_phase) {
    MasterFinish();
    if (gone || target_abort || aborted_) {
      const bool nobody = !selected_;
      isr_ |= nobody ? kMacISRRMABTMask : kMacISRRTABTMask;
      pci_status_ |= nobody ? kPciConfigCommandReceivedMasterAbortMask : kPciConfigCommandReceivedTargetAbortMask;
      (nobody ? stats_.master_aborts : stats_.target_aborts)++;
      StopEngines();
      return;
    }
    if (stop) (moved_ ? stats_.disconnects : stats_.retries)++;
    if (job_.index >= job_.dwords) JobDone();
    return;
  }
  if (stop || gone) {
    // One more clock with IRDY# and without FRAME#. AD keeps its data, or shows the next.
    if (gone || target_abort) aborted_ = true;
    if (xfer && job_.index < job_.dwords) MasterPhase();
    drive_.Set(kPciFrame, true);
    drive_.Set(kPciReq64, true);
    drive_.Set(kPciIrdy, false);
    return;
  }
  if (!offered && --wait_ <= 0) MasterReady(p);
}

// ---- Target ----

void Dp83820::CheckParity(const PciPins& p) {
  const bool wrong = (parity_due_ && p.par() != parity_value_) || (parity64_due_ && p.par64() != parity64_value_);
  if (wrong) {
    stats_.parity_errors++;
    pci_status_ |= kPciConfigCommandDetectedParityErrorMask;
    if (parity_master_ && (pci_command_ & kPciConfigCommandParityResponseMask)) pci_status_ |= kPciConfigCommandMasterParityErrorMask;
  }
  parity_due_ = parity64_due_ = parity_master_ = false;
}

void Dp83820::TargetFinish() {
  drive_.Set(kPciTrdy, true);
  drive_.Set(kPciStop, true);
  drive_.Set(kPciDevsel, true);
  Release(kPciAd);
  target_ = TargetState::kTurn;
}

// One data phase each: a longer burst is disconnected.
void Dp83820::TargetOffer(const PciPins& p) {
  if (target_read_) {
    target_data_ = ReadTarget();
    drive_.ad = target_data_;
  }
  drive_.Set(kPciTrdy, false);
  drive_.Set(kPciStop, p.frame_n());
  target_ = TargetState::kOffer;
}

void Dp83820::TargetTick(const PciPins& p) {
  target_age_++;
  switch (target_) {
    case TargetState::kTurn:
      Release(kPciTrdy | kPciStop | kPciDevsel);
      target_ = TargetState::kIdle;
      [[fallthrough]];
    case TargetState::kIdle: {
      if (!was_frame_n_ || p.frame_n() || master_ != MasterState::kIdle) return;
      const uint8_t command = p.cbe_n & 15;
      const uint32_t address = static_cast<uint32_t>(p.ad);
      parity_due_ = true;
      parity_value_ = PciParity(p.ad, p.cbe_n);
      const bool config = p.idsel && (command == kPciCommandConfigRead || command == kPciCommandConfigWrite) && (address & 0x703) == 0;
      const bool memory = (IsMemoryRead(command) || IsMemoryWrite(command)) && (pci_command_ & kPciConfigCommandMemoryEnableMask) &&
                          address - bar1_ < kMacRegisterBytes;
      const bool io = (command == kIoRead || command == kIoWrite) && (pci_command_ & kIoEnable) && address - bar0_ < kBar0Bytes;
      if (!config && !memory && !io) return;
      space_ = config ? Space::kConfig : Space::kRegisters;
      target_address_ = address & (config ? kPciConfigSize - 4 : kMacRegisterBytes - 4);
      if (io) target_address_ &= kBar0Bytes - 4;
      target_read_ = IsRead(command);
      target_age_ = 0;
      target_ = TargetState::kDecode;
      [[fallthrough]];
    }
    case TargetState::kDecode:
      // DEVSEL# is driven one clock before it is sampled.
      if (target_age_ == kDevsel - 1) {
        drive_.Set(kPciDevsel, false);
        drive_.Set(kPciTrdy, true);
        drive_.Set(kPciStop, true);
        Drive(kPciDevsel | kPciTrdy | kPciStop);
      }
      // AD turns around in the clock after the address phase.
      if (target_read_ && target_age_ >= kDevsel - 1) Drive(kPciAd);
      if (target_age_ >= std::max(timing_.register_initial, kDevsel) - 1) TargetOffer(p);
      return;
    case TargetState::kOffer:
      if (p.irdy_n()) return;
      if (target_read_) {
        ReadDone();
      } else {
        parity_due_ = true;
        parity_value_ = PciParity(p.ad, p.cbe_n);
        WriteTarget(static_cast<uint32_t>(p.ad), static_cast<uint8_t>(~p.cbe_n & 15));
      }
      if (p.frame_n()) {
        TargetFinish();
      } else {
        drive_.Set(kPciTrdy, true);
        drive_.Set(kPciStop, false);
        target_ = TargetState::kStop;
      }
      return;
    case TargetState::kStop:
      if (p.frame_n() && !p.irdy_n()) TargetFinish();
      return;
  }
}

uint32_t Dp83820::ReadTarget() const {
  return space_ == Space::kConfig ? ReadConfig(target_address_) : ReadRegister(target_address_);
}

// The side effects of a read happen when its data is on the bus.
void Dp83820::ReadDone() {
  if (space_ == Space::kRegisters && target_address_ == kMacISROffset) isr_ &= ~target_data_;
}

void Dp83820::WriteTarget(uint32_t data, uint8_t byte_enables) {
  const uint32_t mask = Mask(byte_enables);
  if (space_ == Space::kConfig)
    WriteConfig(target_address_, data, mask);
  else
    WriteRegister(target_address_, data, mask);
}

uint32_t Dp83820::ReadConfig(uint32_t offset) const {
  switch (offset) {
    case kPciConfigIDOffset: return kMacVendorID | kMacDeviceID << kPciConfigIDDeviceLsb;
    case kPciConfigCommandOffset: return pci_command_ | pci_status_ | 1u << kPciConfigCommandDevselTimingLsb;
    case kPciConfigClassOffset: return kEthernetController << kPciConfigClassCodeLsb;
    case kPciConfigHeaderOffset: return pci_header_;
    case kPciConfigBar0Offset: return bar0_ | 1;
    case kPciConfigBar1Offset: return bar1_;
    case kPciConfigInterruptOffset: return pci_interrupt_ | 1u << kPciConfigInterruptPinLsb;
    default: return 0;
  }
}

void Dp83820::WriteConfig(uint32_t offset, uint32_t data, uint32_t mask) {
  const auto merge = [data, mask](uint32_t old, uint32_t writable) { return (old & ~(mask & writable)) | (data & mask & writable); };
  switch (offset) {
    case kPciConfigCommandOffset:
      pci_command_ = merge(pci_command_, kCommandWritable);
      pci_status_ &= ~(data & mask);  // writing 1 clears a status bit
      break;
    case kPciConfigHeaderOffset:
      pci_header_ = merge(pci_header_, kPciConfigHeaderCacheLineSizeMask | kPciConfigHeaderLatencyTimerMask);
      break;
    case kPciConfigBar0Offset: bar0_ = merge(bar0_, ~(kBar0Bytes - 1)); break;
    case kPciConfigBar1Offset: bar1_ = merge(bar1_, ~(kMacRegisterBytes - 1)); break;
    case kPciConfigInterruptOffset: pci_interrupt_ = merge(pci_interrupt_, kPciConfigInterruptLineMask); break;
    default: break;
  }
}

uint32_t Dp83820::ReadRegister(uint32_t offset) const {
  switch (offset) {
    case kMacCROffset: return (tx_ != TxState::kIdle ? kMacCRTXEMask : 0) | (rx_ != RxState::kIdle ? kMacCRRXEMask : 0);
    case kMacCFGOffset: return cfg_;
    case kMacISROffset: return isr_;
    case kMacIMROffset: return imr_;
    case kMacIEROffset: return ier_;
    case kMacTXDPOffset: return txdp_;
    case kMacTXCFGOffset: return txcfg_;
    case kMacRXDPOffset: return rxdp_;
    case kMacRXCFGOffset: return rxcfg_;
    case kMacRFCROffset: return rfcr_;
    case kMacRFDROffset: {
      const uint32_t at = (rfcr_ & kMacRFCRAddressMask) >> kMacRFCRAddressLsb;
      return at < station_.size() && at % 2 == 0 ? station_[at] | uint32_t{station_[at + 1]} << 8 : 0;
    }
    case kMacSRROffset: return kSiliconRevision;
    default: return 0;
  }
}

void Dp83820::WriteRegister(uint32_t offset, uint32_t data, uint32_t mask) {
  const auto merge = [data, mask](uint32_t old) { return (old & ~mask) | (data & mask); };
  switch (offset) {
    case kMacCROffset: Command(data & mask); break;
    case kMacCFGOffset:
      cfg_ = merge(cfg_);
      if (cfg_ & kMacCFGBEMMask) Misuse("CFG.BEM: the model is little-endian");
      if (cfg_ & kMacCFGM64ADDRMask) Misuse("CFG.M64ADDR: the model has 32-bit addresses");
      if (tx_ != TxState::kIdle || rx_ != RxState::kIdle) Misuse("CFG written while an engine runs");
      break;
    case kMacIMROffset: imr_ = merge(imr_); break;
    case kMacIEROffset: ier_ = merge(ier_); break;
    case kMacTXDPOffset:
      if (tx_ != TxState::kIdle) Misuse("TXDP written while the transmitter runs");
      txdp_ = merge(txdp_);
      tx_done_ = false;
      if (txdp_ & 7) Misuse("TXDP is no multiple of 8");
      break;
    case kMacTXCFGOffset: {
      txcfg_ = merge(txcfg_);
      const size_t fill = 32 * static_cast<size_t>((txcfg_ & kMacTXCFGFLTHMask) >> kMacTXCFGFLTHLsb);
      const size_t drain = 32 * static_cast<size_t>((txcfg_ & kMacTXCFGDRTHMask) >> kMacTXCFGDRTHLsb);
      if (tx_ != TxState::kIdle) Misuse("TXCFG written while the transmitter runs");
      if (fill < Burst(txcfg_)) Misuse("TXCFG.FLTH below the longest burst");
      if (fill + drain >= static_cast<size_t>(timing_.transmit_fifo)) Misuse("TXCFG.FLTH and TXCFG.DRTH together are not below the FIFO");
      break;
    }
    case kMacRXDPOffset:
      if (rx_ != RxState::kIdle) Misuse("RXDP written while the receiver runs");
      rxdp_ = merge(rxdp_);
      rx_done_ = false;
      if (rxdp_ & 7) Misuse("RXDP is no multiple of 8");
      break;
    case kMacRXCFGOffset:
      if (rx_ != RxState::kIdle) Misuse("RXCFG written while the receiver runs");
      rxcfg_ = merge(rxcfg_);
      break;
    case kMacRFCROffset: rfcr_ = merge(rfcr_); break;
    case kMacRFDROffset: {
      const uint32_t at = (rfcr_ & kMacRFCRAddressMask) >> kMacRFCRAddressLsb;
      if (at >= station_.size() || at % 2 != 0) break;
      if (mask & 0xff) station_[at] = static_cast<uint8_t>(data);
      if (mask & 0xff00) station_[at + 1] = static_cast<uint8_t>(data >> 8);
      break;
    }
    default: break;
  }
}

// The bits are strobes. Resets go first, so that one write can reset an engine and start it.
void Dp83820::Command(uint32_t strobes) {
  if (strobes & (kMacCRTXRMask | kMacCRRSTMask)) TransmitReset();
  if (strobes & (kMacCRRXRMask | kMacCRRSTMask)) ReceiveReset();
  if (strobes & kMacCRRSTMask) {
    cfg_ = isr_ = imr_ = ier_ = txcfg_ = rxcfg_ = rfcr_ = 0;
    station_ = {};
    return;
  }
  // Disable wins over enable.
  if (strobes & kMacCRTXDMask) {
    if (tx_ == TxState::kReact && !tx_open_)
      tx_ = TxState::kIdle;
    else
      tx_disable_ = tx_ != TxState::kIdle;
  } else if (strobes & kMacCRTXEMask) {
    TransmitGo();
  }
  if (strobes & kMacCRRXDMask) {
    rx_enabled_ = false;
    rx_halt_ = rx_ != RxState::kIdle;
  } else if (strobes & kMacCRRXEMask) {
    ReceiveGo();
  }
}

}  // namespace hvia
