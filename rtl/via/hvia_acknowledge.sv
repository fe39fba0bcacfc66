// SPDX-License-Identifier: Apache-2.0

// What this card owes to the peers of its reliable VIs: for each VI the number and code of the next
// acknowledgement, how many frames were accepted since the last one, and whether a frame was
// refused. The receive engine tells of its frames, the ledger of reads that it refuses. A VI with
// something to say stands in a list, once, in the order in which they came to have it; what comes
// while it waits there goes with it, so that many frames make one acknowledgement.
//
// A gap is told once, until a frame is accepted. A refusal stays until the VI is connected again or
// reset: the first one counts, and nothing that is accepted or missed after it is told. Both events
// also take back what the VI had to say, in the list and at the port, because the peer is another
// then.
//
// One event at a time: the VI's word is read in the clock in which the event is taken and written
// in the next. The word that is written by a connection or a reset goes first.
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
    // Whether a refusal stands for a VI, one clock after its index.
    input  hvia_params_pkg::vi_t refused_vi_i,
    output logic        refused_o,

    // Ledger: a read is refused.
    input  logic        ref_valid_i,
    output logic        ref_ready_o,
    input  hvia_params_pkg::vi_t ref_vi_i,
    input  logic [31:0] ref_number_i,
    input  logic [2:0]  ref_code_i,

    // Transmit engine. What is offered stays as it is until it is taken or taken back.
    output logic        ack_valid_o,
    input  logic        ack_ready_i,
    output hvia_params_pkg::vi_t ack_vi_o,
    output logic [31:0] ack_number_o,
    output logic [2:0]  ack_code_o,

    // A VI was connected, or reset; one clock each, never both at once.
    input  logic        init_valid_i,
    input  hvia_params_pkg::vi_t init_vi_i,
    input  logic        clear_valid_i,
    input  hvia_params_pkg::vi_t clear_vi_i,

    output logic        stat_refusal_sent_o,
    output logic        quiet_o
);

  localparam int unsigned Every  = hvia_params_pkg::AcknowledgeEvery;
  localparam int unsigned CountW = $clog2(Every + 1);

  typedef enum logic [1:0] {
    Idle,
    Head,   // the VI at the head of the list is read
    Event,  // an event's VI is written
    Show    // the head of the list goes to the port
  } state_e;
  state_e state_q, state_d;

  typedef struct packed {
    logic              due;   // there is something to say
    logic              told;  // of a gap, since the last frame that was accepted
    logic [CountW-1:0] count; // frames accepted since the last acknowledgement
    logic [2:0]        code;
    logic [31:0]       number;
  } word_t;

  // An entry means nothing before its VI is connected, and that writes it.
  localparam int unsigned WordBits = 1 + 1 + CountW + 3 + 32;
  logic [WordBits-1:0] word_mem[hvia_params_pkg::VICount];
  hvia_params_pkg::vi_t list_mem[hvia_params_pkg::VICount];
  word_t               word_q, word_d;
  hvia_params_pkg::vis_t refused_q, listed_q;
  hvia_params_pkg::vi_t list_vi_q;
  hvia_params_pkg::vi_t head_q, tail_q;
  logic                some_q;  // the list is not empty

  // The word of a VI that was connected or reset begins anew.
  logic       renew;
  hvia_params_pkg::vi_t renew_vi;
  assign renew    = init_valid_i | clear_valid_i;
  assign renew_vi = clear_valid_i ? clear_vi_i : init_vi_i;

  // The event that is taken.
  logic        take_rxa, take_ref, take_head;
  logic [2:0]  op_q;
  hvia_params_pkg::vi_t vi_q, vi_d;
  logic [31:0] number_q;
  logic [2:0]  code_q;
  assign take_rxa    = (state_q == Idle) & rxa_valid_i;
  assign take_ref    = (state_q == Idle) & ~rxa_valid_i & ref_valid_i;
  assign take_head   = (state_q == Idle) & ~rxa_valid_i & ~ref_valid_i & some_q & ~ack_valid_o;
  assign rxa_ready_o = take_rxa;
  assign ref_ready_o = take_ref;
  always_comb begin
    vi_d = take_rxa ? rxa_vi_i : ref_vi_i;
    if (state_q == Head) vi_d = list_vi_q;
  end

  // What happens to a VI in the clock of its renewal, or came before it, is over.
  logic over;
  assign over = renew & (renew_vi == ((state_q == Event) | (state_q == Show) ? vi_q : vi_d));

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle: begin
        if (take_rxa | take_ref) state_d = over ? Idle : Event;
        else if (take_head) state_d = Head;
      end
      Head:    state_d = over ? Idle : Show;
      Event:   if (~renew | over) state_d = Idle;
      default: if (~renew | over) state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) state_q <= Idle;
    else state_q <= state_d;
  end

  always_ff @(posedge clk_i) begin
    if (take_rxa | take_ref | (state_q == Head)) begin
      vi_q   <= vi_d;
      word_q <= word_mem[vi_d];
    end
    if (take_rxa) begin
      op_q     <= rxa_op_i;
      number_q <= rxa_number_i;
      code_q   <= rxa_code_i;
    end else if (take_ref) begin
      op_q     <= hvia_pkg::AcknowledgeOperationRefuse;
      number_q <= ref_number_i;
      code_q   <= ref_code_i;
    end
    if (take_head) list_vi_q <= list_mem[head_q];
  end

  // What the event makes of the word.
  logic write, refused, refuse, push, show;
  assign refused = refused_q[vi_q];
  assign write   = ((state_q == Event) | (state_q == Show)) & ~renew;
  assign refuse  = write & (state_q == Event) & (op_q == hvia_pkg::AcknowledgeOperationRefuse) &
      ~refused;
  assign push    = write & (state_q == Event) & word_d.due & ~listed_q[vi_q];
  assign show    = write & (state_q == Show) & word_q.due;
  always_comb begin
    word_d = word_q;
    if (state_q == Show) begin
      // Who was connected again has a place in the list, but may have nothing to say yet.
      word_d.due = 1'b0;
      if (word_q.due) word_d.count = '0;
    end else begin
      unique case (op_q)
        hvia_pkg::AcknowledgeOperationAccept, hvia_pkg::AcknowledgeOperationAcceptLast: begin
          if (~refused) begin
            word_d.number = number_q;
            word_d.code   = hvia_pkg::AcknowledgeCodeOk;
            word_d.told   = 1'b0;
            // It may wrap while the acknowledgement waits, which is due anyway.
            word_d.count  = word_q.count + 1'b1;
            if ((op_q == hvia_pkg::AcknowledgeOperationAcceptLast) |
                (word_d.count == CountW'(Every))) word_d.due = 1'b1;
          end
        end
        hvia_pkg::AcknowledgeOperationOld: begin
          if (~refused) begin
            word_d.number = number_q;
            // A gap that is not told yet is told with it.
            if (~word_q.due) word_d.code = hvia_pkg::AcknowledgeCodeOk;
            word_d.due = 1'b1;
          end
        end
        hvia_pkg::AcknowledgeOperationGap: begin
          if (~refused & ~word_q.told) begin
            word_d.number = number_q;
            word_d.code   = hvia_pkg::AcknowledgeCodeGap;
            word_d.told   = 1'b1;
            word_d.due    = 1'b1;
          end
        end
        hvia_pkg::AcknowledgeOperationRefuse: begin
          if (~refused) begin
            word_d.number = number_q;
            word_d.code   = code_q;
          end
          word_d.due = 1'b1;
        end
        // A frame after a refusal: it is said again.
        default: if (refused) word_d.due = 1'b1;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (renew) word_mem[renew_vi] <= '0;
    else if (write) word_mem[vi_q] <= word_d;
    if (push) list_mem[tail_q] <= vi_q;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      refused_q <= '0;
      refused_o <= 1'b0;
      listed_q  <= '0;
      head_q    <= '0;
      tail_q    <= '0;
      some_q    <= 1'b0;
    end else begin
      if (refuse) refused_q[vi_q] <= 1'b1;
      if (renew) refused_q[renew_vi] <= 1'b0;
      refused_o <= refused_q[refused_vi_i];
      // The last one that leaves the list leaves it empty; both do not happen at once.
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
  always_ff @(posedge clk_i or negedge rst_ni) begin
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

  assign stat_refusal_sent_o = refuse;

  assign quiet_o = (state_q == Idle) & ~rxa_valid_i & ~ref_valid_i &
      ~some_q & ~ack_valid_o & ~renew &
                   (refused_o == refused_q[refused_vi_i]);

endmodule
