// SPDX-License-Identifier: Apache-2.0

// Models of the DMA engines' neighbours: host memory in scattered pages, the host bus from a
// requester's view, and the translation port. Drive sets the block's inputs before the clock.
// Sample reads its outputs after they settled, before the edge. They stop the testbench when the
// block violates the port's contract.
#pragma once
#include <deque>
#include <map>
#include <vector>

#include "sim/unit/internal/unit/testbench.h"
#include "sim/gen/hvia_layout.h"
#include "sim/gen/hvia_params.h"

namespace unit {

constexpr uint32_t kPage = 4096;

// Host memory. While a check is armed, only bytes in `allowed` may be written.
class Memory {
 public:
  Memory(uint32_t pages, Rng* rng) : bytes(static_cast<size_t>(pages) * kPage) {
    for (auto& b : bytes) b = static_cast<uint8_t>(rng->Next());
  }
  uint8_t Read(uint32_t addr) const {
    if (addr >= bytes.size()) Fail("read of host address %08x outside memory", addr);
    return bytes[addr];
  }
  void Write(uint32_t addr, uint8_t v) {
    if (addr >= bytes.size()) Fail("write of host address %08x outside memory", addr);
    bytes[addr] = v;
    written++;
  }
  std::vector<uint8_t> bytes;
  uint64_t written = 0;
};

// A request that the bus accepted.
struct Request {
  uint32_t addr;
  uint32_t len;
  unsigned beats, beat;
  unsigned wait;
  bool fail;
  bool data_done;
};

inline void CheckRequest(uint32_t addr, uint32_t len, unsigned bytes) {
  if (addr % bytes + len > hvia::kProfiles[0].DmaBurstBytes) Fail("request of %u bytes at %08x takes more beats than a full burst", len, addr);
  if (len < 1 || len > hvia::kProfiles[0].DmaBurstBytes) Fail("request of %u bytes at %08x", len, addr);
  if (addr / kPage != (addr + len - 1) / kPage) Fail("request of %u bytes at %08x crosses a page", len, addr);
}

// A request must not change until it is accepted.
class RequestWatch {
 public:
  void Sample(const char* who, bool valid, bool ready, uint64_t a, uint64_t b) {
    if (held_ && (!valid || a != a_ || b != b_)) {
      Fail("%s: request (%" PRIx64 ", %" PRIx64 ") withdrawn or changed to valid %d (%" PRIx64 ", %" PRIx64 ")", who,
           a_, b_, valid, a, b);
    }
    held_ = valid && !ready;
    a_ = a;
    b_ = b;
  }

 private:
  bool held_ = false;
  uint64_t a_ = 0, b_ = 0;
};

template <unsigned kBytes>
class ReadBus {
 public:
  ReadBus(Memory* memory, Rng* rng, unsigned outstanding) : memory_(memory), rng_(rng), outstanding_(outstanding) {}

  void Drive(Traffic t) {
    traffic_ = t;
    req_ready = queue_.size() < 2 && !rng_->Chance(t.pressure, 4);
    if (!offered_ && !queue_.empty() && queue_.front().wait == 0) offered_ = !rng_->Chance(t.idle, 4);
    rvalid = offered_;
    rdata = rng_->Next();
    rlast = rng_->Bits(1);
    rerr = false;
    if (rvalid) {
      Request& r = queue_.front();
      rlast = r.beat + 1 == r.beats;
      if (r.fail && r.beat == fail_beat_ % r.beats) {
        rerr = rlast = true;
      } else {
        rdata = 0;
        uint32_t base = r.addr / kBytes * kBytes + r.beat * kBytes;
        for (unsigned i = 0; i < kBytes; i++) {
          rdata |= static_cast<uint64_t>(base + i < memory_->bytes.size() ? memory_->bytes[base + i] : 0) << (8 * i);
        }
      }
    }
  }

