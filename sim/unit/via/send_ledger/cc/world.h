// SPDX-License-Identifier: Apache-2.0

// The ledger's surroundings: transmit engine and send queues, wires and peers, receive engine,
// manager.
#pragma once
#include <set>

#include "sim/unit/via/send_ledger/cc/model.h"

namespace {

struct Knobs {
  unsigned loss = 0, ack_loss = 0, doubled = 0;  // of 256
  unsigned jitter = 0;
  unsigned pressure = 0, idle = 0;  // of 4
  unsigned speed = 8;               // clocks for a frame
  unsigned errors = 0, fails = 0, refusals = 0, silences = 0, unreachable = 0;  // of 1024
  unsigned reads = 0, fences = 0, requests = 0, forged = 0;                     // of 256
  unsigned longest = 6;                                                       // frames
  unsigned alive = 0;                                                            // of 4096
  unsigned disconnects = 0, resets = 0, withdrawals = 0;                         // of 4096, each 64 clocks
  unsigned post = 64;                                                         // of 256, each 16 clocks
  unsigned log2_lo = 12, log2_hi = 16;
};


class World : public Model {
 public:
  explicit World(uint64_t seed) : Model(seed) {
    for (auto& h : handles) h = NewHandle();
    top->drain_vi_i = kVis[rng.Below(kVis.size())];
    top->drain_handle_i = rng.Bits(32);
  }

  void Run() {
    Turn();
    const unsigned clocks = 8000 + rng.Below(8000);
    for (unsigned i = 0; i < clocks; i++) Step();
    // The end: all remaining work completes, or its connection breaks.
    k.loss = k.ack_loss = k.doubled = k.errors = k.fails = k.refusals = k.silences = k.unreachable = k.requests = k.forged = 0;
    k.disconnects = k.resets = k.withdrawals = k.post = k.jitter = k.idle = k.alive = 0;
    for (auto& [v, x] : vis) {
      if (x.silent) figures["cover_silent"]++;
      x.silent = false;
    }
    unsigned left = 400000;
    while (!Settled()) {
      Step();
      if (--left == 0) Stuck();
    }
    for (auto& [v, x] : vis) x.lost = x.connected;
    while (command != Command::kNone || std::any_of(vis.begin(), vis.end(), [](const auto& p) { return p.second.connected; })) {
      Step();
      if (--left == 0) Stuck();
    }
    for (int i = 0; i < 600; i++) Step();
    for (const auto& m : all) {
      if (!m->completed) Fail("seq %u (id %" PRIu64 ") never completed", m->seq, m->id);
    }
    if (!top->quiet_o || top->next_deadline_o != kNever) Fail("at the end it is not quiet: %d, next deadline %" PRIu64, top->quiet_o, static_cast<uint64_t>(top->next_deadline_o));
    figures["messages"] += all.size();
    figures["runs"]++;
  }

 private:
  enum class Eng { kReady, kLed, kBuild, kFetch };
  enum class Rx { kReady, kTell, kWrite };
  enum class Command { kNone, kConnect, kDisconnect, kReset, kWithdraw };

  // The traffic of one run.
  void Turn() {
    auto pick = [&](std::initializer_list<unsigned> l) { return *(l.begin() + rng.Below(l.size())); };
    k.loss = pick({0, 0, 5, 20, 60});
    k.ack_loss = pick({0, 0, 10, 60});
    k.doubled = pick({0, 0, 20});
    k.jitter = pick({0, 0, 20, 300});
    k.pressure = pick({0, 1, 2, 3});
    k.idle = pick({0, 0, 2, 3});
    k.speed = pick({4, 8, 30, 60});
    k.errors = pick({0, 0, 10});
    k.fails = pick({0, 0, 10, 40});
    k.refusals = pick({0, 0, 0, 10});
    k.silences = pick({0, 0, 2});
    k.unreachable = pick({0, 0, 6});
    k.reads = pick({0, 40, 100});
    k.fences = pick({0, 60, 150});
    k.requests = pick({0, 30, 200});
    k.forged = pick({0, 0, 8});
    k.longest = pick({1, 2, 6, 6, 40});
    k.disconnects = pick({0, 0, 30, 100});
    k.resets = pick({0, 0, 20});
    k.withdrawals = pick({0, 40});
    k.post = pick({20, 64, 200});
    k.alive = pick({0, 0, 4, 40});
    k.log2_lo = pick({8, 11, 13});
    k.log2_hi = k.log2_lo + pick({0, 2, 6});
    few = rng.Chance(1, 3);
  }

