// SPDX-License-Identifier: Apache-2.0
// Drives the Verilated PCI side between requesters and the host bridge. Models that know nothing of
// the RTL check both. One scenario per run.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "Vpci_tb.h"
#include "sim/gen/hvia_layout.h"
#include "sim/model/host_bridge.h"
#include "sim/model/pci_bus.h"
#include "sim/model/splitmix.h"
#include "sim/model/pci_enumerator.h"
#include "sim/unit/internal/unit/testbench.h"

using hvia::HostBridge;
using hvia::HostCommand;
using hvia::HostResult;
using hvia::PciBus;
using hvia::PciPins;
using unit::Fail;

namespace {

constexpr int kRequesters = TB_N;
constexpr uint32_t kBytes = TB_W / 8;  // of a beat
constexpr uint32_t kPage = 4096;
constexpr uint32_t kRegionBytes = 16 * kPage;
// Base of each requester's memory: both ends of the window, and bit patterns between.
constexpr uint32_t kRegionBase[kRequesters] = {0x00000000, 0x3fff0000, 0x12340000, 0x2aaa0000, 0x15550000, 0x3ffe0000};
constexpr uint32_t kNowhere = 0x50000000;  // no target answers here

int g_bits = TB_W;  // width of the bus and of the host bridge

struct Rng : unit::Rng {
  using unit::Rng::Rng;
  bool Chance(int permille) { return unit::Rng::Chance(static_cast<unsigned>(permille), 1000); }
};

// Host memory: only the requesters' regions.
class Memory : public hvia::HostMemoryPort {
 public:
  Memory() {
    for (auto& r : region_) r.resize(kRegionBytes);
  }
  uint8_t* At(uint32_t address) {
    for (int i = 0; i < kRequesters; i++)
      if (address - kRegionBase[i] < kRegionBytes) return &region_[i][address - kRegionBase[i]];
    Fail("access to %08x, which is no requester's memory", address);
  }
  uint32_t ReadDword(uint32_t address) override {
    if (address & 3) Fail("read of %08x is not aligned", address);
    uint32_t v;
    std::memcpy(&v, At(address), 4);
    reads++;
    return v;
  }
  void WriteDword(uint32_t address, uint32_t data, uint8_t be) override {
    if (address & 3) Fail("write to %08x is not aligned", address);
    uint8_t* p = At(address);
    for (int i = 0; i < 4; i++)
      if (be >> i & 1) p[i] = static_cast<uint8_t>(data >> (8 * i));
    open_burst_ = true;
    writes++;
  }
  void BurstEnd() override {
    if (!open_burst_) Fail("BurstEnd without a write");
    open_burst_ = false;
    bursts++;
  }
  bool open_burst() const { return open_burst_; }
  void Reset() { open_burst_ = false; }
  uint64_t reads = 0, writes = 0, bursts = 0;

 private:
  std::vector<uint8_t> region_[kRequesters];
  bool open_burst_ = false;
};

struct Load {
  int issue = 1000;        // per clock, per mille: an idle requester issues a request
  int write = 500;         // per mille: it is a write
  int data_idle = 0;       // per mille per clock: a beat is not offered
  int read_stall = 0;      // per mille per clock: rready is low
  int long_stall = 0;      // per mille per clock: either stalls for 40 clocks
  int nowhere = 0;         // per mille: address without a target
  int holes = 0;           // per mille: random byte strobes
  bool full_bursts = false;  // 512 bytes, aligned
  bool short_requests = false;
  bool long_requests = false;  // 512 bytes, unaligned, so one beat more
  bool sweep = false;        // every alignment and length from 1 to 512, reads and writes, in turn
  uint32_t active = (1u << kRequesters) - 1;
  int patience = 0;           // per mille per clock: low priority for requesters that can have it
  int more = 0;               // per mille per clock: announces another request
  uint32_t can_be_patient = ((1u << kRequesters) - 1) & ~1u;  // requester 0 never has low priority
};

struct Operation {
  bool valid = false, granted = false, nowhere = false;
  bool spoiled = false;  // a part came with bad parity
  uint32_t address = 0, length = 0, beats = 0, next = 0;
  std::vector<uint64_t> data;
  std::vector<uint8_t> strobe;
  uint64_t issued = 0;
  bool Overlaps(const Operation& o) const { return o.valid && address < o.address + o.length && o.address < address + length; }
};

// The next transaction on the bus, according to the grants.
struct Expected {
  bool write;
  uint32_t address;  // of the next dword
  uint32_t dwords;   // still to move
  int requester = 0;
};

// A request of one beat moves the dwords that it touches. One of several beats moves all dwords of
// its beats.
Expected Expect(bool write, const Operation& o) {
  if (o.beats == 1) return {write, o.address & ~3u, (o.address % 4 + o.length + 3) / 4};
  return {write, o.address & ~(kBytes - 1), o.beats * kBytes / 4};
}

struct CoreWrite {
  uint8_t bar;
  uint32_t address, data;
  uint8_t be;
  bool first;
};

uint32_t CoreValue(uint8_t bar, uint32_t address) { return (address * 2654435761u) ^ (bar ? 0x5bd1e995u : 0x1b873593u); }

class Testbench {
 public:
  Testbench(uint64_t seed, const hvia::HostBridgeTiming& timing) : rng{seed}, bridge(&memory, timing, g_bits), bus(g_bits), top(new Vpci_tb) {
    for (int i = 0; i < kRequesters; i++) {
      for (uint32_t b = 0; b < kRegionBytes; b++) {
        const uint8_t v = static_cast<uint8_t>(rng.Next());
        shadow[i].push_back(v);
        *memory.At(kRegionBase[i] + b) = v;
      }
    }
    top->rst_ni = 0;
    top->clk_i = 0;
    top->eval();
    for (int i = 0; i < 4; i++) unit::Clock(*top);
    top->rst_ni = 1;
  }

  void Boot(bool parity_response) {
    auto plan = hvia::PciEnumerator::DefaultPlan();
    plan.parity_response = parity = parity_response;
    plan.latency_timer = latency_timer;
    hvia::PciEnumerator boot(&bridge, plan);
    booting = true;
    for (int i = 0; i < 100000 && !boot.done(); i++) {
      Step();
      boot.Step();
    }
    booting = false;
    if (!boot.error().empty()) Fail("%s", boot.error().c_str());
    if (!boot.done()) Fail("enumeration has not ended after 100000 clocks");
  }

  // One PCI clock.
  void Step() {
    const PciPins& pins = bus.Clock(hvia::PciCardDrive(*top), bridge.drive(), bridge.gnt_n(), bridge.idsel());
    hvia::PciCardSample(pins, top.get());
    DriveRequesters();
    top->tgt_wready_i = !rng.Chance(core_stall) && unit::clocks() >= core_stall_until;
    if (core_long_stall && rng.Chance(core_long_stall)) core_stall_until = unit::clocks() + 30;
    DriveCoreRead();
    top->quiesce_i = quiesce;
    top->irq_i = irq;
    top->eval();
    Monitor(pins);
    Sample();
    SampleCore();
    const bool was_irq = irq;
    top->clk_i = 1;
    top->eval();
    top->clk_i = 0;
    if (top->inta_n_o != !was_irq) Fail("INTA# is %d for level %d", top->inta_n_o, was_irq);
    bridge.Tick(pins);
    unit::clocks()++;
    if (bus.violation_count() != 0) Fail("PCI violation: %s", bus.violations()[0].c_str());
    if (!booting) TakeResults();
  }

