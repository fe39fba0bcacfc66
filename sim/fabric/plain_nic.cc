// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/plain_nic.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace hvia::fabric {
namespace {

constexpr int kBootClocks = 1000;  // RST#, then the host finds and configures it

// Clocks of a transaction that no parameter counts. With them a burst of 512 bytes takes 142
// clocks, as the card's does on the real bus.
constexpr int64_t kTurnClocks = 2;   // GNT# to FRAME#, and the idle clock after it
constexpr int64_t kAbortClocks = 6;  // FRAME# to the idle bus when no target claims
// As a target the NIC takes as long as the card.
constexpr int64_t kTargetWriteClocks = 3;  // and one for each dword
constexpr int64_t kTargetReadClocks = 5;

constexpr uint32_t kBurstBytes = 512;
constexpr uint32_t kPage = kAttPageBytes;
constexpr uint32_t kMaxRingLog2 = 8;
constexpr Time kNanosecond = 1000;

}  // namespace

PlainNic::PlainNic(const Surroundings& s, Recorder* recorder) : s_(s), recorder_(recorder) {
  tx_.transmit = true;
  tx_moderation_.cause = kRegisterInterruptStatusRawTransmitMask;
  rx_moderation_.cause = kRegisterInterruptStatusRawReceiveMask;
  ResetRegisters();
}

Time PlainNic::BootSpan() const { return 2 * kBootClocks * s_.params->SystemClockPeriod; }

void PlainNic::Boot(Time start) {
  now_ = start;
  At(start + kBootClocks * s_.params->SystemClockPeriod, Kind::kBoot, [this](Time) { configured_ = true; });
}

std::string PlainNic::NotReady() const { return configured_ ? "" : "the plain NIC has not finished its boot"; }

void PlainNic::At(Time t, Kind kind, Action act) { events_.emplace(std::make_pair(t, next_++), Event{kind, std::move(act)}); }

void PlainNic::Forget(std::initializer_list<Kind> kinds) {
  for (auto e = events_.begin(); e != events_.end();) {
    e = std::find(kinds.begin(), kinds.end(), e->second.kind) != kinds.end() ? events_.erase(e) : std::next(e);
  }
}

Time PlainNic::Deadline(const Moderation& m) const { return m.unreported == 0 ? kNever : std::max(now_, m.first + m.time_ns * kNanosecond); }

Time PlainNic::NextEvent() const {
  const Time event = events_.empty() ? kNever : events_.begin()->first.first;
  return std::min({event, Deadline(tx_moderation_), Deadline(rx_moderation_)});
}

void PlainNic::Step(Time t) {
  now_ = std::max(now_, t);
  while (!events_.empty() && events_.begin()->first.first <= t) {
    const Action act = std::move(events_.begin()->second.act);
    events_.erase(events_.begin());
    act(t);
  }
  for (Moderation* m : {&tx_moderation_, &rx_moderation_})
    if (Deadline(*m) <= t) Raise(*m);
}

// The bus.

Time PlainNic::Edge(Time t) const {
  const Time period = s_.params->SystemClockPeriod;
  return t <= 0 ? t / period * period : (t + period - 1) / period * period;
}

Time PlainNic::TakeBus(Time t, int64_t clocks, bool ours) {
  const Time start = std::max(Edge(t), bus_free_);
  bus_free_ = start + clocks * s_.params->SystemClockPeriod;
  if (recorder_ != nullptr) {
    recorder_->Event(start, s_.index, kTraceEventHostBusStart, 0, ours ? 1 : 0);
    recorder_->Event(bus_free_, s_.index, kTraceEventHostBusEnd, 0, 0);
  }
  Count(kNICCounterBusClocks, static_cast<uint64_t>(clocks));
  return bus_free_;
}

int64_t PlainNic::BurstClocks(bool write, uint32_t address, uint32_t bytes) const {
  const Params& p = *s_.params;
  const int64_t grant = p.BridgeArbitrationClocks + kTurnClocks;
  if (address >= kPciMemorySize) return grant + kAbortClocks;
  const auto words = [&](uint32_t size) { return static_cast<int64_t>((address % size + bytes + size - 1) / size); };
  // One beat uses 32 bits, also on the wide bus.
  const bool wide = p.SystemBusBits == 64 && words(8) > 1;
  const int64_t step = wide ? 2 : 1, phases = wide ? words(8) : words(4);
  const int64_t every = write ? p.BridgeWriteWaitEvery : p.BridgeReadWaitEvery;
  const int64_t waits = every == 0 ? 0 : (phases - 1) * step / every;
  return grant + (write ? p.BridgeWriteInitialClocks : p.BridgeReadInitialClocks) + phases + waits * p.BridgeWaitClocks;
}