  void Step() {
    if (was_quiet && engine == Eng::kReady && fetched.empty() && !job && rx == Rx::kReady && command == Command::kNone && !cpl && !ref && !unhold &&
        async.empty() && (k.post == 0 || rng.Chance(1, 4))) {
      Jump();
    }
    Manage();
    Post();
    Peers();
    Engine();
    Receiver();
    top->cpl_ready_i = !rng.Chance(k.pressure, 4);
    top->nak_ready_i = !rng.Chance(k.pressure, 4);
    top->async_ready_i = !rng.Chance(k.pressure, 4);
    top->unhold_ready_i = !rng.Chance(k.pressure, 4);
    top->alive_valid_i = rng.Chance(k.alive, 4096);
    top->alive_vi_i = kVis[rng.Below(kVis.size())];
    top->receive_busy_i = rx_vi >= 0 && rx_vi == top->drain_vi_i;
    Measure();
    Clock(true);
    was_quiet = top_quiet;
  }

  // Jumps to the next deadline or arrival from the wire.
  void Jump() {
    uint64_t to = top->next_deadline_o;
    for (auto& [v, x] : vis) {
      if (!x.posted.empty() && !x.parked) return;
      if (!x.forward.empty()) to = std::min(to, x.forward.begin()->first);
      if (!x.backward.empty()) to = std::min(to, x.backward.begin()->first);
      if (!x.to_answer.empty() && !x.silent) to = std::min(to, x.to_answer.front().first);
      if (!x.requests.empty() && x.ans.size() < kResponses) return;
      if (x.lost) to = std::min(to, x.disconnect_at);
    }
    if (to == kNever || to <= now) return;
    figures["jumps"]++;
    now = to;
  }

  bool Settled() {
    if (command != Command::kNone || !fetched.empty() || engine != Eng::kReady || rx != Rx::kReady) return false;
    for (auto& [v, x] : vis) {
      if (x.lost || !x.posted.empty() || !x.own.empty() || (x.live && !x.ans.empty()) || !x.requests.empty() || !x.to_answer.empty()) return false;
    }
    return true;
  }
  [[noreturn]] void Stuck() {
    for (auto& [v, x] : vis) {
      std::fprintf(stderr, "VI %u: live %d lost %d posted %zu own %zu ans %zu requests %zu to_answer %zu una %u next %u top %u moving %u reads %u stopped %d broken %d held %d parked %d\n",
                   v, x.live, x.lost, x.posted.size(), x.own.size(), x.ans.size(), x.requests.size(), x.to_answer.size(), x.una, x.next, x.top, x.moving, x.reads, x.stopped, x.broken, x.held, x.parked);
    }
    std::fprintf(stderr, "now %" PRIu64 " next deadline %" PRIu64 " quiet %d engine %d fetched %zu job %d cpl %d ref %d unhold %d async %zu command %d rx %d jumps %" PRIu64 " timeouts %" PRIu64 "\n", now,
                 static_cast<uint64_t>(top->next_deadline_o), was_quiet, static_cast<int>(engine), fetched.size(), job.has_value(), cpl.has_value(), ref.has_value(),
                 unhold.has_value(), async.size(), static_cast<int>(command), static_cast<int>(rx), figures["jumps"], figures["timeouts"]);
    Fail("some work did not end");
  }

  // ---- send queues
  uint32_t NewHandle() { return ++handle_count << 20 | static_cast<uint32_t>(rng.Below(1 << 20)); }

