// SPDX-License-Identifier: Apache-2.0

// Random host accesses, events and resets for the registers, the counters and the reset sequence. A
// plain model predicts the host's reads and the card's inputs.
#include <array>
#include <deque>
#include <memory>
#include <string>

#include "Vregisters_tb.h"
#include "sim/unit/internal/unit/testbench.h"
#include "sim/gen/hvia_layout.h"
#include "sim/gen/hvia_params.h"

namespace {

using unit::Fail;
using unit::Rng;

constexpr unsigned kCounters = hvia::kCounterSlots;

struct Ring {
  uint32_t base = 0, size = 0, tail = 0;
};

struct Model {
  bool enable = false;
  uint32_t irq_status = 0, irq_enable = 0;
  uint64_t mac = 0;
  uint32_t level1 = 0, level2 = 0;
  Ring tx, rx;
  std::deque<uint32_t> async;  // code and VI of the waiting ones, oldest first
  bool overflow = false;
  uint32_t async_count = 0;
  std::array<uint32_t, hvia::kAsyncErrorDroppedWords> async_dropped{};
  std::array<uint32_t, kCounters> counter{};
};

struct Beat {
  uint32_t addr, data, be;
};

class Testbench {
 public:
  explicit Testbench(uint64_t seed) : rng(seed), top(std::make_unique<Vregisters_tb>()) {
    // Power-up: a reset that is low from the start has no edge, so the clocks must apply it.
    // Assertions are off, because registers hold noise.
    Verilated::assertOn(false);
    top->bus_idle_i = 1;
    top->rst_ni = 0;
    for (int i = 0; i < 4; i++) ResetEdge();
    Verilated::assertOn(true);
    PinReset();
  }

  // One core clock. The other clocks run at changing ratios.
  void Tick() {
    Inputs();
    top->eval();
    TickChosen();
  }

  // A clock with inputs already set.
  void TickChosen() {
    Check();
    unsigned sd = rng.Below(5), mac = rng.Below(3);
    if (slow_others) sd = mac = rng.Chance(1, 6);
    while (sd + mac > 0) {
      if (rng.Below(sd + mac) < sd) {
        OtherEdge(&top->sd_clk_i, &top->sd_rst_no, "SDRAM");
        sd--;
      } else {
        OtherEdge(&top->mac_clk_i, &top->mac_rst_no, "MAC");
        mac--;
      }
    }
    bool sd_rst = top->sd_rst_no, mac_rst = top->mac_rst_no, live = top->bus_rst_no, core_reset = !top->core_rst_no;
    top->clk_i = 1;
    top->eval();
    // State reports the card's state of two clocks ago.
    live = live && top->bus_rst_no;
    quiet_seen = live && quiet_then;
    quiet_then = live && top->card_quiet_i;
    if ((top->sd_rst_no && !sd_rst) || (top->mac_rst_no && !mac_rst)) Fail("a reset was released by a foreign clock");
    top->clk_i = 0;
    top->eval();
    if (core_reset) Forget();
    unit::clocks()++;
  }

  void ResetEdge() { unit::Edge(top.get(), {&top->sd_clk_i, &top->mac_clk_i, &top->clk_i}); }

  void OtherEdge(CData* clock, CData* own, const char* name) {
    bool core = top->core_rst_no, sd = top->sd_rst_no, mac = top->mac_rst_no;
    *clock = 1;
    top->eval();
    if ((top->core_rst_no && !core) || (top->sd_rst_no && !sd && own != &top->sd_rst_no) ||
        (top->mac_rst_no && !mac && own != &top->mac_rst_no)) {
      Fail("a reset was released by the %s clock", name);
    }
    *clock = 0;
    top->eval();
  }

  // The core is in reset: its state is lost.
  void Forget() {
    model = Model();
    core_resets += !in_reset;
    in_reset = true;
  }

