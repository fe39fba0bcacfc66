// SPDX-License-Identifier: Apache-2.0

// Both raw rings under load: software that posts good and bad entries and restarts rings at any
// time; slow engines; a bus that stalls and fails. A model of each ring checks every read, every
// entry for an engine, every status and every interrupt.
#include <memory>
#include <optional>
#include <vector>

#include "Vhvia_raw_port.h"
#include "sim/unit/internal/unit/neighbours.h"


namespace {

using unit::Fail;
using unit::Rng;
using unit::Traffic;

constexpr unsigned kBytes = TB_W / 8;
constexpr uint32_t kPages = 16;
constexpr uint64_t kPatience = 20000;  // limit of clocks without progress

struct Entry {
  uint32_t pa = 0, len = 0;
  bool unread = false;   // read failed
  bool ended = false;    // the engine or the card has finished it
  uint32_t status = 0;   // expected status
};

// One ring as software sees it, and the card's progress.
struct Ring {
  explicit Ring(bool transmit) : transmit(transmit) {}
  const bool transmit;
  uint32_t base = 0, log2 = 0, tail = 0;
  uint32_t head = 0, fetch = 0, finish = 0;
  std::vector<Entry> entries;

  uint32_t size() const { return log2 == 0 ? 0 : 1u << log2; }
  uint32_t mask() const { return size() - 1; }
  bool Owns(uint32_t addr) const { return addr / unit::kPage == base / unit::kPage; }
  uint32_t Address(uint32_t index) const { return base / unit::kPage * unit::kPage + (base + index * 16) % unit::kPage; }
  bool Full() const { return size() == 0 || ((tail + 1) & mask()) == head; }
  bool Bad(const Entry& e) const {
    if (e.unread || e.len > unit::kPage || e.pa % unit::kPage + e.len > unit::kPage) return true;
    return transmit ? e.len < hvia::kEthernetHeaderSize || e.len > hvia::kMaxFrame : e.len == 0;
  }
};

// An engine with at most one entry.
struct Engine {
  bool busy = false, stale = false, done = false, err = false;
  uint64_t wait = 0;
  uint32_t pa = 0, len = 0, bytes = 0;
};

struct Transfer {
  bool seen = false, stale = false, fails = false;
  int ring = 0;
  uint32_t index = 0;
};

class Testbench {
 public:
  explicit Testbench(uint64_t seed) : rng(seed), memory(kPages, &rng), top(std::make_unique<Vhvia_raw_port>()) {
    top->rst_ni = 1;
    top->eval();
    Reset();
  }

  void Reset() {
    bus.emplace(&memory, &rng);
    for (int r = 0; r < 2; r++) {
      engine[r] = Engine();
      Forget(&ring[r]);
      ring[r].log2 = 0;
      restart[r] = false;
    }
    read = write = Transfer();
    sent = traced_sent = 0;
    top->rst_ni = 0;
    Tick();
    top->rst_ni = 1;
    resets++;
  }

  static void Forget(Ring* r) {
    r->tail = r->head = r->fetch = r->finish = 0;
    r->entries.assign(r->size(), Entry());
  }

  void Tick() {
    bus->Drive(traffic);
    bus->Show(*top);
    top->tx_base_i = ring[0].base;
    top->tx_size_i = ring[0].log2;
    top->tx_tail_i = ring[0].tail | (log2_junk & ~ring[0].mask());
    top->tx_restart_i = restart[0];
    top->rx_base_i = ring[1].base;
    top->rx_size_i = ring[1].log2;
    top->rx_tail_i = ring[1].tail | (log2_junk & ~ring[1].mask());
    top->rx_restart_i = restart[1];
    for (Engine& e : engine) {
      e.done = e.busy && e.wait == 0;
      e.err = e.done ? rng.Chance(1, 8) : rng.Bits(1);
      e.bytes = e.done ? static_cast<uint32_t>(rng.Range(14, 1514)) : rng.Bits(16);
      if (e.busy && e.wait > 0) e.wait--;
    }
    bool take_tx = !engine[0].busy && !engines_stopped && !rng.Chance(traffic.idle, 4);
    bool take_rx = !engine[1].busy && !engines_stopped && !rng.Chance(traffic.idle, 4);
    top->rawtx_done_i = engine[0].done;
    top->rawtx_err_i = engine[0].err;
    top->rawrx_done_i = engine[1].done;
    top->rawrx_err_i = engine[1].err;
    top->rawrx_len_i = engine[1].bytes;
    top->rawtx_ready_i = take_tx;
    top->eval();
    // The receive engine is ready only for a buffer that it sees.
    top->rawrx_ready_i = take_rx && top->rawrx_valid_o;
    bus->Settle(*top);
    if (top->rst_ni) Check();
    bool quiet = top->quiet_o;
    unit::Clock(*top);
    quiet_clocks += quiet;
  }

