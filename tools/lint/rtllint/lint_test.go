// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/params"
)

const (
	pkg   = "package hvia_p_pkg;\n  localparam int unsigned Width = 4;\nendpackage\n"
	clean = `module hvia_leaf (
    input  logic clk_i,
    input  logic [hvia_p_pkg::Width-1:0] d_i,
    output logic [hvia_p_pkg::Width-1:0] q_o
);
  always_ff @(posedge clk_i) q_o <= d_i;
endmodule
`
	parent = `module hvia_top (
    input  logic clk_i,
    input  logic [hvia_p_pkg::Width-1:0] d_i,
    output logic [hvia_p_pkg::Width-1:0] q_o
);
  hvia_leaf u_leaf (.clk_i(clk_i), .d_i(d_i), .q_o(q_o));
endmodule
`
	checker = `module hvia_leaf_checker (input logic clk_i, input logic [hvia_p_pkg::Width-1:0] q_o);
  always_ff @(posedge clk_i) assert (q_o != 4'd9) else $error("nine");
endmodule
bind hvia_leaf hvia_leaf_checker u_checker (.clk_i(clk_i), .q_o(q_o));
`
	memory = `module hvia_leaf (input logic clk_i, input logic we_i, input logic [2:0] a_i, input logic [3:0] d_i, output logic [3:0] q_o);
  typedef struct packed {logic [1:0] high; logic [1:0] low;} word_t;
  word_t q;
  logic [$bits(q)-1:0] mem [8];
  always_ff @(posedge clk_i) begin
    if (we_i) mem[a_i] <= d_i;
    q <= mem[a_i];
  end
  assign q_o = q;
endmodule
`
)

// faults are small designs, and the findings of each.
var faults = []struct {
	name     string
	files    map[string]string
	memories map[string]int
	want     map[string]string // module and check of every finding, and a part of its text
	err      string
}{
	{name: "clean, with instance and checker", files: map[string]string{"hvia_leaf.sv": clean, "hvia_top.sv": parent, "checkers/hvia_leaf_checker.sv": checker}},
	{name: "separate package", files: map[string]string{
		"hvia_own_pkg.sv": "package hvia_own_pkg;\n  localparam int unsigned Width = 3;\nendpackage\n",
		"hvia_leaf.sv":    "module hvia_leaf (input logic [hvia_own_pkg::Width-1:0] a_i, output logic [hvia_own_pkg::Width-1:0] b_o);\n  assign b_o = a_i;\nendmodule\n"}},
	{name: "truncated width", files: map[string]string{"hvia_leaf.sv": "module hvia_leaf (input logic [7:0] a_i, output logic [3:0] b_o);\n  assign b_o = a_i;\nendmodule\n"},
		want: map[string]string{"hvia_leaf/verilator -Wall": "WIDTH"}},
	{name: "latch", files: map[string]string{"hvia_leaf.sv": "module hvia_leaf (input logic e_i, input logic a_i, output logic b_o);\n  always_comb if (e_i) b_o = a_i;\nendmodule\n"},
		want: map[string]string{"hvia_leaf/verilator -Wall": "LATCH", "hvia_leaf/yosys": "Latch inferred"}},
	{name: "no such instance", files: map[string]string{"hvia_top.sv": parent},
		want: map[string]string{"hvia_top/verilator -Wall": "hvia_leaf", "hvia_top/yosys": "hvia_leaf"}},
	{name: "rejected by Yosys alone", files: map[string]string{"hvia_leaf.sv": "module hvia_leaf (input logic a_i, output logic b_o);\n  function automatic logic inv(input logic x);\n    return ~x;\n  endfunction\n  assign b_o = inv(a_i);\nendmodule\n"},
		want: map[string]string{"hvia_leaf/yosys": "syntax error"}},
	{name: "two drivers", files: map[string]string{"hvia_leaf.sv": "module hvia_leaf (input logic a_i, input logic c_i, output logic b_o);\n  assign b_o = a_i;\n  assign b_o = c_i;\nendmodule\n"},
		want: map[string]string{"hvia_leaf/verilator -Wall": "MULTIDRIVEN", "hvia_leaf/yosys": "multiple conflicting drivers"}},
	{name: "checker that does not compile", files: map[string]string{"hvia_leaf.sv": clean, "checkers/hvia_leaf_checker.sv": "module hvia_leaf_checker (input logic clk_i);\n  always_ff @(posedge clk_i) assert (nothing);\nendmodule\nbind hvia_leaf hvia_leaf_checker u_checker (.clk_i(clk_i));\n"},
		want: map[string]string{"hvia_leaf/verilator -Wall": "nothing"}},
	{name: "memory", files: map[string]string{"hvia_leaf.sv": memory}, memories: map[string]int{"hvia_leaf": 1}},
	{name: "memory that is in no table", files: map[string]string{"hvia_leaf.sv": memory},
		want: map[string]string{"hvia_leaf/memories": `Yosys finds 1 memories ["hvia_leaf/mem"] in hvia_leaf, tools/lint/rtllint/memories.go expects 0`}},
	{name: "memory of structs", files: map[string]string{"hvia_leaf.sv": strings.Replace(memory, "logic [$bits(q)-1:0] mem", "word_t mem", 1)}, memories: map[string]int{"hvia_leaf": 1},
		want: map[string]string{"hvia_leaf/memories": `Yosys finds 0 memories [] in hvia_leaf, tools/lint/rtllint/memories.go expects 1`}},
	{name: "checker of nothing", files: map[string]string{"hvia_leaf.sv": clean, "checkers/hvia_other_checker.sv": checker}, err: "belongs to no module"},
	{name: "two modules in a file", files: map[string]string{"hvia_leaf.sv": clean + "module second (input logic a_i);\nendmodule\n"}, err: "exactly one"},
	{name: "file of another name", files: map[string]string{"hvia_other.sv": clean}, err: "named hvia_other"},
	{name: "no prefix", files: map[string]string{"leaf.sv": "module leaf (input logic a_i);\nendmodule\n"}, err: "prefix hvia_"},
	{name: "nothing", files: nil, err: "none found"},
	{name: "wrong at 64 bits", files: map[string]string{
		"hvia_leaf.sv": "module hvia_leaf #(parameter int unsigned W = 32) (input logic [W-1:0] a_i, output logic [31:0] b_o);\n" +
			"  if (W == 32) begin : g_n\n    assign b_o = a_i;\n  end else begin : g_w\n    assign b_o = a_i;\n    assign b_o[0] = a_i[1];\n  end\nendmodule\n"},
		want: map[string]string{"hvia_leaf/verilator -Wall at W = 64": "WIDTH", "hvia_leaf/yosys at W = 64": "multiple conflicting drivers"}},
	{name: "wrong at 64 bits inside a module that is right", files: map[string]string{
		"hvia_leaf.sv": "module hvia_leaf #(parameter int unsigned DataBytes = 4) (input logic e_i, input logic a_i, output logic b_o);\n" +
			"  if (DataBytes == 4) begin : g_n\n    assign b_o = a_i & e_i;\n  end else begin : g_w\n    always_comb if (e_i) b_o = a_i;\n  end\nendmodule\n",
		"hvia_top.sv": "module hvia_top (input logic e_i, input logic a_i, output logic b_o);\n  hvia_leaf u_leaf (.e_i(e_i), .a_i(a_i), .b_o(b_o));\nendmodule\n"},
		want: map[string]string{"hvia_leaf/verilator -Wall at DataBytes = 8": "LATCH", "hvia_leaf/yosys at DataBytes = 8": "Latch inferred"}},
	{name: "wrong as a root has it", files: map[string]string{
		"hvia_leaf.sv": "module hvia_leaf #(parameter int unsigned Taps = 1) (input logic a_i, input logic c_i, output logic b_o);\n" +
			"  assign b_o = a_i;\n  if (Taps == 2) begin : g_x\n    assign b_o = c_i;\n  end else begin : g_y\n    logic unused;\n    assign unused = c_i;\n  end\nendmodule\n",
		"hvia_top.sv": "module hvia_top (input logic a_i, input logic c_i, output logic b_o);\n  hvia_leaf #(.Taps(2)) u_leaf (.a_i(a_i), .c_i(c_i), .b_o(b_o));\nendmodule\n"},
		want: map[string]string{"hvia_top/verilator -Wall": "MULTIDRIVEN", "hvia_top/yosys": "multiple conflicting drivers"}},
	{name: "width of another name", files: map[string]string{"hvia_leaf.sv": "module hvia_leaf #(parameter int unsigned LaneW = 32) (input logic [LaneW-1:0] a_i);\nendmodule\n"},
		err: "parameter LaneW looks like a data width"},
	{name: "two widths", files: map[string]string{"hvia_leaf.sv": "module hvia_leaf #(parameter int unsigned W = 32, parameter int unsigned Width = 3) (input logic [W-1:0] a_i);\nendmodule\n"},
		err: "parameters W and Width look like data widths"},
}

