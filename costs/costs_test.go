// SPDX-License-Identifier: Apache-2.0

package costs

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/report"
	"hvia/host"
	"hvia/params"
)

// The charges come from the parameters, and a polling loop always takes time.
func TestHostCosts(t *testing.T) {
	for _, profile := range params.Profiles {
		b, err := New(profile.Name, nil)
		require.NoError(t, err)
		c := b.Costs()
		require.Equal(t, host.Time(params.HostPostTime), c.Post)
		require.Equal(t, host.Time(params.HostPollPeriod), c.PollPeriod())
		require.Positive(t, c.PollPeriod())
		require.Equal(t, host.Time(params.HostReceiveWaitTime), c.ReceiveDone)
		require.Equal(t, host.Time(params.HostTimeOfDayTime), c.TimeOfDay)
		for _, free := range []host.Time{c.SendDone, c.AgentCall, c.PinPage, c.Interrupt} {
			require.Zero(t, free, "what costs something needs a parameter, and is charged on no path of an RDMA write")
		}
		require.Equal(t, host.Time(params.HostInterruptTime), b.KernelCosts().Interrupt, "the interrupts of a plain NIC lie on every path")
		require.Equal(t, host.KernelCosts{
			Trap: params.HostTrapTime, Switch: params.HostSwitchTime, SendPacket: params.HostPacketSendTime, CopyByte: params.HostCopyTime,
			Mvia: host.ProtocolCosts{ReceivePacket: params.MviaPacketTime, Wake: params.MviaWakeTime},
			Tcp:  host.ProtocolCosts{ReceivePacket: params.TcpPacketTime, Wake: params.TcpWakeTime},
		}, b.KernelCosts().Kernel)
	}
}

func TestBoard(t *testing.T) {
	replaced := map[string]int64{"HostPostTime": 7, "MacReactClocks": 9}
	b, err := New(params.Base, replaced)
	require.NoError(t, err)
	require.EqualValues(t, 7, b.Costs().Post)
	require.EqualValues(t, 9, b.Value("MacReactClocks"))
	require.Equal(t, map[string]int64{"MacReactClocks": 9}, b.Models(), "the host's numbers are not the simulator's business")
	require.Equal(t, map[string]int64{"MacReactClocks": 4, "MviaPacketTime": 8_100_000, "MviaWakeTime": 8_500_000, "TcpPacketTime": 7_600_000, "TcpWakeTime": 77_000_000}, b.Priors())
	require.Len(t, report.ParametersOf(b.Table), len(params.Table()))
	k := slices.IndexFunc(report.ParametersOf(b.Table), func(p report.Parameter) bool { return p.Name == "MacReactClocks" })
	got := report.ParametersOf(b.Table)[k]
	require.EqualValues(t, 9, got.Value)
	require.EqualValues(t, 4, *got.Prior)
	require.Equal(t, "CALIBRATED(T3)", got.Tag)
	b, err = New(params.Base, map[string]int64{"MacReactClocks": 4})
	require.NoError(t, err)
	require.NotContains(t, b.Priors(), "MacReactClocks", "it has the value from before the fit")
	again, err := New(params.Base, nil)
	require.NoError(t, err)
	require.EqualValues(t, params.MacReactClocks, again.Value("MacReactClocks"), "a run's numbers are its own")
	for _, tt := range []struct {
		replaced map[string]int64
		want     string
	}{
		{map[string]int64{"Nothing": 1}, `no parameter "Nothing"`},
		{map[string]int64{"PacketSlots": 1}, "PacketSlots cannot be replaced by 1: the RTL is built with it"},
		{map[string]int64{"HostPostTime": -1}, "HostPostTime cannot be -1"},
	} {
		_, err := New(params.Base, tt.replaced)
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, tt.want)
	}
}
