// SPDX-License-Identifier: Apache-2.0

// A second implementation of the ledger's rules, for each VI. It predicts every answer, strobe,
// job, completion, error and trace event in its clock. It reads from the design only which
// operation ends in a clock, and for which VI.
#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "Vhvia_send_ledger.h"
#include "Vhvia_send_ledger___024root.h"
#include "sim/unit/internal/unit/testbench.h"
#include "sim/gen/hvia_layout.h"
#include "sim/gen/hvia_params.h"

using unit::Fail;
using unit::kVIs;

namespace {

constexpr uint32_t kErrors = hvia::kDescriptorErrorMask, kDone = hvia::kDescriptorStatusDoneMask, kFormat = hvia::kDescriptorStatusFormatErrorMask,
                   kProtection = hvia::kDescriptorStatusProtectionErrorMask, kLength = hvia::kDescriptorStatusLengthErrorMask,
                   kFlushed = hvia::kDescriptorStatusFlushedMask, kTransport = hvia::kDescriptorStatusTransportErrorMask,
                   kRdmaProtection = hvia::kDescriptorStatusRDMAProtectionErrorMask,
                   kRemoteDescriptor = hvia::kDescriptorStatusRemoteDescriptorErrorMask;
constexpr unsigned kRead = hvia::kDescriptorOperationRDMARead, kUnreachable = 3;
enum Led { kOpen, kSent, kAsk, kFail };
enum State { kChoose, kExecute, kScan, kOwn, kAnswer, kTake };
enum Op { kOpClear, kOpInit, kOpTransmit, kOpReceive, kOpFinish, kOpOffer, kOpDeadline, kOpSearch };
enum Fate { kAlive, kLost, kExhausted };
constexpr uint64_t kNever = (1ull << 48) - 1;
const unsigned kMessages = static_cast<unsigned>(hvia::kProfiles[0].LedgerMessages), kResponses = static_cast<unsigned>(hvia::kProfiles[0].LedgerResponses);
const unsigned kAliveFactor = static_cast<unsigned>(hvia::kProfiles[0].RetryAliveFactor);
const unsigned kTogether = static_cast<unsigned>(hvia::kProfiles[0].AcknowledgeEvery);
constexpr unsigned kUnderWay = 4;
constexpr std::array<uint8_t, 7> kVis = {0, 1, 2, 77 % kVIs, kVIs / 2, kVIs - 2, kVIs - 1};
// Clocks within which the ledger must start work that it can do without input.
constexpr unsigned kPatience = 6000;

int32_t Distance(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b); }

// A descriptor of a send queue, or a read response.
struct Message {
  uint64_t id = 0;
  bool response = false;
  unsigned operation = 0;
  bool fence = false;
  uint32_t error = 0;        // error that the engine finds before it sends the message
  bool reserved = false;     // malformed, reserved operation: completes as a send
  int fail_at = -1;          // the frame at which it fails
  bool fail_again = false;   // only when it is retransmitted
  uint32_t fail_status = 0;
  unsigned frames = 1;
  uint32_t length = 0, pa = 0, handle = 0;
  uint32_t number = 0;  // of its last frame, when the peer has it
  uint64_t va = 0;
  uint16_t seq = 0;
  unsigned handle_index = 0;
  // Its outcome.
  bool received = false, answered = false, completed = false;
};
using Posted = std::shared_ptr<Message>;

struct Entry {
  Posted m;
  unsigned slot = 0;
  bool begun = false, ended = false, answered = false, stale = false;
  uint32_t first = 0, last = 0, status = 0;
  bool read() const { return !m->response && m->operation == kRead; }
  bool marked() const { return status != 0 || (!m->response && m->operation == kUnreachable); }
  bool acked(uint32_t una) const { return ended && Distance(last, una) < 0; }
  bool complete(uint32_t una) const { return acked(una) && (!read() || answered); }
  bool unanswered() const { return read() && ended && !answered; }
  bool contains(uint32_t n) const { return begun && Distance(n, first) >= 0 && (!ended || Distance(n, last) <= 0); }
};

struct Frame {
  uint32_t number;
  Posted m;
  unsigned index;
  bool last;
};

// A message from the peer of a VI.
struct Acknowledgement {
  uint32_t number;
  uint8_t code;
};

struct Vi {
  uint8_t index = 0;
  // The engines' context.
  bool connected = false;
  // The ledger's rules.
  bool live = false, open = false, halted = false, stopped = false, broken = false, gapped = false;
  Fate fate = kAlive;
  uint32_t una = 0, next = 0, top = 0;
  unsigned window = 0, moving = 0, credit = 0, retries = 0, tries = 0, retry_limit = 0, read_limit = 0, log2 = 0, reads = 0;
  uint64_t deadline = kNever;
  bool armed = false, probe = false;
  std::deque<uint64_t> alive;  // arrival times of the peer's frames
  std::deque<Entry> own, ans;
  unsigned own_next = 0, ans_next = 0;  // slots
  bool held = false;
  uint64_t may_finish = 0, may_send = 0;  // clock since which it could
  // The send queue in front of the ledger.
  std::deque<Posted> posted;
  bool listed = false, parked = false;
  uint16_t seq = 0;
  bool lost = false;  // reported, to be disconnected
  uint64_t disconnect_at = 0;
  // The wire, by arrival time.
  std::multimap<uint64_t, Frame> forward;
  std::multimap<uint64_t, Acknowledgement> backward;
  // The peer.
  uint32_t expected = 0, request_number = 0, refused_number = 0;
  bool gap_told = false, refused = false, silent = false;
  uint8_t refused_code = 0;
  unsigned unacked = 0, index_next = 0;
  uint64_t last_id = 0;
  Posted receiving;
  // Reads to answer, and the peer's requests.
  std::deque<std::pair<uint64_t, Posted>> to_answer;
  unsigned answer_left = 0;
  std::deque<Posted> requests;
  std::deque<Posted> answers_wanted;  // accepted requests, in order

