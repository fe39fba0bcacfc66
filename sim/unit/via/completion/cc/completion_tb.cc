// SPDX-License-Identifier: Apache-2.0

// Random completions of four sources, ties, commands for completion queues and armings. A model
// predicts the completion writer and the notifications in every clock. Libraries reap entries at
// every speed; one of them publishes wrong positions. The host bus has idle clocks, back-pressure
// and errors. The size is the number of epochs of some thousand clocks, each with its mix of
// speeds.
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "Vcompletion_tb.h"
#include "sim/unit/internal/unit/neighbours.h"


namespace {

using unit::kVIs;
using unit::Rng;
using unit::Traffic;

constexpr unsigned kBytes = TB_W / 8;
constexpr unsigned kSources = 4;
constexpr unsigned kQueues = 1u << hvia::kProfiles[0].CompletionQueuesLog2;
// Host memory: descriptors, then areas for rings of the maximum size.
constexpr uint32_t kSlots = 1024;
constexpr uint32_t kSlotPages = kSlots * hvia::kDescriptorSize / unit::kPage;
constexpr uint32_t kRingBytes = hvia::kCompletionQueueHeaderSize + (hvia::kCompletionEntrySize << hvia::kCompletionQueueMaxLog2);
constexpr uint32_t kAreaPages = (kRingBytes + unit::kPage - 1) / unit::kPage;
constexpr uint32_t kAreas = 24;
constexpr uint32_t kPages = kSlotPages + kAreas * kAreaPages;
// The upper address bits in the card's view, so that every address bit is tested.
constexpr uint32_t kHigh = 0xa5a00000;
constexpr uint32_t kErrors = hvia::kDescriptorErrorMask;  // of Status

enum Op : uint8_t { kCreate, kDestroy, kResize };

struct Completion {
  uint8_t vi = 0;
  uint16_t seq = 0;
  uint32_t pa = 0, handle = 0, length = 0, status = 0, immediate = 0;
  bool has_immediate = false, receive = false, write = false;
};

enum class Phase { kStatus, kAsk, kAnswer, kJudge, kEntry, kReport };

struct Current {
  Completion c;
  Phase phase = Phase::kStatus;
  bool granted = false;
  unsigned tie = 0;
  uint16_t seen = 0;
  uint8_t code = 0;  // reported code
};

struct Ring {
  bool created = false, confused = false;
  unsigned area = 0, log2 = 0;
  uint64_t tail = 0, taken = 0;
  uint16_t seen = 0;
  std::deque<uint64_t> waiting;  // entries that the library has not reaped
};

struct Command {
  Op op = kCreate;
  uint8_t index = 0, log2 = 0;
  uint32_t address = 0;
  int area = -1;
  bool confused = false;
};

struct Tie {
  bool told = false;
  unsigned send = 0, receive = 0;
};

// Probabilities per clock, in 1/1024.
struct Rates {
  unsigned offer[kSources] = {}, tie = 0, command = 0, arm = 0, read = 0, take = 0, error = 0, refuse = 0;
  unsigned publish = 0;   // of 16 reaped entries
  unsigned unready = 0;   // of 4 clocks in which errors wait
  unsigned log2 = 3;      // longest ring
  unsigned vis = 8, queues = 8;
};

class Testbench {
 public:
  explicit Testbench(uint64_t seed) : rng(seed), memory(kPages, &rng), top(std::make_unique<Vcompletion_tb>()) {
    for (unsigned i = 0; i < kAreas; i++) free_areas.push_back(i);
    top->rst_ni = 1;
    top->eval();
    Reset();
  }

  // Reset at any time. The card loses its state, memory keeps its contents.
  void Reset() {
    bus.emplace(&memory, &rng);
    for (auto& o : offered) o.reset();
    if (current) figures["resets_in_traffic"]++;
    current.reset();
    if (command && command->area >= 0) free_areas.push_back(command->area);
    command.reset();
    commanding = false;
    for (auto& r : rings) {
      if (r.created) free_areas.push_back(r.area);
      r = Ring();
    }
    for (auto& t : ties) t = Tie();
    armed.clear();
    queued.clear();
    names.clear();
    shown = false;
    last_source = kSources - 1;
    top->rst_ni = 0;
    top->clk_i = 0;
    top->cpl_valid_i = 0;
    top->cqc_valid_i = top->cq_tie_valid_i = top->arm_valid_i = top->info_read_i = 0;
    top->eval();
    top->clk_i = 1;
    top->eval();
    top->clk_i = 0;
    top->rst_ni = 1;
    top->eval();
    figures["resets"]++;
  }

