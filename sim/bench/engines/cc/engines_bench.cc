// SPDX-License-Identifier: Apache-2.0

// Bench of the data path: two cards (transmit engine, packet buffers, receive engine) back to back
// through a wire that loses, repeats, swaps, corrupts and forges frames. A plain model of both ends
// says what every descriptor completes with, what every frame on the wire is, what every byte of both
// memories becomes, and what every counter shows.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "Vengines_bench_top.h"
#include "sim/bench/internal/unit/bench.h"
#include "sim/bench/internal/unit/neighbours.h"
#include "sim/gen/hvia_layout.h"
#include "verilated.h"

using unit::Fail;
using unit::kPage;
using unit::Region;
using unit::Traffic;

namespace {

using Frame = std::vector<uint8_t>;
constexpr size_t kVia = hvia::kEthernetHeaderSize;
constexpr size_t kHeader = hvia::kEthernetHeaderSize + hvia::kViaHeaderSize;
constexpr uint32_t kErrors = 0x1fe;

void Put(Frame& f, size_t at, uint64_t v, unsigned n) {
  for (unsigned i = 0; i < n; i++) f[at + i] = v >> (8 * (n - 1 - i));
}
uint64_t Get(const Frame& f, size_t at, unsigned n) {
  uint64_t v = 0;
  for (unsigned i = 0; i < n; i++) v = v << 8 | f[at + i];
  return v;
}

struct Context {
  uint8_t state = hvia::kViStateFree;
  bool rdma_write = false;
  uint8_t generation = 0;
  uint16_t tag = 0;
  uint32_t max = 0;
  uint64_t peer_mac = 0;  // wire byte 0 lowest
  uint16_t peer_vi = 0;
};

struct Descriptor {
  uint8_t vi = 0;
  uint16_t seq = 0, control = 0, segments = 2;
  uint32_t pa = 0, handle = 0, immediate = 0, length = 0, remote_handle = 0, data_handle = 0, data_len = 0, status = 0;
  uint64_t remote_va = 0, data_va = 0;
};

struct Completion {
  uint8_t vi;
  uint16_t seq;
  uint32_t pa, handle, length, status;
};

struct RawJob {
  uint32_t pa;
  uint16_t len;
};

struct Stats {
  uint64_t message = 0, frame = 0, aborted = 0, mac_sent = 0, mac_good = 0, mac_bad = 0, mac_long = 0, mac_overrun = 0;
  uint64_t accepted = 0, not_for_us = 0, malformed = 0, bad_vi = 0, old = 0, gap = 0, protection = 0, bus_error = 0,
           cut = 0, unsupported = 0, raw_dropped = 0;
  uint64_t trace[32] = {};
};

enum Message { kNone, kOpen, kDropped };

struct Receiver {
  uint32_t expected = 0;
  Message message = kNone;
};

// Puts what a layout calls big-endian where the layout says.
struct Header {
  uint64_t destination, source;  // wire byte 0 lowest
  uint16_t ether_type = hvia::kEtherTypeVia;
  uint8_t operation = hvia::kFrameOperationRdmaWrite, version = hvia::kViaVersion, flags = 0;
  uint16_t payload = 0, destination_vi = 0, source_vi = 0;
  uint32_t sequence = 0, handle = 0, immediate = 0;
  uint64_t address = 0;

  Frame Make(const std::vector<uint8_t>& body) const {
    Frame f(kHeader);
    for (unsigned i = 0; i < 6; i++) {
      f[hvia::kEthernetHeaderDestinationOffset + i] = destination >> (8 * i);
      f[hvia::kEthernetHeaderSourceOffset + i] = source >> (8 * i);
    }
    Put(f, hvia::kEthernetHeaderEtherTypeOffset, ether_type, 2);
    f[kVia + hvia::kViaHeaderOperationVersionOffset] =
        operation << hvia::kViaHeaderOperationVersionOperationLsb | version << hvia::kViaHeaderOperationVersionVersionLsb;
    f[kVia + hvia::kViaHeaderFlagsOffset] = flags;
    Put(f, kVia + hvia::kViaHeaderPayloadLengthOffset, payload, 2);
    Put(f, kVia + hvia::kViaHeaderDestinationViOffset, destination_vi, 2);
    Put(f, kVia + hvia::kViaHeaderSourceViOffset, source_vi, 2);
    Put(f, kVia + hvia::kViaHeaderSequenceOffset, sequence, 4);
    Put(f, kVia + hvia::kViaHeaderAddressOffset, address, 8);
    Put(f, kVia + hvia::kViaHeaderHandleOffset, handle, 4);
    Put(f, kVia + hvia::kViaHeaderImmediateOffset, immediate, 4);
    f.insert(f.end(), body.begin(), body.end());
    if (f.size() < hvia::kMinFrame) f.resize(hvia::kMinFrame, 0);
    return f;
  }
};

class Node {
 public:
  Node(const char* name, uint64_t mac, unit::Rng* rng)
      : name(name), mac(mac), rng(*rng), memory(256, rng), shadow(memory.bytes), pool(0, 256, rng),
        rbus(&memory, rng, 1), wbus(&memory, rng, 1), tatt(rng), ratt(rng), top(new Vengines_bench_top) {
    top->rst_ni = top->mac_rst_ni = 0;
    top->enable_i = 1;
    top->single_tx_slot_i = top->single_rx_slot_i = 0;
    top->mac_i = mac;
    top->clk_i = top->mac_clk_i = 0;
    top->mac_rx_overrun_i = 0;
    for (int i = 0; i < 3; i++) raw_pages.push_back(pool.Take());
    raw_source = pool.Take();
  }

  void AddRegion(uint32_t handle, const Region& r) { tatt.regions[handle] = ratt.regions[handle] = r; }
  void Deregister(uint32_t handle) {
    tatt.regions.erase(handle);
    ratt.regions.erase(handle);
  }

  void Edge(uint64_t now) {
    const bool core = now == next_core, macclk = now == next_mac;
    if (core) DriveCore();
    if (macclk) DriveMac();
    top->eval();
    if (core) SampleCore();
    if (macclk) SampleMac();
    if (core) top->clk_i = 1;
    if (macclk) top->mac_clk_i = 1;
    top->eval();
    top->clk_i = top->mac_clk_i = 0;
    top->eval();
    if (core) next_core += core_period;
    if (macclk) next_mac += mac_period;
  }

  bool Quiet() const { return top->t_quiet_o && top->r_quiet_o && top->g_quiet_o && top->mac_quiet_o; }
  bool AtRest() const {
    return Quiet() && descriptors.empty() && raw_jobs.empty() && !desc_offered && !raw_offered && !seq_init_left &&
           rx_wire.empty() && !rx_playing && !top->mac_tx_valid_o && !top->cpl_valid_o && rbus.Idle() && wbus.Idle() &&
           tatt.Idle() && ratt.Idle();
  }

  // What a descriptor must complete with, and the frames it becomes.
  void Post(const Descriptor& d, bool predict) {
    descriptors.push_back(d);
    if (!predict) return;
    const Context& c = contexts[d.vi];
    const uint32_t len = d.segments == 1 ? 0 : d.data_len;
    uint32_t status = d.status & kErrors, done = 0;
    if (status == 0) {
      if (c.state != hvia::kViStateConnected) status = 1u << hvia::kDescriptorStatusFlushedLsb;
      else if ((d.control & 3) != hvia::kDescriptorOperationRdmaWrite || d.segments < 1 || d.segments > 2 ||
               (d.remote_va != 0 && len > -d.remote_va)) {
        status = 1u << hvia::kDescriptorStatusFormatErrorLsb;
      } else if (len > c.max) {
        status = 1u << hvia::kDescriptorStatusLengthErrorLsb;
      } else if (len != 0 && unit::AttPort::Judge(tatt.regions, d.data_handle, d.data_va, len, c.tag,
                                                  hvia::kAttAccessLocal) != hvia::kAttErrorNone) {
        status = 1u << hvia::kDescriptorStatusProtectionErrorLsb;
      } else {
        done = len;
        Build(d, len);
        want.message++;
      }
    }
    completions.push_back({d.vi, d.seq, d.pa, d.handle, done, Status(d, status)});
  }