void PlainNic::Burst(Time t, Ring& ring, bool write, uint32_t address, std::vector<uint8_t> bytes, Done done) {
  ++bursts_;
  ++ring.bursts;
  const Time end = TakeBus(t, BurstClocks(write, address, static_cast<uint32_t>(bytes.size())), true);
  At(end, Kind::kChip, [this, &ring, write, address, bytes = std::move(bytes), done = std::move(done)](Time now) mutable {
    --bursts_;
    --ring.bursts;
    const bool good = address < kPciMemorySize;
    if (!good) {
      Count(kNICCounterMasterAbort);
      Raise(kRegisterInterruptStatusBusErrorMask);
    } else if (write) {
      WriteMemory(address, bytes);
    } else {
      ReadMemory(address, &bytes);
    }
    if (!resetting_) {
      done(now, good, bytes);
    } else if (bursts_ == 0) {
      Forget({Kind::kChip, Kind::kTail});
      ResetRegisters();
    }
  });
}

void PlainNic::ReadMemory(uint32_t address, std::vector<uint8_t>* bytes) {
  for (size_t i = 0; i < bytes->size();) {
    const uint32_t at = address + static_cast<uint32_t>(i), lane = at % 4, v = s_.memory->ReadDword(at);
    const size_t n = std::min<size_t>(4 - lane, bytes->size() - i);
    for (size_t k = 0; k < n; ++k) (*bytes)[i + k] = static_cast<uint8_t>(v >> (8 * (lane + k)));
    i += n;
  }
}

void PlainNic::WriteMemory(uint32_t address, const std::vector<uint8_t>& bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const uint32_t at = address + static_cast<uint32_t>(i), lane = at % 4;
    const size_t n = std::min<size_t>(4 - lane, bytes.size() - i);
    uint32_t v = 0, enables = 0;
    for (size_t k = 0; k < n; ++k) {
      v |= static_cast<uint32_t>(bytes[i + k]) << (8 * (lane + k));
      enables |= 1u << (lane + k);
    }
    s_.memory->WriteDword(at - lane, v, static_cast<uint8_t>(enables));
    i += n;
  }
  s_.memory->BurstEnd();
}

// Registers.

void PlainNic::HostWrite(Time t, int, uint32_t address, const uint32_t* data, int count) {
  now_ = std::max(now_, t);
  if (!configured_) return;
  const bool ours = address - kPciBar0Base < kRegisterSize;
  const Time posted = t + s_.params->BridgePostedWriteClocks * s_.params->SystemClockPeriod;
  const Time end = TakeBus(posted, ours ? kTargetWriteClocks + count : kAbortClocks, false);
  if (!ours) return;
  const std::vector<uint32_t> values(data, data + count);
  At(end, Kind::kHost, [this, offset = address - kPciBar0Base, values](Time now) {
    for (size_t i = 0; i < values.size(); ++i) Write(now, offset + 4 * static_cast<uint32_t>(i), values[i]);
    CountInterrupt();
  });
}

void PlainNic::HostRead(Time t, int slot, uint32_t address) {
  now_ = std::max(now_, t);
  if (!configured_) {
    s_.fabric->ReadComplete(slot, kNobody, Edge(t + 1));
    return;
  }
  const bool ours = address - kPciBar0Base < kRegisterSize;
  const Time posted = t + s_.params->BridgePostedWriteClocks * s_.params->SystemClockPeriod;
  const Time end = TakeBus(posted, ours ? kTargetReadClocks : kAbortClocks, false);
  reads_.push_back(slot);
  At(end, Kind::kHost, [this, ours, offset = address - kPciBar0Base](Time now) {
    const int reader = reads_.front();
    reads_.pop_front();
    s_.fabric->ReadComplete(reader, ours ? Read(offset) : kNobody, now);
  });
}