  bool running() const { return live && !broken && fate == kAlive; }
  uint32_t ahead() const { return next - una; }
  bool room() const { return ahead() < moving; }
  bool half() const { return room() && (2 * (moving - ahead()) >= moving || ahead() < kTogether); }
  Entry* Unbegun(std::deque<Entry>& ring) {
    for (auto& e : ring) {
      if (!e.begun) return &e;
    }
    return nullptr;
  }
  bool sends() {
    return running() && !stopped && room() && (next != top || open || probe || Unbegun(ans) || (Unbegun(own) && !halted));
  }
  bool probing() const { return probe && next == top && !open; }
  bool under_way() const { return una != top || reads != 0; }
};

class Model {
 public:
  explicit Model(uint64_t seed) : rng(seed), top(new Vhvia_send_ledger) {
    for (uint8_t v : kVis) vis[v].index = v;
    now = rng.Chance(1, 2) ? rng.Below(1000) : (1ull << 40) + rng.Bits(20);
    top->led_init_valid_i = top->clear_valid_i = top->clear_ready_i = top->led_valid_i = top->rxl_valid_i = 0;
    top->job_ready_i = top->flush_i = top->stale_start_i = top->receive_busy_i = top->alive_valid_i = 0;
    top->rst_ni = 1;
    top->clk_i = 0;
    top->eval();
    top->rst_ni = 0;
    for (int i = 0; i < 3; i++) Clock(false);
    top->rst_ni = 1;
  }

  virtual ~Model() = default;

  // One clock. Inputs are set before.
  void Clock(bool sample) {
    top->timebase_i = now;
    top->eval();
    if (sample) Sample();
    unit::Clock(*top);
    now++;
  }

  // The port's C++ type depends on the number of VIs.
  bool Held(unsigned v) const { return reinterpret_cast<const uint8_t*>(&top->send_hold_o)[v / 8] >> v % 8 & 1; }

