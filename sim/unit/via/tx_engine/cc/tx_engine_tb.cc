// SPDX-License-Identifier: Apache-2.0

// Testbench of tx_engine between models of all its neighbours. A plain model predicts the frames of
// a descriptor byte by byte, its completion, and the traces and counts. Handles are withdrawn and
// VIs disconnected at any clock; there the model accepts every permitted outcome.
//
// Messages of reliable VIs go to a ledger. It replies go or not at random, returns messages for
// retransmission from any frame on, with descriptors that their process has changed meanwhile, and
// requests read responses. Acknowledgements come in between. Each return is predicted anew.
#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <memory>
#include <set>
#include <vector>

#include "Vhvia_tx_engine.h"
#include "sim/model/big_endian.h"
#include "sim/unit/internal/unit/testbench.h"
#include "sim/unit/internal/unit/neighbours.h"
#include "sim/gen/hvia_layout.h"

using unit::Fail;
using unit::kPage;
using unit::kVIs;
using unit::Region;
using unit::Traffic;

namespace {

constexpr unsigned kBytes = TB_W / 8;
constexpr size_t kVia = hvia::kEthernetHeaderSize;
constexpr size_t kHeader = hvia::kEthernetHeaderSize + hvia::kViaHeaderSize;
constexpr uint32_t kChunk = hvia::kDescriptorFetchBytes;
constexpr uint32_t kErrors =
    hvia::kDescriptorErrorMask;
constexpr uint64_t kMac = 0x665544332202ull;
constexpr uint16_t kTag = 7, kOtherTag = 9;

// Limit of the clocks from the offer of a descriptor to the beat that commits its frame.
constexpr uint64_t kLatency = TB_W == 32 ? 15 : 14, kLatencyFull = TB_W == 32 ? 388 : 204;

// In runs of at least this size every outcome must occur.
constexpr uint64_t kEnough = 40;

using Frame = std::vector<uint8_t>;

void PutBig(Frame& f, size_t at, uint64_t v, unsigned n) { hvia::PutBig(&f[at], v, n); }
uint64_t GetBig(const Frame& f, size_t at, unsigned n) { return hvia::GetBig(&f[at], n); }
void PutLittle(std::vector<uint8_t>& b, size_t at, uint64_t v, unsigned n) {
  for (unsigned i = 0; i < n; i++) b[at + i] = v >> (8 * i);
}

struct Context {
  uint8_t state = hvia::kVIStateFree, reliability = hvia::kReliabilityUnreliable, generation = 0;
  uint16_t tag = 0, peer_vi = 0;
  uint32_t max = 0;
  uint64_t peer_mac = 0;  // wire byte 0 lowest
};

struct Segment {
  uint64_t va = 0;
  uint32_t handle = 0, len = 0;
};

struct Descriptor {
  uint8_t vi = 0, operation = hvia::kDescriptorOperationSend;
  bool immediate_flag = false, fence = false;
  bool unreachable = false;  // shows only as a mark; the other fields are noise
  uint16_t seq = 0, count = 0;  // count: SegCount as written, address segment included
  uint32_t pa = 0, handle = 0, immediate = 0, length = 0, remote_handle = 0, status = 0;
  uint64_t va = 0, remote_va = 0;
  bool bad_head = false;          // the first chunk cannot be read again
  std::vector<Segment> segments;  // data segments
  unsigned bad_chunk = 0;         // this chunk and later ones cannot be read; 0 = all can
  bool Read() const { return operation == hvia::kDescriptorOperationRDMARead; }
  // With an address segment.
  bool Rdma() const { return operation == hvia::kDescriptorOperationRDMAWrite || Read(); }
};

// The expected outcome of a descriptor.
struct Plan {
  Descriptor d;
  std::vector<uint8_t> image;
  std::vector<Frame> frames;
  std::vector<uint8_t> traces;
  bool abort = false;
  bool answer = false;
  bool early = false;  // a job that fails before its first frame
  uint32_t errors = 0, done = 0;
  uint32_t skip = 0;   // number of skipped frames
  // The outcome so far.
  size_t committed = 0, traced = 0;
  uint32_t bytes = 0;
  bool aborted = false;
  // An outside event permits further outcomes.
  bool withdrawn = false, cut = false;

  unsigned Chunks() const { return (image.size() + kChunk - 1) / kChunk; }
};

// A message in the ledger.
struct Entry {
  Descriptor d;
  std::vector<uint8_t> image;
  bool answer = false, cut = false, withdrawn = false;
  uint8_t slot = 0, operation = 0;  // as opened
  uint32_t first = 0, number = 0;   // of its first frame, and of the next one to send
  uint32_t sent = 0;                // highest number of frames sent
  unsigned tries = 0;

  uint32_t Frames() const {
    if (!answer && operation == hvia::kDescriptorOperationRDMARead) return 1;
    return std::max(1u, d.length / hvia::kMaxPayload + (d.length % hvia::kMaxPayload != 0));
  }
};

struct Ack {
  uint8_t vi = 0, code = 0;
  uint32_t number = 0;
};

struct RawJob {
  uint32_t pa = 0;
  uint16_t len = 0;
  bool bad = false;
};

struct Stats {
  uint64_t message = 0, frame = 0, aborted = 0, ack = 0;
};

class Testbench {
 public:
  explicit Testbench(uint64_t seed)
      : rng(seed), memory(256, &rng), pool(0, 256, &rng), bus(&memory, &rng, 1), att(&rng), top(new Vhvia_tx_engine) {
    Add(kLong, pool.Make(0x100000ull + 4094, 70000, kTag, false));
    Add(kWide, pool.Make(0x7f0000000ffdull, 40000, kTag, true));
    Add(kHigh, pool.Make(0xfffffffffffff000ull - 4096, 2 * kPage, kTag, true));
    Add(kForeign, pool.Make(0x55000, 5000, kOtherTag, true));
    Add(kTorn, pool.Make(0x66100, 12000, kTag, false));
    Add(kFaulty, pool.Make(0x77000, 12000, kTag, false));
    Add(kSick, pool.Make(0x88000, 5000, kTag, false));
    for (uint32_t h : {kWide, kHigh, kTorn, kFaulty, kSick}) regions[h].rdma_read = att.regions[h].rdma_read = true;
    torn_page = regions[kTorn].va / kPage + 1;
    bad_pages.insert(regions[kFaulty].pages[1] / kPage);
    raw_good = pool.Take();
    raw_bad = pool.Take();
    bad_pages.insert(raw_bad / kPage);
    for (unsigned v = 0; v < kVIs; v++) {
      Context& c = contexts[v];
      c.generation = rng.Bits(8);
      c.tag = kTag;
      c.max = 70000;
      c.peer_mac = rng.Next() & 0xffffffffffffull;
      c.peer_vi = rng.Bits(16);
    }
    used.insert(used.end(), kept_vis.begin(), kept_vis.end());
    for (uint8_t v : used) contexts[v].state = hvia::kVIStateConnected;
    for (uint8_t v : kept_vis) contexts[v].reliability = rng.Bits(1) ? hvia::kReliabilityDelivery : hvia::kReliabilityReception;
    contexts[kSmallVi].max = 3000;
    contexts[kForeignVi].tag = kOtherTag;
    contexts[9].state = hvia::kVIStateIdle;
    contexts[10].state = hvia::kVIStateError;
    contexts[11].state = hvia::kVIStateConnectPending;
    contexts[10].reliability = hvia::kReliabilityReception;
    top->mac_i = kMac;
    top->no_overlap_i = top->short_bursts_i = 0;  // the DMA engines' test sets both
    top->rst_ni = 0;
    unit::Edge(top.get(), {&top->clk_i});
    for (int i = 0; i < 4; i++) Clock();
    top->rst_ni = 1;
    for (int i = 0; i < 4; i++) Clock();
    for (uint8_t v : used) SetSequence(v, rng.Bits(1) ? 0xfffffff0u + rng.Bits(4) : rng.Bits(32));
  }

  static constexpr uint32_t kLong = 0x00100001, kWide = 0x00200002, kHigh = 0x00300003, kForeign = 0x00400004,
                            kTorn = 0x00500005, kFaulty = 0x00600006, kSick = 0x00700007;
  static constexpr uint8_t kSmallVi = 200 % kVIs, kForeignVi = 38 % kVIs;
  const std::vector<uint8_t> vis = {0, 1, 19 % kVIs, 255 % kVIs, 132 % kVIs, 5, kSmallVi, kForeignVi};
  const std::vector<uint8_t> kept_vis = {2, 254 % kVIs, 77 % kVIs, 135 % kVIs};  // reliable ones
  std::vector<uint8_t> used = vis;  // and kept_vis

  void Add(uint32_t handle, const Region& r) { regions[handle] = att.regions[handle] = r; }

  void SetSequence(uint8_t vi, uint32_t value) {
    for (unsigned i = 0;; i++) {
      if (i > 1000) Fail("the sequence number of VI %u cannot be set", vi);
      top->seq_init_valid_i = 1;
      top->seq_init_vi_i = vi;
      top->seq_init_value_i = value;
      Clock();
      if (init_taken_) break;
    }
    top->seq_init_valid_i = 0;
    sequence[vi] = value;
    broken[vi] = false;
  }

  bool HasWork(uint8_t vi) const {
    auto of = [&](const Plan& p) { return p.d.vi == vi; };
    return std::any_of(queue.begin(), queue.end(), of) || std::any_of(running.begin(), running.end(), of) ||
           (kept_ && kept_->d.vi == vi) ||
           std::any_of(entries.begin(), entries.end(), [&](const std::shared_ptr<Entry>& e) { return e->d.vi == vi; });
  }
  bool Reliable(uint8_t vi) const { return contexts[vi].reliability != hvia::kReliabilityUnreliable; }

  // Reconnects broken VIs without work, or all broken VIs.
  void Heal(bool all) {
    for (uint8_t v : used) {
      if (!broken[v]) continue;
      if (all) RunToRest();
      if (!HasWork(v)) SetSequence(v, rng.Bits(32));
    }
  }

  // ---- model

  std::vector<uint8_t> Image(const Descriptor& d) {
    const size_t segments = std::max<size_t>(2, d.segments.size() + d.Rdma());
    std::vector<uint8_t> b(hvia::kDescriptorSize + segments * hvia::kDataSegmentSize);
    b.resize((b.size() + kChunk - 1) / kChunk * kChunk);
    for (auto& x : b) x = rng.Next();  // bytes after the last segment mean nothing
    PutLittle(b, hvia::kDescriptorSegmentCountOffset, d.count, 2);
    PutLittle(b, hvia::kDescriptorControlOffset,
              d.operation << hvia::kDescriptorControlOperationLsb | d.immediate_flag << hvia::kDescriptorControlImmediateLsb |
                  d.fence << hvia::kDescriptorControlQueueFenceLsb, 2);
    PutLittle(b, hvia::kDescriptorImmediateDataOffset, d.immediate, 4);
    PutLittle(b, hvia::kDescriptorLengthOffset, d.length, 4);
    size_t at = hvia::kDescriptorSize;
    if (d.Rdma()) {
      PutLittle(b, at + hvia::kAddressSegmentAddressOffset, d.remote_va, 8);
      PutLittle(b, at + hvia::kAddressSegmentHandleOffset, d.remote_handle, 4);
      at += hvia::kAddressSegmentSize;
    }
    for (const Segment& s : d.segments) {
      PutLittle(b, at + hvia::kDataSegmentAddressOffset, s.va, 8);
      PutLittle(b, at + hvia::kDataSegmentHandleOffset, s.handle, 4);
      PutLittle(b, at + hvia::kDataSegmentLengthOffset, s.len, 4);
      at += hvia::kDataSegmentSize;
    }
    return b;
  }