void PlainNic::Write(Time t, uint32_t offset, uint32_t v) {
  if (resetting_) return;
  switch (offset) {
    case kRegisterControlOffset:
      on_ = (v & kRegisterControlEnableMask) != 0;
      if ((v & kRegisterControlSoftResetMask) != 0) {
        SoftReset();
      } else if (on_) {
        LearnTail(t);
        Transmit(t);
        Receive(t);
      }
      break;
    case kRegisterInterruptStatusOffset:
      status_ &= ~v;
      for (Moderation* m : {&tx_moderation_, &rx_moderation_})
        if ((v & m->cause) != 0) m->unreported = 0;
      break;
    case kRegisterInterruptEnableOffset: enable_ = v & kCauses; break;
    case kRegisterMacLowOffset: std::memcpy(mac_, &v, 4); break;
    case kRegisterMacHighOffset: std::memcpy(mac_ + 4, &v, 2); break;
    case kRegisterRawTransmitBaseOffset: StartRing(t, tx_, v & ~(uint32_t{kRawEntrySize} - 1), tx_.log2); break;
    case kRegisterRawReceiveBaseOffset: StartRing(t, rx_, v & ~(uint32_t{kRawEntrySize} - 1), rx_.log2); break;
    case kRegisterRawTransmitSizeOffset: StartRing(t, tx_, tx_.base, RingLog2(v)); break;
    case kRegisterRawReceiveSizeOffset: StartRing(t, rx_, rx_.base, RingLog2(v)); break;
    case kRegisterRawTransmitTailOffset:
      tx_.tail = v & 0xff;
      if (on_) LearnTail(t);
      break;
    case kRegisterRawReceiveTailOffset:
      rx_.tail = v & 0xff;
      rx_.known = rx_.tail & rx_.Mask();
      Receive(t);
      break;
    case kNICRegisterReceiveCoalesceTimeOffset: rx_moderation_.time_ns = v; break;
    case kNICRegisterReceiveCoalesceFramesOffset: rx_moderation_.frames = v; break;
    case kNICRegisterTransmitCoalesceTimeOffset: tx_moderation_.time_ns = v; break;
    case kNICRegisterTransmitCoalesceFramesOffset: tx_moderation_.frames = v; break;
    default: break;
  }
  for (Moderation* m : {&tx_moderation_, &rx_moderation_})
    if (m->Full()) Raise(*m);
}

uint32_t PlainNic::Read(uint32_t offset) const {
  const auto bit = [](bool on, uint32_t mask) { return on ? mask : 0u; };
  if (offset - kCounterBase < 4 * kCounterSlots) return counters_[(offset - kCounterBase) / 4];
  switch (offset) {
    case kRegisterIDOffset: return kNICID;
    case kRegisterVersionOffset: return kCardVersionMajor << kRegisterVersionMajorLsb | kCardVersionMinor << kRegisterVersionMinorLsb;
    case kRegisterLayoutHashLowOffset: return static_cast<uint32_t>(kLayoutHash);
    case kRegisterLayoutHashHighOffset: return static_cast<uint32_t>(kLayoutHash >> 32);
    case kRegisterCapabilityOffset:
      return static_cast<uint32_t>(s_.params->SystemBusBits / 8) << kRegisterCapabilityDataBytesLsb | 1u << kRegisterCapabilityPortsLsb;
    case kRegisterControlOffset: return bit(resetting_, kRegisterControlSoftResetMask) | bit(on_, kRegisterControlEnableMask);
    case kRegisterStateOffset: return bit(!resetting_, kRegisterStateReadyMask) | bit(Quiet(), kRegisterStateQuietMask);
    case kRegisterInterruptStatusOffset: return status_;
    case kRegisterInterruptEnableOffset: return enable_;
    case kRegisterMacLowOffset: {
      uint32_t v;
      std::memcpy(&v, mac_, 4);
      return v;
    }
    case kRegisterMacHighOffset: return mac_[4] | static_cast<uint32_t>(mac_[5]) << 8;
    case kRegisterRawTransmitBaseOffset: return tx_.base;
    case kRegisterRawTransmitSizeOffset: return tx_.log2 | bit(tx_.Busy() || started_, kRegisterRawTransmitSizeBusyMask);
    case kRegisterRawTransmitTailOffset: return tx_.tail;
    case kRegisterRawTransmitHeadOffset: return tx_.head;
    case kRegisterRawReceiveBaseOffset: return rx_.base;
    case kRegisterRawReceiveSizeOffset: return rx_.log2 | bit(rx_.Busy(), kRegisterRawReceiveSizeBusyMask);
    case kRegisterRawReceiveTailOffset: return rx_.tail;
    case kRegisterRawReceiveHeadOffset: return rx_.head;
    case kNICRegisterReceiveCoalesceTimeOffset: return rx_moderation_.time_ns;
    case kNICRegisterReceiveCoalesceFramesOffset: return rx_moderation_.frames;
    case kNICRegisterTransmitCoalesceTimeOffset: return tx_moderation_.time_ns;
    case kNICRegisterTransmitCoalesceFramesOffset: return tx_moderation_.frames;
    default: return 0;
  }
}

