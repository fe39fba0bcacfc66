// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/sim/bridge"
)

// Specifications, their meaning, and their canonical text if it differs.
var faultTexts = []struct {
	text      string
	want      WireFaults
	canonical string
}{
	{"", WireFaults{}, ""},
	{" \n", WireFaults{}, ""},
	{"seed=7", WireFaults{Seed: 7}, ""},
	{"drop=1%,duplicate=1%,corrupt=0.1%", WireFaults{Faults: []WireFault{
		{Kind: layout.WireFaultDrop, Frames: FrameSelection{Share: Percent(1)}},
		{Kind: layout.WireFaultDuplicate, Frames: FrameSelection{Share: Percent(1)}},
		{Kind: layout.WireFaultCorrupt, Frames: FrameSelection{Share: Percent(0.1)}},
	}}, ""},
	{"0>1:drop=frame 17; 1>0:cut=2ms..3ms", WireFaults{Faults: []WireFault{
		{Kind: layout.WireFaultDrop, Direction: FromNode0, Frames: FrameSelection{Frame: 17}},
		{Kind: layout.WireFaultCut, Direction: FromNode1, Frames: FrameSelection{From: 2 * bridge.Millisecond, To: 3 * bridge.Millisecond}},
	}}, ""},
	{"0>1:drop=message 7 frame 3 vi 2", WireFaults{Faults: []WireFault{
		{Kind: layout.WireFaultDrop, Direction: FromNode0, Frames: FrameSelection{Message: 7, Frame: 3, VI: new(uint8(2))}},
	}}, ""},
	{" 0>1 : drop = vi 2  frame 3\tmessage 7 ;seed=0x10;cut=..3ms,cut=1.0004us..", WireFaults{Seed: 16, Faults: []WireFault{
		{Kind: layout.WireFaultDrop, Direction: FromNode0, Frames: FrameSelection{Message: 7, Frame: 3, VI: new(uint8(2))}},
		{Kind: layout.WireFaultCut, Frames: FrameSelection{To: 3 * bridge.Millisecond}},
		{Kind: layout.WireFaultCut, Frames: FrameSelection{From: 1000400, To: bridge.Never}},
	}}, "seed=16; 0>1:drop=message 7 frame 3 vi 2; cut=0ps..3ms,cut=1.0004us.."},
	{"reorder=5.0% behind 3 within 100us,reorder=every 2", WireFaults{Faults: []WireFault{
		{Kind: layout.WireFaultReorder, Frames: FrameSelection{Share: Percent(5)}, Behind: 3, Within: 100 * bridge.Microsecond},
		{Kind: layout.WireFaultReorder, Frames: FrameSelection{Every: 2}},
	}}, "reorder=5% behind 3 within 100us,reorder=every 2"},
	{"delay=100% by 5us..20us,delay=first by 1s,pause=2ms..3ms,pause=last for 500ns", WireFaults{Faults: []WireFault{
		{Kind: layout.WireFaultDelay, Frames: FrameSelection{Share: Percent(100)}, Least: 5 * bridge.Microsecond, Most: 20 * bridge.Microsecond},
		{Kind: layout.WireFaultDelay, Frames: FrameSelection{First: true}, Least: bridge.Second, Most: bridge.Second},
		{Kind: layout.WireFaultPause, Frames: FrameSelection{From: 2 * bridge.Millisecond, To: 3 * bridge.Millisecond}},
		{Kind: layout.WireFaultPause, Frames: FrameSelection{Last: true}, Least: 500 * bridge.Nanosecond, Most: 500 * bridge.Nanosecond},
	}}, ""},
	{"corrupt=type 0x0800 bits 1,truncate=operation rdmawrite sequence 9 to 40,drop=0%,drop=0.0000001% 1ms..", WireFaults{Faults: []WireFault{
		{Kind: layout.WireFaultCorrupt, Frames: FrameSelection{Type: 0x800}, Bits: 1},
		{Kind: layout.WireFaultTruncate, Frames: FrameSelection{Operation: new(layout.FrameOperationRDMAWrite), Sequence: new(uint32(9))}, Bytes: 40},
		{Kind: layout.WireFaultDrop, Frames: FrameSelection{Share: new(Share(0))}},
		{Kind: layout.WireFaultDrop, Frames: FrameSelection{Share: new(Share(1)), From: bridge.Millisecond, To: bridge.Never}},
	}}, ""},
	{"3>switch:drop=1%; switch>15:drop=1%,corrupt=1%; 0<>switch:cut=2ms..3ms", WireFaults{Faults: []WireFault{
		{Kind: layout.WireFaultDrop, Direction: ToSwitch(3), Frames: FrameSelection{Share: Percent(1)}},
		{Kind: layout.WireFaultDrop, Direction: FromSwitch(15), Frames: FrameSelection{Share: Percent(1)}},
		{Kind: layout.WireFaultCorrupt, Direction: FromSwitch(15), Frames: FrameSelection{Share: Percent(1)}},
		{Kind: layout.WireFaultCut, Direction: SwitchCable(0), Frames: FrameSelection{From: 2 * bridge.Millisecond, To: 3 * bridge.Millisecond}},
	}}, ""},
	{"link=down 10ms..15ms; link=2s.. down; 2<>switch:link=down ..1ms", WireFaults{Faults: []WireFault{
		{Kind: layout.WireFaultLink, Frames: FrameSelection{From: 10 * bridge.Millisecond, To: 15 * bridge.Millisecond}},
		{Kind: layout.WireFaultLink, Frames: FrameSelection{From: 2 * bridge.Second, To: bridge.Never}},
		{Kind: layout.WireFaultLink, Direction: SwitchCable(2), Frames: FrameSelection{To: bridge.Millisecond}},
	}}, "link=down 10ms..15ms,link=down 2s..; 2<>switch:link=down 0ps..1ms"},
}