  bool Rare(unsigned of1024) { return rng.Below(1024) < of1024; }

  uint32_t Word(uint32_t at) const {
    uint32_t v;
    std::memcpy(&v, &memory.bytes[at], 4);
    return v;
  }
  void SetWord(uint32_t at, uint32_t v) { std::memcpy(&memory.bytes[at], &v, 4); }

  static uint32_t AreaAt(unsigned area) { return (kSlotPages + area * kAreaPages) * unit::kPage; }
  static uint32_t EntryAt(const Ring& r, uint64_t n) {
    return AreaAt(r.area) + hvia::kCompletionQueueHeaderSize + (n & ((1u << r.log2) - 1)) * hvia::kCompletionEntrySize;
  }
  static bool LapOf(const Ring& r, uint64_t n) { return ((n >> r.log2) & 1) == 0; }
  static uint64_t EntryOf(const Ring& r, const Completion& c) {
    uint32_t word = c.vi << hvia::kCompletionEntryWordVILsb | static_cast<uint32_t>(c.receive) << hvia::kCompletionEntryWordReceiveLsb |
                    hvia::kCompletionEntryWordValidMask | (LapOf(r, r.tail) ? hvia::kCompletionEntryWordLapMask : 0);
    return static_cast<uint64_t>(word) << 32 | c.seq;
  }
  bool Full(const Ring& r, uint16_t seen) const { return static_cast<uint16_t>(r.tail - seen) >= 1u << r.log2; }

  // Random used indices, including the ends of the range.
  uint8_t SomeVi() { return rates.vis == 1 ? kVIs - 1 : rng.Below(rates.vis) * (kVIs - 1) / (rates.vis - 1); }
  uint8_t SomeQueue() { return rates.queues == 1 ? kQueues - 1 : rng.Below(rates.queues) * (kQueues - 1) / (rates.queues - 1); }

  Completion Random(unsigned source) {
    Completion c;
    c.vi = SomeVi();
    c.seq = rng.Bits(16);
    c.pa = kHigh + (next_slot++ % kSlots) * hvia::kDescriptorSize;
    c.handle = rng.Bits(2);
    c.length = rng.Bits(32);
    c.status = rng.Bits(2) == 0 ? rng.Bits(32) : rng.Bits(32) & ~kErrors;
    c.immediate = rng.Bits(32);
    c.receive = source == 0 ? rng.Chance(7, 8) : source == 1;
    c.has_immediate = source == 0 && rng.Bits(1);
    c.write = !Rare(rates.refuse);
    return c;
  }

  unsigned SomeTie() {
    switch (rng.Below(8)) {
      case 0: return 0;
      case 1: return rng.Range(kQueues + 1, 255);
      default: return SomeQueue() + 1u;
    }
  }

  // A cleared area for a ring.
  int TakeArea() {
    if (free_areas.empty()) return -1;
    std::swap(free_areas.front(), free_areas[rng.Below(free_areas.size())]);
    int area = free_areas.front();
    free_areas.pop_front();
    std::fill_n(memory.bytes.begin() + AreaAt(area), kAreaPages * unit::kPage, 0);
    return area;
  }

  void Give(Op op, uint8_t index, unsigned log2, bool confused) {
    Command c;
    c.op = op;
    c.index = index;
    c.log2 = log2;
    c.confused = confused;
    c.address = kHigh + static_cast<uint32_t>(rng.Below(kPages)) * unit::kPage;
    // Only a command that will succeed requires an area.
    if (op != kDestroy && rings[c.index].created == (op == kResize)) {
      c.area = TakeArea();
      if (c.area < 0) return;
      c.address = kHigh + AreaAt(c.area);
    }
    command = c;
    command_since = unit::clocks();
  }

