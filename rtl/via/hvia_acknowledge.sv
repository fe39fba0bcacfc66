// SPDX-License-Identifier: Apache-2.0

// Acknowledgements due to the peers of this card's reliable VIs. Per VI: number and code of the
// next acknowledgement, frames accepted since the last one, and whether a frame was NAKed. The
// receive engine reports its frames, the ledger the reads that it NAKs. A VI with an
// acknowledgement due is in a list once, in order of arrival; later events of the VI join the
// waiting one, so several frames share one acknowledgement.
//
// A gap is reported once until a frame is accepted. A NAK stays until the VI is reconnected or
// reset: only the first one counts, and no later accept or gap is reported. A reconnection or reset
// also withdraws the VI's acknowledgement from the list and the port: it was for the former peer.
//
// One event at a time: the VI's word is read in the clock that takes the event and written in the
// next. The write of a connection or a reset has priority.
module hvia_acknowledge (
    input  logic        clk_i,
    input  logic        rst_ni,

    // Receive engine: a frame of a reliable VI. Taken within 4 clocks.
    input  logic        rxa_valid_i,
    output logic        rxa_ready_o,
    input  logic [2:0]  rxa_op_i,
    input  hvia_params_pkg::vi_t rxa_vi_i,
    input  logic [31:0] rxa_number_i,
    input  logic [2:0]  rxa_code_i,
    // Whether a VI was NAKed, one clock after its index.
    input  hvia_params_pkg::vi_t nak_sent_vi_i,
    output logic        nak_sent_o,

    // Ledger: a read is NAKed.
    input  logic        nak_valid_i,
    output logic        nak_ready_o,
    input  hvia_params_pkg::vi_t nak_vi_i,
    input  logic [31:0] nak_number_i,
    input  logic [2:0]  nak_code_i,

    // Transmit engine. An offer is stable until it is taken or withdrawn.
    output logic        ack_valid_o,
    input  logic        ack_ready_i,
    output hvia_params_pkg::vi_t ack_vi_o,
    output logic [31:0] ack_number_o,
    output logic [2:0]  ack_code_o,

    // A VI was connected or reset; one clock each, never both at once.
    input  logic        init_valid_i,
    input  hvia_params_pkg::vi_t init_vi_i,
    input  logic        clear_valid_i,
    input  hvia_params_pkg::vi_t clear_vi_i,

    output logic        stat_nak_sent_o,
    output logic        quiet_o
);

  localparam int unsigned Every  = hvia_params_pkg::AcknowledgeEvery;
  localparam int unsigned CountW = $clog2(Every + 1);

  typedef enum logic [1:0] {
    Idle,
    Head,   // read the VI at the head of the list
    Event,  // write the VI of an event
    Show    // move the head of the list to the port
  } state_e;
  state_e state_q, state_d;

  typedef struct packed {
    logic              due;      // an acknowledgement is due
    logic              gap_sent; // the gap was reported, since the last accepted frame
    logic [CountW-1:0] count;    // frames accepted since the last acknowledgement
    logic [2:0]        code;
    logic [31:0]       number;
  } word_t;

  // An entry is valid only after its VI is connected, and that writes it.
  localparam int unsigned WordBits = 1 + 1 + CountW + 3 + 32;
  logic [WordBits-1:0] word_mem[hvia_params_pkg::VICount];
  hvia_params_pkg::vi_t list_mem[hvia_params_pkg::VICount];
  word_t               word_q, word_d;
  hvia_params_pkg::vis_t nak_sent_q, listed_q;
  hvia_params_pkg::vi_t list_vi_q;
  hvia_params_pkg::vi_t head_q, tail_q;
  logic                some_q;  // the list is not empty

  // A connection or a reset initialises the VI's word.
  logic       renew;
  hvia_params_pkg::vi_t renew_vi;
  assign renew    = init_valid_i | clear_valid_i;
  assign renew_vi = clear_valid_i ? clear_vi_i : init_vi_i;

  // The event taken in this clock.
  logic        take_rxa, take_nak, take_head;
  logic [2:0]  op_q;
  hvia_params_pkg::vi_t vi_q, vi_d;
  logic [31:0] number_q;
  logic [2:0]  code_q;
  assign take_rxa    = (state_q == Idle) & rxa_valid_i;
  assign take_nak    = (state_q == Idle) & ~rxa_valid_i & nak_valid_i;
  assign take_head   = (state_q == Idle) & ~rxa_valid_i & ~nak_valid_i & some_q & ~ack_valid_o;
  assign rxa_ready_o = take_rxa;
  assign nak_ready_o = take_nak;
  always_comb begin
    vi_d = take_rxa ? rxa_vi_i : nak_vi_i;
    if (state_q == Head) vi_d = list_vi_q;
  end

  // Events of a VI in the clock of its renewal, or before, are void.
  logic over;
  assign over = renew & (renew_vi == ((state_q == Event) | (state_q == Show) ? vi_q : vi_d));

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle: begin
        if (take_rxa | take_nak) state_d = over ? Idle : Event;
        else if (take_head) state_d = Head;
      end
      Head:    state_d = over ? Idle : Show;
      Event:   if (~renew | over) state_d = Idle;
      default: if (~renew | over) state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) state_q <= Idle;
    else state_q <= state_d;
  end

  always_ff @(posedge clk_i) begin
    if (take_rxa | take_nak | (state_q == Head)) begin
      vi_q   <= vi_d;
      word_q <= word_mem[vi_d];
    end
    if (take_rxa) begin
      op_q     <= rxa_op_i;
      number_q <= rxa_number_i;
      code_q   <= rxa_code_i;
    end else if (take_nak) begin
      op_q     <= hvia_pkg::AcknowledgeOperationNAK;
      number_q <= nak_number_i;
      code_q   <= nak_code_i;
    end
    if (take_head) list_vi_q <= list_mem[head_q];
  end

  // Effect of the event on the word.
  logic write, nak_sent, nak, push, show;
  assign nak_sent = nak_sent_q[vi_q];
  assign write    = ((state_q == Event) | (state_q == Show)) & ~renew;
  assign nak      = write & (state_q == Event) & (op_q == hvia_pkg::AcknowledgeOperationNAK) &
      ~nak_sent;
  assign push     = write & (state_q == Event) & word_d.due & ~listed_q[vi_q];
  assign show     = write & (state_q == Show) & word_q.due;
  always_comb begin
    word_d = word_q;
    if (state_q == Show) begin
      // A reconnected VI may still be in the list without anything due.
      word_d.due = 1'b0;
      if (word_q.due) word_d.count = '0;
    end else begin
      unique case (op_q)
        hvia_pkg::AcknowledgeOperationAccept, hvia_pkg::AcknowledgeOperationAcceptLast: begin
          if (~nak_sent) begin
            word_d.number   = number_q;
            word_d.code     = hvia_pkg::AcknowledgeCodeOk;
            word_d.gap_sent = 1'b0;
            // Wrapping does no harm: it can happen only while an acknowledgement is due.
            word_d.count    = word_q.count + 1'b1;
            if ((op_q == hvia_pkg::AcknowledgeOperationAcceptLast) |
                (word_d.count == CountW'(Every))) word_d.due = 1'b1;
          end
        end
        hvia_pkg::AcknowledgeOperationOld: begin
          if (~nak_sent) begin
            word_d.number = number_q;
            // A gap not reported yet keeps its code.
            if (~word_q.due) word_d.code = hvia_pkg::AcknowledgeCodeOk;
            word_d.due = 1'b1;
          end
        end
        hvia_pkg::AcknowledgeOperationGap: begin
          if (~nak_sent & ~word_q.gap_sent) begin
            word_d.number   = number_q;
            word_d.code     = hvia_pkg::AcknowledgeCodeGap;
            word_d.gap_sent = 1'b1;
            word_d.due      = 1'b1;
          end
        end
        hvia_pkg::AcknowledgeOperationNAK: begin
          if (~nak_sent) begin
            word_d.number = number_q;
            word_d.code   = code_q;
          end
          word_d.due = 1'b1;
        end
        // A frame after a NAK: repeat the NAK.
        default: if (nak_sent) word_d.due = 1'b1;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (renew) word_mem[renew_vi] <= '0;
    else if (write) word_mem[vi_q] <= word_d;
    if (push) list_mem[tail_q] <= vi_q;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      nak_sent_q <= '0;
      nak_sent_o <= 1'b0;
      listed_q   <= '0;
      head_q     <= '0;
      tail_q     <= '0;
      some_q     <= 1'b0;
    end else begin
      if (nak) nak_sent_q[vi_q] <= 1'b1;
      if (renew) nak_sent_q[renew_vi] <= 1'b0;
      nak_sent_o <= nak_sent_q[nak_sent_vi_i];
      // Push and Head are different states, so both do not change `some_q` at once.
      if (push) begin
        listed_q[vi_q] <= 1'b1;
        tail_q         <= tail_q + 1'b1;
        some_q         <= 1'b1;
      end
      if (state_q == Head) begin
        listed_q[list_vi_q] <= 1'b0;
        head_q              <= head_q + 1'b1;
        some_q              <= head_q + 1'b1 != tail_q;
      end
    end
  end

  // The port.
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      ack_valid_o <= 1'b0;
    end else begin
      if (ack_ready_i | (renew & (renew_vi == ack_vi_o))) ack_valid_o <= 1'b0;
      if (show) ack_valid_o <= 1'b1;
    end
  end
  always_ff @(posedge clk_i) begin
    if (show) begin
      ack_vi_o     <= vi_q;
      ack_number_o <= word_q.number;
      ack_code_o   <= word_q.code;
    end
  end

  assign stat_nak_sent_o = nak;

  assign quiet_o = (state_q == Idle) & ~rxa_valid_i & ~nak_valid_i &
      ~some_q & ~ack_valid_o & ~renew &
                   (nak_sent_o == nak_sent_q[nak_sent_vi_i]);

endmodule