  void Run(uint64_t clocks) {
    for (uint64_t i = 0; i < clocks; i++) Step();
  }
  // No new work. Everything in flight must end.
  void Drain() {
    load.issue = 0;
    host_rate = 0;
    for (int i = 0; i < 200000; i++) {
      bool busy = bridge.pending() != 0;
      for (int r = 0; r < kRequesters; r++) busy |= read[r].valid || write[r].valid;
      if (!busy) break;
      if (i == 199999) Fail("work has not ended after 200000 clocks");
      Step();
    }
    for (int i = 0; i < 100; i++) {
      Step();
      if (top->quiet_o && top->idle_o && bridge.quiet()) break;
      if (i == 99) Fail("not quiet 100 clocks after the last work: card quiet %d idle %d, bridge %d", top->quiet_o, top->idle_o, bridge.quiet());
    }
    Run(20);
    if (!top->quiet_o) Fail("quiet fell without new work");
    Compare();
  }
  void Compare() {
    for (int i = 0; i < kRequesters; i++)
      if (std::memcmp(shadow[i].data(), memory.At(kRegionBase[i]), kRegionBytes) != 0)
        for (uint32_t b = 0; b < kRegionBytes; b++)
          if (shadow[i][b] != *memory.At(kRegionBase[i] + b))
            Fail("memory at %08x is %02x, want %02x", kRegionBase[i] + b, *memory.At(kRegionBase[i] + b), shadow[i][b]);
    if (!core_writes.empty()) Fail("%zu host writes have not reached the core", core_writes.size());
    if (!expected.empty()) Fail("%zu granted requests were not seen on the bus", expected.size());
    if (memory.open_burst()) Fail("a write burst was not ended");
    const auto& s = bus.statistics();
    CheckCount("PciMasterRead", stat_read, want_read);
    CheckCount("PciMasterWrite", stat_write, want_write);
    CheckCount("PciMasterRetry", stat_retry, want_retry);
    CheckCount("PciMasterAbort", stat_abort, want_abort);
    CheckCount("PciParityError", stat_parity, s.bad_parity + s.bridge_perr);
    CheckCount("PERR#", s.perr, want_perr);
    CheckCount("SERR#", s.serr, want_serr);
    CheckCount("PciTargetWrite", stat_target_write, core_write_count);
    CheckCount("PciTargetRead", stat_target_read, host_reads);
  }
  void CheckCount(const char* what, uint64_t got, uint64_t want) {
    if (got != want) Fail("statistics strobe %s: %" PRIu64 " pulses, want %" PRIu64, what, got, want);
  }

  // RST# at any time: the card releases the pins at once, without a clock.
  void Reset(const hvia::HostBridgeTiming& timing) {
    top->rst_ni = 0;
    top->eval();
    const hvia::PciDrive d = hvia::PciCardDrive(*top);
    if (d.oe != 0 || !d.req_n || !top->inta_n_o) Fail("RST#: lines %02x still driven, REQ# %d, INTA# %d", d.oe, d.req_n, top->inta_n_o);
    bridge = HostBridge(&memory, timing, g_bits);
    bus = PciBus(g_bits);
    for (int r = 0; r < kRequesters; r++) {
      read[r] = write[r] = Operation();
      asking[r] = 0;
      beat_shown[r] = false;
      lost[r] = 0;
      std::memcpy(shadow[r].data(), memory.At(kRegionBase[r]), kRegionBytes);
    }
    memory.Reset();
    expected.clear();
    core_writes.clear();
    reads_of.clear();
    starts.clear();
    mon_frame_n = true;
    mon_card = mon_received = mon_landed = mon_addressed = mon_host_write = mon_config_write = false;
    landed.clear();
    want_perr = want_serr = 0;
    stat_read = stat_write = stat_retry = stat_abort = stat_parity = stat_target_write = stat_target_read = 0;
    want_read = want_write = want_retry = want_abort = core_write_count = core_read_count = host_reads = 0;
    top->req_valid_i = top->wvalid_i = 0;
    for (int i = 0; i < 3; i++) unit::Clock(*top);
    top->rst_ni = 1;
  }

  // A soft reset drops requests. They must not appear on the bus.
  void Forget() { expected.clear(); }

  // Executes one host command and returns its result. The host does nothing else meanwhile.
  HostResult Host(HostCommand c) {
    c.token = ~0ull;
    direct_done = false;
    if (c.kind == HostCommand::kMemoryWrite) ExpectCore(c, direct_expect);
    bridge.Post(c);
    for (int i = 0; i < 100000; i++) {
      Step();
      if (direct_done) return direct;
    }
    Fail("host command at %08x has not ended", c.address);
  }
  uint32_t ConfigRead(size_t offset) {
    HostCommand c;
    c.kind = HostCommand::kConfigRead;
    c.address = static_cast<uint32_t>(offset);
    const HostResult r = Host(c);
    if (r.status != HostResult::kOk) Fail("configuration read of %#zx: %s", offset, hvia::HostResultStatusName(r.status));
    return r.data;
  }
  HostResult ConfigWrite(size_t offset, uint32_t data, uint8_t be = 15) {
    HostCommand c;
    c.kind = HostCommand::kConfigWrite;
    c.address = static_cast<uint32_t>(offset);
    c.data[0] = data;
    c.byte_enables[0] = be;
    return Host(c);
  }

  Rng rng;
  Memory memory;
  HostBridge bridge;
  PciBus bus;
  std::unique_ptr<Vpci_tb> top;
  Load load;
  uint8_t latency_timer = 255;
  int host_rate = 0;       // per mille per clock: a host command is posted (few pending at a time)
  int core_stall = 0;      // per mille: tgt_wready low
  int core_long_stall = 0; // per mille: for 30 clocks
  uint64_t core_stall_until = 0;
  int core_read_delay = 0; // up to this many clocks before tgt_rready
  bool quiesce = false, irq = false, booting = false;
  bool parity = false, serr = false;  // ParityResponse, SerrEnable
  uint64_t want_perr = 0, want_serr = 0, spoiled_reads = 0, spoiled_writes = 0;
  bool allow_target_abort = false;
  bool allow_host_abort = false;
  int direct_expect = HostCommand::kMaxDwords;  // dwords of Host()'s write that reach the core

  std::vector<uint8_t> shadow[kRequesters];
  Operation read[kRequesters], write[kRequesters];
  uint64_t reads_done = 0, writes_done = 0, bytes_done = 0, read_errors = 0, write_errors = 0, host_done = 0, host_aborts = 0;
  uint64_t stat_read = 0, stat_write = 0, stat_retry = 0, stat_abort = 0, stat_parity = 0, stat_target_write = 0, stat_target_read = 0;
  uint64_t want_read = 0, want_write = 0, want_retry = 0, want_abort = 0, core_write_count = 0, core_read_count = 0;
  uint64_t host_reads = 0;
  int lost[kRequesters] = {}, max_lost[kRequesters] = {};
  uint64_t max_wait[kRequesters] = {};  // clocks from a request to its last beat
  std::vector<uint64_t> starts;  // clocks of the card's address phases
  std::vector<uint64_t> doorbell_begin, core_first;  // doorbell FRAME#, first beat at the core