  void Choose() {
    for (unsigned s = 0; s < kSources; s++) {
      if (!offered[s] && Rare(rates.offer[s])) offered[s] = Random(s);
    }
    if (!command && Rare(rates.command)) {
      uint8_t index = SomeQueue();
      unsigned chance = rng.Below(8);
      Op op = !rings[index].created ? (chance == 0 ? kResize : chance == 1 ? kDestroy : kCreate)
                                    : (chance < 2 ? kDestroy : chance == 2 ? kCreate : kResize);
      Give(op, index, rng.Range(hvia::kCompletionQueueMinLog2, rates.log2), rng.Chance(1, 8));
    }
    tie_valid = Rare(rates.tie);
    tie_vi = SomeVi();
    tie_send = SomeTie();
    tie_receive = SomeTie();
    if (tie_valid && rng.Bits(1) && current) tie_vi = current->c.vi;
    if (!orders.empty()) {
      tie_valid = true;
      tie_vi = orders.front();
      tie_send = tie_receive = kQueues;
      orders.pop_front();
    }

    // Armings, also of indices that do not exist.
    arm_valid = Rare(rates.arm);
    arm_kind = rng.Below(3);
    arm_index = arm_kind == hvia::kNotifyKindCompletionQueue ? SomeQueue() : SomeVi();
    if (rng.Chance(1, 16)) {
      arm_kind = rng.Bits(2);
      arm_index = rng.Bits(8);
    }
    // Events for this clock.
    if (current && rng.Chance(1, 2)) {
      const bool entry = current->phase == Phase::kEntry;
      arm_kind = entry ? hvia::kNotifyKindCompletionQueue : current->c.receive ? hvia::kNotifyKindReceive : hvia::kNotifyKindSend;
      arm_index = entry ? current->tie - 1 : current->c.vi;
    }
    info_read = unit::clocks() >= last_read + 3 && Rare(rates.read);
    if (bus->writes.fail_in == 0 && Rare(rates.error)) bus->writes.fail_in = 1;
    if (bus->reads.fail_in == 0 && Rare(rates.error)) bus->reads.fail_in = 1;
    Libraries();
  }

  // The libraries reap entries.
  void Libraries() {
    if (!Rare(rates.take)) return;
    unsigned first = rng.Below(kQueues);
    for (unsigned i = 0; i < kQueues; i++) {
      Ring& r = rings[(first + i) % kQueues];
      if (!r.created) continue;
      if (r.confused) {
        SetWord(AreaAt(r.area), r.tail + rng.Below(64) - 32);
        return;
      }
      if (r.waiting.empty()) continue;
      TakeEntry(&r);
      if (rng.Below(16) < rates.publish) SetWord(AreaAt(r.area) + hvia::kCompletionQueueHeaderConsumedOffset, r.taken);
      return;
    }
  }

  // The library recognizes the next entry by its lap.
  void TakeEntry(Ring* r) {
    const uint32_t at = EntryAt(*r, r->taken);
    const uint64_t got = Word(at) | static_cast<uint64_t>(Word(at + 4)) << 32;
    CHECK(got == r->waiting.front(), "entry %" PRIu64 " of a ring of 2^%u: %016" PRIx64 ", want %016" PRIx64, r->taken, r->log2, got,
          r->waiting.front());
    CHECK(((Word(at + hvia::kCompletionEntryWordOffset) & hvia::kCompletionEntryWordLapMask) != 0) == LapOf(*r, r->taken),
          "entry %" PRIu64 " of a ring of 2^%u has the lap of the round before", r->taken, r->log2);
    r->waiting.pop_front();
    r->taken++;
    figures["entries_taken"]++;
  }

  template <typename T>
  static void Put(T* port, unsigned slice, unsigned bits, uint64_t value) {
    for (unsigned b = 0; b < bits; b++) {
      unsigned at = slice * bits + b;
      uint8_t& byte = reinterpret_cast<uint8_t*>(port)[at / 8];
      byte = static_cast<uint8_t>((byte & ~(1u << (at % 8))) | (value >> b & 1) << (at % 8));
    }
  }

