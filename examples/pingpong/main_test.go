// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/compare"
	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/host"
)

func play(t *testing.T, args ...string) string {
	t.Helper()
	o, err := parse(args, os.Stderr)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, o))
	return out.String()
}

var row = regexp.MustCompile(`(?m)^(write|send) +(\d+) +([\d.]+) +([\d.]+)$`)

// The latencies match the experiments, which another program measures, and a
// second run prints the same bytes. On the card 1 % allows for one poll.
func TestAsTheExperiments(t *testing.T) {
	for device, protocols := range map[string]map[string]string{
		"hvia": {"write": "rdma", "send": "send"},
		"mvia": {"send": "mvia"},
	} {
		t.Run(device, func(t *testing.T) {
			c := compare.DefaultConfig(compare.PatternPingPong)
			c.Sizes, c.Protocols = []int{4, 4096}, nil
			operations := ""
			for _, operation := range []string{"write", "send"} {
				if p, ok := protocols[operation]; ok {
					c.Protocols = append(c.Protocols, p)
					operations += "," + operation
				}
			}
			r, err := compare.Run(t.Context(), c)
			require.NoError(t, err)
			want := map[string]float64{}
			for _, x := range r.Rows {
				want[x.Protocol+strconv.Itoa(x.Size)] = float64(x.Latency.MeanPs) / 1e6
			}
			args := []string{"-device", device, "-op", operations[1:], "-s", "4,4096"}
			got := play(t, args...)
			rows := row.FindAllStringSubmatch(got, -1)
			require.Len(t, rows, len(r.Rows), "%s", got)
			for _, f := range rows {
				latency, err := strconv.ParseFloat(f[3], 64)
				require.NoError(t, err)
				require.InEpsilon(t, want[protocols[f[1]]+f[2]], latency, 0.01, "%s", f[0])
				rate, err := strconv.ParseFloat(f[4], 64)
				require.NoError(t, err)
				size, err := strconv.ParseFloat(f[2], 64)
				require.NoError(t, err)
				require.InDelta(t, size/latency, rate, 0.01, "%s", f[0])
			}
			require.Equal(t, got, play(t, args...))
		})
	}
}

// The programs on fake cards and fake plain NICs, without a simulator, also
// with decreasing lengths; nothing is left behind.
func TestOnFakes(t *testing.T) {
	for _, d := range []driver.Device{driver.DeviceHvia, driver.DeviceMvia} {
		for _, operation := range []string{opWrite, opSend} {
			t.Run(string(d)+" "+operation, func(t *testing.T) {
				f, err := drivertest.NewOf(d, 2, 4)
				require.NoError(t, err)
				t.Cleanup(f.Close)
				var out bytes.Buffer
				g := game{options: options{device: d, sizes: []int{5000, 1, 300, 2}, count: 300, warmup: 1}, operation: operation, out: &out}
				require.NoError(t, fabric.RunOn(t.Context(), f, fabric.RunConfig{Device: d}, fabric.Program{Node: 0, Main: g.ping}, fabric.Program{Node: 1, Main: g.pong}))
				require.Len(t, bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n")), 4)
				require.Zero(t, f.Node(0).InUse()+f.Node(1).InUse())
			})
		}
	}
}

// One wrong byte ends the run.
func TestFindsAWrongByte(t *testing.T) {
	for _, operation := range []string{opWrite, opSend} {
		f, err := drivertest.NewOf(driver.DeviceHvia, 2, 4)
		require.NoError(t, err)
		t.Cleanup(f.Close)
		ours := game{options: options{sizes: []int{100}, count: 2}, operation: operation, out: io.Discard}
		forger := func(t *host.Thread, h *driver.Host) error {
			s, err := ours.open(t, h)
			if err != nil {
				return err
			}
			if err := s.Accept(t, "ping-pong", patience); err != nil {
				return err
			}
			if err := s.hear(t, 0, 100); err != nil {
				return err
			}
			for i := range 100 {
				s.Bytes()[i] = content(0, i, 100)
			}
			s.Bytes()[42] ^= 0x10
			if operation == opSend {
				if err := s.send.SetSend(s.Buffer.Segment(0, 100)); err != nil {
					return err
				}
			} else {
				s.send.SetRDMAWrite(s.Peer.Address+uint64(s.room), s.Peer.Handle, s.Buffer.Segment(0, 100))
			}
			if err := s.VI.PostSend(t, s.send); err != nil {
				return err
			}
			_, err = s.VI.SendWait(t, patience)
			return err
		}
		err = fabric.RunOn(t.Context(), f, fabric.RunConfig{Device: driver.DeviceHvia}, fabric.Program{Node: 0, Main: ours.ping}, fabric.Program{Node: 1, Main: forger})
		require.ErrorContains(t, err, "round 0: byte 42 of 100 is 0x", "%s", operation)
	}
}

func TestParse(t *testing.T) {
	var printed bytes.Buffer
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-s", "4,65537"}, `"65537": want lengths of 1 to 65536 bytes`},
		{[]string{"-s", "0"}, `"0": want lengths of 1 to 65536 bytes`},
		{[]string{"-op", "write,read"}, `"read" is neither write nor send`},
		{[]string{"-device", "tcp"}, "want hvia or mvia"},
		{[]string{"-n", "0"}, "at least 1 round trip"},
		{[]string{"-warmup", "-1"}, "0 or more before it"},
		{[]string{"4"}, `argument "4": there are only flags`},
		{[]string{"-rounds", "4"}, "not defined: -rounds"},
	} {
		printed.Reset()
		_, err := parse(c.args, &printed)
		require.Error(t, err, "%v", c.args)
		require.Contains(t, printed.String(), c.says)
	}
	o, err := parse([]string{"-device", "mvia", "-op", "send", "-s", "7,8", "-n", "3", "-warmup", "0"}, &printed)
	require.NoError(t, err)
	require.Equal(t, options{device: driver.DeviceMvia, operations: []string{"send"}, sizes: []int{7, 8}, count: 3}, o)
}

// A cancelled context ends the run.
func TestStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, run(ctx, io.Discard, options{device: driver.DeviceMvia, operations: []string{opSend}, sizes: []int{4}, count: 1}), context.Canceled)
}