 private:
  // --- Requesters ---------------------------------------------------------
  void Make(int r) {
    Operation o;
    const bool is_write = load.sweep ? sweep_next / (kBytes * 512) % 2 : rng.Chance(load.write);
    if ((is_write ? write[r] : read[r]).valid) return;
    const uint32_t page = rng.Below(kRegionBytes / kPage);
    uint32_t offset, length;
    if (load.sweep) {
      if (sweep_next >= kSweep) return;
      length = 1 + sweep_next / kBytes % 512;
      offset = sweep_next % kBytes + kBytes * rng.Below((kPage - (kBytes - 1) - length) / kBytes + 1);
    } else if (load.full_bursts) {
      length = 512;
      offset = 512 * rng.Below(8);
    } else if (load.long_requests) {
      length = 512;
      offset = 1 + rng.Below(kPage - 513);
      if (offset % kBytes == 0) offset--;
    } else {
      switch (rng.Below(5)) {
        case 0: offset = rng.Below(kBytes); break;
        case 1: offset = kPage - kBytes + rng.Below(kBytes); break;
        case 2: offset = kPage - 1 - rng.Below(520); break;
        default: offset = rng.Below(kPage); break;
      }
      switch (load.short_requests ? 0 : rng.Below(4)) {
        case 0: length = 1 + rng.Below(2 * kBytes + 1); break;
        case 1: length = 512 - rng.Below(5); break;
        default: length = 1 + rng.Below(512); break;
      }
      if (offset + length > kPage) length = kPage - offset;
    }
    o.valid = true;
    o.nowhere = rng.Chance(load.nowhere);
    o.address = (o.nowhere ? kNowhere : kRegionBase[r]) + page * kPage + offset;
    o.length = length;
    if (o.Overlaps(read[r]) || o.Overlaps(write[r])) return;
    o.beats = (o.address % kBytes + length + kBytes - 1) / kBytes;
    o.issued = unit::clocks();
    if (is_write) {
      const bool holes = rng.Chance(load.holes);
      for (uint32_t b = 0; b < o.beats; b++) {
        o.data.push_back(rng.Next());
        uint8_t s = 0;
        for (uint32_t i = 0; i < kBytes; i++) {
          const uint32_t at = (o.address & ~(kBytes - 1)) + kBytes * b + i;
          if (at >= o.address && at < o.address + length) s |= 1u << i;
        }
        if (holes) s &= static_cast<uint8_t>(rng.Next());
        o.strobe.push_back(s);
      }
      write[r] = o;
    } else {
      read[r] = o;
    }
    asking[r] = is_write ? 2 : 1;
    if (load.sweep) sweep_next += sweep_stride;
  }

  void DriveRequesters() {
    // A lane of a wide Verilated port.
    auto put = [](auto& port, int lane, int width, uint32_t value) {
      for (int b = 0; b < width; b++) {
        const int bit = lane * width + b;
        uint32_t& word = reinterpret_cast<uint32_t*>(&port)[bit / 32];
        word = (word & ~(1u << bit % 32)) | ((value >> b & 1u) << bit % 32);
      }
    };
    auto put32 = [](auto& port, int lane, uint32_t value) { reinterpret_cast<uint32_t*>(&port)[lane] = value; };
    constexpr int kDwords = kBytes / 4;
    uint32_t valid = 0, is_write = 0, wvalid = 0, rready = 0;
    for (int r = 0; r < kRequesters; r++) {
      if (asking[r] == 0 && (load.active >> r & 1) && rng.Chance(load.issue)) Make(r);
      if (asking[r] != 0) {
        const Operation& o = asking[r] == 2 ? write[r] : read[r];
        valid |= 1u << r;
        is_write |= (asking[r] == 2 ? 1u : 0u) << r;
        put32(top->req_addr_i, r, o.address);
        put(top->req_len_i, r, 10, o.length);
      }
      if (rng.Chance(load.long_stall)) stalled_until[r] = unit::clocks() + 40;
      const bool stalled = unit::clocks() < stalled_until[r];
      Operation& w = write[r];
      // A shown beat stays until taken.
      if (w.valid && w.next < w.beats && (beat_shown[r] || (!stalled && !rng.Chance(load.data_idle)))) {
        wvalid |= 1u << r;
        beat_shown[r] = true;
        for (int i = 0; i < kDwords; i++) put32(top->wdata_i, r * kDwords + i, static_cast<uint32_t>(w.data[w.next] >> (32 * i)));
        put(top->wstrb_i, r, kBytes, w.strobe[w.next]);
      }
      if (!stalled && !rng.Chance(load.read_stall)) rready |= 1u << r;
    }
    uint32_t patient = 0;
    for (int r = 0; load.patience > 0 && r < kRequesters; r++)
      if (load.can_be_patient >> r & 1 && rng.Chance(load.patience)) patient |= 1u << r;
    uint32_t more = 0;
    for (int r = 0; load.more > 0 && r < kRequesters; r++)
      if (rng.Chance(load.more)) more |= 1u << r;
    top->req_valid_i = valid;
    top->req_write_i = is_write;
    top->req_low_priority_i = patient;
    top->req_more_i = more;
    top->wvalid_i = wvalid;
    top->rready_i = rready;
  }

  void Sample() {
    const uint32_t taken = top->req_valid_i & top->req_ready_o;
    if (quiesce && taken) Fail("request taken while quiesce is asserted");
    for (int r = 0; r < kRequesters; r++) {
      const uint32_t bit = 1u << r;
      if (taken & bit) {
        Operation& o = asking[r] == 2 ? write[r] : read[r];
        o.granted = true;
        expected.push_back(Expect(asking[r] == 2, o));
        expected.back().requester = r;
        asking[r] = 0;
        lost[r] = 0;
      } else if (taken != 0 && (top->req_valid_i & bit)) {
        lost[r]++;
        if (lost[r] > max_lost[r]) max_lost[r] = lost[r];
        if (lost[r] > (r == 0 ? kRequesters - 1 : 2 * kRequesters + r)) Fail("requester %d has lost %d grants in a row", r, lost[r]);
      }
      if (top->wvalid_i & top->wready_o & bit) {
        write[r].next++;
        beat_shown[r] = false;
      }
      if (top->rvalid_o & top->rready_i & bit) ReadBeat(r);
      if (top->wdone_o & bit) WriteDone(r, top->werr_o & bit);
    }
    stat_read += top->stat_pci_master_read_o;
    stat_write += top->stat_pci_master_write_o;
    stat_retry += top->stat_pci_master_retry_o;
    stat_abort += top->stat_pci_master_abort_o;
    stat_parity += top->stat_pci_parity_error_o;
    stat_target_write += top->stat_pci_target_write_o;
    stat_target_read += top->stat_pci_target_read_o;
  }

  void ReadBeat(int r) {
    Operation& o = read[r];
    if (!o.valid || !o.granted) Fail("requester %d gets a read beat without a read", r);
    const bool last = top->rlast_o, error = top->rerr_o;
    if (error && !last) Fail("rerr without rlast");
    const bool spoiled = parity && o.spoiled;
    if (last && spoiled && !error) Fail("requester %d: read of %08x with bad parity is good", r, o.address);
    if (error) {
      if (spoiled) spoiled_reads++;
      if (!o.nowhere && !allow_target_abort && !spoiled) Fail("requester %d: read of %08x failed", r, o.address);
      read_errors++;
      o.valid = false;
      return;
    }
    if (o.nowhere) Fail("requester %d: read of %08x, which has no target, returned data", r, o.address);
    const uint32_t at = (o.address & ~(kBytes - 1)) + kBytes * o.next;
    for (uint32_t i = 0; i < kBytes; i++) {
      const uint32_t a = at + i;
      if (a < o.address || a >= o.address + o.length) continue;
      const uint8_t got = static_cast<uint8_t>(uint64_t{top->rdata_o} >> (8 * i)), want = shadow[r][a - kRegionBase[r]];
      if (got != want) Fail("requester %d: read of %08x +%u: byte at %08x is %02x, want %02x", r, o.address, o.length, a, got, want);
    }
    o.next++;
    if (last != (o.next == o.beats)) Fail("requester %d: rlast %d at beat %u of %u", r, last, o.next, o.beats);
    if (last) {
      o.valid = false;
      Waited(r, o);
      reads_done++;
      bytes_done += o.length;
    }
  }