func TestParseWireFaults(t *testing.T) {
	for _, c := range faultTexts {
		got, err := ParseWireFaults(c.text)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, got, c.text)
		want := c.canonical
		if want == "" {
			want = strings.TrimSpace(c.text)
		}
		require.Equal(t, want, got.String())
	}
}

func TestParseWireFaultsRejects(t *testing.T) {
	for text, want := range map[string]struct {
		part string // the part that the error shows
		why  string
	}{
		";":                            {"", "must be a kind of fault: drop, duplicate"},
		"link=10ms..15ms":              {"link=10ms..15ms", "a link takes the word down, a window and nothing else: link=down 2ms..3ms"},
		"link=down":                    {"link=down", "a link takes the word down, a window"},
		"link=up 1ms..2ms":             {"up", "must be a share"},
		"link=down 1ms..2ms frame 3":   {"link=down 1ms..2ms frame 3", "a link takes the word down, a window and nothing else"},
		"0>1:link=down 1ms..2ms":       {"link=down 1ms..2ms", "a link is down in both directions: leave out 0>1"},
		"switch>2:link=down 1ms..2ms":  {"link=down 1ms..2ms", "or name a cable to a switch (2<>switch:link=down 2ms..3ms)"},
		"drop=down 1ms..2ms":           {"down", "must be a share"},
		"drop=1%;":                     {"", "must be a kind of fault"},
		"drop=1%,":                     {"", "must be a kind of fault"},
		"lose=1%":                      {"lose", "must be a kind of fault"},
		"drop":                         {"drop", "for example drop=1%"},
		"drop=":                        {"drop=", "say which frames, for example drop=1%"},
		"2>1:drop=1%":                  {"2>1", "must be a direction, 0>1 or 1>0"},
		"16>switch:drop=1%":            {"16>switch", "with a node from 0 to 15"},
		"switch>03:drop=1%":            {"switch>03", "must be a direction"},
		":drop=1%":                     {"", "must be a direction"},
		"seed=0":                       {"0", "from 1 to"},
		"seed=1;seed=2":                {"seed=2", "given twice"},
		"drop=1":                       {"1", "must be a share (1%), a window"},
		"drop=%":                       {"%", "must be a share from 0% to 100%"},
		"drop=100.1%":                  {"100.1%", "must be a share from 0% to 100%"},
		"drop=0.00000001%":             {"0.00000001%", "at most 7 digits"},
		"drop=-1%":                     {"-1%", "must be a share"},
		"drop=1% 2%":                   {"2%", "a share is given twice"},
		"drop=frame 1 frame 2":         {"frame", "frame is given twice"},
		"drop=frame":                   {"frame", "its value is missing"},
		"drop=frame 0":                 {"0", "must be a whole number from 1"},
		"drop=frame x":                 {"x", "must be a whole number from 1"},
		"drop=frame +1":                {"+1", "must be a whole number from 1"},
		"drop=frame 4294967296":        {"4294967296", "to 4294967295"},
		"drop=vi 256":                  {"256", "from 0 to 255"},
		"drop=operation read":          {"read", "for example send or rdmawrite"},
		"drop=1% by 2us":               {"by", "must be a share"},
		"cut=1%":                       {"cut=1%", "a cut takes a window and nothing else"},
		"cut=1ms..2ms 1%":              {"cut=1ms..2ms 1%", "a cut takes a window and nothing else"},
		"cut=2ms..2ms":                 {"2ms..2ms", "a window ends after its beginning"},
		"cut=2..3ms":                   {"2", "must be a simulated time up to 1000 s in ps, ns, us, ms or s"},
		"cut=2ms..3m":                  {"3m", "must be a simulated time"},
		"cut=1001s..":                  {"1001s", "must be a simulated time up to 1000 s"},
		"cut=0.5ps..":                  {"0.5ps", "whole picoseconds"},
		"cut=1.ms..":                   {"1.ms", "must be a simulated time"},
		"pause=1ms..":                  {"pause=1ms..", "a pause takes a window with an end"},
		"pause=1%":                     {"pause=1%", "a pause takes a window with an end"},
		"delay=1%":                     {"delay=1%", "say how long: by 20us"},
		"delay=by 1us":                 {"delay=by 1us", "say which frames"},
		"delay=1% by 0us":              {"0us", "more than 0"},
		"delay=1% by 2us..1us":         {"2us..1us", "the longest is shorter than the shortest"},
		"reorder=1% behind 5000":       {"5000", "from 1 to 4096"},
		"reorder=1% within 0s":         {"0s", "more than 0"},
		"corrupt=1% bits 65":           {"65", "from 1 to 64"},
		"truncate=1% to 0":             {"0", "from 1 to 1514"},
		"drop=1%; 1>0: corrupt=oops 3": {"oops", "bits"},
	} {
		_, err := ParseWireFaults(text)
		var wrong *FaultSyntaxError
		require.ErrorAs(t, err, &wrong, text)
		require.ErrorIs(t, err, ErrWireFaults)
		require.ErrorContains(t, err, want.why, text)
		require.Equal(t, want.part, wrong.Part, text)
		require.Equal(t, want.part, text[wrong.At:wrong.At+len(wrong.Part)], text)
	}
	_, err := ParseWireFaults("drop=1%; 1>0: corrupt=oops 3")
	require.ErrorContains(t, err, `wire faults "drop=1%; 1>0: corrupt=oops 3": at character 23, "oops": must be`)
}

