// SPDX-License-Identifier: Apache-2.0

// Random commands for the VI manager, between models of its neighbours. A plain model of the card's
// state predicts the status and effects of each command.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>

#include "Vvi_manager_tb.h"
#include "sim/unit/internal/unit/neighbours.h"


namespace {

using unit::Fail;
using unit::kVIs;
using unit::Rng;
using unit::Traffic;

constexpr unsigned kBytes = TB_W / 8;
constexpr uint32_t kPages = 32;
constexpr uint32_t kPatience = 400;  // as in vi_manager_tb.sv
constexpr uint32_t kQueues = 1u << hvia::kProfiles[0].CompletionQueuesLog2;
constexpr uint64_t kCommandClocks = 200000;

struct Context {
  uint32_t word[4];
};

constexpr uint32_t StateOf(uint32_t attributes) { return attributes & hvia::kVIContextAttributesStateMask; }

// The table at the update port.
class UpdatePort {
 public:
  explicit UpdatePort(Rng* rng) : rng_(rng) {}

  void Drive(Traffic t) {
    ready = !busy_ && !rng_->Chance(t.pressure, 4);
    wready = busy_ && left_ > 0 && !rng_->Chance(t.pressure, 4);
    done = busy_ && left_ == 0 && wait_ == 0;
    error = done ? error_ : rng_->Bits(1);
  }

  void Sample(bool valid, uint8_t op, uint32_t arg, uint32_t count, bool wvalid, uint32_t wdata, Traffic t) {
    if (wvalid && !busy_) Fail("an update word without an update");
    if (done) {
      busy_ = false;
      if (!error_ && op_ == hvia::kAttUpdateInvalidate) {
        valid_handles.erase(arg_);
        invalidated = true;
      }
      if (!error_ && op_ == hvia::kAttUpdateLimit) {
        limit = arg_;
        valid_handles.clear();
      }
    } else if (busy_ && left_ == 0) {
      wait_--;
    }
    if (wvalid && wready) {
      sdram[arg_] = wdata;
      writes.push_back({arg_, wdata});
      arg_ += 4;
      left_--;
    }
    if (valid && ready) {
      busy_ = true;
      op_ = op;
      arg_ = arg;
      left_ = 0;
      wait_ = t.idle == 0 ? 2 : rng_->Below(20);
      error_ = false;
      operations++;
      if (op == hvia::kAttUpdateWrite) {
        left_ = count;
        if (count == 0 || count > 128 || arg % 4 != 0 || arg + 4 * count > hvia::kAttSdramBytes) Fail("update writes %u words at %08x", count, arg);
      } else if (op == hvia::kAttUpdateInvalidate) {
        error_ = valid_handles.count(arg) == 0;
      } else if (op == hvia::kAttUpdateLimit) {
        if (arg > hvia::kAttLevel1Count) Fail("level-1 limit %u", arg);
      } else {
        Fail("update operation %u", op);
      }
    }
  }

  std::map<uint32_t, uint32_t> sdram;
  std::vector<std::pair<uint32_t, uint32_t>> writes;
  std::set<uint32_t> valid_handles;
  uint32_t limit = 0;
  bool invalidated = false;
  uint64_t operations = 0;
  bool ready = false, wready = false, done = false, error = false;

 private:
  Rng* rng_;
  bool busy_ = false, error_ = false;
  uint8_t op_ = 0;
  uint32_t arg_ = 0, left_ = 0;
  uint64_t wait_ = 0;
};

// The engines' work: busy for some clocks with single idle clocks in between, then idle
// permanently. A manager that trusts a single idle clock completes too early.
class Drain {
 public:
  explicit Drain(Rng* rng) : rng_(rng) {}
  void Begin(bool storm) {
    spans_.clear();
    active = true;
    uint64_t bursts = rng_->Below(5);
    if (rng_->Chance(1, 2) && bursts > 0) spans_.push_back({false, 1});
    for (uint64_t i = 0; i < bursts; i++) {
      spans_.push_back({true, rng_->Range(1, 12)});
      spans_.push_back({false, 1});
    }
    until_held = storm;
    idle_for = 0;
  }
  // A doorbell storm lasts until the VI is held.
  bool Busy() const { return active && ((!spans_.empty() && spans_.front().first) || (spans_.empty() && until_held)); }
  void Clock() {
    if (!active) return;
    idle_for = Busy() ? 0 : idle_for + 1;
    if (!spans_.empty() && --spans_.front().second == 0) spans_.erase(spans_.begin());
  }
  bool Finished() const { return !active || (spans_.empty() && !until_held); }

  bool active = false, until_held = false;
  uint64_t idle_for = 0;