func TestFindings(t *testing.T) {
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, "rtl/gen/hvia_p_pkg.sv", pkg)
			for name, body := range tt.files {
				write(t, root, filepath.Join("rtl", name), body)
			}
			l, err := newLinter(root, false)
			require.NoError(t, err)
			l.memories = tt.memories
			modules, err := l.modules()
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got := map[string]string{}
			for _, f := range l.run(ctx, modules) {
				got[f.module+"/"+f.check] = f.text
			}
			for key, part := range tt.want {
				require.Contains(t, got[key], part, key)
				delete(got, key)
			}
			require.Empty(t, got)
		})
	}
}

// The card elaborates and lints with fewer VIs. Long runs check every module.
func TestFewerVIs(t *testing.T) {
	for _, log2 := range []int{4, 6} {
		root := copyOfCard(t)
		file := filepath.Join(root, "rtl/gen/hvia_params_pkg.sv")
		body, err := os.ReadFile(file)
		require.NoError(t, err)
		base := fmt.Sprintf(" VICountLog2 = %d;", params.VICountLog2)
		require.Contains(t, string(body), base)
		require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(body), base, fmt.Sprintf(" VICountLog2 = %d;", log2), 1)), 0o644))
		l, err := newLinter(root, false)
		require.NoError(t, err)
		modules, err := l.modules()
		require.NoError(t, err)
		if os.Getenv("HVIA_LONG") != "1" {
			modules, err = choose(modules, []string{"hvia_board"})
			require.NoError(t, err)
		}
		require.Empty(t, l.run(t.Context(), modules), "%d VIs", 1<<log2)
	}
}

// A tool that is stopped is a finding, never a pass.
func TestEndOfContextIsAFinding(t *testing.T) {
	root := t.TempDir()
	write(t, root, "rtl/gen/hvia_p_pkg.sv", pkg)
	write(t, root, "rtl/hvia_leaf.sv", clean)
	l, err := newLinter(root, false)
	require.NoError(t, err)
	modules, err := l.modules()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Len(t, l.run(ctx, modules), 2)
}

func TestMissingToolIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := newLinter(t.TempDir(), false)
	require.ErrorContains(t, err, "verilator not found: run 'make setup'")
	require.Equal(t, 3, run(nil))
}

func write(t *testing.T, root, name, body string) {
	t.Helper()
	path := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(body), 0o644))
}