  void Inputs() {
    auto rare = [&](unsigned den) { return !calm && rng.Chance(1, den); };
    top->irq_command_done_i = rare(irq_every);
    top->irq_raw_receive_i = rare(irq_every);
    top->irq_raw_transmit_i = rare(irq_every);
    top->irq_bus_error_i = rare(irq_every);
    top->irq_notify_i = rare(irq_every);
    top->info_data_i = rng.Bits(32);
    top->async_valid_i = rare(async_every);
    top->async_code_i = rng.Chance(1, 4) ? rng.Range(hvia::kAsyncErrorLinkDown, hvia::kAsyncErrorLinkUp) : rng.Bits(8);
    top->async_vi_i = rng.Bits(8);
    if (!calm) {
      top->ready_i = !rng.Chance(1, 8);
      top->cmd_busy_i = rng.Bits(1);
      top->card_quiet_i = rng.Bits(1);
      top->link_down_i = rng.Bits(1);
      top->rawtx_head_i = rng.Bits(8);
      top->rawrx_head_i = rng.Bits(8);
      top->rawtx_busy_i = rng.Bits(1);
      top->rawrx_busy_i = rng.Bits(1);
      // The straps are valid while the card is in reset, and random afterwards.
      if (top->core_rst_no) top->strap_i = rng.Bits(32);
    }
    top->db_wready_i = rng.Bits(1);
    for (int w = 0; w < 4; w++) top->strobe_i[w] = 0;
    auto strobe = [&](unsigned n) { top->strobe_i[n / 32] |= 1u << (n % 32); };
    if (!calm && top->core_rst_no) {
      // One counter is hit in every clock, as by a write burst. Others are hit sometimes, rarely
      // all at once.
      if (burst == 0 && rng.Chance(1, 60)) {
        burst = static_cast<unsigned>(rng.Range(1, 200));
        hot = rng.Below(kCounters);
      }
      if (burst > 0) {
        burst--;
        strobe(hot);
      }
      if (rng.Chance(1, 3)) strobe(rng.Below(kCounters));
      if (settle == 0 && burst == 0 && rng.Chance(1, 300)) {
        for (int w = 0; w < 4; w++) top->strobe_i[w] = rng.Bits(32);
        settle = 300;
      }
      if (settle > 0) {
        if (--settle < 299) {
          for (int w = 0; w < 4; w++) top->strobe_i[w] = 0;
        }
        if (settle > 160) burst = 0;
      }
    }
  }

  uint32_t Pending() const {
    uint32_t set = 0;
    auto bit = [&](size_t lsb, bool v) { set |= static_cast<uint32_t>(v) << lsb; };
    bit(hvia::kRegisterInterruptStatusCommandDoneLsb, top->irq_command_done_i);
    bit(hvia::kRegisterInterruptStatusRawReceiveLsb, top->irq_raw_receive_i);
    bit(hvia::kRegisterInterruptStatusRawTransmitLsb, top->irq_raw_transmit_i);
    bit(hvia::kRegisterInterruptStatusAsyncErrorLsb, top->async_valid_i);
    bit(hvia::kRegisterInterruptStatusBusErrorLsb, top->irq_bus_error_i);
    bit(hvia::kRegisterInterruptStatusNotifyLsb, top->irq_notify_i);
    return set;
  }

