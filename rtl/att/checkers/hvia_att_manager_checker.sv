// SPDX-License-Identifier: Apache-2.0

// Properties of `att_manager`: no requester loses more grants than its bound, requests are stable
// until taken, `quiet_o` is exact.
module hvia_att_manager_checker (
    input logic         clk_i,
    input logic         rst_ni,
    input logic         quiet_o,
    input logic [  3:0] request,
    input logic [  3:0] grant,
    input logic         granted,
    input logic [  2:0] req_valid_i,
    input logic [  2:0] req_ready_o,
    input logic [ 95:0] req_handle_i,
    input logic [191:0] req_va_i,
    input logic [  2:0] rsp_valid_o,
    input logic [  1:0] up_state_q,
    input logic [ 15:0] up_left_q
);

  // eight grants until promoted, then three promoted requesters
  localparam logic [3:0] Longest = 4'd11;

  logic [2:0] waiting_q;
  logic [95:0] handle_q;
  logic [191:0] va_q;
  logic quiet_q;
  logic [17:0] update_q;
  logic [3:0] waited0_q, waited1_q, waited2_q, waited3_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      waiting_q <= 3'd0;
      quiet_q   <= 1'b0;
      waited0_q <= 4'd0;
      waited1_q <= 4'd0;
      waited2_q <= 4'd0;
      waited3_q <= 4'd0;
    end else begin
      waiting_q <= req_valid_i & ~req_ready_o;
      handle_q  <= req_handle_i;
      va_q      <= req_va_i;
      quiet_q   <= quiet_o;
      update_q  <= {up_state_q, up_left_q};
      if (waiting_q != 3'd0) begin
        assert (((waiting_q & ~req_valid_i) == 3'd0) &&
                (!waiting_q[0] || (handle_q[31:0] == req_handle_i[31:0] &&
                    va_q[63:0] == req_va_i[63:0])) &&
                (!waiting_q[1] || (handle_q[63:32] == req_handle_i[63:32] &&
                    va_q[127:64] == req_va_i[127:64])) &&
                (!waiting_q[2] || (handle_q[95:64] == req_handle_i[95:64] &&
                    va_q[191:128] == req_va_i[191:128])))
        else $error("att_manager: a request changed or vanished before it was taken");
      end
      if (granted) begin
        waited0_q <= (request[0] && !grant[0]) ? waited0_q + 4'd1 : 4'd0;
        waited1_q <= (request[1] && !grant[1]) ? waited1_q + 4'd1 : 4'd0;
        waited2_q <= (request[2] && !grant[2]) ? waited2_q + 4'd1 : 4'd0;
        waited3_q <= (request[3] && !grant[3]) ? waited3_q + 4'd1 : 4'd0;
        assert ((grant != 4'd0) && ((grant & (grant - 4'd1)) == 4'd0) &&
            ((grant & ~request) == 4'd0))
        else $error("att_manager: granted %b of %b", grant, request);
      end
      assert ((waited0_q <= Longest) && (waited1_q <= Longest) && (waited2_q <= Longest) &&
              (waited3_q <= Longest))
      else $error("att_manager: a requester lost more grants than the bound allows");
      assert ((rsp_valid_o & (rsp_valid_o - 3'd1)) == 3'd0)
      else $error("att_manager: two clients answered at once");
      if (quiet_q) begin
        assert ({up_state_q, up_left_q} == update_q)
        else $error("att_manager: changed after it said quiet");
      end
    end
  end

endmodule

bind hvia_att_manager hvia_att_manager_checker u_checker (.*);
