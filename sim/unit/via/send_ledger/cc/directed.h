// SPDX-License-Identifier: Apache-2.0

// Named cases with their expected outcomes. The model checks them too.
#pragma once
#include "sim/unit/via/send_ledger/cc/model.h"

namespace {

// A ledger under a test's control: each call is one handshake.
class Hand : public Model {
 public:
  explicit Hand(const char* name) : Model(1), name_(name) {
    manual = true;
    top->drain_vi_i = kVis[6];
    top->cpl_ready_i = top->nak_ready_i = top->async_ready_i = top->unhold_ready_i = 1;
  }

  void Step(unsigned clocks = 1) {
    while (clocks-- > 0) Clock(true);
  }

  void Connect(uint8_t v, uint32_t number, unsigned window = 16, unsigned retry_limit = 3, unsigned read_limit = 4, unsigned log2 = 12) {
    top->led_init_valid_i = 1;
    top->seq_init_vi_i = v;
    top->tx_seq_init_value_i = number;
    top->seq_init_transport_i = window | retry_limit << 8 | read_limit << 16 | log2 << 24;
    Step();
    top->led_init_valid_i = 0;
    Step(4);
  }

  // Opens a descriptor. Returns whether its frames may go at once.
  bool Open(uint8_t v, unsigned operation, unsigned frames = 1, bool fence = false, uint32_t status = 0, uint32_t handle = 7) {
    auto m = std::make_shared<Message>();
    m->reserved = operation == kUnreachable && status != 0;
    m->operation = m->reserved ? unsigned{hvia::kDescriptorOperationSend} : operation;
    m->fence = fence;
    m->frames = frames;
    m->length = (frames - 1) * hvia::kMaxPayload + 9;
    m->seq = seq_++;
    m->handle = handle;
    m->va = 64ull * m->seq;
    m->pa = 64u * m->seq;
    led_message = m;
    top->led_va_i = m->va;
    top->led_pa_i = m->pa;
    top->led_handle_i = handle;
    top->led_seq_i = m->seq;
    top->led_length_i = m->length;
    top->led_operation_i = operation;
    top->led_fence_i = fence;
    return Led(kOpen, v, 0, 0, false, status);
  }
  bool Led(enum Led op, uint8_t v, unsigned slot, uint32_t number, bool last, uint32_t status = 0) {
    top->led_valid_i = 1;
    top->led_op_i = op;
    top->led_vi_i = v;
    top->led_slot_i = slot;
    top->led_number_i = number;
    top->led_last_i = last;
    top->led_status_i = status;
    answered_ = false;
    for (clocks_ = 0; !answered_; clocks_++) Step();
    top->led_valid_i = 0;
    return go_;
  }
  bool Sent(uint8_t v, uint32_t number, bool last) { return Led(kSent, v, engine_slot, number, last); }
  // A complete message that goes at once.
  void Send(uint8_t v, unsigned operation, unsigned frames = 1) {
    Want(Open(v, operation, frames), "a message goes at once");
    for (unsigned i = 0; i < frames; i++) {
      const bool last = i + 1 == frames;
      Want(Sent(v, vis[v].next, last) == !last, "a frame is followed by the next");
    }
  }

  bool Tell(unsigned op, uint8_t v, uint32_t number = 0, unsigned code = 0, uint32_t status = 0) {
    top->rxl_valid_i = 1;
    top->rxl_op_i = op;
    top->rxl_vi_i = v;
    top->rxl_number_i = number;
    top->rxl_code_i = code;
    top->rxl_status_i = status;
    told_ = false;
    while (!told_) Step();
    top->rxl_valid_i = 0;
    return rx_ok;
  }
  void Alive(uint8_t v) {
    top->alive_valid_i = 1;
    top->alive_vi_i = v;
    Step();
    top->alive_valid_i = 0;
    Step(10);
  }
  void Ack(uint8_t v, uint32_t number, unsigned code = hvia::kAcknowledgeCodeOk) {
    Tell(hvia::kReceiveReportAcknowledge, v, number, code);
    Step(60);
  }
  bool Request(uint8_t v, uint32_t number, uint32_t length = 8) {
    auto m = std::make_shared<Message>();
    m->response = true;
    m->length = length;
    m->va = 0x5000 + number;
    m->handle = 0x77;
    m->pa = number;
    m->seq = number;
    rx_request = m;
    top->rxl_va_i = m->va;
    top->rxl_handle_i = m->handle;
    top->rxl_length_i = length;
    return Tell(hvia::kReceiveReportRequest, v, number);
  }
  bool Answered(uint8_t v, uint32_t status = 0) { return Tell(hvia::kReceiveReportAnswered, v, 0, 0, status); }