  // One job: returns its error. *translated: whether its first page was translated.
  uint32_t Job(uint16_t tag, const Segment& s, uint32_t off, uint32_t len, uint8_t access, bool* translated) const {
    *translated = false;
    if (s.handle == kSick) return hvia::kDescriptorStatusTransportErrorMask;
    if (unit::AttPort::Check(regions, s.handle, s.va + off, s.len - off, tag, access) != hvia::kAttErrorNone) {
      return hvia::kDescriptorStatusProtectionErrorMask;
    }
    const uint64_t first = (s.va + off) / kPage, last = (s.va + off + len - 1) / kPage;
    for (uint64_t p = first; p <= last; p++) {
      if (s.handle == kTorn && p == torn_page) return hvia::kDescriptorStatusProtectionErrorMask;
      *translated = true;
      const Region& r = regions.at(s.handle);
      if (bad_pages.count(r.pages[p - r.va / kPage] / kPage)) return hvia::kDescriptorStatusTransportErrorMask;
    }
    return 0;
  }

  // A header with source, destination and kind.
  Frame Header(uint8_t vi, uint8_t operation) const {
    const Context& c = contexts[vi];
    Frame f(kHeader);
    for (unsigned i = 0; i < 6; i++) {
      f[hvia::kEthernetHeaderDestinationOffset + i] = c.peer_mac >> (8 * i);
      f[hvia::kEthernetHeaderSourceOffset + i] = kMac >> (8 * i);
    }
    PutBig(f, hvia::kEthernetHeaderEtherTypeOffset, hvia::kEtherTypeVia, 2);
    f[kVia + hvia::kViaHeaderOperationVersionOffset] =
        operation << hvia::kViaHeaderOperationVersionOperationLsb | hvia::kViaVersion << hvia::kViaHeaderOperationVersionVersionLsb;
    PutBig(f, kVia + hvia::kViaHeaderDestinationVIOffset, c.peer_vi, 2);
    PutBig(f, kVia + hvia::kViaHeaderSourceVIOffset, c.generation << 8 | vi, 2);
    return f;
  }

  Frame Acknowledgement(const Ack& a) const {
    Frame f = Header(a.vi, hvia::kFrameOperationAcknowledge);
    PutBig(f, kVia + hvia::kViaHeaderSequenceOffset, a.number, 4);
    PutBig(f, kVia + hvia::kViaHeaderImmediateOffset, a.code, 4);
    return f;
  }

  Frame Build(const Plan& p, uint32_t at, uint32_t n, const std::vector<uint8_t>& body) const {
    const Descriptor& d = p.d;
    uint8_t operation = hvia::kFrameOperationSend;
    if (d.operation == hvia::kDescriptorOperationRDMAWrite) operation = hvia::kFrameOperationRDMAWrite;
    if (d.Read()) operation = hvia::kFrameOperationRDMAReadRequest;
    if (p.answer) operation = hvia::kFrameOperationRDMAReadResponse;
    Frame f = Header(d.vi, operation);
    const bool immediate = d.immediate_flag && !d.Read() && !p.answer;
    f[kVia + hvia::kViaHeaderFlagsOffset] = (at == 0) << hvia::kViaHeaderFlagsFirstLsb |
                                            (d.Read() || at + n == d.length) << hvia::kViaHeaderFlagsLastLsb |
                                            immediate << hvia::kViaHeaderFlagsImmediateLsb;
    PutBig(f, kVia + hvia::kViaHeaderPayloadLengthOffset, n, 2);
    const bool remote = d.Rdma() && !p.answer;
    PutBig(f, kVia + hvia::kViaHeaderAddressOffset, remote ? d.remote_va + at : static_cast<uint64_t>(d.length) << 32 | at, 8);
    PutBig(f, kVia + hvia::kViaHeaderHandleOffset, remote ? d.remote_handle : 0, 4);
    PutBig(f, kVia + hvia::kViaHeaderImmediateOffset, d.Read() ? d.length : immediate ? d.immediate : 0, 4);
    f.insert(f.end(), body.begin(), body.end());
    return f;
  }

  static bool Malformed(const Descriptor& d) {
    return d.operation == hvia::kDescriptorOperationReserved || (d.Rdma() && d.count == 0) ||
           d.count - d.Rdma() > static_cast<int>(hvia::kMaxDataSegments) ||
           (d.Rdma() && d.remote_va != 0 && d.length > -d.remote_va);
  }

  Plan Predict(const Descriptor& d) {
    Plan p;
    p.d = d;
    p.image = Image(d);
    if (d.unreachable) {
      broken[d.vi] = true;
      return p;
    }
    const Context& c = contexts[d.vi];
    const bool flushed = c.state != hvia::kVIStateConnected || broken[d.vi];
    if (flushed && c.state == hvia::kVIStateConnected) behind_seen++;
    p.errors = flushed ? static_cast<uint32_t>(hvia::kDescriptorStatusFlushedMask) : d.status & kErrors;
    if (p.errors == 0) {
      if (Malformed(d) || (d.Read() && !Reliable(d.vi))) {
        p.errors = hvia::kDescriptorStatusFormatErrorMask;
      } else if (d.length > c.max) {
        p.errors = hvia::kDescriptorStatusLengthErrorMask;
      }
    }
    if (p.errors == 0) Walk(p);
    return p;
  }

  // Predicts the outcome of a message that the ledger returns.
  Plan PredictJob(const Entry& e) {
    Plan p;
    p.d = e.d;
    p.image = e.image;
    p.answer = e.answer;
    p.skip = e.number - e.first;
    p.cut = e.cut;
    p.withdrawn = e.withdrawn;
    p.early = true;
    if (!e.answer && e.d.bad_head) p.errors = hvia::kDescriptorStatusProtectionErrorMask;
    else if (!e.answer && (Malformed(e.d) || e.d.operation != e.operation)) p.errors = hvia::kDescriptorStatusFormatErrorMask;
    else Walk(p);
    p.early = p.errors != 0 && !p.abort;
    return p;
  }

  void Walk(Plan& p) {
    const Descriptor& d = p.d;
    const Context& c = contexts[d.vi];
    const uint8_t access = p.answer ? hvia::kAttAccessRemoteRead : hvia::kAttAccessLocal;
    if (!p.answer && d.Read()) {
      p.traces.push_back(hvia::kTraceEventFrameBuilt);
      p.frames.push_back(Build(p, 0, 0, {}));
      return;
    }
    size_t s = 0;
    uint32_t off = 0, at = 0;
    // Skips used segments. Returns LengthError if none is left, ProtectionError if the next is out
    // of reach.
    auto seek = [&]() -> uint32_t {
      for (; s < d.segments.size(); s++, off = 0) {
        const unsigned chunk = (s + d.Rdma() + 2) / 4;
        if (d.bad_chunk != 0 && chunk >= d.bad_chunk) return hvia::kDescriptorStatusProtectionErrorMask;
        if (d.segments[s].len > off) return 0;
      }
      return hvia::kDescriptorStatusLengthErrorMask;
    };
    for (; at < p.skip * hvia::kMaxPayload; ) {
      p.errors = seek();
      if (p.errors != 0) return;
      const uint32_t len = std::min(p.skip * hvia::kMaxPayload - at, d.segments[s].len - off);
      off += len;
      at += len;
    }
    do {
      const uint32_t n = std::min<uint32_t>(d.length - at, hvia::kMaxPayload);
      std::vector<uint8_t> body;
      while (body.size() < n && p.errors == 0) {
        p.errors = seek();
        if (p.errors != 0) break;
        const Segment& g = d.segments[s];
        const uint32_t len = std::min<uint32_t>(n - body.size(), g.len - off);
        bool translated;
        p.errors = Job(c.tag, g, off, len, access, &translated);
        if (translated && body.empty()) p.traces.push_back(hvia::kTraceEventSendTranslated);
        if (p.errors != 0) break;
        for (uint32_t i = 0; i < len; i++) body.push_back(memory.bytes[regions.at(g.handle).Physical(g.va + off + i)]);
        off += len;
      }
      if (p.errors == 0 && n != 0) p.traces.push_back(hvia::kTraceEventPayloadRead);
      if (p.errors == 0 && at + n == d.length) {
        const uint32_t rest = seek();
        if (rest == 0) p.errors = hvia::kDescriptorStatusLengthErrorMask;
        else if (rest == hvia::kDescriptorStatusProtectionErrorMask) p.errors = rest;
      }
      if (p.errors != 0) {
        p.abort = true;
        break;
      }
      p.traces.push_back(hvia::kTraceEventFrameBuilt);
      p.frames.push_back(Build(p, at, n, body));
      at += n;
      p.done = at;
    } while (at < d.length);
  }

  static const char* Name(const Plan& p) {
    return p.answer ? "read response" : p.d.Read() ? "read request" : p.d.Rdma() ? "RDMA write" : "Send";
  }

  static uint32_t Status(const Descriptor& d, uint32_t errors) {
    uint32_t echo = hvia::kStatusOperationSend;
    if (d.Rdma()) echo = hvia::kStatusOperationRDMAWrite;
    if (d.Read()) echo = hvia::kStatusOperationRDMARead;
    return errors | hvia::kDescriptorStatusDoneMask | echo << hvia::kDescriptorStatusOperationLsb;
  }

  void Post(const Descriptor& d) {
    queue.push_back(Predict(d));
    posted++;
    if (!d.unreachable) outcomes.insert(queue.back().errors);
  }

  // ---- what may be random

  Segment RandomSegment(const std::vector<uint32_t>& handles, uint32_t len) {
    Segment s;
    s.len = len;
    if (len == 0) {
      s.va = rng.Next();
      s.handle = rng.Bits(1) ? rng.Bits(32) : handles[0];
      return s;
    }
    s.handle = handles[rng.Below(handles.size())];
    const Region& r = regions.at(s.handle);
    s.len = len = std::min<uint64_t>(len, r.len);
    s.va = r.va + rng.Below(r.len - len + 1);
    if (rng.Chance(1, 3)) {  // near a page's end
      const uint64_t edge = (r.va / kPage + 1 + rng.Below(r.pages.size())) * kPage - rng.Range(1, 8);
      if (r.Contains(edge, len)) s.va = edge;
    } else if (rng.Chance(1, 8)) {  // the region's last bytes
      s.va = r.va + (r.len - len);
    }
    return s;
  }