  void Sample() {
    auto* root = top->rootp;
    const bool done = root->hvia_send_ledger__DOT__done;
    const unsigned op = root->hvia_send_ledger__DOT__op_q, state = root->hvia_send_ledger__DOT__state_q;
    const uint8_t v = root->hvia_send_ledger__DOT__vi_q;
    if (top->flush_i) {
      Vi& f = At(top->drain_vi_i);
      f.live = f.armed = false;
    }

    // Outputs that the operation before must have left.
    if (top->job_valid_o != job.has_value()) Fail("a job is %s, VI %u", top->job_valid_o ? "offered that must not be" : "missing", top->job_valid_o ? top->job_vi_o : v);
    if (job) CheckJob();
    if (top->cpl_valid_o != cpl.has_value()) Fail("a completion is %s", top->cpl_valid_o ? "offered that must not be" : "missing");
    if (cpl) {
      if (top->cpl_vi_o != cpl->vi || top->cpl_seq_o != cpl->m->seq || top->cpl_pa_o != cpl->m->pa || top->cpl_handle_o != cpl->m->handle ||
          top->cpl_status_o != cpl->status || top->cpl_length_o != cpl->length || top->cpl_write_o != cpl->write) {
        Fail("completion of VI %u seq %u: status %x length %u write %d; want VI %u seq %u: %x, %u, %d", top->cpl_vi_o, top->cpl_seq_o,
             top->cpl_status_o, top->cpl_length_o, top->cpl_write_o, cpl->vi, cpl->m->seq, cpl->status, cpl->length, cpl->write);
      }
    }
    if (top->nak_valid_o != ref.has_value()) Fail("a NAK is %s", top->nak_valid_o ? "offered that must not be" : "missing");
    if (ref && (top->nak_vi_o != ref->vi || top->nak_number_o != ref->number || top->nak_code_o != ref->code)) {
      Fail("NAK of VI %u, number %u, code %u; want %u, %u, %u", top->nak_vi_o, top->nak_number_o, top->nak_code_o, ref->vi, ref->number, ref->code);
    }
    if (top->unhold_valid_o != unhold.has_value() || (unhold && top->unhold_vi_o != *unhold)) Fail("unhold is %d for VI %u", top->unhold_valid_o, top->unhold_vi_o);
    for (uint8_t x : kVis) {
      if (Held(x) != vis[x].held) Fail("VI %u with %zu messages: hold is %d", x, vis[x].own.size(), !vis[x].held);
    }
    const bool handle_busy = cpl && cpl->m->handle == top->drain_handle_i;
    if (top->handle_busy_o != handle_busy) Fail("handle_busy is %d", top->handle_busy_o);
    CheckVi(top->drain_vi_i, state, v);
    CheckQuiet();

    if (top->alive_valid_i && vis.count(top->alive_vi_i)) vis[top->alive_vi_i].alive.push_back(now);

    // Strobes due now. Each operation sets its own.
    want = {};
    if (done) Perform(op, state, v);
    if (top->stat_retransmit_frame_o != want.retransmit) Fail("RetransmitFrame is %d", top->stat_retransmit_frame_o);
    if (top->stat_retry_timeout_o != want.timeout) Fail("RetryTimeout is %d, VI %u", top->stat_retry_timeout_o, v);
    if (top->stat_rewind_o != want.rewind) Fail("Rewind is %d, VI %u", top->stat_rewind_o, v);
    if (top->stat_retry_exhausted_o != want.exhausted) Fail("RetryExhausted is %d, VI %u", top->stat_retry_exhausted_o, v);
    if (top->stat_acknowledge_stray_o != want.stray) Fail("AcknowledgeStray is %d, VI %u", top->stat_acknowledge_stray_o, v);
    if (top->stat_nak_received_o != want.refused) Fail("NAKReceived is %d, VI %u", top->stat_nak_received_o, v);
    if (top->stat_read_response_o != want.response) Fail("ReadResponse is %d, VI %u", top->stat_read_response_o, v);
    CheckTrace(done && op == kOpReceive && top->rxl_op_i == hvia::kReceiveReportAcknowledge, v);
    if (top->led_ready_o != (done && op == kOpTransmit) || top->rxl_ready_o != (done && op == kOpReceive)) Fail("an engine is answered in the wrong clock");

    AfterSample();
    // Handshakes.
    if (job && (top->flush_i && job->vi == top->drain_vi_i)) withdraw = true;
    if (job && top->job_ready_i) {
      TakeJob();
      figures["jobs"]++;
    } else if (withdraw) {
      job.reset();
      figures["cover_job_withdrawn"]++;
    }
    withdraw = false;
    if (offer) job = *offer;
    offer.reset();
    if (top->cpl_valid_o && top->cpl_ready_i) {
      figures["completions"]++;
      cpl.reset();
    }
    if (next_cpl) cpl = *next_cpl;
    next_cpl.reset();
    if (top->nak_valid_o && top->nak_ready_i) {
      figures["refusals_sent"]++;
      ref.reset();
    }
    if (next_ref) ref = *next_ref;
    next_ref.reset();
    if (top->unhold_valid_o && top->unhold_ready_i) {
      Vi& x = At(*unhold);
      if (x.parked) Relist(x);
      x.parked = false;
      unhold.reset();
    }
    if (next_unhold) unhold = *next_unhold;
    next_unhold.reset();
    CheckAsync();
    if (engine_has && ((top->flush_i && engine_vi == top->drain_vi_i))) engine_has = false;
    Patience();
    if (top->led_init_valid_i && top->led_init_ready_o) {
      init_taken = true;
      init_number = top->tx_seq_init_value_i;
      init_transport = top->seq_init_transport_i;
    }
    if (top->clear_valid_i && top->clear_ready_i) clear_taken = true;
  }

  Vi& At(uint8_t v) {
    if (!vis.count(v)) Fail("VI %u is none of the testbench's", v);
    return vis[v];
  }

  struct Job {
    uint8_t vi;
    unsigned slot;
    uint32_t first, number;
    Posted m;
    bool probe;
  };
  struct Completion {
    uint8_t vi;
    Posted m;
    uint32_t status, length;
    bool write;
  };
  struct Refusal {
    uint8_t vi;
    uint32_t number;
    uint8_t code;
  };
  struct Want {
    bool retransmit, timeout, rewind, exhausted, stray, refused, response;
  };

  void CheckJob() {
    const Vi& x = vis[job->vi];
    const Message& m = *job->m;
    if (top->job_vi_o != job->vi || top->job_slot_o != job->slot || top->job_response_o != m.response || top->job_first_o != job->first ||
        top->job_number_o != job->number || top->job_va_o != m.va || top->job_pa_o != m.pa || top->job_handle_o != m.handle ||
        top->job_seq_o != m.seq || top->job_length_o != m.length || top->job_operation_o != m.operation) {
      Fail("job of VI %u slot %u, frames from %u, first %u; want VI %u slot %u, %u, %u", top->job_vi_o, top->job_slot_o, top->job_number_o,
           top->job_first_o, job->vi, job->slot, job->number, job->first);
    }
    if (!top->flush_i && ((job->probe ? !x.probe : job->number != x.next) || !x.running())) Fail("a job of VI %u stands that is not right any more", job->vi);
  }

  // vi_busy: there is work, or it comes in this clock.
  void CheckVi(uint8_t d, unsigned state, uint8_t v) {
    bool busy = (!At(d).own.empty() && (top->flush_i || !At(d).live)) || (state != kChoose && v == d) || (top->led_valid_i && top->led_vi_i == d) ||
                (top->rxl_valid_i && top->rxl_vi_i == d) || (cpl && cpl->vi == d) || (ref && ref->vi == d) || (unhold && *unhold == d);
    for (const auto& a : async) busy |= a.first == d;
    if (busy && !top->vi_busy_o) Fail("VI %u has work and is not busy", d);
    if (!busy && top->vi_busy_o && !init_taken && !clear_taken) Fail("VI %u has no work and is busy", d);
  }

