// SPDX-License-Identifier: Apache-2.0

// Testbench of the receive engine between models of its neighbours: packet buffer (complete and
// arriving frames), VI contexts, work queue and descriptor fetch with the descriptors on the chip,
// chunk service, completion, translation, host bus. Frames of several VIs come interleaved, some
// lost, doubled, forged or random. Descriptors of every kind are posted before, while and after
// messages require them. VIs are flushed, cleared and reconnected at random moments. Translations
// and host writes fail. A plain model of the card's contract checks every frame at its end, and
// every completion, asynchronous error, count, trace event and byte of memory. Some VIs are
// reliable: their peers rewind to lost frames, request reads and answer reads of this side. Models
// of acknowledge and of the ledger check the reports to both.
#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "Vhvia_rx_engine.h"
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
constexpr uint8_t kFirst = hvia::kViaHeaderFlagsFirstMask, kLast = hvia::kViaHeaderFlagsLastMask,
                  kImmediate = hvia::kViaHeaderFlagsImmediateMask;
constexpr uint32_t kFormat = hvia::kDescriptorStatusFormatErrorMask,
                   kProtection = hvia::kDescriptorStatusProtectionErrorMask,
                   kLength = hvia::kDescriptorStatusLengthErrorMask,
                   kPartial = hvia::kDescriptorStatusPartialErrorMask,
                   kFlushed = 1u << hvia::kDescriptorStatusFlushedLsb,
                   kTransport = hvia::kDescriptorStatusTransportErrorMask,
                   kRdmaProtection = hvia::kDescriptorStatusRDMAProtectionErrorMask;
constexpr unsigned kDescriptorBytes = hvia::kDescriptorSize + hvia::kDataSegmentSize * hvia::kMaxDataSegments;

using Frame = std::vector<uint8_t>;

void Put(Frame& f, size_t at, uint64_t v, unsigned n) { hvia::PutBig(&f[at], v, n); }
uint64_t Get(const Frame& f, size_t at, unsigned n) { return hvia::GetBig(&f[at], n); }

struct Context {
  uint8_t state = hvia::kVIStateFree;
  bool rdma_write = true, rdma_read = true;
  uint8_t reliability = hvia::kReliabilityUnreliable;
  uint8_t generation = 0;
  uint16_t tag = 7;
  uint32_t max = 70000;
  uint64_t peer_mac = 0;  // wire byte 0 lowest
  uint16_t peer_vi = 0;
};

struct Segment {
  uint64_t va;
  uint32_t handle, len;
};

struct Descriptor {
  uint64_t va = 0, posted = 0;  // clock of the post
  uint32_t pa = 0, handle = 0, length = 0, status = 0;
  uint16_t seq = 0, control = 0, count = 0;
  std::vector<Segment> segments;
  int bad_chunk = -1;  // unreadable chunk
  bool stale = false;
  std::vector<uint8_t> image;

  void Render(unit::Rng& rng) {
    image.resize((hvia::kDescriptorSize + hvia::kDataSegmentSize * segments.size() + 63) / 64 * 64);
    for (auto& b : image) b = rng.Next();
    auto put = [&](size_t at, uint64_t v, unsigned n) {
      for (unsigned i = 0; i < n; i++) image[at + i] = v >> (8 * i);
    };
    put(hvia::kDescriptorSegmentCountOffset, count, 2);
    put(hvia::kDescriptorControlOffset, control, 2);
    put(hvia::kDescriptorLengthOffset, length, 4);
    for (size_t k = 0; k < segments.size(); k++) {
      const size_t at = hvia::kDescriptorSize + hvia::kDataSegmentSize * k;
      put(at + hvia::kDataSegmentAddressOffset, segments[k].va, 8);
      put(at + hvia::kDataSegmentHandleOffset, segments[k].handle, 4);
      put(at + hvia::kDataSegmentLengthOffset, segments[k].len, 4);
    }
  }
};
using Posted = std::shared_ptr<Descriptor>;

struct Completion {
  uint16_t seq;
  uint32_t pa, handle, length, status, immediate;
  bool has_immediate, write;
  bool message;  // belongs to a message

  bool operator==(const Completion& o) const {
    return seq == o.seq && pa == o.pa && handle == o.handle && length == o.length && status == o.status &&
           has_immediate == o.has_immediate && (!has_immediate || immediate == o.immediate) && write == o.write;
  }
};

// How a frame is counted.
enum Outcome {
  kNothing, kNotForUs, kMalformed, kBadVi, kOld, kUnsupported, kDropped, kQueueEmpty, kDescriptor, kTooLong,
  kRefused, kBusError, kGood, kReadLimit, kOutOfOrder, kAcknowledge, kConnectionRefused, kOutcomes
};
const char* const kOutcomeNames[kOutcomes] = {"nothing", "not_for_us", "malformed", "bad_vi", "old_sequence",
    "unsupported", "dropped", "queue_empty", "descriptor_error", "length", "protection", "bus_error", "accepted",
    "read_limit", "out_of_order", "acknowledgement", "naked"};

struct Counts {
  uint64_t outcome[kOutcomes] = {};
  uint64_t gap = 0, aborted = 0, message = 0, raw_dropped = 0, raw = 0, raw_error = 0;
  uint64_t parsed = 0, translated = 0, written = 0;
};

enum Message { kNone, kOpen, kGivenUp };

// A report of a frame to acknowledge.
struct Told {
  uint8_t op;
  uint32_t number;
  uint8_t code;

  bool operator==(const Told& o) const {
    return op == o.op && (op == hvia::kAcknowledgeOperationAgain || number == o.number) &&
           (op != hvia::kAcknowledgeOperationNAK || code == o.code);
  }
};

// A report or request to the ledger.
struct Report {
  uint8_t op;
  uint32_t number;
  uint8_t code;
  uint32_t status;
  uint64_t va;
  uint32_t handle, length;
  bool ok;
};

// A message that is in flight.
struct State {
  Message message = kNone;
  bool rdma = false, immediate = false, answer = false;
  uint32_t errors = 0, written = 0, received = 0, total = 0, offset = 0;
  unsigned segment = 0;
};

struct Vi : State {
  Context ctx;
  uint64_t ctx_changed = 0;
  // The receiver, according to the contract.
  uint32_t expected = 0;
  std::vector<uint32_t> strays;  // unreliable: consecutive numbers outside of the window
  bool maybe_given_up = false;  // a bad frame may have been parsed
  bool refused = false;         // a frame of the connection was NAKed
  std::deque<Told> want_told, seen_told;
  std::deque<Posted> reads;     // own RDMA reads without their read response
  unsigned answered = 0;        // those whose read response the peer has created
  std::deque<Posted> posted;  // not completed yet
  std::deque<Completion> want, seen;
  std::deque<uint8_t> want_async, seen_async;
  // Work queue, fetch and the slot on the chip.
  std::deque<Posted> queue;
  bool held = false, valid = false, stale = false;
  Posted place;
  std::array<uint32_t, 16> chunk{};
  unsigned chunk_number = 0;
  uint16_t seq = 0;
  // The peer.
  uint32_t number = 0;
  std::deque<Frame> outgoing;
  uint32_t first = 0;  // number of the first of `outgoing`; only a reliable VI keeps sent frames
  bool generous = true;  // receives are posted ahead
};

struct Slot {
  Frame bytes;
  bool cut = false, bad = false;
  uint64_t offered = 0;
  unsigned avail = 0, end_wait = 0;
};

class Testbench {
 public:
  explicit Testbench(uint64_t seed)
      : rng(seed), memory(128, &rng), shadow(memory.bytes), pool(0, 128, &rng), wbus(&memory, &rng, 1), att(&rng),
        top(new Vhvia_rx_engine) {
    for (int i = 0; i < 3; i++) raw_pages.push_back(pool.Take());
    for (int i = 0; i < 8; i++) pool.Take();  // belongs to no region
    att.regions[kScatter] = pool.Make(0x100000ull + 4094, 70000, 7, false);
    att.regions[kTarget] = pool.Make(0x7f0000000ffdull, 70000, 7, true);
    att.regions[kTop] = pool.Make(0xfffffffffffff000ull - 4096, 2 * 4096, 7, true);
    att.regions[kOther] = pool.Make(0x55000, 9000, 9, true);
    att.regions[kNoRight] = pool.Make(0x66000, 5000, 7, false);
    for (unsigned v : kVis) {
      Vi& x = vis[v];
      x.ctx.generation = rng.Bits(8);
      x.ctx.peer_mac = 0x010203040500ull + v * 0x100;
      x.ctx.peer_vi = rng.Bits(16);
      x.ctx.state = hvia::kVIStateIdle;
    }
    vis[9].ctx.rdma_write = false;
    vis[10].ctx.max = 1000;
    vis[kForeignVi].ctx.tag = 9;
    for (unsigned v : kReliable) vis[v].ctx.reliability = v % 2 ? hvia::kReliabilityReception : hvia::kReliabilityDelivery;
    vis[kNoReadVi].ctx.rdma_read = vis[kNoWriteVi].ctx.rdma_write = false;
    vis[kForeignReliableVi].ctx.tag = 9;
    top->rst_ni = 0;
    top->mac_i = kMac;
    top->no_overlap_i = top->short_bursts_i = 0;  // the DMA engines' test sets both
    top->clk_i = 0;
    for (int i = 0; i < 5; i++) Step();
    top->rst_ni = 1;
    for (int i = 0; i < 5; i++) Step();
  }

  // One clock.
  void Step() {
    Drive();
    top->eval();
    top->coming_i = Coming(top->coming_vi_o);
    top->eval();
    if (top->rst_ni) Sample();
    unit::Clock(*top);
  }

  void Connect(unsigned v, uint32_t value) {
    StartOp(kConnect, v);
    op_value_ = value;
    FinishOp();
  }

  // Random traffic of about `frames` frames, with operations on VIs if `ops`. Ends at rest.
  void Round(unsigned frames, unsigned harm_of_64, bool ops, bool faults, bool cut) {
    static const Traffic kinds[] = {{0, 0}, {3, 0}, {0, 3}, {2, 2}, {1, 1}};
    traffic = kinds[rng.Below(5)];
    on_arrival_ = rng.Chance(1, 3);
    raw_buffer = rng.Chance(3, 4);
    raw_capacity = rng.Chance(1, 4) ? rng.Range(60, 400) : 2048;
    harm = harm_of_64;
    faults_ = faults;
    cut_ = cut;
    for (unsigned v : kVis) {
      vis[v].generous = rng.Chance(3, 5);
      if (vis[v].ctx.state == hvia::kVIStateIdle && rng.Chance(3, 4)) Connect(v, rng.Chance(1, 4) ? 0xfffffffcu : rng.Bits(32));
      if (Reliable(v)) {
        if (vis[v].refused && vis[v].ctx.state == hvia::kVIStateConnected && rng.Chance(3, 4)) Flush(v);
        if (vis[v].ctx.state == hvia::kVIStateIdle && rng.Chance(3, 4)) Connect(v, rng.Chance(1, 4) ? 0xfffffffcu : rng.Bits(32));
        continue;
      }
      vis[v].number = vis[v].expected;
      vis[v].outgoing.clear();
    }
    focus_ = rng.Chance(1, 2);
    budget_ = frames;
    const uint64_t begin = unit::clocks();
    while (!(budget_ == 0 && AtRest())) {
      if (ops && op_ == kNoOp && budget_ != 0 && rng.Chance(1, 700)) RandomOp();
      if (op_ == kNoOp && budget_ != 0 && rng.Chance(1, 150)) Reconnect();
      if (faults_ && wbus.fail_in == 0 && att.fail_in == 0 && rng.Chance(1, 600)) {
        if (rng.Bits(1)) {
          wbus.fail_in = rng.Range(1, 6);
        } else {
          att.fail_in = rng.Range(1, 6);
          att.fail_with = rng.Range(1, 5);
        }
      }
      Step();
      if (unit::clocks() - begin > 3'000'000) Fail("a round does not end");
    }
    wbus.fail_in = att.fail_in = 0;
    faults_ = false;
    // The memory of descriptors on the chip is withdrawn.
    for (unsigned v : kVis) {
      if (vis[v].valid && rng.Chance(1, 6)) vis[v].stale = vis[v].place->stale = true;
    }
    Verify();
  }

  void Verify() {
    if (!top->quiet_o) Fail("not quiet at rest");
    if (top->vi_busy_o || top->handle_busy_o) Fail("busy at rest");
    for (unsigned v : kVis) {
      Match(v);
      Vi& x = vis[v];
      if (!x.want.empty()) Fail("VI %u: the completion of descriptor %u is missing", v, x.want.front().seq);
      if (!x.want_async.empty()) Fail("VI %u: asynchronous error %u is missing", v, x.want_async.front());
      if (!x.want_told.empty()) Fail("VI %u: operation %u, number %u was not reported", v, x.want_told.front().op, x.want_told.front().number);
      if (x.held != x.valid) Fail("VI %u: a descriptor left the chip and its queue was not released", v);
    }
    if (shadow != memory.bytes) {
      auto m = std::mismatch(shadow.begin(), shadow.end(), memory.bytes.begin());
      Fail("host address %08zx is %02x, want %02x", m.first - shadow.begin(), *m.second, *m.first);
    }
    auto same = [&](const char* what, uint64_t have, uint64_t expect) {
      if (have != expect) Fail("counted %" PRIu64 " %s, want %" PRIu64, have, what, expect);
    };
    for (int o = 1; o < kOutcomes; o++) same(kOutcomeNames[o], seen.outcome[o], want.outcome[o]);
    same("gap", seen.gap, want.gap);
    same("aborted", seen.aborted, want.aborted);
    same("message", seen.message, want.message);
    same("raw frames dropped", seen.raw_dropped, want.raw_dropped);
    same("raw frames", seen.raw, want.raw);
    same("raw errors", seen.raw_error, want.raw_error);
    same("ReceiveParsed", seen.parsed, want.parsed);
    same("ReceiveTranslated", seen.translated, want.translated);
    same("ReceiveWritten", seen.written, want.written);
  }

  // One short message of each kind on an idle card, in clocks.
  void Latency() {
    traffic = {0, 0};
    struct {
      const char* name;
      uint8_t operation, flags;
    } kinds[] = {{"rdma_write", hvia::kFrameOperationRDMAWrite, 0},
                 {"send", hvia::kFrameOperationSend, 0},
                 {"rdma_write_immediate", hvia::kFrameOperationRDMAWrite, kImmediate}};
    for (auto& k : kinds) {
      Vi& x = vis[1];
      auto d = std::make_shared<Descriptor>();
      d->segments = {{att.regions.at(kScatter).va + 100, kScatter, 64}};
      d->count = 1;
      d->length = 64;
      Post(1, d);
      for (int i = 0; i < 60; i++) Step();
      Slot s;
      s.bytes = Make(1, k.operation, k.flags | kFirst | kLast,
                     k.operation == hvia::kFrameOperationSend ? 4ull << 32 : att.regions.at(kTarget).va + 8, kTarget, 4);
      Put(s.bytes, kVia + hvia::kViaHeaderSequenceOffset, x.number++, 4);
      slots.push_back(s);
      marks_ = {};
      Run();
      const uint64_t from = marks_.offered;
      std::printf("%s_parsed_clocks %" PRIu64 "\n%s_written_clocks %" PRIu64 "\n", k.name, marks_.parsed - from, k.name,
                  marks_.written - from);
      if (marks_.completed) std::printf("%s_completed_clocks %" PRIu64 "\n", k.name, marks_.completed - from);
    }
    Verify();
  }