  Descriptor RandomDescriptor(uint8_t vi, bool faults) {
    Descriptor d;
    d.vi = vi;
    d.seq = rng.Bits(16);
    d.operation = rng.Bits(1) ? hvia::kDescriptorOperationSend : hvia::kDescriptorOperationRDMAWrite;
    if (Reliable(vi) && rng.Chance(1, 5)) d.operation = hvia::kDescriptorOperationRDMARead;
    d.immediate_flag = rng.Bits(1);
    d.fence = rng.Chance(1, 8);
    d.immediate = rng.Bits(32);
    d.remote_va = rng.Next() >> 1;
    d.remote_handle = rng.Bits(32);
    d.pa = rng.Bits(26) * kChunk;
    d.va = rng.Next() / kChunk * kChunk;
    if (rng.Chance(1, 16)) d.va = -static_cast<uint64_t>(kChunk);
    d.handle = rng.Bits(1) ? rng.Bits(32) : kLong;
    d.status = rng.Chance(1, 8) ? rng.Next() & ~kErrors : 0;
    if (faults && rng.Chance(1, contexts[vi].state == hvia::kVIStateFree ? 2 : 16)) {
      d.unreachable = true;
      d.status = rng.Next();
      d.count = rng.Bits(2);
      d.length = rng.Bits(10);
      return d;
    }
    std::vector<uint32_t> handles = {kLong, kWide, kHigh};
    if (contexts[vi].tag == kOtherTag) handles = {kForeign};
    size_t n = 0;
    switch (rng.Below(8)) {
      case 0: n = 0; break;
      case 1:
      case 2: n = 1; break;
      case 3: n = 2; break;
      case 4:
      case 5: n = rng.Range(2, 9); break;
      case 6: n = rng.Range(3, 40); break;
      default: n = rng.Chance(1, 6) ? hvia::kMaxDataSegments - rng.Below(3) : 3; break;
    }
    const uint64_t most = n > 40 ? 90 : n > 9 ? 300 : 2500;
    for (size_t i = 0; i < n; i++) {
      uint32_t len = 0;
      switch (rng.Below(6)) {
        case 0: len = 0; break;
        case 1:
        case 2: len = rng.Range(1, 17); break;
        case 3: len = rng.Below(8) == 0 ? hvia::kMaxPayload * rng.Range(1, 2) : rng.Range(1, most); break;
        default: len = rng.Range(1, most); break;
      }
      if (n == 1 && rng.Chance(1, 4)) len = rng.Range(1, 9000);
      d.segments.push_back(RandomSegment(handles, len));
    }
    if (rng.Chance(1, 3)) AlignChunk(d, handles, faults);
    d.count = n + d.Rdma();
    uint64_t sum = 0;
    for (const Segment& s : d.segments) sum += s.len;
    d.length = sum;
    if (d.length > contexts[vi].max) faults = false;
    if (!faults || d.bad_chunk != 0 || !rng.Chance(2, 5)) return d;
    const size_t pick = n == 0 ? 0 : rng.Below(n);
    switch (rng.Below(17)) {
      case 0:  // an invalid handle
        if (n != 0) d.segments[pick].handle ^= 1u << rng.Below(32);
        break;
      case 1:  // another tag
        if (n != 0 && d.segments[pick].len != 0) {
          const Segment s = RandomSegment({contexts[vi].tag == kTag ? kForeign : kLong}, d.segments[pick].len);
          d.length += s.len - d.segments[pick].len;
          d.segments[pick] = s;
        }
        break;
      case 2:  // a byte too far or too early
        if (n != 0) {
          Segment& s = d.segments[pick];
          if (regions.count(s.handle) != 0 && s.len != 0) {
            const Region& r = regions.at(s.handle);
            s.va = rng.Bits(1) ? r.va + r.len - s.len + 1 : r.va - 1;
          }
        }
        break;
      case 3:  // a segment that is far too long, beyond its region and maybe beyond the last address
        if (n != 0) d.segments[pick].len = rng.Bits(32) | 0x80000000u;
        break;
      case 4: Replace(d, pick, kTorn); break;
      case 5: Replace(d, pick, kFaulty); break;
      case 6: Replace(d, pick, kSick); break;
      case 7:
      case 8: d.bad_chunk = rng.Range(1, std::max<size_t>(1, (n + d.Rdma() + 1) / 4)); break;
      case 9: d.length += rng.Range(1, rng.Bits(1) ? 3 : 4000); break;
      case 10:
      case 11: d.length -= std::min<uint64_t>(d.length, rng.Range(1, rng.Bits(1) ? 3 : 4000)); break;
      case 12: d.length = contexts[vi].max + rng.Range(1, 1000); break;
      case 13:
        d.status |= 1u << (hvia::kDescriptorStatusFormatErrorLsb + rng.Below(8));
        if (rng.Bits(1)) d.count = rng.Bits(16);
        break;
      case 14:  // the target ends at the last address or beyond
        d.remote_va = -static_cast<uint64_t>(d.length) + rng.Below(3) - 1;
        break;
      case 15:
        if (rng.Bits(1)) d.operation = rng.Bits(1) ? hvia::kDescriptorOperationRDMARead : hvia::kDescriptorOperationReserved;
        else if (d.Rdma()) d.count = 0;
        else d.count = hvia::kMaxDataSegments + 1 + rng.Below(rng.Bits(1) ? 1 : 65000);
        d.segments.clear();
        break;
      default:
        // Adds bytes after the message, in the last segment.
        if (n != 0 && d.segments.back().len == 0) {
          d.segments.back() = RandomSegment({handles[0]}, rng.Range(1, 9));
        }
        break;
    }
    return d;
  }

  // Makes the first frame end at the end of a chunk. The next chunk may be unreadable, or without
  // bytes.
  void AlignChunk(Descriptor& d, const std::vector<uint32_t>& handles, bool faults) {
    const size_t chunk = rng.Range(1, 3), begin = 4 * chunk - 2 - d.Rdma();
    if (begin >= d.segments.size()) return;
    uint32_t left = hvia::kMaxPayload;
    for (size_t i = 0; i + 1 < begin; i++) {
      d.segments[i] = RandomSegment(handles, rng.Below(hvia::kMaxPayload / begin));
      left -= d.segments[i].len;
    }
    d.segments[begin - 1] = RandomSegment(handles, left);
    if (faults && rng.Bits(1)) {
      d.bad_chunk = chunk;
    } else if (rng.Bits(1)) {
      for (size_t i = begin; i < std::min(begin + 4, d.segments.size()); i++) d.segments[i] = RandomSegment(handles, 0);
    }
  }

  void Replace(Descriptor& d, size_t pick, uint32_t handle) {
    if (d.segments.empty() || contexts[d.vi].tag != kTag) return;
    const Segment s = RandomSegment({handle}, std::max(1u, d.segments[pick].len));
    d.length += s.len - d.segments[pick].len;
    d.segments[pick] = s;
  }

  uint8_t RandomVi() {
    if (rng.Chance(1, 16)) return rng.Range(9, 12);
    return used[rng.Below(used.size())];
  }

  // The peer reads.
  void PostAnswer(uint8_t vi) {
    PostAnswer(vi, rng.Below(20));
  }
  void PostAnswer(uint8_t vi, unsigned fault) {
    auto e = std::make_shared<Entry>();
    e->answer = true;
    e->d.vi = vi;
    e->d.seq = rng.Bits(16);
    e->d.pa = rng.Bits(32);
    Segment g = RandomSegment({rng.Chance(1, 8) ? kLong : rng.Bits(1) ? kWide : kHigh}, rng.Chance(1, 8) ? 0 : rng.Range(1, rng.Bits(1) ? 100 : 7000));
    switch (fault) {
      case 0: g = RandomSegment({kTorn}, 5000); break;
      case 1: g = RandomSegment({kFaulty}, 5000); break;
      case 2: g = RandomSegment({kSick}, 100); break;
      case 3: g.va++; break;  // may end one byte past the region
      case 4: g = RandomSegment({kForeign}, 100); break;
      default: break;
    }
    e->d.va = g.va;
    e->d.handle = g.handle;
    e->d.length = g.len;
    if (g.len != 0) e->d.segments.push_back(g);
    e->slot = 16 + rng.Below(4);
    Number(*e);
    entries.push_back(e);
    posted++;
  }

  void Number(Entry& e) {
    e.first = e.number = sequence[e.d.vi];
    sequence[e.d.vi] += e.Frames();
  }

  // The ledger rewinds to any frame that was sent, or continues with the next one. The process may
  // have changed the descriptor meanwhile.
  void HandBack(const std::shared_ptr<Entry>& e) {
    e->tries++;
    e->number = e->first + rng.Below(std::min(e->sent, e->Frames() - 1) + 1);
    if (stop_after >= 0) {
      e->number = e->first + std::min(e->sent, e->Frames() - 1);
      Change(*e, change_to);
      stop_after = -1;
    } else if (!e->answer && rng.Chance(1, 4)) {
      Change(*e, rng.Below(kChanges));
    }
    entries.push_back(e);
  }

  static constexpr unsigned kChanges = 10;
  void Change(Entry& e, unsigned how) {
    Descriptor& d = e.d;
    switch (how) {
      case 9: break;  // only Length
      case 0: d.operation = (d.operation + rng.Range(1, 3)) % 4; break;
      case 1: d.count = d.Rdma() && rng.Bits(1) ? 0 : hvia::kMaxDataSegments + 1 + d.Rdma(); break;
      case 2:
      case 3:
        if (d.segments.empty()) break;
        d.segments.resize(rng.Below(d.segments.size()));
        d.count = d.segments.size() + d.Rdma();
        break;
      case 4:
        d.segments.assign(1, RandomSegment({kLong}, std::min(d.length, 60000u)));
        d.count = 1 + d.Rdma();
        break;
      case 5: d.bad_head = true; break;
      case 6: d.bad_chunk = rng.Range(1, 3); break;
      case 7: d.remote_va = -static_cast<uint64_t>(d.length) + 1; break;
      default:
        d.immediate_flag = rng.Bits(1);
        d.immediate = rng.Bits(32);
        d.remote_handle = rng.Bits(32);
        break;
    }
    const uint32_t length = d.length;
    e.image = Image(d);
    PutLittle(e.image, hvia::kDescriptorLengthOffset, rng.Bits(1) ? length : rng.Bits(32), 4);
    changed++;
  }

  // Makes every change of a descriptor after each of its first frames.
  void Stopped(uint8_t operation) {
    for (unsigned how = 0; how < kChanges; how++) {
      for (int after = 0; after < 4; after++) {
        Descriptor d = RandomDescriptor(kept_vis[how % kept_vis.size()], false);
        d.operation = operation;
        d.immediate_flag &= !d.Read();
        d.status = 0;
        d.segments.clear();
        d.bad_chunk = 0;
        d.length = 0;
        for (unsigned i = rng.Range(10, 14); i > 0; i--) {
          d.segments.push_back(RandomSegment({kLong}, rng.Range(400, 700)));
          d.length += d.segments.back().len;
        }
        d.count = d.segments.size() + d.Rdma();
        stop_after = after;
        change_to = how;
        Post(d);
        RunToRest();
        stop_after = -1;
      }
    }
  }

  // Acknowledgements come while the engine skips many chunks.
  void PassedOver() {
    Descriptor d = RandomDescriptor(kept_vis[0], false);
    d.operation = hvia::kDescriptorOperationSend;
    d.status = d.bad_chunk = 0;
    d.segments.clear();
    for (unsigned i = 0; i < 200; i++) d.segments.push_back(RandomSegment({kLong}, 60));
    d.count = 200;
    d.length = 200 * 60;
    stop_after = 7;
    change_to = kChanges - 1;
    Post(d);
    while (stop_after >= 0) Clock();
    for (unsigned i = 0; i < 12; i++) PostAck();
    RunToRest();
  }

  // Each error of a message, when it is opened and when its bytes are read.
  void Wrong() {
    const uint8_t vi = kept_vis[1];
    Descriptor d = RandomDescriptor(vi, false);
    d.status = hvia::kDescriptorStatusFormatErrorMask;
    Post(d);
    d.status = 0;
    d.remote_va = 0;
    d.length = contexts[vi].max + 1;
    Post(d);
    Post(RandomDescriptor(10, false));
    Descriptor unreliable = RandomDescriptor(vis[0], false);
    unreliable.operation = hvia::kDescriptorOperationRDMARead;
    unreliable.status = 0;
    unreliable.segments.assign(1, RandomSegment({kLong}, 100));
    unreliable.count = 2;
    unreliable.length = 100;
    Post(unreliable);
    for (uint32_t handle : {kForeign, kTorn, kFaulty, kSick}) {
      Descriptor f = RandomDescriptor(vi, false);
      f.operation = hvia::kDescriptorOperationSend;
      f.status = f.bad_chunk = 0;
      f.segments = {RandomSegment({kLong}, 2000), RandomSegment({handle}, 5000)};
      f.count = 2;
      f.length = f.segments[0].len + f.segments[1].len;
      Post(f);
    }
    for (unsigned fault = 0; fault < 5; fault++) PostAnswer(vi, fault);
    for (uint8_t v : {uint8_t{12}, vis[0], vi}) {  // reset VI, and two whose queues continue
      Descriptor u = RandomDescriptor(v, false);
      u.unreachable = true;
      Post(u);
      Post(RandomDescriptor(v, false));
    }
    RunToRest();
    Heal(true);
  }