  void CheckQuiet() {
    const bool walking = top->rootp->hvia_send_ledger__DOT__u_walker__DOT__walk_q;
    uint64_t least = kNever;
    for (const auto& [v, x] : vis) {
      if (x.armed) least = std::min(least, x.deadline);
    }
    if (!walking && top->next_deadline_o > least) Fail("a timer ends at %" PRIu64 ", the next deadline is %" PRIu64, least, static_cast<uint64_t>(top->next_deadline_o));
    if (top->quiet_o && least == kNever && top->next_deadline_o != kNever) Fail("no timer runs, and the next deadline is %" PRIu64, static_cast<uint64_t>(top->next_deadline_o));
    // An undisturbed walk finds the earliest deadline.
    if (was_walking && !walking && !walk_disturbed && top->next_deadline_o != least) Fail("a walk found %" PRIu64 ", the earliest deadline is %" PRIu64, static_cast<uint64_t>(top->next_deadline_o), least);
    if (was_walking && !walking) figures["walks"]++;
    if (!walking) walk_disturbed = false;
    was_walking = walking;
    if (top->quiet_o) figures["quiet_clocks"]++;
  }

  void CheckTrace(bool ack, uint8_t v) {
    const bool rewound = rewound_next.has_value();
    if (ack) {
      if (!top->trace_valid_o || top->trace_event_o != hvia::kTraceEventAcknowledgeReceived || top->trace_vi_o != v || top->trace_seq_o != (top->rxl_number_i & 0xffff)) {
        Fail("an acknowledgement is not traced");
      }
    } else if (rewound) {
      if (!top->trace_valid_o || top->trace_event_o != hvia::kTraceEventRewound || top->trace_vi_o != rewound_next->first || top->trace_seq_o != (rewound_next->second & 0xffff)) {
        Fail("a rewind is not traced");
      }
    } else if (resumed) {
      if (!top->trace_valid_o || top->trace_event_o != hvia::kTraceEventResumed || top->trace_vi_o != resumed->first || top->trace_seq_o != (resumed->second & 0xffff)) {
        Fail("a job is not traced");
      }
      resumed.reset();
    } else if (top->trace_valid_o) {
      Fail("trace event %u without an event", top->trace_event_o);
    }
    rewound_next = rewound_now;
    rewound_now.reset();
  }

  void CheckAsync() {
    const bool fires = top->async_valid_o;
    if (fires) {
      if (async.empty() || async.front().first != top->async_vi_o || async.front().second != top->async_code_o) {
        Fail("error %u of VI %u; %zu are due", top->async_code_o, top->async_vi_o, async.size());
      }
      Vi& x = At(top->async_vi_o);
      if (x.live) {
        x.lost = true;
        x.disconnect_at = now + rng.Below(3000);
      }
      figures["errors"]++;
      figures[std::string("cover_") + hvia::AsyncErrorName(top->async_code_o)]++;
      async.pop_front();
    } else if (!async.empty() && !cpl_was && top->async_ready_i && !async_fresh) {
      Fail("an error of VI %u is not reported", async.front().first);
    }
    async_fresh = false;
    cpl_was = cpl.has_value() || next_cpl.has_value();
    for (auto& a : next_async) {
      async.push_back(a);
      async_fresh = true;
    }
    next_async.clear();
  }

  void Touch(Vi& x) { x.deadline = (now + (1ull << x.log2)) & kNever; }

  // Acknowledges the frames before `number`.
  void Acknowledge(Vi& x, uint32_t number) {
    const uint32_t delta = number - x.una;
    if (delta == 0) return;
    if (x.ahead() < delta) x.next = number;
    x.una = number;
    Progress(x);
    x.gapped = false;
    x.credit += delta;
    if (x.credit >= x.moving) {
      x.credit = 0;
      if (x.moving < x.window) x.moving++;
    }
    Touch(x);
  }
  void Progress(Vi& x) {
    x.retries = x.tries = 0;
    x.probe = false;
  }
  void GoBack(Vi& x) {
    if (x.next != x.una) rewound_now = {x.index, x.una};
    x.next = x.una;
  }
  void Halve(Vi& x) {
    x.moving = std::max(std::min(x.window, kTogether), x.moving / 2);
    x.credit = 0;
  }

  void Perform(unsigned op, unsigned state, uint8_t v) {
    if (!vis.count(v)) Fail("operation %u for VI %u", op, v);
    Vi& x = At(v);
    if (op != kOpDeadline) walk_disturbed = true;
    switch (op) {
      case kOpClear:
        Forget(x);
        break;
      case kOpInit:
        Init(x);
        break;
      case kOpTransmit:
        Transmit(x);
        break;
      case kOpReceive:
        Receive(x);
        break;
      case kOpFinish:
        Finish(x, state);
        break;
      case kOpOffer:
        Offer(x);
        break;
      case kOpDeadline:
        Deadline(x);
        break;
      default:
        for (auto& e : x.own) {
          if (e.m->handle == top->drain_handle_i) {
            e.stale = true;
            figures["cover_stale"]++;
          }
        }
    }
    x.armed = x.running() && x.under_way();
    if (x.una != x.top || x.reads == 0) x.probe = false;
    if (job && job->vi == v && op != kOpOffer &&
        (!x.sends() || (job->probe ? !x.probe : x.next != job->number || (!job->m->response && x.next == x.top && !x.open && x.Unbegun(x.ans) != nullptr)))) {
      withdraw = true;
    }
    Mark(x);
  }