  static uint32_t Status(const Descriptor& d, uint32_t errors) {
    static const uint32_t echo[4] = {hvia::kStatusOperationSend, hvia::kStatusOperationRdmaWrite,
                                     hvia::kStatusOperationRdmaRead, hvia::kStatusOperationSend};
    return errors | 1u << hvia::kDescriptorStatusDoneLsb | echo[d.control & 3] << hvia::kDescriptorStatusOperationLsb;
  }

  void Build(const Descriptor& d, uint32_t len) {
    const Context& c = contexts[d.vi];
    uint32_t at = 0;
    do {
      uint32_t n = std::min<uint32_t>(len - at, hvia::kMaxPayload);
      Header h;
      h.destination = c.peer_mac;
      h.source = mac;
      h.flags = (at == 0) << hvia::kViaHeaderFlagsFirstLsb | (at + n == len) << hvia::kViaHeaderFlagsLastLsb;
      if (d.control >> hvia::kDescriptorControlImmediateLsb & 1) {
        h.flags |= 1u << hvia::kViaHeaderFlagsImmediateLsb;
        h.immediate = d.immediate;
      }
      h.payload = n;
      h.destination_vi = c.peer_vi;
      h.source_vi = c.generation << 8 | d.vi;
      h.address = d.remote_va + at;
      h.handle = d.remote_handle;
      std::vector<uint8_t> body(n);
      for (uint32_t i = 0; i < n; i++) body[i] = memory.bytes[tatt.regions.at(d.data_handle).Physical(d.data_va + at + i)];
      frames.push_back(h.Make(body));
      want.trace[hvia::kTraceEventSendTranslated] += n != 0;
      want.trace[hvia::kTraceEventPayloadRead] += n != 0;
      at += n;
    } while (at < len);
  }

  void Raw(const RawJob& j) {
    raw_jobs.push_back(j);
    Frame f(memory.bytes.begin() + j.pa, memory.bytes.begin() + j.pa + j.len);
    if (f.size() < hvia::kMinFrame) f.resize(hvia::kMinFrame, 0);
    raw_frames.push_back(f);
  }

  // A frame came out: it must be the next one that the model expects.
  void CheckSent(Frame f) {
    want.mac_sent++;
    if (Get(f, hvia::kEthernetHeaderEtherTypeOffset, 2) != hvia::kEtherTypeVia) {
      if (raw_frames.empty()) Fail("%s: a raw frame of %zu bytes that nobody sent", name, f.size());
      const Frame& e = raw_frames.front();
      if (e != f) {
        auto m = std::mismatch(e.begin(), e.begin() + std::min(e.size(), f.size()), f.begin());
        Fail("%s: a raw frame of %zu bytes, want %zu; byte %zd differs", name, f.size(), e.size(), m.first - e.begin());
      }
      raw_frames.pop_front();
      return;
    }
    if (frames.empty()) Fail("%s: a VIA frame that nobody sent", name);
    Frame e = frames.front();
    frames.pop_front();
    uint8_t vi = Get(e, kVia + hvia::kViaHeaderSourceViOffset, 2);
    Put(e, kVia + hvia::kViaHeaderSequenceOffset, sequence[vi]++, 4);
    if (e != f) {
      if (e.size() != f.size()) Fail("%s: a frame of %zu bytes, want %zu", name, f.size(), e.size());
      auto m = std::mismatch(e.begin(), e.end(), f.begin());
      Fail("%s: byte %zd of a frame of %zu is %02x, want %02x", name, m.first - e.begin(), e.size(), *m.second, *m.first);
    }
    want.frame++;
    want.trace[hvia::kTraceEventFrameBuilt]++;
    sent_payload += Get(e, kVia + hvia::kViaHeaderPayloadLengthOffset, 2);
  }

  // What a good frame must do here.
  void Receive(const Frame& f) {
    want.mac_good++;
    want.trace[hvia::kTraceEventMacReceiveEnd]++;
    uint64_t destination = 0, source = 0;
    for (unsigned i = 0; i < 6; i++) {
      destination |= static_cast<uint64_t>(f[hvia::kEthernetHeaderDestinationOffset + i]) << (8 * i);
      source |= static_cast<uint64_t>(f[hvia::kEthernetHeaderSourceOffset + i]) << (8 * i);
    }
    const bool own = destination == mac, group = destination & 1;
    const bool via = Get(f, hvia::kEthernetHeaderEtherTypeOffset, 2) == hvia::kEtherTypeVia;
    if (!own && (!group || via)) {
      want.not_for_us++;
      return;
    }
    if (!via) {
      if (!raw_buffer || f.size() > raw_capacity) want.raw_dropped++;
      if (raw_buffer) raw_expected.push_back(f);
      return;
    }
    const uint8_t ov = f[kVia + hvia::kViaHeaderOperationVersionOffset], flags = f[kVia + hvia::kViaHeaderFlagsOffset];
    const unsigned operation = ov & 15, version = ov >> 4;
    const uint32_t len = Get(f, kVia + hvia::kViaHeaderPayloadLengthOffset, 2);
    if (version != hvia::kViaVersion || flags >> hvia::kViaHeaderFlagsReservedLsb || operation > hvia::kFrameOperationAcknowledge ||
        len > hvia::kMaxPayload || len > f.size() - kHeader) {
      want.malformed++;
      return;
    }
    const uint16_t number = Get(f, kVia + hvia::kViaHeaderDestinationViOffset, 2);
    const uint8_t vi = number;
    const Context& c = contexts[vi];
    if (c.state != hvia::kViStateConnected || number >> 8 != c.generation || source != c.peer_mac ||
        Get(f, kVia + hvia::kViaHeaderSourceViOffset, 2) != c.peer_vi) {
      want.bad_vi++;
      return;
    }
    Receiver& r = receivers[vi];
    const uint32_t sequence_number = Get(f, kVia + hvia::kViaHeaderSequenceOffset, 4);
    const int32_t ahead = static_cast<int32_t>(sequence_number - r.expected);
    if (ahead < 0) {
      want.old++;
      return;
    }
    if (ahead > 0) want.gap++;
    r.expected = sequence_number + 1;
    const bool first = flags >> hvia::kViaHeaderFlagsFirstLsb & 1, last = flags >> hvia::kViaHeaderFlagsLastLsb & 1;
    const bool foreign = operation != hvia::kFrameOperationRdmaWrite || (flags >> hvia::kViaHeaderFlagsImmediateLsb & 1);
    if (foreign) want.unsupported++;
    // The message before is cut off, or this one's beginning is missing.
    bool cut = false, take = false;
    switch (r.message) {
      case kOpen:
        cut = first || ahead > 0 || foreign;
        take = !foreign && (first || ahead == 0);
        break;
      case kNone:
        cut = !first && !foreign;
        take = first && !foreign;
        break;
      case kDropped: take = first && !foreign; break;
    }
    if (cut) {
      want.cut++;
      asyncs.push_back({hvia::kAsyncErrorRdmaWriteAbort, vi});
    }
    r.message = last ? kNone : take ? kOpen : kDropped;
    if (!take) return;
    want.trace[hvia::kTraceEventReceiveParsed]++;
    const uint64_t address = Get(f, kVia + hvia::kViaHeaderAddressOffset, 8);
    const uint32_t handle = Get(f, kVia + hvia::kViaHeaderHandleOffset, 4);
    if (c.rdma_write) want.trace[hvia::kTraceEventReceiveWritten]++;
    if (!c.rdma_write || unit::AttPort::Judge(ratt.regions, handle, address, len, c.tag, hvia::kAttAccessRemoteWrite)) {
      want.protection++;
      asyncs.push_back({hvia::kAsyncErrorRdmaWriteProtection, vi});
      r.message = last ? kNone : kDropped;
      return;
    }
    want.trace[hvia::kTraceEventReceiveTranslated]++;
    want.accepted++;
    for (uint32_t i = 0; i < len; i++) shadow[ratt.regions.at(handle).Physical(address + i)] = f[kHeader + i];
    landed += len;
  }