  void Post() {
    if (unit::clocks() % 16 == 0 && rng.Chance(k.post, 256)) {
      Vi& x = vis[kVis[rng.Below(few ? 2 : kVis.size())]];
      if ((x.connected || rng.Chance(1, 16)) && x.posted.size() < 24 && !(command == Command::kReset && command_vi == x.index)) {
        x.posted.push_back(Make(x));
        if (!x.listed && !x.parked) Relist(x);
      }
    }
    // Four slots between queue and ledger, with one descriptor per queue at a time.
    if (fetched.size() < kUnderWay && !ready.empty() && !rng.Chance(1, 3)) {
      Vi& x = At(ready.front());
      ready.pop_front();
      x.listed = false;
      if (x.posted.empty()) return;
      if (x.held) {
        x.parked = true;
        figures["cover_parked"]++;
        return;
      }
      Posted m = x.posted.front();
      x.posted.pop_front();
      if (dead.count(m->handle) || (x.connected && rng.Chance(k.unreachable, 1024))) {
        m->operation = kUnreachable;
        for (auto& p : x.posted) p->completed = true;  // never reach the ledger
        x.posted.clear();
      }
      fetched.push_back({x.index, m});
      if (!x.posted.empty()) Relist(x);
    }
  }
  void Relist(Vi& x) override {
    if (x.listed || x.posted.empty()) return;
    x.listed = true;
    ready.push_back(x.index);
  }

  Posted Make(Vi& x) {
    auto m = std::make_shared<Message>();
    m->id = ++ids;
    m->operation = rng.Chance(k.reads, 256) ? kRead : rng.Below(2);
    m->fence = rng.Chance(k.fences, 256);
    if (rng.Chance(k.errors, 1024)) m->error = rng.Chance(1, 2) ? kFormat : kLength;
    if (m->error == kFormat && rng.Chance(1, 2)) {
      m->operation = hvia::kDescriptorOperationSend;
      m->reserved = true;
    }
    m->frames = 1 + rng.Below(rng.Chance(1, 2) ? 1 : k.longest);
    m->length = (m->frames - 1) * hvia::kMaxPayload + 1 + rng.Below(hvia::kMaxPayload);
    if (m->frames == 1 && rng.Chance(1, 8)) m->length = 0;
    if (m->operation == kRead) m->frames = 1;
    if (rng.Chance(k.fails, 1024)) {
      m->fail_at = rng.Below(m->frames);
      m->fail_again = rng.Chance(1, 2);
      m->fail_status = rng.Chance(1, 3) ? kTransport : rng.Chance(1, 2) ? kProtection : kLength;
    }
    m->handle_index = rng.Below(handles.size());
    m->handle = handles[m->handle_index];
    m->va = rng.Next() & ~63ull;
    m->pa = rng.Bits(32) & ~63u;
    m->seq = x.seq++;
    all.push_back(m);
    return m;
  }