  int Owner(uint32_t addr) const {
    if (ring[0].Owns(addr)) return 0;
    if (ring[1].Owns(addr)) return 1;
    return -1;
  }

  void Check() {
    bool reading = top->req_valid_o && !top->req_write_o, writing = top->req_valid_o && top->req_write_o;
    uint32_t addr = top->req_addr_o;

    // Reads: entries in order, none beyond the tail.
    if (reading && !read.seen) {
      int r = Owner(addr);
      if (r < 0 || top->req_len_o != 16 || addr != ring[r].Address(ring[r].fetch)) Fail("read of %u bytes at %08x", top->req_len_o, addr);
      if (ring[r].fetch == (ring[r].tail & ring[r].mask())) Fail("%s entry %u is read before software gave it", Name(r), ring[r].fetch);
      read = {true, false, false, r, ring[r].fetch};
      ring[r].fetch = (ring[r].fetch + 1) & ring[r].mask();
    }
    if (reading && top->req_ready_i && bus->reads.fail_in == 1) {
      failed_reads++;
      if (!read.stale) ring[read.ring].entries[read.index].unread = true;
    }
    // Statuses: one per finished entry, in order.
    if (writing && !write.seen) {
      int r = Owner(addr);
      if (r < 0 || top->req_len_o != 4 || addr != ring[r].Address(ring[r].head) + hvia::kRawEntryStatusOffset) {
        Fail("write of %u bytes at %08x", top->req_len_o, addr);
      }
      if (ring[r].head == ring[r].finish || !ring[r].entries[ring[r].head].ended) Fail("status of %s entry %u before its end", Name(r), ring[r].head);
      write = {true, false, false, r, ring[r].head};
    }
    bus->Sample(*top);
    bool read_ends = bus->reads.rvalid && bus->reads.rlast && top->rready_o;

    bool irq[2] = {static_cast<bool>(top->irq_raw_transmit_o), static_cast<bool>(top->irq_raw_receive_o)};
    bool returned[2] = {false, false};
    if (top->wdone_i) {
      int r = write.ring;
      if (restart[r]) write.stale = true;
      if (!write.stale) {
        returned[r] = true;
        const Entry& e = ring[r].entries[write.index];
        uint32_t got;
        std::memcpy(&got, &memory.bytes[ring[r].Address(write.index) + hvia::kRawEntryStatusOffset], 4);
        if (top->werr_i) failed_writes++;
        else if (got != e.status) Fail("%s entry %u: status %08x, want %08x", Name(r), write.index, got, e.status);
      }
      if (irq[r] != (returned[r] && !top->werr_i)) Fail("%s interrupt %d with its status on the bus", Name(r), irq[r]);
      irqs += irq[r];
      if (irq[1 - r]) Fail("%s interrupt without a status", Name(1 - r));
      write = Transfer();
    } else if (irq[0] || irq[1]) {
      Fail("an interrupt without a status");
    }
    if (read_ends) read = Transfer();

    // Entries reach the engines in order. Bad ones are skipped.
    bool take[2] = {top->rawtx_valid_o && top->rawtx_ready_i, top->rawrx_valid_o && top->rawrx_ready_i};
    uint32_t pa[2] = {top->rawtx_pa_o, top->rawrx_pa_o}, len[2] = {top->rawtx_len_o, top->rawrx_capacity_o};
    bool good[2] = {static_cast<bool>(top->stat_raw_transmit_o), static_cast<bool>(top->stat_raw_receive_o)};
    bool error[2] = {static_cast<bool>(top->stat_raw_transmit_error_o), static_cast<bool>(top->stat_raw_receive_error_o)};
    for (int r = 0; r < 2; r++) {
      Engine& e = engine[r];
      if (e.busy && (pa[r] != e.pa || len[r] != e.len)) Fail("the %s engine's entry changed under it", Name(r));
      if (take[r]) {
        Ring& q = ring[r];
        if (e.busy) Fail("the %s engine has two entries", Name(r));
        const Entry& x = q.entries.at(q.finish);
        if (q.finish == q.fetch || q.Bad(x) || x.pa != pa[r] || x.len != len[r]) {
          Fail("%s entry %u: %u bytes at %08x handed over, want %u at %08x", Name(r), q.finish, len[r], pa[r], x.len, x.pa);
        }
        uint64_t wait = rng.Below(traffic.idle == 0 ? 4 : 60);
        e = {true, false, false, false, wait, pa[r], len[r], 0};
        taken[r]++;
      }
      bool finish = good[r] || error[r];
      if (e.done) {
        if (good[r] == e.err || error[r] != e.err) Fail("%s frame counted good %d error %d, err %d", Name(r), good[r], error[r], e.err);
        e.busy = false;
        if (r == 0 && good[r]) sent++;
        if (!e.stale && !restart[r]) {
          uint32_t bytes = r == 1 ? e.bytes << hvia::kRawEntryStatusLengthLsb : 0;
          End(r, bytes | hvia::kRawEntryStatusDoneMask | (e.err ? hvia::kRawEntryStatusErrorMask : 0));
        }
      } else if (finish) {
        if (good[r] || e.busy) Fail("%s entry ends although the engine has not ended one", Name(r));
        refused[r]++;
        if (!restart[r]) {
          if (!ring[r].Bad(ring[r].entries.at(ring[r].finish))) Fail("%s entry %u is good and was rejected", Name(r), ring[r].finish);
          End(r, hvia::kRawEntryStatusDoneMask | hvia::kRawEntryStatusErrorMask);
        }
      }
      uint32_t head = r == 0 ? top->tx_head_o : top->rx_head_o;
      if (head != ring[r].head) Fail("%s head %u, want %u", Name(r), head, ring[r].head);
      bool busy = r == 0 ? top->tx_busy_o : top->rx_busy_o;
      if (!busy && (e.busy || take[r] || (write.seen && write.ring == r) || (read.seen && read.ring == r && !reading))) {
        if (!take[r]) Fail("%s ring not busy although an entry is in flight", Name(r));
      }
    }
    if (top->trace_valid_o) {
      if (top->trace_event_o == hvia::kTraceEventRawReceived) {
        if (!irq[1] || top->trace_seq_o != ring[1].head) Fail("a received frame traced without its status, or as %u", top->trace_seq_o);
      } else if (top->trace_event_o == hvia::kTraceEventRawTransmitted) {
        if (++traced_sent > sent) Fail("a frame traced as transmitted too early");
      } else {
        Fail("trace event %u", top->trace_event_o);
      }
    } else if (irq[1]) {
      Fail("a received frame is not traced");
    }
    // The clock's edge.
    for (int r = 0; r < 2; r++) {
      if (returned[r]) {
        ring[r].head = (ring[r].head + 1) & ring[r].mask();
        last_return = unit::clocks();
        returns[ring[r].log2]++;
      }
      if (restart[r]) {
        if (read.seen && read.ring == r) read.stale = true;
        if (write.seen && write.ring == r) write.stale = true;
        if (engine[r].busy) engine[r].stale = true;
        stale_uses += engine[r].busy;
      }
    }
  }