  void Verify() {
    if (!completions.empty()) Fail("%s: at rest with %zu completions missing", name, completions.size());
    if (!frames.empty()) Fail("%s: at rest with %zu frames missing", name, frames.size());
    if (!raw_frames.empty() || raw_done != raw_sent) Fail("%s: at rest with raw frames missing", name);
    if (!raw_expected.empty()) Fail("%s: at rest with %zu received raw frames missing", name, raw_expected.size());
    if (!asyncs.empty()) Fail("%s: asynchronous error %u of VI %u is missing", name, asyncs.front().first, asyncs.front().second);
    if (shadow != memory.bytes) {
      auto m = std::mismatch(shadow.begin(), shadow.end(), memory.bytes.begin());
      Fail("%s: host address %08zx is %02x, want %02x", name, m.first - shadow.begin(), *m.second, *m.first);
    }
    auto same = [&](const char* what, uint64_t have, uint64_t expect) {
      if (have != expect) Fail("%s: counted %" PRIu64 " %s, want %" PRIu64, name, have, what, expect);
    };
    same("messages", seen.message, want.message);
    same("frames built", seen.frame, want.frame);
    same("messages given up", seen.aborted, want.aborted);
    same("frames to the MAC", seen.mac_sent, want.mac_sent);
    same("good frames", seen.mac_good, want.mac_good);
    same("bad frames", seen.mac_bad, want.mac_bad);
    same("long frames", seen.mac_long, want.mac_long);
    same("overruns", seen.mac_overrun, 0);
    same("frames accepted", seen.accepted, want.accepted);
    same("frames not for us", seen.not_for_us, want.not_for_us);
    same("malformed frames", seen.malformed, want.malformed);
    same("bad VIs", seen.bad_vi, want.bad_vi);
    same("old sequences", seen.old, want.old);
    same("gaps", seen.gap, want.gap);
    same("protection errors", seen.protection, want.protection);
    same("bus errors", seen.bus_error, want.bus_error);
    same("messages cut off", seen.cut, want.cut);
    same("unsupported frames", seen.unsupported, want.unsupported);
    same("raw frames dropped", seen.raw_dropped, want.raw_dropped);
    for (unsigned e : {hvia::kTraceEventSendTranslated, hvia::kTraceEventPayloadRead, hvia::kTraceEventFrameBuilt,
                       hvia::kTraceEventReceiveParsed, hvia::kTraceEventReceiveTranslated, hvia::kTraceEventReceiveWritten,
                       hvia::kTraceEventMacReceiveEnd}) {
      same(hvia::TraceEventName(e), seen.trace[e], want.trace[e]);
    }
    same("transmit starts traced", seen.trace[hvia::kTraceEventMacTransmitStart], want.mac_sent);
    same("transmit ends traced", seen.trace[hvia::kTraceEventMacTransmitEnd], want.mac_sent);
  }

  // After something that no model foretells: takes what happened as what should have.
  void Resync() {
    shadow = memory.bytes;
    want = seen;
    asyncs.clear();
    frames.clear();
  }

  const char* name;
  uint64_t mac;
  unit::Rng& rng;
  unit::Memory memory;
  std::vector<uint8_t> shadow;
  unit::PagePool pool;
  unit::ReadBus<4> rbus;
  unit::WriteBus<4> wbus;
  unit::AttPort tatt, ratt;
  std::array<Context, 256> contexts;
  std::array<Receiver, 256> receivers;
  std::array<uint32_t, 256> sequence{};
  Stats seen, want;
  Traffic traffic{0, 0};
  uint64_t next_core = 0, next_mac = 0;
  unsigned core_period = 30, mac_period = 30;
  std::deque<Descriptor> descriptors;
  std::deque<Completion> completions;
  std::deque<Frame> frames, raw_frames, raw_expected;
  std::deque<RawJob> raw_jobs;
  std::deque<std::pair<uint8_t, uint8_t>> asyncs;
  struct Wired {
    Frame bytes;
    bool err;
  };
  std::deque<Wired> rx_wire;
  std::deque<Frame> sent;  // for the wire
  bool raw_buffer = true;
  uint32_t raw_capacity = 2048;
  std::vector<uint32_t> raw_pages;
  uint32_t raw_source = 0;
  uint64_t raw_sent = 0, raw_done = 0, raw_got = 0, landed = 0, sent_payload = 0;
  bool check_completions = true;
  std::vector<Completion> finished;  // while check_completions is off
  uint32_t drain_handle = 0;
  uint8_t drain_vi = 0;
  bool seq_init_left = false;
  uint8_t seq_init_vi = 0;
  uint32_t seq_init_value = 0;
  unsigned t_inits = 0, r_inits = 0;
  std::vector<uint32_t> forbidden;  // pages that nobody may touch any more
  std::unique_ptr<Vengines_bench_top> top;

 private:
  static void PutContext(const Context& c, VlWide<4>& w) {
    w[0] = c.state | c.rdma_write << hvia::kViContextAttributesEnableRdmaWriteLsb |
           c.generation << hvia::kViContextAttributesGenerationLsb |
           static_cast<uint32_t>(c.tag) << hvia::kViContextAttributesTagLsb;
    w[1] = c.max;
    w[2] = c.peer_mac;
    w[3] = static_cast<uint32_t>(c.peer_mac >> 32) | static_cast<uint32_t>(c.peer_vi) << 16;
  }

