// SPDX-License-Identifier: Apache-2.0

// Checks of every descriptor_fetch: what it offers stays until it was taken, its neighbours answer
// only what was asked, a read is one whole aligned descriptor inside one page, and quiet means that
// nothing moves.
module descriptor_fetch_checker #(
    parameter int unsigned W = 32
) (
    input logic            clk_i,
    input logic            rst_ni,
    input logic            take_valid_i,
    input logic            take_ready_o,
    input logic            link_valid_o,
    input logic            link_ready_i,
    input logic            link_bad_o,
    input logic [7:0]      link_vi_o,
    input logic [63:0]     link_va_o,
    input logic [31:0]     link_handle_o,
    input logic            att_req_valid_o,
    input logic            att_req_ready_i,
    input logic [31:0]     att_req_handle_o,
    input logic [63:0]     att_req_va_o,
    input logic [15:0]     att_req_tag_o,
    input logic [7:0]      att_req_vi_o,
    input logic            att_rsp_valid_i,
    input logic            req_valid_o,
    input logic            req_ready_i,
    input logic [31:0]     req_addr_o,
    input logic [9:0]      req_len_o,
    input logic            rvalid_i,
    input logic            rready_o,
    input logic            rlast_i,
    input logic            rerr_i,
    input logic            desc_valid_o,
    input logic            desc_ready_i,
    input logic [7:0]      desc_vi_o,
    input logic [15:0]     desc_seq_o,
    input logic [31:0]     desc_pa_o,
    input logic [31:0]     desc_handle_o,
    input logic [15:0]     desc_control_o,
    input logic [15:0]     desc_seg_count_o,
    input logic [31:0]     desc_immediate_o,
    input logic [31:0]     desc_length_o,
    input logic [63:0]     desc_remote_va_o,
    input logic [31:0]     desc_remote_handle_o,
    input logic [63:0]     desc_data_va_o,
    input logic [31:0]     desc_data_handle_o,
    input logic [31:0]     desc_data_len_o,
    input logic [31:0]     desc_status_o,
    input logic            quiet_o,
    input logic [2:0]      state_q,
    input logic [63:0]     va_q,
    input logic [31:0]     handle_q,
    input logic            more_q,
    input logic            link_bad_q,
    input logic [2:0]      vi_state_q,
    input logic [15:0]     tag_q,
    input logic [511:0]    words_q
);

  localparam int unsigned Beats = hvia_pkg::DescriptorFetchBytes * 8 / W;

  logic         quiet_q, att_q, req_q, desc_q, link_q, asked_q, reading_q;
  logic [688:0] now, was_q;
  logic [119:0] att_now, att_was_q;
  logic [41:0]  req_now, req_was_q;
  logic [439:0] desc_now, desc_was_q;
  logic [104:0] link_now, link_was_q;
  logic [6:0]   beats_q;

  assign now = {state_q, va_q, handle_q, more_q, link_bad_q, vi_state_q, tag_q, words_q,
                desc_pa_o, link_valid_o, desc_vi_o, desc_seq_o};
  assign att_now  = {att_req_handle_o, att_req_va_o, att_req_tag_o, att_req_vi_o};
  assign req_now  = {req_addr_o, req_len_o};
  assign desc_now = {desc_vi_o, desc_seq_o, desc_pa_o, desc_handle_o, desc_control_o,
                     desc_seg_count_o, desc_immediate_o, desc_length_o, desc_remote_va_o,
                     desc_remote_handle_o, desc_data_va_o, desc_data_handle_o, desc_data_len_o,
                     desc_status_o};
  assign link_now = {link_bad_o, link_vi_o, link_va_o, link_handle_o};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      quiet_q   <= 1'b0;
      att_q     <= 1'b0;
      req_q     <= 1'b0;
      desc_q    <= 1'b0;
      link_q    <= 1'b0;
      asked_q   <= 1'b0;
      reading_q <= 1'b0;
      beats_q   <= 7'd0;
    end else begin
      quiet_q    <= quiet_o;
      att_q      <= att_req_valid_o && !att_req_ready_i;
      req_q      <= req_valid_o && !req_ready_i;
      desc_q     <= desc_valid_o && !desc_ready_i;
      link_q     <= link_valid_o && !link_ready_i;
      if (quiet_o) was_q <= now;
      if (att_req_valid_o) att_was_q <= att_now;
      if (req_valid_o) req_was_q <= req_now;
      if (desc_valid_o) desc_was_q <= desc_now;
      if (link_valid_o) link_was_q <= link_now;

      if (quiet_q) begin
        assert (now == was_q)
        else $error("descriptor_fetch: a register changed after it said quiet");
      end
      if (att_q) begin
        assert (att_req_valid_o && att_now == att_was_q)
        else $error("descriptor_fetch: a translation request changed before it was taken");
      end
      if (req_q) begin
        assert (req_valid_o && req_now == req_was_q)
        else $error("descriptor_fetch: a bus request changed before it was taken");
      end
      if (desc_q) begin
        assert (desc_valid_o && desc_now == desc_was_q)
        else $error("descriptor_fetch: a descriptor changed before it was taken");
      end
      if (link_q) begin
        assert (link_valid_o && link_now == link_was_q)
        else $error("descriptor_fetch: a link changed before it was taken");
      end
      assert (!(take_ready_o && !take_valid_i))
      else $error("descriptor_fetch: takes what is not offered");

      if (att_req_valid_o && att_req_ready_i) asked_q <= 1'b1;
      else if (att_rsp_valid_i) asked_q <= 1'b0;
      assert (!att_rsp_valid_i || asked_q)
      else $error("descriptor_fetch: an answer of the translation that was not asked for");

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
    end
  end

endmodule

bind descriptor_fetch descriptor_fetch_checker #(.W(W)) u_checker (.*);