  void Sample(bool req_valid, uint32_t addr, uint32_t len, bool rready) {
    watch_.Sample("read", req_valid, req_ready, addr, len);
    if (rvalid && rready) {
      offered_ = false;
      if (rlast) {
        if (rerr) errors++;
        queue_.pop_front();
      } else {
        queue_.front().beat++;
      }
    } else if (!queue_.empty() && queue_.front().wait > 0) {
      queue_.front().wait--;
    }
    if (req_valid && req_ready) {
      CheckRequest(addr, len, kBytes);
      if (queue_.size() + 1 > outstanding_) Fail("read request %zu while %u are allowed", queue_.size() + 1, outstanding_);
      Request r{};
      r.addr = addr;
      r.len = len;
      r.beats = (addr % kBytes + len + kBytes - 1) / kBytes;
      r.wait = traffic_.idle == 0 ? 3 : rng_->Below(12);
      if (fail_in != 0 && --fail_in == 0) {
        r.fail = true;
        fail_beat_ = rng_->Bits(8);
      }
      queue_.push_back(r);
      requests++;
    }
  }

  bool Idle() const { return queue_.empty(); }

  // Sets the inputs of the Verilated top.
  template <class Top>
  void Show(Top& top) const {
    top.rvalid_i = rvalid;
    top.rdata_i = rdata;
    top.rlast_i = rlast;
    top.rerr_i = rerr;
  }

  // Inputs of the block.
  bool req_ready = false, rvalid = false, rlast = false, rerr = false;
  uint64_t rdata = 0;
  // The n-th request from now fails, 0 = none.
  unsigned fail_in = 0;
  uint64_t requests = 0, errors = 0;

 private:
  Memory* memory_;
  Rng* rng_;
  unsigned outstanding_;
  std::deque<Request> queue_;
  RequestWatch watch_;
  Traffic traffic_{};
  bool offered_ = false;
  unsigned fail_beat_ = 0;
};

template <unsigned kBytes>
class WriteBus {
 public:
  WriteBus(Memory* memory, Rng* rng, unsigned outstanding) : memory_(memory), rng_(rng), outstanding_(outstanding) {}

  void Drive(Traffic t) {
    traffic_ = t;
    req_ready = queue_.size() < 2 && !rng_->Chance(t.pressure, 4);
    Request* r = Active();
    wready = r != nullptr && !rng_->Chance(t.pressure, 4);
    wdone = werr = false;
    if (!queue_.empty() && queue_.front().data_done && queue_.front().wait == 0) {
      wdone = true;
      werr = queue_.front().fail;
    }
  }

  void Sample(bool req_valid, uint32_t addr, uint32_t len, bool wvalid, uint64_t wdata, uint32_t wstrb) {
    watch_.Sample("write", req_valid, req_ready, addr, len);
    data_watch_.Sample("write data", wvalid, wready, wstrb, Masked(wdata, wstrb));
    if (wvalid && Active() == nullptr && !req_valid) Fail("a write beat is offered that belongs to no request");
    Request* r = Active();
    if (r != nullptr && wready) {
      if (wvalid) {
        Beat(r, wdata, wstrb);
      } else if (r->beat > 0) {
        gaps++;
      }
    }
    if (wdone) {
      if (werr) errors++;
      queue_.pop_front();
    } else if (!queue_.empty() && queue_.front().data_done && queue_.front().wait > 0) {
      queue_.front().wait--;
    }
    if (req_valid && req_ready) {
      CheckRequest(addr, len, kBytes);
      if (queue_.size() + 1 > outstanding_) Fail("write request %zu while %u are allowed", queue_.size() + 1, outstanding_);
      Request q{};
      q.addr = addr;
      q.len = len;
      q.beats = (addr % kBytes + len + kBytes - 1) / kBytes;
      q.wait = traffic_.idle == 0 ? 3 : rng_->Below(8);
      q.fail = fail_in != 0 && --fail_in == 0;
      queue_.push_back(q);
      requests++;
    }
  }

  bool Idle() const { return queue_.empty(); }

  template <class Top>
  void Show(Top& top) const {
    top.wready_i = wready;
    top.wdone_i = wdone;
    top.werr_i = werr;
  }

