// SPDX-License-Identifier: Apache-2.0

// The completion writer followed by the notifications, as in the card. The testbench is everything
// else: the sources, the VI manager, the host bus, the registers and the collector of errors.
module completion_tb #(
    parameter int unsigned W = 32
) (
    input  logic            clk_i,
    input  logic            rst_ni,
    input  logic [3:0]      cpl_valid_i,
    output logic [3:0]      cpl_ready_o,
    input  logic [4*hvia_params_pkg::VICountLog2-1:0] cpl_vi_i,
    input  logic [4*16-1:0] cpl_seq_i,
    input  logic [4*32-1:0] cpl_pa_i,
    input  logic [4*32-1:0] cpl_handle_i,
    input  logic [4*32-1:0] cpl_length_i,
    input  logic [4*32-1:0] cpl_status_i,
    input  logic [4*32-1:0] cpl_immediate_i,
    input  logic [3:0]      cpl_has_immediate_i,
    input  logic [3:0]      cpl_receive_i,
    input  logic [3:0]      cpl_write_i,
    input  logic            cq_tie_valid_i,
    input  hvia_params_pkg::vi_t cq_tie_vi_i,
    input  logic [7:0]      cq_tie_send_i,
    input  logic [7:0]      cq_tie_receive_i,
    input  logic            cqc_valid_i,
    output logic            cqc_ready_o,
    input  logic [1:0]      cqc_op_i,
    input  logic [7:0]      cqc_index_i,
    input  logic [31:0]     cqc_address_i,
    input  logic [7:0]      cqc_log2_i,
    output logic            cqc_ok_o,
    output logic [15:0]     cqc_tail_o,
    output logic            req_valid_o,
    input  logic            req_ready_i,
    output logic            req_write_o,
    output logic [31:0]     req_addr_o,
    output logic [9:0]      req_len_o,
    output logic [W-1:0]    wdata_o,
    output logic [W/8-1:0]  wstrb_o,
    output logic            wvalid_o,
    input  logic            wready_i,
    input  logic            wdone_i,
    input  logic            werr_i,
    input  logic [W-1:0]    rdata_i,
    input  logic            rvalid_i,
    output logic            rready_o,
    input  logic            rlast_i,
    input  logic            rerr_i,
    input  logic [31:0]     drain_handle_i,
    input  hvia_params_pkg::vi_t drain_vi_i,
    output logic            handle_busy_o,
    output logic            vi_busy_o,
    output logic            done_valid_o,
    output logic [1:0]      done_kind_o,
    output logic [7:0]      done_index_o,
    output logic            async_valid_o,
    input  logic            async_ready_i,
    output logic [7:0]      async_code_o,
    output logic [7:0]      async_vi_o,
    output logic            stat_completion_written_o,
    output logic            stat_completion_receive_o,
    output logic            stat_completion_error_o,
    output logic            stat_descriptor_flushed_o,
    output logic            stat_descriptor_error_o,
    output logic            stat_completion_queue_entry_o,
    output logic            stat_completion_queue_overrun_o,
    output logic            trace_valid_o,
    output logic [7:0]      trace_event_o,
    output logic [7:0]      trace_vi_o,
    output logic [15:0]     trace_seq_o,
    output logic            quiet_o,
    input  logic            arm_valid_i,
    input  logic [1:0]      arm_kind_i,
    input  logic [7:0]      arm_index_i,
    input  logic            info_read_i,
    output logic [31:0]     info_data_o,
    output logic            irq_notify_o,
    output logic            stat_notify_o,
    output logic            notify_quiet_o
);

  hvia_completion #(.W(W)) u_completion (
      .*
  );

  hvia_notify u_notify (
      .done_valid_i(done_valid_o), .done_kind_i(done_kind_o), .done_index_i(done_index_o),
      .quiet_o(notify_quiet_o), .*
  );

endmodule
