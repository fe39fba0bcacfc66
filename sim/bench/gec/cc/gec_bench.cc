// SPDX-License-Identifier: Apache-2.0

// Bench of gec: frames in both directions between two clocks of any ratio, against queues of frames.
// Every frame that leaves must be one that came in, whole and in order; every drop must have its
// reason; every strobe is counted.
#include <deque>
#include <memory>
#include <vector>

#include "Vgec.h"
#include "sim/bench/internal/unit/bench.h"
#include "sim/gen/hvia_layout.h"
#include "verilated.h"

using unit::Fail;

namespace {

using Frame = std::vector<uint8_t>;

struct Sent {
  Frame bytes;
  uint8_t vi;
  uint16_t seq;
};

struct Incoming {
  Frame bytes;
  bool err;
};

struct Counts {
  uint64_t sent = 0, good = 0, bad = 0, jumbo = 0, overrun = 0;
};

class Bench {
 public:
  explicit Bench(uint64_t seed) : rng(seed), top(new Vgec) {}

  void Reset() {
    top->rst_ni = top->mac_rst_ni = 0;
    top->enable_i = 1;
    top->tx_wvalid_i = top->tx_wabort_i = top->rx_done_i = 0;
    top->mac_rx_valid_i = top->mac_rx_overrun_i = 0;
    top->mac_tx_ready_i = 0;
    mac_dropped = 0;
    rest_ = 0;
    tx_expect.clear();
    rx_expect.clear();
    tx_at_mac.clear();
    seen = want = Counts{};
    trace_tx_open = false;
    trace_starts = trace_ends = rx_trace_starts = 0;
    building.clear();
    reading_ = false;
    tx_offered_ = false;
    rx_frame_.bytes.clear();
    ignored_frames = rx_started = 0;
    for (int i = 0; i < 8; i++) Step(false);
    // The two ends of reset are apart by some clocks, in either order.
    const unsigned which = rng.Bits(1);
    (which ? top->rst_ni : top->mac_rst_ni) = 1;
    for (unsigned i = rng.Below(6); i > 0; i--) Step(false);
    top->rst_ni = top->mac_rst_ni = 1;
    for (int i = 0; i < 120; i++) Step(false);
    if (!top->quiet_o || !top->mac_quiet_o) Fail("not quiet after reset");
  }

  // To the next edge of either clock.
  void Step(bool traffic) {
    const bool core = next_core <= next_mac, mac = next_mac <= next_core;
    if (traffic && core) DriveCore();
    if (traffic && mac) DriveMac();
    top->eval();
    if (traffic && core) SampleCore();
    if (traffic && mac) SampleMac();
    if (core) {
      CountCore();
      top->clk_i = 1;
      unit::clocks()++;
    }
    if (mac) top->mac_clk_i = 1;
    top->eval();
    top->clk_i = top->mac_clk_i = 0;
    top->eval();
    if (core) next_core += core_period;
    if (mac) next_mac += mac_period;
  }

  // Knobs of one round.
  unsigned core_period = 30, mac_period = 30;
  unsigned tx_idle = 0, mac_pressure = 0, rx_idle = 0, read_idle = 0, abort_rate = 0;
  bool mac_stall = false, read_stall = false;
  bool polite = false;  // the MAC looks for room first, and drops by itself what finds none
  uint64_t tx_left = 0, rx_left = 0;

  void Round() {
    uint64_t begin = unit::clocks();
    while (tx_left > 0 || rx_left > 0 || !tx_expect.empty() || tx_offered_ || !rx_frame_.bytes.empty() || reading_ ||
           !top->quiet_o || !top->mac_quiet_o || top->rx_valid_o) {
      Step(true);
      if (top->quiet_o && top->mac_quiet_o) CheckAtRest();
      if (unit::clocks() - begin > 4'000'000) Fail("a round does not end");
    }
    CheckCounts();
  }

  // With the far side standing still: how many frames fit.
  unsigned FillTransmit() {
    mac_stall = true;
    tx_left = 5;
    uint64_t before = tx_committed;
    for (int i = 0; i < 20000; i++) Step(true);
    unsigned n = tx_committed - before;
    mac_stall = false;
    return n;
  }