  void End(int r, uint32_t status) {
    ring[r].entries[ring[r].finish].ended = true;
    ring[r].entries[ring[r].finish].status = status;
    ring[r].finish = (ring[r].finish + 1) & ring[r].mask();
  }

  static const char* Name(int r) { return r == 0 ? "transmit" : "receive"; }

  // Software writes Base or Size. The change shows in the clock after the restart.
  void Configure(int r, uint32_t base, uint32_t log2) {
    restart[r] = true;
    Tick();
    restart[r] = false;
    ring[r].base = base;
    ring[r].log2 = log2;
    Forget(&ring[r]);
    restarts++;
  }

  bool Busy(int r) const { return r == 0 ? top->tx_busy_o : top->rx_busy_o; }

  void NewRing(int r) {
    // Each ring alternates between two pages: writes for the old ring go to the old page.
    uint32_t page = (ring[r].base / unit::kPage == static_cast<uint32_t>(2 * r)) ? 2 * r + 1 : 2 * r;
    uint32_t base = page * unit::kPage + static_cast<uint32_t>(rng.Below(256)) * 16;
    uint32_t log2 = static_cast<uint32_t>(rng.Range(1, 8));
    bool off = rng.Chance(1, 2);
    if (off) {
      Configure(r, ring[r].base, 0);
      if (rng.Bits(1)) ring[r].tail = rng.Bits(8);  // a ring that is off does nothing
      for (uint64_t i = 0; Busy(r); i++) {
        if (i > kPatience) Fail("a ring that was switched off stays busy");
        Tick();
      }
      for (uint64_t i = rng.Below(40); i > 0; i--) {
        Tick();
        if (Busy(r)) Fail("a ring that is off became busy");
      }
      ring[r].tail = 0;
      offs++;
    } else {
      // A restart of a running ring. The old page must not be reused while it is busy.
      for (uint64_t i = 0; Busy(r) && StaleBefore(r); i++) {
        if (i > kPatience) Fail("a ring stays busy");
        Tick();
      }
    }
    Configure(r, base, ring[r].log2);
    Configure(r, base, log2);
  }