 private:
  Rng* rng_;
  std::vector<std::pair<bool, uint64_t>> spans_;
};

// The completion writer as commands see it: busy with a completion for some clocks, then ready.
class Queues {
 public:
  explicit Queues(Rng* rng) : rng_(rng) {}

  void Drive(bool valid, Traffic t) {
    if (valid && !waits_) {
      waits_ = true;
      left_ = t.idle == 0 ? 1 : rng_->Range(1, 40);
    }
    ready = waits_ && left_ == 0;
    ok = ready ? allowed : rng_->Bits(1);
    tail = rng_->Bits(16);
  }
  // Samples the command in the clock of ready.
  void Sample(bool valid, uint8_t op, uint32_t index, uint32_t address, uint32_t log2) {
    if (waits_ && !valid) Fail("a command for a completion queue is withdrawn");
    if (!waits_) return;
    if (ready) {
      done.push_back({op, index, address, log2});
      told = tail;
      waits_ = false;
    } else {
      left_--;
    }
  }

  bool allowed = true;  // answer to the next command, by the queue's state
  std::vector<std::array<uint32_t, 4>> done;
  uint32_t told = 0;
  bool ready = false, ok = false;
  uint32_t tail = 0;

 private:
  Rng* rng_;
  bool waits_ = false;
  uint64_t left_ = 0;
};

struct Command {
  uint32_t opcode = 0, index = 0, handle = 0, list = 0, count = 0, level2 = 0;
  std::array<uint32_t, 8> payload{};
};

class Testbench {
 public:
  explicit Testbench(uint64_t seed) : rng(seed), memory(kPages, &rng), top(std::make_unique<Vvi_manager_tb>()) {
    top->rst_ni = 1;
    top->eval();
    Reset();
  }

  // Resets the card and its neighbours, at any time.
  void Reset() {
    bus.emplace(&memory, &rng);
    table = std::make_unique<UpdatePort>(&rng);
    drain = std::make_unique<Drain>(&rng);
    queues = std::make_unique<Queues>(&rng);
    vis.clear();
    limit = 0;
    commands_done = 0;
    traces.clear();
    expect_drain = drain_begun = false;
    top->rst_ni = 0;
    top->clk_i = 0;
    top->cmd_valid_i = 0;
    unit::Edge(top.get(), {&top->clk_i});
    Tick();
    top->rst_ni = 1;
    Tick();
    resets++;
  }

  // One clock: inputs, settle, check, edge.
  void Tick() {
    bus->Drive(traffic);
    table->Drive(traffic);
    bus->Show(*top);
    top->upd_ready_i = table->ready;
    top->upd_wready_i = table->wready;
    top->upd_done_i = table->done;
    top->upd_error_i = table->error;
    top->tx_seq_init_ready_i = !rng.Chance(traffic.pressure, 4);
    top->rx_seq_init_ready_i = !rng.Chance(traffic.pressure, 4);
    top->led_init_ready_i = !rng.Chance(traffic.pressure, 4);
    top->clear_ready_i = !rng.Chance(traffic.pressure, 4);
    queues->Drive(top->cqc_valid_o, traffic);
    top->cqc_ready_i = queues->ready;
    top->cqc_ok_i = queues->ok;
    top->cqc_tail_i = queues->tail;
    // The other drain line is random.
    top->drain_handle_busy_i = drain_by_handle ? drain->Busy() : rng.Bits(1);
    top->drain_vi_busy_i = drain_by_handle ? rng.Bits(1) : drain->Busy();
    top->timebase_i = timebase;
    bus->Settle(*top);
    Check();
    bool quiet = top->quiet_o && top->context_quiet_o;
    uint64_t deadline = top->next_deadline_o;
    unit::Clock(*top);
    timebase++;
    quiet_clocks += quiet;
    if (quiet && deadline != kNever && timebase < deadline && rng.Chance(1, 8)) timebase = deadline;
  }