  void DriveCore() {
    rbus.Drive(traffic);
    wbus.Drive(traffic);
    tatt.Drive(traffic);
    ratt.Drive(traffic);
    top->t_req_ready_i = rbus.req_ready;
    top->t_rvalid_i = rbus.rvalid;
    top->t_rdata_i = rbus.rdata;
    top->t_rlast_i = rbus.rlast;
    top->t_rerr_i = rbus.rvalid && rbus.rerr;
    top->r_req_ready_i = wbus.req_ready;
    top->r_wready_i = wbus.wready;
    top->r_wdone_i = wbus.wdone;
    top->r_werr_i = wbus.werr;
    top->t_att_req_ready_i = tatt.req_ready;
    top->t_att_rsp_valid_i = tatt.rsp_valid;
    top->t_att_rsp_err_i = tatt.rsp_err;
    top->t_att_rsp_pa_i = tatt.rsp_pa;
    top->t_att_rsp_bytes_i = tatt.rsp_bytes;
    top->r_att_req_ready_i = ratt.req_ready;
    top->r_att_rsp_valid_i = ratt.rsp_valid;
    top->r_att_rsp_err_i = ratt.rsp_err;
    top->r_att_rsp_pa_i = ratt.rsp_pa;
    top->r_att_rsp_bytes_i = ratt.rsp_bytes;
    PutContext(contexts[t_vi_], top->t_rd_ctx_i);
    PutContext(contexts[r_vi_], top->r_rd_ctx_i);
    if (!desc_offered) desc_offered = !descriptors.empty() && !rng.Chance(traffic.idle, 4);
    top->desc_valid_i = desc_offered;
    if (desc_offered) {
      const Descriptor& d = descriptors.front();
      top->desc_vi_i = d.vi;
      top->desc_seq_i = d.seq;
      top->desc_pa_i = d.pa;
      top->desc_handle_i = d.handle;
      top->desc_control_i = d.control;
      top->desc_seg_count_i = d.segments;
      top->desc_immediate_i = d.immediate;
      top->desc_length_i = d.length;
      top->desc_remote_va_i = d.remote_va;
      top->desc_remote_handle_i = d.remote_handle;
      top->desc_data_va_i = d.data_va;
      top->desc_data_handle_i = d.data_handle;
      top->desc_data_len_i = d.data_len;
      top->desc_status_i = d.status;
    } else {
      top->desc_data_va_i = rng.Next();
      top->desc_data_handle_i = rng.Bits(32);
      top->desc_handle_i = rng.Bits(32);
      top->desc_status_i = rng.Bits(32);
      top->desc_data_len_i = rng.Bits(32);
      top->desc_seg_count_i = rng.Bits(2);
    }
    if (!raw_offered) raw_offered = !raw_jobs.empty() && !rng.Chance(traffic.idle, 4);
    top->rawtx_valid_i = raw_offered;
    if (raw_offered) {
      top->rawtx_pa_i = raw_jobs.front().pa;
      top->rawtx_len_i = raw_jobs.front().len;
    }
    top->cpl_ready_i = !rng.Chance(traffic.pressure, 4);
    top->rawrx_valid_i = raw_buffer && !raw_taken_;
    top->rawrx_pa_i = raw_pages[raw_got % raw_pages.size()] + RawOffset();
    top->rawrx_capacity_i = raw_capacity;
    top->t_seq_init_valid_i = top->r_seq_init_valid_i = 0;
    if (seq_init_left) {
      top->t_seq_init_valid_i = t_inits == 0;
      top->r_seq_init_valid_i = r_inits == 0;
      top->t_seq_init_vi_i = top->r_seq_init_vi_i = seq_init_vi;
      top->t_seq_init_value_i = top->r_seq_init_value_i = seq_init_value;
    }
    top->drain_handle_i = drain_handle;
    top->drain_vi_i = drain_vi;
  }

  uint32_t RawOffset() const { return static_cast<uint32_t>(raw_got * 37 % 1000); }

  void SampleCore() {
    for (uint32_t page : forbidden) {
      if ((top->t_req_valid_o && top->t_req_addr_o / kPage == page / kPage) ||
          (top->r_req_valid_o && top->r_req_addr_o / kPage == page / kPage)) {
        Fail("%s: page %x is used after its handle was drained", name, page);
      }
    }
    rbus.Sample(top->t_req_valid_o, top->t_req_addr_o, top->t_req_len_o, top->t_rready_o);
    wbus.Sample(top->r_req_valid_o, top->r_req_addr_o, top->r_req_len_o, top->r_wvalid_o, top->r_wdata_o, top->r_wstrb_o);
    tatt.Sample(top->t_att_req_valid_o, top->t_att_req_handle_o, top->t_att_req_va_o, top->t_att_req_len_o,
                top->t_att_req_tag_o, top->t_att_req_access_o);
    ratt.Sample(top->r_att_req_valid_o, top->r_att_req_handle_o, top->r_att_req_va_o, top->r_att_req_len_o,
                top->r_att_req_tag_o, top->r_att_req_access_o);
    t_vi_ = top->t_rd_vi_o;
    r_vi_ = top->r_rd_vi_o;
    if (desc_offered && top->desc_ready_o) {
      descriptors.pop_front();
      desc_offered = false;
    }
    if (raw_offered && top->rawtx_ready_o) {
      raw_jobs.pop_front();
      raw_offered = false;
      raw_sent++;
    }
    if (top->rawtx_done_o) {
      raw_done++;
      raw_errors += top->rawtx_err_o;
    }
    if (top->cpl_valid_o && top->cpl_ready_i) {
      Completion c{static_cast<uint8_t>(top->cpl_vi_o), static_cast<uint16_t>(top->cpl_seq_o), top->cpl_pa_o,
                   top->cpl_handle_o, top->cpl_length_o, top->cpl_status_o};
      if (!top->cpl_write_o) Fail("%s: a completion without a write", name);
      if (!check_completions) {
        finished.push_back(c);
      } else {
        if (completions.empty()) Fail("%s: a completion that nobody waits for", name);
        const Completion& e = completions.front();
        if (e.vi != c.vi || e.seq != c.seq || e.pa != c.pa || e.handle != c.handle || e.length != c.length ||
            e.status != c.status) {
          Fail("%s: completion of VI %u sequence %u: length %u status %08x, want VI %u sequence %u length %u status %08x",
               name, c.vi, c.seq, c.length, c.status, e.vi, e.seq, e.length, e.status);
        }
        completions.pop_front();
      }
    }
    // A buffer that was taken stays until it is done; it comes back in a later clock.
    if (top->rawrx_done_o) {
      if (!raw_taken_) Fail("%s: a raw buffer is returned that was not taken", name);
      raw_taken_ = false;
      RawReceived();
    } else if (top->rawrx_valid_i && top->rawrx_ready_o) {
      raw_taken_ = true;
    }
    if (top->async_valid_o) {
      if (check_async) {
        if (asyncs.empty() || asyncs.front().first != top->async_code_o || asyncs.front().second != top->async_vi_o) {
          Fail("%s: asynchronous error %u of VI %u", name, top->async_code_o, top->async_vi_o);
        }
        asyncs.pop_front();
      } else {
        async_seen.push_back({top->async_code_o, top->async_vi_o});
      }
    }
    if (seq_init_left) {
      if (top->t_seq_init_valid_i && top->t_seq_init_ready_o) t_inits++;
      if (top->r_seq_init_valid_i && top->r_seq_init_ready_o) r_inits++;
      if (t_inits && r_inits) seq_init_left = false;
    }
    seen.message += top->stat_transmit_message_o;
    seen.frame += top->stat_transmit_frame_o;
    seen.aborted += top->stat_transmit_aborted_o;
    seen.mac_sent += top->stat_mac_transmit_frame_o;
    seen.mac_good += top->stat_mac_receive_frame_o;
    seen.mac_bad += top->stat_mac_receive_bad_o;
    seen.mac_long += top->stat_mac_receive_long_o;
    seen.mac_overrun += top->stat_mac_receive_overrun_o;
    seen.accepted += top->stat_receive_frame_o;
    seen.not_for_us += top->stat_receive_not_for_us_o;
    seen.malformed += top->stat_receive_malformed_o;
    seen.bad_vi += top->stat_receive_bad_vi_o;
    seen.old += top->stat_receive_old_sequence_o;
    seen.gap += top->stat_receive_gap_o;
    seen.protection += top->stat_receive_protection_o;
    seen.bus_error += top->stat_receive_bus_error_o;
    seen.cut += top->stat_receive_aborted_o;
    seen.unsupported += top->stat_receive_unsupported_o;
    seen.raw_dropped += top->stat_raw_receive_dropped_o;
    if (top->t_trace_valid_o) seen.trace[top->t_trace_event_o & 31]++;
    if (top->r_trace_valid_o) seen.trace[top->r_trace_event_o & 31]++;
    if (top->trace_tx_valid_o) seen.trace[top->trace_tx_event_o & 31]++;
    if (top->trace_rx_valid_o) seen.trace[top->trace_rx_event_o & 31]++;
  }