  void PostAck() {
    Ack a;
    a.vi = rng.Chance(1, 4) ? rng.Range(9, 12) : kept_vis[rng.Below(kept_vis.size())];
    a.number = rng.Bits(32);
    a.code = rng.Below(5);
    ack_queue.push_back(a);
  }

  void PostRaw() {
    RawJob j;
    j.len = rng.Bits(1) ? rng.Range(14, hvia::kMaxFrame) : rng.Range(14, 80);
    j.bad = rng.Chance(1, 6);
    j.pa = (j.bad ? raw_bad : raw_good) + rng.Below(kPage - j.len + 1);
    raw_queue.push_back(j);
  }

  // ---- the clock

  void Clock() {
    Drive();
    Sample();
    top->clk_i = 1;
    top->eval();
    top->clk_i = 0;
    unit::clocks()++;
  }

  bool AtRest() const {
    return queue.empty() && running.empty() && raw_queue.empty() && raw_running.empty() && entries.empty() && ack_queue.empty() &&
           !ack_open_ && (current_ != kKept || MayEnd()) && !led_seen_ && !top->txc_valid_o && !chunk_pending_ && top->quiet_o && bus.Idle() && att.Idle();
  }

  void RunToRest() {
    for (int i = 0; i < 4; i++) Clock();  // lets outside changes take effect
    uint64_t mark = progress, since = unit::clocks();
    while (!AtRest()) {
      Clock();
      if (progress != mark) {
        mark = progress;
        since = unit::clocks();
      } else if (unit::clocks() - since > 50000) {
        Fail("nothing moves: %zu descriptors wait, %zu run, raw %zu and %zu, the ledger has %zu, acks %zu, kind %d, slots %u, chunk wanted %d, quiet %d",
             queue.size(), running.size(), raw_queue.size(), raw_running.size(), entries.size(), ack_queue.size(), current_, slots_,
             chunk_pending_, top->quiet_o);
      }
    }
    for (int i = 0; i < 4; i++) {
      Clock();
      if (!top->quiet_o) Fail("not quiet at rest");
    }
    if (current_ == kKept) current_ = kNothing;
    kept_.reset();
    auto same = [&](const char* what, uint64_t have, uint64_t expect) {
      if (have != expect) Fail("counted %" PRIu64 " %s, want %" PRIu64, have, what, expect);
    };
    same("messages", seen.message, want.message);
    same("frames built", seen.frame, want.frame);
    same("messages given up", seen.aborted, want.aborted);
    same("acknowledgements", seen.ack, want.ack);
  }

  // Whether the message requests bytes of that region.
  static bool Uses(const Plan& p, uint32_t handle) { return (!p.frames.empty() || p.abort) && Names(p.d, handle); }
  static bool Names(const Descriptor& d, uint32_t handle) {
    return std::any_of(d.segments.begin(), d.segments.end(), [&](const Segment& s) { return s.len != 0 && s.handle == handle; });
  }

  // A region is withdrawn while messages read it. When the engine reports that it no longer uses
  // the region, its pages must not be accessed, though descriptors with its handle keep coming.
  void Withdraw(uint32_t handle) {
    Heal(true);
    auto post = [&](bool dead) {
      Descriptor d = RandomDescriptor(rng.Chance(1, 3) ? kept_vis[rng.Below(kept_vis.size())] : vis[rng.Below(6)], false);
      if (dead) {
        for (unsigned i = rng.Range(0, 2); i > 0; i--) d.segments.push_back(RandomSegment({kLong, kWide, kHigh}, rng.Range(1, 2000)));
        d.segments.push_back(RandomSegment({handle}, rng.Range(1, 6000)));
        if (d.segments.size() > hvia::kMaxDataSegments) d.segments.erase(d.segments.begin(), d.segments.end() - hvia::kMaxDataSegments);
        d.count = d.segments.size() + d.Rdma();
        d.length = 0;
        for (const Segment& s : d.segments) d.length += s.len;
      }
      if (d.handle == handle) d.handle ^= 0x80000000u;
      Post(d);
    };
    for (unsigned i = rng.Range(2, 6); i > 0; i--) post(rng.Chance(3, 4));
    for (uint64_t i = rng.Below(1500); i > 0; i--) Clock();
    att.regions.erase(handle);
    for (auto* list : {&queue, &running}) {
      for (Plan& p : *list) p.withdrawn |= Uses(p, handle);
    }
    gone_handle = handle;
    handling_.withdrawn |= Uses(handling_, handle);
    for (auto& e : entries) e->withdrawn |= Names(e->d, handle);
    if (kept_) kept_->withdrawn |= Names(kept_->d, handle);
    fixed_handle = true;
    drain_handle = handle;
    unsigned free = 0;
    auto lies_there = [&](const Plan& p) { return p.d.handle == handle; };
    for (unsigned i = 0; free < 2; i++) {
      if (i > 20000) Fail("handle %x is not drained", handle);
      // Wait for earlier descriptors in that region.
      if (std::any_of(queue.begin(), queue.end(), lies_there) || std::any_of(running.begin(), running.end(), lies_there)) i = 0;
      auto kept_there = [&](const std::shared_ptr<Entry>& e) { return e->d.handle == handle; };
      if (std::any_of(entries.begin(), entries.end(), kept_there) || (kept_ && kept_there(kept_))) i = 0;
      if (queue.size() < 3) {
        post(true);
        queue.back().withdrawn = true;
      }
      Clock();
      free = busy ? 0 : free + 1;
    }
    for (uint32_t page : regions[handle].pages) forbidden.insert(page / kPage);
    RunToRest();
    forbidden.clear();
    fixed_handle = false;
    gone_handle = 0;
    att.regions[handle] = regions[handle];
  }

  // Disconnects a VI that sends. At most the frame under construction may still leave.
  void Disconnect(uint8_t vi) {
    Heal(true);
    auto post = [&](uint8_t v) { Post(RandomDescriptor(v, false)); };
    for (unsigned i = rng.Range(2, 5); i > 0; i--) post(rng.Chance(3, 4) ? vi : RandomVi());
    if (Reliable(vi)) {
      for (unsigned i = rng.Below(3); i > 0; i--) PostAnswer(vi);
      for (unsigned i = rng.Below(5); i > 0; i--) PostAck();
    }
    if (rng.Bits(1)) {
      Descriptor d = RandomDescriptor(vi, false);
      d.segments.assign(1, RandomSegment({kLong}, 9000));
      d.count = 1 + d.Rdma();
      d.length = 9000;
      Post(d);
    }
    for (uint64_t i = rng.Below(2500); i > 0; i--) Clock();
    contexts[vi].state = rng.Bits(1) ? hvia::kVIStateIdle : hvia::kVIStateError;
    for (auto* list : {&queue, &running}) {
      for (Plan& p : *list) p.cut |= p.d.vi == vi;
    }
    // The ledger flushes its messages, at once or after a last offer.
    if (kept_ && kept_->d.vi == vi) kept_->cut = handling_.cut = true;
    for (auto& e : entries) e->cut |= e->d.vi == vi;
    if (rng.Bits(1)) {
      entries.remove_if([](const std::shared_ptr<Entry>& e) { return e->cut; });
      if (job_offered_ && job_offered_->cut) job_offered_.reset();
    }
    cut_vi = vi;
    commits_after_cut = 0;
    for (unsigned i = rng.Below(3); i > 0; i--) post(vi);
    RunToRest();
    cut_vi = flushing_vi = -1;
    contexts[vi].state = hvia::kVIStateConnected;
    SetSequence(vi, rng.Bits(32));
  }

  // With a full packet buffer the engine stalls and reports it, even if data was fetched ahead.
  void FullBuffer() {
    RunToRest();
    Heal(true);
    slots_open = false;
    slow_chunks = rng.Bits(1);
    if (rng.Bits(1)) PostRaw();  // leaves one slot free
    for (int i = 0; i < 5000 && !AtRest(); i++) Clock();
    for (unsigned i = 0; i < 4; i++) {
      Descriptor d = RandomDescriptor(vis[0], false);
      d.segments.assign(rng.Range(3, 14), RandomSegment({kLong}, 900));
      AlignChunk(d, {kLong}, false);
      d.count = d.segments.size() + d.Rdma();
      d.length = 0;
      for (const Segment& s : d.segments) d.length += s.len;
      Post(d);
    }
    if (rng.Bits(1)) {
      for (unsigned i = rng.Range(1, 3); i > 0; i--) PostAck();
      for (unsigned i = rng.Below(3); i > 0; i--) PostAnswer(kept_vis[0]);
      Post(RandomDescriptor(kept_vis[1], false));
    }
    for (int i = 0; i < 20000 && slots_ != 0; i++) Clock();
    if (slots_ != 0) Fail("a full packet buffer did not come about");
    for (int i = 0; i < 4000; i++) Clock();  // all that can be fetched ahead is here
    for (int i = 0; i < 20; i++) {
      Clock();
      if (!top->quiet_o) Fail("not quiet while the packet buffer is full");
    }
    slots_open = true;
    slow_chunks = false;
    RunToRest();
  }

  Descriptor Shape(const std::vector<uint32_t>& lens) {
    Descriptor d = RandomDescriptor(vis[0], false);
    d.operation = hvia::kDescriptorOperationSend;
    d.segments.clear();
    d.length = 0;
    for (uint32_t len : lens) {
      Segment s = RandomSegment({kLong}, len);
      if (len != 0) s.va = (regions[kLong].va / kPage + 1) * kPage;  // a full last beat leaves a tail in the packer
      d.segments.push_back(s);
      d.length += len;
    }
    d.count = lens.size();
    return d;
  }

  // A failing fetch ahead must not affect the frame before it, even if that frame's last beat
  // waits. A fetch ahead while the packet buffer is full must not look idle.
  void FetchedAhead() {
    stall_last = true;
    for (bool bad : {true, false}) {
      Descriptor d = Shape({hvia::kMaxPayload / 2, hvia::kMaxPayload / 2, 100});
      d.bad_chunk = bad;
      Post(d);
      RunToRest();
    }
    stall_last = false;
    for (int i = 0; i < 1000 && slots_ != 2; i++) Clock();
    slots_open = false;
    slow_chunks = true;
    PostRaw();
    raw_queue.back() = RawJob{raw_good, hvia::kMinFrame, false};
    RunToRest();
    Post(Shape({hvia::kMaxPayload / 2, hvia::kMaxPayload / 2, 0, 0, 0, 0, 100}));
    for (int i = 0; i < 4000; i++) Clock();
    if (slots_ != 0 || !top->quiet_o) Fail("%u slots left, quiet %d with a full packet buffer", slots_, top->quiet_o);
    slots_open = true;
    slow_chunks = false;
    RunToRest();
  }

  // All bytes have arrived long before the engine knows whether more follow.
  void HeldBack() {
    slow_chunks = true;
    for (uint32_t len : {20u, hvia::kMaxPayload, hvia::kMaxPayload + 20, 0u}) {
      for (unsigned end : {0u, 1u, 2u}) {
        Descriptor d = Shape({len, 0, 0, 0, 0, 0, end == 1});
        d.length = len;
        d.bad_chunk = end == 2 ? rng.Range(1, 2) : 0;
        Post(d);
        RunToRest();
      }
    }
    // A message that fails while its next chunk is fetched ahead, and one after it.
    Descriptor d = Shape({20, 20, 20, 20});
    d.segments[1].handle = kSick;
    Post(d);
    Post(Shape({10, 10, 10, 10}));
    RunToRest();
    slow_chunks = false;
  }

