// SPDX-License-Identifier: Apache-2.0

// Testbench of gec with the DP83820 model on its bus: frames in both directions between two clocks
// of any ratio, checked against queues of frames. Every frame that leaves must have come in,
// complete and in order. Every drop must have its reason. Every strobe and trace event is compared
// with a monitor on the pins. The bus checks the rules of PCI. Faults are injected between the chip
// and the bus: parity, addresses, statuses, a chip that stalls or is absent.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include "Vhvia_gec.h"
#include "sim/unit/internal/unit/testbench.h"
#include "sim/gen/hvia_layout.h"
#include "sim/gen/hvia_params.h"
#include "sim/model/dp83820.h"
#include "sim/model/mac_bus_pins.h"
#include "sim/model/pci_bus.h"

using unit::Fail;

namespace {

using Frame = std::vector<uint8_t>;
using Word = std::remove_reference_t<decltype(Vhvia_gec::tx_wdata_i)>;
constexpr unsigned kLanes = sizeof(Word);
constexpr int kBusBits = 8 * static_cast<int>(kLanes);
constexpr unsigned kSlotBytes = 2048;
constexpr int64_t kNever = hvia::Dp83820::kNever;
const uint64_t kSlotClocks = uint64_t{1} << hvia::kProfiles[0].TransmitSlotLog2;
constexpr uint64_t kEndLimit = 500'000;  // limit of the testbench's waits, in core clocks

struct Sent {
  Frame bytes;
  uint16_t seq;
};

struct TraceState {
  uint8_t vi;
  bool committed = false, early = false;
  int starts = 0, ends = 0;
};

struct Counts {
  uint64_t sent = 0, good = 0, bad = 0, jumbo = 0, overrun = 0;
  bool operator==(const Counts& o) const {
    return sent == o.sent && good == o.good && bad == o.bad && jumbo == o.jumbo && overrun == o.overrun;
  }
};

enum class Fault { kNone, kDataParity, kAddressParity, kNobody, kStatus, kStray, kFreeze };

// Use is a bus event as the trace should show it. A write of CR.RXE alone may be either.
struct Use {
  bool end;
  int use;
  int64_t at;
  bool kick_or_configuration;
};

class Testbench {
 public:
  explicit Testbench(uint64_t seed) : rng(seed), top(new Vhvia_gec), bus(kBusBits) {
    station = {0x02, 0x11, 0x22, 0x33, 0x44, 0x55};
  }

  void NewChip() {
    chip = std::make_unique<hvia::Dp83820>(timing, kBusBits);
  }

  // Both resets start together. They end some clocks apart, in either order.
  void Reset() {
    NewChip();
    top->rst_ni = top->mac_rst_ni = 0;
    top->enable_i = 0;
    SetStation();
    top->tx_wvalid_i = top->tx_wabort_i = top->rx_done_i = 0;
    tx_expect.clear();
    rx_expect.clear();
    trace.clear();
    seen = want = Counts{};
    resets_of_chip = errors = errors_before = rx_trace_starts = rx_first_words = rx_delivered = kicks_tx = kicks_rx = starved = enables = 0;
    tx_committed = tx_lost = rx_lost = dropped = 0;
    building_.clear();
    offered_ = reading_ = false;
    stall_ = 0;
    issued_ = issue_ = -1;
    fault = Fault::kNone;
    frozen_ = false;
    wire_next_ = 0;
    bus = hvia::PciBus(kBusBits);
    for (int i = 0; i < 8; i++) Step(false);
    monitor_busy_ = false;
    config_.clear();
    registers_.clear();
    uses_want.clear();
    uses_got.clear();
    (rng.Bits(1) ? top->rst_ni : top->mac_rst_ni) = 1;
    for (unsigned i = rng.Below(6); i > 0; i--) Step(false);
    top->rst_ni = top->mac_rst_ni = 1;
  }

  void Start() {
    WaitReady();
    top->enable_i = 1;
    Settle("enable");
    CheckSetup();
  }