bool PlainNic::Quiet() const {
  if (started_ || !tx_.entries.empty() || !rx_.entries.empty()) return false;
  return std::all_of(events_.begin(), events_.end(), [](const auto& e) { return e.second.kind == Kind::kWire || e.second.kind == Kind::kHost; });
}

uint32_t PlainNic::RingLog2(uint32_t v) { return (v & 0xff) > kMaxRingLog2 ? 0 : v & 0xf; }

void PlainNic::StartRing(Time t, Ring& ring, uint32_t base, uint32_t log2) {
  const uint64_t start = ring.start + 1;
  const int bursts = ring.bursts;
  const bool transmit = ring.transmit;
  ring = Ring{};
  ring.transmit = transmit, ring.base = base, ring.log2 = log2, ring.start = start, ring.bursts = bursts;
  if (!transmit) {
    Receive(t);
    return;
  }
  Forget({Kind::kTail});
  started_ = rejected_ = false;
  pieces_.clear();
  frame_.clear();
}

// The firmware sees a new tail after its delay.
void PlainNic::LearnTail(Time t) {
  At(t + s_.params->NICTransmitTime, Kind::kTail, [this, tail = tx_.tail](Time now) {
    tx_.known = tail & tx_.Mask();
    Transmit(now);
  });
}

void PlainNic::SoftReset() {
  on_ = false;
  resetting_ = true;
  if (bursts_ != 0) return;  // the last burst in flight completes the reset
  Forget({Kind::kChip, Kind::kTail});
  ResetRegisters();
}

void PlainNic::ResetRegisters() {
  const Params& p = *s_.params;
  on_ = resetting_ = false;
  status_ = enable_ = 0;
  std::memset(mac_, 0, sizeof mac_);
  for (Ring* r : {&tx_, &rx_}) {
    const bool transmit = r->transmit;
    const uint64_t start = r->start + 1;
    *r = Ring{};
    r->transmit = transmit, r->start = start;
  }
  const auto moderation = [](Moderation& m, Time time, int64_t frames) {
    m.unreported = 0, m.time_ns = static_cast<uint32_t>(time / kNanosecond), m.frames = static_cast<uint32_t>(frames);
  };
  moderation(tx_moderation_, p.NICTransmitCoalesceTime, p.NICTransmitCoalesceFrames);
  moderation(rx_moderation_, p.NICReceiveCoalesceTime, p.NICReceiveCoalesceFrames);
  std::memset(counters_, 0, sizeof counters_);
  line_ = false;
  started_ = rejected_ = reading_ = sending_ = storing_ = false;
  pieces_.clear();
  frame_.clear();
  out_.clear();
  fifo_.clear();
  fifo_bytes_ = 0;
  ready_ = 0;
}

bool PlainNic::BusReset(Time t, Time span) {
  now_ = std::max(now_, t);
  Forget({Kind::kHost, Kind::kChip, Kind::kTail, Kind::kBoot});
  for (int slot : reads_) s_.fabric->ReadComplete(slot, kNobody, Edge(t + 1));
  reads_.clear();
  bursts_ = 0;
  bus_free_ = t;
  ResetRegisters();
  configured_ = false;
  configured_at_ = std::max(configured_at_, Edge(t + span) + kBootClocks * s_.params->SystemClockPeriod);
  At(configured_at_, Kind::kBoot, [this](Time) { configured_ = true; });
  return true;
}

void PlainNic::CountInterrupt() {
  if (InterruptLevel() && !line_) Count(kNICCounterInterrupt);
  line_ = InterruptLevel();
}

void PlainNic::Raise(uint32_t cause) {
  status_ |= cause;
  CountInterrupt();
}

void PlainNic::Raise(Moderation& m) {
  m.unreported = 0;
  Raise(m.cause);
}

void PlainNic::Notify(Time t, Moderation& m) {
  if (m.unreported++ == 0) m.first = t;
  if (m.Full()) Raise(m);
}

// Rings.

bool PlainNic::Entry::Usable(bool transmit) const {
  const uint32_t known = kRawEntryLengthBytesMask | (transmit ? kRawEntryLengthMoreMask : 0);
  return !bad && (length & ~known) == 0 && Bytes() != 0 && address % kPage + Bytes() <= kPage;
}