  void Drive() {
    bus->Drive(traffic);
    uint32_t valid = 0, has_immediate = 0, receive = 0, write = 0;
    for (unsigned s = 0; s < kSources; s++) {
      // Fields without a valid offer are random.
      Completion c;
      if (offered[s]) c = *offered[s];
      else {
        c.vi = SomeVi();
        c.seq = rng.Bits(16);
        c.pa = rng.Bits(32);
        c.handle = rng.Bits(2);
        c.length = rng.Bits(32);
        c.status = rng.Bits(32);
        c.immediate = rng.Bits(32);
        c.has_immediate = rng.Bits(1);
        c.receive = rng.Bits(1);
        c.write = rng.Bits(1);
      }
      valid |= (offered[s].has_value() ? 1u : 0u) << s;
      has_immediate |= static_cast<uint32_t>(c.has_immediate) << s;
      receive |= static_cast<uint32_t>(c.receive) << s;
      write |= static_cast<uint32_t>(c.write) << s;
      Put(&top->cpl_vi_i, s, VI_COUNT_LOG2, c.vi);
      Put(&top->cpl_seq_i, s, 16, c.seq);
      Put(&top->cpl_pa_i, s, 32, c.pa);
      Put(&top->cpl_handle_i, s, 32, c.handle);
      Put(&top->cpl_length_i, s, 32, c.length);
      Put(&top->cpl_status_i, s, 32, c.status);
      Put(&top->cpl_immediate_i, s, 32, c.immediate);
    }
    top->cpl_valid_i = valid;
    top->cpl_has_immediate_i = has_immediate;
    top->cpl_receive_i = receive;
    top->cpl_write_i = write;
    top->cq_tie_valid_i = tie_valid;
    top->cq_tie_vi_i = tie_vi;
    top->cq_tie_send_i = tie_send;
    top->cq_tie_receive_i = tie_receive;
    top->cqc_valid_i = command.has_value();
    top->cqc_op_i = command ? command->op : rng.Below(3);
    top->cqc_index_i = command ? command->index : rng.Below(kQueues);
    top->cqc_address_i = command ? command->address : rng.Bits(32);
    top->cqc_log2_i = command ? command->log2 : rng.Bits(8);
    top->arm_valid_i = arm_valid;
    top->arm_kind_i = arm_kind;
    top->arm_index_i = arm_index;
    top->info_read_i = info_read;
    bus->Show(*top);
    top->async_ready_i = !rng.Chance(rates.unready, 4);
    top->drain_vi_i = current && rng.Bits(1) ? current->c.vi : SomeVi();
    top->drain_handle_i = rng.Bits(2);
    bus->Settle(*top);
  }

  void Tick() {
    Choose();
    Drive();
    Check();
    unit::Clock(*top);
  }

  // Checks the outputs of this clock, and advances the model.
  void Check() {
    came.reset();
    events.clear();
    report.reset();
    trace.reset();
    ends = false;
    const bool was_idle = !current && !commanding;
    const Completion status_of = current ? current->c : Completion();
    const bool busy = current.has_value();
    const bool uses = current && current->phase == Phase::kStatus;
    CHECK(top->vi_busy_o == (busy && status_of.vi == top->drain_vi_i), "busy of VI %u is %d", top->drain_vi_i, top->vi_busy_o);
    CHECK(top->handle_busy_o == (uses && status_of.handle == top->drain_handle_i), "busy of handle %u is %d", top->drain_handle_i,
          top->handle_busy_o);
    const bool quiet = was_idle && top->cpl_valid_i == 0 && !command && !tie_valid;
    CHECK(top->quiet_o == quiet, "quiet is %d", top->quiet_o);
    figures["quiet_clocks"] += quiet;

    bus->Sample(*top, kHigh);
    if (current) Advance();
    else CHECK(!top->req_valid_o && !top->wvalid_o && !top->rready_o, "an unexpected use of the bus");

    CheckCommand(was_idle);
    CheckSources(was_idle);
    CheckEvents(status_of);
    CheckNotify();
    if (tie_valid) {
      ties[tie_vi] = Tie{true, tie_send, tie_receive};
      if (current && current->c.vi == tie_vi) figures["tie_changed_under_way"]++;
    }
    if (ends) current.reset();
  }

  void WantRequest(bool valid, bool write, uint32_t addr, uint32_t len, const char* what) {
    CHECK(top->req_valid_o == valid, "%s: request is %d", what, top->req_valid_o);
    if (!valid) return;
    CHECK(top->req_write_o == write && top->req_addr_o == addr && top->req_len_o == len,
          "%s: request of %u bytes at %08x, write %d; want %u at %08x", what, top->req_len_o, top->req_addr_o, top->req_write_o, len, addr);
  }

  void Report(uint8_t code) {
    current->code = code;
    if (top->async_ready_i) {
      report = code;
      ends = true;
    } else {
      current->phase = Phase::kReport;
      figures["report_waits"]++;
    }
  }

  void Begin(Phase phase) {
    current->phase = phase;
    current->granted = false;
  }

