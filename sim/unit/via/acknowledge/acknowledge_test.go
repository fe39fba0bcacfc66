// SPDX-License-Identifier: Apache-2.0

package acknowledge_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const acknowledge = "rtl/via/hvia_acknowledge.sv"

// One unit is ten mixtures of 2,000 clocks and one list of all VIs.
var sizes = unit.Sizes{Short: 4, Normal: 60, Long: 4_000}

func spec() verilate.Spec {
	return verilate.Spec{
		Name: "acknowledge_tb",
		Top:  "hvia_acknowledge",
		RTL:  []string{"rtl/gen/hvia_pkg.sv", "rtl/gen/hvia_params_pkg.sv", acknowledge, "rtl/via/checkers/hvia_acknowledge_checker.sv"},
		Cpp:  []string{"sim/unit/via/acknowledge/cc/acknowledge_tb.cc"},
	}
}

func TestAcknowledge(t *testing.T) { unit.MustPass(t, spec(), sizes) }

func TestAcknowledgeOfFewerVIs(t *testing.T) { unit.FewerVIs(t, spec(), sizes) }

// Bugs injected into the block, all in one program: an argument switches one of
// them on, and FAULT stands for that switch.
var faults = []struct {
	name     string
	old, new string
}{
	{"a gap is told for every frame", "if (~refused & ~word_q.told) begin", "if (~refused & (~word_q.told | FAULT)) begin"},
	{"a gap is told once for ever", "            word_d.told   = 1'b0;\n", "            word_d.told   = word_q.told & FAULT;\n"},
	{"an old frame is not acknowledged", "            word_d.due = 1'b1;\n          end\n        end\n        hvia_pkg::AcknowledgeOperationGap", "            word_d.due = word_q.due | !FAULT;\n          end\n        end\n        hvia_pkg::AcknowledgeOperationGap"},
	{"an old frame hides a gap", "if (~word_q.due) word_d.code", "if (~word_q.due | FAULT) word_d.code"},
	{"the count is not reset", "word_d.count = '0;", "word_d.count = (FAULT) ? word_q.count : '0;"},
	{"the count is reset by a place of before", "if (word_q.due) word_d.count", "if (word_q.due | FAULT) word_d.count"},
	{"one frame too many without an acknowledgement", "(word_d.count == CountW'(Every))", "(word_d.count == CountW'(FAULT ? Every + 1 : Every))"},
	{"the last frame waits for more", "if ((op_q == hvia_pkg::AcknowledgeOperationAcceptLast) |", "if (((op_q == hvia_pkg::AcknowledgeOperationAcceptLast) & !FAULT) |"},
	{"listed twice", "word_d.due & ~listed_q[vi_q];", "word_d.due & (~listed_q[vi_q] | FAULT);"},
	{"listed for ever", "listed_q[list_vi_q] <= 1'b0;", "listed_q[list_vi_q] <= FAULT;"},
	{"a refusal is overwritten by what is accepted", "assign refused = refused_q[vi_q];", "assign refused = refused_q[vi_q] & !(FAULT && op_q <= hvia_pkg::AcknowledgeOperationAcceptLast);"},
	{"the second refusal counts", "          if (~refused) begin\n            word_d.number = number_q;\n            word_d.code   = code_q;", "          if (~refused | FAULT) begin\n            word_d.number = number_q;\n            word_d.code   = code_q;"},
	{"a refusal outlives its connection", "if (renew) refused_q[renew_vi] <= 1'b0;", "if (renew && !FAULT) refused_q[renew_vi] <= 1'b0;"},
	{"a refusal is said once", "default: if (refused) word_d.due = 1'b1;", "default: if (refused && !FAULT) word_d.due = 1'b1;"},
	{"refusals of reads are counted twice", "assign stat_refusal_sent_o = refuse;", "assign stat_refusal_sent_o = refuse | (take_ref & FAULT);"},
	{"a reset leaves what is due", "if (renew) word_mem[renew_vi] <= '0;", "if (renew && !(FAULT && clear_valid_i)) word_mem[renew_vi] <= '0;"},
	{"a connection leaves what is offered", "(renew & (renew_vi == ack_vi_o))", "(renew & !FAULT & (renew_vi == ack_vi_o))"},
	{"an event outlives the reset behind it", "      Event:   if (~renew | over) state_d = Idle;", "      Event:   if (~renew | (over & !FAULT)) state_d = Idle;"},
	{"the list is read across a reset", "state_d = over ? Idle : Show;", "state_d = over & !FAULT ? Idle : Show;"},
	{"last come, first served", "list_vi_q <= list_mem[head_q];", "list_vi_q <= list_mem[FAULT ? tail_q - 8'd1 : head_q];"},
	{"a list of all is empty", "head_q + 1'b1 != tail_q;", "(head_q + 1'b1 != tail_q) & !(FAULT && listed_q == '1);"},
	{"quiet with something to say", "~some_q & ~ack_valid_o & ~renew &", "(~some_q | FAULT) & (~ack_valid_o | FAULT) & ~renew &"},
	{"the ledger goes before the engine for ever", "assign take_rxa    = (state_q == Idle) & rxa_valid_i;", "assign take_rxa    = (state_q == Idle) & rxa_valid_i & !(FAULT && some_q);"},
}

// run runs the program with bug n switched on, 0 = none.
func run(t *testing.T, program string, n int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, fmt.Sprintf("--seed=%d", unit.Seed(t)), "--size=40", fmt.Sprintf("+fault=%d", n)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func TestAcknowledgeFaults(t *testing.T) {
	const anchor = "  localparam int unsigned Every  ="
	s := spec()
	s.Name += "_faults"
	s.Mutants = []verilate.Mutant{{File: acknowledge, Old: anchor, New: "  int planted;\n  initial if ($value$plusargs(\"fault=%d\", planted) == 0) planted = 0;\n" + anchor}}
	for i, f := range faults {
		s.Mutants = append(s.Mutants, verilate.Mutant{File: acknowledge, Old: f.old, New: strings.ReplaceAll(f.new, "FAULT", fmt.Sprintf("(planted == %d)", i+1))})
	}
	program := unit.Build(t, s)
	if err := run(t, program, 0); err != nil {
		t.Fatalf("all faults are switched off, and the bench fails: %v", err)
	}
	for i, f := range faults {
		if testing.Short() && i > 3 {
			break
		}
		t.Run(f.name, func(t *testing.T) {
			err := run(t, program, i+1)
			if err == nil {
				t.Fatalf("the bench did not catch the planted fault %q -> %q in %s", f.old, f.new, acknowledge)
			}
			for line := range strings.Lines(err.Error()) {
				if strings.Contains(line, "FAIL") || strings.Contains(line, "Error") {
					t.Logf("caught: %s", strings.TrimSpace(line))
					break
				}
			}
		})
	}
}