  // The latency of a 4-byte message from its offer to the beat that commits it.
  uint64_t Latency(uint8_t operation, uint32_t len, unsigned segments) {
    traffic = {0, 0};
    RunToRest();
    for (int i = 0; i < 100; i++) Clock();  // slots come back
    Descriptor d;
    d.vi = vis[0];
    d.operation = operation;
    d.remote_va = 0x1000;
    for (unsigned i = 0; i < segments; i++) {
      Segment s;
      s.va = (regions[kLong].va / kPage + 1) * kPage + 64 * i;
      s.handle = kLong;
      s.len = len / segments;
      d.segments.push_back(s);
    }
    d.length = len;
    d.count = segments + d.Rdma();
    Post(d);
    const uint64_t begin = unit::clocks();
    RunToRest();
    return last_commit - begin;
  }

  unit::Rng rng;
  unit::Memory memory;
  unit::PagePool pool;
  std::map<uint32_t, Region> regions;  // all, including withdrawn ones
  unit::ReadBus<kBytes> bus;
  unit::AttPort att;
  std::unique_ptr<Vhvia_tx_engine> top;
  std::array<Context, kVIs> contexts;
  std::array<uint32_t, kVIs> sequence{};
  std::array<bool, kVIs> broken{};  // until the descriptors posted so far are complete
  std::set<uint32_t> bad_pages;  // page numbers whose read the bus rejects
  uint64_t torn_page = 0;        // of kTorn: the table rejects it though it lies inside
  uint32_t raw_good = 0, raw_bad = 0;
  std::deque<Plan> queue, running;
  std::deque<RawJob> raw_queue, raw_running;
  std::list<std::shared_ptr<Entry>> entries;  // waiting in the ledger
  std::deque<Ack> ack_queue;
  uint32_t gone_handle = 0;  // withdrawn now
  // The ledger does not reply go after stop_after frames of the next message, whose process changes
  // the descriptor.
  int stop_after = -1;
  unsigned change_to = 0;
  uint64_t jobs_seen = 0, passed_over = 0, acks_seen = 0, acks_inside = 0, acks_dropped = 0, told = 0, not_gone = 0, fails = 0, skip_fails = 0,
           changed = 0, answers_seen = 0, reads_seen = 0, outdated = 0, withdrawn_jobs = 0, cut_kept = 0;
  std::set<uint32_t> opened, failed;
  Traffic traffic{0, 0};
  bool slots_open = true;  // the MAC takes frames
  bool slow_chunks = false;
  bool stall_last = false;  // the packet buffer delays the last beat of every frame
  Stats seen, want;
  std::set<uint32_t> outcomes;
  uint64_t progress = 0, posted = 0, chunks_read = 0, frames_seen = 0, raw_seen = 0, aborts = 0, payload = 0, last_commit = 0;
  uint64_t cut_seen = 0, withdrawn_seen = 0, unreachable_seen = 0, untold_seen = 0, behind_seen = 0;
  std::set<uint32_t> forbidden;  // page numbers that must not be read any more
  bool fixed_handle = false;     // drain_handle stays
  bool busy = false;             // the last clock's output for drain_handle
  uint32_t drain_handle = 0;
  uint8_t drain_vi = 0;
  unsigned commits_after_cut = 0;
  int cut_vi = -1;
  int flushing_vi = -1;  // VI of a flushed descriptor

 private:
  void Drive() {
    bus.Drive(traffic);
    att.Drive(traffic);
    top->req_ready_i = bus.req_ready;
    bus.Show(*top);
    att.Show(*top);
    const Context& c = contexts[ctx_vi_];
    top->rd_ctx_i[0] = c.state << hvia::kVIContextAttributesStateLsb | rng.Bits(2) << hvia::kVIContextAttributesEnableRDMAWriteLsb |
                       c.reliability << hvia::kVIContextAttributesReliabilityLsb |
                       c.generation << hvia::kVIContextAttributesGenerationLsb |
                       static_cast<uint32_t>(c.tag) << hvia::kVIContextAttributesTagLsb;
    top->rd_ctx_i[1] = c.max;
    top->rd_ctx_i[2] = c.peer_mac;
    top->rd_ctx_i[3] = static_cast<uint32_t>(c.peer_mac >> 32) | static_cast<uint32_t>(c.peer_vi) << 16;

    if (!offered_) offered_ = !queue.empty() && !rng.Chance(traffic.idle, 4);
    top->desc_valid_i = offered_;
    if (offered_) {
      const Plan& p = queue.front();
      top->desc_vi_i = p.d.vi;
      top->desc_seq_i = p.d.seq;
      top->desc_va_i = p.d.va;
      top->desc_pa_i = p.d.pa;
      top->desc_handle_i = p.d.handle;
      top->desc_status_i = p.d.status;
      top->desc_unreachable_i = p.d.unreachable;
      PutChunk(top->desc_chunk_i, p.image, 0);
    } else {
      top->desc_vi_i = rng.Bits(8);
      top->desc_handle_i = rng.Bits(32);
      top->desc_status_i = rng.Bits(32);
      top->desc_unreachable_i = rng.Bits(1);
      for (unsigned i = 0; i < 16; i++) top->desc_chunk_i[i] = rng.Bits(32);
    }
    if (!raw_offered_) raw_offered_ = !raw_queue.empty() && !rng.Chance(traffic.idle, 4);
    top->rawtx_valid_i = raw_offered_;
    top->rawtx_pa_i = raw_offered_ ? raw_queue.front().pa : rng.Bits(32);
    top->rawtx_len_i = raw_offered_ ? raw_queue.front().len : rng.Bits(11);
    DriveLedger();
    top->cpl_ready_i = !rng.Chance(traffic.pressure, 4);
    top->async_ready_i = !rng.Chance(traffic.pressure, 4);

    top->txc_ready_i = !chunk_pending_ && !rng.Chance(traffic.pressure, 4);
    top->txc_done_i = chunk_pending_ && chunk_wait_ == 0;
    top->txc_err_i = rng.Bits(1);
    for (unsigned i = 0; i < 16; i++) top->chunk_data_i[i] = rng.Bits(32);
    if (top->txc_done_i) {
      const Plan& p = Current();
      top->txc_err_i = (p.d.bad_chunk != 0 && chunk_ >= static_cast<int>(p.d.bad_chunk)) || (chunk_ == 0 && p.d.bad_head);
      if (!top->txc_err_i) PutChunk(top->chunk_data_i, p.image, chunk_);
    }

    top->tx_slot_ready_i = slots_ != 0 && !rng.Chance(traffic.pressure, 4);
    if (stall_ != 0) stall_--;
    else if (rng.Chance(traffic.pressure, 200)) stall_ = rng.Below(80);
    top->tx_wready_i = stall_ == 0 && !rng.Chance(traffic.pressure, 8);

    if (!fixed_handle && rng.Chance(1, 4)) drain_handle = RandomHandle();
    if (rng.Chance(1, 4)) {
      drain_vi = used[rng.Below(used.size())];
      if (rng.Bits(1) && kept_) drain_vi = kept_->d.vi;
      else if (rng.Bits(1) && !running.empty()) drain_vi = running.back().d.vi;
    }
    top->drain_handle_i = drain_handle;
    top->drain_vi_i = drain_vi;
    top->clk_i = 0;
    top->eval();
    AnswerLedger();
    if (stall_last && top->tx_wvalid_o && top->tx_wlast_o) {
      if (last_wait_ == 0) last_wait_ = 40;
      else if (--last_wait_ == 0) return;
      top->tx_wready_i = 0;
      top->eval();
    }
  }

  template <class Wide>
  static void PutChunk(Wide& w, const std::vector<uint8_t>& image, unsigned chunk) {
    for (unsigned i = 0; i < 16; i++) {
      uint32_t v = 0;
      for (unsigned j = 0; j < 4; j++) v |= static_cast<uint32_t>(image[chunk * kChunk + 4 * i + j]) << (8 * j);
      w[i] = v;
    }
  }

  void DriveLedger() {
    if (job_offered_ && rng.Chance(1, 64)) {  // the request is withdrawn
      job_offered_.reset();
      withdrawn_jobs++;
    }
    if (!job_offered_ && !entries.empty() && !rng.Chance(traffic.idle, 4)) {
      auto it = entries.begin();
      std::advance(it, rng.Below(entries.size()));
      job_offered_ = *it;
    }
    top->job_valid_i = job_offered_ != nullptr;
    if (job_offered_) {
      const Entry& e = *job_offered_;
      top->job_vi_i = e.d.vi;
      top->job_slot_i = e.slot;
      top->job_response_i = e.answer;
      top->job_first_i = e.first;
      top->job_number_i = e.number;
      top->job_va_i = e.d.va;
      top->job_pa_i = e.d.pa;
      top->job_handle_i = e.d.handle;
      top->job_seq_i = e.d.seq;
      top->job_length_i = e.d.length;
      top->job_operation_i = e.operation;
    } else {
      top->job_vi_i = rng.Bits(8);
      top->job_number_i = rng.Bits(32);
    }
    if (!ack_offered_) ack_offered_ = !ack_queue.empty() && !rng.Chance(traffic.idle, 4);
    top->ack_valid_i = ack_offered_;
    const Ack a = ack_offered_ ? ack_queue.front() : Ack{static_cast<uint8_t>(rng.Bits(8)), 7, rng.Bits(32)};
    top->ack_vi_i = a.vi;
    top->ack_number_i = a.number;
    top->ack_code_i = a.code;
    top->led_ready_i = 0;
    top->led_go_i = rng.Bits(1);
    top->led_number_i = rng.Bits(32);
    top->led_slot_i = rng.Bits(5);
  }

  // The ledger answers after a random delay, or at once.
  void AnswerLedger() {
    if (!top->led_valid_o) return;
    if (!led_seen_) {
      led_seen_ = true;
      led_wait_ = rng.Chance(traffic.pressure, 4) ? rng.Below(60) : rng.Below(4);
    }
    if (led_wait_ > 0) {
      led_wait_--;
      return;
    }
    const unsigned tries = kept_ ? kept_->tries : 0;
    bool go = rng.Chance(5, 6) || tries > 4;
    if (top->led_op_o == kOpen) go = rng.Chance(3, 4) && top->led_status_o == 0 && top->led_operation_o != hvia::kDescriptorOperationReserved;
    if (stop_after >= 0) {
      go = top->led_op_o == kOpen ? stop_after > 0 && top->led_status_o == 0 : static_cast<int>(handling_.committed) < stop_after;
    }
    if (top->led_op_o == kFail || (top->led_op_o == kSent && top->led_last_o)) go = false;
    top->led_ready_i = 1;
    top->led_go_i = go;
    if (top->led_op_o == kOpen) {
      top->led_number_i = sequence[top->led_vi_o];
      top->led_slot_i = slot_ = rng.Bits(4);
    }
    top->eval();
  }