  void CheckCounts() {
    if (seen.sent != want.sent || seen.bad != want.bad || seen.jumbo != want.jumbo) {
      Fail("counted %" PRIu64 " sent, %" PRIu64 " bad, %" PRIu64 " long; want %" PRIu64 ", %" PRIu64 ", %" PRIu64,
           seen.sent, seen.bad, seen.jumbo, want.sent, want.bad, want.jumbo);
    }
    if (seen.good + seen.overrun != want.good + mac_dropped || seen.good != rx_delivered) {
      Fail("counted %" PRIu64 " good and %" PRIu64 " overruns for %" PRIu64 " good frames, %" PRIu64 " delivered", seen.good,
           seen.overrun, want.good + mac_dropped, rx_delivered);
    }
    if (trace_starts != seen.sent || trace_ends != seen.sent || rx_trace_starts != rx_started) {
      Fail("trace has %" PRIu64 " starts and %" PRIu64 " ends for %" PRIu64 " frames sent; %" PRIu64
           " starts for %" PRIu64 " received",
           trace_starts, trace_ends, seen.sent, rx_trace_starts, rx_started);
    }
  }

  unit::Rng rng;
  std::unique_ptr<Vgec> top;
  std::deque<Sent> tx_expect, tx_at_mac;
  std::deque<Frame> rx_expect;
  Counts seen, want;
  uint64_t mac_dropped = 0;
  uint64_t tx_committed = 0, rx_delivered = 0, ignored_frames = 0, rx_started = 0;
  uint64_t trace_starts = 0, trace_ends = 0, rx_trace_starts = 0;
  bool clear_delivered() {
    rx_delivered = 0;
    return true;
  }

 private:
  Frame RandomFrame(unsigned lo, unsigned hi) {
    static const unsigned corner[] = {1, 2, 3, 4, 59, 60, 61, 63, 64, 65, 1513, 1514};
    unsigned n = rng.Chance(1, 4) ? corner[rng.Below(12)] : rng.Range(lo, rng.Bits(1) ? 100 : hi);
    Frame f(n);
    for (auto& b : f) b = rng.Next();
    return f;
  }

  // Core clock: the transmit engine writes, the receive engine reads.
  void DriveCore() {
    top->tx_wabort_i = 0;
    if (!tx_offered_) {
      if (building.empty() && tx_left > 0 && top->tx_slot_ready_o && !rng.Chance(tx_idle, 4)) {
        building = RandomFrame(1, 1514);
        at_ = 0;
        build_vi_ = rng.Bits(8);
        build_seq_ = rng.Bits(16);
      }
      if (!building.empty() && !rng.Chance(tx_idle, 4)) tx_offered_ = true;
    }
    if (!building.empty() && abort_rate != 0 && rng.Chance(1, abort_rate)) {
      top->tx_wabort_i = 1;
      // A beat offered in the same clock belongs to the frame that is dropped.
      top->tx_wvalid_i = tx_offered_;
    }
    top->tx_wvalid_i = tx_offered_;
    if (tx_offered_) {
      size_t n = std::min<size_t>(4, building.size() - at_);
      uint32_t word = rng.Bits(32);
      for (size_t i = 0; i < n; i++) word = (word & ~(0xffu << (8 * i))) | building[at_ + i] << (8 * i);
      top->tx_wdata_i = word;
      top->tx_wbytes_i = n;
      top->tx_wlast_i = at_ + n == building.size();
      top->tx_wvi_i = build_vi_;
      top->tx_wseq_i = build_seq_;
    } else {
      top->tx_wdata_i = rng.Bits(32);
      top->tx_wlast_i = rng.Bits(1);
      top->tx_wbytes_i = rng.Below(5);
      top->tx_wvi_i = rng.Bits(8);
      top->tx_wseq_i = rng.Bits(16);
    }
    top->rx_done_i = 0;
    if (reading_ && read_done_) top->rx_done_i = 1;
    top->rx_raddr_i = reading_ ? read_at_ : 0;
  }