  // Records since when the ledger could complete or send without input.
  void Mark(Vi& x) {
    bool finish = false;
    if (!x.own.empty()) {
      const Entry& e = x.own.front();
      finish = !x.live || (!x.broken && (e.marked() || e.complete(x.una)));
    }
    if (x.live && !x.broken && x.fate != kAlive) finish = true;
    if (x.running() && !x.ans.empty()) finish |= x.ans.front().marked() || (x.ans.front().begun && x.ans.front().acked(x.una));
    x.may_finish = !finish ? 0 : now;
    const bool here = engine_has && engine_vi == x.index;
    const bool send = !here && !(job && job->vi == x.index) && !(offer && offer->vi == x.index) && Due(x) != nullptr;
    x.may_send = !send ? 0 : x.may_send != 0 ? x.may_send : now;
  }

  void Patience() {
    for (uint8_t v : kVis) {
      Vi& x = vis[v];
      if (x.armed && x.deadline + kPatience < now) Fail("the timer of VI %u ended at %" PRIu64 " without a timeout", v, x.deadline);
      if (x.may_finish != 0 && !(top->flush_i && top->receive_busy_i) && ++x.may_finish > now + kPatience) Fail("VI %u does not complete its finished work", v);
      if (!x.live) x.may_send = 0;
      if (x.may_send != 0 && !job && x.may_send + kPatience < now) Fail("VI %u has frames to send and is not offered", v);
    }
  }

  // The next entry to offer.
  Entry* Due(Vi& x) {
    if (!x.running() || x.stopped || !x.room()) return nullptr;
    if (x.next != x.top || x.open) {
      for (auto* ring : {&x.own, &x.ans}) {
        for (auto& e : *ring) {
          if (!e.contains(x.next)) continue;
          const bool fits = x.half() || (e.ended && e.last - x.una < x.moving);
          return e.marked() || !fits ? nullptr : &e;
        }
      }
      Fail("VI %u: no entry has number %u", x.index, x.next);
    }
    if (x.probe) {
      for (auto& e : x.own) {
        if (e.begun && e.unanswered()) return e.marked() ? nullptr : &e;
      }
      Fail("VI %u: no read is unanswered", x.index);
    }
    Entry* e = x.Unbegun(x.ans);
    if (e == nullptr && !x.halted) e = x.Unbegun(x.own);
    if (e == nullptr || e->marked()) return nullptr;
    const bool single = e->m->length <= hvia::kMaxPayload || e->read();
    if (!x.half() && !single) return nullptr;
    if (e->m->response) return e;
    if (e->m->fence && x.reads != 0) return nullptr;
    if (e->read() && x.reads >= x.read_limit) return nullptr;
    return e;
  }

  void Offer(Vi& x) {
    if (engine_has && engine_vi == x.index) return;
    Entry* e = Due(x);
    if (e == nullptr) return;
    offer = Job{x.index, e->slot, e->begun ? e->first : x.next, x.probing() ? e->first : x.next, e->m, x.probing()};
    if (!e->begun && e->m->response && !x.own.empty() && x.Unbegun(x.own) != nullptr && x.Unbegun(x.own)->m->fence) figures["cover_answer_before_fence"]++;
  }

  void TakeJob() {
    engine_has = true;
    engine_vi = job->vi;
    engine_slot = job->slot;
    resumed = {job->vi, job->number};
    taken = *job;
    job.reset();
  }

  void Deadline(Vi& x) {
    if (!x.armed || x.deadline > now) return;
    want.timeout = true;
    figures["timeouts"]++;
    // A sign of life counts from the clock after the record was read, so a later one counts for the
    // next timeout.
    if (!x.alive.empty() && x.alive.front() + 2 <= now) {
      if (x.retries >= x.retry_limit && x.retry_limit != 0) figures["cover_alive"]++;
      x.retries = 0;
      while (!x.alive.empty() && x.alive.front() + 2 <= now) x.alive.pop_front();
    }
    if (x.retries >= x.retry_limit || x.tries >= kAliveFactor * x.retry_limit) {
      if (x.retries < x.retry_limit) figures["cover_alive_and_no_progress"]++;
      want.exhausted = true;
      x.fate = kExhausted;
      figures["cover_retry_limit"]++;
      if (x.own.empty()) figures["cover_retry_limit_of_answers"]++;
      return;
    }
    x.retries++;
    x.tries++;
    x.gapped = false;
    x.probe = true;
    GoBack(x);
    Halve(x);
    Touch(x);
  }

  void Forget(Vi& x) {
    for (auto& e : x.own) e.m->completed = true;  // never will be
    if (x.held) next_unhold = x.index;
    x.own.clear();
    x.ans.clear();
    x.own_next = x.ans_next = 0;
    x.live = x.armed = x.held = false;
    if (job && job->vi == x.index) withdraw = true;
    if (engine_has && engine_vi == x.index) engine_has = false;
    for (auto it = async.begin(); it != async.end();) it = it->first == x.index ? async.erase(it) : it + 1;
    clear_taken = false;
  }