  // Takes the offered job, if any, and continues with it if requested.
  bool Job(uint8_t v, unsigned slot, uint32_t number) {
    Step(80);
    if (!job) return false;
    Want(job->vi == v && job->slot == slot && job->number == number, "the job is the one that is due");
    top->job_ready_i = 1;
    Step();
    top->job_ready_i = 0;
    taken.reset();
    return Led(kAsk, v, slot, number, false);
  }
  bool NoJob() {
    Step(80);
    return !job;
  }

  // The timer expires. If the ledger has postponed its deadline, the first expiry has no effect.
  void Timeout() {
    const uint64_t before = figures["timeouts"];
    for (int i = 0; figures["timeouts"] == before; i++) {
      Want(i < 3 && top->next_deadline_o != kNever, "a timer runs");
      now = std::max(now, static_cast<uint64_t>(top->next_deadline_o));
      Step(700);
    }
  }
  void Flush(uint8_t v) {
    top->drain_vi_i = v;
    top->flush_i = 1;
    Step(2);
    top->cpl_ready_i = 1;
    for (int i = 0; top->vi_busy_o; i++) {
      Step();
      Want(i < 1000, "a flush has an end");
    }
    top->flush_i = 0;
    Step(10);
  }

  void Want(bool condition, const char* what) {
    if (!condition) Fail("%s: not so: %s", name_, what);
  }
  // Expected statuses since the last call, without Done and operation, in order; likewise errors.
  void WantDone(std::vector<uint32_t> statuses, const char* what) {
    Step(200);
    Want(done == statuses, what);
    done.clear();
  }
  void WantErrors(std::vector<uint8_t> codes, const char* what) {
    Step(20);
    Want(errors == codes, what);
    errors.clear();
  }

  std::vector<uint32_t> done;
  std::vector<uint8_t> errors;
  unsigned clocks_ = 0;

 private:
  void AfterSample() override {
    if (top->led_valid_i && top->led_ready_o) {
      answered_ = true;
      go_ = top->led_go_o;
    }
    if (top->rxl_valid_i && top->rxl_ready_o) told_ = true;
    if (top->cpl_valid_o && top->cpl_ready_i) done.push_back(top->cpl_status_o & kErrors);
    if (top->async_valid_o) errors.push_back(top->async_code_o);
  }

