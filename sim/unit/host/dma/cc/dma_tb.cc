// SPDX-License-Identifier: Apache-2.0

// Testbench of dma_read and dma_write: every difficult alignment and length, then random jobs, on
// scattered pages, with guard bytes, rejected translations and bus errors.
#include <algorithm>
#include <memory>

#include "Vdma_tb.h"
#include "sim/unit/internal/unit/testbench.h"
#include "sim/unit/internal/unit/neighbours.h"
#include "sim/gen/hvia_params.h"

using unit::Fail;
using unit::kPage;
using unit::Region;
using unit::Traffic;

namespace {

constexpr unsigned kBytes = TB_W / 8;
constexpr uint32_t kPages = 128;
const uint32_t kShort = hvia::kProfiles[0].ShortBurstBytes;

struct Job {
  bool physical = false;
  uint32_t handle = 0;
  uint64_t va = 0;
  uint16_t len = 0;
  uint32_t bound = 0;
  uint16_t tag = 0;
  uint8_t access = 0;
};

class Testbench {
 public:
  explicit Testbench(uint64_t seed)
      : rng(seed), memory(kPages, &rng), shadow(memory.bytes), pool(0, kPages, &rng), rbus(&memory, &rng, TB_MaxOutstanding),
        wbus(&memory, &rng, TB_MaxOutstanding), ratt(&rng), watt(&rng), top(new Vdma_tb) {
    // Three regions: one page, a few pages, and one at the top of the address space.
    Add(0x100001, pool.Make(0x7fff12345100ull, 3000, 7, true));
    Add(0x200002, pool.Make(0x400000000fffull, 5 * kPage, 7, true));
    Add(0x300003, pool.Make(~0ull - 3 * kPage + 1, 3 * kPage, 9, true));
    Add(0x400004, pool.Make(0x10000, 16 * kPage, 7, true));
    Add(0x500005, pool.Make(0x900000, 2 * kPage, 7, false));
    plain = pool.Take();
    top->rst_ni = 0;
    top->no_overlap_i = top->short_bursts_i = 0;
    Idle();
    for (int i = 0; i < 4; i++) Clock();
    top->rst_ni = 1;
    for (int i = 0; i < 4; i++) Clock();
  }

  void Add(uint32_t handle, Region r) {
    ratt.regions[handle] = r;
    watt.regions[handle] = r;
  }

  void Idle() {
    top->r_job_valid_i = top->w_job_valid_i = 0;
    top->w_beat_valid_i = 0;
  }

  // Checks that with the strap a page is translated only after all earlier bytes have moved.
  void Asked(const Job& j, uint64_t va, uint64_t moved, bool idle, bool errors) {
    const bool beside = va != j.va && (va - j.va != moved || !idle);
    if (beside && top->no_overlap_i && !errors) {
      Fail("page %" PRIx64 " of a job at %" PRIx64 " is requested when %" PRIu64 " bytes have moved", va, j.va, moved);
    }
    asked[va == j.va ? 0 : beside ? 2 : 1]++;
  }

  void Drive(Traffic t) {
    rbus.Drive(t);
    wbus.Drive(t);
    ratt.Drive(t);
    watt.Drive(t);
    top->r_req_ready_i = rbus.req_ready;
    rbus.Show(*top);
    top->w_req_ready_i = wbus.req_ready;
    wbus.Show(*top);
    top->r_att_req_ready_i = ratt.req_ready;
    top->r_att_rsp_valid_i = ratt.rsp_valid;
    top->r_att_rsp_err_i = ratt.rsp_err;
    top->r_att_rsp_pa_i = ratt.rsp_pa;
    top->r_att_rsp_bytes_i = ratt.rsp_bytes;
    top->w_att_req_ready_i = watt.req_ready;
    top->w_att_rsp_valid_i = watt.rsp_valid;
    top->w_att_rsp_err_i = watt.rsp_err;
    top->w_att_rsp_pa_i = watt.rsp_pa;
    top->w_att_rsp_bytes_i = watt.rsp_bytes;
    top->clk_i = 0;
    top->eval();
  }

  // Checks that with the strap bursts are short. Only those at the ends of a page's part are
  // shorter.
  void Cut(bool valid, uint32_t addr, uint32_t len) {
    if (!valid || !top->short_bursts_i) return;
    if (addr % kBytes + len > kShort) Fail("a burst of %u bytes at %08x", len, addr);
    if (addr % kBytes + len < kShort) cut_short++;
    else whole_short++;
  }