  void Init(Vi& x) {
    x.una = x.next = x.top = init_number;
    x.window = x.moving = std::max(1u, init_transport & 0xff);
    x.retry_limit = init_transport >> 8 & 0xff;
    x.read_limit = std::max(1u, init_transport >> 16 & 0xff);
    x.log2 = init_transport >> 24;
    x.credit = x.retries = x.tries = x.reads = 0;
    x.probe = x.open = x.halted = x.stopped = x.broken = x.gapped = false;
    x.fate = kAlive;
    x.live = true;
    for (auto& e : x.own) e.begun = false;
    x.ans.clear();
    x.ans_next = 0;
    init_taken = false;
  }

  void Begin(Vi& x, Entry& e) {
    e.begun = true;
    e.first = x.next;
    x.open = true;
    if (e.read()) x.reads++;
    Touch(x);
    if (x.ahead() >= 0x80000000u) Fail("VI %u begins outside its window", x.index);
  }

  void Transmit(Vi& x) {
    bool go = false;
    if (top->led_op_i == kOpen) {
      const Message& m = *led_message;
      const bool marked = (top->led_status_i & kErrors) != 0 || m.operation == kUnreachable;
      go = x.running() && !x.stopped && !x.halted && !marked && x.next == x.top && !x.open && !x.Unbegun(x.own) && !x.Unbegun(x.ans) && x.room() &&
           !(m.fence && x.reads != 0) && !(m.operation == kRead && x.reads >= x.read_limit);
      Entry e;
      e.m = led_message;
      e.slot = x.own_next;
      e.status = top->led_status_i & kErrors;
      x.own_next = (x.own_next + 1) % kMessages;
      x.own.push_back(e);
      if (x.own.size() > kMessages) Fail("VI %u has %zu messages: the testbench sent one that has no place", x.index, x.own.size());
      if (go) {
        Begin(x, x.own.back());
        figures["cover_open_goes"]++;
        if (top->led_number_o != x.next || top->led_slot_o != e.slot) Fail("Open of VI %u: number %u slot %u, want %u, %u", x.index, top->led_number_o, top->led_slot_o, x.next, e.slot);
      } else {
        figures["cover_open_stays"]++;
      }
      if (x.own.size() == kMessages) figures["cover_ring_full"]++;
      if (x.own.size() >= kMessages && x.ans.size() >= kResponses) figures["cover_both_full"]++;
      if (x.own.size() >= kMessages - kUnderWay) x.held = true;
    } else {
      Entry* e = Find(x, top->led_slot_i);
      const bool match = engine_has && engine_vi == x.index && engine_slot == top->led_slot_i && x.live;
      const uint32_t n = top->led_number_i;
      if (top->led_op_i == kSent) {
        const bool fresh = match && n == x.top, hit = match && n == x.next;
        if (fresh) {
          if (x.next != x.top) figures["cover_sent_behind_going_back"]++;
          x.top++;
          if (top->led_last_i) {
            x.open = false;
            // The connection's end may have completed the entry while the engine had it.
            if (e != nullptr) {
              e->ended = true;
              e->last = n;
            } else if (!x.broken) {
              Fail("VI %u: frame %u is of no message", x.index, n);
            }
          }
        }
        if (hit) x.next++;
        if (fresh || hit) Touch(x);
        want.retransmit = match && !fresh;
        if (match && !fresh) figures["retransmitted"]++;
        if (n == 0 && fresh) figures["cover_wrap"]++;
        go = hit && !top->led_last_i && x.running() && !x.stopped && x.room();
        if (hit && x.ahead() > x.window) Fail("VI %u: %u frames in flight, the window is %u", x.index, x.ahead(), x.window);
        if (hit && !go && !top->led_last_i) figures["cover_window_closed"]++;
      } else if (top->led_op_i == kAsk) {
        const bool unbegun = e != nullptr && !e->begun;
        const bool probe = match && x.probe && e != nullptr && e->unanswered() && n == e->first;
        if (probe) x.probe = false;
        if (probe) figures["cover_probe"]++;
        go = match && (probe || (n == x.next && x.room())) && x.running() && !x.stopped && e != nullptr && !e->marked() && !(unbegun && !e->m->response && x.halted);
        if (go && unbegun) Begin(x, *e);
        if (!go) figures["cover_job_out_of_date"]++;
      } else {
        if (match && e != nullptr && !e->marked() && !e->acked(x.una)) {
          e->status = top->led_status_i & kErrors;
          if (!e->m->response) x.halted = true;
          figures[e->m->response ? "cover_answer_failed" : "cover_message_failed"]++;
        } else if (match && e != nullptr && e->acked(x.una)) {
          figures["cover_fail_of_acknowledged"]++;
        }
      }
    }
    if (top->led_op_i != kFail && top->led_go_o != go) Fail("VI %u: led_op %u of number %u is answered %d", x.index, top->led_op_i, top->led_number_i, top->led_go_o);
    if (go) {
      engine_has = true;
      engine_vi = x.index;
      if (top->led_op_i == kOpen) engine_slot = x.own.back().slot;
    } else {
      engine_has = false;
    }
  }