  bool req_ready = false, wready = false, wdone = false, werr = false;
  unsigned fail_in = 0;
  uint64_t requests = 0, errors = 0;
  uint64_t gaps = 0;  // clocks inside a burst without a beat from the block

 private:
  static uint64_t Masked(uint64_t data, uint32_t strobe) {
    for (unsigned i = 0; i < kBytes; i++) {
      if (!(strobe >> i & 1)) data &= ~(0xffull << (8 * i));
    }
    return data;
  }
  Request* Active() {
    for (auto& r : queue_) {
      if (!r.data_done) return &r;
    }
    return nullptr;
  }
  void Beat(Request* r, uint64_t data, uint32_t strobe) {
    const uint32_t base = r->addr / kBytes * kBytes + r->beat * kBytes;
    uint32_t want = 0;
    for (unsigned i = 0; i < kBytes; i++) {
      if (base + i >= r->addr && base + i < r->addr + r->len) want |= 1u << i;
    }
    if (strobe != want) Fail("beat %u of the write of %u bytes at %08x has lanes %x, want %x", r->beat, r->len, r->addr, strobe, want);
    for (unsigned i = 0; i < kBytes; i++) {
      if ((strobe >> i & 1) && !r->fail) memory_->Write(base + i, data >> (8 * i));
    }
    if (++r->beat == r->beats) r->data_done = true;
  }

  Memory* memory_;
  Rng* rng_;
  unsigned outstanding_;
  std::deque<Request> queue_;
  RequestWatch watch_, data_watch_;
  Traffic traffic_{};
};

// The bus of a top with one request at a time, a read or a write.
template <unsigned kBytes>
struct SystemBus {
  SystemBus(Memory* memory, Rng* rng) : reads(memory, rng, 1), writes(memory, rng, 1) {}

  void Drive(Traffic t) {
    reads.Drive(t);
    writes.Drive(t);
  }
  template <class Top>
  void Show(Top& top) const {
    reads.Show(top);
    writes.Show(top);
  }
  // ready depends on the request, so the top settles twice.
  template <class Top>
  void Settle(Top& top) const {
    top.eval();
    top.req_ready_i = top.req_write_o ? writes.req_ready : reads.req_ready;
    top.eval();
  }
  // `base` is the bus address of the memory's first byte.
  template <class Top>
  void Sample(const Top& top, uint32_t base = 0) {
    reads.Sample(top.req_valid_o && !top.req_write_o, top.req_addr_o - base, top.req_len_o, top.rready_o);
    writes.Sample(top.req_valid_o && top.req_write_o, top.req_addr_o - base, top.req_len_o, top.wvalid_o, top.wdata_o, top.wstrb_o);
  }

  ReadBus<kBytes> reads;
  WriteBus<kBytes> writes;
};

struct Region {
  uint64_t va;
  uint64_t len;
  uint16_t tag;
  bool rdma_write;
  std::vector<uint32_t> pages;  // physical address of each page, at the same offset as va
  bool rdma_read = false;

  uint32_t Physical(uint64_t a) const {
    uint64_t page = a / kPage - va / kPage;
    return pages[page] + static_cast<uint32_t>(a % kPage);
  }
  bool Contains(uint64_t a, uint64_t n) const { return a >= va && n <= len && a - va <= len - n; }
};

// The translation port with a table of regions.
class AttPort {
 public:
  explicit AttPort(Rng* rng) : rng_(rng) {}

  void Drive(Traffic t) {
    traffic_ = t;
    req_ready = !pending_ && !rng_->Chance(t.pressure, 4);
    rsp_valid = pending_ && wait_ == 0;
    if (rsp_valid) {
      rsp_err = answer_err_;
      rsp_pa = answer_pa_;
      rsp_bytes = answer_bytes_;
    } else {
      rsp_err = rng_->Bits(3);
      rsp_pa = rng_->Bits(32);
      rsp_bytes = rng_->Bits(13);
    }
  }