  void Advance() {
    Current& k = *current;
    const Completion& c = k.c;
    Ring* ring = k.tie != 0 ? &rings[k.tie - 1] : nullptr;
    CHECK(top->rready_o == (k.phase == Phase::kAnswer), "ready for a read is %d", top->rready_o);
    switch (k.phase) {
      case Phase::kStatus: {
        const uint32_t start = c.has_immediate ? hvia::kDescriptorImmediateDataOffset : hvia::kDescriptorLengthOffset;
        WantRequest(!k.granted, true, c.pa + start, hvia::kDescriptorStatusOffset + 4 - start, "Status");
        if (!k.granted) k.granted = top->req_ready_i;
        if (!top->wdone_i) break;
        trace = {c.receive ? hvia::kTraceEventReceiveCompletionWritten : hvia::kTraceEventCompletionWritten, c.seq};
        if (top->werr_i) {
          Report(hvia::kAsyncErrorCompletionProtection);
          figures["status_errors"]++;
          break;
        }
        CheckStatus(c);
        events.insert("written");
        came = Name(c.receive ? hvia::kNotifyKindReceive : hvia::kNotifyKindSend, c.vi);
        figures["completions"]++;
        if (ring == nullptr) {
          ends = true;
          figures["completions_without_entry"]++;
        } else if (!ring->created) {
          k.code = hvia::kAsyncErrorCompletionQueueOverrun;
          k.phase = Phase::kReport;
          figures["entries_of_no_ring"]++;
        } else {
          Begin(Full(*ring, ring->seen) ? Phase::kAsk : Phase::kEntry);
        }
        break;
      }
      case Phase::kAsk:
        WantRequest(true, false, kHigh + AreaAt(ring->area), 4, "Consumed");
        if (top->req_ready_i) k.phase = Phase::kAnswer;
        break;
      case Phase::kAnswer:
        WantRequest(false, false, 0, 0, "answer");
        if (!bus->reads.rvalid) break;
        if (bus->reads.rerr) {
          k.code = hvia::kAsyncErrorCompletionQueueOverrun;
          k.phase = Phase::kReport;
          figures["ring_read_errors"]++;
        } else {
          k.seen = static_cast<uint16_t>(bus->reads.rdata);
          k.phase = Phase::kJudge;
          asked = true;
        }
        break;
      case Phase::kJudge:
        WantRequest(false, false, 0, 0, "judgement");
        if (Full(*ring, k.seen)) {
          k.code = hvia::kAsyncErrorCompletionQueueOverrun;
          k.phase = Phase::kReport;
          figures["entries_of_full_ring"]++;
          if (static_cast<uint16_t>(ring->tail - k.seen) != 1u << ring->log2) figures["consumed_nonsense"]++;
        } else {
          figures["entries_after_reading"]++;
          Begin(Phase::kEntry);
        }
        break;
      case Phase::kEntry: {
        CheckStatus(c);  // must be in memory before any part of the entry
        const uint32_t at = EntryAt(*ring, ring->tail);
        WantRequest(!k.granted, true, kHigh + at, hvia::kCompletionEntrySize, "entry");
        if (!k.granted) k.granted = top->req_ready_i;
        if (!top->wdone_i) break;
        if (top->werr_i) {
          k.code = hvia::kAsyncErrorCompletionQueueOverrun;
          k.phase = Phase::kReport;
          figures["ring_write_errors"]++;
          break;
        }
        const uint64_t want = EntryOf(*ring, c), got = Word(at) | static_cast<uint64_t>(Word(at + 4)) << 32;
        CHECK(got == want, "entry %" PRIu64 " of completion queue %u: %016" PRIx64 ", want %016" PRIx64, ring->tail, k.tie - 1, got, want);
        if (!ring->confused) ring->waiting.push_back(want);
        ring->tail++;
        if (asked) ring->seen = k.seen;
        if ((ring->tail & ((1u << ring->log2) - 1)) == 0) figures["laps"]++;
        if (ring->tail == 65536) figures["tail_wraps"]++;
        if ((at & (unit::kPage - 1)) == 0) figures["entries_at_page_begin"]++;
        figures["entries"]++;
        if (last_vi.count(k.tie) && last_vi[k.tie] != c.vi) figures["ring_of_many_vis"]++;
        last_vi[k.tie] = c.vi;
        events.insert("entry");
        came = Name(hvia::kNotifyKindCompletionQueue, k.tie - 1);
        trace = {hvia::kTraceEventCompletionQueueWritten, k.tie - 1};
        ends = true;
        break;
      }
      case Phase::kReport:
        WantRequest(false, false, 0, 0, "report");
        Report(k.code);
        break;
    }
  }