  // ---- transmit engine
  void Engine() {
    if (led_answered) {
      led_answered = false;
      top->led_valid_i = 0;
      engine = Eng::kReady;
      if (led_go && led_op == kOpen) {
        e_again = false;
        e_message = led_message;
        e_slot = led_slot;
        e_number = e_first = led_number;
        StartFrame();
      } else if (led_go && led_op == kAsk) {
        StartFrame();
      } else if (led_go && led_op == kSent) {
        e_number++;
        StartFrame();
      }
    }
    take_job = false;
    if (taken) {
      e_again = true;
      e_vi = taken->vi;
      e_slot = taken->slot;
      e_first = taken->first;
      e_number = taken->number;
      e_message = taken->m;
      taken.reset();
      engine = Eng::kFetch;
      e_left = rng.Below(30);
    }
    switch (engine) {
      case Eng::kReady:
        if (rng.Chance(k.idle, 4)) break;
        if (job && (fetched.empty() || rng.Chance(1, 2))) {
          take_job = true;
        } else if (!fetched.empty()) {
          e_vi = fetched.front().first;
          led_message = fetched.front().second;
          fetched.pop_front();
          const Message& m = *led_message;
          Ask(kOpen, 0, 0, false, m.operation == kUnreachable ? 0 : !At(e_vi).connected ? kFlushed : m.error);
        }
        break;
      case Eng::kFetch:
        if (e_left-- > 0) break;
        if (!At(e_vi).connected) engine = Eng::kReady;
        else if (!e_message->response && dead.count(e_message->handle)) Ask(kFail, e_slot, 0, false, kProtection);
        else Ask(kAsk, e_slot, e_number, false, 0);
        break;
      case Eng::kBuild:
        if (e_left-- > 0) break;
        FrameBuilt();
        break;
      default:;
    }
    top->job_ready_i = take_job;
  }
  void StartFrame() {
    engine = At(e_vi).connected ? Eng::kBuild : Eng::kReady;
    e_left = 2 + rng.Below(k.speed);
  }
  void FrameBuilt() {
    const Message& m = *e_message;
    const unsigned index = e_number - e_first;
    if (index >= m.frames) Fail("VI %u: frame %u of a message of %u", e_vi, index, m.frames);
    if (m.fail_at == static_cast<int>(index) && (!m.fail_again || e_again)) {
      Ask(kFail, e_slot, e_number, false, m.fail_status);
      return;
    }
    const bool last = index + 1 == m.frames;
    Ask(kSent, e_slot, e_number, last, 0);
    Vi& x = At(e_vi);
    figures["frames"]++;
    for (int n = rng.Chance(k.doubled, 256) ? 2 : 1; n > 0; n--) {
      // A frame of a connection that has ended is dropped.
      if (x.connected && !rng.Chance(k.loss, 256)) x.forward.insert({now + 100 + rng.Below(k.jitter + 1), Frame{e_number, e_message, index, last}});
    }
  }
  void Ask(Led op, unsigned slot, uint32_t number, bool last, uint32_t status) {
    engine = Eng::kLed;
    led_op = op;
    top->led_valid_i = 1;
    top->led_op_i = op;
    top->led_vi_i = e_vi;
    top->led_slot_i = op == kOpen ? rng.Below(20) : slot;
    top->led_number_i = op == kOpen ? rng.Bits(32) : number;
    top->led_last_i = op == kSent ? last : rng.Bits(1);
    top->led_status_i = status;
    const Message* m = op == kOpen ? led_message.get() : nullptr;
    top->led_va_i = m ? m->va : rng.Next();
    top->led_pa_i = m ? m->pa : rng.Bits(32);
    top->led_handle_i = m ? m->handle : rng.Bits(32);
    top->led_seq_i = m ? m->seq : rng.Bits(16);
    top->led_length_i = m ? m->length : rng.Bits(32);
    top->led_operation_i = !m ? rng.Bits(2) : m->reserved ? kUnreachable : m->operation;
    top->led_fence_i = m ? m->fence : rng.Bits(1);
    led_since = unit::clocks();
    led_alone = was_quiet && op == kOpen && !top->rxl_valid_i && command == Command::kNone;
  }

  // Measures the clocks of Open in an otherwise idle ledger.
  void Measure() {
    if (led_alone && led_since == unit::clocks() && top->rxl_valid_i) led_alone = false;
  }

  // ---- peers
  void Peers() {
    for (auto& [v, x] : vis) {
      while (!x.forward.empty() && x.forward.begin()->first <= now) {
        const Frame f = x.forward.begin()->second;
        x.forward.erase(x.forward.begin());
        if (!x.silent) Arrive(x, f);
      }
      if (!x.connected) continue;
      if (unit::clocks() % 256 == v && rng.Chance(k.silences, 1024)) x.silent = true;
      if (unit::clocks() % 64 == v % 64 && !x.silent && !x.refused && x.requests.size() < 2 && rng.Chance(k.requests, 256)) {
        auto m = std::make_shared<Message>();
        m->response = true;
        m->frames = 1 + rng.Below(k.longest);
        m->length = (m->frames - 1) * hvia::kMaxPayload + 1 + rng.Below(hvia::kMaxPayload);
        if (m->frames == 1 && rng.Chance(1, 6)) m->length = 0;
        m->va = rng.Next();
        m->handle = rng.Bits(32);
        m->pa = x.request_number++;
        m->seq = m->pa;
        if (rng.Chance(k.fails, 1024)) {
          m->fail_at = 0;
          m->fail_status = rng.Chance(1, 2) ? kTransport : kProtection;
        }
        x.requests.push_back(m);
      }
    }
  }