  const char* name_;
  uint16_t seq_ = 0;
  bool answered_ = false, told_ = false, go_ = false;
};

constexpr unsigned kSend = hvia::kDescriptorOperationSend, kWrite = hvia::kDescriptorOperationRDMAWrite;
constexpr uint8_t kConnectionLost = hvia::kAsyncErrorConnectionLost;

void SequenceWrap() {
  Hand h("sequence wrap");
  h.Connect(2, 0xfffffffdu, 8);
  h.Send(2, kSend, 6);  // fffffffd .. 2
  h.Ack(2, 0xfffffffeu);
  h.Ack(2, 0u, hvia::kAcknowledgeCodeGap);  // fffffffe, ffffffff arrived, 0 is lost
  h.Want(h.Job(2, 0, 0), "continues from the missing frame");
  for (uint32_t n = 0; n < 3; n++) h.Want(h.Sent(2, n, n == 2) == (n != 2), "and sends the rest");
  h.WantDone({}, "not complete before its last frame is acknowledged");
  h.Ack(2, 2);
  h.WantDone({}, "nor with the last frame missing");
  h.Ack(2, 3);
  h.WantDone({0}, "complete after the wrap");
  h.Want(h.top->next_deadline_o == kNever, "no timer is left");
}

void RetryLimit() {
  Hand h("retry limit");
  h.Connect(2, 100, 8, 2);
  h.Send(2, kSend, 2);
  for (int i = 0; i < 2; i++) {
    h.Timeout();
    h.Want(h.Job(2, 0, 100), "again from the oldest frame");
    h.Sent(2, 100, false);
    h.Sent(2, 101, true);
  }
  h.Ack(2, 101);  // progress: the count starts again
  for (int i = 0; i < 2; i++) {
    h.Timeout();
    h.Want(h.Job(2, 0, 101), "again from the oldest frame");
    h.Sent(2, 101, true);
  }
  h.WantDone({}, "not given up");
  h.WantErrors({}, "not broken");
  h.Timeout();
  h.WantDone({kTransport}, "given up with the third timeout in a row");
  h.WantErrors({kConnectionLost}, "broken, once");
  h.Want(h.NoJob() && !h.Open(2, kSend), "nothing is sent any more");
  h.Want(h.top->next_deadline_o == kNever, "no timer is left");
  h.Flush(2);
  h.WantDone({kFlushed}, "later messages are flushed");
  h.WantErrors({}, "without another word");
}

// All is acknowledged, but the read response is missing. The request is retransmitted. Its
// acknowledgement confirms nothing new, but is a sign of life.
void ReadThatWaits() {
  Hand h("a read that waits for its answer");
  h.Connect(2, 100, 8, 2);
  h.Send(2, kWrite);
  h.Send(2, kRead);
  h.Send(2, kRead);
  h.Ack(2, 103);
  h.WantDone({0}, "the write is complete");
  for (int i = 0; i < 10; i++) {
    h.Timeout();
    h.Want(h.Job(2, 1, 101), "the request of the oldest read goes again");
    h.Want(!h.Sent(2, 101, true) && h.NoJob(), "once");
    if (i % 2 == 1) h.Ack(2, 103);
  }
  h.WantErrors({}, "the peer lives");
  // A probe is offered after the timeout and withdrawn when a message starts: the message's frame
  // requests an acknowledgement itself.
  h.Timeout();
  h.Step(80);
  h.Want(h.job && h.job->number == 101, "the request is offered again");
  h.Send(2, kSend);
  h.Want(h.NoJob(), "and withdrawn");
  h.Ack(2, 104);
  h.Want(h.Answered(2) && h.Answered(2), "both are answered");
  h.WantDone({0, 0, 0}, "all complete");
  h.Want(h.top->next_deadline_o == kNever, "no timer is left");
  // No further acknowledgement comes.
  h.Send(2, kRead);
  h.Ack(2, 105);
  for (int i = 0; i < 2; i++) {
    h.Timeout();
    h.Want(h.Job(2, 4, 104), "again");
    h.Sent(2, 104, true);
  }
  h.WantErrors({}, "not broken");
  h.Timeout();
  h.WantErrors({kConnectionLost}, "broken with the third timeout in a row");
  h.Flush(2);
  h.WantDone({kTransport}, "the read has failed");
}

// Frames of the peer are signs of life. They do not change the timer.
void FramesAreLife() {
  Hand h("frames of the peer");
  h.Connect(2, 100, 8, 1);
  h.Connect(kVIs - 1, 100, 8, 1);
  h.Send(2, kWrite);
  for (int i = 0; i < 5; i++) {
    const uint64_t deadline = h.vis[2].deadline;
    h.Alive(2);
    h.Want(h.vis[2].deadline == deadline && h.top->next_deadline_o <= deadline, "the timer runs on");
    h.Timeout();
    h.Want(h.Job(2, 0, 100), "again");
    h.Sent(2, 100, true);
  }
  h.WantErrors({}, "the peer lives");
  h.Alive(kVIs - 1);
  h.Timeout();
  h.WantErrors({kConnectionLost}, "a frame of another VI has no effect");
}

// The ledger also gives up a peer that lives and never answers.
void LifeWithoutProgress() {
  Hand h("a peer that lives and does not answer");
  h.Connect(2, 100, 8, 2);
  h.Send(2, kRead);
  h.Ack(2, 101);
  for (unsigned i = 0; i < 2 * kAliveFactor; i++) {
    h.Timeout();
    h.Want(h.Job(2, 0, 100), "again");
    h.Sent(2, 100, true);
    h.Ack(2, 101);
  }
  h.WantErrors({}, "not given up");
  h.Tell(hvia::kReceiveReportProgress, 2);  // a frame of the read response: the count starts again
  for (unsigned i = 0; i < 2 * kAliveFactor; i++) {
    h.Timeout();
    h.Alive(2);
  }
  h.WantErrors({}, "not given up");
  h.Timeout();
  h.WantErrors({kConnectionLost}, "given up");
  h.Flush(2);
  h.WantDone({kTransport}, "the read has failed");
}

void LostAcknowledgement() {
  Hand h("lost acknowledgement");
  h.Connect(2, 100);
  h.Send(2, kSend);
  h.Send(2, kWrite);
  h.Send(2, kSend);
  h.Ack(2, 102);  // that of the first is lost
  h.WantDone({0, 0}, "one acknowledgement completes two");
  h.Ack(2, 101);  // late
  h.Ack(2, 102);  // doubled
  h.Ack(2, 103);
  h.WantDone({0}, "and the last");
  h.WantErrors({}, "nothing broke");
}

void BothRingsFull() {
  Hand h("both rings full");
  h.Connect(2, 100, 255);
  for (unsigned i = 0; i < kMessages; i++) {
    h.Send(2, kSend);
    h.Step();
    h.Want(h.Held(2) == (i + 1 >= kMessages - kUnderWay), "the queue is held in time");
  }
  for (unsigned i = 0; i < kResponses; i++) h.Want(h.Request(2, 500 + i), "a request has space");
  h.Want(!h.Request(2, 510), "one more has none");
  for (unsigned i = 0; i < kResponses; i++) {
    const uint32_t n = 100 + kMessages + i;
    h.Want(h.Job(2, kMessages + i, n), "answers go in the order of the requests");
    h.Sent(2, n, true);
  }
  h.Ack(2, 100 + kMessages + 1);
  h.WantDone(std::vector<uint32_t>(kMessages, 0), "all messages complete");
  h.Want(!h.Held(2), "the queue is released");
  h.Want(h.Request(2, 510), "the first answer has left");
}

void AnswerBeforeFence() {
  Hand h("answer before fenced message");
  h.Connect(2, 100);
  h.Send(2, kRead);
  h.Want(!h.Open(2, kSend, 1, true), "a fenced message waits for the read");
  h.Want(!h.Open(2, kSend), "and the message after it");
  h.Want(h.NoJob(), "nothing is to be sent");
  // The peer does the same: its request comes before its read response.
  h.Want(h.Request(2, 900), "its request has space");
  h.Want(h.Job(2, kMessages, 101), "the answer goes before the fenced message");
  h.Sent(2, 101, true);
  h.Ack(2, 102);
  h.WantDone({}, "the read is not complete");
  h.Want(h.NoJob(), "the fence holds");
  h.Want(h.Answered(2), "the answer is here");
  h.Want(h.Job(2, 1, 102), "the fenced message goes");
  h.Sent(2, 102, true);
  h.Want(h.Job(2, 2, 103), "and the one after it");
  h.Sent(2, 103, true);
  h.Ack(2, 104);
  h.WantDone({0, 0, 0}, "all complete");
}

void RefusalBehindRead() {
  Hand h("NAK after an unanswered read");
  h.Connect(2, 100);
  h.Send(2, kRead);
  h.Send(2, kSend);
  h.Send(2, kSend);
  h.Ack(2, 101, hvia::kAcknowledgeCodeRemoteDescriptor);
  h.WantDone({}, "the NAK waits for the read before it");
  h.WantErrors({}, "and so does the end");
  h.Want(!h.Open(2, kSend) && h.NoJob(), "nothing more is sent");
  h.Ack(2, 101, hvia::kAcknowledgeCodeRemoteDescriptor);  // repeated
  h.Want(h.Answered(2), "the read is answered still");
  h.WantDone({0, kRemoteDescriptor}, "the read well, then the NAKed message");
  h.WantErrors({kConnectionLost}, "then the connection is lost");
  h.Flush(2);
  h.WantDone({kFlushed, kFlushed}, "the others are flushed");
}

// A message fails in its retransmission although the peer has received it. Its mark waits for a
// read.
void MarkBehindRead() {
  Hand h("a mark after an unanswered read");
  h.Connect(2, 100);
  h.Send(2, kRead);
  h.Send(2, kSend);
  h.Ack(2, 101);
  h.Timeout();
  h.Want(h.Job(2, 1, 101), "again");
  h.Led(kFail, 2, 1, 101, false, kProtection);
  h.Ack(2, 102);
  h.Want(!h.Open(2, kSend) && h.NoJob(), "nothing is started after it");
  h.WantDone({}, "it waits for its turn");
  h.Answered(2);
  h.WantDone({0, kProtection}, "which has come");
  h.WantErrors({kConnectionLost}, "and with it the end");
}

void FailOfAcknowledged() {
  Hand h("a message fails that its peer has");
  h.Connect(2, 100);
  h.Send(2, kRead);
  h.Send(2, kSend);
  h.Ack(2, 101);
  h.Timeout();
  h.Want(h.Job(2, 1, 101), "again");
  h.Ack(2, 102);
  h.Led(kFail, 2, 1, 101, false, kProtection);
  h.Answered(2);
  h.WantDone({0, 0}, "both went well");
  h.WantErrors({}, "nothing broke");
}

// While the receive engine writes a read response, the flush returns nothing.
void FlushBehindAnswer() {
  Hand h("flush while an answer comes in");
  h.Connect(2, 100);
  h.Send(2, kSend);
  h.Send(2, kRead);
  h.Send(2, kSend);
  h.top->cpl_ready_i = 0;
  h.Ack(2, 103);
  h.Want(h.Tell(hvia::kReceiveReportFind, 2), "the read is looked at");
  h.top->receive_busy_i = 1;
  h.top->drain_vi_i = 2;
  h.top->flush_i = 1;
  h.Step(100);
  h.top->cpl_ready_i = 1;
  h.WantDone({0}, "one that was in flight before");
  h.Want(h.top->vi_busy_o, "it is busy");
  h.top->receive_busy_i = 0;
  h.WantDone({kFlushed, 0}, "then the others");
}

void FlushEverything() {
  Hand h("flush with everything in every state");
  h.Connect(2, 100, 16, 3, 2);
  h.Send(2, kRead);  // answered, after a message that is unacknowledged at the flush
  h.Send(2, kSend);
  h.Send(2, kRead);
  h.Send(2, kWrite, 3);
  h.Want(!h.Open(2, kRead), "the read limit");
  h.Want(!h.Open(2, kSend, 1, false, kFormat), "an error found before it was sent");
  h.Want(!h.Open(2, kUnreachable), "one that could not be reached");
  h.Want(!h.Open(2, kSend), "one after it");
  h.Request(2, 7);
  h.top->cpl_ready_i = 0;
  h.Answered(2);      // also acknowledges the request
  h.Ack(2, 102);      // of the message after it
  h.Ack(2, 104);
  h.Flush(2);  // from now on completions are accepted again
  h.WantDone({0, 0, kFlushed, kFlushed, kFlushed, kFormat, kFlushed}, "each in its turn, with its own end");
  h.WantErrors({hvia::kAsyncErrorPostDescriptor}, "the one that has no status is reported");
  h.Want(h.NoJob() && !h.Request(2, 8) && h.top->next_deadline_o == kNever, "nothing is left");
  h.Want(!h.Open(2, kSend, 1, false, kFlushed), "what comes now");
  h.WantDone({kFlushed}, "is flushed, too");
  h.Connect(2, 5000);
  h.Send(2, kSend);
  h.Ack(2, 5001);
  h.WantDone({0}, "the next connection is not affected");
}

void GapOnce() {
  Hand h("a gap is one rewind");
  h.Connect(2, 100, 16);
  h.Send(2, kSend, 5);
  h.Ack(2, 101, hvia::kAcknowledgeCodeGap);
  h.Want(h.Job(2, 0, 101), "from the missing frame");
  h.Sent(2, 101, false);
  h.Sent(2, 102, false);
  h.Ack(2, 101, hvia::kAcknowledgeCodeGap);  // doubled by the wire
  h.Want(h.Sent(2, 103, false), "the second report changes nothing");
  h.Sent(2, 104, true);
  h.Timeout();
  h.Want(h.Job(2, 0, 101), "a timeout does");
  h.Sent(2, 101, false);
  h.Ack(2, 101, hvia::kAcknowledgeCodeGap);
  h.Want(!h.Sent(2, 102, false), "and a report after it");
  h.Want(h.Job(2, 0, 101), "begins anew");
  for (uint32_t n = 101; n < 105; n++) h.Sent(2, n, n == 104);
  h.Ack(2, 105);
  h.WantDone({0}, "at last");
}

void MovingWindow() {
  Hand h("moving window");
  h.Connect(2, 100, 16, 9);
  h.Open(2, kSend, 60);
  auto row = [&](uint32_t from) {
    uint32_t n = from;
    while (h.Sent(2, n, false)) n++;
    return n + 1 - from;
  };
  h.Want(row(100) == 16, "the window as agreed");
  const unsigned after[] = {8, 4, 4};
  for (unsigned frames : after) {
    h.Timeout();
    h.Want(h.Job(2, 0, 100), "again");
    h.Want(row(100) == frames, "half of it after each timeout, and as many as are acknowledged together at the least");
  }
  h.Ack(2, 104);
  h.Want(h.Job(2, 0, 104), "continues");
  h.Want(row(104) == 5, "one more after a whole window");
  h.Ack(2, 107);
  h.Want(h.Job(2, 0, 109), "when half of it is open");
  h.Want(row(109) == 3, "as long as there is space");
  h.Ack(2, 109);
  h.Ack(2, 110);
  h.Want(h.Job(2, 0, 112), "continues");
  h.Want(row(112) == 4, "one more after the next");
}

void LateRefusal() {
  Hand h("NAK of an acknowledged number");
  h.Connect(2, 100);
  h.Send(2, kSend);
  h.Send(2, kSend);
  h.Send(2, kSend);
  h.Ack(2, 101);
  h.WantDone({0}, "the first is complete");
  h.Ack(2, 100, hvia::kAcknowledgeCodeTransport);
  h.WantDone({}, "no message is marked for it");
  h.WantErrors({kConnectionLost}, "the connection is lost at once");
  h.Flush(2);
  h.WantDone({kFlushed, kFlushed}, "the others are flushed");
}

void LateRefusalOfRead() {
  Hand h("NAK of a read whose request was acknowledged");
  h.Connect(2, 100);
  h.Send(2, kRead);
  h.Send(2, kRead);
  h.Send(2, kSend);
  h.Ack(2, 102);
  h.Want(h.Answered(2), "the first is answered");
  h.WantDone({0}, "and complete");
  h.Ack(2, 101, hvia::kAcknowledgeCodeRDMAProtection);
  h.WantDone({kRdmaProtection}, "the other has the bit");
  h.WantErrors({kConnectionLost}, "the connection is lost");
  h.Flush(2);
  h.WantDone({kFlushed}, "later messages are flushed");
}

void ReservedOperation() {
  Hand h("a malformed descriptor of no operation");
  h.Connect(2, 100);
  h.Send(2, kSend);
  h.Want(!h.Open(2, kUnreachable, 1, false, kFormat), "it does not go");
  h.WantDone({}, "nor complete before its turn");
  h.Ack(2, 101);
  h.WantDone({0, kFormat}, "then with its bit");
  h.WantErrors({kConnectionLost}, "and the connection is lost");
}

void SentBehindGoingBack() {
  Hand h("a frame that was being built when the ledger rewound");
  h.Connect(2, 100, 16);
  h.Open(2, kSend, 4);
  h.Sent(2, 100, false);
  h.Sent(2, 101, false);
  h.Ack(2, 100, hvia::kAcknowledgeCodeGap);
  h.Want(!h.Sent(2, 102, false), "the message is dropped");
  h.Ack(2, 103);  // all three have arrived after all
  h.Want(h.Job(2, 0, 103), "continues after the frame that was in flight");
  h.Sent(2, 103, true);
  h.Ack(2, 104);
  h.WantDone({0}, "complete");
}

void ReadsInOrder() {
  Hand h("reads");
  h.Connect(2, 100, 16, 3, 2);
  h.Want(!h.Tell(hvia::kReceiveReportFind, 2), "there is none");
  h.Send(2, kRead);
  h.Send(2, kRead);
  h.Want(!h.Open(2, kRead) && h.NoJob(), "two at a time");
  h.Want(h.Tell(hvia::kReceiveReportFind, 2) && h.top->rxl_va_o == 0, "the oldest");
  h.Want(h.Answered(2) && h.Tell(hvia::kReceiveReportFind, 2) && h.top->rxl_va_o == 64, "then the next");
  h.WantDone({0}, "an answer acknowledges its request");
  h.Want(h.Job(2, 2, 102), "the third");
  h.Sent(2, 102, true);
  h.Want(h.Answered(2, kProtection), "an answer that has no place");
  h.WantDone({kProtection}, "is the read's own error");
  h.WantErrors({kConnectionLost}, "and the end");
  h.Want(!h.Tell(hvia::kReceiveReportFind, 2), "nothing is read into its buffers any more");
}

void ReadRefused() {
  Hand h("a read of the peer that is NAKed");
  h.Connect(2, 100);
  h.Request(2, 7);
  h.Request(2, 8);
  h.Want(h.Job(2, kMessages, 100), "the first");
  h.Sent(2, 100, true);
  h.Want(h.Job(2, kMessages + 1, 101), "the second");
  h.Led(kFail, 2, kMessages + 1, 101, false, kProtection);
  h.Step(100);
  h.WantErrors({}, "is reported when the first is acknowledged");
  h.top->nak_ready_i = 0;
  h.Ack(2, 101);
  h.Want(h.top->nak_valid_o && h.top->nak_number_o == 8 && h.top->nak_code_o == hvia::kAcknowledgeCodeRDMAProtection, "by the number of its request");
  h.top->nak_ready_i = 1;
  h.WantErrors({hvia::kAsyncErrorRDMAReadProtection}, "and here");
}

void WithdrawnHandle() {
  Hand h("a handle is withdrawn");
  h.Connect(2, 100);
  h.Connect(kVIs - 1, 100);
  h.Send(2, kSend);
  h.Open(2, kSend, 1, false, 0, 8);
  h.Sent(2, 101, true);
  h.Open(kVIs - 1, kSend, 1, false, 0, 8);
  h.Sent(kVIs - 1, 100, true);
  h.top->drain_handle_i = 8;
  h.top->stale_start_i = 1;
  h.Step();
  h.top->stale_start_i = 0;
  h.Step();
  for (int i = 0; h.top->stale_busy_o; i++) {
    h.Step();
    h.Want(i < 2000, "the search has an end");
  }
  h.top->cpl_ready_i = 0;
  h.Ack(2, 101);
  h.Want(h.top->cpl_valid_o && h.top->cpl_write_o && !h.top->handle_busy_o, "the first is written");
  h.top->cpl_ready_i = 1;
  h.Step();
  h.top->cpl_ready_i = 0;
  h.Ack(2, 102);
  h.Want(h.top->cpl_valid_o && !h.top->cpl_write_o && h.top->handle_busy_o, "the second is not");
  h.top->cpl_ready_i = 1;
  h.Step();
  h.top->cpl_ready_i = 0;
  h.Ack(kVIs - 1, 101);
  h.Want(h.top->cpl_valid_o && !h.top->cpl_write_o, "nor that of the last VI");
}

// Measures the clocks of Open, which add to the latency of every reliable message.
unsigned OpenClocks() {
  Hand h("open");
  h.Connect(2, 100);
  h.Step(50);
  h.Want(h.top->quiet_o, "it is quiescent");
  h.Want(h.Open(2, kSend), "it goes");
  return h.clocks_ - 1;
}

void Directed(std::map<std::string, uint64_t>* figures) {
  SequenceWrap();
  RetryLimit();
  ReadThatWaits();
  FramesAreLife();
  LifeWithoutProgress();
  LostAcknowledgement();
  BothRingsFull();
  AnswerBeforeFence();
  RefusalBehindRead();
  MarkBehindRead();
  FailOfAcknowledged();
  FlushBehindAnswer();
  FlushEverything();
  GapOnce();
  MovingWindow();
  LateRefusal();
  LateRefusalOfRead();
  ReservedOperation();
  SentBehindGoingBack();
  ReadsInOrder();
  ReadRefused();
  WithdrawnHandle();
  (*figures)["open_latency"] = OpenClocks();
}

}  // namespace
