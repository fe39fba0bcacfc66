// SPDX-License-Identifier: Apache-2.0

// Properties of `notify`: a name enters the queue only if it is armed and not queued, so the queue
// cannot overflow; it leaves once; no state changes while `quiet_o` is 1.
module hvia_notify_checker #(
    localparam int unsigned Names = (32'(hvia_pkg::NotifyKindCompletionQueue) << 8) +
                                    2**hvia_params_pkg::CompletionQueuesLog2
) (
    input logic        clk_i,
    input logic        rst_ni,
    input logic [31:0] info_data_o,
    input logic        irq_notify_o,
    input logic        quiet_o,
    input logic [Names-1:0] armed_q,
    input logic [Names-1:0] queued_q,
    input logic [9:0]  done_name,
    input logic [9:0]  name_q,
    input logic [9:0]  put_q,
    input logic [9:0]  take_q,
    input logic        shown_q,
    input logic        taken
);

  logic             quiet_q;
  logic [Names-1:0] armed_was_q, queued_was_q;
  logic [30:0]      was_q;
  logic [9:0]       count_q;  // names in the queue, counted here
  // A function is evaluated only where used.
  function automatic logic [30:0] now();
    now = {name_q, put_q, take_q, shown_q};
  endfunction

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q <= 1'b0;
      count_q <= 10'd0;
    end else begin
      quiet_q <= quiet_o;
      count_q <= count_q + 10'(irq_notify_o) - 10'(taken);
      assert (put_q - take_q + 10'(shown_q) == count_q && 32'(count_q) <= Names)
      else $error("notify: %0d names wait, %0d were not read yet", put_q - take_q, count_q);
      if (irq_notify_o) begin
        assert (armed_q[done_name] && (!queued_q[done_name] || (taken && name_q == done_name)))
        else $error("notify: %h comes that was not armed, or that waits already", done_name);
      end
      assert (!shown_q || queued_q[name_q])
      else $error("notify: %h is shown and does not wait", name_q);
      assert (shown_q == info_data_o[hvia_pkg::RegisterNotifyInfoValidBit])
      else $error("notify: shows %h with %0d names", info_data_o, count_q);
      if (quiet_q) begin
        assert (armed_q == armed_was_q && queued_q == queued_was_q && now() == was_q)
        else $error("notify: a register changed after quiet");
      end
      // State at the start of a quiescent span.
      if (quiet_o && !quiet_q) begin
        armed_was_q  <= armed_q;
        queued_was_q <= queued_q;
        was_q        <= now();
      end
    end
  end

endmodule

bind hvia_notify hvia_notify_checker u_checker (.*);