  void WriteDone(int r, bool error) {
    Operation& o = write[r];
    if (!o.valid || !o.granted) Fail("requester %d: wdone without a write", r);
    if (o.next != o.beats) Fail("requester %d: wdone after %u of %u beats", r, o.next, o.beats);
    if (error != o.nowhere && !(error && allow_target_abort)) Fail("requester %d: write to %08x: werr %d", r, o.address, error);
    // After an abort each byte is old or new, else new.
    bool old_since = false;
    for (uint32_t b = 0; b < o.beats && !o.nowhere; b++) {
      for (uint32_t i = 0; i < kBytes; i++) {
        if (!(o.strobe[b] >> i & 1)) continue;
        const uint32_t a = (o.address & ~(kBytes - 1)) + kBytes * b + i;
        const uint8_t got = *memory.At(a), fresh = static_cast<uint8_t>(o.data[b] >> (8 * i));
        uint8_t& known = shadow[r][a - kRegionBase[r]];
        if (error && got == known && got != fresh) old_since = true;
        else if (got != fresh) Fail("requester %d: write to %08x: byte at %08x is %02x, want %02x", r, o.address, a, got, fresh);
        else if (old_since && got != known) Fail("requester %d: aborted write to %08x continues at %08x", r, o.address, a);
        known = got;
      }
    }
    // Guard bytes around it
    for (uint32_t k = 1; k <= 64 && !o.nowhere; k++) {
      for (const uint32_t a : {o.address - k, o.address + o.length - 1 + k}) {
        if (a - kRegionBase[r] >= kRegionBytes) continue;
        if (*memory.At(a) != shadow[r][a - kRegionBase[r]]) Fail("requester %d: write to %08x +%u changed %08x", r, o.address, o.length, a);
      }
    }
    if (error) {
      write_errors++;
    } else {
      Waited(r, o);
      writes_done++;
      bytes_done += o.length;
    }
    o.valid = false;
  }

  void Waited(int r, const Operation& o) {
    if (unit::clocks() - o.issued > max_wait[r]) max_wait[r] = unit::clocks() - o.issued;
  }

  // --- The card as master, seen on the pins --------------------------------
  void Monitor(const PciPins& p) {
    const bool begins = mon_frame_n && !p.frame_n();
    // PAR of the clock before
    const hvia::PciDrive& d = bridge.drive();
    const bool bad = d.bad_par || (mon_wide && d.bad_par64);
    if (mon_received && bad) {
      if (parity) want_perr++;
      if (mon_card) read[expected.front().requester].spoiled = true;
      if (mon_landed) landed.back() = true;
    }
    if (mon_addressed && d.bad_par && parity && serr) want_serr++;
    mon_addressed = begins && !(hvia::PciCardDrive(*top).oe & hvia::kPciFrame);
    mon_gnt_n = p.gnt_n && mon_gnt_away;
    mon_gnt_away = p.gnt_n;
    mon_frame_n = p.frame_n();
    if (begins) {
      mon_card = (hvia::PciCardDrive(*top).oe & hvia::kPciFrame) != 0;
      mon_selected = mon_stop = mon_abort = false;
      mon_moved = 0;
      mon_received = mon_landed = false;
      mon_host_write = !mon_card && (p.cbe_n & 15) == hvia::kPciCommandMemoryWrite;
      mon_config_write = !mon_card && (p.cbe_n & 15) == hvia::kPciCommandConfigWrite;
      if (!mon_card) return;
      starts.push_back(unit::clocks());
      mon_begin = unit::clocks();
      mon_overstay = 0;
      if (expected.empty()) Fail("the card starts a transaction without a request, address %08x", static_cast<uint32_t>(p.ad));
      const Expected& e = expected.front();
      if (static_cast<uint32_t>(p.ad) != e.address) Fail("burst at %08x, want %08x", static_cast<uint32_t>(p.ad), e.address);
      const uint8_t want = e.write ? hvia::kPciCommandMemoryWrite
                           : e.dwords == 1 ? hvia::kPciCommandMemoryRead
                           : e.dwords <= 8 ? hvia::kPciCommandMemoryReadLine : hvia::kPciCommandMemoryReadMultiple;
      const uint8_t command = p.cbe_n & 15;
      if (command != want) Fail("command %s for %u dwords, want %s", hvia::PciCommandName(command), e.dwords, hvia::PciCommandName(want));
      // A 32-bit bus does not connect REQ64#.
      const bool asks = kBytes == 8 && g_bits == 64 && e.address % 8 == 0 && e.dwords > 2;
      if (p.req64_n() == asks) Fail("burst of %u dwords at %08x: REQ64# is %d", e.dwords, e.address, p.req64_n());
      return;
    }
    const bool moves = !p.irdy_n() && !p.trdy_n();
    mon_landed = mon_host_write && moves;
    mon_received = mon_landed || (mon_config_write && moves) || (mon_card && moves && !expected.front().write);
    mon_wide = mon_card && !p.ack64_n();
    if (mon_landed) landed.push_back(false);
    if (p.idle()) mon_host_write = mon_config_write = false;
    if (!mon_card) return;
    if (p.idle()) {
      mon_card = false;
      Expected& e = expected.front();
      if (mon_moved != 0) (e.write ? want_write : want_read)++;
      if (!mon_selected || mon_abort) {
        want_abort++;
        expected.pop_front();
      } else if (e.dwords == 0) {
        expected.pop_front();
      } else if (mon_stop) {
        want_retry++;
      } else {
        splits++;
      }
      return;
    }
    if (!p.devsel_n()) mon_selected = true;
    if (!p.stop_n()) mon_stop = true;
    if (!p.stop_n() && p.devsel_n() && mon_selected) mon_abort = true;
    if (!p.irdy_n() && !p.trdy_n()) {
      // GNT# is high and the latency timer has expired: this phase and at most one more.
      if (mon_gnt_n && unit::clocks() - mon_begin > latency_timer + 1u && ++mon_overstay > 2)
        Fail("burst continues %u data phases after the latency timer", mon_overstay);
      Expected& e = expected.front();
      const uint32_t dwords = p.ack64_n() ? 1 : 2;
      if (e.dwords < dwords) Fail("more dwords than requested at %08x", e.address);
      e.dwords -= dwords;
      e.address += 4 * dwords;
      mon_moved += dwords;
    }
  }

  // --- The core behind the target ------------------------------------------
  void DriveCoreRead() {
    top->tgt_rready_i = 0;
    if (!top->tgt_rvalid_o) {
      read_delay = core_read_delay ? static_cast<int>(rng.Below(static_cast<uint32_t>(core_read_delay))) : 0;
      return;
    }
    if (read_delay-- > 0) return;
    top->tgt_rready_i = 1;
    top->tgt_rdata_i = CoreValue(top->tgt_rbar_o, top->tgt_raddr_o);
  }

  void SampleCore() {
    if (top->tgt_wvalid_o && top->tgt_wready_i) {
      if (core_writes.empty()) Fail("the core gets a write that the host never made, address %05x", top->tgt_waddr_o);
      CoreWrite w = core_writes.front();
      core_writes.pop_front();
      if (landed.front() && parity) {  // no part of it may be written
        w.be = 0;
        spoiled_writes++;
      }
      landed.pop_front();
      if (w.first) core_first.push_back(unit::clocks());
      if (top->tgt_wbar_o != w.bar || top->tgt_waddr_o != w.address || top->tgt_wdata_o != w.data || top->tgt_wbe_o != w.be)
        Fail("the core gets bar %d address %05x data %08x be %x, want bar %d address %05x data %08x be %x", top->tgt_wbar_o,
             top->tgt_waddr_o, top->tgt_wdata_o, top->tgt_wbe_o, w.bar, w.address, w.data, w.be);
      core_write_count++;
    }
    if (top->tgt_rvalid_o && top->tgt_rready_i) core_read_count++;
    if (rng.Chance(host_rate) && bridge.pending() < 3) PostRandom();
  }

  void ExpectCore(const HostCommand& c, int limit) {
    for (int i = 0; i < c.count && i < limit; i++) {
      const uint32_t a = c.address + 4 * static_cast<uint32_t>(i);
      const uint8_t bar = a >= hvia::kPciBar1Base;
      core_writes.push_back({bar, a - (bar ? hvia::kPciBar1Base : hvia::kPciBar0Base), c.data[i], c.byte_enables[i], i == 0});
    }
  }