  void Edge() {
    Cut(top->r_req_valid_o && rbus.req_ready, top->r_req_addr_o, top->r_req_len_o);
    Cut(top->w_req_valid_o && wbus.req_ready, top->w_req_addr_o, top->w_req_len_o);
    rbus.Sample(top->r_req_valid_o, top->r_req_addr_o, top->r_req_len_o, top->rready_o);
    wbus.Sample(top->w_req_valid_o, top->w_req_addr_o, top->w_req_len_o, top->wvalid_o, top->wdata_o, top->wstrb_o);
    ratt.Sample(top->r_att_req_valid_o, top->r_att_req_handle_o, top->r_att_req_va_o, top->r_att_req_len_o,
                top->r_att_req_tag_o, top->r_att_req_access_o);
    watt.Sample(top->w_att_req_valid_o, top->w_att_req_handle_o, top->w_att_req_va_o, top->w_att_req_len_o,
                top->w_att_req_tag_o, top->w_att_req_access_o);
    top->clk_i = 1;
    top->eval();
    unit::clocks()++;
  }

  void Clock() {
    Drive({0, 0});
    Edge();
  }

  void Offer(const Job& j) {
    top->job_physical_i = j.physical;
    top->job_handle_i = j.handle;
    top->job_va_i = j.va;
    top->job_len_i = j.len;
    top->job_bound_i = j.bound;
    top->job_tag_i = j.tag;
    top->job_access_i = j.access;
  }

  void SetOverlap(bool overlap) { top->no_overlap_i = !overlap; }
  void SetShort(bool bursts) { top->short_bursts_i = bursts; }

  // After the job was accepted its inputs mean nothing.
  void Scramble() {
    top->job_physical_i = rng.Bits(1);
    top->job_handle_i = rng.Bits(32);
    top->job_va_i = rng.Next();
    top->job_len_i = rng.Bits(16);
    top->job_bound_i = rng.Bits(32);
    top->job_tag_i = rng.Bits(16);
    top->job_access_i = rng.Bits(2);
  }

  uint32_t Physical(const Job& j, uint32_t i) const {
    return j.physical ? static_cast<uint32_t>(j.va) + i : ratt.regions.at(j.handle).Physical(j.va + i);
  }

  // Number of pages of the job.
  unsigned Parts(const Job& j) const { return j.len == 0 ? 0 : (j.va % kPage + j.len - 1) / kPage + 1; }

  uint8_t Verdict(const Job& j, const unit::AttPort& att) const {
    if (j.physical) return hvia::kAttErrorNone;
    return unit::AttPort::Check(att.regions, j.handle, j.va, j.len == 0 ? 0 : j.bound, j.tag, j.access);
  }

  uint64_t Read(const Job& j, Traffic t, unsigned bus_fault, unsigned att_fault) {
    rbus.fail_in = bus_fault;
    ratt.fail_in = att_fault;
    ratt.fail_with = rng.Chance(1, 4) ? hvia::kAttErrorBackend : rng.Range(1, 4);
    const uint64_t errors = rbus.errors, injected = ratt.injected, begin = unit::clocks();
    const uint8_t verdict = Verdict(j, ratt);
    std::vector<uint8_t> got;
    bool taken = false, done = false, last = false;
    unsigned translated = 0;
    while (!done) {
      if (unit::clocks() - begin > 40000) Fail("read of %u bytes at %" PRIx64 " does not end", j.len, j.va);
      top->r_job_valid_i = !taken;
      if (!taken) Offer(j);
      else Scramble();
      top->r_beat_ready_i = !rng.Chance(t.pressure, 4);
      Drive(t);
      if (!taken) {
        if (!top->r_job_ready_o) Fail("a read engine at rest takes no job");
        taken = true;
      }
      if (top->r_beat_valid_o && top->r_beat_ready_i) {
        if (last) Fail("a beat after the last one");
        for (unsigned i = 0; i < top->r_beat_bytes_o; i++) {
          got.push_back(static_cast<uint64_t>(top->r_beat_data_o) >> (8 * (top->r_beat_offset_o + i)));
        }
        last = top->r_beat_last_o;
      }
      if (top->r_att_req_valid_o) Asked(j, top->r_att_req_va_o, got.size(), true, rbus.errors != errors);
      translated += top->r_job_translated_o;
      if (top->r_quiet_o) Fail("quiet during a read");
      done = top->r_job_done_o;
      uint8_t err = top->r_job_err_o;
      Edge();
      if (!done) continue;
      uint8_t want = verdict;
      if (want == hvia::kAttErrorNone && rbus.errors != errors) want = hvia::kAttErrorBackend;
      if (ratt.injected != injected) want = ratt.fail_with;
      if (err != want) Fail("read of %u bytes at %" PRIx64 " ended with error %u, want %u", j.len, j.va, err, want);
      if (last != (err == 0)) Fail("read ended with error %u, last beat %d", err, last);
      if (last && got.size() != j.len) Fail("read of %u bytes gave %zu", j.len, got.size());
      if (got.size() > j.len) Fail("read of %u bytes gave %zu", j.len, got.size());
      if (translated > 1 || (err == 0 && translated != 1)) Fail("%u first translations", translated);
      for (size_t i = 0; i < got.size(); i++) {
        uint8_t b = memory.bytes[Physical(j, i)];
        if (got[i] != b) Fail("byte %zu of a read of %u at %" PRIx64 " is %02x, want %02x", i, j.len, j.va, got[i], b);
      }
      outcomes[err]++;
    }
    Settle();
    if (!top->r_quiet_o) Fail("not quiet after a read");
    reads++;
    bytes += got.size();
    return unit::clocks() - begin;
  }