  // Before the edge: checks the outputs, then applies the clock's events to the model.
  void Check() {
    bool held = top->busy_o;
    if (!top->core_rst_no || !top->bus_rst_no) {
      if (!held) Fail("not busy in reset");
    } else {
      in_reset = false;
    }
    if (top->mac_o != model.mac) Fail("MAC %012" PRIx64 ", want %012" PRIx64, static_cast<uint64_t>(top->mac_o), model.mac);
    if (top->enable_o != (model.enable && !held)) Fail("enable %d", top->enable_o);
    if (top->inta_o != ((model.irq_status & model.irq_enable) != 0)) Fail("INTA %d with %02x of %02x", top->inta_o, model.irq_status, model.irq_enable);
    if (top->att_level1_o != model.level1 || top->att_level2_o != model.level2) {
      Fail("the table lies at %08x and %08x, want %08x and %08x", top->att_level1_o, top->att_level2_o, model.level1, model.level2);
    }
    CheckRing("transmit", model.tx, top->rawtx_base_o, top->rawtx_size_o, top->rawtx_tail_o);
    CheckRing("receive", model.rx, top->rawrx_base_o, top->rawrx_size_o, top->rawrx_tail_o);
    if (top->quiesce_o && !top->bus_idle_i && !top->core_rst_no) Fail("the core is in reset while the bus is not idle");

    bool write = top->tgt_wvalid_i && top->tgt_wready_o;
    bool reg = write && !top->tgt_wbar_i && !held;
    uint32_t addr = top->tgt_waddr_i, data = top->tgt_wdata_i, be = top->tgt_wbe_i;
    bool command = reg && addr == hvia::kRegisterCommandAddressOffset;
    bool start = command && be == 0xf && top->ready_i && !top->cmd_busy_i;
    if (top->cmd_valid_o != start || (start && top->cmd_addr_o != data)) Fail("command started %d, want %d", top->cmd_valid_o, start);
    if (top->stat_command_ignored_o != (command && !start)) Fail("ignored command counted %d", top->stat_command_ignored_o);
    commands += start;
    ignored += command && !start;
    bool arm = reg && addr == hvia::kRegisterNotifyArmOffset && be == 0xf;
    if (top->arm_valid_o != arm) Fail("armed %d by a write of %08x to %05x, bytes %x", top->arm_valid_o, data, addr, be);
    if (arm && (top->arm_index_o != (data & hvia::kRegisterNotifyArmIndexMask) >> hvia::kRegisterNotifyArmIndexLsb ||
                top->arm_kind_o != (data & hvia::kRegisterNotifyArmKindMask) >> hvia::kRegisterNotifyArmKindLsb)) {
      Fail("armed kind %u, index %u by %08x", top->arm_kind_o, top->arm_index_o, data);
    }
    armings += arm;
    half_armings += reg && addr == hvia::kRegisterNotifyArmOffset && be != 0xf;
    bool restart_tx = reg && (addr == hvia::kRegisterRawTransmitBaseOffset || addr == hvia::kRegisterRawTransmitSizeOffset);
    bool restart_rx = reg && (addr == hvia::kRegisterRawReceiveBaseOffset || addr == hvia::kRegisterRawReceiveSizeOffset);
    if (top->rawtx_restart_o != restart_tx || top->rawrx_restart_o != restart_rx) Fail("a ring restarts on a write to %05x", addr);

    if (top->db_wvalid_o && top->db_wready_i) {
      if (doorbells.empty() || doorbells.front().addr != top->db_waddr_o || doorbells.front().data != top->db_wdata_o ||
          doorbells.front().be != top->db_wbe_o) {
        Fail("doorbell write %08x to %05x without a host write", top->db_wdata_o, top->db_waddr_o);
      }
      doorbells.pop_front();
      doorbell_writes++;
    }
    if (write && top->tgt_wbar_i && held) {
      doorbells.pop_front();
      dropped++;
    }

    // The address goes out in the clock in which the word is sampled.
    bool info = top->tgt_rvalid_i && !reading && !top->tgt_rbar_i && top->tgt_raddr_i == hvia::kRegisterNotifyInfoOffset;
    if (top->info_read_o != info) Fail("a name is taken %d by a read of %05x", top->info_read_o, top->tgt_raddr_i);
    info_reads += info;
    if (top->tgt_rvalid_i && !reading) {
      reading = true;
      read_clock = unit::clocks();
      expected = Read(top->tgt_rbar_i, top->tgt_raddr_i);
      if (!top->tgt_rbar_i) TakeAway(top->tgt_raddr_i, expected);
      expected_counter = !top->tgt_rbar_i && top->tgt_raddr_i >= hvia::kCounterBase && top->tgt_raddr_i < hvia::kCounterBase + 4 * kCounters;
    }

    if (!top->core_rst_no) return;
    if (reg) Write(addr, data, be);
    model.irq_status |= Pending();
    if (top->async_valid_i) {
      model.async_count++;
      if (model.async.size() < hvia::kAsyncErrorSlots) {
        model.async.push_back(top->async_code_i | top->async_vi_i << 8);
        async_kept++;
        async_room += made_room;
      } else {
        model.overflow = true;
        // Errors of the link belong to no VI.
        const bool link = top->async_code_i == hvia::kAsyncErrorLinkDown || top->async_code_i == hvia::kAsyncErrorLinkUp;
        if (!link) model.async_dropped[top->async_vi_i / 32] |= 1u << (top->async_vi_i % 32);
        async_dropped++;
        async_late += read_dropped == top->async_vi_i / 32;
      }
    }
    made_room = false;
    read_dropped = ~0u;
    for (unsigned n = 0; n < kCounters; n++) model.counter[n] += top->strobe_i[n / 32] >> (n % 32) & 1;
  }