  bool StaleBefore(int r) const {
    return engine[r].stale || (write.seen && write.ring == r && write.stale) || (read.seen && read.ring == r && read.stale);
  }

  void Post(int r) {
    Ring& q = ring[r];
    if (q.Full()) return;
    Entry e;
    e.pa = static_cast<uint32_t>(rng.Range(8, kPages - 1)) * unit::kPage;
    if (r == 0) {
      const uint32_t edge[] = {0, 13, 14, 15, 60, 1513, 1514, 1515, 2048, 4096, hvia::kRawEntryLengthMoreMask | 64};
      e.len = rng.Chance(1, 4) ? edge[rng.Below(11)] : static_cast<uint32_t>(rng.Range(14, 1514));
    } else {
      const uint32_t edge[] = {0, 1, 1514, 2048, 4095, 4096, 4097, 0xffffffff};
      e.len = rng.Chance(1, 4) ? edge[rng.Below(8)] : static_cast<uint32_t>(rng.Range(60, 2048));
    }
    if (e.len <= unit::kPage) {
      uint32_t room = unit::kPage - e.len;
      e.pa += rng.Chance(1, 4) ? room : static_cast<uint32_t>(rng.Below(room + 1));
      if (rng.Chance(1, 16)) e.pa = e.pa / unit::kPage * unit::kPage + std::min(room + 1, unit::kPage - 1);
    }
    q.entries[q.tail] = e;
    uint32_t words[4] = {e.pa, e.len, rng.Bits(32), 0};
    std::memcpy(&memory.bytes[q.Address(q.tail)], words, 16);
    q.tail = (q.tail + 1) & q.mask();
    posted++;
    if (q.Full()) fulls++;
    if (q.tail == 0) wraps[q.log2]++;
  }

  void Drain() {
    last_return = unit::clocks();
    while (ring[0].head != ring[0].tail || ring[1].head != ring[1].tail) {
      Tick();
      if (unit::clocks() - last_return > kPatience) Fail("the rings stall at %u of %u and %u of %u", ring[0].head, ring[0].tail, ring[1].head, ring[1].tail);
    }
    for (int i = 0; i < 100; i++) Tick();
    if (!top->quiet_o) Fail("not quiet with empty rings");
    if (Busy(0) || Busy(1)) Fail("busy with empty rings");
    if (traced_sent != sent) Fail("%" PRIu64 " frames sent, %" PRIu64 " traced", sent, traced_sent);
  }

  // A burst of frames while the bus is busy: the entries read ahead must suffice.
  void Burst() {
    Drain();
    traffic = {0, 0};
    Configure(1, ring[1].base, 4);
    engines_stopped = true;
    for (int i = 0; i < 8; i++) {
      Ring& q = ring[1];
      Entry e;
      e.pa = 8 * unit::kPage + static_cast<uint32_t>(i) * 256;
      e.len = 256;
      q.entries[q.tail] = e;
      uint32_t words[4] = {e.pa, e.len, 0, 0};
      std::memcpy(&memory.bytes[q.Address(q.tail)], words, 16);
      q.tail++;
    }
    for (int i = 0; i < 200; i++) Tick();
    engines_stopped = false;
    traffic = {0, 4};
    uint64_t before = taken[1];
    for (int i = 0; i < 60; i++) Tick();
    if (taken[1] - before != 4) Fail("%" PRIu64 " frames of a burst found a buffer without the bus, want 4", taken[1] - before);
    traffic = {0, 0};
    Drain();
    bursts++;
  }

