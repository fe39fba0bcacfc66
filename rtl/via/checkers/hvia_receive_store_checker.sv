// SPDX-License-Identifier: Apache-2.0

// Properties of `receive_store`: a descriptor enters only an empty slot; a slot is stale only after
// a search; nothing reached by a withdrawn handle enters behind the search for it; the search takes
// one clock per slot and ends; no state changes while `quiet_o` is 1.
module hvia_receive_store_checker (
    input logic         clk_i,
    input logic         rst_ni,
    input logic         wr_valid_i,
    input logic         wr_head_i,
    input hvia_params_pkg::vi_t wr_vi_i,
    input logic [31:0]  wr_handle_i,
    input logic         rs_valid_o,
    input logic [511:0] rs_chunk_o,
    input logic [31:0]  rs_handle_o,
    input logic         drop_valid_i,
    input hvia_params_pkg::vi_t drop_vi_i,
    input logic         stale_start_i,
    input logic         stale_busy_o,
    input logic [31:0]  drain_handle_i,
    input logic         quiet_o,
    input hvia_params_pkg::vis_t valid_q,
    input hvia_params_pkg::vis_t stale_q,
    input logic         search_q,
    input hvia_params_pkg::vi_t search_vi_q,
    input logic         compare_q,
    input hvia_params_pkg::vi_t read_vi_q,
    input logic [207:0] head_q
);

  localparam int unsigned Places = hvia_params_pkg::VICount;

  logic          quiet_q, busy_q;
  hvia_params_pkg::vis_t valid_was_q, held_stale_q;
  logic [511:0]  chunk_was_q;
  logic [242+2*hvia_params_pkg::VICountLog2:0]  was_q;
  logic [31:0]   handle_q;
  logic [8:0]    clocks_q;
  hvia_params_pkg::vis_t stale_was_q;

  // A function is evaluated only where used.
  function automatic logic [242+2*hvia_params_pkg::VICountLog2:0] now();
    now = {search_q, search_vi_q, compare_q, read_vi_q, rs_valid_o, rs_handle_o, head_q};
  endfunction

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q     <= 1'b0;
      busy_q      <= 1'b0;
      clocks_q    <= 9'd0;
      stale_was_q <= '0;
    end else begin
      quiet_q     <= quiet_o;
      busy_q      <= stale_busy_o;
      handle_q    <= drain_handle_i;
      stale_was_q <= stale_q;

      if (quiet_q) begin
        assert (valid_q == valid_was_q && stale_q == held_stale_q && rs_chunk_o == chunk_was_q &&
                now() == was_q)
        else $error("receive_store: a register changed after it said quiet");
      end
      if (wr_valid_i && wr_head_i) begin
        assert (!valid_q[wr_vi_i])
        else $error("receive_store: a second descriptor for VI %0d", wr_vi_i);
        assert (!(stale_busy_o && wr_handle_i == drain_handle_i))
        else $error("receive_store: VI %0d is filled by handle %h behind the search for it",
            wr_vi_i,
                    wr_handle_i);
      end
      assert (!(drop_valid_i && wr_valid_i && drop_vi_i == wr_vi_i))
      else $error("receive_store: VI %0d is emptied while it is written", wr_vi_i);
      assert (busy_q || (stale_q & ~stale_was_q) == '0)
      else $error("receive_store: a place became stale without a search");

      assert (!(stale_start_i && stale_busy_o))
      else $error("receive_store: a search begins before the last has ended");
      if (busy_q && stale_busy_o) begin
        assert (drain_handle_i == handle_q)
        else $error("receive_store: the handle that is searched for changed");
      end
      clocks_q <= stale_busy_o ? clocks_q + 9'd1 : 9'd0;
      assert (clocks_q <= 9'(Places + 1))
      else $error("receive_store: a search takes more than %0d clocks", Places + 1);
      if (busy_q && !stale_busy_o) begin
        assert (clocks_q == 9'(Places + 1))
        else $error("receive_store: a search ended after %0d clocks", clocks_q);
      end
      // State at the start of a quiescent span.
      if (quiet_o && !quiet_q) begin
        valid_was_q  <= valid_q;
        held_stale_q <= stale_q;
        chunk_was_q  <= rs_chunk_o;
        was_q        <= now();
      end
    end
  end

endmodule

bind hvia_receive_store hvia_receive_store_checker u_checker (.*);