  // Applies the side effects of a read to the model.
  void TakeAway(uint32_t addr, uint32_t word) {
    if (addr == hvia::kRegisterAsyncErrorInfoOffset) {
      async_none += model.async.empty();
      async_overflow += model.overflow;
      made_room = model.async.size() == hvia::kAsyncErrorSlots;
      model.overflow = false;
      if (!model.async.empty()) {
        model.async.pop_front();
        async_taken++;
      }
    }
    if (addr >= hvia::kAsyncErrorDroppedBase && addr < hvia::kAsyncErrorDroppedBase + 4 * hvia::kAsyncErrorDroppedWords) {
      read_dropped = (addr - hvia::kAsyncErrorDroppedBase) / 4;
      model.async_dropped[read_dropped] = 0;
      async_marks += word != 0;
    }
  }

  void CheckRing(const char* name, const Ring& want, uint32_t base, uint32_t size, uint32_t tail) {
    if (base != want.base || size != want.size || tail != want.tail) {
      Fail("%s ring base %08x size %u tail %u, want %08x %u %u", name, base, size, tail, want.base, want.size, want.tail);
    }
  }

  static uint32_t Merge(uint32_t old, uint32_t data, uint32_t be) {
    for (int i = 0; i < 4; i++) {
      if (be >> i & 1) old = (old & ~(0xffu << (8 * i))) | (data & 0xffu << (8 * i));
    }
    return old;
  }

  void WriteRing(Ring* ring, uint32_t which, uint32_t data, uint32_t be) {
    switch (which) {
      case 0: ring->base = Merge(ring->base, data & ~15u, be); break;
      case 1:
        if (be & 1) ring->size = (data & 0xff) > 8 ? 0 : data & 0xff;
        break;
      default:
        if (be & 1) ring->tail = data & 0xff;
    }
    if (which < 2) ring->tail = 0;
  }

