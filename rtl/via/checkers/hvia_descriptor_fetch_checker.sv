// SPDX-License-Identifier: Apache-2.0

// Properties of `descriptor_fetch`: offers are stable until taken; neighbours hold their requests
// and answer only requests; every chunk request ends once; a read is 64 aligned bytes inside one
// page; a receive descriptor has one destination; no state changes while `quiet_o` is 1.
module hvia_descriptor_fetch_checker #(
    parameter int unsigned W = 32
) (
    input logic         clk_i,
    input logic         rst_ni,
    input logic         take_valid_i,
    input logic         take_ready_o,
    input logic         take_receive_i,
    input logic         send_space_o,
    input logic         link_valid_o,
    input logic         link_ready_i,
    input logic         link_bad_o,
    input logic         link_receive_o,
    input hvia_params_pkg::vi_t link_vi_o,
    input logic [63:0]  link_va_o,
    input logic [31:0]  link_handle_o,
    input logic         release_valid_o,
    input logic         release_ready_i,
    input hvia_params_pkg::vi_t release_vi_o,
    input logic         rxc_valid_i,
    input logic         rxc_ready_o,
    input hvia_params_pkg::vi_t rxc_vi_i,
    input logic [63:0]  rxc_va_i,
    input logic [31:0]  rxc_handle_i,
    input logic         rxc_store_i,
    input logic         rxc_done_o,
    input logic         txc_valid_i,
    input logic         txc_ready_o,
    input hvia_params_pkg::vi_t txc_vi_i,
    input logic [63:0]  txc_va_i,
    input logic [31:0]  txc_handle_i,
    input logic         txc_done_o,
    input logic         att_req_valid_o,
    input logic         att_req_ready_i,
    input logic [31:0]  att_req_handle_o,
    input logic [63:0]  att_req_va_o,
    input logic [15:0]  att_req_tag_o,
    input hvia_params_pkg::vi_t att_req_vi_o,
    input logic         att_rsp_valid_i,
    input logic         req_valid_o,
    input logic         req_ready_i,
    input logic [31:0]  req_addr_o,
    input logic [9:0]   req_len_o,
    input logic         rvalid_i,
    input logic         rready_o,
    input logic         rlast_i,
    input logic         rerr_i,
    input logic         desc_valid_o,
    input logic         desc_ready_i,
    input hvia_params_pkg::vi_t desc_vi_o,
    input logic [15:0]  desc_seq_o,
    input logic [63:0]  desc_va_o,
    input logic [31:0]  desc_pa_o,
    input logic [31:0]  desc_handle_o,
    input logic [511:0] desc_chunk_o,
    input logic [31:0]  desc_status_o,
    input logic         desc_unreachable_o,
    input logic         async_valid_o,
    input logic         wr_valid_o,
    input logic         wr_head_o,
    input logic         cpl_valid_o,
    input logic         cpl_ready_i,
    input hvia_params_pkg::vi_t cpl_vi_o,
    input logic [15:0]  cpl_seq_o,
    input logic [31:0]  cpl_pa_o,
    input logic [31:0]  cpl_handle_o,
    input logic         quiet_o,
    input logic [3:0]   state_q,
    input logic [1:0]   work_q,
    input logic [63:0]  va_q,
    input logic [31:0]  handle_q,
    input logic [31:0]  pa_q,
    input logic         more_q,
    input logic         head_turn_q,
    input logic [2:0]   vi_state_q,
    input logic [15:0]  tag_q,
    input logic [511:0] words_q,
    input logic         wait_valid_q,
    input logic         handed,
    input logic         store,
    input logic         fetched,
    input logic         release_due
);

  localparam int unsigned Beats = hvia_pkg::DescriptorFetchBytes * 8 / W;

  logic         quiet_q, att_q, req_q, desc_q, link_q, release_q, cpl_q, rxc_q, txc_q;
  logic         asked_q, reading_q, rxc_open_q, txc_open_q, receive_open_q;
  logic [260+2*hvia_params_pkg::VICountLog2:0] was_q;
  logic [511:0] words_was_q;
  logic [111+hvia_params_pkg::VICountLog2:0] att_was_q;
  logic [41:0]  req_was_q;
  logic [688+hvia_params_pkg::VICountLog2:0] desc_was_q;
  logic [97+hvia_params_pkg::VICountLog2:0] link_was_q;
  hvia_params_pkg::vi_t release_was_q;
  logic [79+hvia_params_pkg::VICountLog2:0]  cpl_was_q;
  logic [96+hvia_params_pkg::VICountLog2:0] rxc_was_q;
  logic [95+hvia_params_pkg::VICountLog2:0] txc_was_q;
  logic [6:0]   beats_q;

  // Functions are evaluated only where used.
  function automatic logic [260+2*hvia_params_pkg::VICountLog2:0] now();
    now = {state_q, work_q, va_q, handle_q, pa_q, more_q, head_turn_q, vi_state_q, tag_q,
           link_valid_o, release_valid_o, link_now(), desc_valid_o, wr_valid_o, cpl_valid_o,
           rxc_done_o, txc_done_o, wait_valid_q, desc_vi_o &
               {hvia_params_pkg::VICountLog2{desc_valid_o}}};
  endfunction
  function automatic logic [111+hvia_params_pkg::VICountLog2:0] att_now();
    att_now = {att_req_handle_o, att_req_va_o, att_req_tag_o, att_req_vi_o};
  endfunction
  function automatic logic [41:0] req_now();
    req_now = {req_addr_o, req_len_o};
  endfunction
  function automatic logic [688+hvia_params_pkg::VICountLog2:0] desc_now();
    desc_now = {desc_vi_o, desc_seq_o, desc_va_o, desc_pa_o, desc_handle_o, desc_chunk_o,
                desc_status_o, desc_unreachable_o};
  endfunction
  function automatic logic [97+hvia_params_pkg::VICountLog2:0] link_now();
    link_now = {link_bad_o, link_receive_o, link_vi_o, link_va_o, link_handle_o};
  endfunction
  function automatic logic [79+hvia_params_pkg::VICountLog2:0] cpl_now();
    cpl_now = {cpl_vi_o, cpl_seq_o, cpl_pa_o, cpl_handle_o};
  endfunction
  function automatic logic [96+hvia_params_pkg::VICountLog2:0] rxc_now();
    rxc_now = {rxc_vi_i, rxc_va_i, rxc_handle_i, rxc_store_i};
  endfunction
  function automatic logic [95+hvia_params_pkg::VICountLog2:0] txc_now();
    txc_now = {txc_vi_i, txc_va_i, txc_handle_i};
  endfunction

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q        <= 1'b0;
      att_q          <= 1'b0;
      req_q          <= 1'b0;
      desc_q         <= 1'b0;
      link_q         <= 1'b0;
      release_q      <= 1'b0;
      cpl_q          <= 1'b0;
      rxc_q          <= 1'b0;
      txc_q          <= 1'b0;
      asked_q        <= 1'b0;
      reading_q      <= 1'b0;
      rxc_open_q     <= 1'b0;
      txc_open_q     <= 1'b0;
      receive_open_q <= 1'b0;
      beats_q        <= 7'd0;
    end else begin
      quiet_q       <= quiet_o;
      att_q         <= att_req_valid_o && !att_req_ready_i;
      req_q         <= req_valid_o && !req_ready_i;
      desc_q        <= desc_valid_o && !desc_ready_i;
      link_q        <= link_valid_o && !link_ready_i;
      release_q     <= release_valid_o && !release_ready_i;
      cpl_q         <= cpl_valid_o && !cpl_ready_i;
      rxc_q         <= rxc_valid_i && !rxc_ready_o;
      txc_q         <= txc_valid_i && !txc_ready_o;
      release_was_q <= release_vi_o;
      if (att_req_valid_o) att_was_q <= att_now();
      if (req_valid_o) req_was_q <= req_now();
      if (desc_valid_o) desc_was_q <= desc_now();
      if (link_valid_o) link_was_q <= link_now();
      if (cpl_valid_o) cpl_was_q <= cpl_now();
      if (rxc_valid_i) rxc_was_q <= rxc_now();
      if (txc_valid_i) txc_was_q <= txc_now();

      if (quiet_q) begin
        assert (words_q == words_was_q && now() == was_q)
        else $error("descriptor_fetch: a register changed after it said quiet");
      end
      if (att_q) begin
        assert (att_req_valid_o && att_now() == att_was_q)
        else $error("descriptor_fetch: a translation request changed before it was taken");
      end
      if (req_q) begin
        assert (req_valid_o && req_now() == req_was_q)
        else $error("descriptor_fetch: a bus request changed before it was taken");
      end
      if (desc_q) begin
        assert (desc_valid_o && desc_now() == desc_was_q)
        else $error("descriptor_fetch: a descriptor changed before it was taken");
      end
      if (link_q) begin
        assert (link_valid_o && link_now() == link_was_q)
        else $error("descriptor_fetch: a link changed before it was taken");
      end
      if (release_q) begin
        assert (release_valid_o && release_vi_o == release_was_q)
        else $error("descriptor_fetch: a release changed before it was taken");
      end
      if (cpl_q) begin
        assert (cpl_valid_o && cpl_now() == cpl_was_q)
        else $error("descriptor_fetch: a completion changed before it was taken");
      end
      if (rxc_q) begin
        assert (rxc_valid_i && rxc_now() == rxc_was_q)
        else $error("descriptor_fetch: the receive engine changed its request for a chunk");
      end
      if (txc_q) begin
        assert (txc_valid_i && txc_now() == txc_was_q)
        else $error("descriptor_fetch: the transmit engine changed its request for a chunk");
      end
      assert (!(take_ready_o && !take_valid_i) && !(rxc_ready_o && !rxc_valid_i) &&
              !(txc_ready_o && !txc_valid_i))
      else $error("descriptor_fetch: takes what is not offered");
      assert ({1'b0, take_ready_o} + {1'b0, rxc_ready_o} + {1'b0, txc_ready_o} <= 2'd1)
      else $error("descriptor_fetch: takes two things at a time");
      assert (!(take_ready_o && !take_receive_i && !send_space_o))
      else $error("descriptor_fetch: takes a send descriptor without space for it");

      // One chunk request is open at a time, and each ends once.
      if (rxc_ready_o) rxc_open_q <= 1'b1;
      else if (rxc_done_o) rxc_open_q <= 1'b0;
      if (txc_ready_o) txc_open_q <= 1'b1;
      else if (txc_done_o) txc_open_q <= 1'b0;
      assert (!(rxc_done_o && !rxc_open_q) && !(rxc_ready_o && rxc_open_q))
      else $error("descriptor_fetch: the end of a chunk for the receive engine");
      assert (!(txc_done_o && !txc_open_q) && !(txc_ready_o && txc_open_q))
      else $error("descriptor_fetch: the end of a chunk for the transmit engine");

      // A receive descriptor is either stored or released, once.
      if (take_ready_o) receive_open_q <= take_receive_i;
      else if (store || release_due) receive_open_q <= 1'b0;
      assert (!((store || release_due) && !receive_open_q) && !(store && release_due) &&
              !(take_ready_o && receive_open_q) && (store == (wr_valid_o && wr_head_o)))
      else $error("descriptor_fetch: a receive descriptor was stored and released, or neither");

      // Only receive descriptors are reported here: earlier ones of a send queue may be unfinished,
      // so the transmit engine reports those.
      assert (!(async_valid_o && work_q != 2'd1))
      else $error("descriptor_fetch: reports a descriptor that is not of a receive queue");

      assert (!(handed && (store || (take_ready_o && !take_receive_i) ||
                           (fetched && !wr_head_o))))
      else $error("descriptor_fetch: two events in one clock");

      if (att_req_valid_o && att_req_ready_i) asked_q <= 1'b1;
      else if (att_rsp_valid_i) asked_q <= 1'b0;
      assert (!att_rsp_valid_i || asked_q)
      else $error("descriptor_fetch: a translation without a request");

      if (req_valid_o) begin
        assert (req_len_o == 10'(hvia_pkg::DescriptorFetchBytes) &&
                32'(req_addr_o[11:0]) + 32'(req_len_o) <= hvia_pkg::AttPageBytes)
        else $error("descriptor_fetch: read of %0d bytes at %h leaves the page", req_len_o,
                    req_addr_o);
      end
      if (req_valid_o && req_ready_i) begin
        reading_q <= 1'b1;
        beats_q   <= 7'd0;
      end else if (rvalid_i && rready_o) begin
        beats_q   <= beats_q + 7'd1;
        reading_q <= !rlast_i;
      end
      if (rvalid_i) begin
        assert (reading_q && rready_o)
        else $error("descriptor_fetch: read data that was not asked for");
        assert (rlast_i ? (rerr_i || beats_q + 7'd1 == 7'(Beats)) : beats_q + 7'd1 < 7'(Beats))
        else $error("descriptor_fetch: beat %0d of %0d, last is %b", beats_q, Beats, rlast_i);
        assert (!(rerr_i && !rlast_i))
        else $error("descriptor_fetch: an error that does not end the read");
      end
      // State at the start of a quiescent span.
      if (quiet_o && !quiet_q) begin
        words_was_q <= words_q;
        was_q       <= now();
      end
    end
  end

endmodule

bind hvia_descriptor_fetch hvia_descriptor_fetch_checker #(.W(W)) u_checker (.*);