  uint64_t Write(const Job& j, Traffic t, unsigned bus_fault, unsigned att_fault, bool dense = false) {
    wbus.fail_in = bus_fault;
    watt.fail_in = att_fault;
    watt.fail_with = rng.Chance(1, 4) ? hvia::kAttErrorBackend : rng.Range(1, 4);
    const uint64_t errors = wbus.errors, injected = watt.injected, begin = unit::clocks(), before = memory.written;
    const uint8_t verdict = Verdict(j, watt);
    // The job's data, and its beats: any offset in the first beat, some beats not full.
    std::vector<uint8_t> data(j.len);
    for (auto& b : data) b = rng.Next();
    struct Beat {
      uint64_t data;
      unsigned offset, bytes;
    };
    std::vector<Beat> beats;
    const bool ragged = !dense && rng.Chance(1, 4), open_end = rng.Bits(1);
    for (size_t at = 0; at < data.size();) {
      Beat b{rng.Next(), 0, 0};
      b.offset = at == 0 || ragged ? rng.Below(kBytes) : 0;
      b.bytes = kBytes - b.offset;
      if (ragged) b.bytes = rng.Below(b.bytes + 1);
      // A last beat may exceed the job by a frame's padding.
      size_t n = std::min<size_t>(b.bytes, data.size() - at);
      if (!open_end) b.bytes = n;
      for (size_t i = 0; i < n; i++) {
        unsigned lane = 8 * (b.offset + i);
        b.data = (b.data & ~(0xffull << lane)) | static_cast<uint64_t>(data[at + i]) << lane;
      }
      at += n;
      beats.push_back(b);
    }
    size_t in = 0;
    bool taken = false, done = false, offered = false;
    while (!done) {
      if (unit::clocks() - begin > 40000) Fail("write of %u bytes at %" PRIx64 " does not end", j.len, j.va);
      top->w_job_valid_i = !taken;
      if (!taken) Offer(j);
      else Scramble();
      if (!offered) offered = in < beats.size() && !rng.Chance(t.idle, 4);
      top->w_beat_valid_i = offered;
      if (offered) {
        top->w_beat_data_i = beats[in].data;
        top->w_beat_offset_i = beats[in].offset;
        top->w_beat_bytes_i = beats[in].bytes;
      } else {
        top->w_beat_data_i = rng.Next();
        top->w_beat_offset_i = 0;
        top->w_beat_bytes_i = rng.Below(kBytes + 1);
      }
      Drive(t);
      if (!taken) {
        if (!top->w_job_ready_o) Fail("a write engine at rest takes no job");
        taken = true;
      }
      if (offered && top->w_beat_ready_o) {
        in++;
        offered = false;
      }
      if (top->w_att_req_valid_o) {
        Asked(j, top->w_att_req_va_o, memory.written - before, wbus.Idle(), wbus.errors != errors);
      }
      if (top->w_quiet_o) Fail("quiet during a write");
      done = top->w_job_done_o;
      uint8_t err = top->w_job_err_o;
      Edge();
      if (!done) continue;
      // The job may end in the clock of the bus's last answer, not before.
      if (!wbus.Idle()) Fail("write ended before the bus was done");
      uint8_t want = verdict;
      if (want == hvia::kAttErrorNone && wbus.errors != errors) want = hvia::kAttErrorBackend;
      if (watt.injected != injected) want = watt.fail_with;
      if (err != want) Fail("write of %u bytes at %" PRIx64 " ended with error %u, want %u", j.len, j.va, err, want);
      if (err != 0 && Parts(j) <= 1 && wbus.errors == errors && memory.written != before) {
        Fail("a rejected write of %u bytes at %" PRIx64 " wrote", j.len, j.va);
      }
      if (verdict != 0 && memory.written != before) Fail("a write beyond its bound wrote");
      if (err == 0 && memory.written - before != j.len) Fail("a write of %u bytes wrote %" PRIu64, j.len, memory.written - before);
      // Written data must be right, and complete if the job succeeded. Nothing else may change.
      for (size_t i = 0; i < data.size() && verdict == 0; i++) {
        uint32_t pa = Physical(j, i);
        if (err == 0 || memory.bytes[pa] == data[i]) shadow[pa] = data[i];
      }
      Compare(j);
      outcomes[err]++;
    }
    top->w_beat_valid_i = 0;
    Settle();
    if (!top->w_quiet_o) Fail("not quiet after a write");
    writes++;
    bytes += data.size();
    return unit::clocks() - begin;
  }