  void Write(uint32_t addr, uint32_t data, uint32_t be) {
    switch (addr) {
      case hvia::kRegisterControlOffset:
        if (be & 1) model.enable = data & hvia::kRegisterControlEnableMask;
        break;
      case hvia::kRegisterInterruptStatusOffset:
        if (be & 1) model.irq_status &= ~data;
        break;
      case hvia::kRegisterInterruptEnableOffset:
        if (be & 1) model.irq_enable = data & 0x3f;
        break;
      case hvia::kRegisterMacLowOffset:
        model.mac = (model.mac & ~0xffffffffull) | Merge(static_cast<uint32_t>(model.mac), data, be);
        break;
      case hvia::kRegisterMacHighOffset:
        model.mac = (model.mac & 0xffffffffull) | static_cast<uint64_t>(Merge(model.mac >> 32, data, be) & 0xffff) << 32;
        break;
      case hvia::kRegisterAttHostLevel1Offset: model.level1 = Merge(model.level1, data & ~0xfffu, be); break;
      case hvia::kRegisterAttHostLevel2Offset: model.level2 = Merge(model.level2, data & ~0xfffu, be); break;
      case hvia::kRegisterRawTransmitBaseOffset: WriteRing(&model.tx, 0, data, be); break;
      case hvia::kRegisterRawTransmitSizeOffset: WriteRing(&model.tx, 1, data, be); break;
      case hvia::kRegisterRawTransmitTailOffset: WriteRing(&model.tx, 2, data, be); break;
      case hvia::kRegisterRawReceiveBaseOffset: WriteRing(&model.rx, 0, data, be); break;
      case hvia::kRegisterRawReceiveSizeOffset: WriteRing(&model.rx, 1, data, be); break;
      case hvia::kRegisterRawReceiveTailOffset: WriteRing(&model.rx, 2, data, be); break;
      default: break;
    }
  }

  uint32_t Read(bool bar, uint32_t addr) const {
    if (bar) return 0;
    bool held = top->busy_o;
    switch (addr) {
      case hvia::kRegisterIDOffset: return hvia::kCardID;
      case hvia::kRegisterVersionOffset: return hvia::kCardVersionMajor << 8 | hvia::kCardVersionMinor;
      case hvia::kRegisterLayoutHashLowOffset: return static_cast<uint32_t>(hvia::kLayoutHash);
      case hvia::kRegisterLayoutHashHighOffset: return hvia::kLayoutHash >> 32;
      case hvia::kRegisterCapabilityOffset:
        return static_cast<uint32_t>(VI_COUNT_LOG2) | 4 << 8 | 1 << 16 | (hvia::kReliabilityUnreliable | hvia::kReliabilityDelivery | hvia::kReliabilityReception) << 20 | 1 << 23 |
               hvia::kProfiles[0].CompletionQueuesLog2 << hvia::kRegisterCapabilityCompletionQueuesLog2Lsb |
               (top->strap_o >> hvia::kStrapAttInHostMemory & 1) << hvia::kRegisterCapabilityTableInHostMemoryLsb;
      case hvia::kRegisterStrapOffset: return top->strap_o;
      case hvia::kRegisterControlOffset: return held | model.enable << 1;
      case hvia::kRegisterStateOffset: return (top->ready_i && !held) | top->cmd_busy_i << 1 | quiet_seen << 2 | top->link_down_i << 3;
      case hvia::kRegisterInterruptStatusOffset: return model.irq_status;
      case hvia::kRegisterInterruptEnableOffset: return model.irq_enable;
      case hvia::kRegisterMacLowOffset: return static_cast<uint32_t>(model.mac);
      case hvia::kRegisterMacHighOffset: return model.mac >> 32;
      case hvia::kRegisterAttHostLevel1Offset: return model.level1;
      case hvia::kRegisterAttHostLevel2Offset: return model.level2;
      case hvia::kRegisterRawTransmitBaseOffset: return model.tx.base;
      case hvia::kRegisterRawTransmitSizeOffset: return model.tx.size | static_cast<uint32_t>(top->rawtx_busy_i) << 31;
      case hvia::kRegisterRawTransmitTailOffset: return model.tx.tail;
      case hvia::kRegisterRawTransmitHeadOffset: return top->rawtx_head_i;
      case hvia::kRegisterRawReceiveBaseOffset: return model.rx.base;
      case hvia::kRegisterRawReceiveSizeOffset: return model.rx.size | static_cast<uint32_t>(top->rawrx_busy_i) << 31;
      case hvia::kRegisterRawReceiveTailOffset: return model.rx.tail;
      case hvia::kRegisterRawReceiveHeadOffset: return top->rawrx_head_i;
      case hvia::kRegisterAsyncErrorInfoOffset:
        return (model.async.empty() ? 0 : model.async.front() | hvia::kRegisterAsyncErrorInfoValidMask) |
               (model.overflow ? hvia::kRegisterAsyncErrorInfoOverflowMask : 0) |
               model.async_count << hvia::kRegisterAsyncErrorInfoCountLsb;
      case hvia::kRegisterNotifyInfoOffset: return top->info_data_i;
      default:
        if (addr >= hvia::kAsyncErrorDroppedBase && addr < hvia::kAsyncErrorDroppedBase + 4 * hvia::kAsyncErrorDroppedWords) {
          return model.async_dropped[(addr - hvia::kAsyncErrorDroppedBase) / 4];
        }
        return 0;
    }
  }