  void PostRandom() {
    HostCommand c;
    c.token = ++token;
    const uint8_t bar = static_cast<uint8_t>(rng.Below(2));
    const uint32_t base = bar ? hvia::kPciBar1Base : hvia::kPciBar0Base;
    const uint32_t size = 1u << (bar ? hvia::kPciBar1Log2 : hvia::kPciBar0Log2);
    const uint32_t kind = rng.Below(10);
    if (kind < 7) {
      c.kind = HostCommand::kMemoryWrite;
      c.count = rng.Below(3) == 0 ? 3 : 1 + static_cast<int>(rng.Below(HostCommand::kMaxDwords));
      const uint32_t room = size / 4 - static_cast<uint32_t>(c.count) + 1;
      c.address = base + 4 * (rng.Below(4) == 0 ? room - 1 : rng.Below(room));
      for (int i = 0; i < c.count; i++) {
        c.data[i] = static_cast<uint32_t>(rng.Next());
        c.byte_enables[i] = rng.Below(3) ? 15 : static_cast<uint8_t>(rng.Below(16));
      }
      ExpectCore(c, c.count);
    } else if (kind < 9) {
      c.kind = HostCommand::kMemoryRead;
      c.address = base + 4 * rng.Below(size / 4);
      c.byte_enables[0] = static_cast<uint8_t>(rng.Below(16));  // the card returns the whole dword
    } else {
      c.kind = HostCommand::kConfigRead;
      c.address = static_cast<uint32_t>(hvia::kPciConfigBar1Offset);
    }
    reads_of[c.token] = c;
    bridge.Post(c);
  }

  void TakeResults() {
    HostResult r;
    while (bridge.PopResult(&r)) {
      if (r.kind == HostCommand::kMemoryRead && r.status == HostResult::kOk) host_reads++;
      if (r.token == ~0ull) {
        direct = r;
        direct_done = true;
        continue;
      }
      const HostCommand c = reads_of.at(r.token);
      reads_of.erase(r.token);
      if (r.status != HostResult::kOk) {
        if (!allow_host_abort) Fail("host command at %08x: %s", c.address, hvia::HostResultStatusName(r.status));
        host_aborts++;
        continue;
      }
      host_done++;
      uint32_t want = r.data;
      if (c.kind == HostCommand::kMemoryRead) {
        const uint8_t bar = c.address >= hvia::kPciBar1Base;
        want = CoreValue(bar, c.address - (bar ? hvia::kPciBar1Base : hvia::kPciBar0Base));
      } else if (c.kind == HostCommand::kConfigRead) {
        want = hvia::kPciBar1Base;
      }
      if (r.data != want) Fail("host read of %08x gives %08x, want %08x", c.address, r.data, want);
      if (c.kind == HostCommand::kMemoryWrite && c.count == 3 && r.retries == 0) doorbell_begin.push_back(r.begin);
    }
  }

 public:
  static constexpr uint32_t kSweep = 2 * kBytes * 512;
  uint32_t sweep_next = 0, sweep_stride = 1;
  uint64_t splits = 0;  // bursts that the card split
  std::deque<CoreWrite> core_writes;

 private:
  int asking[kRequesters] = {};  // 1 read, 2 write
  bool beat_shown[kRequesters] = {};
  uint64_t stalled_until[kRequesters] = {};
  std::deque<Expected> expected;
  bool mon_frame_n = true, mon_card = false, mon_selected = false, mon_stop = false, mon_abort = false;
  bool mon_received = false, mon_landed = false, mon_addressed = false, mon_wide = false;  // of the clock before
  bool mon_host_write = false, mon_config_write = false;
  std::deque<bool> landed;  // host writes in flight to the core: with bad parity?
  bool mon_gnt_n = true, mon_gnt_away = true;  // GNT# high for two clocks, for one
  uint32_t mon_moved = 0, mon_overstay = 0;
  uint64_t mon_begin = 0;
  int read_delay = 0;
  uint64_t token = 0;
  std::map<uint64_t, HostCommand> reads_of;
  HostResult direct;
  bool direct_done = false;
};

using Report = std::map<std::string, uint64_t>;

void Totals(const Testbench& b, Report* report) {
  const auto& s = b.bus.statistics();
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, uint64_t>>{
           {"reads", b.reads_done}, {"writes", b.writes_done}, {"bytes", b.bytes_done}, {"read_errors", b.read_errors},
           {"write_errors", b.write_errors}, {"retries", s.retries}, {"disconnects", s.disconnects}, {"master_aborts", s.master_aborts},
           {"target_aborts", s.target_aborts}, {"bad_parity", s.bad_parity}, {"splits", b.splits}, {"wide", s.wide_transactions},
           {"narrow", s.narrow_transactions}, {"host_commands", b.host_done}, {"core_writes", b.core_write_count},
           {"core_reads", b.core_read_count}}) {
    (*report)[name] += value;
  }
}

hvia::HostBridgeNoise Noise(uint64_t seed) {
  hvia::HostBridgeNoise n;
  n.seed = seed * 77 + 5;
  n.retry = 100;
  n.disconnect = 20;
  n.wait = 60;
  n.devsel = 300;
  n.narrow = 200;
  n.grant_loss = 30;
  return n;
}

// Every alignment and length, both directions, with all legal behaviour of a bus.
void Random(uint64_t seed, uint64_t clocks, Report* report) {
  // Each piece has its own settings and starts with a reset of the card.
  const int kPieces = 6;
  for (int piece = 0; piece < kPieces; piece++) {
    Rng rng{seed * 1000 + static_cast<uint64_t>(piece)};
    hvia::HostBridgeTiming t;
    t.arbitration = 1 + static_cast<int>(rng.Below(4));
    t.devsel = 1 + static_cast<int>(rng.Below(3));
    t.read_initial = static_cast<int>(rng.Below(15));
    t.write_initial = static_cast<int>(rng.Below(8));
    t.read_wait_every = static_cast<int>(rng.Below(9));
    t.write_wait_every = static_cast<int>(rng.Below(9));
    t.wait_clocks = 1 + static_cast<int>(rng.Below(4));
    Testbench b(seed + static_cast<uint64_t>(piece), t);
    if (piece % 3 == 2) b.latency_timer = static_cast<uint8_t>(rng.Below(64));
    b.Boot(true);
    if (piece != 0) b.bridge.SetNoise(Noise(seed + static_cast<uint64_t>(piece)));
    b.load.holes = 100;
    b.load.patience = piece % 3 == 1 ? 300 : 0;
    b.load.more = piece % 3 == 1 ? 100 : 0;
    if (piece & 1) {
      b.load.issue = 50;
      b.load.data_idle = 300;
      b.load.read_stall = 300;
      b.load.long_stall = 5;
      b.core_stall = 400;
      b.core_long_stall = 10;
      b.core_read_delay = 12;
    }
    // Requests are so rare that often only a low-priority requester is active.
    if (piece == 1) b.load.issue = 2;
    b.host_rate = piece >= 4 ? 200 : 30;
    const uint64_t end = unit::clocks() + clocks / kPieces;
    while (unit::clocks() < end) {
      b.Run(1 + rng.Below(2000));
      b.irq = rng.Below(2);
      if (rng.Below(3) == 0) {
        // Soft reset: granted requests end, no other starts.
        b.quiesce = true;
        for (int i = 0; !b.top->idle_o; i++) {
          b.Step();
          if (i == 20000) Fail("quiesce: not idle after 20000 clocks");
        }
        const uint64_t before = b.starts.size();
        b.Run(50);
        if (b.starts.size() != before) Fail("quiesce: the card used the bus");
        b.quiesce = false;
        (*report)["quiesced"]++;
      }
    }
    b.Drain();
    const uint32_t command = b.ConfigRead(hvia::kPciConfigCommandOffset);
    if (command >> 16 != 1u << (hvia::kPciConfigCommandDevselTimingLsb - 16)) Fail("status register %04x after legal traffic", command >> 16);
    Totals(b, report);
  }
}

// Every alignment and every length, both directions. With `stride`, one in `stride` of these.
void Sweep(uint64_t seed, uint64_t stride, Report* report) {
  for (int noisy = 0; noisy < 2; noisy++) {
    Testbench b(seed, hvia::HostBridgeTiming());
    b.Boot(true);
    if (noisy) b.bridge.SetNoise(Noise(seed));
    b.load.sweep = true;
    b.sweep_stride = static_cast<uint32_t>(stride);
    while (b.sweep_next < Testbench::kSweep) b.Step();
    b.Drain();
    if (noisy) Totals(b, report);
  }
}