// Faults in Go without a specification are rejected too.
func TestInvalidWireFaults(t *testing.T) {
	one := FrameSelection{Frame: 1}
	for _, c := range []struct {
		fault WireFault
		why   string
	}{
		{WireFault{Kind: layout.WireFaultLink + 1, Frames: one}, "there is no kind 9"},
		{WireFault{Direction: -1, Frames: one}, "there is no direction -1"},
		{WireFault{Direction: ToSwitch(16), Frames: one}, "there is no direction -1"},
		{WireFault{Direction: SwitchCable(15) + 1, Frames: one}, "there is no direction"},
		{WireFault{Direction: FromSwitch(1), Frames: one}, "direction switch>1: there is a cable between the two nodes and no switch"},
		{WireFault{Frames: FrameSelection{From: 5}}, "a window from 5 ps to 0 ps"},
		{WireFault{Frames: FrameSelection{From: -5, To: 5}}, "a window from -5 ps"},
		{WireFault{Frames: FrameSelection{Share: new(WholeShare + 1)}}, "a share of 1000000001 in 1000000000"},
		{WireFault{Frames: one, Most: 5}, "a drop of 0 ps to 5 ps"},
		{WireFault{Kind: layout.WireFaultDelay, Frames: one, Least: 6, Most: 5}, "a delay of 6 ps to 5 ps"},
		{WireFault{Frames: one, Behind: 5}, "a drop behind 5 frames"},
		{WireFault{Frames: one, Bits: 5}, "a drop of 5 bits"},
		{WireFault{Frames: one, Bytes: 5}, "a drop to 5 bytes"},
	} {
		_, err := WireFaults{Faults: []WireFault{{Frames: one}, c.fault}}.arguments(2, false)
		require.ErrorIs(t, err, ErrWireFaults)
		require.ErrorContains(t, err, "fault 2 of 2")
		require.ErrorContains(t, err, c.why)
	}
	of := func(d WireDirection) WireFaults { return WireFaults{Faults: []WireFault{{Direction: d, Frames: one}}} }
	for d, why := range map[WireDirection]string{
		FromNode1:      "direction 1>0: there is a switch between the nodes: say whose cable",
		SwitchCable(3): "direction 3<>switch: there are 3 nodes, counted from 0",
	} {
		_, err := of(d).arguments(3, true)
		require.ErrorIs(t, err, ErrWireFaults)
		require.ErrorContains(t, err, why)
	}
	_, err := of(BothDirections).arguments(1, false)
	require.ErrorContains(t, err, "a fabric of 1 nodes has no wire")
}