  void HostWrite(bool bar, uint32_t addr, unsigned beats) {
    for (unsigned i = 0; i < beats; i++) {
      top->tgt_wvalid_i = 1;
      top->tgt_wbar_i = bar;
      top->tgt_waddr_i = (addr + 4 * i) & 0xfffff;
      top->tgt_wdata_i = WriteData(rng.Bits(32), bar, top->tgt_waddr_i);
      top->tgt_wbe_i = rng.Chance(1, 3) ? rng.Bits(4) : 0xf;
      if (bar) doorbells.push_back({top->tgt_waddr_i, top->tgt_wdata_i, top->tgt_wbe_i});
      for (unsigned wait = 0;; wait++) {
        Inputs();
        top->eval();
        bool taken = top->tgt_wready_o;
        TickChosen();
        if (taken) break;
        if (wait > 200) Fail("a write is not taken");
      }
      top->tgt_wvalid_i = 0;
      if (rng.Chance(1, 4)) Tick();
      writes++;
    }
    Tick();
  }

  uint32_t HostRead(bool bar, uint32_t addr) {
    top->tgt_rvalid_i = 1;
    top->tgt_rbar_i = bar;
    top->tgt_raddr_i = addr;
    reading = false;
    for (unsigned wait = 0; wait < 12; wait++) {
      Inputs();
      top->eval();
      bool answer = top->tgt_rready_o;
      uint32_t data = top->tgt_rdata_o;
      TickChosen();
      if (answer) {
        top->tgt_rvalid_i = 0;
        reads++;
        if (wait > 4) Fail("a read took %u clocks", wait);
        if (!expected_counter && data != expected) Fail("read of bar %d %05x: %08x, want %08x", bar, addr, data, expected);
        return data;
      }
    }
    Fail("a read of %05x is not answered", addr);
  }

  // Reads like a driver: until the queue is empty, at most once per slot.
  void DrainAsync() {
    for (unsigned i = 0;; i++) {
      uint32_t word = HostRead(false, hvia::kRegisterAsyncErrorInfoOffset);
      if (!(word & hvia::kRegisterAsyncErrorInfoValidMask)) return;
      if (i < hvia::kAsyncErrorSlots) continue;
      if (calm) Fail("more than %u asynchronous errors waited", hvia::kAsyncErrorSlots);
      return;
    }
  }

  // Hits some counters in every clock.
  void Storm(unsigned counters) {
    for (int i = 0; i < 300; i++) {
      Inputs();
      for (int w = 0; w < 4; w++) top->strobe_i[w] = 0;
      for (unsigned n = 0; n < counters; n++) top->strobe_i[n % 4] |= 1u << n;
      top->eval();
      TickChosen();
    }
    CheckCounters();
  }

  // Checks the counters after everything has settled.
  void CheckCounters() {
    calm = true;
    for (int i = 0; i < 400; i++) Tick();
    if (!top->counters_quiet_o || !top->registers_quiet_o || !top->reset_quiet_o) {
      Fail("idle, but not quiet: registers %d counters %d reset %d", top->registers_quiet_o, top->counters_quiet_o, top->reset_quiet_o);
    }
    for (unsigned n = 0; n < kCounters; n++) {
      uint32_t got = HostRead(false, hvia::kCounterBase + 4 * n);
      if (got != model.counter[n]) Fail("counter %u is %u, want %u", n, got, model.counter[n]);
      counted += got;
    }
    DrainAsync();
    calm = false;
  }