  void SampleCore() {
    if (top->tx_wabort_i) {
      building.clear();
      tx_offered_ = false;
      aborted++;
    } else if (tx_offered_ && top->tx_wready_o) {
      at_ += 4;
      tx_offered_ = false;
      if (top->tx_wlast_i) {
        tx_expect.push_back({building, build_vi_, build_seq_});
        tx_at_mac.push_back(tx_expect.back());
        building.clear();
        tx_left--;
        tx_committed++;
      }
    }
    // The read data belongs to the address of the clock before.
    if (reading_ && read_pending_ && !read_done_) {
      for (unsigned i = 0; i < 4 && read_got_.size() < read_len_; i++) read_got_.push_back(top->rx_rdata_o >> (8 * i));
      if (read_got_.size() == read_len_) {
        Deliver();
        read_done_ = true;
      }
    }
    if (top->rx_done_i) {
      reading_ = false;
    } else if (reading_) {
      read_pending_ = true;
      if (!read_done_) read_at_++;
    } else if (top->rx_valid_o && !read_stall && !rng.Chance(read_idle, 64)) {
      reading_ = true;
      read_done_ = read_pending_ = false;
      read_at_ = 0;
      read_len_ = top->rx_len_o;
      read_got_.clear();
    }
  }

  void Deliver() {
    // Overruns may be missing in between, order must hold.
    while (!rx_expect.empty() && rx_expect.front() != read_got_) rx_expect.pop_front();
    if (rx_expect.empty()) Fail("a received frame of %u bytes that was not sent, or out of order", read_len_);
    rx_expect.pop_front();
    rx_delivered++;
  }

  void CountCore() {
    if (!top->rst_ni) return;
    seen.sent += top->stat_mac_transmit_frame_o;
    seen.good += top->stat_mac_receive_frame_o;
    seen.bad += top->stat_mac_receive_bad_o;
    seen.jumbo += top->stat_mac_receive_long_o;
    seen.overrun += top->stat_mac_receive_overrun_o;
    if (top->trace_tx_valid_o) {
      const bool end = top->trace_tx_event_o == hvia::kTraceEventMacTransmitEnd;
      if (!end && top->trace_tx_event_o != hvia::kTraceEventMacTransmitStart) Fail("transmit trace event %u", top->trace_tx_event_o);
      if (end != trace_tx_open) Fail("transmit trace: %s twice", end ? "end" : "start");
      if (tx_at_mac.empty()) Fail("transmit trace without a frame");
      const Sent& s = tx_at_mac.front();
      if (top->trace_tx_vi_o != s.vi || top->trace_tx_seq_o != s.seq) {
        Fail("transmit trace of VI %u sequence %u, want %u, %u", top->trace_tx_vi_o, top->trace_tx_seq_o, s.vi, s.seq);
      }
      trace_tx_open = !end;
      (end ? trace_ends : trace_starts)++;
      if (end) tx_at_mac.pop_front();
    }
    if (top->trace_rx_valid_o) {
      const bool end = top->trace_rx_event_o == hvia::kTraceEventMacReceiveEnd;
      if (end != static_cast<bool>(top->stat_mac_receive_frame_o)) Fail("receive trace: end without a good frame");
      rx_trace_starts += !end;
    }
  }