func TestWireFaultArguments(t *testing.T) {
	f, err := ParseWireFaults("seed=5;drop=1%;1>0:reorder=message 2 frame 3 every 4 vi 0 operation send sequence 0 first last type 0x88b5 1ns..2ns;0>1:delay=100% by 1ns..2ns,corrupt=2ns.. bits 3,truncate=frame 1 to 9,reorder=1% behind 2 within 3ns")
	require.NoError(t, err)
	args, err := f.arguments(2, false)
	require.NoError(t, err)
	require.Equal(t, []string{
		"--wire-fault", "Drop 0 share=10000000", "--wire-fault", "Drop 1 share=10000000",
		"--wire-fault", "Reorder 1 from=1000 to=2000 type=34997 vi=0 operation=0 sequence=0 first=1 last=1 message=2 frame=3 every=4 within=1000000000",
		"--wire-fault", "Delay 0 share=1000000000 least=1000 most=2000", "--wire-fault", "Corrupt 0 from=2000 bits=3", "--wire-fault", "Truncate 0 frame=1 bytes=9",
		"--wire-fault", "Reorder 0 share=10000000 behind=2 within=3000", "--wire-fault-seed", "5",
	}, args)
}

func TestSwitchFaultArguments(t *testing.T) {
	f, err := ParseWireFaults("drop=1%; 1>switch:drop=2%; switch>2:drop=3%; 0<>switch:drop=4%")
	require.NoError(t, err)
	args, err := f.arguments(3, true)
	require.NoError(t, err)
	var want []string
	for _, text := range []string{
		"0>switch share=10000000", "switch>0 share=10000000", "1>switch share=10000000", "switch>1 share=10000000", "2>switch share=10000000", "switch>2 share=10000000",
		"1>switch share=20000000", "switch>2 share=30000000", "0>switch share=40000000", "switch>0 share=40000000",
	} {
		want = append(want, "--wire-fault", "Drop "+text)
	}
	require.Equal(t, want, args)
}

// A valid specification prints as a text that parses to the same faults. Any
// other text gives an error with a position.
func FuzzParseWireFaults(f *testing.F) {
	for _, c := range faultTexts {
		f.Add(c.text)
	}
	f.Add("drop=1%; 1>0: corrupt=oops 3")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseWireFaults(text)
		if err != nil {
			var wrong *FaultSyntaxError
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, wrong.Part, text[wrong.At:wrong.At+len(wrong.Part)])
			require.NotEmpty(t, wrong.Why)
			return
		}
		again, err := ParseWireFaults(got.String())
		require.NoError(t, err, got.String())
		require.Equal(t, got, again)
		for _, fault := range got.Faults {
			one := WireFaults{Faults: []WireFault{fault}}
			_, err = one.arguments(2, false)
			if err != nil {
				_, err = one.arguments(layout.BridgeMaxNodes, true)
			}
			require.NoError(t, err)
		}
	})
}