  // Compares the engine's reports with its actions.
  void Ledger() {
    if (!top->led_valid_o || !top->led_ready_i) return;
    led_seen_ = false;
    progress++;
    told++;
    if (!top->led_go_i) acks_in_row_ = 0;  // end of a message
    if (ack_open_) Fail("the ledger is notified beside an acknowledgement");
    if (top->led_op_o == kOpen) return Open();
    if (current_ != kKept || ending_ || !kept_) Fail("the ledger is notified of a message that it did not request");
    Entry& e = *kept_;
    Plan& p = handling_;
    const uint32_t at = e.number + p.committed;
    if (top->led_vi_o != e.d.vi || top->led_slot_o != e.slot) {
      Fail("the ledger is notified of VI %u slot %u, want %u %u", top->led_vi_o, top->led_slot_o, e.d.vi, e.slot);
    }
    switch (top->led_op_o) {
      case kAsk:
        if (asked_ || p.early) Fail("the ledger is asked of frame %u of a job that %s", top->led_number_o, asked_ ? "it was asked of" : "fails before");
        if (top->led_number_o != e.number) Fail("the ledger is asked of frame %u, want %u", top->led_number_o, e.number);
        asked_ = true;
        skipping_ = false;
        if (top->led_go_i) return;
        outdated++;
        ending_ = true;
        if (!e.cut) HandBack(kept_);
        return;
      case kSent: {
        const bool last = at == e.first + e.Frames();
        if (!sent_open_) Fail("the ledger is notified of a frame that was not sent, or twice");
        sent_open_ = false;
        if (top->led_number_o != at - 1 || top->led_last_o != last) {
          Fail("the ledger is notified of frame %u, last %d, want %u %d", top->led_number_o, top->led_last_o, at - 1, last);
        }
        e.sent = std::max(e.sent, at - e.first);
        if (last) want.message++;
        if (last && p.errors != 0 && !p.withdrawn) Fail("a message is sent whole that is wrong");
        if (top->led_go_i) return;
        ending_ = true;
        if (!last) not_gone++;
        if (!e.cut && (!last || (e.tries < 4 && rng.Chance(1, 3)))) HandBack(kept_);
        return;
      }
      default: {
        uint32_t errors = p.errors;
        if (p.withdrawn && !p.early && top->led_status_o == hvia::kDescriptorStatusProtectionErrorMask) {
          errors = hvia::kDescriptorStatusProtectionErrorMask;
          if (!p.aborted) Fail("a message of VI %u is rejected and no frame was dropped", e.d.vi);
        } else if (p.aborted != p.abort || p.committed != p.frames.size() || (!p.withdrawn && p.traced != p.traces.size())) {
          Fail("a %s fails after %zu of %zu frames, dropped %d, want %d, %zu of %zu events traced, status %03x, want %03x", Name(p), p.committed,
               p.frames.size(), p.aborted, p.abort, p.traced, p.traces.size(), top->led_status_o, p.errors);
        }
        if (errors == 0 || top->led_status_o != errors) {
          Fail("a %s of %u bytes fails with %03x after %zu frames, want %03x", Name(p), e.d.length, top->led_status_o, p.committed, errors);
        }
        if (p.early && !e.answer && p.d.operation == e.operation && !p.d.bad_head && !Malformed(p.d)) skip_fails++;
        if (at != e.first) want.aborted++;
        failed.insert(errors | (e.answer ? 0x10000u : 0));
        fails++;
        skipping_ = false;
        ending_ = true;
      }
    }
  }

  void Open() {
    if (current_ != kDescriptor || !Reliable(running.back().d.vi)) Fail("a message is opened that is none of a reliable VI");
    Plan p = running.back();
    running.pop_back();
    const Descriptor& d = p.d;
    if (d.unreachable) {
      if (top->led_vi_o != d.vi || top->led_operation_o != hvia::kDescriptorOperationReserved || top->led_status_o != 0) {
        Fail("a descriptor of VI %u that could not be reached is opened for VI %u, operation %u status %03x", d.vi, top->led_vi_o,
             top->led_operation_o, top->led_status_o);
      }
      unreachable_seen++;
      Kept(std::make_shared<Entry>(), p);
      kept_->d = d;
      ending_ = true;
      return;
    }
    // Open reports only an error found before the first frame.
    uint32_t status = p.frames.empty() && !p.abort ? p.errors : 0;
    if (p.cut && top->led_status_o == hvia::kDescriptorStatusFlushedMask) status = hvia::kDescriptorStatusFlushedMask;
    opened.insert(status);
    // The reserved operation marks an unreachable descriptor. A malformed one with this operation
    // is reported as a send.
    const uint32_t operation = d.operation == hvia::kDescriptorOperationReserved ? hvia::kDescriptorOperationSend : d.operation;
    if (top->led_vi_o != d.vi || top->led_va_o != d.va || top->led_pa_o != d.pa || top->led_handle_o != d.handle ||
        top->led_seq_o != d.seq || top->led_length_o != d.length || top->led_operation_o != operation || top->led_fence_o != d.fence ||
        top->led_status_o != status) {
      Fail("a descriptor of VI %u at %" PRIx64 ", operation %u, %u bytes, is opened for VI %u at %" PRIx64
           ", operation %u, %u bytes, status %03x, want %03x",
           d.vi, d.va, d.operation, d.length, top->led_vi_o, top->led_va_o, top->led_operation_o, top->led_length_o, top->led_status_o, status);
    }
    auto e = std::make_shared<Entry>();
    e->d = d;
    e->image = p.image;
    e->operation = d.operation;
    e->slot = slot_;
    e->cut = p.cut;
    e->withdrawn = p.withdrawn || (gone_handle != 0 && Names(d, gone_handle));
    Kept(e, p);
    asked_ = true;
    if (status != 0) {
      ending_ = true;
      return;
    }
    Number(*e);
    if (top->led_go_i) return;
    not_gone++;
    ending_ = true;
    if (!e->cut) HandBack(e);
  }

  void Kept(const std::shared_ptr<Entry>& e, const Plan& p) {
    kept_ = e;
    handling_ = p;
    current_ = kKept;
    ending_ = asked_ = sent_open_ = skipping_ = false;
  }

  // Between frames, a message of a disconnected VI ends without a report.
  bool MayEnd() const { return ending_ || (kept_->cut && !sent_open_ && out_.empty()); }

  // Work that may wait for at most one acknowledgement.
  bool OthersWait() const {
    if (offered_ || raw_offered_ || job_offered_) return true;
    if (current_ == kKept) return !ending_ && !kept_->cut;
    if (current_ != kDescriptor || running.empty()) return false;
    const Plan& p = running.back();
    return !p.cut && !p.aborted && p.committed < p.frames.size();
  }

  // The message in flight.
  Plan& Current() { return current_ == kKept ? handling_ : running.back(); }
  bool Message() const { return current_ == kDescriptor || current_ == kKept; }

  // A present, past or future handle.
  uint32_t RandomHandle() {
    if (kept_ && rng.Bits(1)) return rng.Bits(1) || kept_->d.segments.empty() ? kept_->d.handle : kept_->d.segments[0].handle;
    const Plan* p = !running.empty() && rng.Bits(1) ? &running[rng.Below(running.size())] : !queue.empty() ? &queue.front() : nullptr;
    if (p == nullptr || rng.Chance(1, 8)) return use_;
    if (p->d.segments.empty() || rng.Chance(1, 4)) return p->d.handle;
    return p->d.segments[rng.Below(p->d.segments.size())].handle;
  }

  void Sample() {
    // The injected faults of the bus and the table depend on addresses, so the model knows them.
    bus.fail_in = bad_pages.count(top->req_addr_o / kPage) != 0 && top->req_valid_o && bus.req_ready;
    if (top->req_valid_o && forbidden.count(top->req_addr_o / kPage)) Fail("address %08x is read after its handle was drained", top->req_addr_o);
    att.fail_in = 0;
    if (top->att_req_valid_o && att.req_ready) {
      const bool torn = top->att_req_handle_o == kTorn && top->att_req_va_o / kPage == torn_page;
      if (top->att_req_handle_o == kSick || torn) {
        att.fail_in = 1;
        att.fail_with = torn ? hvia::kAttErrorHandle : hvia::kAttErrorBackend;
      }
      if (!Message() || top->att_req_vi_o != Current().d.vi) Fail("a translation for VI %u", top->att_req_vi_o);
      if (current_ == kDescriptor && Reliable(Current().d.vi)) Fail("a translation before VI %u was opened", top->att_req_vi_o);
    }
    Draining();
    bus.Sample(top->req_valid_o, top->req_addr_o, top->req_len_o, top->rready_o);
    att.Sample(*top);
    ctx_vi_ = top->rd_vi_o;
    init_taken_ = top->seq_init_valid_i && top->seq_init_ready_o;
    Unreachable();
    Chunks();
    Beats();
    Ledger();
    if (top->trace_valid_o) Trace(top->trace_event_o, top->trace_vi_o, top->trace_seq_o);
    if (ack_built_) Fail("an acknowledgement is not traced");
    seen.message += top->stat_transmit_message_o;
    seen.frame += top->stat_transmit_frame_o;
    seen.aborted += top->stat_transmit_aborted_o;
    seen.ack += top->stat_transmit_acknowledge_o;
    if (top->cpl_valid_o && top->cpl_ready_i) Complete();
    if (top->rawtx_done_o) {
      if (raw_running.empty() || current_ == kRawFrame) Fail("a raw frame is done before it ended");
      if (top->rawtx_err_o != raw_running.front().bad) Fail("a raw frame ended with error %d", top->rawtx_err_o);
      raw_running.pop_front();
      progress++;
    }
    Take();
    if (slots_open && slots_ < 2 && rng.Chance(1, 8)) slots_++;
  }

  // An unreachable descriptor ends as soon as it can be reported. Only an offered completion
  // remains of earlier work. A reset VI gets no report.
  void Unreachable() {
    const bool now = current_ == kDescriptor && !running.empty() && running.back().d.unreachable && !Reliable(running.back().d.vi) &&
                     top->async_ready_i && !ack_open_ && !top->ack_ready_o;
    const bool tell = now && contexts[running.back().d.vi].state != hvia::kVIStateFree;
    if (top->async_valid_o != tell) Fail("an asynchronous error is %d, want %d", top->async_valid_o, tell);
    if (!now) return;
    const uint8_t vi = running.back().d.vi;
    if (tell && (top->async_code_o != hvia::kAsyncErrorPostDescriptor || top->async_vi_o != vi)) {
      Fail("asynchronous error %u of VI %u, want VI %u", top->async_code_o, top->async_vi_o, vi);
    }
    if (running.size() == 2 && !top->cpl_valid_o) Fail("VI %u breaks before the descriptor before is complete", vi);
    (tell ? unreachable_seen : untold_seen)++;
    running.pop_back();
    current_ = kNothing;
    acks_in_row_ = 0;
    progress++;
  }