  Rng rng;
  unit::Memory memory;
  const std::unique_ptr<Vhvia_raw_port> top;
  std::optional<unit::SystemBus<kBytes>> bus;
  Ring ring[2] = {Ring(true), Ring(false)};
  Engine engine[2];
  Transfer read, write;
  bool restart[2] = {false, false};
  bool engines_stopped = false;
  uint32_t log2_junk = 0;
  Traffic traffic{0, 0};
  uint64_t sent = 0, traced_sent = 0, last_return = 0;
  uint64_t posted = 0, fulls = 0, irqs = 0, restarts = 0, offs = 0, stale_uses = 0, failed_reads = 0, failed_writes = 0;
  uint64_t resets = 0, bursts = 0, quiet_clocks = 0;
  uint64_t taken[2] = {}, refused[2] = {}, wraps[9] = {}, returns[9] = {};
};

}  // namespace

int main(int argc, char** argv) {
  unit::Start(argc, argv);
  Testbench testbench(unit::options().seed);
  Rng& rng = testbench.rng;
  testbench.ring[0].base = 0;
  testbench.ring[1].base = 2 * unit::kPage;

  while (testbench.posted < unit::options().size) {
    testbench.traffic = unit::kTraffic[rng.Below(5)];
    if (rng.Chance(1, 8)) testbench.NewRing(static_cast<int>(rng.Below(2)));
    if (testbench.ring[0].log2 == 0) testbench.NewRing(0);
    if (testbench.ring[1].log2 == 0) testbench.NewRing(1);
    unsigned eager = static_cast<unsigned>(rng.Range(1, 16));
    for (uint64_t clocks = rng.Range(50, 3000); clocks > 0; clocks--) {
      for (int r = 0; r < 2; r++) {
        while (rng.Chance(eager, 64)) testbench.Post(r);
      }
      testbench.log2_junk = rng.Bits(8);
      if (testbench.bus->reads.fail_in == 0 && rng.Chance(1, 400)) testbench.bus->reads.fail_in = static_cast<unsigned>(rng.Range(1, 4));
      if (testbench.bus->writes.fail_in == 0 && rng.Chance(1, 400)) testbench.bus->writes.fail_in = static_cast<unsigned>(rng.Range(1, 4));
      testbench.Tick();
    }
    if (rng.Chance(1, 6)) testbench.Drain();
    if (rng.Chance(1, 40)) testbench.Burst();
    if (rng.Chance(1, 60)) {
      testbench.Reset();
      testbench.ring[0].base = 0;
      testbench.ring[1].base = 2 * unit::kPage;
    }
  }
  testbench.Drain();
  for (int n = 1; n <= 8; n++) {
    std::printf("wraps_log2_%d %" PRIu64 "\nreturns_log2_%d %" PRIu64 "\n", n, testbench.wraps[n], n, testbench.returns[n]);
  }
  std::printf("posted %" PRIu64 "\nfulls %" PRIu64 "\nsent %" PRIu64 "\nreceived %" PRIu64 "\nrefused_transmit %" PRIu64
              "\nrefused_receive %" PRIu64 "\nirqs %" PRIu64 "\nrestarts %" PRIu64 "\noffs %" PRIu64 "\nstale_uses %" PRIu64
              "\nfailed_reads %" PRIu64 "\nfailed_writes %" PRIu64 "\nbursts %" PRIu64 "\nresets %" PRIu64 "\nclocks %" PRIu64
              "\nquiet_clocks %" PRIu64 "\npassed 1\n",
              testbench.posted, testbench.fulls, testbench.taken[0], testbench.taken[1], testbench.refused[0], testbench.refused[1], testbench.irqs,
              testbench.restarts, testbench.offs, testbench.stale_uses, testbench.failed_reads, testbench.failed_writes, testbench.bursts,
              testbench.resets, unit::clocks(), testbench.quiet_clocks);
  return 0;
}