  // MAC clock: the wire takes and gives.
  void DriveMac() {
    top->mac_tx_ready_i = !mac_stall && !rng.Chance(mac_pressure, 4);
    if (rx_frame_.bytes.empty() && rx_left > 0 && !rng.Chance(rx_idle, 64)) {
      rx_left--;
      rx_frame_.bytes = RandomFrame(60, 1514);
      rx_frame_.err = false;
      rx_at_ = 0;
      switch (rng.Below(12)) {
        case 0: rx_frame_.err = true; break;
        case 1: rx_frame_.bytes.resize(rng.Range(1, 59)); break;
        case 2: rx_frame_.bytes.resize(rng.Range(1515, 1530)); break;
        case 3: rx_frame_.bytes.resize(rng.Range(1515, 5000)); break;
        default: break;
      }
    }
    // Drops must be further apart than the crossing needs, as frames are.
    top->mac_rx_overrun_i = 0;
    if (rest_ > 0) rest_--;
    if (polite && rx_at_ == 0 && !rx_frame_.bytes.empty() && !top->mac_rx_room_o) {
      if (rest_ == 0) {
        rx_frame_.bytes.clear();
        top->mac_rx_overrun_i = 1;
        mac_dropped++;
        rest_ = 20;
      }
    }
    const bool hold = polite && rx_at_ == 0 && (!top->mac_rx_room_o || rest_ > 0);
    bool offer = !rx_frame_.bytes.empty() && !hold && (rx_idle == 0 || !rng.Chance(1, 4));
    top->mac_rx_valid_i = offer;
    size_t n = std::min<size_t>(4, rx_frame_.bytes.size() - rx_at_);
    top->mac_rx_data_i = rng.Bits(32);
    top->mac_rx_last_i = rng.Bits(1);
    top->mac_rx_err_i = rng.Bits(1);
    if (offer) {
      uint32_t word = rng.Bits(32);
      for (size_t i = 0; i < n; i++) word = (word & ~(0xffu << (8 * i))) | rx_frame_.bytes[rx_at_ + i] << (8 * i);
      top->mac_rx_data_i = word;
      top->mac_rx_bytes_i = n;
      top->mac_rx_last_i = rx_at_ + n == rx_frame_.bytes.size();
      top->mac_rx_err_i = top->mac_rx_last_i && rx_frame_.err;
    }
  }

  void SampleMac() {
    if (top->mac_tx_valid_o && top->mac_tx_ready_i) {
      for (unsigned i = 0; i < top->mac_tx_bytes_o; i++) out_.push_back(top->mac_tx_data_o >> (8 * i));
      if (!top->mac_tx_last_o && top->mac_tx_bytes_o != 4) Fail("a beat of %u bytes inside a frame", top->mac_tx_bytes_o);
      if (top->mac_tx_last_o) {
        if (tx_expect.empty()) Fail("a frame to the MAC that nobody sent");
        Frame f = tx_expect.front().bytes;
        if (f.size() < hvia::kMinFrame) f.resize(hvia::kMinFrame, 0);
        if (f != out_) Fail("a frame of %zu bytes reached the MAC as %zu bytes, or changed", f.size(), out_.size());
        tx_expect.pop_front();
        out_.clear();
        want.sent++;
      }
    }
    if (top->mac_rx_valid_i && top->mac_rx_ready_o) {
      if (rx_at_ == 0 && top->enable_i) rx_started++;
      if (rx_at_ == 0) rx_counts_ = top->enable_i;
      rx_at_ += 4;
      if (top->mac_rx_last_i) {
        const Frame& f = rx_frame_.bytes;
        if (!rx_counts_) ignored_frames++;
        else if (rx_frame_.err || f.size() < hvia::kMinFrame) want.bad++;
        else if (f.size() > hvia::kMaxFrame) want.jumbo++;
        else {
          want.good++;
          rx_expect.push_back(f);
        }
        rx_frame_.bytes.clear();
      }
    }
  }

  // Quiet on both sides: nothing may be on its way.
  void CheckAtRest() {
    if (top->mac_tx_valid_o && top->mac_tx_ready_i) return;  // moves at the next clock: inputs changed
    if (!tx_expect.empty() && !mac_stall && top->mac_tx_ready_i && !top->mac_tx_valid_o) {
      Fail("both sides are quiet with a frame on its way to the MAC");
    }
    if (seen.sent != want.sent || seen.bad != want.bad || seen.jumbo != want.jumbo ||
        seen.good + seen.overrun != want.good + mac_dropped) {
      Fail("both sides are quiet before all events were counted");
    }
  }

  uint64_t next_core = 0, next_mac = 7;
  Frame building;
  size_t at_ = 0;
  uint8_t build_vi_ = 0;
  uint16_t build_seq_ = 0;
  bool tx_offered_ = false;
  Frame out_;
  Incoming rx_frame_;
  size_t rx_at_ = 0;
  bool rx_counts_ = true;
  unsigned rest_ = 0;
  bool reading_ = false, read_done_ = false, read_pending_ = false;
  unsigned read_at_ = 0, read_len_ = 0;
  Frame read_got_;
  bool trace_tx_open = false;

 public:
  uint64_t aborted = 0;
  void DropOutput() { out_.clear(); }
};

}  // namespace

