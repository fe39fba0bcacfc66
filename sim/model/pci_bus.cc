// SPDX-License-Identifier: Apache-2.0
#include "sim/model/pci_bus.h"

#include <cinttypes>
#include <cstdio>

#include "sim/gen/hvia_layout.h"

namespace hvia {
namespace {

constexpr uint64_t kInitialLimit = 16;        // clocks from FRAME# to the first TRDY# or STOP#
constexpr uint64_t kBridgeInitialLimit = 32;  // a host bridge may take longer
constexpr uint64_t kPhaseLimit = 8;           // clocks of each later data phase, and to every IRDY#
constexpr uint64_t kDevselLimit = 4;          // subtractive decode
constexpr int kParkLimit = 8;                 // idle clocks in which AD may float
constexpr int kGrantLimit = 16;               // idle clocks after which a granted master must have started
constexpr size_t kViolationTexts = 16;

bool IsRead(uint8_t command) {
  return command == kPciCommandMemoryRead || command == kPciCommandMemoryReadLine || command == kPciCommandMemoryReadMultiple ||
         command == kPciCommandConfigRead;
}

}  // namespace

PciBus::PciBus(int bits) : bits_(bits) {
  ad_mask_ = bits == 64 ? ~0ull : 0xffffffffull;
  line_mask_ = static_cast<uint16_t>(bits == 64 ? ~0u : ~(kPciReq64 | kPciAck64 | kPciPar64));
  cbe_mask_ = bits == 64 ? 255 : 15;
}

void PciBus::Reset() {
  was_ = now_ = PciPins{};
  was_card_ = was_bridge_ = PciDrive{};
  steady_ = false;
  master_ = kNone;
  backoff_next_ = perr_next_ = false;
  floating_ = unused_grant_ = 0;
}

void PciBus::Violation(const char* rule) {
  violation_count_++;
  if (violations_.size() >= kViolationTexts) return;
  char text[320];
  std::snprintf(text, sizeof text,
                "clock %" PRIu64 ": %s (%s, command %s, address %08" PRIx32
                ", began at clock %" PRIu64 "; FRAME# %d%d IRDY# %d%d TRDY# %d%d DEVSEL# %d%d STOP# %d%d REQ# %d GNT# %d REQ64# %d%d ACK64# %d%d)",
                stats_.clocks, rule, master_ == kCard ? "master card" : master_ == kBridge ? "master bridge" : "bus idle",
                PciCommandName(command_), address_, begin_, was_.frame_n(), now_.frame_n(), was_.irdy_n(), now_.irdy_n(),
                was_.trdy_n(), now_.trdy_n(), was_.devsel_n(), now_.devsel_n(), was_.stop_n(), now_.stop_n(), now_.req_n, now_.gnt_n,
                was_.req64_n(), now_.req64_n(), was_.ack64_n(), now_.ack64_n());
  violations_.push_back(text);
}

const PciPins& PciBus::Clock(const PciDrive& card, const PciDrive& bridge, bool gnt_n, bool idsel) {
  stats_.clocks++;
  if (steady_ && card == was_card_ && bridge == was_bridge_ && gnt_n == now_.gnt_n && idsel == now_.idsel) return now_;
  was_ = now_;
  if (card.oe & kPciAd) now_.ad = card.ad & ad_mask_;
  if (bridge.oe & kPciAd) now_.ad = bridge.ad & ad_mask_;
  if (card.oe & kPciCbe) now_.cbe_n = card.cbe_n & cbe_mask_;
  if (bridge.oe & kPciCbe) now_.cbe_n = bridge.cbe_n & cbe_mask_;
  // Pull-ups hold undriven control lines. PAR keeps its level.
  constexpr uint16_t kParity = kPciPar | kPciPar64;
  const uint16_t card_oe = card.oe & line_mask_, bridge_oe = bridge.oe & line_mask_;
  uint16_t high = static_cast<uint16_t>(kPciControl | (now_.high & kParity));
  high = static_cast<uint16_t>((high & ~card_oe) | (card.high & card_oe));
  high = static_cast<uint16_t>((high & ~bridge_oe) | (bridge.high & bridge_oe));
  now_.high = high & (kPciControl | kParity);
  now_.gnt_n = gnt_n;
  now_.req_n = card.req_n;
  now_.serr_n = card.serr_n;
  now_.idsel = idsel;
  Check(card, bridge);
  was_card_ = card;
  was_bridge_ = bridge;
  steady_ = master_ == kNone && now_.idle() && now_.high == was_.high && !backoff_next_ && !perr_next_ && now_.serr_n && now_.req_n &&
            ((card.oe | bridge.oe) & kPciAd);
  return now_;
}

void PciBus::Check(const PciDrive& card, const PciDrive& bridge) {
  if (!now_.idle()) stats_.busy_clocks++;

  // Electrical rules
  if (card.oe & bridge.oe) Violation("two agents drive one line");
  if ((card.oe & was_bridge_.oe) | (bridge.oe & was_card_.oe)) Violation("no turnaround clock between two drivers of a line");
  if ((was_card_.oe & ~was_card_.high & ~card.oe & kPciControl) | (was_bridge_.oe & ~was_bridge_.high & ~bridge.oe & kPciControl))
    Violation("line released while asserted, without being driven high first");

  // PERR# comes two clocks after the data, and only for that data.
  if (!now_.perr_n() && (card.oe & kPciPerr)) {
    stats_.perr++;
    if (!perr_next_) Violation("PERR# without a parity error two clocks before");
  }
  if (!now_.perr_n() && (bridge.oe & kPciPerr)) stats_.bridge_perr++;
  if (!now_.serr_n) stats_.serr++;
  perr_next_ = false;
  CheckParity(card, bridge);

  // Idle bus
  if (now_.idle() && !((card.oe | bridge.oe) & kPciAd)) {
    if (++floating_ > kParkLimit) {
      Violation("AD floats on an idle bus");
      floating_ = 0;
    }
  } else {
    floating_ = 0;
  }
  if (now_.idle() && !now_.gnt_n && !now_.req_n) {
    if (++unused_grant_ > kGrantLimit) {
      Violation("granted master does not start within 16 idle clocks");
      unused_grant_ = 0;
    }
  } else {
    unused_grant_ = 0;
  }
  if (backoff_next_) {
    backoff_next_ = false;
    if (!now_.req_n) Violation("REQ# was not away for two clocks after STOP#");
  }

  if (was_.frame_n() && !now_.frame_n()) {
    Begin(card, bridge);
    return;
  }
  if (master_ == kNone) {
    if (!now_.irdy_n()) Violation("IRDY# without a transaction");
    if (!now_.req64_n()) Violation("REQ64# without a transaction");
    if (!now_.trdy_n() || !now_.devsel_n() || !now_.stop_n() || !now_.ack64_n()) Violation("target answers without a transaction");
    return;
  }
  if (master_ == kCard)
    CheckMaster(card, bridge);
  else
    CheckMaster(bridge, card);
  CheckTarget();
  Account();
}

void PciBus::Begin(const PciDrive& card, const PciDrive& bridge) {
  const Agent agent = (card.oe & kPciFrame) ? kCard : kBridge;
  if (!was_.idle() || master_ != kNone) Violation("FRAME# asserted while the bus is not idle");
  master_ = agent;
  command_ = now_.cbe_n & 15;
  address_ = static_cast<uint32_t>(now_.ad);
  begin_ = stats_.clocks;
  phase_begin_ = begin_ + 1;
  read_ = IsRead(command_);
  address_phase_ = true;
  selected_ = stopped_ = target_abort_ = master_abort_ = wide_ = false;
  asked64_ = !now_.req64_n();
  moved_ = 0;
  const PciDrive& d = agent == kCard ? card : bridge;
  if (agent == kCard && was_.gnt_n) Violation("FRAME# asserted without GNT#");
  if (agent == kBridge && !was_.gnt_n) Violation("the bridge starts while the card has GNT#");
  if ((d.oe & (kPciAd | kPciCbe)) != (kPciAd | kPciCbe)) Violation("AD or C/BE# not driven in the address phase");
  if (!now_.irdy_n()) Violation("IRDY# asserted in the address phase");
  if (!now_.trdy_n() || !now_.devsel_n() || !now_.stop_n() || !now_.ack64_n()) Violation("target answers in the address phase");
  if (asked64_ && (address_ & 4)) Violation("REQ64# for an address that is no multiple of 8");
  if (asked64_ && command_ != kPciCommandMemoryRead && command_ != kPciCommandMemoryReadLine &&
      command_ != kPciCommandMemoryReadMultiple && command_ != kPciCommandMemoryWrite && command_ != kPciCommandMemoryWriteInvalidate)
    Violation("REQ64# with a command that is no memory access");
  if (agent == kCard) {
    stats_.card_transactions++;
    if (address_ & 3) Violation("burst order other than linear");
    if (command_ != kPciCommandMemoryRead && command_ != kPciCommandMemoryReadLine && command_ != kPciCommandMemoryReadMultiple &&
        command_ != kPciCommandMemoryWrite)
      Violation("command that this master never issues");
  } else {
    stats_.bridge_transactions++;
  }
}

// The rules of FRAME#, IRDY#, C/BE#, AD. was_ may be the address phase.
void PciBus::CheckMaster(const PciDrive& master, const PciDrive& other) {
  if (other.oe & (kPciFrame | kPciIrdy | kPciCbe)) Violation("another agent drives the master's lines");
  const bool offered = !was_.irdy_n() && !address_phase_;
  const bool ended = offered && (!was_.trdy_n() || !was_.stop_n());
  const bool final_ended = ended && was_.frame_n();
  // Master abort: no target has answered.
  const bool gone = !selected_ && was_.devsel_n() && stats_.clocks > begin_ + kDevselLimit;
  if (gone && !master_abort_ && ((offered && was_.frame_n() && now_.irdy_n()) || (!was_.frame_n() && now_.frame_n()))) {
    master_abort_ = true;
    stats_.master_aborts++;
  }
  if (!selected_ && was_.devsel_n() && stats_.clocks > begin_ + kDevselLimit + 2 && !now_.idle())
    Violation("master does not give up although DEVSEL# has not come");

  if (!was_.frame_n() && now_.frame_n() && now_.irdy_n()) Violation("FRAME# released without IRDY#");
  if (offered && !ended && !master_abort_) {
    if (now_.irdy_n()) Violation("IRDY# taken back before the data phase ended");
    if (now_.frame_n() != was_.frame_n()) Violation("FRAME# changed while IRDY# was asserted and the data phase open");
  }
  if (ended && !was_.frame_n() && !was_.stop_n() && (!now_.frame_n() || now_.irdy_n()))
    Violation("master does not end the transaction after STOP#");
  if (final_ended && !now_.irdy_n()) Violation("IRDY# stays after the last data phase");
  if (now_.req64_n() != (!asked64_ || now_.frame_n())) Violation("REQ64# does not go with FRAME#");

  if (now_.idle()) return;
  if ((master.oe & kPciCbe) == 0) Violation("C/BE# not driven in a data phase");
  if (!address_phase_ && !ended) {
    const uint8_t cbe_mask = MaybeWide() ? 255 : 15;
    const uint64_t ad_mask = MaybeWide() ? ~0ull : 0xffffffffull;
    if ((now_.cbe_n ^ was_.cbe_n) & cbe_mask) Violation("C/BE# changed inside a data phase");
    if (!read_ && offered && ((now_.ad ^ was_.ad) & ad_mask)) Violation("write data changed while IRDY# was asserted");
  }
  if (!read_ && !now_.irdy_n() && (master.oe & kPciAd) == 0) Violation("write data not driven");
  if (read_ && (master.oe & kPciAd)) Violation("master drives AD in a data phase of a read");
  if (now_.irdy_n() && stats_.clocks >= phase_begin_ + kPhaseLimit) Violation("IRDY# later than 8 clocks");
}

// The rules of DEVSEL#, TRDY#, STOP#.
void PciBus::CheckTarget() {
  const bool offered = !was_.irdy_n() && !address_phase_;
  const bool ended = offered && (!was_.trdy_n() || !was_.stop_n());
  const bool final_ended = ended && was_.frame_n();
  if (final_ended) {
    if (!now_.trdy_n() || !now_.stop_n() || !now_.devsel_n() || !now_.ack64_n()) Violation("target answers after the last data phase");
    return;
  }
  if (now_.idle()) {
    if (!now_.trdy_n() || !now_.stop_n() || !now_.devsel_n() || !now_.ack64_n()) Violation("target answers on an idle bus");
    return;
  }
  if (selected_ && now_.devsel_n() && !target_abort_) {
    if (now_.stop_n() || !now_.trdy_n()) Violation("DEVSEL# taken back without target abort");
    target_abort_ = true;
    stats_.target_aborts++;
  }
  if (!selected_ && now_.devsel_n() && (!now_.trdy_n() || !now_.stop_n())) Violation("TRDY# or STOP# without DEVSEL#");
  if (!selected_ && !now_.devsel_n() && stats_.clocks > begin_ + kDevselLimit) Violation("DEVSEL# later than subtractive decode");
  if (!now_.ack64_n() && !asked64_) Violation("ACK64# without REQ64#");
  if (selected_ ? now_.ack64_n() != (!wide_ || now_.devsel_n()) : !now_.ack64_n() && now_.devsel_n())
    Violation("ACK64# does not go with DEVSEL#");
  if (read_ && !now_.trdy_n() && address_phase_) Violation("TRDY# of a read in the turnaround clock");
  if (!address_phase_ && !ended && !was_.trdy_n()) {
    if (now_.trdy_n() || now_.stop_n() != was_.stop_n() || now_.devsel_n() != was_.devsel_n())
      Violation("TRDY#, STOP# or DEVSEL# changed while TRDY# was asserted and the data phase open");
    if (read_ && ((now_.ad ^ was_.ad) & (wide_ ? ~0ull : 0xffffffffull))) Violation("read data changed while TRDY# was asserted");
  }
  if (!address_phase_ && !was_.stop_n()) {
    if (now_.stop_n()) Violation("STOP# taken back before FRAME# went");
    if (was_.trdy_n() && !now_.trdy_n()) Violation("TRDY# after STOP# without it");
    if (ended && !now_.trdy_n()) Violation("TRDY# stays after a disconnect with data");
  }
  if (!now_.devsel_n() && !selected_) {
    selected_ = true;
    wide_ = !now_.ack64_n();
    if (asked64_) (wide_ ? stats_.wide_transactions : stats_.narrow_transactions)++;
  }
  if (!now_.stop_n()) stopped_ = true;
  const bool answers = !now_.trdy_n() || !now_.stop_n();
  if (selected_ && !answers) {
    const uint64_t limit = moved_ != 0 ? phase_begin_ + kPhaseLimit - 1 : begin_ + (master_ == kCard ? kBridgeInitialLimit : kInitialLimit);
    if (stats_.clocks > limit) Violation("target latency: TRDY# or STOP# too late");
  }
}

// Advances the state of the transaction by the clock in now_.
void PciBus::Account() {
  address_phase_ = false;
  if (!now_.irdy_n() && !now_.trdy_n() && !now_.devsel_n()) {
    const uint64_t dwords = wide_ ? 2 : 1;
    moved_ += dwords;
    (master_ == kCard ? stats_.card_dwords : stats_.bridge_dwords) += dwords;
    phase_begin_ = stats_.clocks + 1;
  }
  if (!now_.idle()) return;
  if (stopped_ && !target_abort_) {
    if (moved_ == 0)
      stats_.retries++;
    else
      stats_.disconnects++;
  }
  if (stopped_ && master_ == kCard) {
    if (!now_.req_n) Violation("REQ# asserted in the idle clock after STOP#");
    if (!was_.req_n) backoff_next_ = true;
  }
  master_ = kNone;
}

// PAR and PAR64 of this clock cover AD and C/BE# of the clock before.
void PciBus::CheckParity(const PciDrive& card, const PciDrive& bridge) {
  if (master_ == kNone) return;
  Agent driver = kNone;
  bool counts = false;  // the card takes the data of this clock
  bool upper = false;   // PAR64 is valid
  if (address_phase_) {
    driver = master_;
    counts = driver == kBridge;
    upper = asked64_;
  } else if (!read_ && !was_.irdy_n()) {
    driver = master_;
    counts = driver == kBridge && !was_.trdy_n();
    upper = MaybeWide();
  } else if (read_ && !was_.trdy_n()) {
    driver = master_ == kCard ? kBridge : kCard;
    counts = driver == kBridge && !was_.irdy_n();
    upper = wide_;
  }
  if (driver == kNone) return;
  const PciDrive& d = driver == kCard ? card : bridge;
  if ((d.oe & kPciPar) == 0) {
    Violation("PAR not driven");
  } else if (now_.par() != (PciParity(was_.ad, was_.cbe_n) ^ d.bad_par)) {
    Violation(driver == kCard ? "wrong PAR from the card" : "wrong PAR from the bridge");
  }
  if (upper && (d.oe & kPciPar64) == 0) {
    Violation("PAR64 not driven");
  } else if (upper && now_.par64() != (PciParity64(was_.ad, was_.cbe_n) ^ d.bad_par64)) {
    Violation(driver == kCard ? "wrong PAR64 from the card" : "wrong PAR64 from the bridge");
  }
  if (!counts || !(d.bad_par || (upper && d.bad_par64))) return;
  stats_.bad_parity++;
  perr_next_ = !address_phase_;
}

}  // namespace hvia