  void RawReceived() {
    if (raw_expected.empty()) Fail("%s: a raw frame arrived that nobody sent", name);
    const Frame f = raw_expected.front();
    raw_expected.pop_front();
    const bool fits = f.size() <= raw_capacity;
    if (top->rawrx_len_o != f.size() || top->rawrx_err_o != !fits) {
      Fail("%s: raw frame of %u bytes, error %d; want %zu, %d", name, top->rawrx_len_o, top->rawrx_err_o, f.size(), !fits);
    }
    const uint32_t pa = raw_pages[raw_got % raw_pages.size()] + RawOffset();
    if (fits) std::copy(f.begin(), f.end(), shadow.begin() + pa);
    raw_got++;
  }

  void DriveMac() {
    top->mac_tx_ready_i = !rng.Chance(traffic.pressure, 4);
    if (!rx_playing && !rx_wire.empty() && top->mac_rx_room_o) {
      rx_playing = true;
      rx_at_ = 0;
      const Wired& w = rx_wire.front();
      if (w.err || w.bytes.size() < hvia::kMinFrame) want.mac_bad++;
      else if (w.bytes.size() > hvia::kMaxFrame) want.mac_long++;
      else Receive(w.bytes);
    }
    top->mac_rx_valid_i = rx_playing;
    if (rx_playing) {
      const Wired& w = rx_wire.front();
      size_t n = std::min<size_t>(4, w.bytes.size() - rx_at_);
      uint32_t word = rng.Bits(32);
      for (size_t i = 0; i < n; i++) word = (word & ~(0xffu << (8 * i))) | w.bytes[rx_at_ + i] << (8 * i);
      top->mac_rx_data_i = word;
      top->mac_rx_bytes_i = n;
      top->mac_rx_last_i = rx_at_ + n == w.bytes.size();
      top->mac_rx_err_i = top->mac_rx_last_i && w.err;
    }
  }

  void SampleMac() {
    if (top->mac_tx_valid_o && top->mac_tx_ready_i) {
      for (unsigned i = 0; i < top->mac_tx_bytes_o; i++) out_.push_back(top->mac_tx_data_o >> (8 * i));
      if (top->mac_tx_last_o) {
        CheckSent(out_);
        sent.push_back(out_);
        out_.clear();
      }
    }
    if (rx_playing && top->mac_rx_ready_o) {
      rx_at_ += 4;
      if (top->mac_rx_last_i) {
        rx_playing = false;
        rx_wire.pop_front();
      }
    }
  }

  Frame out_;
  size_t rx_at_ = 0;
  uint8_t t_vi_ = 0, r_vi_ = 0;
  bool raw_taken_ = false;

 public:
  bool desc_offered = false, raw_offered = false, rx_playing = false;
  uint64_t raw_errors = 0;
  bool check_async = true;
  std::vector<std::pair<uint8_t, uint8_t>> async_seen;
};

struct Pair {
  uint8_t vi[2];
};

class Fabric {
 public:
  explicit Fabric(uint64_t seed) : rng(seed), a("A", 0x665544332202ull, &rng), b("B", 0xffeeddccbb0aull, &rng) {
    node[0] = &a;
    node[1] = &b;
    for (Node* n : node) {
      const uint16_t tag = 7;
      n->AddRegion(0x00100001, n->pool.Make(0x100000ull + 4094, 70000, tag, false));          // source
      n->AddRegion(0x00200002, n->pool.Make(0x7f0000000ffdull, 70000, tag, true));             // target
      n->AddRegion(0x00300003, n->pool.Make(0xfffffffffffff000ull - 4096, 2 * 4096, tag, true));  // at the top
      n->AddRegion(0x00400004, n->pool.Make(0x55000, 5000, 9, true));                         // another tag
      n->AddRegion(0x00500005, n->pool.Make(0x66000, 5000, tag, false));                      // no right
      n->next_core = rng.Below(30);
      n->next_mac = rng.Below(30);
      for (unsigned v = 0; v < 256; v++) {
        n->contexts[v].tag = tag;
        n->contexts[v].max = 70000;
        n->contexts[v].rdma_write = true;
        n->contexts[v].generation = rng.Bits(8);
      }
    }
    const uint8_t ids[8][2] = {{0, 255}, {1, 1}, {17, 4}, {255, 0}, {128, 129}, {5, 6}, {6, 5}, {200, 100}};
    for (auto& p : ids) {
      pairs.push_back({{p[0], p[1]}});
      for (int s = 0; s < 2; s++) {
        Context& c = node[s]->contexts[p[s]];
        c.state = hvia::kViStateConnected;
        c.peer_mac = node[!s]->mac;
        c.peer_vi = node[!s]->contexts[p[!s]].generation << 8 | p[!s];
      }
    }
    b.contexts[pairs[5].vi[1]].rdma_write = a.contexts[pairs[5].vi[0]].rdma_write = false;
    a.contexts[pairs[6].vi[0]].max = b.contexts[pairs[6].vi[1]].max = 1000;
    a.contexts[pairs[7].vi[0]].tag = b.contexts[pairs[7].vi[1]].tag = 9;
    a.contexts[9].state = hvia::kViStateIdle;
    a.contexts[10].state = hvia::kViStateError;
    for (int i = 0; i < 40; i++) Step();
    for (Node* n : node) n->top->rst_ni = n->top->mac_rst_ni = 1;
    for (int i = 0; i < 60; i++) Step();
    for (auto& p : pairs) {
      uint32_t values[2] = {rng.Bits(32), rng.Chance(1, 2) ? 0xfffffff0u : rng.Bits(32)};
      for (int s = 0; s < 2; s++) {
        // Each direction has numbers of its own; one value sets both here.
        SetSequence(*node[s], p.vi[s], values[0]);
      }
    }
  }

  void SetSequence(Node& n, uint8_t vi, uint32_t value) {
    n.seq_init_vi = vi;
    n.seq_init_value = value;
    n.t_inits = n.r_inits = 0;
    n.seq_init_left = true;
    for (int i = 0; n.seq_init_left; i++) {
      if (i > 100000) Fail("%s: the sequence number of VI %u cannot be set", n.name, vi);
      Step();
    }
    n.sequence[vi] = value;
    n.receivers[vi] = Receiver{value, kNone};
  }

  void Step() {
    uint64_t now = ~0ull;
    for (Node* n : node) now = std::min({now, n->next_core, n->next_mac});
    for (Node* n : node) {
      if (n->next_core == now || n->next_mac == now) n->Edge(now);
    }
    Wire(a, b);
    Wire(b, a);
    unit::clocks()++;
  }

  // The wire: `harm` of 64 frames meet something.
  unsigned harm = 0;
  void Wire(Node& from, Node& to) {
    while (!from.sent.empty()) {
      Frame f = from.sent.front();
      from.sent.pop_front();
      if (harm == 0 || !rng.Chance(harm, 64)) {
        to.rx_wire.push_back({f, false});
        continue;
      }
      switch (rng.Below(7)) {
        case 0: lost++; break;
        case 1: to.rx_wire.push_back({f, true}); break;
        case 2:
          to.rx_wire.push_back({f, false});
          to.rx_wire.push_back({f, false});
          break;
        case 3:  // overtakes the one before it, if that has not begun
          if (to.rx_wire.size() >= 2) to.rx_wire.insert(to.rx_wire.end() - 1, {f, false});
          else to.rx_wire.push_back({f, false});
          break;
        case 4:
          to.rx_wire.push_back({Forge(from, to, f), false});
          to.rx_wire.push_back({f, false});
          break;
        case 5: to.rx_wire.push_back({Forge(from, to, f), false}); break;
        default: {
          Frame junk(rng.Range(40, 1600));
          for (auto& x : junk) x = rng.Next();
          to.rx_wire.push_back({junk, false});
          to.rx_wire.push_back({f, false});
        }
      }
    }
  }