  void WaitReady() {
    const uint64_t begin = unit::clocks();
    while (!top->mac_ready_o) {
      Step(false);
      if (unit::clocks() - begin > 20'000) Fail("the chip does not become ready");
    }
  }

  // Runs without new traffic until nothing moves.
  void Settle(const char* what) {
    const uint64_t begin = unit::clocks();
    for (int i = 0; i < 4; i++) Step(false);  // new inputs take effect
    while (!AtRest()) {
      Step(false);
      if (unit::clocks() - begin > 20'000) {
        Fail("no rest after %s: core quiet %d, MAC quiet %d, chip quiet %d", what, top->quiet_o, top->mac_quiet_o, chip->quiet());
      }
    }
    // The quiet output does not fall without new inputs.
    for (int i = 0; i < 40; i++) {
      Step(false);
      if (!AtRest()) Fail("not at rest any more after %s", what);
    }
  }

  bool AtRest() const { return top->quiet_o && top->mac_quiet_o && chip->quiet() && !top->rx_valid_o && !reading_; }

  void SetStation() {
    uint64_t mac = 0;
    for (unsigned i = 0; i < 6; i++) mac |= uint64_t{station[i]} << (8 * i);
    top->mac_i = mac;
  }

  // Advances to the next edge of either clock.
  void Step(bool traffic) {
    now = std::min(next_core, next_mac);
    const bool core = next_core == now, mac = next_mac == now;
    if (core) DriveCore(traffic);
    top->eval();
    if (core) {
      SampleCore();
      CountCore();
      top->clk_i = 1;
      unit::clocks()++;
      top->timebase_i = top->timebase_i + 1;
    }
    if (mac) top->mac_clk_i = 1;
    top->eval();
    top->clk_i = top->mac_clk_i = 0;
    top->eval();
    if (mac) MacEdge(traffic);
    if (core) next_core += core_period;
    if (mac) next_mac += mac_period;
  }

  // Knobs of one round.
  int64_t core_period = 30'000, mac_period = 30'000;
  hvia::Dp83820Timing timing;
  unsigned tx_idle = 0, rx_idle = 0, read_idle = 0, abort_rate = 0;
  bool read_stall = false, known_length = true, full_frames = false, nice = false;
  bool lossy = false;    // faults or transmit resets: frames may be lost or sent twice
  uint64_t tx_left = 0, rx_left = 0;
  bool chip_there = true;
  Fault fault = Fault::kNone;
  std::array<uint8_t, 6> station;

  void Round() {
    const uint64_t begin = unit::clocks();
    while (tx_left > 0 || rx_left > 0 || !building_.empty() || reading_ || top->rx_valid_o || !AtRest() || chip->NextEvent() != kNever) {
      Step(true);
      if (unit::clocks() - begin > kEndLimit) {
        Fail("a round does not end: %" PRIu64 " to send, %" PRIu64 " to receive, %zu expected on the wire, reading %d, valid %d, core quiet %d, "
             "MAC quiet %d, chip quiet %d",
             tx_left, rx_left, tx_expect.size(), reading_, top->rx_valid_o, top->quiet_o, top->mac_quiet_o, chip->quiet());
      }
    }
    Settle("a round");
    CheckRound();
  }

  void CheckRound() {
    if (bus.violation_count() != 0) Fail("%" PRIu64 " broken bus rules: %s", bus.violation_count(), bus.violations()[0].c_str());
    if (!chip->misuse().empty()) Fail("%s", chip->misuse().c_str());
    if (!(seen == want)) {
      Fail("counted %" PRIu64 " sent, %" PRIu64 " good, %" PRIu64 " bad, %" PRIu64 " long, %" PRIu64 " overrun; the statuses on the bus say %" PRIu64
           ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64,
           seen.sent, seen.good, seen.bad, seen.jumbo, seen.overrun, want.sent, want.good, want.bad, want.jumbo, want.overrun);
    }
    if (seen.sent + dropped != tx_committed) Fail("%" PRIu64 " frames committed, %" PRIu64 " sent, %" PRIu64 " dropped", tx_committed, seen.sent, dropped);
    if (rx_delivered != seen.good) Fail("%" PRIu64 " good frames, %" PRIu64 " delivered", seen.good, rx_delivered);
    const auto& s = chip->statistics();
    if (!lossy) {
      if (errors != 0) Fail("%" PRIu64 " bus errors without a fault", errors);
      if (!tx_expect.empty() || tx_lost != 0) Fail("%zu frames were not sent, %" PRIu64 " lost before others", tx_expect.size(), tx_lost);
      if (rx_lost + rx_expect.size() > s.overrun) Fail("%zu good frames lost for %" PRIu64 " overruns", rx_lost + rx_expect.size(), s.overrun);
      if (rx_trace_starts != rx_first_words) {
        Fail("%" PRIu64 " receive starts traced, %" PRIu64 " frames started on the bus", rx_trace_starts, rx_first_words);
      }
      if (s.received != seen.good) Fail("the chip has delivered %" PRIu64 " frames, counted %" PRIu64, s.received, seen.good);
    } else if (tx_lost + tx_expect.size() > s.transmit_dropped + dropped) {
      Fail("%zu frames lost, but the chip has dropped %" PRIu64 " and the card %" PRIu64, tx_lost + tx_expect.size(), s.transmit_dropped, dropped);
    }
    uint64_t unread = 0;
    for (const auto& [seq, t] : trace) {
      const int ends = t.committed ? 1 : 0;
      if (t.committed && t.ends == 0 && t.starts <= 1 && ++unread <= dropped) continue;
      if (t.ends != ends || (t.committed ? t.starts != 1 : t.starts > 1)) {
        Fail("transmit trace of frame %u (%s): %d starts, %d ends", seq, t.committed ? "sent" : "aborted", t.starts, t.ends);
      }
    }
    CheckUses();
    if (kicks_tx > tx_committed + aborted + errors + errors_before + dropped) Fail("%" PRIu64 " transmit kicks for %" PRIu64 " frames", kicks_tx, tx_committed);
  }

  // The trace must hold every transaction of the bus in order, with equal delays of start and end.
  void CheckUses() {
    if (kicks_rx > starved + enables) Fail("%" PRIu64 " receive kicks; %" PRIu64 " times no free buffer, %" PRIu64 " enables", kicks_rx, starved, enables);
    if (uses_want.size() != uses_got.size()) Fail("%zu events on the MAC bus, %zu traced", uses_want.size(), uses_got.size());
    for (size_t i = 0; i < uses_want.size(); i++) {
      const Use &w = uses_want[i], &g = uses_got[i];
      const bool use = w.kick_or_configuration ? g.use == hvia::kMacBusUseKick || g.use == hvia::kMacBusUseConfiguration : g.use == w.use;
      if (w.end != g.end || !use) Fail("MAC bus event %zu: %s of use %d traced as %s of %d", i, w.end ? "end" : "start", w.use, g.end ? "end" : "start", g.use);
      const int64_t late = g.at - w.at;
      // After the monitor's clock: one MAC clock to notice, one to push, then the crossing.
      if (late < mac_period || late > 3 * mac_period + 4 * core_period + (core_period > 3 * mac_period / 2 ? 16 * core_period : 0)) {
        Fail("MAC bus event %zu traced %" PRId64 " ps late", i, late);
      }
    }
    uses_want.clear();
    uses_got.clear();
  }

  // Injects one fault during traffic and waits until the card has recovered.
  void InjectFault(Fault f) {
    const uint64_t before = errors;
    fault = f;
    const uint64_t begin = unit::clocks();
    while (errors == before) {
      tx_left = std::max<uint64_t>(tx_left, 4);
      rx_left = std::max<uint64_t>(rx_left, 4);
      Step(true);
      if (unit::clocks() - begin > 400'000) Fail("fault %d was not noticed (still armed: %d)", static_cast<int>(f), fault != Fault::kNone);
    }
    fault = Fault::kNone;
    for (int i = 0; i < 2000; i++) Step(true);
    WaitReady();
    if (errors != before + 1) Fail("fault %d was counted %" PRIu64 " times", static_cast<int>(f), errors - before);
  }

  // Sends frames to a chip that does not take them. Each wait for a slot ends. The frames in the
  // slots are dropped and counted. Only frames that the chip held may be lost besides.
  void SendUndelivered(uint64_t frames) {
    const uint64_t begin = unit::clocks();
    tx_left = frames;
    while (tx_left > 0 || !building_.empty() || seen.sent + dropped < tx_committed) {
      Step(true);
      const bool out = seen.sent + dropped < tx_committed;
      if (out && top->next_deadline_o > top->timebase_i + kSlotClocks) Fail("a slot without a deadline: %" PRIu64 " at %" PRIu64, uint64_t{top->next_deadline_o}, uint64_t{top->timebase_i});
      if (unit::clocks() - begin > (frames + 2) * kSlotClocks) {
        Fail("the MAC and the engine block each other: %" PRIu64 " committed, %" PRIu64 " sent, %" PRIu64 " dropped", tx_committed, seen.sent, dropped);
      }
    }
  }

  void Link(bool up) {
    chip->SetLink(up, now);
    top->phy_link_n_i = !up;
    for (int i = 0; i < 20; i++) Step(false);
    if (top->link_down_o == up) Fail("the link is %s, and the card says otherwise", up ? "up" : "down");
  }

  // The link goes down and comes up again.
  void Outage() {
    lossy = full_frames = nice = true;
    const uint64_t had = dropped;
    Link(false);
    SendUndelivered(24);
    if (dropped == had) Fail("24 full frames without a link, and none was dropped");
    // When the chip is full, the last single frame stays alone in the slots.
    for (const uint64_t pairs = dropped; dropped == pairs;) SendUndelivered(1);
    Link(true);
    Drain();
    // No frame is lost after this.
    tx_lost += tx_expect.size();
    tx_expect.clear();
    const uint64_t lost = tx_lost, drops = dropped;
    abort_rate = 0;
    tx_left = rx_left = 6;
    Round();
    if (tx_lost != lost || !tx_expect.empty() || dropped != drops) Fail("frames are lost after an outage");
    full_frames = nice = false;
  }

  // Sends and reads what remains after the faults. Both counts of statuses restart, because only
  // the monitor counted rejected ones. Each frame still ended once.
  void FinishFaults() {
    tx_left = rx_left = 0;
    Drain();
    if (seen.sent + dropped != tx_committed) Fail("%" PRIu64 " frames committed, %" PRIu64 " sent, after faults", tx_committed, seen.sent);
    if (seen.good != rx_delivered) Fail("%" PRIu64 " good frames, %" PRIu64 " delivered, after faults", seen.good, rx_delivered);
    want = seen;
    CheckRound();
    errors_before += errors;
    errors = 0;
  }

  void Drain() {
    const uint64_t begin = unit::clocks();
    while (!building_.empty() || reading_ || top->rx_valid_o || !AtRest() || chip->NextEvent() != kNever) {
      Step(true);
      if (unit::clocks() - begin > kEndLimit) Fail("no end after the faults");
    }
    Settle("faults");
  }

  unit::Rng rng;
  std::unique_ptr<Vhvia_gec> top;
  std::unique_ptr<hvia::Dp83820> chip;
  hvia::PciBus bus;
  std::deque<Sent> tx_expect;
  std::deque<Frame> rx_expect;
  std::map<uint16_t, TraceState> trace;
  std::vector<Use> uses_want, uses_got;
  Counts seen, want;
  uint64_t errors = 0, errors_before = 0, rx_trace_starts = 0, rx_first_words = 0, rx_delivered = 0, kicks_tx = 0, kicks_rx = 0, starved = 0, enables = 0;
  uint64_t tx_committed = 0, tx_lost = 0, rx_lost = 0, dropped = 0;
  uint64_t aborted = 0, early_reads = 0, early_offers = 0, bad_ends = 0, foreign = 0, resets_of_chip = 0, duplicates = 0, aborted_early = 0;
  int64_t now = 0;
  uint64_t mac_clocks = 0;
  std::vector<uint64_t> status_clocks_tx, status_clocks_rx;

 private:
  Frame RandomBytes(unsigned n) {
    Frame f(n);
    for (auto& b : f) b = static_cast<uint8_t>(rng.Next());
    return f;
  }
  unsigned RandomLength(unsigned lo) {
    static const unsigned corner[] = {1, 2, 3, 4, 59, 60, 61, 63, 64, 65, 68, 127, 128, 129, 511, 512, 513, 1513, 1514};
    if (full_frames) return hvia::kMaxFrame;
    if (rng.Chance(1, 4)) return std::max(lo, corner[rng.Below(sizeof corner / sizeof corner[0])]);
    return static_cast<unsigned>(rng.Range(lo, rng.Bits(1) ? 100 : hvia::kMaxFrame));
  }

  // Core clock: the transmit engine writes, the receive engine reads.
  void DriveCore(bool traffic) {
    top->tx_wabort_i = 0;
    if (!offered_) {
      if (building_.empty() && traffic && tx_left > 0 && top->tx_slot_ready_o && !rng.Chance(tx_idle, 8)) {
        building_ = RandomBytes(RandomLength(1));
        at_ = 0;
        vi_ = rng.Bits(8);
        length_ = !top->cut_tx_i ? rng.Bits(11) : known_length && !rng.Chance(1, 8) ? building_.size() : 0;
        seq_++;
        trace[seq_] = TraceState{vi_};
      }
      // An engine that waits for the bus stalls during a frame.
      if (stall_ > 0) stall_--;
      else if (top->cut_tx_i && rng.Chance(1, 80)) stall_ = static_cast<unsigned>(rng.Range(20, 250));
      if (!building_.empty() && stall_ == 0 && !rng.Chance(tx_idle, 8)) offered_ = true;
    }
    if (!building_.empty() && abort_rate != 0 && rng.Chance(1, abort_rate)) top->tx_wabort_i = 1;
    top->tx_wvalid_i = offered_;
    Word word = static_cast<Word>(rng.Next());
    if (offered_) {
      const size_t n = std::min<size_t>(kLanes, building_.size() - at_);
      for (size_t i = 0; i < n; i++) {
        word = static_cast<Word>((word & ~(Word{0xff} << (8 * i))) | Word{building_[at_ + i]} << (8 * i));
      }
      top->tx_wbytes_i = static_cast<uint8_t>(n);
      top->tx_wlast_i = at_ + n == building_.size();
      top->tx_wvi_i = vi_;
      top->tx_wseq_i = seq_;
      top->tx_wlen_i = static_cast<uint16_t>(length_);
    } else {
      top->tx_wlast_i = rng.Bits(1);
      top->tx_wbytes_i = static_cast<uint8_t>(rng.Below(kLanes + 1));
      top->tx_wvi_i = rng.Bits(8);
      top->tx_wseq_i = rng.Bits(16);
      top->tx_wlen_i = rng.Bits(11);
    }
    top->tx_wdata_i = word;

    top->rx_done_i = reading_ && finished_;
    issue_ = -1;
    top->rx_raddr_i = 0;
    if (reading_ && !finished_ && !rng.Chance(read_idle, 8)) {
      const bool there = top->rx_end_o ? read_at_ * kLanes < top->rx_len_o : (read_at_ + 1) * kLanes <= top->rx_avail_o;
      if (there) issue_ = static_cast<int>(read_at_++);
      if (there) top->rx_raddr_i = static_cast<uint16_t>(issue_);
    }
  }

  void SampleCore() {
    if (!top->rst_ni || !top->mac_rst_ni) return;
    if (top->tx_wabort_i) {
      if (trace[seq_].starts != 0) aborted_early++;
      building_.clear();
      offered_ = false;
      aborted++;
    } else if (offered_ && top->tx_wready_o) {
      at_ += kLanes;
      offered_ = false;
      if (top->tx_wlast_i) {
        if (trace[seq_].starts != 0) early_reads++;
        trace[seq_].committed = true;
        if (tx_left > 0) tx_left--;
        tx_committed++;
        tx_expect.push_back({building_, seq_});
        building_.clear();
      }
    }
    if (reading_ && !top->rx_valid_o) Fail("a frame vanished while it was read");
    if (!top->cut_rx_i && top->rx_valid_o && (!top->rx_end_o || top->rx_bad_o || top->rx_avail_o != top->rx_len_o)) {
      Fail("a frame was offered before it was complete and good");
    }
    if (issued_ >= 0) {
      for (unsigned i = 0; i < kLanes; i++) got_.push_back(static_cast<uint8_t>(top->rx_rdata_o >> (8 * i)));
    }
    issued_ = issue_;
    if (top->rx_done_i) {
      reading_ = false;
    } else if (reading_ && !finished_ && top->rx_end_o) {
      if (top->rx_bad_o) {
        bad_ends++;
        finished_ = true;
      } else if (got_.size() >= top->rx_len_o) {
        if (got_.size() >= top->rx_len_o + kLanes) Fail("%zu bytes were there to be read of a frame of %u", got_.size(), top->rx_len_o);
        got_.resize(top->rx_len_o);
        Deliver();
        finished_ = true;
      }
    } else if (!reading_ && top->rx_valid_o && !read_stall) {
      reading_ = true;
      finished_ = false;
      read_at_ = 0;
      issued_ = -1;
      got_.clear();
      if (!top->rx_end_o) early_offers++;
    }
  }

  void Deliver() {
    size_t skipped = 0;
    while (!rx_expect.empty() && rx_expect.front() != got_) {
      rx_expect.pop_front();
      skipped++;
    }
    if (rx_expect.empty()) Fail("a received frame of %zu bytes that was not sent, or out of order (%zu skipped)", got_.size(), skipped);
    rx_expect.pop_front();
    rx_lost += skipped;
    rx_delivered++;
  }

  void CountCore() {
    if (!top->rst_ni || !top->mac_rst_ni) return;
    seen.sent += top->stat_mac_transmit_frame_o;
    seen.good += top->stat_mac_receive_frame_o;
    seen.bad += top->stat_mac_receive_bad_o;
    seen.jumbo += top->stat_mac_receive_long_o;
    seen.overrun += top->stat_mac_receive_overrun_o;
    errors += top->stat_mac_bus_error_o;
    dropped += top->stat_mac_transmit_dropped_o;
    if (top->trace_tx_valid_o) {
      const bool end = top->trace_tx_event_o == hvia::kTraceEventMacTransmitEnd;
      if (!end && top->trace_tx_event_o != hvia::kTraceEventMacTransmitStart) Fail("transmit trace event %u", top->trace_tx_event_o);
      auto it = trace.find(top->trace_tx_seq_o);
      if (it == trace.end()) Fail("transmit trace of sequence %u, which was not sent", top->trace_tx_seq_o);
      if (it->second.vi != top->trace_tx_vi_o) Fail("transmit trace of VI %u, want %u", top->trace_tx_vi_o, it->second.vi);
      (end ? it->second.ends : it->second.starts)++;
      if (end && it->second.starts == 0) Fail("transmit trace: the end of frame %u before its start", top->trace_tx_seq_o);
    }
    if (top->trace_rx_valid_o) {
      const bool end = top->trace_rx_event_o == hvia::kTraceEventMacReceiveEnd;
      if (!end && top->trace_rx_event_o != hvia::kTraceEventMacReceiveStart) Fail("receive trace event %u", top->trace_rx_event_o);
      if (end != static_cast<bool>(top->stat_mac_receive_frame_o)) Fail("receive trace: end without a good frame");
      rx_trace_starts += !end;
    } else if (top->stat_mac_receive_frame_o) {
      Fail("a good frame without its trace event");
    }
    if (top->trace_bus_valid_o) {
      const bool end = top->trace_bus_event_o == hvia::kTraceEventMacBusEnd;
      if (!end && top->trace_bus_event_o != hvia::kTraceEventMacBusStart) Fail("bus trace event %u", top->trace_bus_event_o);
      uses_got.push_back({end, top->trace_bus_seq_o, now, false});
    }
  }

  // MAC clock: the chip samples the pins of the clock that ended, and drives the next one.
  void MacEdge(bool traffic) {
    mac_clocks++;
    const bool in_reset = !top->mb_rst_no;
    if (in_reset) {
      if (!was_reset_) resets_of_chip++;
      chip->Reset(now);
      if (frozen_) bus = hvia::PciBus(kBusBits);  // the fault broke rules on purpose
      bus.Reset();
      frozen_ = false;
    } else if (!frozen_) {
      chip->Tick(pins_, now);
    }
    was_reset_ = in_reset;
    TakeSent();
    if (traffic) Announce();
    hvia::PciDrive d = chip->drive();
    if (!chip_there) {
      d = hvia::PciDrive{};
    } else {
      Tamper(&d);
    }
    const hvia::PciPins was = pins_;
    pins_ = bus.Clock(d, hvia::MacBusDrive(*top), top->mb_gnt_n_o, top->mb_idsel_o);
    hvia::MacBusSample(pins_, top.get());
    Monitor(was, d);
  }

  // Faults lie between the chip and the bus. PAR follows, because the chip computes it from the
  // pins.
  void Tamper(hvia::PciDrive* d) {
    const bool address = (d->oe & hvia::kPciFrame) && !(d->high & hvia::kPciFrame) && pins_.frame_n() && pins_.idle();
    if (address) {
      phase_ = 0;
      write_ = d->cbe_n & 1;
      target_ = static_cast<uint32_t>(d->ad);
      if (fault != Fault::kNone && rng.Chance(1, 3)) armed_ = true;
    } else {
      phase_++;
    }
    if (!armed_) return;
    if (fault == Fault::kNone) armed_ = false;
    const bool frame_write = write_ && target_ >= hvia::kMacReceiveBuffer;
    switch (fault) {
      case Fault::kDataParity:
        if (!write_) armed_ = false;
        if (armed_ && (d->oe & hvia::kPciPar) && phase_ >= 2 && !pins_.idle()) {
          d->Set(hvia::kPciPar, !(d->high & hvia::kPciPar));
          d->bad_par = true;
          tampered_ = true;
        }
        if (tampered_ && pins_.idle()) Disarm();
        break;
      case Fault::kAddressParity:
        if (phase_ == 1) {
          d->Set(hvia::kPciPar, !(d->high & hvia::kPciPar));
          d->bad_par = true;
          Disarm();
        }
        break;
      case Fault::kNobody:
        if (address) {
          d->ad ^= hvia::kMacMemoryBytes * 4;
          Disarm();
        }
        break;
      case Fault::kStatus:
        // The status stays on AD until it has moved.
        if (!write_ || frame_write) {
          armed_ = false;
        } else if (phase_ >= 2 && !pins_.irdy_n() && !pins_.trdy_n()) {
          Disarm();
        } else if (phase_ >= 1) {
          d->ad ^= uint64_t{hvia::kMacDescriptorCommandStatusOwnMask};
        }
        break;
      case Fault::kStray:
        if (address && frame_write) {
          d->ad ^= hvia::kMacReceiveBuffer ^ hvia::kMacTransmitBuffer;
          Disarm();
        } else {
          armed_ = false;
        }
        break;
      case Fault::kFreeze:
        if (phase_ >= 1 && !frozen_) {
          frozen_ = true;
          Disarm();
        }
        break;
      default:
        armed_ = false;
    }
  }
  void Disarm() {
    fault = Fault::kNone;
    armed_ = tampered_ = false;
  }

  // Checks the frames that the chip sends.
  void TakeSent() {
    hvia::Dp83820::Sent s;
    while (chip->PopSent(&s)) {
      if (s.cut) continue;
      if (s.bytes.size() < 4) Fail("%zu bytes on the wire", s.bytes.size());
      const uint32_t fcs = hvia::EthernetFcs(s.bytes.data(), s.bytes.size() - 4);
      for (unsigned i = 0; i < 4; i++) {
        if (s.bytes[s.bytes.size() - 4 + i] != static_cast<uint8_t>(fcs >> (8 * i))) Fail("a frame with a wrong FCS on the wire");
      }
      s.bytes.resize(s.bytes.size() - 4);
      if (lossy && s.bytes == last_sent_) {
        duplicates++;
        continue;
      }
      size_t skipped = 0;
      for (;; skipped++) {
        if (tx_expect.empty()) Fail("a frame of %zu bytes on the wire that is unknown, out of order or changed (%zu skipped)", s.bytes.size(), skipped);
        Frame f = tx_expect.front().bytes;
        if (f.size() < hvia::kMinFrame) f.resize(hvia::kMinFrame, 0);
        tx_expect.pop_front();
        if (f == s.bytes) break;
      }
      tx_lost += skipped;
      last_sent_ = s.bytes;
    }
  }

  // The next frame of the wire.
  void Announce() {
    if (rx_left == 0 || now < wire_next_ || rng.Chance(rx_idle, 256)) return;
    rx_left--;
    Frame f = RandomBytes(RandomLength(60));
    bool good = true, ours = true;
    if (!nice) {
      switch (rng.Below(16)) {
        case 0: good = false; break;                                                    // wrong FCS
        case 1: f.resize(rng.Range(8, 59)), good = false; break;                        // runt
        case 2: f.resize(rng.Range(1515, 1530)), good = false; break;                   // long
        case 3: f.resize(rng.Range(1515, 5000)), good = false; break;
        case 4: ours = false; break;
        default: break;
      }
    }
    if (ours) {
      if (rng.Chance(1, 4)) f[0] |= 1;  // multicast
      else if (rng.Chance(1, 8)) std::fill(f.begin(), f.begin() + 6, 0xff);
      else std::copy(station.begin(), station.end(), f.begin());
    } else {
      std::copy(station.begin(), station.end(), f.begin());
      f[rng.Below(6)] ^= static_cast<uint8_t>(2u << rng.Below(6));
      f[0] &= 0xfe;
      foreign++;
    }
    Frame bytes = f;
    const bool wrong = !good && f.size() >= 60 && f.size() <= hvia::kMaxFrame;
    const uint32_t fcs = hvia::EthernetFcs(f.data(), f.size()) ^ (wrong ? 1u << rng.Below(32) : 0);
    for (unsigned i = 0; i < 4; i++) bytes.push_back(static_cast<uint8_t>(fcs >> (8 * i)));
    hvia::Dp83820::Arriving a;
    a.first_byte = now + timing.preamble_bytes * timing.byte_time;
    wire_next_ = a.first_byte + static_cast<int64_t>(bytes.size() + timing.gap_bytes) * timing.byte_time;
    a.bytes = std::move(bytes);
    chip->Receive(std::move(a));
    if (good && ours && top->enable_i) rx_expect.push_back(f);
  }

  // Monitors the bus independently of card and chip.
  void Monitor(const hvia::PciPins& was, const hvia::PciDrive& d) {
    if (was.frame_n() && !pins_.frame_n()) {
      monitor_busy_ = true;
      monitor_chip_ = d.oe & hvia::kPciFrame;
      monitor_write_ = pins_.cbe_n & 1;
      monitor_address_ = static_cast<uint32_t>(pins_.ad);
      int use = hvia::kMacBusUseConfiguration;
      if (monitor_chip_) {
        const bool ring = monitor_address_ < hvia::kMacTransmitBuffer;
        use = monitor_write_ ? (ring ? hvia::kMacBusUseStatusWrite : hvia::kMacBusUseFrameWrite)
                             : (ring ? hvia::kMacBusUseDescriptorRead : hvia::kMacBusUseFrameRead);
      }
      uses_want.push_back({false, use, now, false});
      return;
    }
    if (monitor_busy_ && !pins_.irdy_n() && !pins_.trdy_n() && !pins_.devsel_n()) {
      const bool wide = kLanes == 8 && !pins_.ack64_n();
      Moved(static_cast<uint32_t>(pins_.ad));
      monitor_address_ += wide ? 8 : 4;
    }
    if (monitor_busy_ && pins_.idle()) {
      monitor_busy_ = false;
      Use u = uses_want.back();
      u.end = true;
      u.at = now;
      uses_want.push_back(u);
    }
  }

  // Compares the card's writes to the chip with the expected setup.
  void CheckSetup() {
    const auto config = [this](uint32_t offset) { return config_[offset]; };
    const auto reg = [this](uint32_t offset) { return registers_[offset]; };
    const auto field = [](uint32_t value, unsigned lsb) { return value << lsb; };
    const uint32_t burst = top->short_bursts_i ? hvia::kMacMaxDmaBytes64 : hvia::kMacMaxDmaBytes512;
    const struct {
      const char* name;
      uint32_t got, want;
    } checks[] = {
        {"BAR 1", config(hvia::kPciConfigBar1Offset), hvia::kMacRegisterBase},
        {"command", config(hvia::kPciConfigCommandOffset), hvia::kPciConfigCommandMemoryEnableMask | hvia::kPciConfigCommandMasterEnableMask},
        {"latency timer", config(hvia::kPciConfigHeaderOffset), field(255, hvia::kPciConfigHeaderLatencyTimerLsb)},
        {"CFG", reg(hvia::kMacCFGOffset), hvia::kMacCFGEXTSTSMask | hvia::kMacCFGMODE1000Mask | (kLanes == 8 ? hvia::kMacCFGDATA64Mask : 0)},
        {"IMR", reg(hvia::kMacIMROffset), 0},
        {"TXCFG", reg(hvia::kMacTXCFGOffset), field(burst, hvia::kMacTXCFGMXDMALsb) | field(512 / 32, hvia::kMacTXCFGFLTHLsb)},
        {"RXCFG", reg(hvia::kMacRXCFGOffset), field(burst, hvia::kMacRXCFGMXDMALsb) | field(31, hvia::kMacRXCFGDRTHLsb)},
        {"TXDP", reg(hvia::kMacTXDPOffset), hvia::kMacTransmitRing},
        {"RXDP", reg(hvia::kMacRXDPOffset), hvia::kMacReceiveRing},
        {"RFCR", reg(hvia::kMacRFCROffset),
         hvia::kMacRFCREnableMask | hvia::kMacRFCRAPMMask | hvia::kMacRFCRAAMMask | hvia::kMacRFCRAABMask},
    };
    if (registers_.count(hvia::kMacIMROffset) == 0) Fail("IMR was not written");
    for (const auto& c : checks) {
      if (c.got != c.want) Fail("%s of the chip is %08x, want %08x", c.name, c.got, c.want);
    }
  }

  void Moved(uint32_t data) {
    if (!monitor_chip_ && monitor_write_) {
      if (monitor_address_ == hvia::kMacRegisterBase + hvia::kMacRFCROffset && (data & hvia::kMacRFCREnableMask)) enables++;
      if (monitor_address_ < hvia::kMacRegisterBase) config_[monitor_address_] = data;
      else registers_[monitor_address_ - hvia::kMacRegisterBase] = data;
    }
    if (!monitor_chip_) {
      if (monitor_write_ && monitor_address_ == hvia::kMacRegisterBase + hvia::kMacCROffset) {
        Use& u = uses_want.back();
        if (data & hvia::kMacCRTXEMask) kicks_tx++;
        if (data & hvia::kMacCRRXEMask) kicks_rx++;
        if (data & hvia::kMacCRTXEMask) u.use = hvia::kMacBusUseKick;
        else if (data == hvia::kMacCRRXEMask) u.kick_or_configuration = true;
      }
      return;
    }
    if (!monitor_write_) {
      const bool own = monitor_address_ % hvia::kMacDescriptorStride == hvia::kMacDescriptorCommandStatusOffset &&
                       (data & hvia::kMacDescriptorCommandStatusOwnMask);
      if (own && monitor_address_ >= hvia::kMacReceiveRing && monitor_address_ < hvia::kMacTransmitBuffer) starved++;
      return;
    }
    if (monitor_address_ >= hvia::kMacReceiveBuffer) {
      if (monitor_address_ % kSlotBytes == 0) rx_first_words++;
      return;
    }
    if (monitor_address_ % hvia::kMacDescriptorStride != hvia::kMacDescriptorCommandStatusOffset) return;
    if (monitor_address_ < hvia::kMacReceiveRing) {
      if (data & hvia::kMacDescriptorCommandStatusOwnMask) return;
      want.sent++;
      status_clocks_tx.push_back(mac_clocks);
      return;
    }
    if (!(data & hvia::kMacDescriptorCommandStatusOwnMask)) return;
    status_clocks_rx.push_back(mac_clocks);
    const uint32_t size = data & hvia::kMacDescriptorCommandStatusSizeMask;
    if (data & hvia::kMacDescriptorCommandStatusOverrunMask) want.overrun++;
    const uint32_t errors_mask = hvia::kMacDescriptorCommandStatusFcsErrorMask | hvia::kMacDescriptorCommandStatusSymbolErrorMask |
                                 hvia::kMacDescriptorCommandStatusRuntMask | hvia::kMacDescriptorCommandStatusFrameAlignmentMask;
    if ((data & errors_mask) || size < hvia::kMinFrame + 4) want.bad++;
    else if ((data & hvia::kMacDescriptorCommandStatusTooLongMask) || size > hvia::kMaxFrame + 4) want.jumbo++;
    else if (data & hvia::kMacDescriptorCommandStatusOKMask) want.good++;
    else if (!(data & hvia::kMacDescriptorCommandStatusOverrunMask)) want.bad++;
  }

  int64_t next_core = 0, next_mac = 7'000;
  hvia::PciPins pins_;
  bool was_reset_ = false;
  // Transmit engine
  Frame building_;
  size_t at_ = 0, length_ = 0;
  uint8_t vi_ = 0;
  uint16_t seq_ = 0;
  bool offered_ = false;
  unsigned stall_ = 0;
  Frame last_sent_;
  // Receive engine
  bool reading_ = false, finished_ = false;
  unsigned read_at_ = 0;
  int issued_ = -1, issue_ = -1;
  Frame got_;
  int64_t wire_next_ = 0;
  // Faults
  bool armed_ = false, tampered_ = false, frozen_ = false, write_ = false;
  int phase_ = 0;
  uint32_t target_ = 0;
  // Monitor
  bool monitor_busy_ = false, monitor_chip_ = false, monitor_write_ = false;
  uint32_t monitor_address_ = 0;
  std::map<uint32_t, uint32_t> config_, registers_;

 public:
  void DropTransmit() {
    building_.clear();
    offered_ = false;
  }
};

// MAC bus clocks from status to status, times 100, in the middle of a run of full frames.
uint64_t Period(const std::vector<uint64_t>& at) {
  // After the first third the chip's FIFO is full, or empty.
  if (at.size() < 30) Fail("only %zu frames in the measurement", at.size());
  const size_t first = at.size() / 3, last = at.size() - 4;
  return (at[last] - at[first]) * 100 / (last - first);
}

// Full frames at both clocks of the profile, with the real speed of the wire and the chip's wait
// states.
void Measure(Testbench* b) {
  const auto& params = hvia::kProfiles[0];
  constexpr uint64_t kFrames = 60;
  uint64_t result[4] = {};
  uint64_t busy[4] = {};
  for (int way = 0; way < 4; way++) {
    b->top->single_tx_slot_i = b->top->single_rx_slot_i = b->top->cut_tx_i = b->top->cut_rx_i = b->top->short_bursts_i = 0;
    b->core_period = b->mac_period = 30'000;
    b->timing = hvia::Dp83820TimingOf(params);
    if (way == 3) b->timing.byte_time = 100;  // a wire without cost: measures the bus only
    b->Reset();
    b->Start();
    b->nice = b->full_frames = true;
    b->lossy = false;
    b->tx_idle = b->rx_idle = b->read_idle = b->abort_rate = 0;
    b->status_clocks_tx.clear();
    b->status_clocks_rx.clear();
    const uint64_t before = b->bus.statistics().busy_clocks;
    b->tx_left = way == 1 ? 0 : kFrames;
    b->rx_left = way == 1 || way == 2 ? kFrames : 0;
    b->Round();
    busy[way] = (b->bus.statistics().busy_clocks - before) * 100 / kFrames;
    result[way] = Period(way == 1 ? b->status_clocks_rx : b->status_clocks_tx);
    if (way == 2) std::printf("both_rx_clocks_x100 %" PRIu64 "\n", Period(b->status_clocks_rx));
  }
  std::printf("tx_clocks_x100 %" PRIu64 "\nrx_clocks_x100 %" PRIu64 "\nboth_tx_clocks_x100 %" PRIu64 "\ntx_bus_only_clocks_x100 %" PRIu64 "\n", result[0],
              result[1], result[2], result[3]);
  std::printf("tx_busy_x100 %" PRIu64 "\nrx_busy_x100 %" PRIu64 "\n", busy[0], busy[1]);
  b->nice = b->full_frames = false;
}

}  // namespace

int main(int argc, char** argv) {
  unit::Start(argc, argv, 0);
  Testbench b(unit::options().seed);
  auto& rng = b.rng;
  const uint64_t rounds = unit::options().size;
  uint64_t frames = 0, good = 0, overruns = 0, faults = 0, disconnects = 0, dropped = 0;
  for (uint64_t round = 0; round < rounds; round++) {
    const bool single_tx = round % 8 == 1, single_rx = round % 8 == 2, cut_tx = round % 4 == 3, cut_rx = round % 8 >= 5;
    b.top->single_tx_slot_i = single_tx;
    b.top->single_rx_slot_i = single_rx;
    b.top->cut_tx_i = cut_tx;
    b.top->cut_rx_i = cut_rx;
    b.top->short_bursts_i = round % 3 == 1;
    // Equal, slower and faster clocks. The wire runs at its speed, slower, or so fast that the FIFO
    // overruns.
    b.core_period = round % 3 == 0 ? 30'000 : static_cast<int64_t>(rng.Range(15'000, 45'000));
    b.mac_period = round % 3 == 0 ? 30'000 : static_cast<int64_t>(rng.Range(15'000, 45'000));
    b.timing = hvia::Dp83820Timing{};
    b.timing.react_clocks = static_cast<int>(rng.Below(8));
    b.timing.register_initial = static_cast<int>(rng.Range(2, 9));
    b.timing.read_wait_every = rng.Bits(1) ? 0 : static_cast<int>(rng.Range(1, 12));
    b.timing.write_wait_every = rng.Bits(1) ? 0 : static_cast<int>(rng.Range(1, 12));
    b.timing.byte_time = rng.Bits(1) ? 8'000 : static_cast<int64_t>(rng.Range(2'000, 40'000));
    b.timing.receive_fifo = rng.Bits(1) ? 32768 : 4096;
    // The reset often meets remaining work of the last round.
    b.DropTransmit();
    b.Reset();
    b.lossy = false;
    b.rx_left = b.tx_left = 0;
    if (round % 4 == 0) {
      // No chip: the card polls forever without an error or other effect.
      b.chip_there = false;
      for (int i = 0; i < 2000; i++) b.Step(false);
      if (b.top->mac_ready_o || b.errors != 0) Fail("ready %d, %" PRIu64 " errors without a chip", b.top->mac_ready_o, b.errors);
      if (b.resets_of_chip < 10) Fail("a chip that is not there was reset %" PRIu64 " times only", b.resets_of_chip);
      b.SendUndelivered(4);  // an even number, so that the ring is at its first slot again
      if (b.seen.sent != 0) Fail("%" PRIu64 " frames sent without a chip", b.seen.sent);
      b.tx_expect.clear();
      // The chip is plugged in while RST# is low.
      for (int i = 0; b.top->mb_rst_no; i++) {
        b.Step(false);
        if (i > 2000) Fail("the card no longer polls for a chip");
      }
      b.chip_there = true;
    }
    // Receive enable may come before the chip is ready, and with waiting traffic.
    if (rng.Bits(1)) b.top->enable_i = 1;
    b.Start();

    b.tx_idle = static_cast<unsigned>(cut_tx ? rng.Below(7) : rng.Bits(1) ? 0 : rng.Below(7));
    b.rx_idle = rng.Bits(1) ? 0 : 240;
    b.read_idle = static_cast<unsigned>(rng.Bits(1) ? 0 : rng.Below(7));
    b.abort_rate = rng.Bits(1) ? 0 : cut_tx ? 150 : 400;
    b.lossy = cut_tx && b.abort_rate != 0;
    b.tx_left = 25;
    b.rx_left = 25;
    b.Round();
    frames += b.seen.sent;
    if (b.seen.good == 0) Fail("no good frame in a round");

    // A stalled core takes as many frames as there are slots, then the FIFO overruns. When the core
    // continues, the chip is woken.
    const uint64_t slots = single_rx ? 1 : 2, before = b.rx_delivered;
    b.read_stall = true;
    b.nice = true;
    b.rx_left = 40;
    b.rx_idle = 0;
    for (int i = 0; i < 60'000; i++) b.Step(true);
    if (b.seen.good - before > slots) Fail("%" PRIu64 " frames in %" PRIu64 " slots", b.seen.good - before, slots);
    if (b.seen.good - before < slots && !cut_rx) Fail("a core that stalls took %" PRIu64 " frames", b.seen.good - before);
    b.read_stall = false;
    b.Round();
    overruns += b.seen.overrun;
    b.nice = false;

    // Disabled: no frame arrives. Another address: only its frames arrive.
    b.top->enable_i = 0;
    b.Settle("receive disable");
    uint64_t had = b.seen.good;
    b.rx_left = 4;
    b.nice = true;
    b.Round();
    if (b.seen.good != had) Fail("%" PRIu64 " frames received while reception is off", b.seen.good - had);
    for (auto& byte : b.station) byte = static_cast<uint8_t>(rng.Next());
    b.station[0] &= 0xfe;
    b.SetStation();
    if (rng.Bits(1)) {
      b.top->enable_i = 1;
      b.Settle("receive enable");
    } else {
      // The address changes while frames are in flight.
      b.top->enable_i = 1;
      for (unsigned i = rng.Below(60); i > 0; i--) b.Step(false);
      b.station[5] ^= 0x81;
      b.SetStation();
      b.Settle("a new address");
    }
    b.rx_left = b.tx_left = 6;
    b.abort_rate = 0;
    b.nice = false;
    b.Round();
    good += b.seen.good;

    // Faults, one at a time.
    if (round % 2 == 0) {
      b.lossy = true;
      b.tx_left = b.rx_left = 20;
      static const Fault kinds[] = {Fault::kDataParity, Fault::kAddressParity, Fault::kNobody, Fault::kStatus, Fault::kStray, Fault::kFreeze};
      for (unsigned i = 0; i < 2; i++) {
        b.InjectFault(kinds[(round / 2 * 2 + i) % 6]);
        faults++;
      }
      b.FinishFaults();
      b.tx_left = b.rx_left = 5;
      b.Round();
    }
    if (round % 4 == 1 || round % 8 == 3) {
      b.abort_rate = 0;  // an abort removes the chip's frames, so it would never be full
      b.Outage();
      dropped += b.dropped;
    }
    disconnects += b.chip->statistics().disconnects + b.chip->statistics().retries;
    // Every other time, leave work in flight for the reset.
    if (round % 2 == 1) {
      b.tx_left = b.rx_left = 10;
      for (uint64_t i = rng.Below(4000); i > 0; i--) b.Step(true);
      b.tx_left = b.rx_left = 0;
    }
  }
  Measure(&b);
  if (rounds >= 32) {
    if (b.aborted == 0 || b.early_reads == 0 || b.early_offers == 0 || b.foreign == 0 || overruns == 0) {
      Fail("not reached: %" PRIu64 " aborts, %" PRIu64 " early reads, %" PRIu64 " early offers, %" PRIu64 " frames of others, %" PRIu64 " overruns", b.aborted,
           b.early_reads, b.early_offers, b.foreign, overruns);
    }
    if (b.bad_ends == 0 || b.aborted_early == 0 || disconnects == 0) {
      Fail("not reached: %" PRIu64 " bad ends, %" PRIu64 " early aborts, %" PRIu64 " disconnects", b.bad_ends, b.aborted_early, disconnects);
    }
  }
  std::printf("sent %" PRIu64 "\nreceived %" PRIu64 "\noverruns %" PRIu64 "\naborted %" PRIu64 "\naborted_early %" PRIu64 "\nfaults %" PRIu64
              "\nduplicates %" PRIu64 "\ndropped %" PRIu64 "\ndisconnects %" PRIu64 "\nbad_ends %" PRIu64 "\nclocks %" PRIu64 "\npassed 1\n",
              frames, good, overruns, b.aborted, b.aborted_early, faults, b.duplicates, dropped, disconnects, b.bad_ends, unit::clocks());
  return 0;
}
