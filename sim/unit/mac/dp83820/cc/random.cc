// SPDX-License-Identifier: Apache-2.0
// Random settings, random traffic in both directions, and a host that retries, disconnects, waits
// and removes the grant. Every frame and every status is checked against the driver's and the
// wire's data.
#include "sim/unit/mac/dp83820/cc/random.h"

#include "sim/unit/mac/dp83820/cc/rig.h"

namespace testbench {
namespace {

constexpr uint8_t kStation[6] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55};
constexpr uint32_t kTxBuffers = 0x4000, kRxBuffers = 0x10000, kBuffer = 0x1000;
constexpr int64_t kPeriod = 48 * kClock;  // of the driver's polls
constexpr uint32_t kOverrun = hvia::kMacDescriptorCommandStatusOverrunMask, kUnderrun = hvia::kMacDescriptorCommandStatusUnderrunMask;

uint64_t Mix(uint64_t h, uint64_t v) { return (h ^ v) * 0x100000001b3ull + (h >> 29); }

struct Choice {
  Setup setup;
  bool extended = true;
  uint32_t txcfg = 0, rxcfg = 0, rfcr = 0;
  bool drain = false;         // the transmitter starts inside frames
  uint8_t latency_timer = 255;
  uint32_t tx_count = 2, rx_count = 2, rx_size = 2048;
  bool aep = false, arp = false, alp = false, rx_whole = false;
  unsigned laziness = 1;      // the driver returns buffers in one of N polls
  unsigned load = 1;          // a frame is sent in one of N polls
  int64_t gap = 0;            // maximum between arriving frames, bytes
};

Choice Choose(unit::Rng* rng) {
  Choice c;
  auto& chip = c.setup.chip;
  chip.react_clocks = static_cast<int>(rng->Below(6));
  chip.register_initial = static_cast<int>(rng->Range(2, 6));
  const int waits[] = {0, 0, 1, 2, 7, 9};
  chip.read_wait_every = waits[rng->Below(6)];
  chip.write_wait_every = waits[rng->Below(6)];
  chip.transmit_delay = static_cast<int64_t>(rng->Below(400'000));
  chip.receive_delay = static_cast<int64_t>(rng->Below(400'000));
  const int fifos[] = {700, 2500, 4096, 32768};
  chip.receive_fifo = fifos[rng->Below(4)];
  chip.transmit_fifo = rng->Chance(1, 3) ? 4096 : 8192;
  auto& host = c.setup.host;
  host.arbitration = static_cast<int>(rng->Range(1, 4));
  host.devsel = static_cast<int>(rng->Range(1, 3));
  host.read_initial = static_cast<int>(rng->Range(3, 12));
  host.write_initial = static_cast<int>(rng->Range(2, 6));
  const int widths[][3] = {{32, 32, 32}, {64, 64, 64}, {64, 64, 32}, {32, 64, 64}, {64, 32, 32}};
  const auto& w = widths[rng->Below(5)];
  c.setup.chip_bits = w[0], c.setup.bus_bits = w[1], c.setup.host_bits = w[2];
  if (!rng->Chance(1, 4)) {
    auto& n = c.setup.noise;
    n.seed = rng->Next();
    n.retry = static_cast<int>(rng->Below(200));
    n.disconnect = static_cast<int>(rng->Below(60));
    n.wait = static_cast<int>(rng->Below(60));
    n.devsel = static_cast<int>(rng->Below(300));
    n.narrow = static_cast<int>(rng->Below(300));
    n.grant_loss = static_cast<int>(rng->Below(60));
    n.bad_parity = static_cast<int>(rng->Below(20));
  }
  c.extended = !rng->Chance(1, 4);
  const uint32_t tx_burst = static_cast<uint32_t>(rng->Chance(1, 2) ? 7 : rng->Range(2, 6)), rx_burst = static_cast<uint32_t>(rng->Chance(1, 2) ? 7 : rng->Range(2, 6));
  const uint32_t fill = std::max<uint32_t>((4u << tx_burst) / 32, static_cast<uint32_t>(rng->Range(1, 32)));
  c.drain = rng->Chance(1, 4);
  const uint32_t drain = c.drain ? static_cast<uint32_t>(rng->Range(1, 40)) : 0;
  c.txcfg = tx_burst << hvia::kMacTXCFGMXDMALsb | fill << hvia::kMacTXCFGFLTHLsb | drain << hvia::kMacTXCFGDRTHLsb |
            (rng->Chance(1, 2) ? hvia::kMacTXCFGATPMask : 0);
  const uint32_t rx_drain = rng->Chance(1, 4) ? 0 : static_cast<uint32_t>(rng->Range(1, 31));
  c.rx_whole = rx_drain == 0;
  c.aep = rng->Chance(1, 3), c.arp = rng->Chance(1, 3), c.alp = rng->Chance(1, 3);
  c.rxcfg = rx_burst << hvia::kMacRXCFGMXDMALsb | rx_drain << hvia::kMacRXCFGDRTHLsb | (c.aep ? hvia::kMacRXCFGAEPMask : 0) |
            (c.arp ? hvia::kMacRXCFGARPMask : 0) | (c.alp ? hvia::kMacRXCFGALPMask : 0);
  c.rfcr = hvia::kMacRFCREnableMask | hvia::kMacRFCRAPMMask | hvia::kMacRFCRAABMask | (rng->Chance(1, 2) ? hvia::kMacRFCRAAMMask : 0);
  const uint8_t timers[] = {255, 255, 64, 8, 0};
  c.latency_timer = timers[rng->Below(5)];
  c.tx_count = static_cast<uint32_t>(rng->Range(2, 8));
  c.rx_count = static_cast<uint32_t>(rng->Range(2, 8));
  c.rx_size = rng->Chance(1, 3) ? static_cast<uint32_t>(rng->Range(64, 700)) : 2048;
  c.laziness = static_cast<unsigned>(rng->Chance(1, 3) ? rng->Range(2, 40) : 1);
  c.load = static_cast<unsigned>(rng->Range(1, 12));
  c.gap = rng->Chance(1, 3) ? 20 : rng->Chance(1, 2) ? 200 : 5000;
  return c;
}

class Episode : public Rig {
 public:
  Episode(const Choice& choice, unit::Rng* rng, uint64_t frames)
      : Rig(choice.setup), c_(choice), rng_(rng), tx_left_(frames), rx_left_(frames), tx_{0x0400, choice.tx_count}, rx_{0x0800, choice.rx_count} {}

  uint64_t Go(Totals* totals) {
    memory.SetRings(0x1000, c_.extended ? 4 : 3);
    tx_.Link(&memory);
    rx_.Link(&memory);
    for (uint32_t i = 0; i < rx_.count; ++i) memory.Put(rx_.Address(i) + hvia::kMacDescriptorCommandStatusOffset, kOwn);
    Enumerate(c_.latency_timer);
    Write(hvia::kMacCFGOffset, (c_.extended ? hvia::kMacCFGEXTSTSMask : 0) | (setup_.chip_bits == 64 ? hvia::kMacCFGDATA64Mask : 0));
    Write(hvia::kMacTXCFGOffset, c_.txcfg);
    Write(hvia::kMacRXCFGOffset, c_.rxcfg);
    Write(hvia::kMacTXDPOffset, tx_.Address(0));
    Write(hvia::kMacRXDPOffset, rx_.Address(0));
    SetStation(kStation, c_.rfcr);
    Write(hvia::kMacCROffset, hvia::kMacCRRXEMask);
    arrival_ = now + 100 * kClock;
    // The limit allows for waits of 8 clocks at each dword, twice the frames' time on the wire, and
    // lazy drivers.
    const int64_t end = now + static_cast<int64_t>((tx_left_ + rx_left_ + 10) * 60'000 + 200'000) * kClock;
    while (!Over()) {
      const int64_t look = now + kPeriod;
      while (now < look) Step(look);
      if (now > end) {
        Fail("the traffic does not end: %zu frames to be sent, %" PRIu64 " and %" PRIu64 " to come, %zu received ones missing, CR %02" PRIx32, sending_.size(),
             tx_left_, rx_left_, expected_.size(), Read(hvia::kMacCROffset));
      }
      Look();
    }
    Account(totals);
    return digest_;
  }

 private:
  struct Sending {
    Bytes bytes;
    bool suppress = false;
    uint32_t first = 0, fragments = 1;
    bool wire = false, cut = false, status = false;
  };
  struct Expected {
    Bytes wire;
    size_t kept = 0;
    uint32_t status = 0;  // without Own and Size
    bool good = false, may_vanish = false, must_vanish = false;
  };

  bool Over() const {
    return tx_left_ == 0 && rx_left_ == 0 && sending_.empty() && now > arrival_ && bridge.pending() == 0 && chip.quiet() && bridge.quiet() &&
           chip.NextEvent() == Dp83820::kNever && rx_armed_ == rx_.count;
  }

  void Look() {
    DropResults();
    // Frames are announced in advance.
    while (rx_left_ > 0 && arrival_ < now + 2 * kPeriod) Incoming();
    if (memory.inside()) return;
    TransmitDone();
    ReceiveDone();
    uint32_t kick = 0;
    if (tx_left_ > 0 && rng_->Chance(1, c_.load) && Outgoing()) kick |= hvia::kMacCRTXEMask;
    if (rx_armed_ < rx_.count && (rng_->Chance(1, c_.laziness))) {
      do Free();
      while (rx_armed_ < rx_.count && rng_->Chance(1, 2));
      kick |= hvia::kMacCRRXEMask;
    }
    if (kick != 0) Post(HostCommand::kMemoryWrite, hvia::kMacRegisterBase + static_cast<uint32_t>(hvia::kMacCROffset), kick);
  }

  bool Outgoing() {
    const uint32_t fragments = static_cast<uint32_t>(rng_->Chance(2, 3) ? 1 : rng_->Range(1, std::min<uint32_t>(4, tx_.count)));
    if (tx_used_ + fragments > tx_.count) return false;
    Sending s;
    s.bytes = RandomFrame(rng_, kStation, static_cast<size_t>(rng_->Chance(1, 2) ? rng_->Range(60, 1514) : rng_->Range(14, 100)));
    s.suppress = rng_->Chance(1, 10);
    s.first = tx_next_;
    s.fragments = fragments;
    size_t at = 0;
    for (uint32_t i = 0; i < fragments; ++i) {
      const uint32_t n = tx_next_ + i;
      const size_t rest = s.bytes.size() - at;
      const size_t size = i + 1 == fragments ? rest : 1 + static_cast<size_t>(rng_->Below(rest - (fragments - i) + 1));
      const uint32_t buffer = kTxBuffers + kBuffer * (n % tx_.count) + static_cast<uint32_t>(rng_->Below(64));
      std::copy_n(s.bytes.begin() + static_cast<int64_t>(at), size, memory.At(buffer));
      Arm(&memory, tx_.Address(n), buffer,
          kOwn | (i + 1 < fragments ? kMore : 0) | (s.suppress ? hvia::kMacDescriptorCommandStatusSuppressCrcMask : 0) | static_cast<uint32_t>(size), c_.extended);
      at += size;
    }
    tx_next_ += fragments;
    tx_used_ += fragments;
    sending_.push_back(std::move(s));
    tx_left_--;
    return true;
  }

  void OnSent(Dp83820::Sent sent) override {
    auto it = std::find_if(sending_.begin(), sending_.end(), [](const Sending& s) { return !s.wire; });
    if (it == sending_.end()) Fail("an unknown frame of %zu bytes on the wire", sent.bytes.size());
    it->wire = true;
    it->cut = sent.cut;
    Bytes want = it->bytes;
    if (!it->suppress && !sent.cut) {
      if ((c_.txcfg & hvia::kMacTXCFGATPMask) && want.size() < 60) want.resize(60);
      const uint32_t fcs = hvia::EthernetFcs(want.data(), want.size());
      for (int i = 0; i < 4; ++i) want.push_back(static_cast<uint8_t>(fcs >> (8 * i)));
    }
    if (sent.cut) {
      if (!c_.drain) Fail("a frame was cut without a drain threshold");
      if (sent.bytes.size() >= want.size()) Fail("a cut frame is complete");
      want.resize(sent.bytes.size());
    }
    if (want != sent.bytes) Fail("a frame of %zu bytes was not sent as it was", it->bytes.size());
    if (sent.start < wire_free_) Fail("a frame begins at %" PRId64 " ps, the wire is free from %" PRId64, sent.start, wire_free_);
    if (!c_.drain && sent.start != wire_free_ && sent.start - setup_.chip.transmit_delay != now)
      Fail("a frame begins at %" PRId64 " ps, neither when it was complete (%" PRId64 ") nor when the wire was free", sent.start, now);
    if (!sent.cut) wire_free_ = sent.start + static_cast<int64_t>(8 + sent.bytes.size() + 12) * setup_.chip.byte_time;
    digest_ = Mix(Mix(digest_, static_cast<uint64_t>(sent.start)), sent.bytes.size());
    sent_frames_ += !sent.cut;
    cut_frames_ += sent.cut;
  }

  void TransmitDone() {
    while (!sending_.empty()) {
      Sending& s = sending_.front();
      const uint32_t last = tx_.Address(s.first + s.fragments - 1);
      if (!s.status) {
        if ((Status(memory, last) & kOwn) || (c_.extended && memory.Get(last + hvia::kMacDescriptorExtendedStatusOffset) != 0)) return;
        s.status = true;
        s_status_ = Status(memory, last);
        for (uint32_t i = 0; i < s.fragments; ++i) {
          const uint32_t d = tx_.Address(s.first + i), status = Status(memory, d);
          const uint32_t flags = status & ~(kSize | hvia::kMacDescriptorCommandStatusSuppressCrcMask);
          if (i + 1 < s.fragments ? flags != kMore : flags != kOk && !(c_.drain && flags == kUnderrun)) Fail("transmit status %08" PRIx32 " of fragment %" PRIu32, status, i);
          memory.TakeBack(d + hvia::kMacDescriptorCommandStatusOffset, 8);
        }
        tx_used_ -= s.fragments;
        digest_ = Mix(digest_, static_cast<uint64_t>(now));
      }
      if (!s.wire) return;
      if (s.cut != ((s_status_ & kUnderrun) != 0)) Fail("status %08" PRIx32 " of a frame that was %scut", s_status_, s.cut ? "" : "not ");
      sending_.pop_front();
    }
  }

  void Incoming() {
    Expected e;
    Bytes frame;
    uint8_t destination[6];
    std::copy_n(kStation, 6, destination);
    uint32_t destination_class = 1;
    bool accepted = true;
    switch (rng_->Below(8)) {
      case 0:
        destination[5] ^= 1;
        accepted = false;
        break;
      case 1:
        std::fill_n(destination, 6, uint8_t{0xff});
        destination_class = 3;
        break;
      case 2:
        destination[0] |= 1;
        destination_class = 2;
        accepted = c_.rfcr & hvia::kMacRFCRAAMMask;
        break;
      default: break;
    }
    size_t bytes = static_cast<size_t>(rng_->Chance(1, 2) ? rng_->Range(60, 200) : rng_->Range(60, 1514));
    if (rng_->Chance(1, 12)) bytes = static_cast<size_t>(rng_->Range(10, 59));
    if (rng_->Chance(1, 12)) bytes = static_cast<size_t>(rng_->Range(1515, 2600));
    const bool bad_fcs = rng_->Chance(1, 10), symbol = rng_->Chance(1, 20);
    frame = RandomFrame(rng_, destination, bytes);
    e.wire = Arrive(frame, arrival_, bad_fcs, symbol);
    const size_t size = e.wire.size();
    e.kept = std::min<size_t>(size, c_.alp ? 2046 : 1518);
    const bool runt = size < 64, too_long = size > e.kept;
    e.status = destination_class << hvia::kMacDescriptorCommandStatusDestinationClassLsb | (bad_fcs ? hvia::kMacDescriptorCommandStatusFcsErrorMask : 0) |
               (symbol ? hvia::kMacDescriptorCommandStatusSymbolErrorMask : 0) | (runt ? hvia::kMacDescriptorCommandStatusRuntMask : 0) |
               (too_long ? hvia::kMacDescriptorCommandStatusTooLongMask : 0);
    e.good = !bad_fcs && !symbol && !too_long && (!runt || c_.arp);
    if (e.good) e.status |= kOk;
    e.may_vanish = !e.good && !c_.aep;
    e.must_vanish = e.may_vanish && c_.rx_whole;
    if (accepted)
      expected_.push_back(std::move(e)), accepted_++;
    else
      strangers_++;
    arrival_ += static_cast<int64_t>(size + rng_->Range(20, static_cast<uint64_t>(c_.gap))) * setup_.chip.byte_time;
    rx_left_--;
  }

  void Free() {
    const uint32_t n = rx_next_++;
    const uint32_t buffer = kRxBuffers + kBuffer * (n % rx_.count) + 8 * static_cast<uint32_t>(rng_->Below(16));
    std::fill_n(memory.At(buffer & ~(kBuffer - 1)), kBuffer, kGuard);
    memory.Give(buffer, c_.rx_size);
    Arm(&memory, rx_.Address(n), buffer, c_.rx_size, c_.extended);
    rx_armed_++;
  }

  void ReceiveDone() {
    while (rx_armed_ > 0) {
      const uint32_t d = rx_.Address(rx_done_), status = Status(memory, d);
      if (!(status & kOwn) || (c_.extended && memory.Get(d + hvia::kMacDescriptorExtendedStatusOffset) != 0)) return;
      const uint32_t buffer = memory.Get(d + hvia::kMacDescriptorBufferAddressOffset), size = status & kSize;
      if (size > c_.rx_size) Fail("%" PRIu32 " bytes in a buffer of %" PRIu32, size, c_.rx_size);
      for (uint32_t i = size; i < c_.rx_size; ++i)
        if (*memory.At(buffer + i) != kGuard) Fail("byte %" PRIu32 " after the received frame was written", i);
      memory.TakeBack(buffer, c_.rx_size);
      memory.TakeBack(d + hvia::kMacDescriptorCommandStatusOffset, 8);
      partial_.insert(partial_.end(), memory.At(buffer), memory.At(buffer) + size);
      rx_done_++;
      rx_armed_--;
      digest_ = Mix(Mix(digest_, static_cast<uint64_t>(now)), status);
      if (status & kMore) {
        if ((status & ~kSize) != (kOwn | kMore) || size != c_.rx_size) Fail("status %08" PRIx32 " of a part of a frame", status);
        parts_++;
        continue;
      }
      Received(status & ~(kOwn | kSize));
      partial_.clear();
    }
  }

  void Received(uint32_t status) {
    uint64_t skipped_frames = 0, lost = 0;
    for (;;) {
      if (expected_.empty()) Fail("a frame of %zu bytes (status %08" PRIx32 ") that did not come, or not in this order", partial_.size(), status);
      const Expected e = std::move(expected_.front());
      expected_.pop_front();
      const bool cut = (status & kOverrun) && !(status & kOk) && partial_.size() < e.kept;
      const bool same = (cut || partial_.size() == e.kept) && std::equal(partial_.begin(), partial_.end(), e.wire.begin());
      if (!same) {
        skipped_frames++;
        lost += !e.may_vanish;
        continue;
      }
      if (lost != 0 && !(status & kOverrun)) Fail("%" PRIu64 " frames are missing before a frame of %zu bytes, and it does not say so", lost, partial_.size());
      if (cut) {
        const uint32_t only_class = e.status & hvia::kMacDescriptorCommandStatusDestinationClassMask;
        if (status != (kOverrun | only_class)) Fail("status %08" PRIx32 " of a cut frame", status);
        cuts_++;
        return;
      }
      if ((status & ~kOverrun) != e.status) Fail("a frame of %zu bytes has status %08" PRIx32 ", want %08" PRIx32, partial_.size(), status, e.status);
      if (e.must_vanish) Fail("a bad frame (status %08" PRIx32 ") was not rejected", status);
      if ((status & kOverrun) && skipped_frames == 0) Fail("an overrun without a loss");
      received_ += e.good;
      return;
    }
  }

  void Account(Totals* t) {
    const auto& s = chip.statistics();
    const uint64_t rejected = s.rejected_bad + s.rejected_long + s.rejected_runt;
    if (s.filtered != strangers_) Fail("filtered %" PRIu64 ", want %" PRIu64, s.filtered, strangers_);
    if (s.received != received_) Fail("received %" PRIu64 " by the chip's account, %" PRIu64 " by the driver's", s.received, received_);
    if (s.received + s.received_bad + rejected + s.overrun - cuts_ != accepted_)
      Fail("%" PRIu64 " frames came, the chip knows of %" PRIu64 " + %" PRIu64 " received, %" PRIu64 " rejected, %" PRIu64 " overruns, %" PRIu64 " of them cut",
           accepted_, s.received, s.received_bad, rejected, s.overrun, cuts_);
    if (c_.aep && rejected - s.rejected_runt != 0) Fail("bad frames rejected in spite of AEP");
    for (const Expected& e : expected_)
      if (!e.may_vanish && s.overrun == 0) Fail("a good frame of %zu bytes is missing at the end", e.wire.size());
    if (s.transmitted != sent_frames_ || s.transmit_underrun != cut_frames_) Fail("transmitted %" PRIu64 " and cut %" PRIu64, s.transmitted, s.transmit_underrun);
    if (s.parity_errors != bus.statistics().bad_parity) Fail("%" PRIu64 " parity errors seen, %" PRIu64 " made", s.parity_errors, bus.statistics().bad_parity);
    if (s.disabled + s.transmit_dropped + s.receive_dropped + s.master_aborts + s.target_aborts != 0) Fail("counted what did not happen");
    t->sent += s.transmitted, t->underrun += s.transmit_underrun, t->received += s.received, t->received_bad += s.received_bad, t->rejected += rejected;
    t->overrun += s.overrun, t->cut += cuts_, t->filtered += s.filtered, t->retries += s.retries, t->disconnects += s.disconnects;
    t->parity += s.parity_errors, t->parts += parts_;
    t->wide += bus.statistics().wide_transactions, t->narrow += bus.statistics().narrow_transactions, t->skipped += skipped;
    for (uint64_t v : {bus.statistics().clocks, bus.statistics().card_dwords, bus.statistics().card_transactions, s.retries, s.disconnects, s.overrun, rejected})
      digest_ = Mix(digest_, v);
  }

  const Choice c_;
  unit::Rng* rng_;
  uint64_t tx_left_, rx_left_;
  Ring tx_, rx_;
  uint32_t tx_next_ = 0, tx_used_ = 0, rx_next_ = 0, rx_done_ = 0, rx_armed_ = 0;
  std::deque<Sending> sending_;
  uint32_t s_status_ = 0;
  std::deque<Expected> expected_;
  Bytes partial_;
  int64_t arrival_ = 0, wire_free_ = INT64_MIN;
  uint64_t accepted_ = 0, strangers_ = 0, received_ = 0, cuts_ = 0, parts_ = 0, sent_frames_ = 0, cut_frames_ = 0;
  uint64_t digest_ = 0xcbf29ce484222325ull;
};

}  // namespace

uint64_t RunEpisode(uint64_t seed, bool skip, uint64_t frames, Totals* totals) {
  unit::Rng rng(seed);
  Choice c = Choose(&rng);
  c.setup.skip = skip;
  c.setup.chip.eager = !skip;
  return Episode(c, &rng, frames).Go(totals);
}

}  // namespace testbench