  // Frames with one wrong field each, and short sequences of flags. The model predicts the effect,
  // so a field that the engine ignores is found.
  void Forgeries() {
    traffic = {0, 0};
    cut_ = rng.Bits(1);
    const unsigned v = 5;
    Flush(v);
    Connect(v, rng.Bits(32));
    Vi& x = vis[v];
    const Region &target = att.regions.at(kTarget), &scatter = att.regions.at(kScatter);
    auto post = [&] {
      auto d = std::make_shared<Descriptor>();
      d->segments = {{scatter.va + rng.Below(4000), kScatter, 30}, {scatter.va + 9000 + rng.Below(4000), kScatter, 1500}};
      d->count = 2;
      d->length = 1530;
      Post(v, d);
    };
    auto send = [&](uint8_t operation, uint8_t flags, uint32_t n, auto change, bool bad = false, std::function<void()> at_end = [] {}) {
      Slot s;
      s.cut = cut_;
      s.bad = bad && cut_;
      const bool rdma = operation == hvia::kFrameOperationRDMAWrite;
      s.bytes = Make(v, operation, flags, rdma ? target.va + 100 + rng.Below(8000) : static_cast<uint64_t>(n) << 32, rdma ? kTarget : 0, n);
      Put(s.bytes, kVia + hvia::kViaHeaderSequenceOffset, x.expected, 4);
      change(s.bytes);
      if (s.cut && Addressed(s.bytes) != static_cast<int>(v)) s.cut = false;
      slots.push_back(s);
      while (!slots.empty()) Step();
      at_end();
      Run();
    };
    const uint8_t both = kFirst | kLast;
    for (uint8_t operation : {hvia::kFrameOperationSend, hvia::kFrameOperationRDMAWrite}) {
      auto one = [&](uint32_t n, auto change) {
        while (x.posted.size() < 2) post();
        Run();
        send(operation, both | (rng.Bits(1) ? kImmediate : 0), n, change);
      };
      for (uint32_t n : {0u, 1u, 17u, 18u, 19u, 30u, 31u, 200u, 1472u}) {
        one(n, [](Frame&) {});
        auto field = [&](size_t at, unsigned width, uint64_t value) {
          one(n, [&](Frame& f) { Put(f, kVia + at, value, width); });
        };
        field(hvia::kViaHeaderPayloadLengthOffset, 2, n + 1);
        field(hvia::kViaHeaderPayloadLengthOffset, 2, n + 4);
        field(hvia::kViaHeaderPayloadLengthOffset, 2, 0);
        field(hvia::kViaHeaderAddressOffset, 8, target.va - 1);
        field(hvia::kViaHeaderAddressOffset, 8, target.va + target.len - n);
        field(hvia::kViaHeaderAddressOffset, 8, target.va + target.len - n + 1);
        field(hvia::kViaHeaderAddressOffset, 8, -static_cast<uint64_t>(n));
        field(hvia::kViaHeaderAddressOffset, 8, 1);
        for (uint32_t h : {0u, kScatter, kTarget + 1, kTop, kOther, kNoRight}) {
          one(n, [&](Frame& f) {
            Put(f, kVia + hvia::kViaHeaderHandleOffset, h, 4);
            auto it = att.regions.find(h);
            if (operation == hvia::kFrameOperationRDMAWrite && it != att.regions.end()) Put(f, kVia + hvia::kViaHeaderAddressOffset, it->second.va, 8);
          });
        }
      }
      for (unsigned value = 0; value < 256; value++) one(40, [&](Frame& f) { f[kVia + hvia::kViaHeaderOperationVersionOffset] = value; });
      for (unsigned bit = 0; bit < 8; bit++) one(40, [&](Frame& f) { f[kVia + hvia::kViaHeaderFlagsOffset] ^= 1 << bit; });
      for (unsigned bit = 0; bit < 14 * 8; bit++) one(40, [&](Frame& f) { f[bit / 8] ^= 1 << bit % 8; });
      for (unsigned bit = 0; bit < 4 * 8; bit++) {
        one(40, [&](Frame& f) { f[kVia + hvia::kViaHeaderDestinationVIOffset + bit / 8] ^= 1 << bit % 8; });
      }
    }
    // Two errors of one frame: it cuts off the message before, and its message has no
    // descriptor or no access rights.
    for (unsigned i = 0; i < 4; i++) {
      Flush(v);
      Connect(v, rng.Bits(32));
      send(hvia::kFrameOperationRDMAWrite, kFirst, 10, [](Frame&) {});
      send(hvia::kFrameOperationSend, kFirst | (i & 1 ? kLast : 0), 10, [](Frame&) {});
      send(hvia::kFrameOperationRDMAWrite, kFirst, 10, [](Frame&) {});
      send(hvia::kFrameOperationRDMAWrite, both, 10, [](Frame& f) { Put(f, kVia + hvia::kViaHeaderHandleOffset, 0, 4); });
    }
    for (unsigned i = 0; i < 160; i++) {
      if (x.posted.size() < 3 && rng.Chance(2, 3)) post();
      const uint32_t step = rng.Chance(1, 5) ? rng.Range(1, 3) : 0, back = rng.Chance(1, 12) ? 1 : 0;
      const uint8_t operation = rng.Chance(1, 12) ? rng.Below(5) : x.message == kOpen && rng.Chance(7, 8) ? x.rdma : rng.Bits(1);
      const uint8_t flags = x.message == kOpen && rng.Chance(3, 4) ? (rng.Chance(1, 3) ? kLast : 0) | (x.immediate ? kImmediate : 0) : rng.Below(8);
      send(operation, flags, rng.Below(60), [&](Frame& f) {
        if (operation == hvia::kFrameOperationSend) {
          const bool begins = flags & kFirst;
          uint64_t offset = begins ? 0 : x.received, total = begins ? 200 : x.total;
          if (rng.Chance(1, 10)) (rng.Bits(1) ? offset : total)++;
          Put(f, kVia + hvia::kViaHeaderAddressOffset, total << 32 | offset, 8);
        }
        Put(f, kVia + hvia::kViaHeaderSequenceOffset, x.expected + step - back, 4);
        if (rng.Chance(1, 12)) Put(f, kVia + hvia::kViaHeaderHandleOffset, 0, 4);
      });
    }
    for (uint32_t ahead : {0x80000000u, 0x80000001u, 0x7fffffffu, hvia::kSequenceWindow, hvia::kSequenceWindow - 1, 0u}) {
      send(hvia::kFrameOperationRDMAWrite, both, 40, [&](Frame& f) { Put(f, kVia + hvia::kViaHeaderSequenceOffset, x.expected + ahead, 4); });
    }
    // Runs of frames outside of the window, longer and shorter than the run that the engine
    // accepts. Between them come gaps, copies, bad frames, frames of the window and continued
    // messages.
    for (unsigned i = 0; i < 40; i++) {
      uint32_t number = rng.Bits(1) ? rng.Bits(32) : x.expected - rng.Below(3 * hvia::kSequenceWindow);
      const unsigned run = rng.Range(hvia::kSequenceAgreement - 2, hvia::kSequenceAgreement + 3), wrong = rng.Below(60);
      for (unsigned k = 0; k < run; k++) {
        if (wrong == k) {
          send(hvia::kFrameOperationRDMAWrite, both, 40, [&](Frame& f) {
            Put(f, kVia + hvia::kViaHeaderSequenceOffset, x.expected + rng.Below(hvia::kSequenceWindow), 4);
          });
        } else if (wrong == 20 + k) {  // now the number belongs to another connection
          Flush(v);
          Connect(v, rng.Bits(32));
        }
        const uint32_t next = wrong == 40 + k ? rng.Bits(32) : number;
        for (unsigned copies = rng.Chance(1, 8) ? 2 : 1; copies > 0; copies--) {
          if (x.posted.size() < 2) post();
          send(rng.Bits(1) ? hvia::kFrameOperationSend : hvia::kFrameOperationRDMAWrite, rng.Chance(3, 4) ? both : rng.Below(4), 40,
               [&](Frame& f) { Put(f, kVia + hvia::kViaHeaderSequenceOffset, next, 4); }, rng.Chance(1, 16));
        }
        number = next + 1 + (rng.Chance(1, 6) ? rng.Below(hvia::kSequenceWindow) + rng.Chance(1, 8) : 0);
      }
    }
    // The engine stores the number of such a frame at the frame's end, so its VI is busy until
    // then.
    const unsigned looked_at = std::exchange(idle_vi_, v);
    send(hvia::kFrameOperationRDMAWrite, both, 1000, [&](Frame& f) { Put(f, kVia + hvia::kViaHeaderSequenceOffset, x.expected - 100, 4); }, false,
         [&] { if (!vi_busy_) Fail("a VI is not busy in the last clock of a frame outside of its window"); });
    idle_vi_ = looked_at;
    Verify();
  }