  // A frame with one or two fields changed; the check sequence would be right.
  Frame Forge(Node& from, Node& to, Frame f) {
    if (f.size() < kHeader || Get(f, hvia::kEthernetHeaderEtherTypeOffset, 2) != hvia::kEtherTypeVia) return f;
    forged++;
    for (unsigned changes = rng.Range(1, 2); changes > 0; changes--) {
      const uint8_t vi = Get(f, kVia + hvia::kViaHeaderDestinationViOffset, 2);
      const uint32_t expected = to.receivers[vi].expected;
      switch (rng.Below(12)) {
        case 0: f[rng.Below(12)] ^= 1 << rng.Below(8); break;
        case 1: Put(f, hvia::kEthernetHeaderEtherTypeOffset, rng.Chance(1, 2) ? hvia::kEtherTypeConnection : rng.Bits(16), 2); break;
        case 2: f[kVia + hvia::kViaHeaderOperationVersionOffset] = 0x10 | rng.Below(8); break;
        case 3: f[kVia + hvia::kViaHeaderOperationVersionOffset] = rng.Bits(8); break;
        case 4: f[kVia + hvia::kViaHeaderFlagsOffset] = rng.Chance(1, 4) ? rng.Bits(8) : rng.Below(8); break;
        case 5: {
          const uint32_t lens[] = {0, 1, 1472, 1473, static_cast<uint32_t>(f.size() - kHeader), static_cast<uint32_t>(f.size() - kHeader + 1), rng.Bits(16)};
          Put(f, kVia + hvia::kViaHeaderPayloadLengthOffset, lens[rng.Below(7)], 2);
          break;
        }
        case 6: f[kVia + hvia::kViaHeaderDestinationViOffset + rng.Below(4)] ^= 1 << rng.Below(8); break;
        case 7: {
          const uint32_t numbers[] = {expected, expected + 1, expected - 1, expected + 0x7fffffff, expected + 0x80000000, rng.Bits(32)};
          // A number far ahead would silence the VI for the rest of the run: it is forged rarely.
          Put(f, kVia + hvia::kViaHeaderSequenceOffset, numbers[rng.Below(rng.Chance(1, 50) ? 6 : 3)], 4);
          break;
        }
        case 8: {
          const Region& r = to.ratt.regions.at(0x00200002);
          const uint64_t n = Get(f, kVia + hvia::kViaHeaderPayloadLengthOffset, 2);
          const uint64_t at[] = {r.va - 1, r.va, r.va + r.len - n, r.va + r.len - n + 1, r.va + r.len, -n, rng.Next()};
          Put(f, kVia + hvia::kViaHeaderAddressOffset, at[rng.Below(7)], 8);
          Put(f, kVia + hvia::kViaHeaderHandleOffset, 0x00200002, 4);
          break;
        }
        case 9: f[kVia + hvia::kViaHeaderHandleOffset + rng.Below(4)] ^= 1 << rng.Below(8); break;
        case 10: {
          const uint32_t handles[] = {0x00100001, 0x00300003, 0x00400004, 0x00500005};
          const uint32_t h = handles[rng.Below(4)];
          Put(f, kVia + hvia::kViaHeaderHandleOffset, h, 4);
          Put(f, kVia + hvia::kViaHeaderAddressOffset, to.ratt.regions.at(h).va + rng.Below(64), 8);
          break;
        }
        default: {
          const Pair& p = pairs[rng.Below(pairs.size())];
          const int s = &from == node[1];
          Put(f, kVia + hvia::kViaHeaderDestinationViOffset, from.contexts[p.vi[s]].peer_vi, 2);
          Put(f, kVia + hvia::kViaHeaderSourceViOffset, from.contexts[p.vi[s]].generation << 8 | p.vi[s], 2);
          Put(f, kVia + hvia::kViaHeaderSequenceOffset, to.receivers[p.vi[!s]].expected, 4);
        }
      }
    }
    return f;
  }

  Descriptor Random(Node& from, Node& to, uint32_t len, bool sane) {
    Descriptor d;
    const int s = &from == node[1];
    const Pair& p = sane ? pairs[rng.Below(5)] : pairs[rng.Below(pairs.size())];
    d.vi = p.vi[s];
    d.seq = rng.Bits(16);
    d.pa = rng.Bits(32) & ~63u;
    d.handle = 0x0a000000 + rng.Below(16);
    d.control = hvia::kDescriptorOperationRdmaWrite;
    d.segments = len == 0 && rng.Bits(1) ? 1 : 2;
    const Region& source = from.tatt.regions.at(0x00100001);
    const Region& target = to.ratt.regions.at(0x00200002);
    d.data_handle = 0x00100001;
    d.data_len = d.length = len;
    d.data_va = source.va + rng.Below(source.len - len + 1);
    d.remote_handle = 0x00200002;
    d.remote_va = target.va + rng.Below(target.len - len + 1);
    if (sane) return d;
    const Region& small = from.tatt.regions.at(0x00400004);
    switch (rng.Below(20)) {
      case 0: d.status = 1u << hvia::kDescriptorStatusFlushedLsb; break;
      case 1: d.status = 1u << hvia::kDescriptorStatusFormatErrorLsb; break;
      case 2: d.data_handle ^= 1u << rng.Below(32); break;
      case 3: d.data_va = source.va - 1; d.data_len = std::max(1u, len); break;
      case 4: d.data_va = source.va + source.len - len + 1; d.data_len = std::max(1u, len); break;
      case 5: d.data_handle = 0x00400004; d.data_va = small.va + rng.Below(100); break;
      case 6: d.remote_va = -static_cast<uint64_t>(rng.Below(len + 2)); d.remote_handle = 0x00300003; break;
      case 7: d.remote_handle = 0x00300003; d.remote_va = to.ratt.regions.at(0x00300003).va + 8192 - std::min(len, 8192u); break;
      case 8: d.vi = rng.Bits(8); break;
      case 9: d.vi = 9 + rng.Bits(1); break;
      case 10: d.control = rng.Below(4); break;
      case 11: d.segments = rng.Below(5); break;
      case 12: d.data_len = 70001 + rng.Bits(16); break;
      case 13: d.remote_handle ^= 1u << rng.Below(32); break;
      case 14: d.remote_va = target.va + target.len - len + 1; break;
      case 15: d.control |= 1u << hvia::kDescriptorControlImmediateLsb; d.immediate = rng.Bits(32); break;
      case 16: d.remote_handle = 0x00500005; d.remote_va = 0x66000; break;
      default: break;
    }
    return d;
  }

  uint32_t RandomLength() {
    static const uint32_t corner[] = {0, 1, 2, 3, 4, 17, 18, 19, 1471, 1472, 1473, 2944, 2945, 4096, 65536};
    switch (rng.Below(8)) {
      case 0: return corner[rng.Below(15)];
      case 1: return rng.Below(65537);
      case 2:
      case 3: return rng.Below(6000);
      default: return rng.Below(200);
    }
  }

  void RandomRaw(Node& from, Node& to) {
    uint32_t len = rng.Chance(1, 4) ? 1514 : rng.Range(14, 300);
    uint32_t pa = from.raw_source + rng.Below(kPage - len);
    uint8_t* f = &from.memory.bytes[pa];
    const unsigned kind = rng.Below(8);
    for (unsigned i = 0; i < 6; i++) {
      f[i] = kind == 0 ? 0xff : kind == 1 ? 0x33 : to.mac >> (8 * i);
      f[6 + i] = from.mac >> (8 * i);
    }
    if (kind == 2) f[5] ^= 4;
    f[12] = hvia::kEtherTypeConnection >> 8;
    f[13] = hvia::kEtherTypeConnection & 255;
    std::copy(f, f + len, from.shadow.begin() + pa);
    from.Raw({pa, static_cast<uint16_t>(len)});
  }