  void Check() {
    bus->Sample(*top);
    table->Sample(top->upd_valid_o, top->upd_op_o, top->upd_arg_o, top->upd_count_o, top->upd_wvalid_o,
                  top->upd_wdata_o, traffic);
    queues->Sample(top->cqc_valid_o, top->cqc_op_o, top->cqc_index_o, top->cqc_address_o, top->cqc_log2_o);
    // A tie comes with the write of its context.
    const bool brings = top->ctx_wr_valid_o && (now.opcode == hvia::kCommandOpcodeCreateVI || now.opcode == hvia::kCommandOpcodeConnectVI ||
                                                now.opcode == hvia::kCommandOpcodeModifyVI);
    if (top->cq_tie_valid_o != brings) Fail("opcode %u ties queues %d", now.opcode, top->cq_tie_valid_o);
    if (brings && (top->cq_tie_vi_o != now.index || top->cq_tie_send_o != (now.payload[7] & 0xff) ||
                   top->cq_tie_receive_o != (now.payload[7] >> 8 & 0xff))) {
      Fail("VI %u is tied to %u and %u by payload word %08x", top->cq_tie_vi_o, top->cq_tie_send_o, top->cq_tie_receive_o, now.payload[7]);
    }
    if (top->req_valid_o && top->req_write_o) {
      if (!drain->Finished() || (drain->active && drain->idle_for < 2)) {
        Fail("the result of opcode %u is written while an engine still holds work", now.opcode);
      }
    }
    if (!drain_begun) {
      bool begin = false;
      if (now.opcode == hvia::kCommandOpcodeDeregisterMemory) begin = table->invalidated;
      else if (now.opcode == hvia::kCommandOpcodeDestroyVI) begin = watch_live && !top->live_o;
      else begin = top->ctx_wr_valid_o;
      if (begin && expect_drain) {
        drain->Begin(storm);
        drain_begun = true;
        write_clock = unit::clocks();
      } else {
        drain->Clock();
      }
    } else {
      if (drain->active && watch_live && now.opcode == hvia::kCommandOpcodeDisconnectVI && !top->live_o) {
        if (drain->until_held) holds++;
        drain->until_held = false;
        held = true;
        if (timebase < write_time + kPatience) Fail("doorbells rejected %" PRIu64 " clocks after a disconnect", timebase - write_time);
      }
      drain->Clock();
    }
    if (top->stale_start_o) {
      stales++;
      if (now.opcode != hvia::kCommandOpcodeDeregisterMemory || !drain->Finished() || drain->idle_for < 2) {
        Fail("descriptors marked by opcode %u before the engines were drained", now.opcode);
      }
      // Busy: the search, and work that had started to use a marked descriptor.
      drain->Begin(false);
    }
    bool flushes = now.opcode == hvia::kCommandOpcodeDisconnectVI || now.opcode == hvia::kCommandOpcodeDestroyVI;
    if (top->flush_o && !(flushes && context_writes == 1)) Fail("opcode %u flushes queues", now.opcode);
    if (!top->flush_o && flushes && drain->Busy() && drain_begun && context_writes == 1) {
      Fail("opcode %u waits for queues that it does not flush", now.opcode);
    }
    if (top->ctx_wr_valid_o) {
      context_writes++;
      if (context_writes == 1) write_time = timebase;
      if (flushes) {
        uint32_t end = now.opcode == hvia::kCommandOpcodeDestroyVI ? hvia::kVIStateFree : hvia::kVIStateIdle;
        uint32_t want = context_writes == 1 ? static_cast<uint32_t>(hvia::kVIStateError) : end;
        if (top->ctx_wr_state_o != want) Fail("opcode %u: write %u makes the state %u", now.opcode, context_writes, top->ctx_wr_state_o);
        if (context_writes == 2 && (!drain->Finished() || drain->idle_for < 2)) Fail("VI %u left state Error before it was drained", now.index);
      }
      if (top->ctx_wr_vi_o != now.index) Fail("context of VI %u written, not of %u", top->ctx_wr_vi_o, now.index);
      if (now.opcode == hvia::kCommandOpcodeConnectVI && !(tx_sequence && rx_sequence && led_sequence)) {
        Fail("VI %u became Connected before its sequence numbers were set", now.index);
      }
    }
    if (top->tx_seq_init_valid_o && top->tx_seq_init_ready_i) {
      if (top->seq_init_vi_o != now.index || top->tx_seq_init_value_o != now.payload[4] || tx_sequence) {
        Fail("sequence %08x of VI %u to the transmit engine", top->tx_seq_init_value_o, top->seq_init_vi_o);
      }
      tx_sequence = true;
    }
    if (top->rx_seq_init_valid_o && top->rx_seq_init_ready_i) {
      if (top->seq_init_vi_o != now.index || top->rx_seq_init_value_o != now.payload[5] || rx_sequence) {
        Fail("sequence %08x of VI %u to the receive engine", top->rx_seq_init_value_o, top->seq_init_vi_o);
      }
      rx_sequence = true;
    }
    if (top->led_init_valid_o && top->led_init_ready_i) {
      if (top->seq_init_vi_o != now.index || top->tx_seq_init_value_o != now.payload[4] || top->seq_init_transport_o != now.payload[6] ||
          led_sequence) {
        Fail("sequence %08x and transport %08x of VI %u to the ledger", top->tx_seq_init_value_o, top->seq_init_transport_o,
             top->seq_init_vi_o);
      }
      led_sequence = true;
    }
    if (top->clear_valid_o && top->clear_ready_i) {
      if (top->clear_vi_o != now.index || now.opcode != hvia::kCommandOpcodeResetVI || context_writes != 1) {
        Fail("queue of VI %u cleared by opcode %u", top->clear_vi_o, now.opcode);
      }
      clears++;
    }
    if (now.opcode == hvia::kCommandOpcodeDeregisterMemory && expect_drain && drain_begun &&
        top->drain_handle_o != now.handle) {
      Fail("draining handle %08x, not %08x", top->drain_handle_o, now.handle);
    }
    if (drain_begun && !drain_by_handle && top->drain_vi_o != now.index && !top->irq_command_done_o && top->cmd_busy_o) {
      Fail("draining VI %u, not %u", top->drain_vi_o, now.index);
    }
    irqs += top->irq_command_done_o;
    goods += top->stat_command_o;
    bads += top->stat_command_error_o;
    if (top->trace_valid_o) {
      traces.push_back({top->trace_event_o, top->trace_vi_o});
      if (top->trace_seq_o != (commands_done & 0xffff)) Fail("command %" PRIu64 " traced as %u", commands_done, top->trace_seq_o);
    }
  }