  void CheckStatus(const Completion& c) {
    const uint32_t at = c.pa - kHigh;
    CHECK(Word(at + hvia::kDescriptorStatusOffset) == c.status && Word(at + hvia::kDescriptorLengthOffset) == c.length,
          "Status %08x and Length %08x of the descriptor at %08x, want %08x and %08x", Word(at + hvia::kDescriptorStatusOffset),
          Word(at + hvia::kDescriptorLengthOffset), c.pa, c.status, c.length);
    const uint32_t immediate = c.has_immediate ? c.immediate : before;
    CHECK(Word(at + hvia::kDescriptorImmediateDataOffset) == immediate, "ImmediateData is %08x, want %08x",
          Word(at + hvia::kDescriptorImmediateDataOffset), immediate);
  }

  // A command completes in the clock after one with nothing in flight.
  void CheckCommand(bool was_idle) {
    CHECK(top->cqc_ready_o == commanding, "a command is done %d, want %d", top->cqc_ready_o, commanding);
    if (commanding) {
      Ring& r = rings[command->index];
      const bool ok = r.created != (command->op == kCreate);
      CHECK(top->cqc_ok_o == ok, "operation %u of completion queue %u is allowed %d", command->op, command->index, top->cqc_ok_o);
      static const char* const kNames[] = {"create", "destroy", "resize"};
      figures[std::string(kNames[command->op]) + (ok ? "" : "_refused")]++;
      if (ok && command->op != kCreate) {
        CHECK(top->cqc_tail_o == (r.tail & 0xffff), "completion queue %u: %u entries written, want %" PRIu64, command->index,
              top->cqc_tail_o, r.tail);
        if (!r.waiting.empty()) figures["left_in_old_ring"]++;
        // All entries are in memory by now.
        while (!r.waiting.empty()) TakeEntry(&r);
        free_areas.push_back(r.area);
        r = Ring();
      }
      if (ok && command->op != kDestroy) {
        r.created = true;
        r.confused = command->confused;
        r.area = command->area;
        r.log2 = command->log2;
      }
      if (unit::clocks() - command_since > 3) figures["command_waited"]++;
      command.reset();
      commanding = false;
    } else if (command && was_idle) {
      commanding = true;
    }
  }

  // The source after the last one goes first.
  void CheckSources(bool was_idle) {
    int source = -1;
    for (unsigned i = 1; i <= kSources && source < 0; i++) {
      unsigned s = (last_source + i) % kSources;
      if (was_idle && !commanding && offered[s]) source = s;
    }
    CHECK(top->cpl_ready_o == (source < 0 ? 0u : 1u << source), "takes %x, want source %d", top->cpl_ready_o, source);
    if (source < 0) return;
    const Completion c = *offered[source];
    figures["source_" + std::to_string(source)]++;
    if (c.status & hvia::kDescriptorStatusFlushedMask) events.insert("flushed");
    else if (c.status & kErrors) events.insert("descriptor_error");
    Current k;
    k.c = c;
    const Tie& t = ties[c.vi];
    k.tie = t.told ? (c.receive ? t.receive : t.send) : 0;
    if (k.tie > kQueues) {
      k.tie = 0;
      figures["ties_out_of_range"]++;
    }
    if (!c.write) {
      k.phase = Phase::kReport;
      k.code = hvia::kAsyncErrorCompletionProtection;
      figures["completions_refused"]++;
    }
    before = c.write ? Word(c.pa - kHigh + hvia::kDescriptorImmediateDataOffset) : 0;
    asked = false;
    if (tie_valid && tie_vi == c.vi) figures["tie_changed_at_take"]++;
    CHECK(!current, "a second completion is taken");
    current = k;
    offered[source].reset();
    last_source = source;
  }