  void Arrive(Vi& x, const Frame& f) {
    if (x.refused) {
      Say(x, x.refused_number, x.refused_code);
      return;
    }
    const int32_t d = Distance(f.number, x.expected);
    if (d != 0) {
      if (d < 0) Say(x, x.expected, hvia::kAcknowledgeCodeOk);
      else if (!x.gap_told) Say(x, x.expected, hvia::kAcknowledgeCodeGap);
      x.gap_told |= d > 0;
      return;
    }
    if (f.index != x.index_next || (f.index != 0 && f.m != x.receiving)) Fail("VI %u: number %u is frame %u of id %" PRIu64 ", frame %u was due", x.index, f.number, f.index, f.m->id, x.index_next);
    if (f.index == 0 && !f.m->response) {
      if (f.m->id <= x.last_id) Fail("VI %u: message %" PRIu64 " after %" PRIu64, x.index, f.m->id, x.last_id);
      x.last_id = f.m->id;
    }
    if (f.index == 0 && f.m->response && (x.answers_wanted.empty() || x.answers_wanted.front() != f.m)) Fail("VI %u: an answer that is not due", x.index);
    if (rng.Chance(k.refusals, 1024)) {
      x.refused = true;
      x.refused_number = f.number;
      x.refused_code = 2 + rng.Below(3);
      // With reliable delivery the bus can fail after the acknowledgement.
      if (rng.Chance(1, 3)) {
        Accept(x, f);
        Say(x, x.expected, hvia::kAcknowledgeCodeOk);
      }
      Say(x, x.refused_number, x.refused_code);
      return;
    }
    Accept(x, f);
    if (f.last || ++x.unacked >= static_cast<unsigned>(hvia::kProfiles[0].AcknowledgeEvery)) Say(x, x.expected, hvia::kAcknowledgeCodeOk);
  }
  void Accept(Vi& x, const Frame& f) {
    x.expected++;
    x.gap_told = false;
    x.receiving = f.m;
    x.index_next = f.last ? 0 : f.index + 1;
    if (!f.last) return;
    f.m->received = true;
    f.m->number = f.number;
    if (f.m->response) x.answers_wanted.pop_front();
    else if (f.m->operation == kRead) x.to_answer.push_back({now + 50 + rng.Below(600), f.m});
  }
  void Say(Vi& x, uint32_t number, uint8_t code) {
    x.unacked = 0;
    if (rng.Chance(k.ack_loss, 256)) {
      figures["cover_lost_acknowledgement"]++;
      return;
    }
    for (int n = rng.Chance(k.doubled, 256) ? 2 : 1; n > 0; n--) x.backward.insert({now + 100 + rng.Below(k.jitter + 1), {number, code}});
  }