  void Idle(uint64_t n) {
    for (uint64_t i = 0; i < n; i++) Tick();
  }

  uint32_t Word(uint32_t addr) const {
    uint32_t v;
    std::memcpy(&v, &memory.bytes[addr], 4);
    return v;
  }
  void SetWord(uint32_t addr, uint32_t v) { std::memcpy(&memory.bytes[addr], &v, 4); }

  Context Show(uint8_t vi) {
    top->rd_vi_i = vi;
    Idle(2);
    Context c;
    for (int i = 0; i < 4; i++) c.word[i] = top->rd_ctx_o[i];
    return c;
  }

  // Writes the block of a command.
  uint32_t Prepare(const Command& c) {
    now = c;
    uint32_t addr = static_cast<uint32_t>(rng.Below(8 * unit::kPage / 64)) * 64;  // pages 0..7: blocks, 8..: lists
    SetWord(addr + hvia::kCommandOpcodeOffset, c.opcode);
    SetWord(addr + hvia::kCommandIndexOffset, c.index);
    SetWord(addr + hvia::kCommandHandleOffset, c.handle);
    SetWord(addr + hvia::kCommandListAddressOffset, c.list);
    SetWord(addr + hvia::kCommandListCountOffset, c.count);
    SetWord(addr + hvia::kCommandLevel2AddressOffset, c.level2);
    for (unsigned i = 0; i < 8; i++) SetWord(addr + hvia::kCommandPayloadOffset + 4 * i, c.payload[i]);
    SetWord(addr + hvia::kCommandDetailOffset, rng.Bits(32));
    SetWord(addr + hvia::kCommandStatusOffset, 0);
    expect_drain = false;
    drain_by_handle = c.opcode == hvia::kCommandOpcodeDeregisterMemory;
    watch_live = c.index < kVIs;
    top->live_vi_i = watch_live ? c.index : 0;
    table->writes.clear();
    table->invalidated = false;
    drain->active = drain_begun = held = storm = false;
    tx_sequence = rx_sequence = led_sequence = false;
    queues->done.clear();
    queues->allowed = rng.Chance(3, 4);
    context_writes = 0;
    clears = irqs = goods = bads = stales = 0;
    traces.clear();
    memory.written = 0;
    return addr;
  }

  void Start(uint32_t addr) {
    top->cmd_valid_i = 1;
    top->cmd_addr_i = addr;
    Tick();
    top->cmd_valid_i = 0;
  }

  // Reset during a command. Afterwards every VI is Free and no level-1 index is valid.
  void Interrupt(const Command& c) {
    uint32_t status, detail;
    std::vector<std::pair<uint32_t, uint32_t>> want;
    bool changes_vi;
    uint32_t addr = Prepare(c);
    Predict(c, 0, &status, &detail, &want, &changes_vi);
    Start(addr);
    Idle(rng.Below(rng.Bits(1) ? 60 : 600));
    Reset();
    for (unsigned vi = 0; vi < 6; vi++) {
      if (StateOf(Show(vi).word[0]) != hvia::kVIStateFree) Fail("VI %u is not Free after reset", vi);
    }
  }