  // Compares all of memory, also outside of the jobs.
  void Compare(const Job& j) {
    if (shadow == memory.bytes) return;
    auto m = std::mismatch(shadow.begin(), shadow.end(), memory.bytes.begin());
    Fail("host address %08zx is %02x, want %02x after a write of %u bytes at %" PRIx64, m.first - shadow.begin(),
         *m.second, *m.first, j.len, j.va);
  }

  // The table's answer for an abandoned job may still be in flight.
  void Settle() {
    Idle();
    rbus.fail_in = wbus.fail_in = ratt.fail_in = watt.fail_in = 0;
    for (int i = 0; i < 40 && !(top->r_quiet_o && top->w_quiet_o); i++) Clock();
    Clock();
  }

  Job RandomJob() {
    Job j;
    if (rng.Chance(1, 8)) {
      j.physical = true;
      j.len = rng.Range(1, 1514);
      j.va = plain + rng.Below(kPage - j.len);
      j.bound = j.len;
      return j;
    }
    auto it = ratt.regions.begin();
    std::advance(it, rng.Below(ratt.regions.size()));
    const Region& r = it->second;
    j.handle = it->first;
    j.tag = r.tag;
    j.access = rng.Chance(1, 4) ? hvia::kAttAccessRemoteWrite : hvia::kAttAccessLocal;
    j.len = rng.Range(1, rng.Bits(1) ? 64 : 1514);
    j.len = std::min<uint64_t>(j.len, r.len);
    uint64_t room = r.len - j.len;
    j.va = r.va + rng.Below(room + 1);
    if (rng.Chance(1, 3)) {  // near the end of a page
      uint64_t edge = (r.va / kPage + 1 + rng.Below(r.pages.size())) * kPage - rng.Range(1, 8);
      if (r.Contains(edge, j.len)) j.va = edge;
    }
    j.bound = j.len + rng.Below(r.va + r.len - j.va - j.len + 1);
    switch (rng.Below(16)) {
      case 0: j.tag++; break;
      case 1: j.handle ^= 1u << rng.Below(32); break;
      case 2: j.bound = r.va + r.len - j.va + 1; break;
      case 3: j.bound += 1u << rng.Range(20, 30); break;
      default: break;
    }
    return j;
  }

  unit::Rng rng;
  unit::Memory memory;
  std::vector<uint8_t> shadow;
  unit::PagePool pool;
  unit::ReadBus<kBytes> rbus;
  unit::WriteBus<kBytes> wbus;
  unit::AttPort ratt, watt;
  uint32_t plain = 0;
  uint64_t reads = 0, writes = 0, bytes = 0, cut_short = 0, whole_short = 0;
  uint64_t outcomes[8] = {};
  // clocks with a translation request for: the first page; a later one, all earlier bytes moved; a
  // later one, during a transfer
  uint64_t asked[3] = {};

 private:
  std::unique_ptr<Vdma_tb> top;
};

}  // namespace