  // ---- receive engine
  void Receiver() {
    if (rx_answered) {
      rx_answered = false;
      top->rxl_valid_i = 0;
      rx = Rx::kReady;
      const bool look = rx_op == hvia::kReceiveReportFind;
      if (rx_vi >= 0 && look && rx_ok_was) {
        Vi& x = At(rx_vi);
        // Checked only if the VI was not taken down meanwhile.
        if (!x.to_answer.empty() && rx_va != x.to_answer.front().second->va) Fail("VI %u: another read is answered than the oldest", x.index);
        rx = Rx::kWrite;
        rx_left = rng.Below(60);
      } else if (rx_vi >= 0) {
        Vi& x = At(rx_vi);
        if (look || rx_op == hvia::kReceiveReportAnswered) {
          if (!x.to_answer.empty() && x.to_answer.front().second == rx_read) x.to_answer.pop_front();
          x.answer_left = 0;
        }
        rx_vi = -1;
      } else if (rx_op == hvia::kReceiveReportRequest) {
        Vi& x = At(top->rxl_vi_i);
        if (rx_ok_was && !x.requests.empty() && x.requests.front() == rx_request) {
          x.answers_wanted.push_back(x.requests.front());
          x.requests.pop_front();
        }
      }
    }
    if (rx == Rx::kWrite) {
      if (rx_left-- > 0) return;
      Vi& x = At(rx_vi);
      if (x.answer_left > 1) {
        x.answer_left--;
        if (rng.Chance(1, 16)) {  // a complete but bad frame: nothing is reported
          rx = Rx::kReady;
          rx_vi = -1;
        } else {
          Tell(x, hvia::kReceiveReportProgress, 0, 0, 0);
        }
      } else {
        Tell(x, hvia::kReceiveReportAnswered, 0, 0, rng.Chance(k.fails, 1024) ? kProtection : 0);
      }
      return;
    }
    if (rx != Rx::kReady || rng.Chance(k.idle, 4)) return;
    const size_t from = rng.Below(kVis.size());
    for (size_t i = 0; i < kVis.size(); i++) {
      Vi& x = vis[kVis[(from + i) % kVis.size()]];
      const bool told = x.connected || rng.Chance(1, 8);
      if (!x.backward.empty() && x.backward.begin()->first <= now) {
        const Acknowledgement a = x.backward.begin()->second;
        x.backward.erase(x.backward.begin());
        if (!told) continue;
        Tell(x, hvia::kReceiveReportAcknowledge, a.number, a.code, 0);
        return;
      }
      if (!x.connected) continue;
      if (!x.to_answer.empty() && x.to_answer.front().first <= now && !x.silent && rng.Chance(1, 4)) {
        // The peer cannot serve the read (no right, or a transport error). It sends the NAK when
        // the read's turn comes, long after it acknowledged the request.
        if (!x.refused && x.answer_left == 0 && rng.Chance(k.refusals, 256)) {
          x.refused = true;
          x.refused_number = x.to_answer.front().second->number;
          x.refused_code = rng.Chance(1, 4) ? hvia::kAcknowledgeCodeTransport : hvia::kAcknowledgeCodeRDMAProtection;
          x.to_answer.clear();
          Say(x, x.refused_number, x.refused_code);
          continue;
        }
        rx_vi = x.index;
        rx_read = x.to_answer.front().second;
        if (x.answer_left == 0) x.answer_left = 1 + rng.Below(4);
        Tell(x, hvia::kReceiveReportFind, 0, 0, 0);
        return;
      }
      if (!x.requests.empty() && rng.Chance(1, x.ans.size() < kResponses ? 8 : 256)) {
        rx_request = x.requests.front();
        Tell(x, hvia::kReceiveReportRequest, rx_request->pa, 0, 0);
        return;
      }
    }
    if (rng.Chance(k.forged, 4096)) {
      Vi& x = vis[kVis[rng.Below(kVis.size())]];
      // Acknowledgements of past and future numbers, and a read response without a request.
      switch (rng.Below(4)) {
        case 0:
          // The number is far ahead because frames may go out before the ledger processes this.
          Tell(x, hvia::kReceiveReportAcknowledge, x.top + 40 + rng.Below(rng.Chance(1, 2) ? 4 : 1u << 30), rng.Below(8), 0);
          break;
        case 1:
          Tell(x, hvia::kReceiveReportAcknowledge, x.una - 1 - rng.Below(1u << 30), rng.Below(2), 0);
          break;
        case 2:
          Tell(x, hvia::kReceiveReportAcknowledge, x.una - 257 - rng.Below(1000), rng.Below(8), 0);
          break;
        default:
          Tell(x, rng.Chance(1, 2) ? hvia::kReceiveReportProgress : hvia::kReceiveReportFind, 0, 0, 0);
      }
      figures["cover_forged"]++;
    }
  }
  void Tell(Vi& x, unsigned op, uint32_t number, unsigned code, uint32_t status) {
    rx = Rx::kTell;
    rx_op = op;
    top->rxl_valid_i = 1;
    top->rxl_op_i = op;
    top->rxl_vi_i = x.index;
    const bool numbered = op == hvia::kReceiveReportAcknowledge || op == hvia::kReceiveReportRequest;
    top->rxl_number_i = numbered ? number : rng.Bits(32);
    top->rxl_code_i = op == hvia::kReceiveReportAcknowledge ? code : rng.Bits(3);
    top->rxl_status_i = status;
    const bool request = op == hvia::kReceiveReportRequest;
    top->rxl_va_i = request ? rx_request->va : rng.Next();
    top->rxl_handle_i = request ? rx_request->handle : rng.Bits(32);
    top->rxl_length_i = request ? rx_request->length : rng.Bits(32);
  }