  // Runs a command and checks all its effects.
  void Run(const Command& c, unsigned fail_read, bool fail_write) {
    uint32_t addr = Prepare(c);
    std::vector<uint8_t> block(&memory.bytes[addr], &memory.bytes[addr] + 56);

    // The expected outcome.
    uint32_t status = hvia::kCommandStatusDone, detail = 0;
    std::vector<std::pair<uint32_t, uint32_t>> want;
    bool changes_vi = false;
    Predict(c, fail_read, &status, &detail, &want, &changes_vi);
    storm = expect_drain && c.opcode == hvia::kCommandOpcodeDisconnectVI && rng.Chance(1, 16);
    bus->reads.fail_in = fail_read;
    bus->writes.fail_in = fail_write;
    uint64_t limit_before = table->limit;

    Start(addr);
    uint64_t start = unit::clocks();
    while (top->cmd_busy_o) {
      if (unit::clocks() - start > kCommandClocks) Fail("opcode %u has not ended after %" PRIu64 " clocks", c.opcode, kCommandClocks);
      Tick();
    }
    bus->reads.fail_in = bus->writes.fail_in = 0;

    Idle(rng.Below(4) == 0 ? 2 : 0);
    if (irqs != !fail_write) Fail("%u interrupts after opcode %u", irqs, c.opcode);
    bool good = status == hvia::kCommandStatusDone && !fail_write;
    if (goods != good || bads != !good) Fail("opcode %u, status %u: counted %u done, %u rejected", c.opcode, status, goods, bads);
    if (traces.size() != 1u + !fail_write || traces[0].first != hvia::kTraceEventCommandStart ||
        (!fail_write && (traces[1].first != hvia::kTraceEventCommandDone ||
                         traces[1].second != (fetch_failed ? traces[1].second : (c.index & 0xff))))) {
      Fail("opcode %u left %zu trace records", c.opcode, traces.size());
    }
    commands_done++;
    if (std::memcmp(block.data(), &memory.bytes[addr], 56) != 0) Fail("opcode %u changed its own block", c.opcode);
    if (memory.written != (fail_write ? 0 : 8)) Fail("opcode %u wrote %" PRIu64 " bytes", c.opcode, memory.written);
    // Commands and results of the completion writer.
    if (queues->done.size() != (queue_command ? 1u : 0u)) Fail("opcode %u gave %zu commands for completion queues", c.opcode, queues->done.size());
    if (queue_command) {
      const bool ring = c.opcode != hvia::kCommandOpcodeDestroyCompletionQueue;
      const auto& d = queues->done[0];
      const uint32_t op = c.opcode == hvia::kCommandOpcodeCreateCompletionQueue ? 0 : ring ? 2 : 1;
      if (d[0] != op || d[1] != c.index || (ring && (d[2] != c.list || d[3] != c.count))) {
        Fail("opcode %u: operation %u of completion queue %u at %08x with 2^%u entries", c.opcode, d[0], d[1], d[2], d[3]);
      }
      if (status == hvia::kCommandStatusDone && c.opcode != hvia::kCommandOpcodeCreateCompletionQueue) detail = queues->told;
    }
    if (!fail_write && (Word(addr + hvia::kCommandStatusOffset) != status || Word(addr + hvia::kCommandDetailOffset) != detail)) {
      Fail("opcode %u index %x: status %u detail %08x, want %u %08x", c.opcode, c.index,
           Word(addr + hvia::kCommandStatusOffset), Word(addr + hvia::kCommandDetailOffset), status, detail);
    }
    if (table->writes != want) {
      Fail("opcode %u stored %zu words in the table, want %zu, or other ones", c.opcode, table->writes.size(), want.size());
    }
    if (c.opcode != hvia::kCommandOpcodeInitialiseAtt && table->limit != limit_before) Fail("limit changed by opcode %u", c.opcode);
    if (expect_drain != drain_begun) Fail("opcode %u: drained %d, want %d", c.opcode, drain_begun, expect_drain);
    bool twice = c.opcode == hvia::kCommandOpcodeDisconnectVI || c.opcode == hvia::kCommandOpcodeDestroyVI;
    if (stales != (expect_drain && drain_by_handle)) Fail("opcode %u marked descriptors %u times", c.opcode, stales);
    if (context_writes != (changes_vi ? 1u + twice : 0u)) Fail("opcode %u wrote %u contexts", c.opcode, context_writes);
    if (clears != (changes_vi && c.opcode == hvia::kCommandOpcodeResetVI)) Fail("opcode %u cleared %u queues", c.opcode, clears);
    seen[c.opcode < kOpcodes ? c.opcode : kOpcodes][status]++;
    failed_writes += fail_write;

    uint8_t vi = watch_live ? c.index : rng.Below(kVIs);
    Context got = Show(vi);
    Context model = vis.count(vi) ? vis[vi] : Context{{static_cast<uint32_t>(hvia::kVIStateFree), 0, 0, 0}};
    if (std::memcmp(got.word, model.word, sizeof got.word) != 0) {
      Fail("VI %u after opcode %u: context %08x %08x %08x %08x, want %08x %08x %08x %08x", vi, c.opcode, got.word[0],
           got.word[1], got.word[2], got.word[3], model.word[0], model.word[1], model.word[2], model.word[3]);
    }
    top->live_vi_i = vi;
    Idle(1);
    if (top->live_o != (vis.count(vi) != 0)) Fail("VI %u live %d after opcode %u", vi, top->live_o, c.opcode);
    Idle(1);
    if (!top->quiet_o || !top->context_quiet_o) Fail("idle, but not quiet");
  }