  void SoftReset() {
    uint64_t before = core_resets;
    uint32_t straps = 0;
    top->bus_idle_i = 0;
    // Straps of the next reset, valid from its start.
    top->tgt_wvalid_i = 1;
    top->tgt_wbar_i = 0;
    top->tgt_waddr_i = hvia::kRegisterControlOffset;
    top->tgt_wdata_i = hvia::kRegisterControlSoftResetMask | rng.Bits(1) << 1;
    top->tgt_wbe_i = 0xf;
    Tick();
    top->tgt_wvalid_i = 0;
    if (!top->busy_o) Fail("no soft reset");
    for (uint64_t i = rng.Below(40); i > 0; i--) {
      Tick();
      if (!top->core_rst_no || !top->quiesce_o) Fail("soft reset before the bus is idle");
    }
    if (rng.Bits(1)) {
      HostWrite(rng.Bits(1), hvia::kRegisterMacLowOffset, 2);
      HostRead(false, hvia::kRegisterControlOffset);
    }
    top->bus_idle_i = 1;
    slow_others = rng.Bits(1);
    for (unsigned i = 0; top->busy_o; i++) {
      if (i > 400) Fail("soft reset does not end");
      if (!top->bus_rst_no) Fail("the bus side is reset by a soft reset");
      if (!top->core_rst_no) straps = top->strap_i;
      if (rng.Chance(1, 4)) HostRead(rng.Bits(1), rng.Bits(1) ? hvia::kRegisterControlOffset : hvia::kCounterBase);
      else if (rng.Chance(1, 4)) HostWrite(rng.Bits(1), hvia::kRegisterMacLowOffset, 1);
      else Tick();
    }
    slow_others = false;
    if (core_resets != before + 1) Fail("soft reset without a reset of the core");
    if (top->strap_o != straps) Fail("straps %08x, want %08x", top->strap_o, straps);
    soft_resets++;
    CheckCounters();
  }

  void PinReset() {
    doorbells.clear();
    top->tgt_wvalid_i = top->tgt_rvalid_i = 0;
    top->rst_ni = 0;
    top->eval();
    if (top->bus_rst_no || top->core_rst_no || top->sd_rst_no || top->mac_rst_no) Fail("RST# does not reset at once");
    ResetEdge();
    Forget();
    reading = false;
    for (uint64_t i = rng.Below(4); i > 0; i--) Tick();
    top->rst_ni = 1;
    for (unsigned i = 0; i == 0 || top->busy_o; i++) {
      if (i > 400) Fail("power-up reset does not end");
      Tick();
    }
    pin_resets++;
  }

  static uint32_t WriteData(uint32_t random, bool bar, uint32_t addr) {
    if (bar) return random;
    // Random writes request no soft reset.
    if (addr == hvia::kRegisterControlOffset) return random & ~1u;
    bool size = addr == hvia::kRegisterRawTransmitSizeOffset || addr == hvia::kRegisterRawReceiveSizeOffset;
    return size && random >> 31 ? random & 15 : random;
  }

