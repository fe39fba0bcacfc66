// SPDX-License-Identifier: Apache-2.0
#include "sim/card/card_node.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <type_traits>
#include <utility>

#include "Vcard_socket.h"
#include "sim/gen/hvia_layout.h"
#include "sim/model/ethernet_fcs.h"
#include "verilated.h"

namespace hvia::fabric {

namespace {

constexpr int kResetClocks = 16;
// In the first clocks of reset flip-flops hold noise, those of the checkers too. Checkers count
// after these clocks.
constexpr int kNoiseClocks = 8;
// Enough for reset, PCI enumeration and the SDRAM's 200 us of stable power.
constexpr int64_t kBootMargin = 100'000'000;
// A read that no target claims returns this, as on a PC.
constexpr uint32_t kMasterAbortData = 0xffffffffu;
// After this number of periods without another event, each refresh changes only counts and times.
// As many are simulated at the end of a span in which refreshes are passed over.
constexpr int kAlikeRefreshes = 2;
// Limit of refreshes that are passed over at once. Even.
constexpr int64_t kMostRefreshes = 1 << 20;

// With --no-skip the MAC model skips no clock edges either.
Dp83820Timing MacTiming(const Params& params, const CardOptions& options) {
  Dp83820Timing timing = Dp83820TimingOf(params);
  timing.eager = !options.skip_quiet;
  return timing;
}

bool IsRead(HostCommand::Kind kind) { return kind == HostCommand::kMemoryRead || kind == HostCommand::kConfigRead; }
bool IsConfig(uint32_t address) { return address - kPciConfigBase < kPciConfigSize; }

PciPins Lines(uint64_t ad, uint8_t cbe_n, uint16_t high) {
  PciPins p;
  p.ad = ad;
  p.cbe_n = cbe_n;
  p.high = high;
  return p;
}

}  // namespace

CardNode::CardNode(const Surroundings& s, const CardOptions& options)
    : s_(s),
      options_(options),
      context_(std::make_unique<VerilatedContext>()),
      bus_(static_cast<int>(s.params->SystemBusBits)),
      bridge_(s.memory, HostBridgeTimingOf(*s.params), static_cast<int>(s.params->SystemBusBits)),
      mac_bus_(static_cast<int>(s.params->MacBusBits)),
      mac_chip_(MacTiming(*s.params, options), static_cast<int>(s.params->MacBusBits)) {
  if (s.params->BridgeSplitWrites != 0) {
    HostBridgeNoise noise;
    noise.seed = s.seed * 2654435761u + static_cast<uint64_t>(s.index);
    noise.split = static_cast<int>(s.params->BridgeSplitWrites);
    bridge_.SetNoise(noise);
  }
  context_->randReset(2);
  // Verilator takes 31 bits, and 0 means a random seed.
  context_->randSeed(static_cast<int>((s.seed * 2654435761u + static_cast<uint64_t>(s.index)) % 0x7ffffffe) + 1);
  context_->traceEverOn(QuietCheck::kAvailable || !options.wave.empty());
  context_->assertOn(false);
  top_ = std::make_unique<Vcard_socket>(context_.get(), "board");
  if (Wave::kAvailable && !options.wave.empty()) wave_ = std::make_unique<Wave>(top_.get(), options.wave);
  if (QuietCheck::kAvailable) quiet_check_ = std::make_unique<QuietCheck>(top_.get());
}

void CardNode::Finish() {
  if (wave_) wave_->Finish();
  wave_.reset();
  if (quiet_check_ && !options_.wave.empty()) std::ofstream(options_.wave) << quiet_check_->Levels() << sdram_->State();
}

CardNode::~CardNode() { top_->final(); }

Time CardNode::BootSpan() const {
  // Rounded up to a multiple of the system clock's period, so that edges lie at such multiples.
  const Time span = s_.params->SdramPowerUpTime + kBootMargin;
  return (span + s_.params->SystemClockPeriod - 1) / s_.params->SystemClockPeriod * s_.params->SystemClockPeriod;
}

void CardNode::Boot(Time start) {
  next_known_ = false;
  const Params& p = *s_.params;
  origin_ = start;
  const auto clock = [](Time period, Time first) { return Clock{period, first, first}; };
  system_ = clock(p.SystemClockPeriod, start);
  sdram_clock_ = clock(p.SdramClockPeriod, start + p.SdramClockPhase);
  mac_ = clock(p.MacClockPeriod, start + p.MacClockPhase);
  reset_end_ = start + kResetClocks * p.SystemClockPeriod;
  now_ = start;
  done_ = start - 1;
  last_system_ = start - p.SystemClockPeriod;
  last_mac_ = mac_.first - mac_.period;
  sdram_ = std::make_unique<SdramChip>(SdramTiming::From(p), s_.seed, start, [this](int64_t t, const std::string& what) {
    s_.fabric->Fault(s_.index, "SDRAM at " + std::to_string(t) + " ps: " + what);
  });
  enumerator_ = std::make_unique<PciEnumerator>(&bridge_, PciEnumerator::DefaultPlan());
  top_->clk_i = top_->sd_clk_i = top_->mac_clk_i = 0;
  top_->block_clk_i = 0;
  top_->pass_i = top_->link_load_i = 0;
  // RST# falls before the first clock. Until then flip-flops hold noise; only the time has a value.
  top_->rst_ni = 1;
  top_->timebase_i = top_->sd_timebase_i = 0;
  top_->time_load_i = 1;
  Evaluate();
  top_->time_load_i = 0;
  LoadLink(true);
  top_->rst_ni = 0;
  top_->strap_i = options_.strap;
  pins_ = bus_.Clock(PciDrive{}, bridge_.drive(), bridge_.gnt_n(), bridge_.idsel());
  LoadSystem();
  LoadMac(PciDrive{});
}

std::string CardNode::NotReady() const {
  if (!enumerator_->error().empty()) return "PCI enumeration: " + enumerator_->error();
  if (!enumerator_->done()) return "PCI enumeration has not ended";
  if (!top_->ready_o) return "the card's SDRAM is not initialised";
  return "";
}

bool CardNode::Unconfigured() const { return !top_->rst_ni || !enumerator_->done(); }

bool CardNode::SystemWork() const { return Unconfigured() || !bridge_.quiet() || !top_->quiet_o; }

bool CardNode::SdramWork() const { return !top_->rst_ni || !sdram_->Idle() || !top_->sd_quiet_o; }

bool CardNode::MacWork() const { return !top_->rst_ni || !mac_chip_.quiet() || !top_->mac_quiet_o; }

Time CardNode::NextSystem() const {
  if (SystemActive()) return NextEdge(system_);
  const uint64_t deadline = top_->next_deadline_o;
  return deadline >> 47 & 1 ? kNever : NextEdge(system_, deadline);
}

Time CardNode::NextSdram() const {
  if (SdramActive()) return NextEdge(sdram_clock_);
  const uint64_t deadline = top_->sd_next_deadline_o;
  return deadline >> 47 & 1 ? kNever : NextEdge(sdram_clock_, deadline);
}

Time CardNode::NextMac() const {
  if (MacActive()) return NextEdge(mac_);
  const Time event = mac_chip_.NextEvent();
  return event == kNever ? kNever : std::max(NextEdge(mac_), mac_.AtOrAfter(event));
}

const CardNode::NextEdges& CardNode::Next() const {
  if (!next_known_) next_ = {NextSystem(), NextSdram(), NextMac()};
  next_known_ = true;
  return next_;
}

Time CardNode::NextEvent() const {
  const NextEdges& next = Next();
  return std::min({next.system, next.sdram, next.mac, NextLink()});
}

bool CardNode::Quiescent() const {
  // Refresh is ignored: no host sees it. A frame in the MAC has a next event, unless its receiver
  // waits for the card.
  return !SystemWork() && !SdramWork() && !MacWork() && mac_chip_.NextEvent() == kNever && NextLink() == kNever;
}

Time CardNode::NextVisible() const {
  const bool resting = refreshes_ >= kAlikeRefreshes && !SdramActive() && !wave_;
  return resting ? std::min({Next().system, Next().mac, NextLink()}) : NextEvent();
}

// A refresh changes no more than counts and times, and the card sees none of them before its last
// refreshes in the span. So only those are simulated.
bool CardNode::PassOver(Time until) {
  const Time first = Next().sdram;
  if (first >= until || refresh_span_ <= 0) return false;
  const int64_t refreshes = std::min(((until - first) / refresh_span_ - kAlikeRefreshes) / 2 * 2, kMostRefreshes);
  if (refreshes <= 0) return false;
  top_->pass_refreshes_i = static_cast<uint32_t>(refreshes);
  top_->pass_i = 1;
  Evaluate();
  top_->pass_i = 0;
  Evaluate();
  sdram_->PassOver(refreshes, refresh_span_);
  refresh_ = top_->sd_next_deadline_o;
  next_known_ = false;
  return true;
}

// Called after each SDRAM edge.
void CardNode::CountRefresh() {
  const uint64_t next = top_->sd_next_deadline_o;
  if (next == refresh_) return;
  const Time span = static_cast<Time>(next - refresh_) * sdram_clock_.period;
  refreshes_ = span == refresh_span_ ? refreshes_ + 1 : 0;
  refresh_span_ = span;
  refresh_ = next;
}

void CardNode::Evaluate() {
  top_->eval();
  high_ = (top_->clk_i ? kSystem : 0u) | (top_->sd_clk_i ? kSdram : 0u) | (top_->mac_clk_i ? kMac : 0u);
}

void CardNode::Dump(Time t) {
  if (wave_) wave_->Dump(static_cast<uint64_t>(t - origin_));
}

// One evaluation handles all clocks that rise at t, because its cost hardly depends on the number
// of inputs. The models sample their lines first. Their outputs pass registers of the same clock
// (card_socket), and all combinational logic settles afterwards. A clock falls at the next edge of
// another clock.
void CardNode::Step(Time t) {
  now_ = std::max(now_, t);
  if (NextLink() == t) {
    mac_chip_.SetLink(s_.link.link->Up(t), t);
    LoadLink(s_.link.link->Up(t));
    next_known_ = false;
  }
  const NextEdges& next = Next();
  const bool system = next.system == t, sdram = next.sdram == t, mac = next.mac == t;
  done_ = t;
  next_known_ = false;
  if (!system && !sdram && !mac) return;
  context_->time(static_cast<uint64_t>(t - origin_));

  // A clock can rise again only after the model has seen it low. After skipped edges the time of a
  // domain must be loaded.
  if (system && top_->timebase_i != system_.Count(t)) {
    top_->timebase_i = system_.Count(t);
    top_->time_load_i = 1;
  }
  if (sdram && top_->sd_timebase_i != sdram_clock_.Count(t)) {
    top_->sd_timebase_i = sdram_clock_.Count(t);
    top_->time_load_i = 1;
  }
  if (top_->time_load_i || (high_ & ((system ? kSystem : 0u) | (sdram ? kSdram : 0u) | (mac ? kMac : 0u)))) Evaluate();
  top_->time_load_i = 0;
  if (system) {
    BeforeSystemEdge(t);
    if (quiet_check_ && options_.wave.empty() && !Unconfigured()) {
      const std::string changed = quiet_check_->Clock(edges_, ~BlockClocks());
      if (!changed.empty()) s_.fabric->Fault(s_.index, "at " + std::to_string(t) + " ps the clock of a quiet block changed" + changed);
    }
    ++top_->timebase_i;
    top_->clk_i = 1;
    top_->block_clk_i = BlockClocks();
    if (top_->block_clk_i & kBusClock) bus_taken_ = BusInputs();
    if (!top_->only_refresh_o) refreshes_ = 0;
    ++edges_;
    ++clocks_;
  }
  if (sdram) {
    BeforeSdramEdge(t);
    ++top_->sd_timebase_i;
    top_->sd_clk_i = 1;
    ++edges_;
  }
  if (mac) {
    BeforeMacEdge(t);
    top_->mac_clk_i = 1;
    refreshes_ = 0;
    ++edges_;
  }
  Evaluate();
  if (sdram) CountRefresh();
  Dump(t);
  top_->clk_i = top_->sd_clk_i = top_->mac_clk_i = 0;
  top_->block_clk_i = 0;

  if (system) AfterSystemEdge(t);
  if (mac) AfterMacEdge(t);
  if (wave_) {
    Evaluate();
    Dump(t + 1);
  }
  if (system) TakeTrace();
  if (system || mac) CheckModels(t);
}

// A quiet block would change nothing at its clock, so it gets none. Before t = 0 each gets all.
uint32_t CardNode::BlockClocks() const {
  const bool all = !options_.skip_quiet || Unconfigured() || now_ < 0;
  if (all) return UINT32_MAX;
  return ~top_->block_quiet_o | (bus_taken_ == BusInputs() ? 0 : kBusClock);
}

CardNode::SegmentInputs CardNode::BusInputs() const {
  return {bridge_.drive(), bridge_.gnt_n(), bridge_.idsel(), pins_.ad, pins_.cbe_n, pins_.high};
}

void CardNode::CatchUp(Time t) {
  const Time first = last_system_ + system_.period;
  if (t <= first) return;
  const Time skipped = (t - first + system_.period - 1) / system_.period;
  bus_.Skip(static_cast<uint64_t>(skipped));
  bridge_.Skip(static_cast<uint64_t>(skipped));
  last_system_ += skipped * system_.period;
}

void CardNode::BeforeSystemEdge(Time t) {
  CatchUp(t);
  last_system_ = t;
  bridge_.Tick(pins_);
  if (top_->rst_ni && !enumerator_->done()) {
    enumerator_->Step();
    // At boot NotReady reports the error.
    if (t > 0 && !enumerator_->error().empty()) s_.fabric->Fault(s_.index, "after RST#: " + enumerator_->error());
  }
  TakeResults(t);
  DriveSystem();
}

void CardNode::AfterSystemEdge(Time t) {
  if (in_reset_ && system_.Count(t) == kNoiseClocks) context_->assertOn(true);
  if (!top_->rst_ni && t >= reset_end_) {
    in_reset_ = false;
    top_->rst_ni = 1;
    Evaluate();
  }
  PciDrive card;
  card.ad = top_->card_ad_o;
  card.cbe_n = top_->card_cbe_n_o;
  card.oe = top_->card_oe_o;
  card.high = top_->card_high_o;
  card.req_n = top_->card_req_n_o;
  card.serr_n = !top_->card_serr_oe_o;
  pins_ = bus_.Clock(card, bridge_.drive(), bridge_.gnt_n(), bridge_.idsel());
  // Before its first clock the card drove noise, which undriven lines have kept. Load clears them.
  if (in_reset_ && system_.Count(t) == 0) LoadSystem();
  CheckLines(t, "system", Lines(top_->bus_ad_o, top_->bus_cbe_n_o, top_->bus_high_o), pins_);
}

void CardNode::DriveSystem() {
  const PciDrive& d = bridge_.drive();
  top_->bridge_ad_i = static_cast<std::remove_reference_t<decltype(top_->bridge_ad_i)>>(d.ad);
  top_->bridge_cbe_n_i = static_cast<uint8_t>(d.cbe_n & (sizeof top_->bridge_ad_i == 8 ? 255 : 15));
  top_->bridge_oe_i = d.oe;
  top_->bridge_high_i = d.high;
  top_->bridge_gnt_n_i = bridge_.gnt_n();
  top_->bridge_idsel_i = bridge_.idsel();
}

void CardNode::LoadLink(bool up) {
  top_->phy_link_n_i = !up;
  top_->link_load_i = 1;
  Evaluate();
  top_->link_load_i = 0;
  Evaluate();
}

void CardNode::LoadSystem() {
  DriveSystem();
  bus_taken_.reset();
  top_->bus_load_i = 1;
  Evaluate();
  top_->bus_load_i = 0;
  Evaluate();
}

void CardNode::BeforeSdramEdge(Time t) {
  // In reset the controller drives noise, which the chip ignores.
  if (in_reset_) return;
  const SdramPins pins = {static_cast<bool>(top_->sd_cke_o),   static_cast<bool>(top_->sd_cs_n_o), static_cast<bool>(top_->sd_ras_n_o),
                          static_cast<bool>(top_->sd_cas_n_o), static_cast<bool>(top_->sd_we_n_o), static_cast<uint8_t>(top_->sd_ba_o),
                          static_cast<uint16_t>(top_->sd_a_o), static_cast<uint8_t>(top_->sd_dqm_o), top_->sd_dq_o,
                          static_cast<bool>(top_->sd_dq_oe_o)};
  top_->chip_dq_i = sdram_->Tick(pins, t);
}

void CardNode::BeforeMacEdge(Time t) {
  mac_bus_.Skip(static_cast<uint64_t>((t - last_mac_) / mac_.period - 1));
  last_mac_ = t;
  // In reset the card's pins carry noise. The chip samples from the edge at which RST# rises.
  chip_ran_ = !in_reset_ && top_->mb_rst_no;
  if (chip_ran_) mac_chip_.Tick(mac_pins_, t);
  DriveMac(chip_ran_ ? mac_chip_.drive() : PciDrive{});
}

void CardNode::AfterMacEdge(Time t) {
  const bool reset = in_reset_ || !top_->mb_rst_no;
  if (reset) {
    mac_chip_.Reset(t);
    mac_bus_.Reset();
  } else if (!chip_ran_) {
    mac_chip_.Tick(mac_pins_, t);
  }
  TakeSent(t);
  PciDrive card;
  if (!in_reset_) {
    card.ad = top_->mb_card_ad_o;
    card.cbe_n = top_->mb_card_cbe_n_o;
    card.oe = top_->mb_card_oe_o;
    card.high = top_->mb_card_high_o;
  }
  mac_pins_ = mac_bus_.Clock(mac_chip_.drive(), card, in_reset_ || top_->mb_gnt_n_o, !in_reset_ && top_->mb_idsel_o);
  if (reset || (!chip_ran_ && !(mac_chip_.drive() == PciDrive{}))) LoadMac(mac_chip_.drive());
  if (!in_reset_) CheckLines(t, "MAC", Lines(top_->mb_ad_o, top_->mb_cbe_n_o, top_->mb_high_o), mac_pins_);
}

void CardNode::DriveMac(const PciDrive& d) {
  top_->chip_ad_i = static_cast<std::remove_reference_t<decltype(top_->chip_ad_i)>>(d.ad);
  top_->chip_cbe_n_i = static_cast<uint8_t>(d.cbe_n & (sizeof top_->chip_ad_i == 8 ? 255 : 15));
  top_->chip_oe_i = d.oe;
  top_->chip_high_i = d.high;
  top_->chip_req_n_i = d.req_n;
}

void CardNode::LoadMac(const PciDrive& chip) {
  DriveMac(chip);
  top_->mb_load_i = 1;
  Evaluate();
  top_->mb_load_i = 0;
  Evaluate();
}

void CardNode::CheckLines(Time t, const char* bus, const PciPins& shown, const PciPins& want) {
  if (shown.ad == want.ad && shown.cbe_n == want.cbe_n && shown.high == want.high) return;
  char text[200];
  std::snprintf(text, sizeof text, "%s bus at %" PRId64 " ps: AD %" PRIx64 ", C/BE# %x, lines %x in the socket, %" PRIx64 ", %x, %x in the PCI model", bus, t,
                shown.ad, shown.cbe_n, shown.high, want.ad, want.cbe_n, want.high);
  s_.fabric->Fault(s_.index, text);
}

// Sends the MAC's frames over the cable.
void CardNode::TakeSent(Time t) {
  Dp83820::Sent s;
  while (mac_chip_.PopSent(&s)) {
    // Truncated frames are always lost, and all frames without a cable.
    if (s.cut || !s_.link.Connected()) continue;
    // The cable announces complete frames. So it cannot carry a frame with a bad FCS, nor one that
    // starts before its end is known.
    if (!HasGoodFcs(s.bytes)) {
      s_.fabric->Fault(s_.index, "MAC at " + std::to_string(t) + " ps: it sends " + std::to_string(s.bytes.size()) + " bytes without a good FCS");
      return;
    }
    if (s.start + mac_.period < t) {
      s_.fabric->Fault(s_.index, "MAC at " + std::to_string(t) + " ps: a frame began on the wire at " + std::to_string(s.start) +
                                     " ps, before it was complete in the FIFO (TXCFG.DRTH)");
      return;
    }
    s_.link.Transmit(s.start, s.bytes.data(), s.bytes.size() - kFcsBytes);
  }
}

void CardNode::TakeResults(Time t) {
  if (!enumerator_->done()) return;
  HostResult r;
  while (bridge_.PopResult(&r)) {
    if (!IsRead(r.kind)) continue;  // posted writes have no reply
    s_.fabric->ReadComplete(static_cast<int>(r.token), r.status == HostResult::kOk ? r.data : kMasterAbortData, t);
  }
}

void CardNode::TakeTrace() {
  if (options_.recorder == nullptr || !options_.recorder->Tracing()) return;
  uint32_t valid = top_->trace_valid_o;
  if (valid == 0) return;
  const Time at = system_.first + static_cast<Time>(top_->trace_time_o) * system_.period;
  for (int lane = 0; valid != 0; ++lane, valid >>= 1) {
    if ((valid & 1) == 0) continue;
    const auto byte = [lane](const auto& v) { return static_cast<uint8_t>(v[lane / 4] >> (lane % 4 * 8)); };
    const uint32_t sequence = top_->trace_seq_o[lane / 2] >> (lane % 2 * 16) & 0xffff;
    options_.recorder->Event(at, s_.index, byte(top_->trace_event_o), byte(top_->trace_vi_o), sequence);
  }
}

void CardNode::CheckModels(Time t) {
  if (bus_.violation_count() != 0) {
    s_.fabric->Fault(s_.index, "PCI bus at " + std::to_string(t) + " ps: " + bus_.violations().front());
  } else if (mac_bus_.violation_count() != 0) {
    s_.fabric->Fault(s_.index, "MAC bus at " + std::to_string(t) + " ps: " + mac_bus_.violations().front());
  } else if (!mac_chip_.misuse().empty()) {
    s_.fabric->Fault(s_.index, mac_chip_.misuse());
  }
}

void CardNode::HostWrite(Time t, int slot, uint32_t address, const uint32_t* data, int count) {
  next_known_ = false;
  now_ = std::max(now_, t);
  if (Unconfigured()) return;
  CatchUp(t);
  if (options_.recorder != nullptr && address >= kPciBar1Base && address - kPciBar1Base < (1u << kPciBar1Log2)) {
    // The offset in the page tells send doorbells from receive doorbells.
    options_.recorder->Event(t, s_.index, kTraceEventHostDoorbell, static_cast<uint8_t>((address - kPciBar1Base) / kDoorbellPageBytes),
                             (address - kPciBar1Base) % kDoorbellPageBytes);
  }
  if (address == kPciSpoilWrite) {
    spoil_write_ = static_cast<uint16_t>(data[0]);
    return;
  }
  if (address == kPciSpoilRead) {
    bridge_.SpoilRead(data[0]);
    return;
  }
  HostCommand c;
  c.bad_parity = std::exchange(spoil_write_, uint16_t{0});
  if (IsConfig(address)) {  // one dword at a time
    c.kind = HostCommand::kConfigWrite;
    for (int i = 0; i < count; ++i) {
      c.address = address - kPciConfigBase + 4 * static_cast<uint32_t>(i);
      c.data[0] = data[i];
      bridge_.Post(c);
    }
    return;
  }
  c.kind = HostCommand::kMemoryWrite;
  c.address = address;
  c.count = count;
  c.source = slot;
  std::copy(data, data + count, c.data);
  bridge_.Post(c);
}

void CardNode::HostRead(Time t, int slot, uint32_t address) {
  next_known_ = false;
  now_ = std::max(now_, t);
  if (Unconfigured()) {
    s_.fabric->ReadComplete(slot, kMasterAbortData, system_.AtOrAfter(t + 1));
    return;
  }
  CatchUp(t);
  HostCommand c;
  c.kind = IsConfig(address) ? HostCommand::kConfigRead : HostCommand::kMemoryRead;
  c.address = IsConfig(address) ? address - kPciConfigBase : address;
  c.token = static_cast<uint64_t>(slot);
  bridge_.Post(c);
}

bool CardNode::BusReset(Time t, Time span) {
  next_known_ = false;
  now_ = std::max(now_, t);
  CatchUp(t);
  reset_end_ = std::max(reset_end_, t + span);
  // The pin requires no clock: the card releases the bus at once.
  top_->rst_ni = 0;
  bridge_.Reset();
  const bool configured = enumerator_->done();  // else RST# also ends the enumerator's access
  HostResult r;
  while (bridge_.PopResult(&r)) {
    if (configured && IsRead(r.kind)) s_.fabric->ReadComplete(static_cast<int>(r.token), kMasterAbortData, system_.AtOrAfter(t + 1));
  }
  enumerator_ = std::make_unique<PciEnumerator>(&bridge_, PciEnumerator::DefaultPlan());
  bus_.Reset();
  pins_ = bus_.pins();
  LoadSystem();
  return true;
}

bool CardNode::InterruptLevel() const { return !top_->inta_n_o; }

void CardNode::Deliver(Frame frame) {
  AppendFcs(&frame.bytes);
  DeliverDamaged(std::move(frame));
}

// The MAC checks the FCS.
void CardNode::DeliverDamaged(Frame frame) {
  next_known_ = false;
  Dp83820::Arriving a;
  a.first_byte = frame.first_byte;
  a.bytes = std::move(frame.bytes);
  mac_chip_.Receive(std::move(a));
}

}  // namespace hvia::fabric