  void Predict(const Command& c, unsigned fail_read, uint32_t* status, uint32_t* detail,
               std::vector<std::pair<uint32_t, uint32_t>>* want, bool* changes_vi) {
    fetch_failed = fail_read == 1;
    queue_command = false;
    if (fetch_failed) {
      *status = hvia::kCommandStatusBusError;
      return;
    }
    bool vi_ok = c.index < kVIs;
    uint32_t attributes = vi_ok && vis.count(c.index) ? vis[c.index].word[0] : hvia::kVIStateFree;
    uint32_t state = StateOf(attributes);
    bool list_ok = c.count == 0 || (c.count <= 1024 && c.list % 4 == 0 && c.list % unit::kPage + 4 * c.count <= unit::kPage &&
                                    c.level2 % 4 == 0 && c.level2 >= hvia::kAttLevel2Base &&
                                    static_cast<uint64_t>(c.level2) + 4 * c.count <= hvia::kAttSdramBytes);
    auto argument = [&](bool ok) {
      if (!ok) *status = hvia::kCommandStatusBadArgument;
      return ok;
    };
    auto allowed = [&](bool ok) {
      if (!argument(vi_ok)) return false;
      if (!ok) {
        *status = hvia::kCommandStatusBadState;
        *detail = attributes;
      }
      return ok;
    };
    auto list = [&] {
      unsigned reads_left = fail_read == 0 ? ~0u : fail_read - 1;
      for (uint32_t i = 0, n; i < c.count; i += n) {
        n = (hvia::kProfiles[0].DmaBurstBytes - (c.list + 4 * i) % kBytes) / 4;
        if (--reads_left == 0) {
          *status = hvia::kCommandStatusBusError;
          return false;
        }
        for (uint32_t k = i; k < std::min(i + n, c.count); k++) want->push_back({c.level2 + 4 * k, Word(c.list + 4 * k)});
      }
      return true;
    };
    auto put = [&](const uint32_t* words, uint32_t new_state) {
      Context k;
      std::copy(words, words + 4, k.word);
      k.word[0] = (k.word[0] & ~hvia::kVIContextAttributesStateMask) | new_state;
      *changes_vi = true;
      if (new_state == hvia::kVIStateFree) vis.erase(c.index);
      else vis[c.index] = k;
    };
    auto queue = [&](bool ok) {
      if (!argument(ok)) return;
      queue_command = true;
      if (!queues->allowed) *status = hvia::kCommandStatusBadState;
    };
    const bool ring_ok = c.index < kQueues && c.list % unit::kPage == 0 && c.count >= hvia::kCompletionQueueMinLog2 &&
                         c.count <= hvia::kCompletionQueueMaxLog2;
    const Context free_vi{{static_cast<uint32_t>(hvia::kVIStateFree), 0, 0, 0}};
    Context old = vi_ok && vis.count(c.index) ? vis[c.index] : free_vi;
    switch (c.opcode) {
      case hvia::kCommandOpcodeNop: break;
      case hvia::kCommandOpcodeInitialiseAtt:
        if (argument(c.index <= hvia::kAttLevel1Count)) limit = c.index;
        break;
      case hvia::kCommandOpcodeWriteLevel2:
        if (argument(list_ok)) list();
        break;
      case hvia::kCommandOpcodeRegisterMemory:
        if (argument(list_ok && c.index < limit) && list()) {
          for (uint32_t i = 0; i < 6; i++) want->push_back({c.index * hvia::kAttLevel1Stride + 4 * i, c.payload[i]});
          table->valid_handles.insert(c.handle);
        }
        break;
      case hvia::kCommandOpcodeDeregisterMemory:
        if (argument(c.handle != 0 && (c.handle & 0xfffff) < limit && table->valid_handles.count(c.handle))) {
          expect_drain = true;
        }
        break;
      case hvia::kCommandOpcodeCreateVI:
        if (allowed(state == hvia::kVIStateFree)) put(c.payload.data(), hvia::kVIStateIdle);
        break;
      case hvia::kCommandOpcodeDestroyVI:
        if (allowed(state == hvia::kVIStateIdle)) {
          expect_drain = true;
          put(old.word, hvia::kVIStateFree);
        }
        break;
      case hvia::kCommandOpcodeConnectVI:
        if (allowed(state == hvia::kVIStateIdle)) put(c.payload.data(), hvia::kVIStateConnected);
        break;
      case hvia::kCommandOpcodeDisconnectVI:
        if (allowed(state != hvia::kVIStateFree)) {
          expect_drain = true;
          put(old.word, hvia::kVIStateIdle);
        }
        break;
      case hvia::kCommandOpcodeModifyVI:
        if (allowed(state == hvia::kVIStateIdle)) put(c.payload.data(), hvia::kVIStateIdle);
        break;
      case hvia::kCommandOpcodeQueryVI:
        if (argument(vi_ok)) *detail = attributes;
        break;
      case hvia::kCommandOpcodeResetVI:
        if (argument(vi_ok)) {
          expect_drain = true;
          put(old.word, hvia::kVIStateFree);
        }
        break;
      case hvia::kCommandOpcodeCreateCompletionQueue:
      case hvia::kCommandOpcodeResizeCompletionQueue: queue(ring_ok); break;
      case hvia::kCommandOpcodeDestroyCompletionQueue: queue(c.index < kQueues); break;
      default: *status = hvia::kCommandStatusBadOpcode;
    }
  }