  // ---- manager
  void Manage() {
    top->stale_start_i = 0;
    switch (command) {
      case Command::kNone:
        Next();
        break;
      case Command::kConnect:
        if (init_taken_was) {
          init_taken_was = false;
          top->led_init_valid_i = 0;
          Vi& x = At(command_vi);
          x.connected = true;
          command = Command::kNone;
        }
        break;
      case Command::kDisconnect: {
        top->flush_i = 1;
        if (Clear(VisBusy())) {
          top->flush_i = 0;
          Vi& x = At(command_vi);
          if (!x.own.empty()) Fail("VI %u is drained and has %zu messages", x.index, x.own.size());
          command = Command::kNone;
        }
        break;
      }
      case Command::kReset:
        if (step == 0) {
          top->clear_valid_i = 1;
          top->clear_vi_i = command_vi;
          top->clear_ready_i = rng.Chance(1, 4);
          if (top->clear_ready_i) step = 1;
        } else {
          top->clear_valid_i = top->clear_ready_i = 0;
          if (step++ == 1) {
            Vi& x = At(command_vi);
            for (auto& m : x.posted) m->completed = true;
            x.posted.clear();
            x.parked = false;
            for (auto it = fetched.begin(); it != fetched.end();) {
              if (it->first == x.index) {
                it->second->completed = true;
                it = fetched.erase(it);
              } else {
                it++;
              }
            }
          } else if (Clear(VisBusy())) {
            command = Command::kNone;
          }
        }
        break;
      case Command::kWithdraw: {
        if (!Clear(handle_busy_was || stale_busy_was || HandleBusy())) break;
        if (step == 0) {
          top->stale_start_i = 1;
          step = 1;
          stale_busy_was = true;
        } else {
          withdrawn.insert(top->drain_handle_i);
          command = Command::kNone;
        }
      }
    }
  }
  // True after two clocks in a row without busy.
  bool Clear(bool busy) {
    calm = busy ? 0 : calm + 1;
    return calm >= 2;
  }
  bool VisBusy() {
    const Vi& x = At(command_vi);
    if (vi_busy_was || !x.posted.empty() || rx_vi == x.index || (engine != Eng::kReady && e_vi == x.index) || (taken && taken->vi == x.index)) return true;
    return std::any_of(fetched.begin(), fetched.end(), [&](const auto& f) { return f.first == x.index; });
  }
  bool HandleBusy() {
    const uint32_t h = top->drain_handle_i;
    if (engine != Eng::kReady && ((e_message && !e_message->response && e_message->handle == h) || (led_message && led_message->handle == h))) return true;
    return std::any_of(fetched.begin(), fetched.end(), [&](const auto& f) { return f.second->handle == h; });
  }

