// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	hostFile    = "rtl/prim/hvia_byte_packer.sv"
	checkerFile = "rtl/prim/checkers/hvia_byte_packer_checker.sv"
	numbersFile = "rtl/gen/hvia_params_pkg.sv"
)

// delays are changes of the card, and the finding of each.
var delays = []struct {
	name  string
	file  string // "" for the host
	plant string
	check string // "" if it is to pass
	text  string
}{
	{name: "delay before a statement", plant: "always_comb #5 x = y;", check: checkHardware, text: "a delay"},
	{name: "delay with a unit", plant: "always_comb # 1ns x = y;", check: checkHardware, text: "a delay"},
	{name: "delay by a parameter", plant: "always_comb #Delay x = y;", check: checkHardware, text: "a delay"},
	{name: "delay in parentheses", plant: "assign #(3) x = y;", check: checkHardware, text: "a delay"},
	{name: "delay of a nonblocking assignment", plant: "always_ff @(posedge clk_i) x <= #1 y;", check: checkHardware, text: "a delay"},
	{name: "delay of a gate", plant: "and #(2) g(x, y, z);", check: checkHardware, text: "a delay"},
	{name: "delay of a net", plant: "wire #(2,3) x;", check: checkHardware, text: "a delay"},
	{name: "clocking delay", plant: "always_ff @(posedge clk_i) ##2 x <= y;", check: checkHardware, text: "a delay"},
	{name: "delay on a separate line", plant: "always_comb begin\n    #\n    5 x = y; end", check: checkHardware, text: "a delay"},
	{name: "delay in a checker", file: checkerFile, plant: "always #5 x = y;", check: checkHardware, text: "a delay"},
	{name: "delay in a package", file: numbersFile, plant: "task t; #5; endtask", check: checkHardware, text: "a delay"},
	{name: "parameters of an instance", plant: "hvia_cdc_sync #(.Width(2)) u_sync (.a(b));"},
	{name: "delay in a comment", plant: "// #5 wait (x) @(posedge y) $time initial\n  /* #5\n $random */"},
	{name: "delay in a string", file: checkerFile, plant: `always_comb assert (x) else $error("#5 $time @(posedge x) wait \" #3");`},
	{name: "event control in a block", plant: "always_comb begin @(posedge clk_i); x = y; end", check: checkHardware, text: "an event control"},
	{name: "event control of an assignment", plant: "always_ff @(posedge clk_i) x <= @(posedge z) y;", check: checkHardware, text: "an event control"},
	{name: "repeated event control", plant: "always_ff @(posedge clk_i) begin repeat (3) @(posedge clk_i); x <= y; end", check: checkHardware, text: "an event control"},
	{name: "sensitivity to a level", plant: "always @(x) z = x;", check: checkHardware, text: "an event control"},
	{name: "star", plant: "always @(*) z = x;"},
	{name: "wait", plant: "always_comb begin wait (x); z = y; end", check: checkHardware, text: `"wait" is of the simulator`},
	{name: "wait in a checker", file: checkerFile, plant: "always_comb wait (x) z = y;", check: checkHardware, text: `"wait" is of the simulator`},
	{name: "fork", plant: "always_comb fork x = y; join_none", check: checkHardware, text: `"fork"`},
	{name: "forever", plant: "initial begin mem[0] = 0; end always_comb forever x = y;", check: checkHardware, text: `"forever"`},
	{name: "type time", plant: "time x;", check: checkHardware, text: `"time"`},
	{name: "specify", plant: "specify (a => b) = 3; endspecify", check: checkHardware, text: `"specify"`},
	{name: "time of the simulator", plant: "assign x = $time > y;", check: checkHardware, text: "$time is of the simulator"},
	{name: "real time", plant: "assign x = $realtime;", check: checkHardware, text: "$realtime is of the simulator"},
	{name: "random", plant: "assign x = $random;", check: checkHardware, text: "$random is of the simulator"},
	{name: "random in a checker", file: checkerFile, plant: "assign x = $urandom_range(3);", check: checkHardware, text: "$urandom_range is of the simulator"},
	{name: "argument of the simulator", plant: "assign x = $test$plusargs(a);", check: checkHardware, text: "$test is of the simulator"},
	{name: "constant function", plant: "localparam int unsigned N = $clog2(5);"},
	{name: "DPI import", plant: `import "DPI-C" function int f();`, check: checkHardware, text: "DPI"},
	{name: "DPI export", file: checkerFile, plant: `export "DPI-C" function f;`, check: checkHardware, text: "DPI"},
	{name: "time scale", plant: "`timescale 1ns / 1ps", check: checkHardware, text: "1ns is a time of the simulator"},
	{name: "time scale elsewhere", plant: "`timescale x", check: checkHardware, text: "`timescale"},
	{name: "branch of the simulation", plant: "`ifdef SIMULATION\n`endif", check: checkHardware, text: "`ifdef"},
	{name: "initial value of a register", plant: "initial x_q = 1'b0;", check: checkHardware, text: "initial may only fill a memory"},
	{name: "initial value of a bit of a register", plant: "logic [3:0] x_q; initial x_q[0] = 1'b0;", check: checkHardware, text: "initial may only fill a memory"},
	{name: "initial block behind a memory", plant: "logic [3:0] m [4]; initial begin for (int i = 0; i < 4; i++) begin m[i] = 0; end x_q = 1; end", check: checkHardware, text: `"x_q = 1"`},
	{name: "initial in a checker", file: checkerFile, plant: "initial x = 0;", check: checkHardware, text: "initial may only fill a memory"},
	{name: "initial of a memory", plant: "logic [3:0] m [4]; initial begin for (int i = 0; i < $bits(x); i++) begin : g\n m[i] = i; end end\n assign y = x_q;"},
	{name: "initial of a memory from a file", plant: `initial $readmemh("a.hex", m); assign y = x_q;`},
	{name: "array of structs", plant: "typedef struct packed {logic a; logic b;} pair_t; pair_t m [4];", check: checkStruct, text: "m is an array of structs"},
	{name: "second array of structs", plant: "typedef struct packed {struct packed {logic a;} b; logic c;} pair_t;\n  pair_t x,\n  m [4];", check: checkStruct, text: "m is an array of structs"},
	{name: "array of unions", plant: "typedef union packed {logic [1:0] a; logic [1:0] b;} pair_t; pair_t m [0:3];", check: checkStruct, text: "m is an array of structs"},
	{name: "array of structs by another name", plant: "typedef struct packed {logic a;} one_t; typedef one_t two_t; two_t m [4];", check: checkStruct, text: "m is an array of structs"},
	{name: "array of structs without a type", plant: "struct packed {logic a;} m [4];", check: checkStruct, text: "m is an array of structs"},
	{name: "array of vectors as wide as a struct", plant: "typedef struct packed {logic a; logic [2:0] b;} pair_t;\n  pair_t x, y; logic [$bits(x)-1:0] m [4]; assign y.b[1] = x.b[0];"},
	{name: "clock through logic", plant: "assign x = clk_i & enable;", check: checkClock, text: "clock clk_i in an expression"},
	{name: "clock through logic in a connection", plant: "hvia_cdc_sync u_sync (.clk_i(clk_i & enable));", check: checkClock, text: "clock clk_i in an expression"},
	{name: "clock by another name", plant: "assign strobe = sd_clk_i;", check: checkClock, text: "clock sd_clk_i in an expression"},
	{name: "clock into another port", plant: "hvia_cdc_sync u_sync (.d_i(block_clk_i.gec));", check: checkClock, text: "clock block_clk_i in an expression"},
	{name: "flip-flop without a clock", plant: "always_ff @(posedge valid_i or negedge rst_ni) x <= y;", check: checkClock, text: "valid_i is no clock"},
	{name: "falling edge of a clock", plant: "always_ff @(negedge clk_i) x <= y;", check: checkClock, text: "clock clk_i in an expression"},
	{name: "asynchronous reset", plant: "always_ff @(posedge clk_i or negedge rst_ni) x <= y;", check: checkClock, text: "a falling edge of rst_ni"},
	{name: "one clock of a struct", plant: "always_ff @(posedge block_clk_i.gec) x <= y;"},
	{name: "clocks connected", plant: "hvia_cdc_sync u_sync (.clk_i(block_clk_i.gec), .src_clk_i, .dst_clk_i( mac_clk_i ));"},
	{name: "final", plant: "final x = 0;", check: checkHardware, text: `"final"`},
	{name: "counter up", plant: "always_ff @(posedge clk_i) if (state_q == A) n_q <= n_q + 3'd1;", check: checkCounter, text: "n steps"},
	{name: "counter down", plant: "always_ff @(posedge clk_i) if (n_q != 0) n_q <= n_q - 1'b1;", check: checkCounter, text: "n steps"},
	{name: "counter in two processes", plant: "always_comb begin n_d = n_q; if (x) n_d = n_q + 1; end", check: checkCounter, text: "n steps"},
	{name: "counter by way of a signal", plant: "assign more = n_q + 4'd1; always_ff @(posedge clk_i) n_q <= x ? 4'd0 : more;", check: checkCounter, text: "n steps"},
	{name: "counter without the suffix", plant: "always_ff @(posedge clk_i) n <= 4'd1 + n;", check: checkCounter, text: "n steps"},
	{name: "counter by increment", plant: "always_ff @(posedge clk_i) begin n_q++; end", check: checkCounter, text: "n steps"},
	{name: "counter by assignment operator", plant: "always_comb begin n_d -= 2; end", check: checkCounter, text: "n steps"},
	{name: "counter by a cast", plant: "always_ff @(posedge clk_i) n_q <= n_q + CountW'(1);", check: checkCounter, text: "n steps"},
	{name: "counter by a constant", plant: "always_ff @(posedge clk_i) n_q <= n_q + hvia_pkg::Step;", check: checkCounter, text: "n steps"},
	{name: "part of a counter", plant: "always_ff @(posedge clk_i) n_q[3:0] <= n_q[3:0] + 4'd1;", check: checkCounter, text: "n steps"},
	{name: "sum of signals", plant: "assign x = y + 4'd1; assign y_d = z + w;"},
	{name: "loop", plant: "for (genvar i = 0; i < 4; i++) begin : g_x assign x[i] = y[i + 1]; end"},
	{name: "ring", plant: "always_ff @(posedge clk_i) r_q <= {r_q[6:0], x};", check: checkShift, text: "r steps or shifts"},
	{name: "shift", plant: "always_ff @(posedge clk_i) r_q <= r_q << 1;", check: checkShift, text: "r steps or shifts"},
	{name: "concatenation of others", plant: "assign r = {x_q[3:0], y_q};"},
	{name: "delay by name", plant: "logic tx_delay_q;", check: checkName, text: "the name tx_delay"},
	{name: "waiting by name", plant: "logic wait_cycles;", check: checkName, text: "the name wait_cycles"},
	{name: "pause by name", plant: "logic PauseLimit;", check: checkName, text: "the name PauseLimit"},
	{name: "dead time by name", plant: "localparam int unsigned DeadClocks = 4;", check: checkName, text: "the name DeadClocks"},
	{name: "idle count by name", plant: "logic [3:0] idle_cnt_q;", check: checkName, text: "the name idle_cnt"},
	{name: "latency by name", plant: "logic [3:0] min_latency;", check: checkName, text: "the name min_latency"},
	{name: "state that waits by name", plant: "assign x = state_q == StWaitMore;", check: checkName, text: "the name StWaitMore"},
	{name: "deadline by name", plant: "logic [47:0] deadline_q;"},
	{name: "port and constant of others", plant: "assign x = hvia_pkg::WaitMany; cdc_sync u (.delay_i(y));"},
	{name: "long line", plant: "assign x = " + strings.Repeat("y | ", 23) + "y;", check: checkFormat, text: "100 columns"},
	{name: "long line of a checker", file: checkerFile, plant: "// " + strings.Repeat("x", 98), check: checkFormat, text: "100 columns"},
	{name: "tab", plant: "\tassign x = y;", check: checkFormat, text: "a tab"},
	{name: "port without a suffix", plant: "input logic valid;\n  input logic [3:0] ready,  // x", check: checkFormat, text: "port ready"},
	{name: "port of a pin", plant: "output logic [3:0] ad_oe,"},
	{name: "idle state", plant: "assign x = state_q == StIdle;"},
}