  void CheckEvents(const Completion& c) {
    auto want = [&](const char* name, bool got) {
      CHECK(got == (events.count(name) != 0), "%s is counted %d", name, got);
    };
    want("written", top->stat_completion_written_o);
    CHECK(top->stat_completion_receive_o == (events.count("written") && c.receive), "a receive completion is counted %d",
          top->stat_completion_receive_o);
    want("entry", top->stat_completion_queue_entry_o);
    const bool overrun = report && *report == hvia::kAsyncErrorCompletionQueueOverrun;
    CHECK(top->stat_completion_queue_overrun_o == overrun, "an overrun is counted %d", top->stat_completion_queue_overrun_o);
    const bool error = report && *report == hvia::kAsyncErrorCompletionProtection;
    CHECK(top->stat_completion_error_o == error, "an error is counted %d", top->stat_completion_error_o);
    want("flushed", top->stat_descriptor_flushed_o);
    want("descriptor_error", top->stat_descriptor_error_o);
    CHECK(top->async_valid_o == report.has_value(), "an error is reported %d", top->async_valid_o);
    if (report) {
      CHECK(top->async_code_o == *report && top->async_vi_o == c.vi, "error %u of VI %u, want %u of %u", top->async_code_o, top->async_vi_o,
            *report, c.vi);
      figures["reports"]++;
    }
    CHECK(top->trace_valid_o == trace.has_value(), "traced %d", top->trace_valid_o);
    if (trace) {
      CHECK(top->trace_event_o == trace->first && top->trace_vi_o == c.vi && top->trace_seq_o == trace->second,
            "trace %u of VI %u, sequence %u; want %u, %u, %u", top->trace_event_o, top->trace_vi_o, top->trace_seq_o, trace->first, c.vi,
            trace->second);
    }
    CHECK(top->done_valid_o == came.has_value(), "done is reported %d", top->done_valid_o);
    if (came) CHECK(Name(top->done_kind_o, top->done_index_o) == *came, "reported for %u %u", top->done_kind_o, top->done_index_o);
  }

  static uint32_t Name(size_t kind, unsigned index) { return static_cast<uint32_t>(kind) << 8 | index; }

  // A queue is in the list at most once. An entry of an armed queue clears the arming, and puts the
  // queue into the list unless it is there.
  void CheckNotify() {
    const uint32_t front = names.empty() ? 0 : names.front();
    const uint32_t want = !shown ? 0
                                 : (front & 0xff) << hvia::kRegisterNotifyInfoIndexLsb | front >> 8 << hvia::kRegisterNotifyInfoKindLsb |
                                       hvia::kRegisterNotifyInfoValidMask;
    CHECK(top->info_data_o == want, "NotifyInfo is %08x, want %08x", top->info_data_o, want);
    const bool taken = info_read && shown, load = !shown && !names.empty();
    if (info_read) {
      last_read = unit::clocks();
      figures[shown ? "names_read" : "names_read_in_vain"]++;
    }
    if (taken) {
      queued.erase(front);
      names.pop_front();
    }
    const bool hit = came && armed.count(*came);
    const bool put = hit && !queued.count(*came);
    if (put && taken && front == *came) figures["read_as_it_comes_again"]++;
    if (hit && !put) figures["armed_again_and_told_once"]++;
    CHECK(top->irq_notify_o == put && top->stat_notify_o == put, "interrupt %d, want %d", top->irq_notify_o, put);
    if (hit) armed.erase(*came);
    if (put) {
      queued.insert(*came);
      names.push_back(*came);
      figures[std::string("told_kind_") + std::to_string(*came >> 8)]++;
    }
    const uint32_t name = Name(arm_kind, arm_index);
    const bool exists = arm_kind < 2 || (arm_kind == hvia::kNotifyKindCompletionQueue && arm_index < kQueues);
    const bool arms = arm_valid && exists && (!armed.count(name) && !(hit && name == *came));
    if (arm_valid && came && name == *came) figures[hit ? "armed_again_as_it_comes" : "armed_as_it_comes"]++;
    if (arm_valid && !exists) figures["armed_nothing"]++;
    if (arm_valid && exists && queued.count(name) && !put) figures["armed_while_it_waits"]++;
    const bool changes = hit || arms || taken || load;
    CHECK(top->notify_quiet_o == !changes, "notifications: quiet is %d", top->notify_quiet_o);
    if (arm_valid && exists) armed.insert(name);
    shown = taken ? false : load ? true : shown;
    if (names.size() > figures["most_names"]) figures["most_names"] = names.size();
  }

  // Runs until nothing is in flight, then checks that all is quiescent.
  void Settle() {
    const Rates kept = rates;
    rates = Rates();
    rates.vis = kept.vis;
    rates.queues = kept.queues;
    rates.read = 1024;
    const uint64_t start = unit::clocks();
    do {
      CHECK(unit::clocks() - start < 100000, "work does not come to an end");
      Tick();
    } while (!top->quiet_o || !top->notify_quiet_o || shown || command);
    for (auto& r : rings) {
      while (!r.waiting.empty()) TakeEntry(&r);
    }
    rates = kept;
  }