  void Next() {
    calm = 0;
    step = 0;
    for (auto& [v, x] : vis) {
      if (x.lost && x.connected && x.disconnect_at <= now) return Disconnect(x);
    }
    if (unit::clocks() % 8 != 0) return;
    Vi& x = vis[kVis[rng.Below(kVis.size())]];
    if (!x.connected) {
      if (k.post != 0) Connect(x);
      return;
    }
    if (unit::clocks() % 64 != 0) return;
    if (rng.Chance(k.disconnects, 4096)) return Disconnect(x);
    if (rng.Chance(k.resets, 4096)) {
      command = Command::kReset;
      figures["cover_reset"]++;
      TakeDown(x);
    } else if (rng.Chance(k.withdrawals, 4096)) {
      command = Command::kWithdraw;
      const unsigned i = rng.Below(handles.size());
      dead.insert(handles[i]);
      top->drain_handle_i = handles[i];
      handles[i] = NewHandle();
      handle_busy_was = true;
      figures["cover_withdrawn"]++;
    }
  }
  void Connect(Vi& x) {
    command = Command::kConnect;
    command_vi = x.index;
    Wipe(x);
    const uint32_t number = rng.Chance(1, 2) ? 0u - rng.Below(40) : rng.Bits(32);
    // Windows smaller than the peer's acknowledgement interval stall inside a message.
    const unsigned windows[] = {4, 5, 8, 16, 64, 255, 1, 3};
    const unsigned limits[] = {0, 1, 3, 7};
    uint32_t transport = windows[rng.Below(k.longest <= 2 ? 8 : 6)] | limits[rng.Below(4)] << 8 | static_cast<uint32_t>(1 + rng.Below(4)) << 16 |
                         static_cast<uint32_t>(k.log2_lo + rng.Below(k.log2_hi - k.log2_lo + 1)) << 24;
    if (k.loss != 0 && rng.Chance(3, 4)) transport |= 0x1f00;
    x.expected = number;
    x.request_number = rng.Bits(32);
    top->led_init_valid_i = 1;
    top->seq_init_vi_i = x.index;
    top->tx_seq_init_value_i = number;
    top->seq_init_transport_i = transport;
  }
  void Disconnect(Vi& x) {
    command = Command::kDisconnect;
    figures["cover_disconnect"]++;
    TakeDown(x);
  }
  void TakeDown(Vi& x) {
    command_vi = x.index;
    top->drain_vi_i = x.index;
    vi_busy_was = true;
    x.connected = x.lost = false;
    Wipe(x);
  }
  // Removes a connection's wire and peer.
  void Wipe(Vi& x) {
    x.forward.clear();
    x.backward.clear();
    x.to_answer.clear();
    x.requests.clear();
    x.answers_wanted.clear();
    x.answer_left = x.unacked = x.index_next = 0;
    x.gap_told = x.refused = x.silent = false;
    x.receiving = nullptr;
    x.lost = false;
  }

  void AfterSample() override {
    top_quiet = top->quiet_o;
    vi_busy_was = top->vi_busy_o;
    handle_busy_was = top->handle_busy_o;
    stale_busy_was = top->stale_busy_o || top->stale_start_i;
    if (top->led_valid_i && top->led_ready_o) {
      led_answered = true;
      led_go = top->led_go_o && top->led_op_i != kFail;
      led_number = top->led_number_o;
      led_slot = top->led_slot_o;
      if (led_op == kSent && led_go && top->led_last_i) Fail("go after the last frame");
      if (led_alone) figures["open_clocks"] = std::max(figures["open_clocks"], unit::clocks() - led_since);
      if (led_alone) figures["opens_measured"]++;
      figures["led_clocks"] = std::max(figures["led_clocks"], unit::clocks() - led_since);
    }
    if (top->rxl_valid_i && top->rxl_ready_o) {
      rx_answered = true;
      rx_ok_was = rx_ok;
      rx_va = top->rxl_va_o;
    }
    if (top->led_init_valid_i && top->led_init_ready_o) init_taken_was = true;
    if (next_cpl && next_cpl->write && withdrawn.count(next_cpl->m->handle)) Fail("VI %u: a status is written through a handle that was withdrawn", next_cpl->vi);
  }

  Knobs k;
  bool few = false, was_quiet = false, top_quiet = false;
  std::array<uint32_t, 5> handles;
  uint32_t handle_count = 0;
  uint64_t ids = 0;
  std::set<uint32_t> dead, withdrawn;
  std::vector<Posted> all;
  std::deque<uint8_t> ready;
  std::deque<std::pair<uint8_t, Posted>> fetched;
  // Transmit engine.
  Eng engine = Eng::kReady;
  bool take_job = false, e_again = false, led_answered = false, led_go = false, led_alone = false;
  uint8_t e_vi = 0;
  unsigned e_slot = 0, led_slot = 0;
  uint32_t e_number = 0, e_first = 0, led_number = 0;
  int e_left = 0;
  Posted e_message;
  Led led_op = kOpen;
  uint64_t led_since = 0;
  // Receive engine. `rx_vi`: it writes a frame of a read response.
  Rx rx = Rx::kReady;
  unsigned rx_op = 0;
  int rx_vi = -1, rx_left = 0;
  bool rx_answered = false, rx_ok_was = false;
  uint64_t rx_va = 0;
  Posted rx_read;
  // Manager.
  Command command = Command::kNone;
  uint8_t command_vi = 0;
  unsigned step = 0, calm = 0;
  bool vi_busy_was = true, handle_busy_was = true, stale_busy_was = false, init_taken_was = false;
};

}  // namespace