  void Run() {
    uint64_t begin = unit::clocks();
    while (!(a.AtRest() && b.AtRest())) {
      Step();
      if (unit::clocks() - begin > 40'000'000) Fail("a round does not end");
    }
  }
  void RunAndVerify() {
    Run();
    a.Verify();
    b.Verify();
  }

  // Random messages both ways.
  void Mix(unsigned messages, unsigned harm_of_64, bool sane) {
    static const Traffic traffic[] = {{0, 0}, {3, 0}, {0, 3}, {2, 2}, {1, 1}};
    harm = harm_of_64;
    for (Node* n : node) {
      n->traffic = traffic[rng.Below(5)];
      n->raw_buffer = rng.Chance(3, 4);
      n->raw_capacity = rng.Chance(1, 4) ? rng.Range(60, 400) : 2048;
      n->core_period = rng.Chance(1, 2) ? 30 : rng.Range(20, 45);
      n->mac_period = rng.Chance(1, 2) ? 30 : rng.Range(20, 45);
      Node& to = n == &a ? b : a;
      // Raw frames are read from one page: they must not change before they were sent.
      if (rng.Bits(1)) RandomRaw(*n, to);
      unsigned count = rng.Below(messages + 1);
      for (unsigned i = 0; i < count; i++) n->Post(Random(*n, to, RandomLength(), sane), true);
    }
    RunAndVerify();
    harm = 0;
    // Numbers forged far ahead or behind would leave a VI deaf.
    for (auto& p : pairs) {
      for (int s = 0; s < 2; s++) {
        if (node[s]->sequence[p.vi[s]] != node[!s]->receivers[p.vi[!s]].expected) {
          uint32_t v = rng.Bits(32);
          SetSequence(a, p.vi[0], v);
          SetSequence(b, p.vi[1], v);
          break;
        }
      }
    }
  }

  // Forged frames one by one: every field with every value that matters, on a frame that is else
  // right. What each does is the model's word, so a field that is not checked shows.
  void Forgeries() {
    const Pair p = pairs[rng.Below(5)];
    const uint8_t va = p.vi[0], vb = p.vi[1];
    const Context &ca = a.contexts[va], &cb = b.contexts[vb];
    const Region& target = b.ratt.regions.at(0x00200002);
    const uint8_t both = 1u << hvia::kViaHeaderFlagsFirstLsb | 1u << hvia::kViaHeaderFlagsLastLsb;
    for (Node* n : node) n->traffic = {0, 0};
    auto send = [&](uint32_t body_len, auto change) {
      Header h;
      h.destination = b.mac;
      h.source = a.mac;
      h.flags = both;
      h.payload = body_len;
      h.destination_vi = cb.generation << 8 | vb;
      h.source_vi = ca.generation << 8 | va;
      h.sequence = b.receivers[vb].expected;
      h.address = target.va + 100 + rng.Below(8000);
      h.handle = 0x00200002;
      change(h);
      std::vector<uint8_t> body(body_len);
      for (auto& x : body) x = rng.Next();
      b.rx_wire.push_back({h.Make(body), false});
      Run();
    };
    for (uint32_t len : {0u, 1u, 17u, 18u, 19u, 20u, 200u, 1472u}) {
      send(len, [](Header&) {});
      send(len, [](Header& h) { h.payload++; });
      send(len, [](Header& h) { h.payload += 4; });
      send(len, [](Header& h) { h.payload = 0; });
      send(len, [&](Header& h) { h.address = target.va - 1; });
      send(len, [&](Header& h) { h.address = target.va; });
      send(len, [&](Header& h) { h.address = target.va + target.len - len; });
      send(len, [&](Header& h) { h.address = target.va + target.len - len + 1; });
      send(len, [&](Header& h) { h.address = -static_cast<uint64_t>(len); });
      send(len, [&](Header& h) { h.address = 1 - static_cast<uint64_t>(len); });
      for (uint32_t handle : {0u, 0x00100001u, 0x00200003u, 0x00300002u, 0x00400004u, 0x00500005u}) {
        send(len, [&](Header& h) {
          h.handle = handle;
          auto it = b.ratt.regions.find(handle);
          if (it != b.ratt.regions.end()) h.address = it->second.va;
        });
      }
    }
    send(100, [](Header& h) { h.payload = hvia::kMaxPayload + 1; });
    send(100, [](Header& h) { h.payload = 0xffff; });
    for (unsigned v = 0; v < 16; v++) {
      send(40, [&](Header& h) { h.version = v; });
      send(40, [&](Header& h) { h.operation = v; });
    }
    for (unsigned bit = 0; bit < 8; bit++) send(40, [&](Header& h) { h.flags ^= 1u << bit; });
    for (unsigned bit = 0; bit < 16; bit++) {
      send(40, [&](Header& h) { h.destination_vi ^= 1u << bit; });
      send(40, [&](Header& h) { h.source_vi ^= 1u << bit; });
      send(40, [&](Header& h) { h.ether_type ^= 1u << bit; });
    }
    for (unsigned bit = 0; bit < 48; bit++) {
      send(40, [&](Header& h) { h.destination ^= 1ull << bit; });
      send(40, [&](Header& h) { h.source ^= 1ull << bit; });
    }
    send(40, [](Header& h) { h.destination = 0xffffffffffffull; });
    // Sequences of flags with and without a frame missing.
    for (unsigned i = 0; i < 120; i++) {
      const uint32_t step = rng.Chance(1, 4) ? rng.Range(1, 3) : 0, back = rng.Chance(1, 12) ? 1 : 0;
      send(rng.Below(60), [&](Header& h) {
        h.flags = rng.Below(rng.Chance(1, 8) ? 8 : 4);
        h.sequence += step - back;
        if (rng.Chance(1, 12)) h.handle = 0;
        if (rng.Chance(1, 12)) h.operation = rng.Below(5);
      });
    }
    send(40, [](Header& h) { h.sequence += 0x80000000u; });
    send(40, [](Header& h) { h.sequence += 0x80000001u; });
    send(40, [](Header& h) { h.sequence += 0x7fffffffu; });
    send(40, [](Header&) {});
    a.Verify();
    b.Verify();
    const uint32_t v = rng.Bits(32);
    SetSequence(a, va, v);
    SetSequence(b, vb, v);
  }

  enum Fault { kReadError, kTranslation, kDisconnect, kDeregister, kRemoteDeregister, kWriteError, kFaults };