  void Run() {
    const uint64_t begin = unit::clocks();
    while (!AtRest()) {
      Step();
      if (unit::clocks() - begin > 200'000) Fail("the engine does not come to rest");
    }
  }

  // A handle is withdrawn while a long message uses it. After the drain nothing uses it.
  void Withdraw() {
    traffic = rng.Bits(1) ? Traffic{0, 0} : Traffic{1, 1};
    cut_ = false;
    const unsigned v = 1;
    if (vis[v].ctx.state != hvia::kVIStateConnected) Connect(v, rng.Bits(32));
    const bool send = rng.Bits(1), immediate = rng.Bits(1);
    const uint32_t gone = send ? kScatter : kTarget;
    const Region saved = att.regions.at(gone);
    Flush(v);
    Connect(v, rng.Bits(32));
    if (send || immediate) {
      auto d = std::make_shared<Descriptor>();
      for (int i = 0; i < 5; i++) d->segments.push_back({saved.va + rng.Below(60000), gone, 4000});
      d->count = 5;
      d->length = 20000;
      Post(v, d);
    }
    for (int i = 0; i < 80; i++) Step();
    judging_ = false;
    const Counts before = seen;
    const uint32_t total = rng.Range(6000, 19000);
    unsigned frames = 0;
    for (uint32_t at = 0; at < total; at += hvia::kMaxPayload, frames++) {
      const uint32_t n = std::min<uint32_t>(total - at, hvia::kMaxPayload);
      Slot s;
      s.bytes = Make(v, send ? hvia::kFrameOperationSend : hvia::kFrameOperationRDMAWrite,
                     (at == 0 ? kFirst : 0) | (at + n == total ? kLast : 0) | (immediate ? kImmediate : 0),
                     send ? static_cast<uint64_t>(total) << 32 | at : saved.va + at, gone, n);
      Put(s.bytes, kVia + hvia::kViaHeaderSequenceOffset, vis[v].number++, 4);
      slots.push_back(s);
    }
    for (uint64_t i = rng.Below(8000); i > 0; i--) Step();
    att.regions.erase(gone);
    drain_handle = gone;
    for (int calm = 0, i = 0; calm < 2; i++) {
      if (i > 20000) Fail("a handle does not drain");
      Step();
      calm = handle_busy_ ? 0 : calm + 1;
    }
    if (!wbus.Idle()) Fail("a handle was drained with a write to its memory in flight");
    forbidden = saved.pages;
    Run();
    forbidden.clear();
    drain_handle = 0;
    uint64_t counted = 0;
    for (int o = 1; o < kOutcomes; o++) counted += seen.outcome[o] - before.outcome[o];
    const uint64_t good = seen.outcome[kGood] - before.outcome[kGood];
    const uint64_t refused = seen.outcome[send ? kDescriptor : kRefused] - before.outcome[send ? kDescriptor : kRefused];
    const uint64_t dropped = seen.outcome[kDropped] - before.outcome[kDropped];
    if (counted != frames || good + refused + dropped != frames || refused > 1 || (refused == 0) != (good == frames)) {
      Fail("%u frames with a handle withdrawn: %" PRIu64 " accepted, %" PRIu64 " NAKed, %" PRIu64 " dropped", frames,
           good, refused, dropped);
    }
    Vi& x = vis[v];
    if (send || immediate) {
      const uint32_t bits = refused == 0 ? 0 : send ? kProtection : kRdmaProtection;
      if (x.seen.size() != 1 || (x.seen[0].status & hvia::kDescriptorErrorMask) != bits ||
          x.seen[0].length < good * hvia::kMaxPayload * (refused != 0) || (refused == 0 && x.seen[0].length != total)) {
        Fail("a message with its handle withdrawn: %zu completions", x.seen.size());
      }
      x.posted.pop_front();
    } else if (x.seen_async.size() != refused) {
      Fail("a message with its handle withdrawn: %zu asynchronous errors", x.seen_async.size());
    }
    withdrawn += refused;
    x.seen.clear();
    x.seen_async.clear();
    x.message = kNone;
    x.expected = x.number;
    shadow = memory.bytes;
    want = seen;
    att.regions[gone] = saved;
    judging_ = true;
  }

  // Each frame of a message arrives bad, also while still in flight, before it arrives complete.
  // Bad frames replace the chunks of a receive descriptor with many small segments.
  void Retransmissions() {
    traffic = rng.Bits(1) ? Traffic{0, 0} : Traffic{1, 1};
    const unsigned v = kReliable[rng.Below(2)];
    Vi& x = vis[v];
    const Region& scatter = att.regions.at(kScatter);
    for (unsigned kind = 0; kind < 5; kind++) {
      Flush(v);
      Connect(v, rng.Bits(32));
      const uint32_t total = rng.Range(1, 2500);
      auto segments = [&](Descriptor& d) {
        for (uint32_t left = total; left > 0;) {
          const uint32_t n = std::min<uint32_t>(left, rng.Range(total / 40 + 1, total / 4 + 1));
          d.segments.push_back({scatter.va + rng.Below(scatter.len - n + 1), kScatter, n});
          left -= n;
        }
        d.count = d.segments.size();
        d.length = total;
      };
      auto d = std::make_shared<Descriptor>();
      if (kind == 3) {
        d->segments.push_back({0, 0, 0});
        segments(*d);
        d->va = rng.Next() & ~63ull;
        d->Render(rng);
        x.reads.push_back(d);
      } else {
        segments(*d);
        Post(v, d);
      }
      Run();
      const uint32_t piece = rng.Range(total / 4 + 1, std::min<uint32_t>(total, hvia::kMaxPayload));
      for (uint32_t at = 0; at < total && kind != 4; at += piece) {
        const uint32_t n = std::min(piece, total - at);
        const uint8_t operation = kind == 0 ? hvia::kFrameOperationSend : kind == 3 ? hvia::kFrameOperationRDMAReadResponse : hvia::kFrameOperationRDMAWrite;
        const uint64_t address = kind == 0 || kind == 3 ? static_cast<uint64_t>(total) << 32 | at : att.regions.at(kTarget).va + at;
        Twice(v, Make(v, operation, (at == 0 ? kFirst : 0) | (at + n == total ? kLast : 0) | (kind == 2 ? kImmediate : 0), address,
                      kind == 1 || kind == 2 ? kTarget : 0, n));
      }
      if (kind == 4) Twice(v, Make(v, hvia::kFrameOperationRDMAReadRequest, kFirst | kLast, rng.Next(), rng.Bits(32), 0));
      Twice(v, Make(v, hvia::kFrameOperationAcknowledge, 0, 0, 0, 0));
      if (x.refused) Fail("VI %u: a message that came bad before it arrived complete broke the connection", v);
    }
    Verify();
  }

  void Twice(unsigned v, Frame f) {
    Put(f, kVia + hvia::kViaHeaderSequenceOffset, vis[v].expected, 4);
    if (Get(f, kVia + hvia::kViaHeaderOperationVersionOffset, 1) % 16 == hvia::kFrameOperationAcknowledge) {
      Put(f, kVia + hvia::kViaHeaderImmediateOffset, rng.Below(5), 4);
    }
    do {
      Slot s;
      s.bytes = f;
      s.cut = true;
      s.bad = rng.Chance(2, 3);
      // Truncated: its length field exceeds its bytes.
      if (!s.bad && f.size() > 100 && Get(f, kVia + hvia::kViaHeaderPayloadLengthOffset, 2) + kHeader == f.size() && rng.Chance(1, 3)) {
        s.bytes.resize(rng.Range(60, f.size() - 1));
      }
      const bool over = !s.bad && s.bytes.size() == f.size();
      slots.push_back(s);
      Run();
      if (over) break;
    } while (true);
    vis[v].number = vis[v].expected;
  }

  // Each field of a reliable VI's frame is wrong once, at the start and inside of each kind of
  // message, with and without read response. Then a frame of a broken connection comes in each
  // state of the VI.
  void Contradictions() {
    traffic = rng.Bits(1) ? Traffic{0, 0} : Traffic{1, 1};
    for (unsigned i = 0; i < 40; i++) {
      const unsigned v = kReliable[rng.Below(2)];
      Vi& x = vis[v];
      if (x.ctx.state != hvia::kVIStateIdle || rng.Chance(3, 4)) Flush(v);
      if (x.ctx.state == hvia::kVIStateIdle) Connect(v, rng.Bits(32));
      const unsigned kind = rng.Below(4);
      const bool answer = kind == 3, immediate = kind == 2;
      if (answer || rng.Chance(1, 4)) {
        auto d = std::make_shared<Descriptor>();
        const Region& r = att.regions.at(kScatter);
        d->segments = {{0, 0, 0}, {r.va + rng.Below(1000), kScatter, 300}};
        d->count = 2;
        d->length = 300;
        d->va = rng.Next() & ~63ull;
        d->Render(rng);
        x.reads.push_back(d);
      }
      RandomPost(v);
      Run();
      auto frame = [&](uint32_t at, uint8_t flags, unsigned kind_now) {
        const uint8_t operation = kind_now == 0 ? hvia::kFrameOperationSend : kind_now == 3 ? hvia::kFrameOperationRDMAReadResponse : hvia::kFrameOperationRDMAWrite;
        Slot s;
        s.bytes = Make(v, operation, flags | (kind_now == 2 ? kImmediate : 0),
                       kind_now == 0 || kind_now == 3 ? 300ull << 32 | at : att.regions.at(kTarget).va + at, kind_now == 0 || kind_now == 3 ? 0 : kTarget, 100);
        Put(s.bytes, kVia + hvia::kViaHeaderSequenceOffset, x.expected, 4);
        return s;
      };
      const unsigned begun = rng.Below(3);
      for (unsigned n = 0; n < begun; n++) {
        slots.push_back(frame(100 * n, n == 0 ? kFirst : 0, kind));
        Run();
      }
      Slot s = frame(100 * begun, (begun == 0 ? kFirst : 0) | (begun == 2 ? kLast : 0), kind);
      const size_t flags = kVia + hvia::kViaHeaderFlagsOffset, where = kVia + hvia::kViaHeaderAddressOffset;
      switch (rng.Below(10)) {
        case 0: s.bytes[flags] ^= kFirst; break;
        case 1: s.bytes[flags] ^= kLast; break;
        case 2: s.bytes[flags] ^= kImmediate; break;
        case 3: s.bytes[where + 7] ^= 1 << rng.Below(8); break;
        case 4: s.bytes[where + 3] ^= 1 << rng.Below(8); break;
        case 5: s.bytes[kVia + hvia::kViaHeaderPayloadLengthOffset + 1] -= rng.Range(1, 99); break;
        case 6: s = frame(100 * begun, s.bytes[flags] & (kFirst | kLast), rng.Below(4)); break;
        case 7: s.bytes[kVia + hvia::kViaHeaderOperationVersionOffset] = (s.bytes[kVia + hvia::kViaHeaderOperationVersionOffset] & 0xf0) | rng.Below(5); break;
        case 8: x.reads.clear(); break;
        default: s.bytes[kVia + hvia::kViaHeaderSequenceOffset + rng.Below(4)] ^= 1 << rng.Below(8);
      }
      slots.push_back(s);
      if (rng.Bits(1)) slots.push_back(s);
      Run();
      if (!x.refused) continue;
      for (unsigned n = 0; n < 3; n++) {
        slots.push_back(frame(0, kFirst | kLast, rng.Below(4)));
        if (rng.Bits(1)) slots.back().bytes[rng.Bits(1) ? kVia + hvia::kViaHeaderDestinationVIOffset : 11] ^= 1;
        Run();
        if (n == 0 && rng.Bits(1)) Flush(v);
      }
    }
    Verify();
  }

  void Flush(unsigned v) {
    StartOp(kFlush, v);
    FinishOp();
  }
  // Flushes an idle card for longer than needed.
  void FlushAtRest() {
    const unsigned v = kVis[rng.Below(std::size(kVis))];
    StartOp(kFlush, v);
    hold_ = kLongHold;
    FinishOp();
    Verify();
    if (rng.Bits(1)) Connect(v, rng.Bits(32));
  }

  static constexpr uint32_t kScatter = 0x00100001, kTarget = 0x00200002, kTop = 0x00300003, kOther = 0x00400004,
                            kNoRight = 0x00500005;
  static constexpr uint64_t kMac = 0x665544332202ull;
  static constexpr unsigned kForeignVi = 200 % kVIs, kNoReadVi = 78 % kVIs, kNoWriteVi = 71 % kVIs, kForeignReliableVi = 211 % kVIs;
  static constexpr unsigned kVis[] = {0, 1, 5, 6, 9, 10, 18 % kVIs, 132 % kVIs, kForeignVi, 255 % kVIs, 12, 13, kNoReadVi, kNoWriteVi, kForeignReliableVi};
  static constexpr unsigned kReliable[] = {12, 13, kNoReadVi, kNoWriteVi, kForeignReliableVi};

  unit::Rng rng;
  unit::Memory memory;
  std::vector<uint8_t> shadow;
  unit::PagePool pool;
  unit::WriteBus<kBytes> wbus;
  unit::AttPort att;
  std::unique_ptr<Vhvia_rx_engine> top;
  std::array<Vi, 256> vis;
  std::deque<Slot> slots;
  Traffic traffic{0, 0};
  Counts seen, want;
  unsigned harm = 0;
  bool raw_buffer = true;
  uint32_t raw_capacity = 2048;
  std::vector<uint32_t> raw_pages;
  std::vector<uint32_t> forbidden;
  uint32_t drain_handle = 0;
  uint64_t withdrawn = 0, flushes = 0, clears = 0, lost_frames = 0, behind = 0, beyond = 0, adopted = 0, late = 0, chunks = 0, bytes = 0,
           held_flushed = 0, on_arrival_seen = 0, undefined = 0, completions = 0, raw_got = 0;
  uint64_t told[6] = {}, reports[5] = {}, early = 0, early_refused = 0, answers = 0, answers_failed = 0, cut_answers = 0,
           cut_messages = 0, refetched = 0, again_idle = 0, lost_reliable = 0;

 private:
  enum Op { kNoOp, kFlush, kClear, kConnect };
  static constexpr unsigned kLongHold = 100;

  // ---------------------------------------------------------------- inputs

  void Drive() {
    wbus.Drive(traffic);
    att.Drive(traffic);
    top->req_ready_i = wbus.req_ready;
    wbus.Show(*top);
    att.Show(*top);
    for (int i = 0; i < 4; i++) top->rd_ctx_i[i] = ctx_answer_[i];
    DriveSlot();
    DriveStore();
    if (!cpl_ready_) cpl_ready_ = !rng.Chance(traffic.pressure, 4);
    top->cpl_ready_i = cpl_ready_;
    top->release_ready_i = !rng.Chance(traffic.pressure, 4);
    top->rxc_ready_i = !chunk_busy_ && !rng.Chance(traffic.pressure, 4);
    top->rxc_done_i = chunk_busy_ && chunk_wait_ == 0;
    top->rxc_err_i = rng.Bits(1);
    for (int i = 0; i < 16; i++) top->chunk_data_i[i] = rng.Bits(32);
    if (top->rxc_done_i) {
      const Descriptor& d = *chunk_of_;
      top->rxc_err_i = static_cast<int>(chunk_number_) == d.bad_chunk;
      if (!top->rxc_err_i) {
        for (int i = 0; i < 16; i++) top->chunk_data_i[i] = Word(d, chunk_number_ * 64 + 4 * i);
      }
    }
    // Acknowledge accepts a report within 4 clocks.
    top->rxa_ready_i = rxa_wait_ == 0;
    top->nak_sent_i = refused_answer_;
    DriveLedger();
    top->rawrx_valid_i = raw_buffer && !raw_taken_;
    top->rawrx_pa_i = raw_pages[raw_got % raw_pages.size()] + RawOffset();
    top->rawrx_capacity_i = raw_capacity;
    top->seq_init_valid_i = op_ == kConnect && phase_ == 1;
    top->seq_init_vi_i = op_vi_;
    top->seq_init_value_i = op_value_;
    top->flush_i = op_ == kFlush && phase_ >= 1;
    top->clear_valid_i = op_ == kClear && phase_ == 1;
    top->clear_vi_i = op_ == kClear ? op_vi_ : rng.Bits(VI_COUNT_LOG2);
    top->drain_vi_i = op_ == kNoOp ? idle_vi_ : op_vi_;
    top->drain_handle_i = drain_handle;
  }

  uint32_t RawOffset() const { return static_cast<uint32_t>(raw_got * 37 % 1000); }
  static uint32_t Word(const Descriptor& d, size_t at) {
    uint32_t w = 0;
    for (unsigned i = 0; i < 4; i++) w |= static_cast<uint32_t>(at + i < d.image.size() ? d.image[at + i] : 0) << (8 * i);
    return w;
  }

  // A frame is offered when it is complete or when its first bytes have come.
  void DriveSlot() {
    if (!offered_ && !slots.empty() && !rng.Chance(traffic.idle, 4)) {
      offered_ = true;
      Slot& s = slots.front();
      s.offered = unit::clocks();
      marks_.offered = s.offered;
      s.avail = s.bytes.size();
      if (s.cut && rng.Chance(7, 8)) {
        s.avail = rng.Chance(1, 4) ? rng.Below(s.bytes.size()) : std::min<size_t>(64, s.bytes.size());
        s.end_wait = rng.Below(40);
      }
      pace_ = rng.Below(4);
    } else if (offered_) {
      Slot& s = slots.front();
      if (s.avail < s.bytes.size()) {
        if (!rng.Chance(pace_, 4)) s.avail = std::min<size_t>(s.bytes.size(), s.avail + (pace_ == 0 ? rng.Range(1, 80) : rng.Range(1, 8)));
      } else if (s.end_wait > 0) {
        s.end_wait--;
      }
    }
    top->rx_valid_i = offered_;
    top->rx_len_i = rng.Bits(11);
    top->rx_avail_i = rng.Bits(11);
    top->rx_end_i = rng.Bits(1);
    top->rx_bad_i = rng.Bits(1);
    if (offered_) {
      const Slot& s = slots.front();
      top->rx_avail_i = s.avail;
      top->rx_end_i = s.avail == s.bytes.size() && s.end_wait == 0;
      top->rx_bad_i = top->rx_end_i && s.bad;
      if (top->rx_end_i) top->rx_len_i = s.bytes.size();
    }
    top->rx_rdata_i = rdata_;
  }

  // The ledger's answer is valid only in the clock of ready.
  void DriveLedger() {
    top->rxl_ready_i = rxl_open_ && rxl_wait_ == 0;
    top->rxl_ok_i = rng.Bits(1);
    top->rxl_va_i = rng.Next();
    top->rxl_handle_i = rng.Bits(32);
    top->rxl_length_i = rng.Bits(32);
    if (!top->rxl_ready_i) return;
    const Vi& x = vis[rxl_vi_];
    if (rxl_op_ == hvia::kReceiveReportFind) {
      top->rxl_ok_i = !x.reads.empty();
      // Without a read the length is random, or the one in the frame.
      top->rxl_length_i = Get(slots.front().bytes, kVia + hvia::kViaHeaderAddressOffset, 8) >> 32;
      if (top->rxl_ok_i) {
        top->rxl_va_i = x.reads.front()->va;
        top->rxl_handle_i = x.reads.front()->handle;
        top->rxl_length_i = x.reads.front()->length;
      }
    } else if (rxl_op_ == hvia::kReceiveReportRequest) {
      top->rxl_ok_i = rng.Chance(3, 4);
    }
  }

  void DriveStore() {
    top->rs_valid_i = rs_valid_;
    top->rs_stale_i = rs_valid_ ? rs_stale_ : rng.Bits(1);
    if (!rs_place_) {
      top->rs_va_i = rng.Next();
      return;
    }
    const Descriptor& d = *rs_place_;
    for (int i = 0; i < 16; i++) top->rs_chunk_i[i] = rs_chunk_[i];
    top->rs_va_i = d.va;
    top->rs_pa_i = d.pa;
    top->rs_handle_i = d.handle;
    top->rs_seq_i = d.seq;
    top->rs_control_i = d.control;
    top->rs_segments_i = d.count;
    top->rs_length_i = d.length;
    top->rs_status_i = d.status;
  }

  bool Coming(unsigned v) const { return !vis[v].queue.empty() || (fetching_ && fetch_vi_ == v); }

  // ---------------------------------------------------------------- outputs

  void Sample() {
    for (uint32_t page : forbidden) {
      if (top->req_valid_o && top->req_addr_o / kPage == page / kPage) Fail("page %x is used after its handle was drained", page);
    }
    // Records the frame's faults on the bus and in the table for the model.
    const unsigned w = wbus.fail_in, a = att.fail_in;
    if (att.req_ready && top->att_req_valid_o) {
      if (a == 1) {
        frame_.att_failed = frame_.att_requests;
        frame_.att_error = att.fail_with;
      }
      frame_.att_requests++;
      if (top->att_req_vi_o != top->rd_vi_o) Fail("a translation for VI %u of a frame of VI %u", top->att_req_vi_o, top->rd_vi_o);
    }
    if (wbus.req_ready && top->req_valid_o) {
      if (w == 1) frame_.bus_failed = frame_.granted;
      frame_.granted += top->req_len_o;
    }
    wbus.Sample(top->req_valid_o, top->req_addr_o, top->req_len_o, top->wvalid_o, top->wdata_o, top->wstrb_o);
    att.Sample(*top);
    SampleReads();
    SampleTold();
    SampleLedger();
    SampleCompletion();
    SampleStrobes();
    handle_busy_ = top->handle_busy_o;
    vi_busy_ = top->vi_busy_o;
    if (top->rx_done_o) {
      if (!offered_) Fail("a slot is returned that holds no frame");
      const Slot s = slots.front();
      slots.pop_front();
      offered_ = false;
      if (judging_) {
        const uint64_t changed = vis[std::max(0, Addressed(s.bytes))].ctx_changed;
        needs_ = false;
        Check(s);
        if (frame_.wanted && !needs_ && !s.cut && changed + 2 < s.offered) Fail("a frame that begins no message requires a descriptor");
      }
      frame_ = {};
      frame_.aborted.fill(0);
    }
    SampleChunks();
    if (top->wanted_o) {
      if (!offered_) Fail("a descriptor is wanted without a frame");
      frame_.wanted = true;
    }
    SampleQueue();
    OpStep();
    if (budget_ != 0) Feed();
  }

  // The read ports return data one clock later, from before this clock's writes.
  void SampleReads() {
    Context x = vis[top->rd_vi_o].ctx;
    if (x.state == hvia::kVIStateFree) {  // reads as the Free word only
      x = {};
      x.rdma_write = x.rdma_read = false;
      x.reliability = 0;
      x.tag = 0;
      x.max = 0;
    }
    ctx_answer_[0] = x.state | x.rdma_write << hvia::kVIContextAttributesEnableRDMAWriteLsb |
                     x.rdma_read << hvia::kVIContextAttributesEnableRDMAReadLsb |
                     x.reliability << hvia::kVIContextAttributesReliabilityLsb |
                     x.generation << hvia::kVIContextAttributesGenerationLsb |
                     static_cast<uint32_t>(x.tag) << hvia::kVIContextAttributesTagLsb;
    ctx_answer_[1] = x.max;
    ctx_answer_[2] = x.peer_mac;
    ctx_answer_[3] = static_cast<uint32_t>(x.peer_mac >> 32) | static_cast<uint32_t>(x.peer_vi) << 16;
    const Vi& r = vis[top->rs_vi_o];
    rs_valid_ = r.valid;
    rs_stale_ = r.stale;
    rs_place_ = r.place;
    rs_chunk_ = r.chunk;
    uint64_t word = rng.Next();
    if (offered_) {
      // After the arrived bytes come those of an earlier frame.
      const Slot& s = slots.front();
      word = unit::Rng(s.offered << 12 | top->rx_raddr_o).Next();
      for (unsigned i = 0; i < kBytes; i++) {
        const size_t at = static_cast<size_t>(top->rx_raddr_o) * kBytes + i;
        if (at < s.avail) word = (word & ~(0xffull << (8 * i))) | static_cast<uint64_t>(s.bytes[at]) << (8 * i);
      }
    }
    rdata_ = word;
  }

  void SampleTold() {
    refused_answer_ = refusal_[top->nak_sent_vi_o];
    if (!top->rxa_valid_o) {
      rxa_shown_ = false;
      rxa_wait_ = traffic.pressure == 0 ? 0 : rng.Below(5);
      return;
    }
    const unsigned v = top->rxa_vi_o;
    if (op_ == kClear && op_vi_ == v && phase_ == 2) Fail("VI %u was reset, and %u is notified of it", v, top->rxa_op_o);
    if (!rxa_shown_) {
      rxa_shown_ = true;
      if (!Reliable(v)) Fail("VI %u is not reliable, and %u is notified of it", v, top->rxa_op_o);
      // Reports of the frame before may come in the first clocks of this one.
      if (offered_ && slots.front().offered + 8 < unit::clocks()) {
        frame_.early = true;
        if (top->rxa_op_o > hvia::kAcknowledgeOperationAcceptLast) Fail("VI %u: %u is notified of a frame before its end", v, top->rxa_op_o);
      }
    }
    if (!top->rxa_ready_i) {
      rxa_wait_--;
      return;
    }
    rxa_shown_ = false;
    rxa_wait_ = traffic.pressure == 0 ? 0 : rng.Below(5);
    const Told t{static_cast<uint8_t>(top->rxa_op_o), top->rxa_number_o, static_cast<uint8_t>(top->rxa_code_o)};
    if (t.op > hvia::kAcknowledgeOperationAgain) Fail("VI %u: operation %u", v, t.op);
    told[t.op]++;
    // A reset of the VI in this clock removes the NAK.
    if (t.op == hvia::kAcknowledgeOperationNAK && !(top->clear_valid_i && top->clear_vi_i == v)) refusal_[v] = true;
    if (judging_) vis[v].seen_told.push_back(t);
  }

  void SampleLedger() {
    if (!top->rxl_valid_o) {
      if (rxl_open_) Fail("a report to the ledger is withdrawn");
      return;
    }
    if (!rxl_open_) {
      rxl_open_ = true;
      rxl_vi_ = top->rxl_vi_o;
      rxl_op_ = top->rxl_op_o;
      rxl_wait_ = traffic.idle == 0 ? rng.Below(4) : rng.Chance(1, 12) ? 127 : rng.Below(20);
      if (!offered_ || Addressed(slots.front().bytes) != static_cast<int>(rxl_vi_)) Fail("a report to the ledger about VI %u out of its frame", rxl_vi_);
      return;
    }
    if (rxl_vi_ != top->rxl_vi_o || rxl_op_ != top->rxl_op_o) Fail("a report to the ledger changed");
    if (!top->rxl_ready_i) {
      rxl_wait_--;
      return;
    }
    rxl_open_ = false;
    Vi& x = vis[rxl_vi_];
    if (rxl_op_ > hvia::kReceiveReportProgress) Fail("report %u to the ledger", rxl_op_);
    reports[rxl_op_]++;
    frame_.reports.push_back({static_cast<uint8_t>(rxl_op_), top->rxl_number_o, static_cast<uint8_t>(top->rxl_code_o), top->rxl_status_o,
                              top->rxl_va_o, top->rxl_handle_o, top->rxl_length_o, static_cast<bool>(top->rxl_ok_i)});
    if (rxl_op_ == hvia::kReceiveReportAnswered) {
      if (x.reads.empty()) Fail("VI %u: an answer and no read", rxl_vi_);
      // The read's buffers belong to the program again.
      if (!wbus.Idle()) Fail("VI %u: a read is complete while its answer is written", rxl_vi_);
      frame_.read = x.reads.front();
      x.reads.pop_front();
      if (x.answered > 0) x.answered--;
    }
  }

  void SampleCompletion() {
    if (!top->cpl_valid_o || !top->cpl_ready_i) {
      if (top->drop_valid_o) Fail("a slot is emptied without a completion");
      return;
    }
    cpl_ready_ = false;
    Vi& x = vis[top->cpl_vi_o];
    if (marks_.completed == 0) marks_.completed = unit::clocks();
    x.seen.push_back({static_cast<uint16_t>(top->cpl_seq_o), top->cpl_pa_o, top->cpl_handle_o, top->cpl_length_o,
                      top->cpl_status_o, top->cpl_immediate_o, static_cast<bool>(top->cpl_has_immediate_o),
                      static_cast<bool>(top->cpl_write_o), false});
    completions++;
    if (!(op_ == kClear && op_vi_ == top->cpl_vi_o) && (!x.valid || !top->drop_valid_o)) {
      Fail("VI %u: completed is what is not on the chip, or stays there", top->cpl_vi_o);
    }
  }

  void SampleStrobes() {
    const unsigned v = top->async_vi_o;
    if (top->async_valid_o) {
      if (unit::clocks() - last_async_ < 6) Fail("asynchronous errors %" PRIu64 " clocks apart", unit::clocks() - last_async_);
      last_async_ = unit::clocks();
      vis[v].seen_async.push_back(top->async_code_o);
    }
    const bool strobe[kOutcomes] = {false,
                                    static_cast<bool>(top->stat_receive_not_for_us_o),
                                    static_cast<bool>(top->stat_receive_malformed_o),
                                    static_cast<bool>(top->stat_receive_bad_vi_o),
                                    static_cast<bool>(top->stat_receive_old_sequence_o),
                                    static_cast<bool>(top->stat_receive_unsupported_o),
                                    static_cast<bool>(top->stat_receive_dropped_o),
                                    static_cast<bool>(top->stat_receive_queue_empty_o),
                                    static_cast<bool>(top->stat_receive_descriptor_error_o),
                                    static_cast<bool>(top->stat_receive_length_o),
                                    static_cast<bool>(top->stat_receive_protection_o),
                                    static_cast<bool>(top->stat_receive_bus_error_o),
                                    static_cast<bool>(top->stat_receive_frame_o),
                                    static_cast<bool>(top->stat_receive_read_limit_o),
                                    static_cast<bool>(top->stat_receive_out_of_order_o),
                                    static_cast<bool>(top->stat_receive_acknowledge_o),
                                    static_cast<bool>(top->stat_receive_naked_o)};
    for (int o = 1; o < kOutcomes; o++) {
      if (!strobe[o]) continue;
      seen.outcome[o]++;
      if (frame_.outcome != kNothing) Fail("a frame is counted as %s and as %s", kOutcomeNames[frame_.outcome], kOutcomeNames[o]);
      frame_.outcome = static_cast<Outcome>(o);
    }
    seen.gap += top->stat_receive_gap_o;
    frame_.gap += top->stat_receive_gap_o;
    seen.aborted += top->stat_receive_aborted_o;
    frame_.aborted[v] += top->stat_receive_aborted_o;
    seen.message += top->stat_receive_message_o;
    seen.raw_dropped += top->stat_raw_receive_dropped_o;
    // A raw buffer stays taken until it is done, and returns in a later clock.
    if (top->rawrx_done_o) {
      if (!raw_taken_) Fail("a raw buffer is returned that was not taken");
      raw_taken_ = false;
      frame_.raw_done = true;
      frame_.raw_error = top->rawrx_err_o;
      frame_.raw_len = top->rawrx_len_o;
      seen.raw += !top->rawrx_err_o;
      seen.raw_error += top->rawrx_err_o;
    } else if (top->rawrx_valid_i && top->rawrx_ready_o) {
      raw_taken_ = true;
    }
    if (!top->trace_valid_o) return;
    switch (top->trace_event_o) {
      case hvia::kTraceEventReceiveParsed:
        seen.parsed++;
        frame_.parsed = true;
        marks_.parsed = unit::clocks();
        break;
      case hvia::kTraceEventReceiveTranslated:
        seen.translated++;
        frame_.translated++;
        break;
      case hvia::kTraceEventReceiveWritten:
        seen.written++;
        frame_.written++;
        marks_.written = unit::clocks();
        // The trace event comes in the clock in which the bus has the last byte.
        if (frame_.granted != 0 && !(top->wdone_i && !top->werr_i)) Fail("ReceiveWritten without the end of a write");
        break;
      default: Fail("trace event %u", top->trace_event_o);
    }
    if (top->trace_vi_o != top->rd_vi_o) Fail("trace of VI %u in a frame of VI %u", top->trace_vi_o, top->rd_vi_o);
  }

  void SampleChunks() {
    if (top->rxc_done_i) {
      if (!top->rxc_err_i && chunk_store_) {
        for (int i = 0; i < 16; i++) vis[chunk_vi_].chunk[i] = top->chunk_data_i[i];
      }
      chunk_busy_ = false;
    } else if (chunk_busy_) {
      chunk_wait_--;
    }
    if (!top->rxc_valid_o || !top->rxc_ready_i) return;
    const Vi& x = vis[top->rxc_vi_o];
    chunk_store_ = top->rxc_store_o;
    chunk_of_ = chunk_store_ ? x.place : x.reads.empty() ? nullptr : x.reads.front();
    if (!chunk_of_) Fail("VI %u: a chunk of no descriptor", top->rxc_vi_o);
    const Descriptor& d = *chunk_of_;
    chunk_number_ = (top->rxc_va_o - d.va) / 64;
    if ((top->rxc_va_o - d.va) % 64 != 0 || top->rxc_handle_o != d.handle || (chunk_number_ == 0 && !Reliable(top->rxc_vi_o)) ||
        chunk_number_ * 64 >= hvia::kDescriptorSize + d.segments.size() * hvia::kDataSegmentSize) {
      Fail("VI %u: chunk %u, handle %x of a descriptor with %zu segments", top->rxc_vi_o, chunk_number_, top->rxc_handle_o,
           d.segments.size());
    }
    chunk_busy_ = true;
    chunk_vi_ = top->rxc_vi_o;
    chunk_wait_ = 1 + rng.Below(traffic.idle == 0 ? 4 : 30);
    chunks++;
    if (chunk_store_) {
      refetched += chunk_number_ <= x.chunk_number;
      vis[top->rxc_vi_o].chunk_number = chunk_number_;
    }
  }

  // Work queue and fetch: one head at a time moves to the slot on the chip once that is released.
  void SampleQueue() {
    if (top->drop_valid_o) {
      Vi& x = vis[top->drop_vi_o];
      if (!x.valid) Fail("VI %u: an empty place is emptied", top->drop_vi_o);
      x.valid = false;
    }
    if (top->release_valid_o && top->release_ready_i) {
      Vi& x = vis[top->release_vi_o];
      if (x.valid || (!x.held && !(op_ == kClear && op_vi_ == top->release_vi_o))) {
        Fail("VI %u: release of a descriptor that is on the chip or never was", top->release_vi_o);
      }
      x.held = false;
    }
    if (fetching_) {
      if (fetch_wait_ > 0) {
        fetch_wait_--;
      } else {
        fetching_ = false;
        Vi& x = vis[fetch_vi_];
        if (fetch_flush_) {
          x.seen.push_back(Of(*fetch_, 0, Status(kFlushed, false)));
          x.held = false;
        } else {
          x.valid = true;
          x.stale = fetch_->stale;
          x.place = fetch_;
          if (x.ctx.state == hvia::kVIStateError) held_flushed++;
          for (int i = 0; i < 16; i++) x.chunk[i] = Word(*fetch_, 4 * i);
          x.chunk_number = 0;
        }
      }
    } else if (!rng.Chance(traffic.idle, 4)) {
      const unsigned start = rng.Below(std::size(kVis));
      for (unsigned i = 0; i < std::size(kVis) && !fetching_; i++) {
        const unsigned v = kVis[(start + i) % std::size(kVis)];
        Vi& x = vis[v];
        if (x.queue.empty() || x.held) continue;
        if (on_arrival_) {
          const bool wanted = top->wanted_o && top->coming_vi_o == v;
          if (!wanted && !(op_ == kFlush && op_vi_ == v && phase_ == 2)) continue;
          on_arrival_seen += wanted;
        }
        fetching_ = x.held = true;
        fetch_vi_ = v;
        fetch_ = x.queue.front();
        x.queue.pop_front();
        fetch_flush_ = x.ctx.state == hvia::kVIStateError;
        fetch_wait_ = rng.Below(traffic.idle == 0 ? 8 : 80);
      }
    }
  }

  // ---------------------------------------------------------------- operations on a VI

  void StartOp(Op op, unsigned v) {
    op_ = op;
    op_vi_ = v;
    phase_ = 0;
    calm_ = 0;
    hold_ = rng.Below(6);
    op_begin_ = unit::clocks();
  }
  void FinishOp() {
    while (op_ != kNoOp) Step();
  }

  // A broken connection ends, and the next one starts.
  void Reconnect() {
    const unsigned v = kReliable[rng.Below(std::size(kReliable))];
    if (vis[v].ctx.state == hvia::kVIStateIdle) {
      StartOp(kConnect, v);
      op_value_ = rng.Bits(32);
    } else if (vis[v].refused && rng.Chance(1, 3)) {
      StartOp(kFlush, v);
    }
  }

  void RandomOp() {
    const unsigned v = kVis[rng.Below(std::size(kVis))];
    const bool idle = vis[v].ctx.state == hvia::kVIStateIdle;
    if (idle && rng.Chance(2, 3)) {
      StartOp(kConnect, v);
      op_value_ = rng.Bits(32);
    } else {
      StartOp(rng.Chance(1, 3) ? kClear : kFlush, v);
      // A new head may be fetched with the old context and reach the chip during the flush.
      if (vis[v].posted.size() < 6 && vis[v].ctx.state != hvia::kVIStateFree && rng.Bits(1)) RandomPost(v);
    }
  }

  // As vi_manager does: it writes the context, raises the level or pulse in the next clock, and
  // considers the VI drained when no block is busy in two clocks.
  void OpStep() {
    if (op_ == kNoOp) return;
    if (unit::clocks() - op_begin_ > 50'000) Fail("VI %u is not drained", op_vi_);
    Vi& x = vis[op_vi_];
    const bool busy = vi_busy_ || (fetching_ && fetch_vi_ == op_vi_) || x.valid || !x.queue.empty();
    switch (op_) {
      case kFlush:
      case kClear:
        if (phase_ == 0) {
          // A bad frame's effect is checked by the VI's next action, so none may come from here on.
          if (offered_ && slots.front().cut && Addressed(slots.front().bytes) == static_cast<int>(op_vi_)) return;
          for (auto& s : slots) {
            if (Addressed(s.bytes) == static_cast<int>(op_vi_)) s.cut = s.bad = false;
          }
          SetState(x, op_ == kFlush ? hvia::kVIStateError : hvia::kVIStateFree);
          phase_ = 1;
        } else if (op_ == kFlush) {
          if (phase_ == 1 && !vi_busy_) Fail("not busy in the first clock of a flush");
          phase_ = 2;
          calm_ = busy ? 0 : calm_ + 1;
          if (calm_ >= 2 && calm_ > hold_) {
            if (hold_ == kLongHold && !top->quiet_o) Fail("not quiet after the flush");
            FlushEnd();
          }
        } else {
          if (phase_ == 1) {
            refusal_[op_vi_] = false;
            x.valid = x.held = false;
            x.queue.clear();
            if (fetching_ && fetch_vi_ == op_vi_) fetching_ = false;
            phase_ = 2;
          } else {
            calm_ = vi_busy_ ? 0 : calm_ + 1;
            if (calm_ == 2) ClearEnd();
          }
        }
        return;
      default:
        if (x.ctx.state != hvia::kVIStateIdle) Fail("VI %u is connected in state %u", op_vi_, x.ctx.state);
        if (phase_ == 0) {
          phase_ = 1;
        } else if (phase_ == 1) {
          if (top->seq_init_ready_o) {
            refusal_[op_vi_] = false;
            phase_ = 2;
          }
        } else {
          SetState(x, hvia::kVIStateConnected);
          x.expected = x.number = op_value_;
          x.message = kNone;
          x.maybe_given_up = x.refused = false;
          x.strays.clear();
          x.outgoing.clear();
          x.first = op_value_;
          op_ = kNoOp;
        }
    }
  }

  void SetState(Vi& x, uint8_t state) {
    x.ctx.state = state;
    x.ctx_changed = unit::clocks();
  }

  void FlushEnd() {
    Vi& x = vis[op_vi_];
    if (x.message == kOpen && !x.answer) Cut(x, kFlushed);
    x.reads.clear();
    x.answered = 0;
    while (!x.posted.empty()) {
      x.want.push_back(Of(*x.posted.front(), 0, Status(kFlushed, false)));
      x.posted.pop_front();
    }
    x.message = kNone;
    x.maybe_given_up = false;
    Match(op_vi_);
    if (!x.want.empty() || !x.want_async.empty()) Fail("VI %u was flushed, and %zu descriptors are not complete", op_vi_, x.want.size());
    if (!x.want_told.empty()) Fail("VI %u was flushed, and %u is not reported yet", op_vi_, x.want_told.front().op);
    SetState(x, hvia::kVIStateIdle);
    flushes++;
    op_ = kNoOp;
  }

  // Work in flight may or may not have completed. Nothing completes from now on.
  void ClearEnd() {
    Vi& x = vis[op_vi_];
    Match(op_vi_);
    for (auto& c : x.want) want.message -= c.message;
    x.want.clear();
    x.want_async.clear();
    x.want_told.clear();
    x.reads.clear();
    x.answered = 0;
    x.posted.clear();
    x.message = kNone;
    x.maybe_given_up = x.refused = false;
    x.ctx.generation++;
    SetState(x, hvia::kVIStateIdle);
    clears++;
    op_ = kNoOp;
  }

  // Completions and errors of a VI must come in the model's order.
  void Match(unsigned v) {
    Vi& x = vis[v];
    while (!x.seen.empty() && !x.want.empty()) {
      const Completion &s = x.seen.front(), &w = x.want.front();
      if (!(s == w)) {
        Fail("VI %u: completion of descriptor %u (pa %08x) with length %u status %08x immediate %d %08x write %d, want %u (pa %08x) with length %u "
             "status %08x immediate %d %08x write %d", v, s.seq, s.pa, s.length, s.status, s.has_immediate, s.immediate, s.write, w.seq, w.pa, w.length, w.status,
             w.has_immediate, w.immediate, w.write);
      }
      x.seen.pop_front();
      x.want.pop_front();
    }
    while (!x.seen_async.empty() && !x.want_async.empty()) {
      if (x.seen_async.front() != x.want_async.front()) Fail("VI %u: asynchronous error %u, want %u", v, x.seen_async.front(), x.want_async.front());
      x.seen_async.pop_front();
      x.want_async.pop_front();
    }
    while (!x.seen_told.empty() && !x.want_told.empty()) {
      const Told &s = x.seen_told.front(), &w = x.want_told.front();
      if (!(s == w)) Fail("VI %u: reported operation %u number %08x code %u, want %u %08x %u", v, s.op, s.number, s.code, w.op, w.number, w.code);
      x.seen_told.pop_front();
      x.want_told.pop_front();
    }
    if (!x.seen_told.empty()) Fail("VI %u: operation %u, number %08x is reported without an event", v, x.seen_told.front().op, x.seen_told.front().number);
    if (!x.seen.empty()) Fail("VI %u: an unexpected completion: descriptor %u status %08x", v, x.seen.front().seq, x.seen.front().status);
    if (!x.seen_async.empty()) Fail("VI %u: asynchronous error %u", v, x.seen_async.front());
  }

  bool AtRest() const {
    if (!slots.empty() || offered_ || !top->quiet_o || !wbus.Idle() || !att.Idle() || fetching_ || chunk_busy_ || op_ != kNoOp) return false;
    for (unsigned v : kVis) {
      if (!vis[v].queue.empty() && !vis[v].held && !on_arrival_) return false;
    }
    return true;
  }

  // ---------------------------------------------------------------- the model

  static uint32_t Status(uint32_t errors, bool rdma, bool immediate = false) {
    return errors | hvia::kDescriptorStatusDoneMask |
           static_cast<uint32_t>(rdma ? hvia::kStatusOperationRemoteRDMAWrite : hvia::kStatusOperationReceive)
               << hvia::kDescriptorStatusOperationLsb |
           static_cast<uint32_t>(immediate) << hvia::kDescriptorStatusImmediateLsb;
  }
  static Completion Of(const Descriptor& d, uint32_t length, uint32_t status) {
    return {d.seq, d.pa, d.handle, length, status, 0, false, !d.stale, false};
  }

  // Completes the open message's descriptor.
  void Complete(Vi& x, uint32_t bits, bool immediate = false, uint32_t data = 0) {
    if (x.posted.empty()) Fail("the model completes a descriptor that was never posted");
    Completion c = Of(*x.posted.front(), x.written, Status(x.errors | bits, x.rdma, immediate));
    c.has_immediate = immediate;
    c.immediate = data;
    c.message = true;
    x.want.push_back(c);
    x.posted.pop_front();
    want.message++;
  }
  void Cut(Vi& x, uint32_t bits) {
    want.aborted++;
    if (x.rdma && !x.immediate) x.want_async.push_back(hvia::kAsyncErrorRDMAWriteAbort);
    else Complete(x, kPartial | bits);
    x.message = kNone;
  }

  // Writes a run of payload bytes to memory. Returns kNothing or the error.
  Outcome Place(const Slot& s, uint32_t at, uint32_t n, uint32_t handle, uint64_t va, uint32_t bound, uint16_t tag,
                uint8_t access, unsigned* request, bool* translated) {
    const uint8_t verdict = unit::AttPort::Check(att.regions, handle, va, bound, tag, access);
    const unsigned pages = n == 0 ? 1 : (va % kPage + n - 1) / kPage + 1;
    uint8_t err = verdict;
    bool first_failed = verdict != hvia::kAttErrorNone;
    if (frame_.att_failed >= static_cast<int>(*request) && frame_.att_failed < static_cast<int>(*request + (verdict ? 1 : pages))) {
      err = frame_.att_error;
      first_failed = frame_.att_failed == static_cast<int>(*request);
    }
    *request += pages;
    if (!first_failed) *translated = true;
    last_translated_ = !first_failed && kHeader + at + n == kHeader + Get(s.bytes, kVia + hvia::kViaHeaderPayloadLengthOffset, 2);
    const bool bus = frame_.bus_failed >= static_cast<int64_t>(at) && frame_.bus_failed < static_cast<int64_t>(at + n);
    if (first_failed) return err == hvia::kAttErrorBackend ? kBusError : kRefused;
    const Region& r = att.regions.at(handle);
    for (uint32_t i = 0; i < n; i++) {
      const uint32_t pa = r.Physical(va + i);
      const size_t byte = kHeader + at + i;
      const uint8_t old = shadow[pa];
      if (byte >= s.bytes.size()) {  // the frame is shorter than its length field
        shadow[pa] = memory.bytes[pa];
        undefined++;
      } else if (bus || err != hvia::kAttErrorNone) {
        shadow[pa] = memory.bytes[pa];
        if (memory.bytes[pa] != old && memory.bytes[pa] != s.bytes[byte]) Fail("host address %08x is neither old nor new after an error", pa);
        undefined++;
      } else {
        shadow[pa] = s.bytes[byte];
      }
    }
    if (bus) return kBusError;
    if (err != hvia::kAttErrorNone) return err == hvia::kAttErrorBackend ? kBusError : kRefused;
    bytes += n;
    return kNothing;
  }

  // Whether a segment lies in an unreadable chunk.
  static bool Unreadable(const Descriptor& d, unsigned segment) {
    return static_cast<int>((segment + hvia::kDescriptorSize / hvia::kDataSegmentSize) / 4) == d.bad_chunk;
  }

  // Writes the payload of a Send or read response to its descriptor's buffers, as far as they
  // reach.
  Outcome Scatter(Vi& x, const Descriptor& d, const Slot& s, uint32_t payload, bool* translated) {
    const uint32_t limit = x.answer ? x.total : d.length;
    const unsigned count = x.answer ? d.count & 255 : d.segments.size();
    uint32_t at = 0;
    unsigned request = 0;
    // A frame of a read response reads the chunk for its first byte.
    if (x.answer && payload != 0 && Unreadable(d, x.segment)) {
      x.errors |= kProtection;
      return kDescriptor;
    }
    while (at < payload) {
      if (x.written == limit || x.segment >= count) {
        x.errors |= kLength;
        return kTooLong;
      }
      const Segment& g = d.segments[x.segment];
      if (x.offset == g.len) {
        x.segment++;
        x.offset = 0;
        const unsigned places = x.segment + hvia::kDescriptorSize / hvia::kDataSegmentSize;
        if (x.segment != count && places % 4 == 0 && Unreadable(d, x.segment)) {
          x.errors |= kProtection;
          return kDescriptor;
        }
        continue;
      }
      const uint32_t n = std::min({payload - at, g.len - x.offset, limit - x.written});
      const Outcome o = Place(s, at, n, g.handle, g.va + x.offset, g.len - x.offset, x.ctx.tag, hvia::kAttAccessLocal, &request, translated);
      if (o != kNothing) {
        x.errors |= o == kBusError ? kTransport : kProtection;
        return o == kBusError ? kBusError : kDescriptor;
      }
      at += n;
      x.offset += n;
      x.written += n;
    }
    return kGood;
  }

  // The VI that a frame addresses, or -1.
  static int Addressed(const Frame& f) {
    if (Get(f, hvia::kEthernetHeaderEtherTypeOffset, 2) != hvia::kEtherTypeVia) return -1;
    return Get(f, kVia + hvia::kViaHeaderDestinationVIOffset, 2) & 255;
  }

  void Expect(Outcome o) {
    if (o != frame_.outcome) {
      const Vi& x = vis[top->rd_vi_o];
      Fail("a frame of VI %u is counted as %s, want %s (state %u, expected %08x, message %u, NAKed %u)", top->rd_vi_o, kOutcomeNames[frame_.outcome],
           kOutcomeNames[o], x.ctx.state, x.expected, x.message, x.refused);
    }
    want.outcome[o]++;
  }

  // Checks the effects of a frame at its end. Some depend on timing: a descriptor posted while the
  // frame was in the engine, a state change of the VI meanwhile, a frame that turned out bad before
  // or after it was parsed. There the check accepts any possible outcome that was observed.
  void Check(const Slot& s) {
    const Frame& f = s.bytes;
    uint64_t destination = 0, source = 0;
    for (unsigned i = 0; i < 6; i++) {
      destination |= static_cast<uint64_t>(f[hvia::kEthernetHeaderDestinationOffset + i]) << (8 * i);
      source |= static_cast<uint64_t>(f[hvia::kEthernetHeaderSourceOffset + i]) << (8 * i);
    }
    const bool own = destination == kMac, group = destination & 1;
    const bool via = Get(f, hvia::kEthernetHeaderEtherTypeOffset, 2) == hvia::kEtherTypeVia;
    if (!own && (!group || via)) {
      Expect(s.bad ? kNothing : kNotForUs);
      return;
    }
    if (!via) {
      CheckRaw(s);
      return;
    }
    const uint8_t ov = f[kVia + hvia::kViaHeaderOperationVersionOffset], flags = f[kVia + hvia::kViaHeaderFlagsOffset];
    const unsigned operation = ov & 15, version = ov >> 4;
    const uint32_t len = Get(f, kVia + hvia::kViaHeaderPayloadLengthOffset, 2);
    const bool is_short = len > f.size() - kHeader, lost = s.bad || is_short;
    if (version != hvia::kViaVersion || flags >> hvia::kViaHeaderFlagsReservedLsb ||
        operation > hvia::kFrameOperationAcknowledge || len > hvia::kMaxPayload) {
      Expect(s.bad ? kNothing : kMalformed);
      return;
    }
    if (lost) {
      Expect(s.bad ? kNothing : kMalformed);
      if (!s.cut) return;
      lost_frames++;
    }

    const uint16_t number = Get(f, kVia + hvia::kViaHeaderDestinationVIOffset, 2);
    const uint8_t vi = number;
    Vi& x = vis[vi];
    const bool flux = x.ctx_changed + 2 >= s.offered;
    if (Reliable(vi)) {
      CheckReliable(s, vi, number >> 8 != x.ctx.generation || source != x.ctx.peer_mac ||
                               Get(f, kVia + hvia::kViaHeaderSourceVIOffset, 2) != x.ctx.peer_vi, flux, lost);
      return;
    }
    bool bad_vi = x.ctx.state != hvia::kVIStateConnected || number >> 8 != x.ctx.generation || source != x.ctx.peer_mac ||
                  Get(f, kVia + hvia::kViaHeaderSourceVIOffset, 2) != x.ctx.peer_vi;
    if (flux && !lost) bad_vi = frame_.outcome == kBadVi;
    if (bad_vi) {
      if (lost) return;
      if (flux && frame_.parsed) {
        // The frame waited for a descriptor when the VI was taken down, and cut off the message
        // before.
        want.parsed++;
        want.gap += frame_.gap;
        if (x.message == kOpen) Cut(x, 0);
        x.message = kGivenUp;
      }
      Expect(kBadVi);
      return;
    }
    const uint32_t sequence = Get(f, kVia + hvia::kViaHeaderSequenceOffset, 4);
    const int32_t ahead = static_cast<int32_t>(sequence - x.expected);
    const bool agrees = !x.strays.empty() && sequence - x.strays.back() - 1 < hvia::kSequenceWindow;
    if (sequence - x.expected >= hvia::kSequenceWindow && !(agrees && x.strays.size() == hvia::kSequenceAgreement - 1)) {
      if (lost) return;
      Expect(ahead < 0 ? kOld : kOutOfOrder);
      (ahead < 0 ? behind : beyond)++;
      const bool copy = !x.strays.empty() && sequence == x.strays.back();
      if (!agrees && !copy) x.strays.clear();
      if (!copy) x.strays.push_back(sequence);
      return;
    }

    const bool first = flags & kFirst, last = flags & kLast, immediate = flags & kImmediate, gap = ahead != 0;
    const bool rdma = operation == hvia::kFrameOperationRDMAWrite, send = operation == hvia::kFrameOperationSend;
    const bool supported = rdma || send, needs = !rdma || immediate;
    const uint64_t address = Get(f, kVia + hvia::kViaHeaderAddressOffset, 8);
    const uint32_t offset = address, total = address >> 32;
    const bool begins = supported && first && (rdma || offset == 0);
    const bool continues = x.message == kOpen && supported && !first && !gap && rdma == x.rdma && immediate == x.immediate &&
                           (rdma || (offset == x.received && total == x.total));
    const bool cut = x.message == kOpen && !continues;
    bool headless = x.message == kNone && supported && !begins;
    if (headless && x.maybe_given_up && frame_.aborted[vi] == 0) headless = false;
    const bool accept = begins || continues;
    if (lost) {
      // Whether the frame was parsed before it turned out bad.
      const bool looked = accept ? frame_.parsed : cut || headless ? frame_.aborted[vi] != 0 : false;
      if (!looked) {
        if (!accept && !cut && x.message == kNone) x.maybe_given_up = true;
        return;
      }
    } else {
      want.gap += gap;
      adopted += sequence - x.expected >= hvia::kSequenceWindow;
      x.expected = sequence + 1;
      x.strays.clear();
    }
    if (cut) {
      Cut(x, 0);
    } else if (headless) {
      want.aborted++;
      if (!needs) x.want_async.push_back(hvia::kAsyncErrorRDMAWriteAbort);
    }
    x.maybe_given_up = false;
    if (!accept) {
      x.message = last && !lost ? kNone : kGivenUp;
      if (!lost) Expect(supported ? kDropped : kUnsupported);
      return;
    }

    want.parsed++;
    Outcome o = kNothing;
    const uint32_t data = Get(f, kVia + hvia::kViaHeaderImmediateOffset, 4);
    if (begins) {
      x.rdma = rdma;
      x.immediate = immediate;
      x.errors = x.written = x.received = x.offset = x.segment = 0;
      x.total = total;
    }
    needs_ = begins && needs;
    if (begins && needs) {
      bool have = !x.posted.empty();
      if (have && x.posted.front()->posted + 1 >= s.offered) {
        late++;
        have = lost ? frame_.aborted[vi] > cut : frame_.outcome != kQueueEmpty;
      }
      if (!have) {
        x.message = last && !lost ? kNone : kGivenUp;
        if (!lost) {
          Expect(kQueueEmpty);
          x.want_async.push_back(hvia::kAsyncErrorReceiveQueueEmpty);
        }
        return;
      }
      const Descriptor& d = *x.posted.front();
      x.errors = d.status != 0 ? d.status : d.length > x.ctx.max ? kLength : 0;
      if (x.errors != 0) o = kDescriptor;
    } else if (needs && x.errors != 0) {
      o = kDropped;
    }
    bool translated = false;
    if (o == kNothing && rdma) {
      unsigned request = 0;
      o = kRefused;
      if (x.ctx.rdma_write) {
        o = Place(s, 0, len, Get(f, kVia + hvia::kViaHeaderHandleOffset, 4), address, len, x.ctx.tag, hvia::kAttAccessRemoteWrite, &request, &translated);
      }
      if (o == kNothing) {
        o = kGood;
        x.written += len;
      } else {
        x.errors |= o == kBusError ? kTransport : kRdmaProtection;
      }
    } else if (o == kNothing) {
      o = Scatter(x, *x.posted.front(), s, len, &translated);
    }
    x.received += len;
    want.translated += translated;
    want.written += o == kGood;

    if (lost) {
      want.aborted++;
      if (needs) Complete(x, kPartial);
      else x.want_async.push_back(hvia::kAsyncErrorRDMAWriteAbort);
      x.message = kGivenUp;
      return;
    }
    Expect(o);
    if (needs) {
      x.message = last ? kNone : kOpen;
      if (last) Complete(x, 0, immediate, data);
    } else if (o == kGood) {
      x.message = last ? kNone : kOpen;
    } else {
      x.want_async.push_back(o == kBusError ? hvia::kAsyncErrorRDMAWriteAbort : hvia::kAsyncErrorRDMAWriteProtection);
      x.message = last ? kNone : kGivenUp;
    }
  }

  static bool Reliable(unsigned v) { return std::find(std::begin(kReliable), std::end(kReliable), v) != std::end(kReliable); }

  // Checks the reports of a frame to the ledger, in order.
  void ExpectReports(unsigned vi, const std::vector<Report>& w) {
    bool same = w.size() == frame_.reports.size();
    for (size_t i = 0; same && i < w.size(); i++) {
      const Report &a = frame_.reports[i], &b = w[i];
      same = a.op == b.op;
      if (b.op == hvia::kReceiveReportAcknowledge) same = same && a.number == b.number && a.code == b.code;
      if (b.op == hvia::kReceiveReportAnswered) same = same && a.status == b.status;
      if (b.op == hvia::kReceiveReportRequest) {
        same = same && a.number == b.number && a.va == b.va && a.handle == b.handle && a.length == b.length;
      }
    }
    if (!same) {
      Fail("VI %u: the ledger was notified %zu things of a frame, the first one %d, want %zu and %d, or their fields differ", vi, frame_.reports.size(),
           frame_.reports.empty() ? -1 : frame_.reports[0].op, w.size(), w.empty() ? -1 : w[0].op);
    }
  }

  void CheckReliable(const Slot& s, unsigned vi, bool stranger, bool flux, bool lost) {
    Vi& x = vis[vi];
    const Frame& f = s.bytes;
    const unsigned operation = f[kVia + hvia::kViaHeaderOperationVersionOffset] & 15;
    const uint8_t flags = f[kVia + hvia::kViaHeaderFlagsOffset];
    const bool first = flags & kFirst, last = flags & kLast, immediate = flags & kImmediate;
    const uint32_t len = Get(f, kVia + hvia::kViaHeaderPayloadLengthOffset, 2);
    const uint32_t sequence = Get(f, kVia + hvia::kViaHeaderSequenceOffset, 4);
    const uint64_t address = Get(f, kVia + hvia::kViaHeaderAddressOffset, 8);
    const uint32_t offset = address, total = address >> 32, handle = Get(f, kVia + hvia::kViaHeaderHandleOffset, 4);
    const uint32_t data = Get(f, kVia + hvia::kViaHeaderImmediateOffset, 4);
    const bool acknowledgement = operation == hvia::kFrameOperationAcknowledge;
    const bool rdma = operation == hvia::kFrameOperationRDMAWrite, send = operation == hvia::kFrameOperationSend;
    const bool request = operation == hvia::kFrameOperationRDMAReadRequest;
    const bool answer = operation == hvia::kFrameOperationRDMAReadResponse;
    const bool needs = send || (rdma && immediate);
    const bool delivery = x.ctx.reliability == hvia::kReliabilityDelivery;
    if (frame_.early && (!delivery || lost)) Fail("VI %u: a frame is acknowledged before it is in memory", vi);

    const bool is_free = x.ctx.state == hvia::kVIStateFree;
    bool bad_vi = stranger || x.ctx.state != hvia::kVIStateConnected, again = x.refused && !stranger && !acknowledgement && !is_free;
    if (flux && !lost) {
      // The frame may have been parsed before its VI was reconnected.
      again = !stranger && !acknowledgement && frame_.outcome == kConnectionRefused && (x.refused || sequence != x.expected);
      bad_vi = frame_.outcome == kBadVi;
    }
    if (again) {
      ExpectReports(vi, {});
      if (lost) return;
      if (x.ctx.state != hvia::kVIStateConnected) again_idle++;
      Expect(kConnectionRefused);
      x.want_told.push_back({hvia::kAcknowledgeOperationAgain, 0, 0});
      return;
    }
    if (bad_vi) {
      ExpectReports(vi, {});
      if (lost) return;
      if (flux && frame_.parsed) want.parsed++;  // it waited for a descriptor when the VI was taken down
      Expect(kBadVi);
      return;
    }
    if (acknowledgement) {
      const bool wrong = flags != 0 || len != 0 || data > hvia::kAcknowledgeCodeTransport;
      if (wrong || lost) ExpectReports(vi, {});
      else ExpectReports(vi, {{hvia::kReceiveReportAcknowledge, sequence, static_cast<uint8_t>(data), 0, 0, 0, 0, false}});
      if (!lost) Expect(wrong ? kMalformed : kAcknowledge);
      return;
    }
    const int32_t ahead = static_cast<int32_t>(sequence - x.expected);
    if (ahead != 0) {
      ExpectReports(vi, {});
      if (lost) return;
      Expect(ahead < 0 ? kOld : kOutOfOrder);
      x.want_told.push_back({ahead < 0 ? hvia::kAcknowledgeOperationOld : hvia::kAcknowledgeOperationGap, x.expected, 0});
      return;
    }

    const bool open = x.message == kOpen;
    const uint64_t end = static_cast<uint64_t>(offset) + len;
    const bool fits = !immediate && (last ? end == total : end < total);
    bool belongs;
    if (open) {
      belongs = !first && !request && operation <= hvia::kFrameOperationRDMAReadResponse && rdma == x.rdma && answer == x.answer &&
                immediate == x.immediate && (rdma || (offset == x.received && total == x.total)) && (!answer || fits);
    } else {
      belongs = first && (rdma || (send && offset == 0) || (answer && offset == 0 && fits) || (request && last && !immediate && len == 0));
    }
    const State before = x;
    Outcome o = kNothing;
    bool translated = false, have = true, held = false;
    last_translated_ = false;
    const Posted read = !answer ? nullptr : frame_.read ? frame_.read : x.reads.empty() ? nullptr : x.reads.front();
    std::vector<Report> report;
    needs_ = belongs && !open && needs;
    if (lost) {
      lost_reliable++;
      // The frame may have ended before it was parsed.
      for (auto& t : frame_.reports) {
        if (t.op != hvia::kReceiveReportFind) Fail("VI %u: the ledger was notified of a bad frame", vi);
      }
      if (!frame_.parsed) return;
    }
    if (belongs) want.parsed++;
    if (belongs && answer) {
      report.push_back({hvia::kReceiveReportFind, 0, 0, 0, 0, 0, 0, false});
      if (!read || read->length != total) belongs = false;
    }
    if (!belongs) {
      o = kConnectionRefused;
    } else if (request) {
      o = x.ctx.rdma_read ? kGood : kRefused;
      if (x.ctx.rdma_read && !lost) {
        report.push_back({hvia::kReceiveReportRequest, sequence, 0, 0, address, handle, data, false});
        if (!frame_.reports.empty() && !frame_.reports[0].ok) o = kReadLimit;
      }
    } else {
      if (!open) {
        x.rdma = rdma;
        x.answer = answer;
        x.immediate = immediate;
        x.errors = x.written = x.received = x.offset = 0;
        x.segment = answer;
        x.total = total;
        if (needs) {
          have = !x.posted.empty();
          if (have && x.posted.front()->posted + 1 >= s.offered) {
            late++;
            have = frame_.outcome != kQueueEmpty;
            if (lost) {
              // The use of a descriptor that came at the last moment is unknown. The frame's bytes
              // come again.
              shadow = memory.bytes;
              want.translated += frame_.translated;
              want.written += frame_.written;
              static_cast<State&>(x) = before;
              return;
            }
          }
          if (!have) {
            o = kQueueEmpty;
          } else {
            const Descriptor& d = *x.posted.front();
            x.errors = d.status != 0 ? d.status : d.length > x.ctx.max ? kLength : 0;
            if (x.errors != 0) o = kDescriptor;
          }
        }
      }
      held = needs && have;
      if (o == kNothing && rdma) {
        unsigned at = 0;
        o = kRefused;
        if (x.ctx.rdma_write) o = Place(s, 0, len, handle, address, len, x.ctx.tag, hvia::kAttAccessRemoteWrite, &at, &translated);
        if (o == kNothing) {
          o = kGood;
          x.written += len;
        } else {
          x.errors |= o == kBusError ? kTransport : kRdmaProtection;
        }
      } else if (o == kNothing) {
        o = Scatter(x, answer ? *read : *x.posted.front(), s, len, &translated);
      }
      x.received += len;
      want.translated += translated;
      want.written += o == kGood;
    }
    if (lost) {
      static_cast<State&>(x) = before;
      return;
    }
    if (belongs && answer) {
      if (o == kGood && !last) report.push_back({hvia::kReceiveReportProgress, 0, 0, 0, 0, 0, 0, false});
      else report.push_back({hvia::kReceiveReportAnswered, 0, 0, x.errors, 0, 0, 0, false});
      (o == kGood ? answers : answers_failed) += last || o != kGood;
    }
    ExpectReports(vi, report);
    Expect(o);
    if (o == kReadLimit) return;
    x.expected = sequence + 1;

    // Delivery acknowledges a frame that was complete at its last translation, whatever happens
    // later.
    const bool may = delivery && belongs && !request && last_translated_;
    if (frame_.early && !may) Fail("VI %u: a frame is acknowledged early", vi);
    if (may && !s.cut && len != 0 && !frame_.early && !flux) Fail("VI %u: a frame that can be delivered is not acknowledged early", vi);
    early += frame_.early;
    if (o == kGood || frame_.early) {
      x.want_told.push_back({last ? hvia::kAcknowledgeOperationAcceptLast : hvia::kAcknowledgeOperationAccept, sequence + 1, 0});
    }
    if (o == kGood) {
      x.message = last ? kNone : kOpen;
      if (last && held) Complete(x, 0, immediate, data);
      return;
    }
    early_refused += frame_.early;
    // The connection is broken.
    x.refused = true;
    x.message = kNone;
    uint8_t code = hvia::kAcknowledgeCodeTransport;
    int error = hvia::kAsyncErrorConnectionLost;
    switch (o) {
      case kQueueEmpty:
        code = hvia::kAcknowledgeCodeRemoteDescriptor;
        error = hvia::kAsyncErrorReceiveQueueEmpty;
        break;
      case kDescriptor:
      case kTooLong:
        if (!answer) code = hvia::kAcknowledgeCodeRemoteDescriptor;
        break;
      case kRefused:
        code = hvia::kAcknowledgeCodeRDMAProtection;
        if (request) error = hvia::kAsyncErrorRDMAReadProtection;
        else if (!held) error = hvia::kAsyncErrorRDMAWriteProtection;
        break;
      case kBusError:
        if (rdma && !held) error = hvia::kAsyncErrorRDMATransport;
        break;
      default:
        if (open) {
          static_cast<State&>(x) = before;
          if (x.answer) {
            cut_answers++;
          } else {
            want.aborted++;
            cut_messages++;
            if (!x.rdma || x.immediate) Complete(x, kPartial);
          }
          x.message = kNone;
        }
    }
    if (held) Complete(x, 0, immediate, data);
    // The ledger reports errors of a read's buffers.
    if (!answer || o == kConnectionRefused) x.want_async.push_back(error);
    x.want_told.push_back({hvia::kAcknowledgeOperationNAK, sequence, code});
  }

  void CheckRaw(const Slot& s) {
    Expect(kNothing);
    if (s.bad) {
      if (frame_.raw_done) Fail("a bad raw frame was delivered");
      return;
    }
    if (!raw_buffer) {
      want.raw_dropped++;
      if (frame_.raw_done) Fail("a raw frame was delivered into no buffer");
      return;
    }
    const bool fits = s.bytes.size() <= raw_capacity, err = !fits || frame_.bus_failed >= 0;
    if (!frame_.raw_done || frame_.raw_error != err || frame_.raw_len != s.bytes.size()) {
      Fail("raw frame of %zu bytes: done %d, %u bytes, error %d", s.bytes.size(), frame_.raw_done, frame_.raw_len, frame_.raw_error);
    }
    (err ? want.raw_error : want.raw)++;
    const uint32_t pa = raw_pages[raw_got % raw_pages.size()] + RawOffset();
    raw_got++;
    for (size_t i = 0; fits && i < s.bytes.size(); i++) {
      if (err && memory.bytes[pa + i] == shadow[pa + i]) continue;
      shadow[pa + i] = s.bytes[i];
    }
  }

  // ---------------------------------------------------------------- stimulus

  Frame Make(unsigned v, uint8_t operation, uint8_t flags, uint64_t address, uint32_t handle, uint32_t payload) {
    const Vi& x = vis[v];
    Frame f(kHeader + payload);
    for (unsigned i = 0; i < 6; i++) {
      f[hvia::kEthernetHeaderDestinationOffset + i] = kMac >> (8 * i);
      f[hvia::kEthernetHeaderSourceOffset + i] = x.ctx.peer_mac >> (8 * i);
    }
    Put(f, hvia::kEthernetHeaderEtherTypeOffset, hvia::kEtherTypeVia, 2);
    f[kVia + hvia::kViaHeaderOperationVersionOffset] = operation << hvia::kViaHeaderOperationVersionOperationLsb |
                                                      hvia::kViaVersion << hvia::kViaHeaderOperationVersionVersionLsb;
    f[kVia + hvia::kViaHeaderFlagsOffset] = flags;
    Put(f, kVia + hvia::kViaHeaderPayloadLengthOffset, payload, 2);
    Put(f, kVia + hvia::kViaHeaderDestinationVIOffset, x.ctx.generation << 8 | v, 2);
    Put(f, kVia + hvia::kViaHeaderSourceVIOffset, x.ctx.peer_vi, 2);
    Put(f, kVia + hvia::kViaHeaderAddressOffset, address, 8);
    Put(f, kVia + hvia::kViaHeaderHandleOffset, handle, 4);
    Put(f, kVia + hvia::kViaHeaderImmediateOffset, rng.Bits(32), 4);
    for (uint32_t i = 0; i < payload; i++) f[kHeader + i] = rng.Next();
    if (rng.Chance(1, 16)) f.resize(f.size() + rng.Below(9), 0x5a);
    if (f.size() < hvia::kMinFrame) f.resize(hvia::kMinFrame, 0);
    if (f.size() > hvia::kMaxFrame) f.resize(hvia::kMaxFrame);
    return f;
  }

  uint32_t RandomLength() {
    static const uint32_t corner[] = {0, 1, 2, 3, 4, 17, 18, 19, 63, 64, 1471, 1472, 1473, 2944, 2945, 4096};
    switch (rng.Below(8)) {
      case 0: return corner[rng.Below(std::size(corner))];
      case 1: return rng.Below(8000);
      case 2: return rng.Below(1600);
      default: return rng.Below(160);
    }
  }

  void Compose(unsigned v) {
    Vi& x = vis[v];
    const bool rdma = rng.Chance(2, 5);
    const uint8_t immediate = rng.Chance(2, 5) ? kImmediate : 0;
    const uint32_t total = RandomLength();
    // Peers may cut a message into frames of any size.
    uint32_t piece = total > 3000 || rng.Chance(1, 3) ? hvia::kMaxPayload : rng.Range(1, std::max(1u, total));
    piece = std::min<uint32_t>(std::max(piece, total / 8 + 1), hvia::kMaxPayload);
    const uint32_t handle = x.ctx.tag == 9 ? kOther : kTarget;
    const Region& r = att.regions.at(handle);
    const uint64_t target = r.va + rng.Below(r.len - total + 1);
    uint32_t at = 0;
    do {
      const uint32_t n = std::min(total - at, piece);
      const uint8_t flags = (at == 0 ? kFirst : 0) | (at + n == total ? kLast : 0) | immediate;
      x.outgoing.push_back(Make(v, rdma ? hvia::kFrameOperationRDMAWrite : hvia::kFrameOperationSend, flags,
                                rdma ? target + at : static_cast<uint64_t>(total) << 32 | at, rdma ? handle : 0, n));
      at += n;
    } while (at < total);
  }

  void Feed() {
    if (rng.Chance(1, 24)) {
      const unsigned v = kVis[rng.Below(std::size(kVis))];
      if (vis[v].ctx.state != hvia::kVIStateFree && vis[v].posted.size() < 6 && (vis[v].generous || rng.Chance(1, 24))) RandomPost(v);
    }
    // Post a buffer at the last moment, or slightly too late.
    if (offered_ && rng.Chance(1, 100)) {
      const int v = Addressed(slots.front().bytes);
      if (v >= 0 && std::find(std::begin(kVis), std::end(kVis), v) != std::end(kVis) && vis[v].posted.empty() &&
          vis[v].ctx.state == hvia::kVIStateConnected) {
        RandomPost(v);
      }
    }
    if (slots.size() >= 3) return;
    budget_--;
    if (rng.Chance(1, 24)) {
      FeedOther();
      return;
    }
    const unsigned v = focus_ ? kReliable[rng.Below(std::size(kReliable))] : kVis[rng.Below(std::size(kVis))];
    Vi& x = vis[v];
    if (Reliable(v)) {
      FeedReliable(v);
      return;
    }
    if (x.outgoing.empty()) Compose(v);
    Slot s;
    s.bytes = x.outgoing.front();
    x.outgoing.pop_front();
    Put(s.bytes, kVia + hvia::kViaHeaderSequenceOffset, x.number++, 4);
    bool twice = false;
    if (rng.Chance(harm, 64)) {
      switch (rng.Below(6)) {
        case 0: return;  // lost
        case 1: x.outgoing.clear(); break;  // the rest never comes
        case 2: twice = true; break;
        case 3: x.number += rng.Below(3); break;
        default: Forge(v, s.bytes);
      }
    }
    if (cut_) {
      s.cut = true;
      s.bad = rng.Chance(harm, 512);
    }
    // While a VI is taken down, all its frames are good, so that the model knows their outcome.
    if (op_ != kNoOp && Addressed(s.bytes) == static_cast<int>(op_vi_)) s.cut = s.bad = false;
    slots.push_back(s);
    if (twice) slots.push_back(s);
  }

  // A peer that rewinds to missing frames, and sometimes to others.
  void FeedReliable(unsigned v) {
    Vi& x = vis[v];
    const bool waits = std::any_of(slots.begin(), slots.end(), [&](const Slot& s) { return Addressed(s.bytes) == static_cast<int>(v); });
    if (x.ctx.state != hvia::kVIStateConnected && !rng.Chance(1, 4)) return;
    if (!waits && x.ctx.state == hvia::kVIStateConnected && rng.Chance(1, 120)) x.refused = refusal_[v] = true;  // the ledger NAKs a read
    if (rng.Chance(1, 6) && x.reads.size() < 4 && x.ctx.state == hvia::kVIStateConnected) RandomRead(v);
    Slot s;
    if (rng.Chance(1, 8)) {
      s.bytes = Make(v, hvia::kFrameOperationAcknowledge, rng.Chance(1, 8) ? rng.Below(8) : 0, 0, 0, rng.Chance(1, 12) ? 4 : 0);
      Put(s.bytes, kVia + hvia::kViaHeaderSequenceOffset, rng.Bits(1) ? rng.Bits(32) : x.number, 4);
      Put(s.bytes, kVia + hvia::kViaHeaderImmediateOffset, rng.Chance(1, 8) ? rng.Bits(32) >> rng.Below(30) : rng.Below(5), 4);
    } else {
      if (!waits && x.number != x.expected && rng.Chance(2, 3)) x.number = x.expected;
      if (rng.Chance(harm, 256)) x.number -= rng.Range(1, 3);
      while (x.outgoing.size() > 4 && static_cast<int32_t>(x.expected - x.first) > 3 && static_cast<int32_t>(x.number - x.first) > 3) {
        x.outgoing.pop_front();
        x.first++;
      }
      if (static_cast<int32_t>(x.number - x.first) < 0) x.number = x.first;
      while (x.number - x.first >= x.outgoing.size()) ComposeReliable(v);
      s.bytes = x.outgoing[x.number - x.first];
      Put(s.bytes, kVia + hvia::kViaHeaderSequenceOffset, x.number++, 4);
    }
    bool twice = false;
    if (rng.Chance(harm, 64)) {
      switch (rng.Below(6)) {
        case 0: return;  // lost
        case 1:
        case 2: twice = true; break;
        case 3: x.number += rng.Below(3); break;
        default:
          if (rng.Bits(1)) Forge(v, s.bytes);
      }
    }
    if (cut_) {
      s.cut = true;
      s.bad = rng.Chance(harm, 128);
      if (rng.Chance(harm, 256) && s.bytes.size() > 100) s.bytes.resize(rng.Range(60, s.bytes.size()));
    }
    if (op_ != kNoOp && Addressed(s.bytes) == static_cast<int>(op_vi_)) s.cut = s.bad = false;
    slots.push_back(s);
    if (twice) slots.push_back(s);
  }

  // The next message of a reliable VI's peer: request or response.
  void ComposeReliable(unsigned v) {
    Vi& x = vis[v];
    if (rng.Chance(1, 6)) {
      Frame f = Make(v, hvia::kFrameOperationRDMAReadRequest, kFirst | kLast, rng.Next(), rng.Bits(32), 0);
      switch (rng.Below(32)) {
        case 0: f[kVia + hvia::kViaHeaderFlagsOffset] = rng.Below(8); break;
        case 1: Put(f, kVia + hvia::kViaHeaderPayloadLengthOffset, 4, 2); break;
        default: break;
      }
      x.outgoing.push_back(f);
      return;
    }
    const bool hostile = rng.Chance(1, 60);
    if (hostile || x.reads.size() > x.answered) {
      uint32_t total = hostile ? RandomLength() : x.reads[x.answered]->length;
      if (!hostile) x.answered++;
      if (rng.Chance(1, 32)) total += rng.Range(1, 2);
      const uint32_t piece = std::min<uint32_t>(rng.Chance(1, 2) ? hvia::kMaxPayload : std::max<uint32_t>(total / 6 + 1, rng.Range(1, 400)), hvia::kMaxPayload);
      const unsigned wrong = rng.Chance(1, 24) ? rng.Range(1, 6) : 0;
      uint32_t at = 0;
      do {
        const uint32_t n = std::min(total - at, piece);
        uint8_t flags = (at == 0 ? kFirst : 0) | (at + n == total ? kLast : 0);
        uint64_t address = static_cast<uint64_t>(total) << 32 | at;
        if (at + n == total || rng.Bits(1)) {
          if (wrong == 1) flags |= kImmediate;
          if (wrong == 2) flags ^= kLast;
          if (wrong == 3) address += 1;
          if (wrong == 4) address += 1ull << 32;
          if (wrong == 5) flags ^= kFirst;
          if (wrong == 6) address -= 1;
        }
        x.outgoing.push_back(Make(v, hvia::kFrameOperationRDMAReadResponse, flags, address, 0, n));
        at += n;
      } while (at < total);
      return;
    }
    Compose(v);
    if (rng.Chance(1, 40) && x.outgoing.size() > 1) x.outgoing.pop_back();  // the rest never comes
  }

  void RandomRead(unsigned v) {
    Vi& x = vis[v];
    auto d = std::make_shared<Descriptor>();
    const uint32_t handle = x.ctx.tag == 9 ? kOther : kScatter;
    const Region& r = att.regions.at(handle);
    d->segments.push_back({rng.Next(), rng.Bits(32), 0});  // the address segment
    uint32_t room = std::min<uint64_t>(RandomLength(), r.len);
    d->length = room;
    unsigned pieces = rng.Chance(1, 24) ? 252 : rng.Chance(1, 3) ? rng.Range(3, 20) : rng.Range(1, 3);
    for (; pieces > 0; pieces--) {
      uint32_t n = pieces == 1 ? room : std::min<uint32_t>(room, rng.Below(2 * room / pieces + 1));
      if (rng.Chance(1, 10) && pieces > 1) n = 0;
      Segment g{r.va + rng.Below(r.len - n + 1), handle, n};
      if (n == 0 && rng.Bits(1)) g = {rng.Next(), rng.Bits(32), 0};
      room -= n;
      d->segments.push_back(g);
    }
    d->count = d->segments.size();
    switch (rng.Below(40)) {
      case 0: d->segments[rng.Range(1, d->segments.size() - 1)].handle ^= 1u << rng.Below(32); break;
      case 1: d->segments[rng.Range(1, d->segments.size() - 1)].va = r.va - 1; break;
      case 2: d->length = std::min<uint64_t>(d->length + 1 + rng.Below(2000), 60000); break;  // shorter than Length
      case 3: d->bad_chunk = rng.Below((d->segments.size() + 1) / 4 + 1); break;
      case 4: d->count = rng.Below(d->count + 1); break;  // its process has changed it since
      default: break;
    }
    d->va = rng.Next() & ~63ull;
    d->handle = 0x0b000000 + rng.Below(16);
    d->Render(rng);
    x.reads.push_back(d);
  }

  void FeedOther() {
    Slot s;
    s.cut = cut_;
    s.bad = cut_ && rng.Chance(harm, 256);
    if (rng.Chance(1, 3)) {
      s.bytes.resize(rng.Range(60, 1514));
      for (auto& b : s.bytes) b = rng.Next();
    } else {
      s.bytes = Make(1, 0, 0, 0, 0, rng.Chance(1, 4) ? hvia::kMaxPayload : rng.Below(300));
      const unsigned kind = rng.Below(6);
      for (unsigned i = 0; i < 6 && kind < 2; i++) s.bytes[i] = kind == 0 ? 0xff : 0x33;
      if (kind == 2) s.bytes[5] ^= 4;
      Put(s.bytes, hvia::kEthernetHeaderEtherTypeOffset, hvia::kEtherTypeConnection, 2);
    }
    if (op_ != kNoOp) s.cut = s.bad = false;
    slots.push_back(s);
  }

  // Changes one or two fields.
  void Forge(unsigned v, Frame& f) {
    const Vi& x = vis[v];
    for (unsigned changes = rng.Range(1, 2); changes > 0; changes--) {
      switch (rng.Below(14)) {
        case 0: f[rng.Below(12)] ^= 1 << rng.Below(8); break;
        case 1: Put(f, hvia::kEthernetHeaderEtherTypeOffset, rng.Bits(16), 2); break;
        case 2: f[kVia + hvia::kViaHeaderOperationVersionOffset] = 0x10 | rng.Below(6); break;
        case 3: f[kVia + hvia::kViaHeaderOperationVersionOffset] = rng.Bits(8); break;
        case 4: f[kVia + hvia::kViaHeaderFlagsOffset] ^= 1 << rng.Below(rng.Chance(1, 6) ? 8 : 3); break;
        case 5: {
          const uint32_t lens[] = {0, 1, 1472, 1473, static_cast<uint32_t>(f.size() - kHeader),
                                   static_cast<uint32_t>(f.size() - kHeader + 1), rng.Bits(11)};
          Put(f, kVia + hvia::kViaHeaderPayloadLengthOffset, lens[rng.Below(7)], 2);
          break;
        }
        case 6: f[kVia + hvia::kViaHeaderDestinationVIOffset + rng.Below(4)] ^= 1 << rng.Below(8); break;
        case 7: {
          const uint32_t numbers[] = {x.expected, x.expected + 1, x.expected - 1, x.expected + hvia::kSequenceWindow - 1,
                                      x.expected + hvia::kSequenceWindow, x.expected + 0x7fffffff, x.expected + 0x80000000, rng.Bits(32)};
          Put(f, kVia + hvia::kViaHeaderSequenceOffset, numbers[rng.Below(8)], 4);
          break;
        }
        case 8: {
          const Region& r = att.regions.at(kTarget);
          const uint64_t n = Get(f, kVia + hvia::kViaHeaderPayloadLengthOffset, 2);
          const uint64_t at[] = {r.va - 1, r.va, r.va + r.len - n, r.va + r.len - n + 1, r.va + r.len, -n, rng.Next()};
          Put(f, kVia + hvia::kViaHeaderAddressOffset, at[rng.Below(7)], 8);
          break;
        }
        case 9: f[kVia + hvia::kViaHeaderHandleOffset + rng.Below(4)] ^= 1 << rng.Below(8); break;
        case 10: {
          const uint32_t handles[] = {kScatter, kTop, kOther, kNoRight};
          const uint32_t h = handles[rng.Below(4)];
          Put(f, kVia + hvia::kViaHeaderHandleOffset, h, 4);
          Put(f, kVia + hvia::kViaHeaderAddressOffset, att.regions.at(h).va + rng.Below(64), 8);
          break;
        }
        case 11: {  // offset or length of a Send, slightly
          const unsigned at = rng.Bits(1) ? 3 : 7;
          f[kVia + hvia::kViaHeaderAddressOffset + at] += rng.Range(1, 4);
          break;
        }
        case 12: {  // only its position in the message is wrong
          Put(f, kVia + hvia::kViaHeaderAddressOffset, static_cast<uint64_t>(x.total) << 32 | x.received, 8);
          break;
        }
        default: {
          const unsigned o = kVis[rng.Below(std::size(kVis))];
          Put(f, kVia + hvia::kViaHeaderDestinationVIOffset, vis[o].ctx.generation << 8 | o, 2);
          Put(f, kVia + hvia::kViaHeaderSourceVIOffset, vis[o].ctx.peer_vi, 2);
          Put(f, kVia + hvia::kViaHeaderSequenceOffset, vis[o].expected, 4);
          for (unsigned i = 0; i < 6; i++) f[hvia::kEthernetHeaderSourceOffset + i] = vis[o].ctx.peer_mac >> (8 * i);
        }
      }
    }
  }

  void Post(unsigned v, const Posted& d) {
    Vi& x = vis[v];
    d->va = rng.Next() & ~63ull;
    d->pa = rng.Bits(32) & ~63u;
    d->handle = 0x0a000000 + rng.Below(16);
    d->seq = x.seq++;
    d->posted = unit::clocks();
    d->Render(rng);
    x.posted.push_back(d);
    x.queue.push_back(d);
  }

  void RandomPost(unsigned v) {
    Vi& x = vis[v];
    auto d = std::make_shared<Descriptor>();
    const uint32_t handle = x.ctx.tag == 9 ? kOther : kScatter;
    const Region& r = att.regions.at(handle);
    d->control = rng.Chance(1, 8) ? hvia::kDescriptorControlImmediateMask : 0;
    uint32_t room = std::min<uint64_t>(RandomLength() + (rng.Chance(3, 4) ? 1500 : 0), r.len);
    const uint32_t all = room;
    unsigned pieces = rng.Chance(1, 24) ? 252 : rng.Chance(1, 4) ? rng.Range(4, 20) : rng.Range(0, 4);
    while (pieces > 0) {
      uint32_t n = pieces == 1 ? room : rng.Below(2 * room / pieces + 1);
      n = std::min(n, room);
      if (rng.Chance(1, 10)) n = 0;
      Segment g{r.va + rng.Below(r.len - n + 1), handle, n};
      // The engine never uses a segment without bytes.
      if (n == 0 && rng.Bits(1)) g = {rng.Next(), rng.Bits(32), 0};
      room -= n;
      d->segments.push_back(g);
      pieces--;
    }
    if (!d->segments.empty() && rng.Chance(1, 5)) {
      Segment& g = d->segments[rng.Below(std::min<size_t>(d->segments.size(), 5))];
      switch (rng.Below(8)) {
        case 0: g.handle ^= 1u << rng.Below(32); break;
        case 1: g = {att.regions.at(x.ctx.tag == 9 ? kTarget : kOther).va, x.ctx.tag == 9 ? kTarget : kOther, g.len}; break;
        case 2: g.va = r.va - 1; break;
        case 3: g.va = r.va + r.len - g.len + 1; break;
        case 4: g.len = r.va + r.len - g.va + 1; break;  // ends at the region's end, which no message reaches
        case 5: g.len = 0x80000000u + rng.Bits(8); break;
        case 6: g = {att.regions.at(kTop).va + 2 * 4096 - 100, x.ctx.tag == 9 ? kOther : kTop, 100}; break;
        default: g.va = rng.Next();
      }
    }
    d->count = d->segments.size();
    uint64_t sum = 0;
    for (auto& g : d->segments) sum += g.len;
    d->length = std::min<uint64_t>(sum, 60000);
    if (rng.Chance(1, 6)) d->length = rng.Chance(1, 2) ? rng.Below(all + 1) : all + rng.Below(2000);
    if (rng.Chance(1, 24)) d->length = x.ctx.max + rng.Below(2);
    if (rng.Chance(1, 24)) {
      d->status = kFormat;
      d->count = rng.Bits(16);
      d->control = rng.Bits(16);
      if (rng.Bits(1)) d->length = rng.Bits(32);
    } else if (d->segments.size() > 2 && rng.Chance(1, 8)) {
      d->bad_chunk = 1 + rng.Below((d->segments.size() + 1) / 4);
    }
    d->stale = rng.Chance(1, 16);
    Post(v, d);
  }

  // Events since the last frame's end.
  struct {
    Outcome outcome = kNothing;
    bool parsed = false, raw_done = false, raw_error = false, wanted = false;
    unsigned raw_len = 0;
    uint64_t gap = 0;
    std::array<unsigned, 256> aborted{};
    bool early = false;
    unsigned translated = 0, written = 0;
    std::vector<Report> reports;
    Posted read;  // whose read response ended
    unsigned att_requests = 0;
    int att_failed = -1;  // index of the failed translation
    uint8_t att_error = 0;
    int64_t granted = 0, bus_failed = -1;  // bytes before the failed write
  } frame_;
  struct {
    uint64_t offered, parsed, written, completed;
  } marks_{};
  bool offered_ = false, judging_ = true, faults_ = false, cut_ = false;
  unsigned pace_ = 0, budget_ = 0;
  uint64_t rdata_ = 0, last_async_ = 0;
  std::array<uint32_t, 4> ctx_answer_{};
  bool rs_valid_ = false, rs_stale_ = false;
  Posted rs_place_;
  std::array<uint32_t, 16> rs_chunk_{};
  bool cpl_ready_ = false, raw_taken_ = false, handle_busy_ = false, vi_busy_ = false;
  bool chunk_busy_ = false, chunk_store_ = false;
  Posted chunk_of_;
  std::array<bool, 256> refusal_{};  // pending, as acknowledge knows
  bool refused_answer_ = false, rxa_shown_ = false, rxl_open_ = false, last_translated_ = false, focus_ = false;
  unsigned rxa_wait_ = 0, rxl_wait_ = 0, rxl_vi_ = 0, rxl_op_ = 0;
  unsigned chunk_vi_ = 0, chunk_wait_ = 0, chunk_number_ = 0;
  bool fetching_ = false, fetch_flush_ = false;
  unsigned fetch_vi_ = 0, fetch_wait_ = 0;
  Posted fetch_;
  bool on_arrival_ = false;  // a descriptor is fetched when a message waits for it
  bool needs_ = false;       // the frame checked last starts a message that requires a descriptor
  Op op_ = kNoOp;
  unsigned op_vi_ = 0, phase_ = 0, calm_ = 0, hold_ = 0, idle_vi_ = 11;
  uint32_t op_value_ = 0;
  uint64_t op_begin_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  unit::Start(argc, argv);
  Testbench b(unit::options().seed);
  for (unsigned v : Testbench::kVis) b.Connect(v, b.rng.Bits(32));
  b.Latency();
  const uint64_t size = unit::options().size;
  for (uint64_t i = 0; i < size; i++) {
    b.Round(60, 0, false, false, false);
    b.Round(80, 12, true, false, false);
    b.Round(80, 12, false, true, false);
    b.Round(80, 8, i % 2, false, true);
    b.Withdraw();
    b.FlushAtRest();
    b.Retransmissions();
    b.Contradictions();
    if (i % 8 == 0) b.Forgeries();
  }
  std::vector<std::pair<const char*, uint64_t>> figures = {
      {"bytes", b.bytes}, {"completions", b.completions}, {"gap", b.seen.gap}, {"aborted", b.seen.aborted},
      {"messages", b.seen.message}, {"raw_received", b.seen.raw}, {"raw_dropped", b.seen.raw_dropped},
      {"raw_errors", b.seen.raw_error}, {"withdrawn", b.withdrawn}, {"flushes", b.flushes}, {"clears", b.clears},
      {"bad_or_short_on_the_way", b.lost_frames}, {"behind_the_window", b.behind}, {"beyond_the_window", b.beyond}, {"numbers_adopted", b.adopted}, {"descriptors_just_posted", b.late}, {"chunks", b.chunks},
      {"stored_in_a_flush", b.held_flushed}, {"told_accept", b.told[0]}, {"told_accept_last", b.told[1]}, {"told_old", b.told[2]},
      {"told_gap", b.told[3]}, {"told_refuse", b.told[4]}, {"told_again", b.told[5]}, {"reported_acknowledge", b.reports[0]},
      {"reported_request", b.reports[1]}, {"reported_look", b.reports[2]}, {"reported_answered", b.reports[3]}, {"reported_progress", b.reports[4]},
      {"accepted_early", b.early}, {"accepted_early_then_refused", b.early_refused}, {"answers", b.answers}, {"answers_failed", b.answers_failed},
      {"answers_cut_off", b.cut_answers}, {"messages_contradicted", b.cut_messages}, {"chunks_fetched_again", b.refetched},
      {"refused_again_unconnected", b.again_idle}, {"bad_or_short_reliable", b.lost_reliable}, {"fetched_on_arrival", b.on_arrival_seen}, {"bytes_undefined", b.undefined}};
  for (int o = 1; o < kOutcomes; o++) figures.push_back({kOutcomeNames[o], b.seen.outcome[o]});
  unit::PrintAll(figures, 40);
  return unit::Pass();
}