uint32_t PlainNic::EntryAddress(const Ring& ring, uint32_t index) {
  // Entries wrap inside the page of the base, so a wrong base cannot lead outside the page.
  return (ring.base & ~(kPage - 1)) | ((ring.base + index * kRawEntrySize) & (kPage - 1));
}

void PlainNic::Fetch(Time t, Ring& ring) {
  const uint32_t most = static_cast<uint32_t>(s_.params->NICFetchEntries);
  if (!on_ || resetting_ || ring.fetching || ring.fetch == ring.known || ring.entries.size() >= most) return;
  const uint32_t address = EntryAddress(ring, ring.fetch), size = ring.Mask() + 1;
  const uint32_t n = std::min({most, (ring.known - ring.fetch) & ring.Mask(), size - ring.fetch, (kPage - address % kPage) / uint32_t{kRawEntrySize}});
  ring.fetching = true;
  Burst(t, ring, false, address, std::vector<uint8_t>(n * kRawEntrySize), [this, &ring, n, start = ring.start](Time now, bool good, const std::vector<uint8_t>& bytes) {
    if (start != ring.start) return;
    ring.fetching = false;
    for (uint32_t i = 0; i < n; ++i) {
      Entry e;
      e.index = ring.fetch;
      e.bad = !good;
      std::memcpy(&e.address, &bytes[i * kRawEntrySize + kRawEntryAddressOffset], 4);
      std::memcpy(&e.length, &bytes[i * kRawEntrySize + kRawEntryLengthOffset], 4);
      ring.entries.push_back(e);
      ring.fetch = (ring.fetch + 1) & ring.Mask();
    }
    ring.transmit ? Transmit(now) : Receive(now);
  });
}

// Returns an entry to software. `notify`: the entry ends a frame or is an error, so software is
// notified.
void PlainNic::Return(Time t, Ring& ring, const Entry& e, uint32_t status, bool notify) {
  std::vector<uint8_t> bytes(4);
  status |= kRawEntryStatusDoneMask;
  std::memcpy(bytes.data(), &status, 4);
  Burst(t, ring, true, EntryAddress(ring, e.index) + kRawEntryStatusOffset, bytes, [this, &ring, e, notify, start = ring.start](Time now, bool good, const std::vector<uint8_t>&) {
    if (start != ring.start) return;
    ring.head = (e.index + 1) & ring.Mask();
    if (!good || !notify) return;
    Notify(now, ring.transmit ? tx_moderation_ : rx_moderation_);
    if (recorder_ != nullptr) recorder_->Event(now, s_.index, ring.transmit ? kTraceEventRawTransmitted : kTraceEventRawReceived, 0, e.index);
  });
}

// Transmit.

void PlainNic::Transmit(Time t) {
  const size_t buffers = static_cast<size_t>(s_.params->NICTransmitBufferFrames);
  while (on_ && !resetting_ && !reading_ && !tx_.entries.empty() && (started_ || out_.size() < buffers)) {
    const Entry e = tx_.entries.front();
    tx_.entries.pop_front();
    const uint64_t bytes = e.Bytes(), sum = frame_.size() + bytes;
    const bool good = e.Usable(true) && !rejected_ && sum <= kMaxFrame && (e.More() || sum >= kEthernetHeaderSize);
    pieces_.push_back(e);
    started_ = true;
    if (!good) {
      Refuse(t);
      continue;
    }
    reading_ = true;
    ReadPiece(t, e.address, e.Bytes());
  }
  if (!reading_) Fetch(t, tx_);
}

// Returns the frame with Error, including its unread part.
void PlainNic::Refuse(Time t) {
  started_ = rejected_ = pieces_.back().More();
  for (const Entry& e : pieces_) {
    Count(kNICCounterTransmitError);
    Return(t, tx_, e, kRawEntryStatusErrorMask, true);
  }
  pieces_.clear();
  frame_.clear();
}

void PlainNic::ReadPiece(Time t, uint32_t address, uint32_t left) {
  const uint32_t n = std::min(left, kBurstBytes);
  Burst(t, tx_, false, address, std::vector<uint8_t>(n), [this, address, left, n, start = tx_.start](Time now, bool good, const std::vector<uint8_t>& bytes) {
    if (start != tx_.start) {
      reading_ = false;
    } else if (!good) {
      reading_ = false;
      Refuse(now);
    } else {
      frame_.insert(frame_.end(), bytes.begin(), bytes.end());
      if (n < left) {
        ReadPiece(now, address + n, left - n);
        return;
      }
      reading_ = false;
      if (!pieces_.back().More()) EndFrame(now);
    }
    Transmit(now);
  });
}