int main(int argc, char** argv) {
  unit::Start(argc, argv, 0);
  Testbench b(unit::options().seed);

  // Every difficult offset and length.
  const Region& big = b.ratt.regions.at(0x400004);
  unsigned turn = 0;
  for (uint32_t offset : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 511u, 512u, 513u, 4088u, 4089u, 4090u, 4091u, 4092u, 4093u, 4094u, 4095u}) {
    for (uint16_t len : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 510, 511, 512, 513, 514, 1023, 1024, 1025, 1471, 1472, 1514}) {
      Job j;
      j.handle = 0x400004;
      j.tag = big.tag;
      j.va = big.va + (1 + b.rng.Below(13)) * kPage + offset;
      j.len = len;
      j.bound = len;
      b.Read(j, unit::kTraffic[turn % 5], 0, 0);
      b.Write(j, unit::kTraffic[turn % 5], 0, 0);
      turn++;
    }
  }
  // A check without a write.
  for (uint32_t handle : {0x400004u, 0x400005u, 0x500005u}) {
    Job j;
    j.handle = handle;
    j.tag = big.tag;
    j.access = hvia::kAttAccessRemoteWrite;
    j.va = b.rng.Next();
    b.Write(j, {0, 0}, 0, 0);
  }
  // Speed with neighbours that never wait: a beat per clock inside a burst.
  uint64_t read_clocks = 0, write_clocks = 0;
  for (uint32_t offset = 0; offset < kBytes; offset++) {
    Job j;
    j.handle = 0x400004;
    j.tag = big.tag;
    j.va = big.va + kPage + offset;
    j.len = 1472;
    j.bound = 1472;
    const uint64_t gaps = b.wbus.gaps;
    uint64_t requests = b.rbus.requests;
    uint64_t r = b.Read(j, {0, 0}, 0, 0);
    uint64_t w = b.Write(j, {0, 0}, 0, 0, true);
    if (b.wbus.gaps != gaps) Fail("the write engine had no beat in %" PRIu64 " clocks of a burst", b.wbus.gaps - gaps);
    if (b.rbus.requests - requests != 3) Fail("1472 bytes took %" PRIu64 " bursts, want 3", b.rbus.requests - requests);
    b.SetShort(true);
    for (bool write : {false, true}) {
      const uint64_t shorts = b.cut_short + b.whole_short, want = (offset + 1472 + kShort - 1) / kShort;
      if (write) b.Write(j, {0, 0}, 0, 0, true);
      else b.Read(j, {0, 0}, 0, 0);
      if (b.cut_short + b.whole_short - shorts != want) {
        Fail("1472 bytes took %" PRIu64 " short bursts, want %" PRIu64, b.cut_short + b.whole_short - shorts, want);
      }
    }
    b.SetShort(false);
    read_clocks = std::max(read_clocks, r);
    write_clocks = std::max(write_clocks, w);
  }
  if (read_clocks > 1472 / kBytes + 40 || write_clocks > 1472 / kBytes + 48) {
    Fail("1472 bytes took %" PRIu64 " clocks to read and %" PRIu64 " to write", read_clocks, write_clocks);
  }
  for (uint64_t i = 0; i < unit::options().size; i++) {
    Job j = b.RandomJob();
    unsigned bus_fault = 0, att_fault = 0;
    if (b.rng.Chance(1, 8)) bus_fault = b.rng.Range(1, 4);
    else if (b.rng.Chance(1, 8) && !j.physical) att_fault = b.rng.Range(1, 2);
    Traffic t = unit::kTraffic[i % 5];
    b.SetOverlap(b.rng.Bits(1));
    b.SetShort(b.rng.Chance(1, 3));
    if (b.rng.Bits(1)) b.Read(j, t, bus_fault, att_fault);
    else b.Write(j, t, bus_fault, att_fault);
  }
  for (unsigned e : {0, 1, 2, 3, 5}) {
    if (b.outcomes[e] == 0) Fail("no job ended with error %u: the run does not reach it", e);
  }
  if (b.whole_short == 0 || b.cut_short == 0) Fail("no short bursts: the run does not reach them");
  if (b.asked[2] == 0) Fail("no page was requested during a transfer");
  std::printf("short_bursts %" PRIu64 "\n", b.whole_short + b.cut_short);
  std::printf("reads %" PRIu64 "\nwrites %" PRIu64 "\nbytes %" PRIu64 "\nclocks %" PRIu64 "\n", b.reads, b.writes, b.bytes,
              unit::clocks());
  for (unsigned e = 0; e < 6; e++) std::printf("error_%u %" PRIu64 "\n", e, b.outcomes[e]);
  std::printf("read_1472_clocks %" PRIu64 "\nwrite_1472_clocks %" PRIu64 "\npassed 1\n", read_clocks, write_clocks);
  return 0;
}