  void Sample(bool req_valid, uint32_t handle, uint64_t va, uint32_t len, uint16_t tag, uint8_t access) {
    watch_.Sample("translation", req_valid, req_ready, va, static_cast<uint64_t>(handle) << 32 | len);
    if (rsp_valid) pending_ = false;
    else if (pending_ && wait_ > 0) wait_--;
    if (req_valid && req_ready) {
      pending_ = true;
      wait_ = traffic_.idle == 0 ? 6 : rng_->Below(16);
      requests++;
      Answer(handle, va, len, tag, access);
    }
  }

  template <class Top>
  void Show(Top& top) const {
    top.att_req_ready_i = req_ready;
    top.att_rsp_valid_i = rsp_valid;
    top.att_rsp_err_i = rsp_err;
    top.att_rsp_pa_i = rsp_pa;
    top.att_rsp_bytes_i = rsp_bytes;
  }
  template <class Top>
  void Sample(const Top& top) {
    Sample(top.att_req_valid_o, top.att_req_handle_o, top.att_req_va_o, top.att_req_len_o, top.att_req_tag_o, top.att_req_access_o);
  }

  bool Idle() const { return !pending_; }
  static uint8_t Check(const std::map<uint32_t, Region>& regions, uint32_t handle, uint64_t va, uint32_t len,
                       uint16_t tag, uint8_t access) {
    auto it = regions.find(handle);
    if (it == regions.end()) return hvia::kAttErrorHandle;
    const Region& r = it->second;
    if (r.tag != tag) return hvia::kAttErrorTag;
    if (access == hvia::kAttAccessRemoteWrite && !r.rdma_write) return hvia::kAttErrorAccess;
    if (access == hvia::kAttAccessRemoteRead && !r.rdma_read) return hvia::kAttErrorAccess;
    if (len != 0 && !r.Contains(va, len)) return hvia::kAttErrorBounds;
    return hvia::kAttErrorNone;
  }

  std::map<uint32_t, Region> regions;
  bool req_ready = false, rsp_valid = false;
  uint8_t rsp_err = 0;
  uint32_t rsp_pa = 0;
  uint16_t rsp_bytes = 0;
  // The n-th request from now fails with fail_with, 0 = none.
  unsigned fail_in = 0;
  uint8_t fail_with = 0;
  uint64_t requests = 0, injected = 0;

 private:
  void Answer(uint32_t handle, uint64_t va, uint32_t len, uint16_t tag, uint8_t access) {
    answer_pa_ = rng_->Bits(32);
    answer_bytes_ = rng_->Bits(13);
    answer_err_ = Check(regions, handle, va, len, tag, access);
    if (fail_in != 0 && --fail_in == 0) {
      answer_err_ = fail_with;
      injected++;
    }
    if (answer_err_ == hvia::kAttErrorNone && len != 0) {
      const Region& r = regions.at(handle);
      answer_pa_ = r.Physical(va);
      uint64_t end = r.va + r.len;
      answer_bytes_ = std::min<uint64_t>(kPage - va % kPage, end - va);
    }
  }

  Rng* rng_;
  RequestWatch watch_;
  Traffic traffic_{};
  bool pending_ = false;
  unsigned wait_ = 0;
  uint8_t answer_err_ = 0;
  uint32_t answer_pa_ = 0;
  uint16_t answer_bytes_ = 0;
};

// Allocates scattered physical pages for regions.
class PagePool {
 public:
  PagePool(uint32_t first, uint32_t count, Rng* rng) {
    for (uint32_t i = 0; i < count; i++) free_.push_back((first + i) * kPage);
    for (uint32_t i = count; i > 1; i--) std::swap(free_[i - 1], free_[rng->Below(i)]);
  }
  uint32_t Take() {
    if (free_.empty()) Fail("the testbench has no page left");
    uint32_t p = free_.back();
    free_.pop_back();
    return p;
  }
  Region Make(uint64_t va, uint64_t len, uint16_t tag, bool rdma_write) {
    Region r{va, len, tag, rdma_write, {}, false};
    uint64_t n = (va + len - 1) / kPage - va / kPage + 1;
    for (uint64_t i = 0; i < n; i++) r.pages.push_back(Take());
    return r;
  }

 private:
  std::vector<uint32_t> free_;
};

}  // namespace unit