int main(int argc, char** argv) {
  Verilated::commandArgs(argc, argv);
  unit::ParseOptions(argc, argv);
  Bench b(unit::options().seed);
  uint64_t frames = 0, overruns = 0, good = 0, dropped = 0;
  for (uint64_t round = 0; round < unit::options().size; round++) {
    const bool single_tx = round % 4 == 1, single_rx = round % 4 == 2;
    b.top->single_tx_slot_i = single_tx;
    b.top->single_rx_slot_i = single_rx;
    b.core_period = round % 3 == 0 ? 30 : b.rng.Range(15, 60);
    b.mac_period = round % 3 == 0 ? 30 : b.rng.Range(15, 60);
    // Reset in the middle of what the last round left, which is nothing only sometimes.
    b.DropOutput();
    b.Reset();
    b.clear_delivered();
    b.tx_idle = b.rng.Below(3);
    b.mac_pressure = b.rng.Below(4);
    b.rx_idle = b.rng.Bits(1) ? 0 : 60;
    b.read_idle = b.rng.Bits(1) ? 0 : 60;
    b.abort_rate = b.rng.Bits(1) ? 0 : 400;
    b.tx_left = 40;
    b.rx_left = 40;
    b.polite = round % 2 == 1;
    b.Round();
    if (b.polite && b.seen.overrun != b.mac_dropped) {
      Fail("%" PRIu64 " overruns, but the MAC dropped %" PRIu64, b.seen.overrun, b.mac_dropped);
    }
    dropped += b.mac_dropped;
    b.polite = false;
    if (b.seen.good == 0) Fail("no good frame in a round");

    // As many frames as there are slots always fit, however close they follow each other.
    const unsigned slots = single_rx ? 1 : 2;
    b.rx_idle = 0;
    for (int i = 0; i < 10; i++) {
      uint64_t lost = b.seen.overrun;
      b.rx_left = slots;
      b.Round();
      if (b.seen.overrun != lost) Fail("%" PRIu64 " overruns of %u frames in %u slots", b.seen.overrun - lost, slots, slots);
    }
    // One that stands still has room for as many frames as there are slots.
    uint64_t got = b.seen.good, lost = b.seen.overrun, sent = b.want.good;
    b.read_stall = true;
    b.rx_left = 16;
    for (int i = 0; i < 60000; i++) b.Step(true);
    if (b.want.good - sent > slots &&
        (b.seen.good - got != slots || b.seen.overrun - lost != b.want.good - sent - slots)) {
      Fail("a receiver that stands still took %" PRIu64 " frames and lost %" PRIu64, b.seen.good - got, b.seen.overrun - lost);
    }
    b.read_stall = false;
    b.Round();
    // Neither has the transmitter more.
    b.abort_rate = 0;
    unsigned n = b.FillTransmit();
    if (n != (single_tx ? 1u : 2u)) Fail("%u frames went into the slots of a MAC that stands still", n);
    b.Round();
    // Frames that begin while reception is off leave no trace.
    b.top->enable_i = 0;
    for (int i = 0; i < 10; i++) b.Step(false);
    b.rx_idle = 0;
    b.rx_left = 5;
    b.Round();
    if (b.ignored_frames != 5) Fail("%" PRIu64 " frames ignored, want 5", b.ignored_frames);
    b.top->enable_i = 1;
    frames += b.seen.sent;
    good += b.seen.good;
    overruns += b.seen.overrun;
    // Every other time, leave work under way for the reset.
    if (round % 2 == 0) {
      for (int i = 0; i < 10; i++) b.Step(false);
      b.tx_left = b.rx_left = 10;
      for (uint64_t i = b.rng.Below(2000); i > 0; i--) b.Step(true);
      b.tx_left = b.rx_left = 0;
    }
  }
  if (dropped == 0) Fail("the MAC dropped no frame by itself: the bench does not reach it");
  if (b.aborted == 0 && unit::options().size > 4) Fail("no frame was aborted: the bench does not reach it");
  std::printf("sent %" PRIu64 "\nreceived %" PRIu64 "\noverruns %" PRIu64 "\naborted %" PRIu64 "\nclocks %" PRIu64 "\npassed 1\n",
              frames, good, overruns, b.aborted, unit::clocks());
  return 0;
}