  Rng rng;
  const std::unique_ptr<Vregisters_tb> top;
  Model model;
  bool calm = false, in_reset = false, reading = false, expected_counter = false, slow_others = false;
  uint32_t expected = 0;
  uint64_t read_clock = 0;
  bool quiet_then = false, quiet_seen = false;
  unsigned burst = 0, hot = 0, settle = 0;
  unsigned irq_every = 20;       // clocks between two events of a cause: a lost one shows until the next
  unsigned async_every = 10;     // average clocks between asynchronous errors
  bool made_room = false;        // a full queue is read in this clock
  uint32_t read_dropped = ~0u;   // dword of marks that is read in this clock
  uint64_t async_kept = 0, async_dropped = 0, async_taken = 0, async_none = 0, async_overflow = 0, async_marks = 0;
  uint64_t async_room = 0;  // errors kept because a full queue was read in the same clock
  uint64_t async_late = 0;  // errors dropped while their dword of marks was read
  std::deque<Beat> doorbells;
  uint64_t commands = 0, ignored = 0, doorbell_writes = 0, dropped = 0, writes = 0, reads = 0, counted = 0;
  uint64_t armings = 0, half_armings = 0, info_reads = 0;
  uint64_t soft_resets = 0, pin_resets = 0, core_resets = 0;
};

}  // namespace

int main(int argc, char** argv) {
  unit::Start(argc, argv);
  Testbench testbench(unit::options().seed);
  Rng& rng = testbench.rng;
  const std::string storm = Verilated::commandArgsPlusMatch("storm=");
  if (!storm.empty()) testbench.Storm(static_cast<unsigned>(std::stoul(storm.substr(storm.find('=') + 1))));

  for (uint64_t i = 0; i < unit::options().size; i++) {
    constexpr uint32_t kEnd = hvia::kRegisterNotifyInfoOffset + 4;
    uint32_t addr = static_cast<uint32_t>(rng.Below(kEnd / 4)) * 4;
    // From a flood to rare events, so that the queue of errors is full, empty and in between.
    if (rng.Chance(1, 100)) testbench.async_every = static_cast<unsigned>(uint64_t{1} << rng.Below(10));
    if (rng.Chance(1, 100)) testbench.irq_every = static_cast<unsigned>(uint64_t{1} << rng.Range(3, 11));
    if (rng.Chance(1, 50)) testbench.DrainAsync();
    bool bar = rng.Chance(1, 5);
    if (bar) addr = rng.Bits(18) * 4;
    else if (rng.Chance(1, 16)) addr = rng.Bits(14) * 4;
    if (rng.Bits(1)) {
      testbench.HostWrite(bar, addr, bar ? static_cast<unsigned>(rng.Range(1, 4)) : static_cast<unsigned>(rng.Range(1, 3)));
    } else {
      testbench.HostRead(bar, addr);
    }
    for (uint64_t k = rng.Below(4); k > 0; k--) testbench.Tick();
    if (rng.Chance(1, 500)) testbench.CheckCounters();
    if (rng.Chance(1, 500)) testbench.SoftReset();
    if (rng.Chance(1, 1000)) testbench.PinReset();
  }
  testbench.CheckCounters();
  std::printf("writes %" PRIu64 "\nreads %" PRIu64 "\ncommands %" PRIu64 "\nignored %" PRIu64 "\ndoorbell_writes %" PRIu64
              "\ndropped %" PRIu64 "\ncounted %" PRIu64 "\nsoft_resets %" PRIu64 "\npin_resets %" PRIu64 "\nclocks %" PRIu64
              "\nasync_kept %" PRIu64 "\nasync_dropped %" PRIu64 "\nasync_taken %" PRIu64 "\nasync_none %" PRIu64
              "\nasync_overflow %" PRIu64 "\nasync_marks %" PRIu64 "\nasync_room %" PRIu64 "\nasync_late %" PRIu64
              "\narmings %" PRIu64 "\nhalf_armings %" PRIu64 "\ninfo_reads %" PRIu64 "\npassed 1\n",
              testbench.writes, testbench.reads, testbench.commands, testbench.ignored, testbench.doorbell_writes, testbench.dropped, testbench.counted,
              testbench.soft_resets, testbench.pin_resets, unit::clocks(), testbench.async_kept, testbench.async_dropped, testbench.async_taken, testbench.async_none,
              testbench.async_overflow, testbench.async_marks, testbench.async_room, testbench.async_late, testbench.armings, testbench.half_armings, testbench.info_reads);
  return 0;
}
