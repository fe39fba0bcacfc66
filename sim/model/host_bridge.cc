// SPDX-License-Identifier: Apache-2.0
#include "sim/model/host_bridge.h"

#include <algorithm>

#include "sim/gen/hvia_layout.h"

namespace hvia {
namespace {

constexpr int kRetryLimit = 1 << 16;   // the bridge gives up a command after this many retries
constexpr int kDevselLimit = 4;        // clocks after the address phase: subtractive decode
constexpr int kRetryBackoff = 2;       // clocks before a retried transaction is repeated
constexpr int kGrantIdleLimit = 16;    // a granted master that does not start loses its turn

bool IsMemoryRead(uint8_t c) {
  return c == kPciCommandMemoryRead || c == kPciCommandMemoryReadLine || c == kPciCommandMemoryReadMultiple;
}
bool IsMemoryWrite(uint8_t c) { return c == kPciCommandMemoryWrite || c == kPciCommandMemoryWriteInvalidate; }

uint8_t BusCommand(HostCommand::Kind kind) {
  switch (kind) {
    case HostCommand::kConfigRead: return kPciCommandConfigRead;
    case HostCommand::kConfigWrite: return kPciCommandConfigWrite;
    case HostCommand::kMemoryRead: return kPciCommandMemoryRead;
    default: return kPciCommandMemoryWrite;
  }
}
bool IsRead(HostCommand::Kind kind) { return kind == HostCommand::kConfigRead || kind == HostCommand::kMemoryRead; }
bool IsConfig(HostCommand::Kind kind) { return kind == HostCommand::kConfigRead || kind == HostCommand::kConfigWrite; }

}  // namespace

const char* HostResultStatusName(HostResult::Status status) {
  switch (status) {
    case HostResult::kOk: return "ok";
    case HostResult::kMasterAbort: return "master abort";
    case HostResult::kTargetAbort: return "target abort";
    default: return "retry limit";
  }
}

HostBridgeTiming HostBridgeTimingOf(const Params& params) {
  HostBridgeTiming t;
  t.arbitration = static_cast<int>(params.BridgeArbitrationClocks);
  t.devsel = static_cast<int>(params.BridgeDevselClocks);
  t.read_initial = static_cast<int>(params.BridgeReadInitialClocks);
  t.write_initial = static_cast<int>(params.BridgeWriteInitialClocks);
  t.read_wait_every = static_cast<int>(params.BridgeReadWaitEvery);
  t.write_wait_every = static_cast<int>(params.BridgeWriteWaitEvery);
  t.wait_clocks = static_cast<int>(params.BridgeWaitClocks);
  t.posted_write = static_cast<int>(params.BridgePostedWriteClocks);
  return t;
}

HostBridge::HostBridge(HostMemoryPort* memory, const HostBridgeTiming& timing, int bits)
    : memory_(memory), bits_(bits), parity_lines_(static_cast<uint16_t>(bits == 64 ? kPciPar | kPciPar64 : kPciPar)) {
  SetTiming(timing);
}

void HostBridge::SetTiming(const HostBridgeTiming& timing) {
  timing_ = timing;
  timing_.arbitration = std::max(timing_.arbitration, 1);
  timing_.devsel = std::clamp(timing_.devsel, 1, 3);
  timing_.read_initial = std::max({timing_.read_initial, timing_.devsel, 2});
  timing_.write_initial = std::max(timing_.write_initial, timing_.devsel);
  timing_.wait_clocks = std::clamp(timing_.wait_clocks, 1, 7);
  timing_.posted_write = std::max(timing_.posted_write, 1);
}

void HostBridge::SetNoise(const HostBridgeNoise& noise) {
  noise_ = noise;
  random_ = SplitMix(noise.seed);
  noisy_ = (noise.retry | noise.disconnect | noise.target_abort | noise.wait | noise.devsel | noise.narrow | noise.grant_loss | noise.bad_parity | noise.bad_data | noise.perr) != 0;
  steady_ = false;
}

bool HostBridge::Chance(int permille) { return permille != 0 && random_.Next() % 1000 < static_cast<uint64_t>(permille); }

void HostBridge::Reset() {
  while (!queue_.empty()) Complete(HostResult::kMasterAbort);
  if (target_ != TargetState::kIdle && target_ != TargetState::kTurn && !read_ && dwords_ != 0) memory_->BurstEnd();
  drive_ = PciDrive{};
  bad_ad_ = false;
  spoiled_ = kNowhere;
  perr_clocks_ = 0;
  steady_ = false;
  gnt_n_ = was_gnt_n_ = was_frame_n_ = true;
  idsel_ = bridge_turn_ = card_on_bus_ = false;
  request_clocks_ = grant_idle_clocks_ = 0;
  master_ = MasterState::kIdle;
  wait_ = age_ = backoff_ = 0;
  selected_ = aborted_ = moved_ = false;
  target_ = TargetState::kIdle;
}

void HostBridge::Post(const HostCommand& command) {
  Entry e;
  e.command = command;
  e.result.kind = command.kind;
  e.result.token = command.token;
  e.result.posted = clock_;
  queue_.push_back(e);
}

bool HostBridge::PopResult(HostResult* result) {
  if (results_.empty()) return false;
  *result = results_.front();
  results_.pop_front();
  return true;
}

void HostBridge::Work(const PciPins& p) {
  const bool drove_ad = drive_.oe & kPciAd, bad_ad = bad_ad_;
  const bool begins = was_frame_n_ && !p.frame_n();
  if (begins) card_on_bus_ = master_ == MasterState::kIdle;
  if (p.idle()) card_on_bus_ = false;

  TargetTick(p);
  Arbitrate(p);
  MasterTick(p);

  // The bridge parks the idle bus while the card has no grant. It waits one clock between two
  // grants, so that the card releases its drivers first.
  if (master_ == MasterState::kIdle && target_ == TargetState::kIdle) {
    if (p.idle() && gnt_n_ && p.gnt_n && was_gnt_n_)
      Drive(kPciAd | kPciCbe);
    else
      Release(kPciAd | kPciCbe);
  }

  // PAR and PAR64 follow AD and C/BE# by one clock.
  drive_.bad_par = drive_.bad_par64 = false;
  if (drove_ad) {
    Drive(parity_lines_);
    drive_.bad_par = (bad_ad && !p.idle()) || (noisy_ && !p.idle() && Chance(noise_.bad_parity));
    drive_.bad_par64 = noisy_ && bits_ == 64 && !p.idle() && Chance(noise_.bad_parity);
    drive_.Set(kPciPar, PciParity(p.ad, p.cbe_n) ^ drive_.bad_par);
    drive_.Set(kPciPar64, PciParity64(p.ad, p.cbe_n) ^ drive_.bad_par64);
  } else {
    Release(parity_lines_);
  }

  // PERR# comes two clocks after the data: sustained tri-state.
  if (perr_clocks_ > 0) {
    perr_clocks_--;
    drive_.Set(kPciPerr, perr_clocks_ != 2);
    if (perr_clocks_ == 2) Drive(kPciPerr);
    if (perr_clocks_ == 0) Release(kPciPerr);
  }

  steady_ = p.idle() && was_frame_n_ && gnt_n_ && p.gnt_n && was_gnt_n_ && p.req_n && queue_.empty() && drove_ad && backoff_ == 0 &&
            master_ == MasterState::kIdle && target_ == TargetState::kIdle && drive_.oe == (kPciAd | kPciCbe | parity_lines_) &&
            (p.high & parity_lines_) == (drive_.high & parity_lines_);
  steady_high_ = p.high;
  was_gnt_n_ = p.gnt_n;
  was_frame_n_ = p.frame_n();
}

// Central arbiter. The bridge owns the bus unless the card has GNT#. Turns alternate while both
// request.
void HostBridge::Arbitrate(const PciPins& p) {
  const bool wanted = !queue_.empty() && master_ == MasterState::kIdle;
  if (gnt_n_) {
    if (p.req_n) {
      request_clocks_ = 0;
      return;
    }
    request_clocks_++;
    if (request_clocks_ < timing_.arbitration || (wanted && bridge_turn_)) return;
    gnt_n_ = false;
    request_clocks_ = 0;
    grant_idle_clocks_ = 0;
    return;
  }
  grant_idle_clocks_ = p.idle() ? grant_idle_clocks_ + 1 : 0;
  if (p.req_n || grant_idle_clocks_ > kGrantIdleLimit || (noisy_ && Chance(noise_.grant_loss))) {
    gnt_n_ = true;
    return;
  }
  if (card_on_bus_ && wanted) {
    gnt_n_ = true;
    bridge_turn_ = true;
  }
}

void HostBridge::MasterBegin() {
  const HostCommand& c = queue_.front().command;
  drive_.ad = c.address + 4u * static_cast<uint32_t>(index_);
  drive_.cbe_n = BusCommand(c.kind);
  drive_.Set(kPciFrame, false);
  drive_.Set(kPciIrdy, true);
  Drive(kPciAd | kPciCbe | kPciFrame);
  idsel_ = IsConfig(c.kind);
  bad_ad_ = c.bad_parity & 1;
  master_ = MasterState::kAddress;
  age_ = 0;
  selected_ = aborted_ = moved_ = false;
  bridge_turn_ = false;
  HostResult& r = queue_.front().result;
  if (r.begin == 0) r.begin = clock_;
}

void HostBridge::MasterOffer() {
  const HostCommand& c = queue_.front().command;
  drive_.cbe_n = ~c.byte_enables[index_] & 15;
  if (!IsRead(c.kind)) drive_.ad = c.data[index_];
  bad_ad_ = !IsRead(c.kind) && ((c.bad_parity >> (1 + index_) & 1) || Chance(noise_.bad_data));
  wait_ = Chance(noise_.wait) ? 1 + static_cast<int>(random_.Next() % 5) : 0;
  split_ = c.kind == HostCommand::kMemoryWrite && index_ + 1 < c.count && Chance(noise_.split);
  const bool last = index_ + 1 == c.count || split_;
  drive_.Set(kPciIrdy, wait_ != 0);
  if (wait_ == 0) drive_.Set(kPciFrame, last);
}

void HostBridge::Complete(HostResult::Status status) {
  HostResult& r = queue_.front().result;
  r.status = status;
  r.done = clock_;
  results_.push_back(r);
  queue_.pop_front();
  index_ = queue_.empty() ? 0 : queue_.front().index;
}

// Models a store of another thread between the halves of a split burst. It goes to another 16
// bytes, because threads that share a doorbell hold a lock, which contains a barrier.
void HostBridge::MasterYield() {
  if (queue_.size() < 2) return;
  const HostCommand& c = queue_[1].command;
  if (c.kind != HostCommand::kMemoryWrite || c.source == queue_[0].command.source ||
      c.address / 16 == queue_[0].command.address / 16 || !Chance(500))
    return;
  queue_[0].index = index_;
  std::swap(queue_[0], queue_[1]);
  index_ = queue_[0].index;
}

void HostBridge::MasterFinish() {
  bad_ad_ = false;
  drive_.Set(kPciIrdy, true);
  Release(kPciAd | kPciCbe | kPciFrame);
  master_ = MasterState::kTurn;
}

void HostBridge::MasterTick(const PciPins& p) {
  switch (master_) {
    case MasterState::kTurn:
      Release(kPciIrdy);
      master_ = MasterState::kIdle;
      [[fallthrough]];
    case MasterState::kIdle: {
      if (backoff_ > 0) backoff_--;
      if (queue_.empty() || backoff_ > 0 || !gnt_n_ || !p.gnt_n || !was_gnt_n_ || !p.idle()) return;
      // The Tick that makes the clock n + 1 sees a Post at clock n.
      if (clock_ - queue_.front().result.posted < static_cast<uint64_t>(timing_.posted_write)) return;
      MasterBegin();
      return;
    }
    case MasterState::kAddress:
      idsel_ = false;
      Drive(kPciIrdy);  // not before: the last master has just released it
      if (IsRead(queue_.front().command.kind)) Release(kPciAd);
      master_ = MasterState::kData;
      MasterOffer();
      return;
    case MasterState::kData:
      break;
  }

  Entry& e = queue_.front();
  const HostCommand& c = e.command;
  age_++;
  if (!p.devsel_n()) selected_ = true;
  const bool stop = !p.stop_n();
  const bool gone = !selected_ && age_ >= kDevselLimit;
  const bool target_abort = stop && p.devsel_n();
  const bool offered = !p.irdy_n();
  const bool last_phase = p.frame_n();
  if (offered && !p.trdy_n() && !p.devsel_n() && !aborted_) {
    if (IsRead(c.kind)) e.result.data = static_cast<uint32_t>(p.ad);
    moved_ = true;
    index_++;
    if (!last_phase && !stop) {
      MasterOffer();
      return;
    }
  }
  const bool ended = offered && (!p.trdy_n() || stop || gone || aborted_);
  if (ended && last_phase) {
    MasterFinish();
    if (gone || (aborted_ && !selected_)) {
      Complete(HostResult::kMasterAbort);
    } else if (target_abort || aborted_) {
      Complete(HostResult::kTargetAbort);
    } else if (index_ == c.count) {
      Complete(HostResult::kOk);
    } else {
      backoff_ = kRetryBackoff;
      if (!stop)
        MasterYield();
      else if (moved_)
        e.result.disconnects++;
      else if (++e.result.retries == kRetryLimit)
        Complete(HostResult::kRetryLimit);
    }
    return;
  }
  if (stop || gone) {
    // One more clock with IRDY# and without FRAME#. The dword on AD stays.
    if (gone || target_abort) aborted_ = true;
    if (offered && !p.trdy_n() && index_ < c.count) {
      drive_.cbe_n = ~c.byte_enables[index_] & 15;
      if (!IsRead(c.kind)) drive_.ad = c.data[index_];
    }
    drive_.Set(kPciFrame, true);
    drive_.Set(kPciIrdy, false);
    return;
  }
  if (!offered && --wait_ <= 0) {
    drive_.Set(kPciIrdy, false);
    drive_.Set(kPciFrame, index_ + 1 == c.count || split_);
  }
}

void HostBridge::TargetStop() {
  bad_ad_ = false;
  drive_.Set(kPciTrdy, true);
  drive_.Set(kPciStop, false);
  target_ = TargetState::kStop;
}

void HostBridge::TargetFinish() {
  drive_.Set(kPciTrdy, true);
  drive_.Set(kPciStop, true);
  drive_.Set(kPciDevsel, true);
  drive_.Set(kPciAck64, true);
  Release(kPciAd);
  bad_ad_ = false;
  target_ = TargetState::kTurn;
  if (!read_ && dwords_ != 0) memory_->BurstEnd();
}

// Chooses the wait states and the end of the next data phase.
void HostBridge::TargetNextPhase() {
  target_wait_ = 0;
  const uint32_t every = static_cast<uint32_t>(read_ ? timing_.read_wait_every : timing_.write_wait_every);
  if (every != 0 && dwords_ != 0 && dwords_ / every != (dwords_ - (wide_ ? 2u : 1u)) / every) target_wait_ = timing_.wait_clocks;
  if (noisy_ && Chance(noise_.wait)) target_wait_ += 1 + static_cast<int>(random_.Next() % 5);
  target_wait_ = std::min(target_wait_, 7);
}

void HostBridge::TargetOffer() {
  if (retry_) {
    TargetStop();
    return;
  }
  if (target_abort_ && !(drive_.high & kPciDevsel) && target_age_ >= devsel_ && random_.Next() % 4 == 0) {
    drive_.Set(kPciDevsel, true);
    drive_.Set(kPciAck64, true);
    TargetStop();
    return;
  }
  bool stop = false;
  if (noisy_ && Chance(noise_.disconnect)) {
    if (dwords_ != 0 && random_.Next() % 2 == 0) {
      TargetStop();
      return;
    }
    stop = true;
  }
  if (read_) {
    drive_.ad = memory_->ReadDword(address_);
    if (wide_) drive_.ad |= uint64_t{memory_->ReadDword(address_ + 4)} << 32;
    bad_ad_ = spoiled_ == address_ || (wide_ && spoiled_ == address_ + 4) || Chance(noise_.bad_data);
  }
  drive_.Set(kPciTrdy, false);
  drive_.Set(kPciStop, !stop);
  target_ = TargetState::kOffer;
}

void HostBridge::TargetTick(const PciPins& p) {
  target_age_++;
  switch (target_) {
    case TargetState::kTurn:
      Release(kPciTrdy | kPciStop | kPciDevsel | kPciAck64);
      target_ = TargetState::kIdle;
      [[fallthrough]];
    case TargetState::kIdle: {
      if (!card_on_bus_ || !was_frame_n_ || p.frame_n()) return;
      const uint8_t command = p.cbe_n & 15;
      const uint32_t address = static_cast<uint32_t>(p.ad);
      if (!(IsMemoryRead(command) || IsMemoryWrite(command)) || address >= kPciMemorySize) return;
      address_ = address & ~3u;
      read_ = IsMemoryRead(command);
      wide_ = bits_ == 64 && !p.req64_n();
      target_age_ = 0;
      dwords_ = 0;
      devsel_ = timing_.devsel;
      retry_ = target_abort_ = false;
      if (noisy_) {
        if (Chance(noise_.devsel)) devsel_ = 1 + static_cast<int>(random_.Next() % 3);
        if (wide_ && Chance(noise_.narrow)) wide_ = false;
        retry_ = Chance(noise_.retry);
        target_abort_ = Chance(noise_.target_abort);
      }
      TargetNextPhase();
      target_wait_ += std::max({read_ ? timing_.read_initial : timing_.write_initial, devsel_, read_ ? 2 : 1}) - 1;
      target_ = TargetState::kDecode;
      [[fallthrough]];
    }
    case TargetState::kDecode:
      // DEVSEL# is driven one clock before it is sampled.
      if (target_age_ == devsel_ - 1) {
        drive_.Set(kPciDevsel, false);
        drive_.Set(kPciTrdy, true);
        drive_.Set(kPciStop, true);
        drive_.Set(kPciAck64, !wide_);
        Drive(kPciDevsel | kPciTrdy | kPciStop);
        if (wide_) Drive(kPciAck64);
      }
      // AD turns around in the clock after the address phase.
      if (read_ && target_age_ >= 1 && target_age_ >= devsel_ - 1) Drive(kPciAd);
      if (target_age_ >= target_wait_) TargetOffer();
      return;
    case TargetState::kWait:
      if (--target_wait_ <= 0) TargetOffer();
      return;
    case TargetState::kOffer: {
      if (p.irdy_n()) return;
      if (bad_ad_) spoiled_ = kNowhere;
      if (!read_ && perr_clocks_ == 0 && noisy_ && Chance(noise_.perr)) perr_clocks_ = 4;
      for (uint32_t i = 0; i < (wide_ ? 2u : 1u); i++) {
        if (!read_) memory_->WriteDword(address_, static_cast<uint32_t>(p.ad >> (32 * i)), static_cast<uint8_t>(~(p.cbe_n >> (4 * i)) & 15));
        address_ += 4;
        dwords_++;
      }
      if (p.frame_n()) {
        TargetFinish();
      } else if (!p.stop_n()) {
        TargetStop();
      } else {
        TargetNextPhase();
        if (target_wait_ == 0) {
          TargetOffer();
        } else {
          drive_.Set(kPciTrdy, true);
          target_ = TargetState::kWait;
        }
      }
      return;
    }
    case TargetState::kStop:
      if (p.frame_n() && !p.irdy_n()) TargetFinish();
      return;
  }
}

}  // namespace hvia