// Master and target aborts are reported to their requester and in the status register.
void Aborts(uint64_t seed, uint64_t clocks, Report* report) {
  Testbench b(seed, hvia::HostBridgeTiming());
  b.Boot(true);
  auto noise = Noise(seed);
  noise.target_abort = 100;
  b.bridge.SetNoise(noise);
  b.allow_target_abort = true;
  b.load.nowhere = 100;
  b.load.data_idle = 100;
  b.load.read_stall = 100;
  b.host_rate = 30;
  b.Run(clocks);
  b.Drain();
  b.bridge.SetNoise(hvia::HostBridgeNoise());
  const uint32_t both = hvia::kPciConfigCommandReceivedMasterAbortMask | hvia::kPciConfigCommandReceivedTargetAbortMask;
  uint32_t command = b.ConfigRead(hvia::kPciConfigCommandOffset);
  if ((command & both) != both) Fail("status register %08x after aborts", command);
  // Writing 1 clears only the written bit.
  b.ConfigWrite(hvia::kPciConfigCommandOffset, hvia::kPciConfigCommandReceivedMasterAbortMask, 12);
  command = b.ConfigRead(hvia::kPciConfigCommandOffset);
  if ((command & both) != hvia::kPciConfigCommandReceivedTargetAbortMask) Fail("status register %08x, want target abort alone", command);
  b.ConfigWrite(hvia::kPciConfigCommandOffset, hvia::kPciConfigCommandReceivedTargetAbortMask, 12);
  command = b.ConfigRead(hvia::kPciConfigCommandOffset);
  if ((command & both) != 0) Fail("status register %08x, no abort was expected", command);
  if (!(command & hvia::kPciConfigCommandMasterEnableMask)) Fail("clearing status cleared the command register: %08x", command);
  Totals(b, report);
}

// Parity errors are detected, counted and recorded. With parity response an address with an error
// is not claimed.
void Parity(uint64_t seed, uint64_t clocks, Report* report) {
  Testbench b(seed, hvia::HostBridgeTiming());
  b.Boot(false);
  auto noise = Noise(seed);
  noise.bad_parity = 50;
  b.bridge.SetNoise(noise);
  b.host_rate = 100;
  b.Run(clocks);
  b.Drain();
  b.bridge.SetNoise(hvia::HostBridgeNoise());
  uint32_t command = b.ConfigRead(hvia::kPciConfigCommandOffset);
  const uint32_t seen = hvia::kPciConfigCommandDetectedParityErrorMask | hvia::kPciConfigCommandMasterParityErrorMask |
                        hvia::kPciConfigCommandSignaledSystemErrorMask;
  if ((command & seen) != hvia::kPciConfigCommandDetectedParityErrorMask) Fail("status register %08x without parity response", command);
  b.ConfigWrite(hvia::kPciConfigCommandOffset, command | hvia::kPciConfigCommandParityResponseMask | hvia::kPciConfigCommandSerrEnableMask);
  command = b.ConfigRead(hvia::kPciConfigCommandOffset);
  if (command & seen) Fail("status register %08x after clearing", command);
  b.parity = b.serr = true;

  // Only reads of the master get bad data parity.
  noise = hvia::HostBridgeNoise();
  noise.seed = seed;
  noise.bad_parity = 200;
  b.bridge.SetNoise(noise);
  b.load.issue = 1000;
  b.load.write = 0;
  b.Run(2000);
  b.Drain();
  b.bridge.SetNoise(hvia::HostBridgeNoise());
  command = b.ConfigRead(hvia::kPciConfigCommandOffset);
  if ((command & seen) != (hvia::kPciConfigCommandDetectedParityErrorMask | hvia::kPciConfigCommandMasterParityErrorMask))
    Fail("status register %08x after reads with bad parity", command);
  b.ConfigWrite(hvia::kPciConfigCommandOffset, command);

  // PERR# for the card's writes.
  noise = hvia::HostBridgeNoise();
  noise.seed = seed;
  noise.perr = 200;
  b.bridge.SetNoise(noise);
  b.load.issue = b.load.write = 1000;
  b.Run(2000);
  b.Drain();
  b.bridge.SetNoise(hvia::HostBridgeNoise());
  command = b.ConfigRead(hvia::kPciConfigCommandOffset);
  if ((command & seen) != hvia::kPciConfigCommandMasterParityErrorMask || b.bus.statistics().bridge_perr == 0)
    Fail("status register %08x after %" PRIu64 " times PERR# for writes", command, b.bus.statistics().bridge_perr);
  b.ConfigWrite(hvia::kPciConfigCommandOffset, command);

  // Bad data in all kinds of data phases, with all other legal behaviour of a bus.
  noise = Noise(seed);
  noise.bad_data = 60;
  noise.perr = 20;
  b.bridge.SetNoise(noise);
  b.load = Load();
  b.load.data_idle = b.load.read_stall = 200;
  b.host_rate = b.core_stall = 200;
  b.core_read_delay = 12;
  b.Run(clocks);
  b.core_stall = 0;
  b.Drain();
  b.bridge.SetNoise(hvia::HostBridgeNoise());
  command = b.ConfigRead(hvia::kPciConfigCommandOffset);
  b.ConfigWrite(hvia::kPciConfigCommandOffset, command);
  (*report)["spoiled_reads"] = b.spoiled_reads;
  (*report)["spoiled_writes"] = b.spoiled_writes;

  // A configuration write with bad data changes nothing.
  HostCommand bad_write;
  bad_write.kind = HostCommand::kConfigWrite;
  bad_write.address = static_cast<uint32_t>(hvia::kPciConfigBar0Offset);
  bad_write.data[0] = 0x12340000;
  bad_write.bad_parity = 2;
  b.Host(bad_write);
  if (b.ConfigRead(hvia::kPciConfigBar0Offset) != hvia::kPciBar0Base) Fail("a configuration write with bad parity was carried out");
  command = b.ConfigRead(hvia::kPciConfigCommandOffset);
  b.ConfigWrite(hvia::kPciConfigCommandOffset, command);

  // Every PAR of the host is bad: the card does not claim its write.
  noise.bad_parity = 1000;
  b.bridge.SetNoise(noise);
  HostCommand c;
  c.address = hvia::kPciBar1Base;
  b.direct_expect = 0;
  const HostResult r = b.Host(c);
  if (r.status != HostResult::kMasterAbort) Fail("write with bad address parity: %s, want master abort", hvia::HostResultStatusName(r.status));
  b.bridge.SetNoise(hvia::HostBridgeNoise());
  command = b.ConfigRead(hvia::kPciConfigCommandOffset);
  if ((command & seen) != (hvia::kPciConfigCommandDetectedParityErrorMask | hvia::kPciConfigCommandSignaledSystemErrorMask))
    Fail("status register %08x after an address parity error", command);
  if (b.bus.statistics().serr == 0) Fail("no SERR# for an address parity error");
  b.ConfigWrite(hvia::kPciConfigCommandOffset, command & ~hvia::kPciConfigCommandSerrEnableMask);
  b.serr = false;
  c.bad_parity = 1;
  if (b.Host(c).status != HostResult::kMasterAbort) Fail("a second write with bad address parity is claimed");
  command = b.ConfigRead(hvia::kPciConfigCommandOffset);
  if ((command & seen) != hvia::kPciConfigCommandDetectedParityErrorMask) Fail("status register %08x without SerrEnable", command);
  b.Compare();
  Totals(b, report);
}