  void Take() {
    const bool desc = offered_ && top->desc_ready_o, raw = raw_offered_ && top->rawtx_ready_o;
    const bool job = job_offered_ && top->job_ready_o, ack = ack_offered_ && top->ack_ready_o;
    // A message that ends without a frame counts as a turn too.
    if (Message() && (Current().cut || (Current().frames.empty() && !Current().abort))) acks_in_row_ = 0;
    if (desc + raw + job + ack > 1) Fail("two things were taken at once");
    // Each kind waits for at most one of each other kind.
    const bool offers[3] = {offered_, job_offered_ != nullptr, raw_offered_}, takes[3] = {desc, job, raw};
    for (unsigned k = 0; k < 3; k++) {
      for (unsigned t = 0; t < 3; t++) {
        if (!offers[k] || takes[k]) passed_by_[k][t] = 0;
        else if (takes[t] && ++passed_by_[k][t] > 1) Fail("kind %u is taken twice while kind %u waits", t, k);
      }
    }
    if (desc || raw || job) {
      // The completion of the message before may still wait, but nothing else.
      if (current_ == kRawFrame || (current_ == kDescriptor && !top->cpl_valid_o) || ack_open_) Fail("work is taken while other is in flight");
      if (current_ == kKept && !MayEnd()) Fail("work is taken while a message of the ledger is in flight");
      if (chunk_pending_) Fail("work is taken while a chunk of the message before is in flight");
      if (current_ == kKept && !ending_) cut_kept++;
      current_ = desc ? kDescriptor : raw ? kRawFrame : kKept;
      if (!job) kept_.reset();
      progress++;
    }
    if (ack) {
      if (current_ == kRawFrame || sent_open_ || !out_.empty() || ack_open_) Fail("an acknowledgement is taken inside a frame");
      const bool others = OthersWait();
      if (acks_in_row_++ > 0 && others_wait_ && others) {
        Fail("two acknowledgements in a row while other work waits: kind %d, offered %d %d %d, ending %d, skipping %d", current_, offered_,
             job_offered_ != nullptr, raw_offered_, ending_, skipping_);
      }
      others_wait_ = others;
      acks_inside += Message() && !(current_ == kKept && ending_);
      ack_open_ = std::make_unique<Ack>(ack_queue.front());
      ack_gone_ = contexts[ack_open_->vi].state == hvia::kVIStateFree;
      ack_queue.pop_front();
      ack_offered_ = false;
      frames_before_ack_ = chunks_before_ack_ = 0;
      progress++;
    } else if (ack_open_ && ack_gone_) {
      ack_open_.reset();
      acks_dropped++;
    }
    others_wait_ &= OthersWait();
    if (job) {
      auto e = job_offered_;
      job_offered_.reset();
      entries.remove(e);
      e->withdrawn |= gone_handle != 0 && Names(e->d, gone_handle);
      Kept(e, PredictJob(*e));
      skipping_ = true;
      chunk_ = -1;
      chunk_bad_ = false;
      jobs_seen++;
      passed_over += e->number != e->first;
      answers_seen += e->answer;
      reads_seen += !e->answer && e->operation == hvia::kDescriptorOperationRDMARead;
    }
    if (desc) {
      running.push_back(queue.front());
      queue.pop_front();
      offered_ = false;
      chunk_ = 0;
      chunk_bad_ = false;
      if (running.size() > 2) Fail("%zu descriptors in flight", running.size());
    }
    if (raw) {
      raw_running.push_back(raw_queue.front());
      raw_queue.pop_front();
      raw_offered_ = false;
    }
  }

  void Chunks() {
    if (top->txc_done_i) {
      chunk_pending_ = false;
      chunk_bad_ = top->txc_err_i;
      progress++;
      if (ack_offered_ && skipping_ && ++chunks_before_ack_ > 2) Fail("an acknowledgement waits for %u chunks", chunks_before_ack_);
    } else if (chunk_pending_) {
      chunk_wait_--;
    }
    if (top->txc_valid_o) acks_in_row_ = 0;
    if (top->txc_valid_o && top->txc_ready_i) {
      if (!Message() || Current().answer) Fail("a chunk is requested without a descriptor");
      const Plan& p = Current();
      chunk_++;
      if (chunk_ > 0 && p.d.Read() && !p.early) Fail("a further chunk of a read is requested");
      if (chunk_bad_) Fail("chunk %u is requested after one that cannot be read", chunk_);
      if (chunk_ >= static_cast<int>(p.Chunks())) Fail("chunk %u of %u is requested", chunk_, p.Chunks());
      if (current_ == kDescriptor && p.frames.empty() && !p.abort) Fail("a chunk of a descriptor that was rejected");
      if (top->txc_vi_o != p.d.vi || top->txc_handle_o != p.d.handle || top->txc_va_o != p.d.va + chunk_ * kChunk) {
        Fail("chunk at %" PRIx64 " handle %x VI %u, want %" PRIx64 " handle %x VI %u", top->txc_va_o, top->txc_handle_o,
             top->txc_vi_o, p.d.va + chunk_ * kChunk, p.d.handle, p.d.vi);
      }
      chunk_pending_ = true;
      chunk_wait_ = slow_chunks ? rng.Range(600, 900) : traffic.idle == 0 ? 12 : rng.Below(rng.Chance(1, 4) ? 400 : 30);
      chunks_read++;
    }
  }

  void Beats() {
    if (top->tx_wvalid_o) {
      const uint8_t vi = ack_open_ ? ack_open_->vi : Message() ? Current().d.vi : 0;
      const uint16_t seq = ack_open_ ? ack_open_->number : Message() ? Current().d.seq : 0;
      if (!ack_open_ && (current_ == kNothing || (current_ == kKept && (ending_ || !asked_ || sent_open_)))) Fail("a beat without a frame");
      if (!ack_open_ && current_ == kDescriptor && Reliable(vi)) Fail("a frame of VI %u before the ledger was asked", vi);
      if (top->tx_wvi_o != vi || top->tx_wseq_o != seq) Fail("a beat of VI %u sequence %u", top->tx_wvi_o, top->tx_wseq_o);
      if (slots_ == 0) Fail("a beat without a slot");
    }
    if (top->tx_wabort_o) {
      out_.clear();
      aborts++;
      progress++;
      acks_in_row_ = 0;
      if (ack_offered_) frames_before_ack_++;
      if (ack_open_) Fail("an acknowledgement was dropped");
      if (current_ == kRawFrame) {
        if (!raw_running.back().bad) Fail("a raw frame was dropped");
      } else if (Message()) {
        Plan& p = Current();
        if (p.aborted) Fail("a second frame of one message was dropped");
        p.aborted = true;
        if (!p.withdrawn && (!p.abort || p.committed != p.frames.size())) {
          Fail("frame %zu of %zu of a %s of %u bytes in %zu segments was dropped", p.committed, p.frames.size(),
               Name(p), p.d.length, p.d.segments.size());
        }
      } else {
        Fail("a frame was dropped that is none");
      }
      if (current_ == kRawFrame) current_ = kNothing;
      return;
    }
    if (!top->tx_wvalid_o || !top->tx_wready_i) return;
    for (unsigned i = 0; i < top->tx_wbytes_o; i++) out_.push_back(static_cast<uint64_t>(top->tx_wdata_o) >> (8 * i));
    if (!top->tx_wlast_o) return;
    slots_--;
    progress++;
    last_commit = unit::clocks();
    if (ack_open_) {
      Compare("acknowledgement", Acknowledgement(*ack_open_));
      ack_built_ = std::move(ack_open_);
      want.ack++;
      acks_seen++;
      return;
    }
    acks_in_row_ = 0;
    if (ack_offered_ && ++frames_before_ack_ > 1) Fail("an acknowledgement waits for two frames");
    if (current_ == kRawFrame) {
      const RawJob& j = raw_running.back();
      Compare("raw", Frame(memory.bytes.begin() + j.pa, memory.bytes.begin() + j.pa + j.len));
      current_ = kNothing;
      raw_seen++;
      return;
    }
    Plan& p = Current();
    if (p.committed >= p.frames.size()) Fail("frame %zu of a message of %zu", p.committed + 1, p.frames.size());
    Frame f = p.frames[p.committed++];
    if (current_ == kKept) {
      sent_open_ = true;
      PutBig(f, kVia + hvia::kViaHeaderSequenceOffset, kept_->number + p.committed - 1, 4);
    } else {
      PutBig(f, kVia + hvia::kViaHeaderSequenceOffset, sequence[p.d.vi]++, 4);
    }
    Compare(Name(p), f);
    p.bytes += f.size() - kHeader;
    payload += f.size() - kHeader;
    frames_seen++;
    want.frame++;
    if (p.d.vi == cut_vi && ++commits_after_cut > 1) Fail("a second frame of VI %u after its disconnect", p.d.vi);
  }

  void Compare(const char* what, const Frame& e) {
    if (e.size() != out_.size()) Fail("a %s frame of %zu bytes, want %zu", what, out_.size(), e.size());
    if (e != out_) {
      auto m = std::mismatch(e.begin(), e.end(), out_.begin());
      Fail("byte %zd of a %s frame of %zu is %02x, want %02x", m.first - e.begin(), what, e.size(), *m.second, *m.first);
    }
    out_.clear();
  }

  void Trace(uint8_t event, uint8_t vi, uint16_t seq) {
    if (event == hvia::kTraceEventAcknowledgeBuilt) {
      if (!ack_built_ || vi != ack_built_->vi || seq != static_cast<uint16_t>(ack_built_->number)) {
        Fail("an acknowledgement of VI %u number %u is traced", vi, seq);
      }
      ack_built_.reset();
      return;
    }
    if (!Message()) Fail("%s is traced without a descriptor", hvia::TraceEventName(event));
    Plan& p = Current();
    if (vi != p.d.vi || seq != p.d.seq) Fail("%s is traced for VI %u sequence %u", hvia::TraceEventName(event), vi, seq);
    if (p.withdrawn) return;
    if (p.traced >= p.traces.size() || p.traces[p.traced] != event) {
      Fail("%s is traced, want %s", hvia::TraceEventName(event),
           p.traced < p.traces.size() ? hvia::TraceEventName(p.traces[p.traced]) : "nothing");
    }
    p.traced++;
  }

  void Complete() {
    if (running.empty()) Fail("an unexpected completion");
    acks_in_row_ = 0;
    const Plan& p = running.front();
    const Descriptor& d = p.d;
    if (Reliable(d.vi)) Fail("a completion of VI %u, which the ledger has", d.vi);
    if (top->cpl_vi_o != d.vi || top->cpl_seq_o != d.seq || top->cpl_pa_o != d.pa || top->cpl_handle_o != d.handle || !top->cpl_write_o) {
      Fail("completion of VI %u sequence %u at %08x, want VI %u sequence %u at %08x", top->cpl_vi_o, top->cpl_seq_o, top->cpl_pa_o,
           d.vi, d.seq, d.pa);
    }
    uint32_t errors = p.errors;
    bool whole = true;
    if (p.cut && top->cpl_status_o == Status(d, hvia::kDescriptorStatusFlushedMask) && errors != hvia::kDescriptorStatusFlushedMask) {
      if (p.aborted) Fail("a message is flushed inside a frame");
      errors = hvia::kDescriptorStatusFlushedMask;
      whole = false;
      cut_seen += p.committed != 0;
    } else if (p.withdrawn && top->cpl_status_o == Status(d, hvia::kDescriptorStatusProtectionErrorMask)) {
      if (!p.aborted) Fail("a message of VI %u is rejected and no frame was dropped", d.vi);
      if (errors != hvia::kDescriptorStatusProtectionErrorMask || p.committed != p.frames.size()) withdrawn_seen++;
      errors = hvia::kDescriptorStatusProtectionErrorMask;
      whole = false;
    }
    if (contexts[d.vi].state != hvia::kVIStateConnected && flushing_vi == d.vi && errors != hvia::kDescriptorStatusFlushedMask) {
      Fail("a descriptor of VI %u completes with errors %08x after one that was flushed", d.vi, errors);
    }
    if (errors == hvia::kDescriptorStatusFlushedMask && d.vi == cut_vi) flushing_vi = d.vi;
    const uint32_t length = whole ? p.done : p.bytes;
    if (top->cpl_length_o != length || top->cpl_status_o != Status(d, errors)) {
      Fail("a descriptor of VI %u, operation %u, %zu segments, %u bytes, completes with length %u status %08x, want %u %08x", d.vi,
           d.operation, d.segments.size(), d.length, top->cpl_length_o, top->cpl_status_o, length, Status(d, errors));
    }
    if (whole) {
      if (p.committed != p.frames.size()) Fail("complete after %zu of %zu frames", p.committed, p.frames.size());
      if (p.aborted != p.abort) Fail("complete, and no frame was dropped");
      if (!p.withdrawn && p.traced != p.traces.size()) Fail("complete, and %s is not traced", hvia::TraceEventName(p.traces[p.traced]));
    }
    if (errors == 0) want.message++;
    else if (p.committed != 0) want.aborted++;
    if (running.size() == 1 && current_ == kDescriptor) current_ = kNothing;
    running.pop_front();
    progress++;
  }

