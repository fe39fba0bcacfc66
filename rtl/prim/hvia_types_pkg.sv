// SPDX-License-Identifier: Apache-2.0

// Bundles of wires between the parts of the core, and between the core and the board. `_req_t` goes
// with a request, `_rsp_t` against it. Wires as wide as the data path stay outside, because a
// package has no parameters; indices of VIs, because Yosys lets no package read another.
package hvia_types_pkg;

  // Events for the trace, the host and the counters
  typedef struct packed {
    logic        valid;
    logic [7:0]  code, vi;
    logic [15:0] seq;
  } trace_t;
  typedef struct packed {
    logic       valid;
    logic [7:0] code, vi;
  } async_t;
  typedef logic [127:0] counts_t;  // a strobe for each counter, at its number

  // Host bus port: of a requester that reads, of one that writes, of one that does both
  typedef struct packed {
    logic        valid;
    logic [31:0] addr;
    logic [9:0]  len;
    logic        rready;
  } read_req_t;
  typedef struct packed {
    logic ready, rvalid, rlast, rerr;
  } read_rsp_t;
  typedef struct packed {
    logic        valid;
    logic [31:0] addr;
    logic [9:0]  len;
    logic        wvalid;
  } write_req_t;
  typedef struct packed {
    logic ready, wready, wdone, werr;
  } write_rsp_t;
  typedef struct packed {
    logic        valid, write;
    logic [31:0] addr;
    logic [9:0]  len;
    logic        wvalid, rready;
  } host_req_t;
  typedef struct packed {
    logic ready, wready, wdone, werr, rvalid, rlast, rerr;
  } host_rsp_t;

  // Target port
  typedef struct packed {
    logic        wvalid, wbar;
    logic [19:0] waddr;
    logic [31:0] wdata;
    logic [3:0]  wbe;
    logic        rvalid, rbar;
    logic [19:0] raddr;
  } target_req_t;
  typedef struct packed {
    logic        wready, rready;
    logic [31:0] rdata;
  } target_rsp_t;
  typedef struct packed {
    logic        valid;
    logic [19:0] addr;
    logic [31:0] data;
    logic [3:0]  be;
  } doorbell_t;

  // Packet buffers
  typedef struct packed {
    logic        valid, last, aborted;
    logic [7:0]  vi;
    logic [15:0] seq;
    logic [10:0] len;
  } tx_frame_t;
  typedef struct packed {
    logic        valid, complete, bad;
    logic [10:0] len, avail;
  } rx_frame_t;

  // Translation: clients share the response and have separate valid bits.
  typedef struct packed {
    logic        valid;
    logic [31:0] handle;
    logic [63:0] va;
    logic [31:0] len;
    logic [15:0] tag;
    logic [1:0]  access;
  } att_req_t;
  typedef struct packed {
    logic [2:0]  err;
    logic [31:0] pa;
    logic [12:0] bytes;
  } att_rsp_t;
  typedef struct packed {
    logic        valid;
    logic [1:0]  op;
    logic [31:0] arg;
    logic [15:0] count;
    logic        wvalid;
    logic [31:0] wdata;
  } att_update_req_t;
  typedef struct packed {
    logic ready, wready, done, error;
  } att_update_rsp_t;
  typedef struct packed {
    logic        cke, cs_n, ras_n, cas_n, we_n;
    logic [1:0]  ba;
    logic [11:0] a;
    logic [3:0]  dqm;
    logic [31:0] dq;
    logic        dq_oe;
  } sdram_t;

  // Commands of the VI manager to the engines
  typedef struct packed {
    logic [31:0] handle;
    logic        flush, stale_start;
  } drain_t;
  typedef struct packed {
    logic        valid;
    logic [31:0] value;
  } seq_init_t;
  typedef struct packed {
    logic       valid;
    logic [7:0] send, receive;
  } cq_tie_t;
  typedef struct packed {
    logic        valid;
    logic [1:0]  op;
    logic [7:0]  index, log2;
    logic [31:0] address;
  } cq_req_t;
  typedef struct packed {
    logic        ready, ok;
    logic [15:0] tail;
  } cq_rsp_t;
  typedef struct packed {
    logic       valid;
    logic [1:0] kind;
    logic [7:0] index;
  } arm_t;

  // Raw frames
  typedef struct packed {
    logic        valid;
    logic [31:0] pa;
    logic [10:0] len;
  } raw_tx_req_t;
  typedef struct packed {
    logic ready, done, err;
  } raw_tx_rsp_t;
  typedef struct packed {
    logic        valid;
    logic [31:0] pa;
    logic [15:0] capacity;
  } raw_rx_req_t;
  typedef struct packed {
    logic        ready, done, err;
    logic [15:0] len;
  } raw_rx_rsp_t;

  // Descriptors, their chunks and completions
  typedef struct packed {
    logic         valid, head;
    logic [511:0] chunk;
    logic [63:0]  va;
    logic [31:0]  pa, handle, status;
    logic [15:0]  seq;
  } descriptor_t;
  typedef struct packed {
    logic        valid, store;
    logic [63:0] va;
    logic [31:0] handle;
  } chunk_req_t;
  typedef struct packed {
    logic ready, done, err;
  } chunk_rsp_t;
  typedef struct packed {
    logic        valid, write;
    logic [15:0] seq;
    logic [31:0] pa, handle, length, status;
  } completion_t;

  // Reliable VIs: an acknowledgement or a NAK, and a report of a received frame to the ledger
  typedef struct packed {
    logic        valid;
    logic [31:0] number;
    logic [2:0]  code;
  } acknowledge_t;
  typedef struct packed {
    logic        valid;
    logic [2:0]  op, code;
    logic [8:0]  status;
    logic [31:0] number, handle, length;
    logic [63:0] va;
  } ledger_req_t;
  typedef struct packed {
    logic        ready, ok;
    logic [63:0] va;
    logic [31:0] handle, length;
  } ledger_rsp_t;

  // Big-endian fields of a frame
  function automatic logic [15:0] be16(input logic [15:0] v);
    be16 = {v[7:0], v[15:8]};
  endfunction
  function automatic logic [31:0] be32(input logic [31:0] v);
    be32 = {be16(v[15:0]), be16(v[31:16])};
  endfunction

  // A bit per block: its clock, or its quiet output: its next clock changes no flip-flop in it. The
  // clocks are one net in hardware. A simulator leaves out those of idle blocks.
  typedef struct packed {
    logic arbiter, att_manager, att_memory;
  } host_blocks_t;
  typedef struct packed {
    logic registers, counters, async_errors, vi_manager, vi_context, raw_port, trace;
  } control_blocks_t;
  typedef struct packed {
    logic doorbell, work_queue, descriptor_fetch, tx_engine, send_ledger;
  } send_blocks_t;
  typedef struct packed {
    logic rx_engine, receive_store, acknowledge, completion, notify;
  } receive_blocks_t;
  typedef struct packed {
    host_blocks_t    host;
    control_blocks_t control;
    send_blocks_t    send;
    receive_blocks_t receive;
  } core_blocks_t;
  typedef struct packed {
    logic         resets, pci, gec;
    core_blocks_t core;
  } blocks_t;

endpackage
