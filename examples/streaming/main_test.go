// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/costs"
	"hvia/driver"
	"hvia/host"
)

func play(t *testing.T, args ...string) (map[string]*show, string) {
	t.Helper()
	c, err := parse(args, os.Stderr)
	require.NoError(t, err)
	shows, err := run(t.Context(), c)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, write(&out, c, shows))
	named := map[string]*show{}
	for _, s := range shows {
		named[s.name] = s
		for i, v := range s.viewers {
			require.Equal(t, c.frames, v.played+v.lost, "%s, client %d", s.name, i)
		}
	}
	return named, out.String()
}

// golden compares an output with a file. HVIA_UPDATE=1 rewrites it: review the
// difference before you commit it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("HVIA_UPDATE") == "1" {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "%s", path)
}

func allProtocols() (list string) {
	for _, p := range protocols {
		list += "," + p.name
	}
	return list[1:]
}

// A small film by every protocol. A client's work for frames of the card is
// known: one poll for an RDMA write, one reaped and one posted receive for a
// send.
func TestSmallFilm(t *testing.T) {
	shows, text := play(t, "-protocols", allProtocols(), "-rate", "2000", "-bytes", "4096", "-seconds", "0.004")
	golden(t, "small.txt", text)
	costs, err := costs.HostCosts("")
	require.NoError(t, err)
	for name, cost := range map[string]host.Time{
		"rdma": costs.PollPeriod(), "rdma-rd": costs.PollPeriod(),
		"send": costs.ReceiveDone + costs.Post, "send-rd": costs.ReceiveDone + costs.Post,
	} {
		for _, v := range shows[name].viewers {
			require.Equal(t, 8*cost, v.spent.Total(), "%s", name)
			require.Zero(t, v.spent[host.LayerPoll], "%s", name)
		}
	}
	for _, name := range []string{"mvia", "tcp"} {
		require.Greater(t, shows[name].total().work(), 5*shows["send"].total().work(), "%s", name)
		for _, l := range []host.Layer{host.LayerTrap, host.LayerCopy, host.LayerInterrupt, host.LayerProtocol} {
			require.Positive(t, shows[name].viewers[0].spent[l], "%s: %v", name, l)
		}
	}
}

// The link drops frames. Unreliable protocols lose them; reliable ones deliver
// them late at worst.
func TestFaults(t *testing.T) {
	shows, text := play(t, "-protocols", allProtocols(), "-rate", "2000", "-bytes", "4096", "-seconds", "0.008", "-faults", "drop=4%", "-seed", "3")
	golden(t, "faults.txt", text)
	for name, s := range shows {
		if s.reliable() {
			require.Zero(t, s.total().lost, "%s", name)
		} else {
			require.Positive(t, s.total().lost, "%s", name)
		}
	}
	require.NotEmpty(t, shows["tcp"].total().late)
}

// Every frame is in time if the load is well below the rate of the link, and
// only the first few are if it is above.
func TestDeadlinesFollowTheLoad(t *testing.T) {
	for _, c := range []struct {
		rate  string
		above bool
	}{{"800", false}, {"2000", true}} {
		args := []string{"-clients", "1", "-bytes", "65536", "-rate", c.rate}
		seconds := map[bool]string{false: "0.00625", true: "0.004"}[c.above]
		shows, _ := play(t, append(args, "-seconds", seconds)...)
		require.Len(t, shows, 4)
		for name, s := range shows {
			v := s.total()
			load := float64(s.clients*s.rate*s.bytes) / wireRate
			require.Zero(t, v.lost, "%s at %.2f", name, load)
			if !c.above {
				require.Less(t, load, 0.5)
				require.Empty(t, v.late, "%s at %.2f", name, load)
				continue
			}
			require.Greater(t, load, 1.0)
			require.GreaterOrEqual(t, len(v.late), s.frames-1, "%s at %.2f", name, load)
			require.Greater(t, v.late[len(v.late)-1], 2*s.period(), "%s at %.2f: it does not fall behind", name, load)
		}
	}
}

func TestFilm(t *testing.T) {
	for _, n := range []int{8, 12, 4096, driver.MaxTransferSize} {
		b := make([]byte, n)
		require.Equal(t, -1, numberOf(b))
		for _, k := range []int{0, 1, 77, 999_999} {
			fillFrame(b, k)
			require.Equal(t, k, numberOf(b))
			require.NoError(t, checkFrame(b, k))
			require.Error(t, checkFrame(b, k+1))
			b[n-numberBytes-1] ^= 1
			require.ErrorContains(t, checkFrame(b, k), "byte")
		}
	}
}

func TestPercentile(t *testing.T) {
	times := []host.Time{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	require.Equal(t, []host.Time{5, 9, 10}, []host.Time{percentile(times, 50), percentile(times, 90), percentile(times, 100)})
	require.Equal(t, host.Time(7), percentile([]host.Time{7}, 50))
}

func TestParse(t *testing.T) {
	var printed bytes.Buffer
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-protocols", "rdma,udp"}, `no protocol "udp": there is rdma, send, mvia, tcp`},
		{[]string{"-clients", "16"}, "1 to 15 are possible"},
		{[]string{"-rate", "0"}, "-rate 0: 1 to"},
		{[]string{"-bytes", "65540"}, "8 to 65536"},
		{[]string{"-bytes", "10"}, "a multiple of 4"},
		{[]string{"-ring", "1"}, "2 to 256"},
		{[]string{"-ahead", "8"}, "1 to 7 ticks"},
		{[]string{"-seconds", "0.001"}, "want 1 to"},
		{[]string{"-seconds", "NaN"}, "want 1 to"},
		{[]string{"-seed", "0"}, "-seed 0"},
		{[]string{"-faults", "4>switch:drop=1%"}, "-faults:"},
		{[]string{"-faults", "drop"}, "invalid value"},
		{[]string{"film"}, "only flags"},
	} {
		printed.Reset()
		_, err := parse(c.args, &printed)
		require.Error(t, err, "%v", c.args)
		require.Contains(t, printed.String(), c.says)
	}
	c, err := parse([]string{"-protocols", "tcp", "-clients", "3", "-rate", "25", "-bytes", "100", "-seconds", "2", "-ring", "4", "-ahead", "3", "-seed", "9"}, &printed)
	require.NoError(t, err)
	require.Equal(t, config{protocols: protocols[3:4], clients: 3, rate: 25, bytes: 100, frames: 50, ring: 4, ahead: 3, seed: 9}, c)
}