// The linter finds each kind of delay, injected into a copy of the card, at its
// line and nowhere else. The unchanged copy passes.
func TestDelaysAreFound(t *testing.T) {
	root := copyOfCard(t)
	l := &linter{root: root, allowed: allowed}
	modules, err := l.modules()
	require.NoError(t, err)
	clean, err := l.sources(modules, true)
	require.NoError(t, err)
	require.Empty(t, clean)

	chosen, err := choose(modules, []string{"hvia_byte_packer"})
	require.NoError(t, err)

	for _, tt := range delays {
		t.Run(tt.name, func(t *testing.T) {
			file := tt.file
			if file == "" {
				file = hostFile
			}
			before, err := os.ReadFile(filepath.Join(root, file))
			require.NoError(t, err)
			defer write(t, root, file, string(before))
			end := strings.LastIndex(string(before), "\nend")
			write(t, root, file, string(before[:end])+"\n"+tt.plant+string(before[end:]))

			got, err := l.sources(chosen, false)
			require.NoError(t, err)
			if tt.check == "" {
				require.Empty(t, got)
				return
			}
			require.NotEmpty(t, got)
			line := strings.Count(string(before[:end]), "\n") + 2
			for _, f := range got {
				require.Contains(t, f.text, file)
				var at int
				_, err := fmt.Sscanf(strings.TrimPrefix(f.text, file), ":%d:", &at)
				require.NoError(t, err)
				require.GreaterOrEqual(t, at, line)
				require.LessOrEqual(t, at, line+strings.Count(tt.plant, "\n"))
			}
			require.Equal(t, tt.check, got[0].check)
			require.Contains(t, got[0].text, tt.text)
		})
	}
}

