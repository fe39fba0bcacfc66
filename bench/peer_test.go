// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/bench/report"
	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim/bridge"
)

func TestPeerJob(t *testing.T) {
	c := DefaultReproduceConfig()
	c.Progress = func(Progress) {}
	want := peerJob{Config: c, Exchange: sendReceive, Sizes: []int{4, 65536}, Path: "/some/where.sock"}
	b, err := json.Marshal(want)
	require.NoError(t, err)
	got, err := decodePeerJob(b)
	require.NoError(t, err)
	want.Config.Progress = nil
	require.Equal(t, want, got)

	for _, tt := range []struct {
		name   string
		change func(*peerJob)
		want   string
	}{
		{"configuration", func(j *peerJob) { j.Config.Iterations = 0 }, "0 iterations"},
		{"profile", func(j *peerJob) { j.Config.Profile = "other" }, `no profile "other"`},
		{"size", func(j *peerJob) { j.Sizes = []int{4, 5} }, "size 5 is not one of"},
		{"negative size", func(j *peerJob) { j.Sizes = []int{-1} }, "size -1"},
		{"no sizes", func(j *peerJob) { j.Sizes = nil }, "both are needed"},
		{"exchange", func(j *peerJob) { j.Exchange = "shouting" }, `exchange "shouting"`},
		{"no path", func(j *peerJob) { j.Path = "" }, "both are needed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := want
			tt.change(&j)
			b, err := json.Marshal(j)
			require.NoError(t, err)
			_, err = decodePeerJob(b)
			require.ErrorIs(t, err, ErrConfig)
			require.ErrorContains(t, err, "serve the second host: ")
			require.ErrorContains(t, err, tt.want)
		})
	}
	for _, text := range []string{"", "{", "null", "[]", `"x"`, `{"Config":{"Sizes":"all"}}`} {
		_, err := decodePeerJob([]byte(text))
		require.ErrorContains(t, err, "serve the second host: ", "%q", text)
	}
}

// A process that finds no fabric says where it looked.
func TestServePeerWithoutAFabric(t *testing.T) {
	path := t.TempDir() + "/none.sock"
	job, err := json.Marshal(peerJob{Config: DefaultReproduceConfig(), Exchange: rdmaWrite, Sizes: []int{4}, Path: path})
	require.NoError(t, err)
	err = ServePeer(t.Context(), job)
	require.ErrorIs(t, err, bridge.ErrNoSimulator)
	require.ErrorContains(t, err, path)

	// Started as a process, its words come with the exit code.
	p, err := startPeer(t.Context(), peerJob{Config: DefaultReproduceConfig(), Exchange: rdmaWrite, Sizes: []int{4}, Path: path})
	require.NoError(t, err)
	begin := time.Now()
	err = p.wait()
	require.ErrorContains(t, err, "the second host: exit status 1: ")
	require.ErrorContains(t, err, path)
	require.Less(t, time.Since(begin), 30*time.Second)
	require.Equal(t, err, p.wait(), "asked again it says the same")
}