// Cases with exactly one right result.
void Directed(uint64_t seed, uint64_t, Report* report) {
  Testbench b(seed, hvia::HostBridgeTiming());
  // Before memory is enabled only configuration space answers.
  HostCommand c;
  c.kind = HostCommand::kMemoryRead;
  c.address = hvia::kPciBar0Base;
  HostResult r = b.Host(c);
  if (r.status != HostResult::kMasterAbort) Fail("memory read before the card is enabled: %s", hvia::HostResultStatusName(r.status));
  // Before BusMaster is set the card does not become master.
  b.load.issue = 1000;
  b.Run(200);
  if (!b.starts.empty()) Fail("the card is master before it may be");
  b.Boot(true);
  b.Run(2000);
  b.Drain();

  // The fields of the header.
  const std::pair<size_t, uint32_t> header[] = {
      {hvia::kPciConfigIDOffset, hvia::kPciVendorID | hvia::kPciDeviceID << 16},
      {hvia::kPciConfigClassOffset, hvia::kPciRevisionID | hvia::kPciClassCode << 8},
      {hvia::kPciConfigHeaderOffset, 255u << 8},
      {hvia::kPciConfigBar0Offset, hvia::kPciBar0Base},
      {hvia::kPciConfigBar1Offset, hvia::kPciBar1Base},
      {hvia::kPciConfigSubsystemOffset, hvia::kPciSubsystemVendorID | hvia::kPciSubsystemID << 16},
      {hvia::kPciConfigInterruptOffset, 11u | hvia::kPciInterruptPin << 8 | hvia::kPciMinGnt << 16 | hvia::kPciMaxLat << 24},
      {0x18, 0}, {0x28, 0}, {0x34, 0}, {0x40, 0}, {0xfc, 0}};
  for (const auto& h : header) {
    const uint32_t got = b.ConfigRead(h.first);
    if (got != h.second) Fail("configuration %#zx reads %08x, want %08x", h.first, got, h.second);
  }
  // Read-only fields do not change. Byte enables are obeyed.
  b.ConfigWrite(hvia::kPciConfigIDOffset, 0xffffffff);
  b.ConfigWrite(hvia::kPciConfigInterruptOffset, 0xffffffff, 0xe);
  if (b.ConfigRead(hvia::kPciConfigIDOffset) != header[0].second) Fail("identification could be written");
  if (b.ConfigRead(hvia::kPciConfigInterruptOffset) != header[6].second) Fail("byte enables of a configuration write ignored");

  // The device has no other functions.
  c.kind = HostCommand::kConfigRead;
  c.address = 0x100;
  r = b.Host(c);
  if (r.status != HostResult::kMasterAbort) Fail("configuration read of function 1: %s", hvia::HostResultStatusName(r.status));

  // A burst beyond the end of the registers is disconnected there.
  c = HostCommand();
  c.address = hvia::kPciBar0Base + 0x10000 - 8;
  c.count = 4;
  for (int i = 0; i < 4; i++) c.data[i] = 0xa0u + static_cast<uint32_t>(i);
  b.direct_expect = 2;
  r = b.Host(c);
  if (r.status != HostResult::kMasterAbort || r.disconnects != 1) Fail("burst over the end of BAR 0: %s, %d disconnects", hvia::HostResultStatusName(r.status), r.disconnects);
  b.direct_expect = HostCommand::kMaxDwords;
  b.Drain();

  // Doorbell bursts at full speed, complete and not, on an idle card.
  for (int n = 1; n <= 8; n++) {
    c.address = hvia::kPciBar1Base + 0x7000;
    c.count = n;
    const uint64_t writes = b.core_write_count;
    r = b.Host(c);
    b.Run(8);
    if (r.status != HostResult::kOk || r.retries + r.disconnects != 0) Fail("doorbell of %d dwords was not one burst", n);
    // Address phase, one clock of decode, then a dword per clock.
    if (r.done - r.begin != static_cast<uint64_t>(n) + 2) Fail("doorbell of %d dwords takes %" PRIu64 " clocks, want %d", n, r.done - r.begin, n + 2);
    if (b.core_write_count != writes + static_cast<uint64_t>(n)) Fail("doorbell of %d dwords: %" PRIu64 " writes", n, b.core_write_count - writes);
    if (n == 3) (*report)["doorbell_clocks"] = r.done - r.begin;
    if (n == 3) (*report)["doorbell_to_core_clocks"] = b.core_first.back() - r.begin;
  }
  // A stalled core: the burst is disconnected, retried, and completes in order.
  b.core_stall = 1000;
  b.direct_expect = HostCommand::kMaxDwords;
  for (int k = 0; k < 3; k++) {
    HostCommand w;
    w.address = hvia::kPciBar1Base + 0x100u * static_cast<uint32_t>(k);
    w.count = 8;
    w.token = ~0ull;
    for (int i = 0; i < 8; i++) w.data[i] = static_cast<uint32_t>(1000 * k + i);
    for (int i = 0; i < 8; i++) {
      const uint32_t a = w.address + 4 * static_cast<uint32_t>(i);
      b.core_writes.push_back({1, a - hvia::kPciBar1Base, w.data[i], 15, i == 0});
    }
    b.bridge.Post(w);
  }
  b.Run(300);
  b.core_stall = 0;
  b.Drain();
  if (b.bus.statistics().retries == 0 || b.bus.statistics().disconnects == 0) Fail("a stalled core must cause disconnects and retries");
  // A read must not pass the writes before it.
  b.core_stall = 1000;
  c.address = hvia::kPciBar1Base;
  c.count = 2;
  b.Host(c);
  HostCommand rd;
  rd.kind = HostCommand::kMemoryRead;
  rd.address = hvia::kPciBar0Base + 0x24;
  rd.token = ~0ull;
  b.bridge.Post(rd);
  const uint64_t before = b.core_read_count;
  b.Run(200);
  if (b.core_read_count != before) Fail("a read passed posted writes");
  b.core_stall = 0;
  b.Drain();
  if (b.core_read_count != before + 1) Fail("the read after posted writes was lost");
  Totals(b, report);
}

// All requesters issue continuously: first short requests, for many grants, then the longest ones,
// while the host uses the bus whenever it may.
void Fairness(uint64_t seed, uint64_t clocks, Report* report) {
  int lost[kRequesters] = {};
  uint64_t wait[kRequesters] = {}, turn = 0;
  // Short requests with low priority for the last requester; short ones; the longest.
  for (int pass = 0; pass < 3; pass++) {
    const bool longest = pass == 2;
    unit::clocks() = 0;
    Testbench b(seed, longest ? hvia::HostBridgeTimingOf(hvia::kProfiles[0]) : hvia::HostBridgeTiming());
    b.Boot(true);
    b.load.short_requests = !longest;
    b.load.long_requests = longest;
    if (pass == 0) {
      b.load.patience = 1000;
      b.load.can_be_patient = 1u << (kRequesters - 1);
    }
    b.host_rate = longest ? 1000 : 0;
    b.core_read_delay = longest ? 12 : 0;
    b.Run(clocks / 3);
    if (pass == 0) (*report)["max_lost_patient"] = static_cast<uint64_t>(b.max_lost[kRequesters - 1]);
    for (int r = 0; r < kRequesters; r++) {
      lost[r] = std::max(lost[r], b.max_lost[r]);
      if (longest) wait[r] = b.max_wait[r];
    }
    for (size_t i = 1; longest && i < b.starts.size(); i++) turn = std::max(turn, b.starts[i] - b.starts[i - 1]);
    b.Drain();
    if (longest) Totals(b, report);
  }
  (*report)["max_turn"] = turn;
  (*report)["max_lost_last"] = static_cast<uint64_t>(lost[kRequesters - 1]);
  for (int r = 0; r < kRequesters; r++) {
    (*report)["max_lost_" + std::to_string(r)] = static_cast<uint64_t>(lost[r]);
    (*report)["max_wait_" + std::to_string(r)] = wait[r];
  }
}