  Command Random() {
    Command c;
    for (auto& w : c.payload) w = rng.Bits(32);
    c.opcode = rng.Chance(1, 16) ? (rng.Bits(1) ? rng.Range(kOpcodes, 255) : rng.Bits(24) << 8 | rng.Below(kOpcodes)) : rng.Below(kOpcodes);
    if (c.opcode == hvia::kCommandOpcodeInitialiseAtt && rng.Chance(3, 4)) c.opcode = hvia::kCommandOpcodeDeregisterMemory;
    if (c.opcode == hvia::kCommandOpcodeResetVI && rng.Chance(1, 2)) c.opcode = hvia::kCommandOpcodeConnectVI;
    c.index = rng.Bits(32);
    c.handle = rng.Bits(32);
    c.list = rng.Bits(32);
    c.count = rng.Bits(32);
    c.level2 = rng.Bits(32);
    switch (c.opcode) {
      case hvia::kCommandOpcodeInitialiseAtt: {
        const uint32_t limits[] = {4096, 4096, 4096, 4096, 0, 1, 64, hvia::kAttLevel1Count, hvia::kAttLevel1Count + 1, 0x80000001};
        c.index = limits[rng.Below(10)];
        break;
      }
      case hvia::kCommandOpcodeWriteLevel2:
      case hvia::kCommandOpcodeRegisterMemory: {
        const uint32_t counts[] = {0, 1, 2, 127, 128, 129, 256, 1023, 1024, 1025};
        c.count = rng.Bits(1) ? counts[rng.Below(10)] : rng.Range(1, 300);
        uint32_t room = c.count <= 1024 ? unit::kPage - 4 * c.count : 0;
        uint32_t offset = static_cast<uint32_t>(rng.Below(room / 4 + 1)) * 4;
        if (rng.Chance(1, 8)) offset = (room + 4) % unit::kPage;  // one entry into the next page
        c.list = static_cast<uint32_t>(rng.Range(8, kPages - 2)) * unit::kPage + offset;
        if (rng.Chance(1, 32)) c.list += rng.Range(1, 3);
        uint32_t end = c.count <= 1024 ? hvia::kAttSdramBytes - 4 * c.count : hvia::kAttLevel2Base;
        const uint32_t places[] = {hvia::kAttLevel2Base, end, end + 4, hvia::kAttLevel2Base - 4, hvia::kAttLevel2Base + 2, 0xfffffffc};
        c.level2 = rng.Chance(1, 6) ? places[rng.Below(6)] : hvia::kAttLevel2Base + static_cast<uint32_t>(rng.Below(4096)) * 4;
        const uint32_t indices[] = {0, limit, limit - 1, hvia::kAttLevel1Count, hvia::kAttLevel1Count - 1};
        c.index = rng.Chance(1, 4) ? indices[rng.Below(5)] : rng.Below(64);
        if (rng.Chance(1, 4)) c.handle = rng.Bits(12) << 20 | (c.index & 0xfffff);
        else c.handle = static_cast<uint32_t>(rng.Range(1, 2) << 20) | (c.index & 0xfffff);
        break;
      }
      case hvia::kCommandOpcodeDeregisterMemory:
        if (rng.Chance(1, 8)) {
          c.handle = rng.Bits(1) ? 0 : (1u << 20 | (limit & 0xfffff));
        } else if (!table->valid_handles.empty()) {
          auto it = table->valid_handles.begin();
          std::advance(it, rng.Below(table->valid_handles.size()));
          c.handle = *it;
        }
        break;
      case hvia::kCommandOpcodeCreateCompletionQueue:
      case hvia::kCommandOpcodeDestroyCompletionQueue:
      case hvia::kCommandOpcodeResizeCompletionQueue: {
        const uint32_t indices[] = {0, kQueues - 1, kQueues, 256, 0x80000000};
        c.index = rng.Chance(1, 4) ? indices[rng.Below(5)] : rng.Below(kQueues);
        c.list &= ~(unit::kPage - 1);
        if (rng.Chance(1, 8)) c.list |= 1u << rng.Below(12);
        const uint32_t counts[] = {0, 13, 256 + 4, 0x80000004};
        c.count = rng.Chance(1, 4) ? counts[rng.Below(4)] : rng.Range(hvia::kCompletionQueueMinLog2, hvia::kCompletionQueueMaxLog2);
        break;
      }
      default: {
        const uint32_t edges[] = {kVIs - 1, kVIs, 0x100, 0x10001, 0x80000000};
        c.index = rng.Chance(1, 8) ? edges[rng.Below(5)] : rng.Below(6);
      }
    }
    return c;
  }