// An unneeded allowance is a finding.
func TestAllowanceThatNothingNeeds(t *testing.T) {
	root := t.TempDir()
	write(t, root, "rtl/hvia_leaf.sv", "module hvia_leaf (input logic clk_i, output logic [3:0] n_q, output logic wait_x);\n"+
		"  always_ff @(posedge clk_i) n_q <= n_q + 4'd1;\n  assign wait_x = n_q[0];\nendmodule\n")
	check := func(steps, names map[string]string) []finding {
		l := &linter{root: root, allowed: allowances{steps: steps, names: names}}
		modules, err := l.modules()
		require.NoError(t, err)
		findings, err := l.sources(modules, true)
		require.NoError(t, err)
		return findings
	}
	require.Empty(t, check(map[string]string{"hvia_leaf: n": "frames"}, map[string]string{"*: wait_*": "until x"}))
	require.Len(t, check(nil, nil), 2)
	// An allowance without a reason, by pattern for a counter, or of another
	// module has no effect.
	require.Len(t, check(map[string]string{"hvia_leaf: n": ""}, map[string]string{"hvia_leaf: wait_x": ""}), 4)
	require.Len(t, check(nil, map[string]string{"hvia_leaf: n": "frames", "hvia_leaf: wait_x": "until x"}), 2)
	require.Len(t, check(map[string]string{"hvia_other: n": "frames"}, map[string]string{"hvia_leaf: wait_x": "until x"}), 2)
	stale := check(map[string]string{"hvia_leaf: n": "frames"}, map[string]string{"*: wait_*": "until x", "hvia_leaf: delay": "gone"})
	require.Len(t, stale, 1)
	require.Equal(t, finding{"hvia_leaf", checkAllowance, `"hvia_leaf: delay" is allowed and nothing needs it: take it out of tools/lint/rtllint/allowed.go`}, stale[0])
	// A subset of the modules reports no unneeded allowance.
	l := &linter{root: root, allowed: allowances{steps: map[string]string{"hvia_leaf: n": "frames", "gone: n": "x"}, names: map[string]string{"*: wait_*": "until x"}}}
	modules, err := l.modules()
	require.NoError(t, err)
	findings, err := l.sources(modules, false)
	require.NoError(t, err)
	require.Empty(t, findings)
}

func copyOfCard(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(root, "rtl"), os.DirFS(filepath.Join("..", "..", "..", "rtl"))))
	return root
}