  Entry* Find(Vi& x, unsigned slot) {
    auto& ring = slot < kMessages ? x.own : x.ans;
    for (auto& e : ring) {
      if (e.slot == slot) return &e;
    }
    return nullptr;
  }

  static uint32_t RefusedStatus(unsigned code) {
    return code == hvia::kAcknowledgeCodeRemoteDescriptor ? kRemoteDescriptor : code == hvia::kAcknowledgeCodeRDMAProtection ? kRdmaProtection : kTransport;
  }

  void Receive(Vi& x) {
    const uint32_t n = top->rxl_number_i;
    bool ok = false;
    switch (top->rxl_op_i) {
      case hvia::kReceiveReportAcknowledge: {
        const unsigned code = top->rxl_code_i;
        if (!x.live) {
          // A NAK whose lookup meets the start of a flush may go uncounted.
          want.stray = top->stat_acknowledge_stray_o && top->flush_i && code > 1 ? true : !(top->flush_i && code > 1 && top->rootp->hvia_send_ledger__DOT__state_q == kScan);
          break;
        }
        if (!x.running() || x.stopped) break;
        const uint32_t delta = n - x.una, span = x.top - x.una;
        if (code > hvia::kAcknowledgeCodeTransport) {
          want.stray = true;
        } else if (code <= hvia::kAcknowledgeCodeGap) {
          if (delta > span) {
            want.stray = true;
            break;
          }
          const bool gap = code == hvia::kAcknowledgeCodeGap && (!x.gapped || delta != 0);
          if (code == hvia::kAcknowledgeCodeGap && x.gapped && delta == 0) figures["cover_gap_again"]++;
          x.retries = 0;
          Acknowledge(x, n);
          if (gap && x.next != x.una) {
            want.rewind = true;
            GoBack(x);
            Halve(x);
            x.gapped = true;
            Touch(x);
            figures["rewinds"]++;
          }
        } else if (delta < span) {
          x.retries = 0;
          Acknowledge(x, n);
          want.refused = true;
          x.stopped = true;
          bool found = false;
          for (auto& e : x.own) {
            if (!e.contains(n)) continue;
            found = true;
            if (!e.marked()) e.status = RefusedStatus(code);
            figures["cover_refused"]++;
            if (x.own.front().unanswered() && !x.own.front().marked() && &e != &x.own.front()) figures["cover_refusal_behind_read"]++;
          }
          if (!found) {
            x.fate = kLost;
            figures["cover_answer_refused"]++;
          }
        } else if (static_cast<uint32_t>(x.una - 1 - n) < 256) {
          want.refused = true;
          x.stopped = true;
          const auto read = std::find_if(x.own.begin(), x.own.end(), [&](const Entry& e) { return e.contains(n) && e.unanswered(); });
          if (read == x.own.end()) {
            x.fate = kLost;
            figures["cover_refused_late"]++;
          } else {
            if (!read->marked()) read->status = RefusedStatus(code);
            figures["cover_read_refused"]++;
          }
        } else {
          want.stray = true;
        }
        if (want.stray) figures["strays"]++;
        break;
      }
      case hvia::kReceiveReportRequest:
        ok = x.running() && !x.stopped && x.ans.size() < kResponses;
        if (ok) {
          Entry e;
          e.m = rx_request;
          e.slot = kMessages + x.ans_next;
          x.ans_next = (x.ans_next + 1) % kResponses;
          x.ans.push_back(e);
          if (x.own.size() >= kMessages && x.ans.size() >= kResponses) figures["cover_both_full"]++;
        } else if (x.running() && !x.stopped) {
          figures["cover_read_limit"]++;
        }
        break;
      case hvia::kReceiveReportFind:
      case hvia::kReceiveReportAnswered: {
        if (!x.running()) break;
        for (auto& e : x.own) {
          if (!e.begun) break;
          if (!e.read() || e.answered) continue;
          ok = e.ended && !e.marked();
          if (!ok) break;
          if (top->rxl_op_i == hvia::kReceiveReportFind) {
            if (top->rxl_va_o != e.m->va || top->rxl_handle_o != e.m->handle || top->rxl_length_o != e.m->length) Fail("VI %u: the wrong read is looked at", x.index);
            break;
          }
          e.answered = true;
          e.status = top->rxl_status_i & kErrors;
          if (e.status == 0) e.m->answered = true;
          if (e.status != 0) x.halted = true;
          x.reads--;
          if (e.last + 1 - x.una <= x.top - x.una) {
            if (e.last + 1 != x.una) figures["cover_answer_acknowledges"]++;
            Acknowledge(x, e.last + 1);
          }
          Progress(x);
          Touch(x);
          figures["answered"]++;
          break;
        }
        break;
      }
      default:
        if (x.running() && x.reads != 0) {
          Progress(x);
          Touch(x);
        }
    }
    if (top->rxl_op_i != hvia::kReceiveReportAcknowledge && top->rxl_op_i != hvia::kReceiveReportProgress && top->rxl_ok_o != ok) {
      Fail("VI %u: report %u is answered %d", x.index, top->rxl_op_i, top->rxl_ok_o);
    }
    rx_ok = ok;
  }

  void Report(Vi& x, uint8_t code) { next_async.push_back({x.index, code}); }