func FuzzPeerJob(f *testing.F) {
	good, err := json.Marshal(peerJob{Config: DefaultReproduceConfig(), Exchange: rdmaWrite, Sizes: []int{4}, Path: "p"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"Config":{"Profile":"hvia-ge","Sizes":[1],"Iterations":1,"Processes":2},"Exchange":"RDMA write","Sizes":[1],"Path":"x"}`))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := decodePeerJob(b)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "serve the second host: ") {
				t.Fatal(err)
			}
			return
		}
		if j.Path == "" || len(j.Sizes) == 0 || j.Config.Validate() != nil {
			t.Fatalf("%+v", j)
		}
		for _, s := range j.Sizes {
			if s < 1 || s > MaxSize {
				t.Fatalf("size %d", s)
			}
		}
	})
}

func TestVerdict(t *testing.T) {
	for _, v := range []verdict{{}, {255, 1 << 20, host.Account{1, 2, 3}, ""}, {3, 4, host.Account{host.LayerAgent: 1 << 40}, "byte 7 of 9"}} {
		got, err := decodeVerdict(v.encode())
		require.NoError(t, err)
		require.Equal(t, v, got)
	}
	long := verdict{1, 2, host.Account{}, strings.Repeat("x", 2*layout.BridgeMaxMessage)}
	require.Len(t, long.encode(), layout.BridgeMaxMessage, "as much as a message takes")
	_, err := decodeVerdict(make([]byte, verdictHead-1))
	require.ErrorContains(t, err, fmt.Sprintf("a verdict of %d bytes", verdictHead-1))
}

// The charges come from the parameters, and a polling loop always takes time.
func TestHostCosts(t *testing.T) {
	for _, profile := range params.Profiles {
		b, err := newBoard(profile.Name, nil)
		require.NoError(t, err)
		c := b.costs()
		require.Equal(t, host.Time(params.HostPostTime), c.Post())
		require.Equal(t, host.Time(params.HostPollPeriod), c.PollPeriod())
		require.Positive(t, c.PollPeriod())
		require.Equal(t, host.Time(params.HostReceiveWaitTime), c.ReceiveDone())
		require.Equal(t, host.Time(params.HostTimeOfDayTime), c.TimeOfDay())
		for _, free := range []host.Time{c.SendDone(), c.AgentCall(), c.PinPage(), c.Interrupt()} {
			require.Zero(t, free, "what costs something needs a parameter, and is charged on no path of an RDMA write")
		}
		require.Equal(t, host.Time(params.HostInterruptTime), b.kernelCosts().Interrupt(), "the interrupts of a plain NIC lie on every path")
		require.Equal(t, host.KernelCosts{
			Trap: params.HostTrapTime, Switch: params.HostSwitchTime, SendPacket: params.HostPacketSendTime, CopyByte: params.HostCopyTime,
			Mvia: host.ProtocolCosts{ReceivePacket: params.MviaPacketTime, Wake: params.MviaWakeTime},
			Tcp:  host.ProtocolCosts{ReceivePacket: params.TcpPacketTime, Wake: params.TcpWakeTime},
		}, b.kernelCosts().Kernel())
	}
}

func TestBoard(t *testing.T) {
	replaced := map[string]int64{"HostPostTime": 7, "MacReactClocks": 9}
	b, err := newBoard(params.Base, replaced)
	require.NoError(t, err)
	require.EqualValues(t, 7, b.costs().Post())
	require.EqualValues(t, 9, b.value("MacReactClocks"))
	require.Equal(t, map[string]int64{"MacReactClocks": 9}, b.models(), "the host's numbers are not the simulator's business")
	require.Equal(t, map[string]int64{"MacReactClocks": 4, "MviaPacketTime": 8_100_000, "MviaWakeTime": 8_500_000, "TcpPacketTime": 7_600_000, "TcpWakeTime": 77_000_000}, b.priors())
	require.Len(t, report.ParametersOf(b.table), len(params.Table()))
	k := slices.IndexFunc(report.ParametersOf(b.table), func(p report.Parameter) bool { return p.Name == "MacReactClocks" })
	got := report.ParametersOf(b.table)[k]
	require.EqualValues(t, 9, got.Value)
	require.EqualValues(t, 4, *got.Prior)
	require.Equal(t, "CALIBRATED(T3)", got.Tag)
	b, err = newBoard(params.Base, map[string]int64{"MacReactClocks": 4})
	require.NoError(t, err)
	require.NotContains(t, b.priors(), "MacReactClocks", "it has the value from before the fit")
	again, err := newBoard(params.Base, nil)
	require.NoError(t, err)
	require.EqualValues(t, params.MacReactClocks, again.value("MacReactClocks"), "a run's numbers are its own")
	for _, tt := range []struct {
		replaced map[string]int64
		want     string
	}{
		{map[string]int64{"Nothing": 1}, `no parameter "Nothing"`},
		{map[string]int64{"PacketSlots": 1}, "PacketSlots cannot be replaced by 1: the RTL is built with it"},
		{map[string]int64{"HostPostTime": -1}, "HostPostTime cannot be -1"},
	} {
		_, err := newBoard(params.Base, tt.replaced)
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, tt.want)
	}
}

func TestStopped(t *testing.T) {
	fault := errors.New("fault")
	ctx := t.Context()
	require.Equal(t, fault, stopped(ctx, "x", fault))
	require.NoError(t, stopped(ctx, "x", nil))
}