  static constexpr unsigned kOpcodes = hvia::kCommandOpcodeResizeCompletionQueue + 1;
  static constexpr uint64_t kNever = 0xffffffffffffull;

  Rng rng;
  unit::Memory memory;
  const std::unique_ptr<Vvi_manager_tb> top;
  std::optional<unit::SystemBus<kBytes>> bus;
  std::unique_ptr<UpdatePort> table;
  std::unique_ptr<Drain> drain;
  std::unique_ptr<Queues> queues;
  std::map<uint32_t, Context> vis;
  uint32_t limit = 0;
  Traffic traffic{0, 0};
  Command now;
  bool expect_drain = false, drain_begun = false, drain_by_handle = false, storm = false, held = false;
  bool watch_live = false, fetch_failed = false, queue_command = false;
  bool tx_sequence = false, rx_sequence = false, led_sequence = false;
  unsigned context_writes = 0, clears = 0, irqs = 0, goods = 0, bads = 0, stales = 0;
  std::vector<std::pair<uint32_t, uint32_t>> traces;
  uint64_t timebase = 0, write_time = 0, write_clock = 0, commands_done = 0;
  uint64_t seen[kOpcodes + 1][8] = {};
  uint64_t holds = 0, resets = 0, misaligned = 0, failed_writes = 0, quiet_clocks = 0;
};

}  // namespace

int main(int argc, char** argv) {
  unit::Start(argc, argv);
  Testbench testbench(unit::options().seed);

  for (uint64_t i = 0; i < unit::options().size; i++) {
    testbench.traffic = unit::kTraffic[testbench.rng.Below(5)];
    if (testbench.rng.Chance(1, 64)) {
      // A misaligned address starts nothing and is counted.
      testbench.bads = testbench.goods = testbench.irqs = 0;
      testbench.traces.clear();
      testbench.top->cmd_valid_i = 1;
      testbench.top->cmd_addr_i = static_cast<uint32_t>(testbench.rng.Below(1000)) * 64 + static_cast<uint32_t>(testbench.rng.Range(1, 63));
      testbench.Tick();
      testbench.top->cmd_valid_i = 0;
      testbench.Idle(20);
      if (testbench.bads != 1 || testbench.goods || testbench.irqs || !testbench.traces.empty() || testbench.top->cmd_busy_o || !testbench.bus->reads.Idle()) {
        Fail("a misaligned command address was not rejected");
      }
      testbench.misaligned++;
    }
    unsigned fail_read = testbench.rng.Chance(1, 12) ? testbench.rng.Range(1, 4) : 0;
    testbench.Run(testbench.Random(), fail_read, testbench.rng.Chance(1, 40));
    if (testbench.rng.Chance(1, 100)) testbench.Interrupt(testbench.Random());
  }
  for (unsigned op = 0; op <= Testbench::kOpcodes; op++) {
    for (unsigned s = 0; s < 8; s++) {
      if (testbench.seen[op][s]) std::printf("op%u_status%u %" PRIu64 "\n", op, s, testbench.seen[op][s]);
    }
  }
  std::printf("holds %" PRIu64 "\nresets %" PRIu64 "\nmisaligned %" PRIu64 "\nfailed_writes %" PRIu64 "\nclocks %" PRIu64
              "\nquiet_clocks %" PRIu64 "\nupdates %" PRIu64 "\npassed 1\n",
              testbench.holds, testbench.resets, testbench.misaligned, testbench.failed_writes, unit::clocks(), testbench.quiet_clocks,
              testbench.table->operations);
  return 0;
}