  // One long message that something happens to on its way.
  void Broken(Fault fault) {
    for (Node* n : node) n->traffic = rng.Bits(1) ? Traffic{0, 0} : Traffic{1, 1};
    const uint32_t len = rng.Range(1, 20000);
    Descriptor d = Random(a, b, len, true);
    d.segments = 2;
    const uint8_t far = a.contexts[d.vi].peer_vi;
    a.check_completions = b.check_async = false;
    a.finished.clear();
    b.async_seen.clear();
    const Stats before_a = a.seen, before_b = b.seen;
    const uint64_t payload = a.sent_payload, errors = a.rbus.errors, injected = a.tatt.injected, werrors = b.wbus.errors;
    a.Build(d, len);
    const size_t all = a.frames.size();
    a.Post(d, false);
    if (fault == kReadError) a.rbus.fail_in = rng.Range(1, 20);
    if (fault == kTranslation) {
      a.tatt.fail_in = rng.Range(1, 10);
      a.tatt.fail_with = rng.Range(1, 5);
    }
    if (fault == kWriteError) b.wbus.fail_in = rng.Range(1, 20);
    const Region saved_local = a.tatt.regions.at(d.data_handle), saved_remote = b.ratt.regions.at(d.remote_handle);
    const Context saved = a.contexts[d.vi];
    std::vector<uint8_t> frozen;
    for (uint64_t i = rng.Below(20000); i > 0; i--) Step();
    auto drained = [&](auto busy) {
      for (int calm = 0, i = 0; calm < 8; i++) {  // two clocks of either node at least
        if (i > 2'000'000) Fail("an engine does not drain");
        Step();
        calm = busy() ? 0 : calm + 1;
      }
    };
    if (fault == kDisconnect) {
      a.contexts[d.vi].state = hvia::kViStateIdle;
      a.drain_vi = d.vi;
      drained([&] { return a.top->t_vi_busy_o || a.top->r_vi_busy_o || !a.descriptors.empty(); });
      if (a.finished.size() != 1) Fail("a VI was drained with its descriptor not completed");
    }
    if (fault == kDeregister) {
      a.drain_handle = d.data_handle;
      a.Deregister(d.data_handle);
      drained([&] { return a.top->t_handle_busy_o || a.top->r_handle_busy_o || !a.descriptors.empty(); });
      if (!a.rbus.Idle()) Fail("a handle was drained with a read of its memory under way");
      a.forbidden = saved_local.pages;
    }
    if (fault == kRemoteDeregister) {
      b.drain_handle = d.remote_handle;
      b.Deregister(d.remote_handle);
      drained([&] { return b.top->r_handle_busy_o || b.top->t_handle_busy_o; });
      if (!b.wbus.Idle()) Fail("a handle was drained with a write to its memory under way");
      b.forbidden = saved_remote.pages;
      frozen = b.memory.bytes;
    }
    Run();
    a.forbidden.clear();
    b.forbidden.clear();
    a.rbus.fail_in = a.tatt.fail_in = b.wbus.fail_in = 0;
    const uint64_t out = a.seen.frame - before_a.frame, bytes = a.sent_payload - payload;
    if (a.finished.size() != 1) Fail("%zu completions of one message", a.finished.size());
    const Completion& c = a.finished[0];
    const uint32_t bits = c.status & kErrors;
    uint32_t want = 0;
    if (fault == kReadError && a.rbus.errors != errors) want = 1u << hvia::kDescriptorStatusTransportErrorLsb;
    if (fault == kTranslation && a.tatt.injected != injected) {
      want = a.tatt.fail_with == hvia::kAttErrorBackend ? 1u << hvia::kDescriptorStatusTransportErrorLsb
                                                        : 1u << hvia::kDescriptorStatusProtectionErrorLsb;
    }
    if (fault == kDisconnect && out != all) want = 1u << hvia::kDescriptorStatusFlushedLsb;
    if (fault == kDeregister && out != all) want = 1u << hvia::kDescriptorStatusProtectionErrorLsb;
    if (bits != want || c.length != bytes || (bits == 0) != (out == all)) {
      Fail("a broken message (%d) ended with status %08x, length %u; %" PRIu64 " of %zu frames with %" PRIu64 " bytes left",
           fault, c.status, c.length, out, all, bytes);
    }
    if (a.seen.aborted - before_a.aborted != (bits != 0 && out != 0)) Fail("a message given up was not counted as such");
    if (a.seen.message - before_a.message != (bits == 0)) Fail("a message was not counted, or one too many");
    reached[fault] += bits != 0;

    // The receiver: no model says which frame met the fault, but all of them are accounted for.
    const uint64_t accepted = b.seen.accepted - before_b.accepted, refused = b.seen.protection - before_b.protection;
    const uint64_t bus = b.seen.bus_error - before_b.bus_error, cut = b.seen.cut - before_b.cut;
    if (fault == kRemoteDeregister) {
      if (refused > 1 || accepted + refused > all || (refused == 0) != (accepted == all)) {
        Fail("%" PRIu64 " frames accepted and %" PRIu64 " refused of %zu", accepted, refused, all);
      }
      if (b.memory.bytes != frozen) Fail("memory changed after its handle was drained");
      reached[fault] += refused;
    } else if (fault == kWriteError) {
      if (bus != b.wbus.errors - werrors || bus > 1 || (bus == 0) != (accepted == all)) {
        Fail("%" PRIu64 " frames accepted and %" PRIu64 " bus errors of %zu", accepted, bus, all);
      }
      reached[fault] += bus;
    } else if (accepted != out || refused || bus || cut) {
      Fail("%" PRIu64 " frames sent, %" PRIu64 " accepted", out, accepted);
    }
    if (b.async_seen.size() != refused + bus) Fail("%zu asynchronous errors", b.async_seen.size());
    for (auto& e : b.async_seen) {
      uint8_t code = refused ? hvia::kAsyncErrorRdmaWriteProtection : hvia::kAsyncErrorRdmaWriteAbort;
      if (e.first != code || e.second != far) Fail("asynchronous error %u of VI %u", e.first, e.second);
    }
    // Back to what the models know.
    a.contexts[d.vi] = saved;
    a.AddRegion(d.data_handle, saved_local);
    b.AddRegion(d.remote_handle, saved_remote);
    if (fault != kRemoteDeregister && fault != kWriteError) {
      b.Verify();
    }
    a.Resync();
    b.Resync();
    a.check_completions = b.check_async = true;
    b.receivers[far].message = bits == 0 ? kNone : b.receivers[far].message;
    if (bits != 0 || refused || bus) {
      uint32_t v = rng.Bits(32);
      SetSequence(a, d.vi, v);
      SetSequence(b, far, v);
    }
  }

  unit::Rng rng;
  Node a, b;
  Node* node[2];
  std::vector<Pair> pairs;
  uint64_t lost = 0, forged = 0;
  uint64_t reached[kFaults] = {};
};

}  // namespace

int main(int argc, char** argv) {
  Verilated::commandArgs(argc, argv);
  unit::ParseOptions(argc, argv);
  Fabric f(unit::options().seed);

  // One small write on an idle card: the latency of each half, in clocks.
  Descriptor d = f.Random(f.a, f.b, 4, true);
  d.segments = 2;
  f.a.Post(d, true);
  f.RunAndVerify();

  const uint64_t size = unit::options().size;
  for (uint64_t i = 0; i < size; i++) {
    f.a.top->single_tx_slot_i = i % 5 == 3;
    f.b.top->single_rx_slot_i = i % 5 == 4;
    f.Mix(6, 0, true);
    f.Mix(12, 0, false);
    f.Mix(12, 16, false);
    f.Mix(12, 40, true);
    f.Broken(static_cast<Fabric::Fault>(i % Fabric::kFaults));
    if (i % 4 == 0) f.Forgeries();
  }
  for (int k = 0; k < Fabric::kFaults; k++) {
    if (size >= 40 && f.reached[k] == 0) Fail("no message met fault %d: the bench does not reach it", k);
  }
  const Stats& s = f.b.seen;
  const struct {
    const char* name;
    uint64_t value;
  } figures[] = {{"messages", f.a.seen.message + f.b.seen.message},
                 {"bytes", f.a.landed + f.b.landed},
                 {"forged", f.forged},
                 {"lost", f.lost},
                 {"accepted", s.accepted},
                 {"not_for_us", s.not_for_us},
                 {"malformed", s.malformed},
                 {"bad_vi", s.bad_vi},
                 {"old_sequence", s.old},
                 {"gap", s.gap},
                 {"protection", s.protection},
                 {"cut", s.cut},
                 {"unsupported", s.unsupported},
                 {"mac_bad", s.mac_bad},
                 {"mac_long", s.mac_long},
                 {"raw_received", f.b.raw_got},
                 {"raw_dropped", s.raw_dropped}};
  for (auto& x : figures) {
    if (x.value == 0 && size >= 40) Fail("%s is 0: the bench does not reach it", x.name);
    std::printf("%s %" PRIu64 "\n", x.name, x.value);
  }
  std::printf("steps %" PRIu64 "\npassed 1\n", unit::clocks());
  return 0;
}