  // For descriptors the drain lines are exact. A segment counts from the translation of its handle
  // to the end of its frame.
  void Draining() {
    bool vi = offered_ && queue.front().d.vi == drain_vi;
    bool handle = offered_ && !queue.front().d.unreachable && queue.front().d.handle == drain_handle;
    for (const Plan& p : running) {
      vi |= p.d.vi == drain_vi;
      handle |= !p.d.unreachable && p.d.handle == drain_handle;
    }
    vi |= job_offered_ && job_offered_->d.vi == drain_vi;
    bool vi_may = vi, handle_may = handle;
    if (current_ == kKept) {
      const bool same_vi = handling_.d.vi == drain_vi;
      const bool same_handle = !handling_.answer && !handling_.d.unreachable && handling_.d.handle == drain_handle;
      vi_may |= same_vi;
      handle_may |= same_handle;
      vi |= same_vi && !MayEnd();
      handle |= same_handle && !MayEnd();
    }
    if ((vi && !top->vi_busy_o) || (!vi_may && top->vi_busy_o)) Fail("VI %u busy %d, want %d", drain_vi, top->vi_busy_o, vi);
    if (top->att_req_valid_o) {
      use_ = top->att_req_handle_o;
      use_known_ = true;
    }
    const bool desc = Message();
    const bool reads = top->att_req_valid_o || !att.Idle() || top->req_valid_o || !bus.Idle() || granted_;
    const bool must = handle || (desc && use_known_ && use_ == drain_handle && reads);
    const bool may = handle_may || (desc && use_known_ && use_ == drain_handle);
    if (must && !top->handle_busy_o) Fail("handle %x is not busy, and is in use", drain_handle);
    if (!may && top->handle_busy_o) Fail("handle %x is busy without a translation", drain_handle);
    const bool over = top->tx_wabort_o || (top->tx_wvalid_o && top->tx_wready_i && top->tx_wlast_o);
    if (att.rsp_valid && att.rsp_err == hvia::kAttErrorNone) granted_ = true;
    if ((top->req_valid_o && bus.req_ready) || over) granted_ = false;
    // The DMA reports the end one clock after its last beat.
    if (over_) use_known_ = top->att_req_valid_o;
    over_ = over;
    busy = top->handle_busy_o;
  }

  // kKept: a message in the ledger.
  enum Kind { kNothing, kDescriptor, kRawFrame, kKept };
  enum { kOpen, kSent, kAsk, kFail };
  Kind current_ = kNothing;
  std::shared_ptr<Entry> kept_, job_offered_;
  Plan handling_;  // expected outcome of this pass
  bool ending_ = false;     // the ledger has released it
  bool asked_ = false, sent_open_ = false, skipping_ = false;
  bool led_seen_ = false;
  unsigned led_wait_ = 0;
  uint8_t slot_ = 0;
  bool ack_offered_ = false, ack_gone_ = false, others_wait_ = false;
  std::unique_ptr<Ack> ack_open_, ack_built_;
  unsigned acks_in_row_ = 0, frames_before_ack_ = 0, chunks_before_ack_ = 0;
  unsigned passed_by_[3][3] = {};
  Frame out_;
  uint8_t ctx_vi_ = 0;
  bool init_taken_ = false, offered_ = false, raw_offered_ = false;
  unsigned slots_ = 2, stall_ = 0, last_wait_ = 0;
  bool chunk_pending_ = false, chunk_bad_ = false;
  int chunk_ = 0;
  unsigned chunk_wait_ = 0;
  uint32_t use_ = 0;
  bool use_known_ = false, granted_ = false, over_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  unit::Start(argc, argv);
  Testbench b(unit::options().seed);

  const uint64_t rdma = b.Latency(hvia::kDescriptorOperationRDMAWrite, 4, 1), send = b.Latency(hvia::kDescriptorOperationSend, 4, 1);
  if (rdma > kLatency || send > kLatency) {
    Fail("a message of 4 bytes is built in %" PRIu64 " clocks as an RDMA write, %" PRIu64 " as a Send; want %" PRIu64, rdma, send, kLatency);
  }
  const uint64_t full = b.Latency(hvia::kDescriptorOperationSend, hvia::kMaxPayload, 1);
  if (full > kLatencyFull) Fail("a full frame is built in %" PRIu64 " clocks, want %" PRIu64, full, kLatencyFull);
  const uint64_t split = b.Latency(hvia::kDescriptorOperationSend, hvia::kMaxPayload, 23);

  for (const Traffic& t : unit::kTraffic) {
    b.traffic = t;
    b.FetchedAhead();
    b.HeldBack();
  }
  for (uint8_t op : {hvia::kDescriptorOperationSend, hvia::kDescriptorOperationRDMAWrite, hvia::kDescriptorOperationRDMARead}) {
    b.traffic = unit::kTraffic[op % 5];
    b.Stopped(op);
    b.Wrong();
    b.PassedOver();
  }
  // Every length near the frame's bounds, in one to four segments, at every alignment.
  unsigned turn = 0;
  for (uint32_t len : {1u, 2u, 5u, 17u, 18u, 19u, 1470u, 1471u, 1472u, 1473u, 1480u, 2944u, 2945u}) {
    for (unsigned n = 1; n <= 4; n++) {
      Descriptor d = b.RandomDescriptor(b.vis[turn % 6], false);
      d.segments.clear();
      d.bad_chunk = 0;
      uint32_t left = len;
      for (unsigned i = 0; i < n; i++) {
        const uint32_t part = i + 1 == n ? left : b.rng.Below(left + 1);
        d.segments.push_back(b.RandomSegment({Testbench::kLong}, part));
        left -= part;
      }
      d.length = len;
      d.count = n + d.Rdma();
      b.traffic = unit::kTraffic[turn++ % 5];
      b.Post(d);
      if (turn % 8 == 0) b.RunToRest();
    }
  }
  b.RunToRest();
  for (unsigned i = 0; i < 12; i++) {
    b.traffic = unit::kTraffic[i % 5];
    b.Disconnect(i % 3 == 2 ? b.kept_vis[i % 4] : b.vis[i % 6]);
  }
  for (uint64_t i = 0; i < unit::options().size; i++) {
    b.traffic = unit::kTraffic[i % 5];
    const bool raw = b.rng.Bits(1);
    for (unsigned n = b.rng.Range(1, 10); n > 0; n--) {
      b.Post(b.RandomDescriptor(b.RandomVi(), true));
      if (raw && b.rng.Bits(1)) b.PostRaw();
      if (b.rng.Chance(1, 4)) b.PostAnswer(b.kept_vis[b.rng.Below(b.kept_vis.size())]);
      for (unsigned a = b.rng.Chance(1, 4) ? b.rng.Below(12) : 0; a > 0; a--) b.PostAck();
    }
    // A VI without work is reconnected during the others' traffic.
    if (b.rng.Chance(1, 4)) {
      for (uint64_t n = b.rng.Below(400); n > 0; n--) b.Clock();
      for (uint8_t v : b.used) {
        if (b.HasWork(v)) continue;
        b.SetSequence(v, b.rng.Bits(32));
        break;
      }
    }
    if (b.rng.Chance(3, 4)) b.RunToRest();
    b.Heal(false);
    switch (b.rng.Below(6)) {
      case 0: b.Withdraw(b.rng.Bits(1) ? Testbench::kLong : Testbench::kWide); break;
      case 1: b.Disconnect(b.rng.Bits(1) ? b.vis[b.rng.Below(6)] : b.kept_vis[b.rng.Below(b.kept_vis.size())]); break;
      case 2: b.FullBuffer(); break;
      default: break;
    }
  }
  b.RunToRest();
  if (unit::options().size >= kEnough) {
    for (uint32_t e : {0u, hvia::kDescriptorStatusFormatErrorMask, hvia::kDescriptorStatusProtectionErrorMask,
                       hvia::kDescriptorStatusLengthErrorMask, hvia::kDescriptorStatusFlushedMask,
                       hvia::kDescriptorStatusTransportErrorMask}) {
      if (b.outcomes.count(e) == 0) Fail("no descriptor ended with status %x: the run does not reach it", e);
    }
    if (b.cut_seen == 0 || b.withdrawn_seen == 0) Fail("no message was cut off, or none lost its memory");
    if (b.unreachable_seen == 0 || b.untold_seen == 0 || b.behind_seen == 0) {
      Fail("%" PRIu64 " descriptors could not be reached, %" PRIu64 " of reset VIs, %" PRIu64 " after them", b.unreachable_seen,
           b.untold_seen, b.behind_seen);
    }
  }
  if (unit::options().size >= kEnough) {
    auto met = [](const char* what, uint64_t n) {
      if (n == 0) Fail("%s never came up: the run does not reach it", what);
    };
    met("a job", b.jobs_seen);
    met("a job from the middle", b.passed_over);
    met("an answer", b.answers_seen);
    met("a read that is returned", b.reads_seen);
    met("an acknowledgement inside a message", b.acks_inside);
    met("an acknowledgement of a VI that is free", b.acks_dropped);
    met("a ledger that says no", b.not_gone);
    met("a job that is out of date", b.outdated);
    met("a job that is withdrawn", b.withdrawn_jobs);
    met("a descriptor that was changed", b.changed);
    met("a failure while frames are passed over", b.skip_fails);
    met("a message of the ledger that vanishes", b.cut_kept);
    for (uint32_t e : {0u, hvia::kDescriptorStatusFormatErrorMask, hvia::kDescriptorStatusLengthErrorMask, hvia::kDescriptorStatusFlushedMask}) {
      met("a status at the opening", b.opened.count(e));
    }
    for (uint32_t e : {hvia::kDescriptorStatusFormatErrorMask, hvia::kDescriptorStatusProtectionErrorMask,
                       hvia::kDescriptorStatusLengthErrorMask, hvia::kDescriptorStatusTransportErrorMask,
                       0x10000 | hvia::kDescriptorStatusProtectionErrorMask, 0x10000 | hvia::kDescriptorStatusTransportErrorMask}) {
      met("a status of a failure", b.failed.count(e));
    }
  }
  std::printf("jobs %" PRIu64 "\npassed_over %" PRIu64 "\nanswers %" PRIu64 "\nreads %" PRIu64 "\nacks %" PRIu64 "\nacks_inside %" PRIu64
              "\nacks_dropped %" PRIu64 "\ntold %" PRIu64 "\nnot_gone %" PRIu64 "\noutdated %" PRIu64 "\nfails %" PRIu64 "\nskip_fails %" PRIu64
              "\nchanged %" PRIu64 "\ncut_kept %" PRIu64 "\n",
              b.jobs_seen, b.passed_over, b.answers_seen, b.reads_seen, b.acks_seen, b.acks_inside, b.acks_dropped, b.told, b.not_gone,
              b.outdated, b.fails, b.skip_fails, b.changed, b.cut_kept);
  std::printf("descriptors %" PRIu64 "\nframes %" PRIu64 "\nraw_frames %" PRIu64 "\ndropped_frames %" PRIu64 "\nchunks %" PRIu64
              "\npayload %" PRIu64 "\ncut %" PRIu64 "\nwithdrawn %" PRIu64 "\nunreachable %" PRIu64 "\nbehind %" PRIu64 "\nclocks %" PRIu64 "\n",
              b.posted, b.frames_seen, b.raw_seen, b.aborts, b.chunks_read, b.payload, b.cut_seen, b.withdrawn_seen,
              b.unreachable_seen, b.behind_seen, unit::clocks());
  std::printf("latency_rdma_4 %" PRIu64 "\nlatency_send_4 %" PRIu64 "\nlatency_send_1472 %" PRIu64 "\nlatency_send_23x64 %" PRIu64
              "\npassed 1\n", rdma, send, full, split);
  return 0;
}