void PlainNic::EndFrame(Time t) {
  frame_.resize(std::max<size_t>(frame_.size(), kMinFrame));
  Count(kNICCounterTransmit);
  Count(kNICCounterTransmitBytes, frame_.size());
  out_.push_back(std::move(frame_));
  Send(t);
  for (const Entry& e : pieces_) Return(t, tx_, e, 0, !e.More());
  pieces_.clear();
  frame_.clear();
  started_ = false;
}

void PlainNic::Send(Time t) {
  if (!s_.link.Connected()) out_.clear();  // no receiver
  if (sending_ || out_.empty()) return;
  sending_ = true;
  s_.link.Transmit(t, out_.front().data(), out_.front().size());
  At(s_.link.FreeAt(), Kind::kChip, [this](Time now) {
    sending_ = false;
    out_.pop_front();
    Send(now);
    Transmit(now);
  });
}

// Receive.

void PlainNic::Deliver(Frame frame) {
  At(frame.last_byte, Kind::kWire, [this, bytes = std::move(frame.bytes)](Time now) { Arrive(now, bytes); });
}

void PlainNic::Arrive(Time t, const std::vector<uint8_t>& frame) {
  if (!on_) return;
  constexpr uint8_t kBroadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  const uint8_t* destination = frame.data() + kEthernetHeaderDestinationOffset;
  if (std::memcmp(destination, mac_, 6) != 0 && std::memcmp(destination, kBroadcast, 6) != 0) {
    Count(kNICCounterReceiveNotForUs);
    return;
  }
  if (fifo_bytes_ + frame.size() > static_cast<uint64_t>(s_.params->NICReceiveFifoBytes)) {
    Count(kNICCounterReceiveOverrun);
    return;
  }
  fifo_.push_back(frame);
  fifo_bytes_ += frame.size();
  At(t + s_.params->NICReceiveTime, Kind::kChip, [this](Time now) {
    ++ready_;
    Receive(now);
  });
}

void PlainNic::PopFrame() {
  fifo_bytes_ -= fifo_.front().size();
  fifo_.pop_front();
  --ready_;
}

void PlainNic::Receive(Time t) {
  while (on_ && !resetting_ && !storing_) {
    if (rx_.entries.empty()) {
      Fetch(t, rx_);
      if (rx_.fetching || ready_ == 0) return;
      Count(kNICCounterReceiveDropped);
      PopFrame();
      continue;
    }
    const Entry e = rx_.entries.front();
    const bool usable = e.Usable(false);
    if (usable && ready_ == 0) break;
    rx_.entries.pop_front();
    if (!usable) {
      RefuseBuffer(t, e);
    } else if (fifo_.front().size() > e.length) {
      RefuseBuffer(t, e);
      PopFrame();
    } else {
      storing_ = true;
      Store(t, e, 0);
    }
  }
  // First the frame's status, which the host waits for.
  if (!storing_) Fetch(t, rx_);
}

void PlainNic::RefuseBuffer(Time t, const Entry& e) {
  Count(kNICCounterReceiveError);
  Return(t, rx_, e, kRawEntryStatusErrorMask, true);
}

void PlainNic::Store(Time t, const Entry& e, uint32_t from) {
  const std::vector<uint8_t>& frame = fifo_.front();
  const uint32_t size = static_cast<uint32_t>(frame.size()), to = std::min(size, from + kBurstBytes);
  Burst(t, rx_, true, e.address + from, std::vector<uint8_t>(frame.begin() + from, frame.begin() + to),
        [this, e, to, size, start = rx_.start](Time now, bool good, const std::vector<uint8_t>&) {
          if (start != rx_.start) {
            Count(kNICCounterReceiveDropped);  // the restart took its buffer
          } else if (!good) {
            RefuseBuffer(now, e);
          } else if (to < size) {
            Store(now, e, to);
            return;
          } else {
            Count(kNICCounterReceive);
            Count(kNICCounterReceiveBytes, size);
            Return(now, rx_, e, size << kRawEntryStatusLengthLsb, true);
          }
          storing_ = false;
          PopFrame();
          Receive(now);
        });
}

}  // namespace hvia::fabric