  Rng rng;
  unit::Memory memory;
  const std::unique_ptr<Vcompletion_tb> top;
  std::optional<unit::SystemBus<kBytes>> bus;
  Traffic traffic{0, 0};
  Rates rates;
  std::optional<Completion> offered[kSources];
  std::optional<Current> current;
  std::optional<Command> command;
  bool commanding = false, ends = false, asked = false;
  uint64_t command_since = 0;
  uint32_t before = 0;  // previous ImmediateData of the descriptor
  Ring rings[kQueues];
  Tie ties[kVIs];
  std::deque<unsigned> free_areas;
  unsigned last_source = kSources - 1;
  uint32_t next_slot = 0;
  std::deque<unsigned> orders;  // VIs tied to the last completion queue
  bool tie_valid = false, arm_valid = false, info_read = false;
  unsigned tie_vi = 0, tie_send = 0, tie_receive = 0, arm_kind = 0, arm_index = 0;
  // Events of a clock.
  std::optional<uint32_t> came;
  std::optional<uint8_t> report;
  std::optional<std::pair<uint32_t, uint32_t>> trace;
  std::set<std::string> events;
  std::set<uint32_t> armed, queued;
  std::deque<uint32_t> names;
  bool shown = false;
  uint64_t last_read = 0;
  std::map<unsigned, unsigned> last_vi;
  std::map<std::string, uint64_t> figures;
};

}  // namespace

int main(int argc, char** argv) {
  unit::Start(argc, argv);
  Testbench testbench(unit::options().seed);
  Rng& rng = testbench.rng;

  for (uint64_t epoch = 0; epoch < unit::options().size; epoch++) {
    testbench.traffic = unit::kTraffic[rng.Below(5)];
    Rates& r = testbench.rates;
    r = Rates();
    const unsigned load = 1u << rng.Range(3, 10);
    for (auto& o : r.offer) o = rng.Chance(1, 4) ? 0 : rng.Range(1, load);
    r.tie = 1u << rng.Below(8);
    r.command = 1u << rng.Below(7);
    r.arm = 1u << rng.Below(11);
    r.read = 1u << rng.Below(11);
    r.take = rng.Chance(1, 4) ? 0 : 1u << rng.Range(4, 10);
    r.publish = rng.Range(1, 16);
    r.error = rng.Chance(1, 2) ? 0 : 1u << rng.Below(6);
    r.refuse = rng.Chance(1, 2) ? 0 : 1u << rng.Below(8);
    r.unready = rng.Below(4);
    r.log2 = rng.Chance(1, 8) ? hvia::kCompletionQueueMaxLog2 : rng.Range(1, 4);
    r.vis = rng.Range(1, 16);
    r.queues = rng.Chance(1, 8) ? kQueues : rng.Range(1, 8);
    for (uint64_t clocks = rng.Range(500, 3000); clocks > 0; clocks--) testbench.Tick();
    if (rng.Chance(1, 4)) testbench.Reset();
    else if (rng.Bits(1)) testbench.Settle();
  }

  // The longest ring for three rounds, and a short one until its 16-bit count has wrapped.
  const bool whole = unit::options().size >= 100;
  for (unsigned log2 : {size_t{hvia::kCompletionQueueMaxLog2}, size_t{2}}) {
    testbench.Reset();
    testbench.traffic = unit::kTraffic[0];
    testbench.rates = Rates();
    testbench.rates.vis = 2;
    testbench.rates.queues = 1;
    testbench.Give(kCreate, kQueues - 1, log2, false);
    testbench.orders = {0, kVIs - 1};
    for (int i = 0; i < 4; i++) testbench.Tick();
    for (auto& o : testbench.rates.offer) o = 1024;
    testbench.rates.take = 1024;
    testbench.rates.publish = 16;
    const uint64_t goal = !whole ? 100 : log2 == 2 ? 65536 + 100 : 3u << log2;
    const uint64_t limit = unit::clocks() + goal * 100;
    while (testbench.rings[kQueues - 1].tail < goal) {
      CHECK(unit::clocks() < limit, "%" PRIu64 " entries are not written by clock %" PRIu64, goal, limit);
      testbench.Tick();
    }
    testbench.Settle();
  }
  testbench.figures["clocks"] = unit::clocks();
  return unit::Pass(testbench.figures);
}