// A soft reset with BusMaster off, in either order and with BusMaster back before its end. The wait
// for the bus ends within a bound. Pending requests end in errors and never reach the bus.
void BusMasterOff(uint64_t seed, uint64_t clocks, Report* report) {
  constexpr int kTimes = 60;
  // Two requests of 512 unaligned bytes, a beat per clock. Requesters that pause take longer.
  constexpr uint64_t kLimit = 2 * (512 / kBytes + 1) + 16;
  Testbench b(seed, hvia::HostBridgeTiming());
  b.Boot(true);
  b.bridge.SetNoise(Noise(seed));
  b.allow_target_abort = true;  // errors that the bus does not show
  uint64_t dropped = 0, longest = 0;
  const auto on_bus = [&b] { return b.top->frame_n_oe || b.top->irdy_n_oe; };
  for (int k = 0; k < kTimes; k++) {
    const bool pauses = k % 2 != 0, quiesce_first = b.rng.Below(2), back_early = b.rng.Below(2);
    b.load.issue = pauses ? 100 : 1000;
    b.load.data_idle = b.load.read_stall = pauses ? 300 : 0;
    b.Run(1 + b.rng.Below(static_cast<uint32_t>(clocks / kTimes)));
    const uint32_t command = b.ConfigRead(hvia::kPciConfigCommandOffset) & 0xffff;
    b.quiesce = quiesce_first;
    if (quiesce_first) b.Run(b.rng.Below(4));
    b.ConfigWrite(hvia::kPciConfigCommandOffset, command & ~hvia::kPciConfigCommandMasterEnableMask, 3);
    const size_t begun = b.starts.size();
    if (!quiesce_first) b.Run(b.rng.Below(100));
    if (on_bus()) Fail("the card is on the bus with BusMaster off");
    b.quiesce = true;
    const uint64_t errors = b.read_errors + b.write_errors, at = unit::clocks();
    bool back = false;
    while (!b.top->idle_o) {
      b.Step();
      if (back_early && !back && b.rng.Below(8) == 0) {
        b.ConfigWrite(hvia::kPciConfigCommandOffset, command, 3);
        back = true;
      }
      if (unit::clocks() - at > 20 * kLimit) Fail("soft reset with BusMaster off: not idle after %" PRIu64 " clocks", unit::clocks() - at);
    }
    if (!pauses) longest = std::max(longest, unit::clocks() - at);
    dropped += b.read_errors + b.write_errors - errors;
    b.Forget();
    b.ConfigWrite(hvia::kPciConfigCommandOffset, command, 3);
    b.Run(50);
    if (b.starts.size() != begun) Fail("the card used the bus with BusMaster off or in a soft reset");
    b.quiesce = false;  // later transactions must belong to later requests
  }
  b.load.data_idle = b.load.read_stall = 0;
  b.Run(2000);
  b.Drain();
  if (longest > kLimit) Fail("soft reset with BusMaster off: idle after %" PRIu64 " clocks, want %" PRIu64, longest, kLimit);
  Totals(b, report);
  (*report)["dropped"] = dropped;
  (*report)["longest"] = longest;
}

// RST# at any moment of heavy traffic. Afterwards the card starts as if new.
void Reset(uint64_t seed, uint64_t clocks, Report* report) {
  const hvia::HostBridgeTiming t;
  Testbench b(seed, t);
  const int kTimes = 30;
  int on_bus = 0;
  for (int k = 0; k < kTimes; k++) {
    const Load load = b.load;
    b.load.issue = 0;
    b.Boot(true);
    b.load = load;
    b.host_rate = 100;
    b.Run(200 + b.rng.Below(static_cast<uint32_t>(clocks / kTimes)));
    if (b.top->frame_n_oe || b.top->devsel_n_oe) on_bus++;
    b.Reset(t);
    b.host_rate = 0;
    if (b.ConfigRead(hvia::kPciConfigBar1Offset) != 0) Fail("BAR 1 survives RST#");
  }
  b.load.issue = 0;
  b.Boot(true);
  b.load.issue = 1000;
  b.Run(5000);
  b.Drain();
  (*report)["resets"] = kTimes;
  (*report)["resets_on_bus"] = static_cast<uint64_t>(on_bus);
}

uint64_t Steady(const std::vector<uint64_t>& starts) {
  if (starts.size() < 12) Fail("only %zu bursts", starts.size());
  const uint64_t gap = starts[11] - starts[10];
  for (size_t i = 5; i < 12; i++)
    if (starts[i] - starts[i - 1] != gap) Fail("bursts are not evenly spaced: %" PRIu64 " and %" PRIu64 " clocks", starts[i] - starts[i - 1], gap);
  return gap;
}

// 512-byte bursts back to back, memory without wait states.
void Speed(uint64_t seed, uint64_t, Report* report) {
  hvia::HostBridgeTiming t;
  t.read_initial = t.write_initial = 2;
  for (int is_write = 0; is_write < 2; is_write++) {
    for (int requesters = 1; requesters <= 2; requesters++) {
      unit::clocks() = 0;
      Testbench b(seed, t);
      b.load.issue = 0;
      b.Boot(true);
      b.load.issue = 1000;
      b.load.full_bursts = true;
      b.load.write = 1000 * is_write;
      b.load.active = requesters == 1 ? 1 : 3;
      b.Run(4000);
      const uint64_t gap = Steady(b.starts);
      (*report)[(is_write ? "write_512_clocks_" : "read_512_clocks_") + std::to_string(requesters)] = gap;
      b.Drain();
    }
    // One dword on an idle bus, from its request to its end.
    Testbench b(seed, t);
    b.load.issue = 0;
    b.Boot(true);
    b.load.short_requests = true;
    b.load.active = 1;
    b.load.write = 1000 * is_write;
    uint64_t best = ~0ull;
    for (int k = 0; k < 50; k++) {
      b.load.issue = 1000;
      const uint64_t at = unit::clocks();
      b.Step();
      b.load.issue = 0;
      Operation& o = is_write ? b.write[0] : b.read[0];
      while (o.valid) b.Step();
      if (o.beats == 1 && unit::clocks() - at < best) best = unit::clocks() - at;
      b.Run(20);
    }
    (*report)[is_write ? "write_dword_clocks" : "read_dword_clocks"] = best;
    b.Drain();
  }
  // The time of the idle models, which run in the simulator's inner loop.
  Memory memory;
  HostBridge bridge(&memory, t, g_bits);
  PciBus bus(g_bits);
  hvia::PciDrive card;
  const auto begin = std::chrono::steady_clock::now();
  constexpr int kTicks = 2000000;
  for (int i = 0; i < kTicks; i++) bridge.Tick(bus.Clock(card, bridge.drive(), bridge.gnt_n(), bridge.idsel()));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::fprintf(stderr, "idle models: %.1f M ticks/s (wall clock)\n", kTicks / seconds / 1e6);
  if (!bridge.quiet()) Fail("the idle bridge is not quiet");
}

// A core that exceeds its limit of 12 clocks: the host's read is retried and the late answer
// dropped. Nothing hangs, and later reads are right. Requires a build without assertions.
void LateCore(uint64_t seed, uint64_t clocks, Report* report) {
  Testbench b(seed, hvia::HostBridgeTiming());
  b.Boot(true);
  b.core_read_delay = 60;
  b.host_rate = 100;
  b.Run(clocks);
  b.core_read_delay = 0;
  b.Drain();
  if (b.bus.statistics().retries == 0) Fail("a late core must cause retries");
  Totals(b, report);
}

}  // namespace

int main(int argc, char** argv) {
  unit::Start(argc, argv);
  const auto argument = [](const char* name) {
    const std::string text = Verilated::commandArgsPlusMatch(name);
    return text.substr(text.find('=') + 1);
  };
  g_bits = std::stoi(argument("bits="));
  const std::map<std::string, void (*)(uint64_t, uint64_t, Report*)> scenarios = {
      {"random", Random}, {"sweep", Sweep}, {"aborts", Aborts}, {"parity", Parity}, {"directed", Directed},
      {"fairness", Fairness}, {"reset", Reset}, {"speed", Speed}, {"latecore", LateCore},
      {"busmaster", BusMasterOff}};
  Report report;
  scenarios.at(argument("scenario="))(unit::options().seed, unit::options().size, &report);
  return unit::Pass(report);
}