  void Pop(Vi& x, uint32_t status, bool well) {
    const Entry e = x.own.front();
    x.own.pop_front();
    if (x.held && x.own.size() < kMessages - kUnderWay) {
      x.held = false;
      next_unhold = x.index;
      figures["cover_unhold"]++;
    }
    if (e.m->completed) Fail("VI %u: seq %u completes twice", x.index, e.m->seq);
    e.m->completed = true;
    if (e.m->operation == kUnreachable) return;
    // The second model: the peer's received messages.
    if (well && !manual && !(e.read() ? e.m->answered : e.m->received)) Fail("VI %u: seq %u completes well, and its peer has not got it", x.index, e.m->seq);
    const uint32_t echo[] = {hvia::kStatusOperationSend, hvia::kStatusOperationRDMAWrite, hvia::kStatusOperationRDMARead};
    next_cpl = Completion{x.index, e.m, status | kDone | echo[e.m->operation] << hvia::kDescriptorStatusOperationLsb, well ? e.m->length : 0, !e.stale};
    figures[well ? "cover_well" : status & kFlushed ? "cover_flushed" : "cover_failed"]++;
    if (!x.live && well) figures["cover_flush_well"]++;
    if (!x.live && !well && !(status & kFlushed)) figures["cover_flush_marked"]++;
    if (!x.live && (status & kFlushed) && e.begun) figures["cover_flush_begun"]++;
    if (!x.live && e.unanswered()) figures["cover_flush_read"]++;
    last_status = status;
  }

  void Lose(Vi& x) {
    x.broken = true;
    Report(x, hvia::kAsyncErrorConnectionLost);
  }

  void Finish(Vi& x, unsigned state) {
    if (state == kOwn) {
      if (x.own.empty()) Fail("VI %u has no message", x.index);
      Entry& e = x.own.front();
      if ((top->flush_i && top->drain_vi_i == x.index && top->receive_busy_i) || (x.live && x.broken)) return;
      if (e.marked()) {
        if (x.live && e.unanswered() && !x.stopped) {
          Lose(x);
          figures["cover_read_left_to_flush"]++;
        } else if (e.m->operation == kUnreachable) {
          Report(x, hvia::kAsyncErrorPostDescriptor);
          x.broken |= x.live;
          Pop(x, 0, false);
        } else {
          const uint32_t status = e.status;
          if (x.live && !(status & kFlushed)) Lose(x);
          Pop(x, status, false);
        }
      } else if (e.complete(x.una)) {
        Pop(x, 0, true);
      } else if (!x.live) {
        Pop(x, kFlushed, false);
      } else if (x.fate == kExhausted) {
        Lose(x);
        if (e.unanswered()) {
          e.status = kTransport;
          figures["cover_read_left_to_flush"]++;
        } else {
          Pop(x, kTransport, false);
        }
      } else if (x.fate == kLost) {
        Lose(x);
      } else if (!x.ans.empty()) {
        Fail("VI %u: its read responses stall", x.index);
      }
    } else if (state == kAnswer) {
      if (!x.running()) return;
      Entry& e = x.ans.front();
      if (e.marked()) {
        const bool bus = e.status & kTransport;
        next_ref = Refusal{x.index, e.m->pa, static_cast<uint8_t>(bus ? hvia::kAcknowledgeCodeTransport : hvia::kAcknowledgeCodeRDMAProtection)};
        x.broken = true;
        Report(x, bus ? hvia::kAsyncErrorRDMATransport : hvia::kAsyncErrorRDMAReadProtection);
      } else if (e.begun && e.acked(x.una)) {
        want.response = true;
        if (!manual && !e.m->received) Fail("VI %u: an answer is acknowledged that its peer has not got", x.index);
        x.ans.pop_front();
        figures["responses"]++;
      }
    } else {
      if (!x.own.empty()) Fail("VI %u: its messages stall", x.index);
      if (x.live && !x.broken && x.fate != kAlive) Lose(x);
      else if (x.running() && !x.ans.empty()) Fail("VI %u: its read responses stall", x.index);
    }
  }

  // The engines' last reports, for their answers.
  Posted led_message, rx_request;
  bool rx_ok = false;
  // Puts a send queue back into the ready list.
  virtual void Relist(Vi&) {}
  // Called when the outputs have settled, before the edge.
  virtual void AfterSample() {}

  unit::Rng rng;
  std::unique_ptr<Vhvia_send_ledger> top;
  uint64_t now = 0;
  std::map<uint8_t, Vi> vis;
  std::map<std::string, uint64_t> figures;
  bool manual = false;  // no peer: its state is unknown
  bool init_taken = false, clear_taken = false;
  std::optional<Job> job, offer, taken;
  std::optional<Completion> cpl, next_cpl;
  std::optional<Refusal> ref, next_ref;
  std::optional<uint8_t> unhold, next_unhold;
  std::deque<std::pair<uint8_t, uint8_t>> async, next_async;  // VI, code
  bool engine_has = false;
  uint8_t engine_vi = 0;
  unsigned engine_slot = 0;
  uint32_t last_status = 0;

 private:
  uint32_t init_number = 0, init_transport = 0;  // of the accepted connect
  Want want{};
  bool withdraw = false, cpl_was = false, async_fresh = false, was_walking = false, walk_disturbed = false;
  std::optional<std::pair<uint8_t, uint32_t>> rewound_now, rewound_next, resumed;
};

}  // namespace
