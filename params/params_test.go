// SPDX-License-Identifier: Apache-2.0

package params_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/params"
)

func TestForProfile(t *testing.T) {
	base, err := params.ForProfile("")
	require.NoError(t, err)
	require.Equal(t, params.Base, base.Name)
	require.Equal(t, params.Hash, base.Hash)

	fast, err := params.ForProfile("hvia-ge-66")
	require.NoError(t, err)
	require.NotZero(t, fast.Hash)
	require.NotEqual(t, base.Hash, fast.Hash)
	for name, want := range map[string]int64{"SystemBusBits": 64, "SystemClockPeriod": 15000, "DmaBurstBytes": params.DmaBurstBytes} {
		got, err := fast.Lookup(name)
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
	_, err = fast.Lookup("NoSuchNumber")
	require.ErrorContains(t, err, `no parameter "NoSuchNumber"`)
	_, err = params.ForProfile("hvia-xl")
	require.ErrorContains(t, err, `no profile "hvia-xl": there is ["hvia-ge" "hvia-ge-66"]`)
	_, err = params.Lookup("hvia-xl", "SystemBusBits")
	require.Error(t, err)
}

// Every number has a source, and the list names exactly the fitted ones.
func TestEveryNumberHasItsSource(t *testing.T) {
	calibrated := map[string]params.Tag{}
	for _, p := range params.Table() {
		require.NotEmpty(t, strings.TrimSpace(p.Source), "%s has no source", p.Name)
		require.NotEmpty(t, strings.TrimSpace(p.Unit), "%s has no unit", p.Name)
		require.NotEmpty(t, strings.TrimSpace(p.Doc), "%s has no meaning", p.Name)
		switch p.Tag {
		case params.Paper, params.Sourced, params.Structure, params.Guess:
		default:
			require.Regexp(t, `^CALIBRATED\(T([1-9]|1[01])\)$`, string(p.Tag), p.Name)
			calibrated[p.Name] = p.Tag
		}
	}
	require.Equal(t, params.CalibratedTargets, calibrated, "what the table says was fitted is not what may be")
}

// Constraints of the RTL and PCI on every profile.
func TestProfilesHoldTogether(t *testing.T) {
	for _, profile := range params.Profiles {
		value := func(name string) int64 {
			v, err := params.Lookup(profile.Name, name)
			require.NoError(t, err)
			return v
		}
		// The core's data paths and the packet buffers have one width.
		require.Contains(t, []int64{32, 64}, value("SystemBusBits"), profile.Name)
		require.Equal(t, value("SystemBusBits"), value("MacBusBits"), profile.Name)
		// The other clocks' edges lie inside a period, never on an edge of
		// the system clock.
		for _, clock := range []string{"Mac", "Sdram"} {
			require.Positive(t, value(clock+"ClockPhase"), profile.Name)
			require.Less(t, value(clock+"ClockPhase"), value(clock+"ClockPeriod"), profile.Name)
		}
		// PCI 2.3: DEVSEL# by the third clock, first data within 16, each
		// further within 8.
		require.Contains(t, []int64{1, 2, 3}, value("BridgeDevselClocks"), profile.Name)
		for _, name := range []string{"BridgeReadInitialClocks", "BridgeWriteInitialClocks"} {
			require.GreaterOrEqual(t, value(name), value("BridgeDevselClocks"), "%s: %s", profile.Name, name)
			require.LessOrEqual(t, value(name), int64(16), "%s: %s", profile.Name, name)
		}
		require.GreaterOrEqual(t, value("BridgeWaitClocks"), int64(1), profile.Name)
		require.LessOrEqual(t, value("BridgeWaitClocks"), int64(7), profile.Name)
	}
}

// Figure 11 is the time of VipPostRecv between two readings of the clock, the
// only source of HostPostTime.
func TestPostTimeIsThatOfFigure11(t *testing.T) {
	require.EqualValues(t, 6_000_000, params.HostPostTime+params.HostTimeOfDayTime)
}

// A prediction uses the prior of every fitted parameter that has one.
func TestPriors(t *testing.T) {
	found := map[string]int64{}
	for _, p := range params.Table() {
		if p.Prior != 0 {
			found[p.Name] = p.Prior
		}
	}
	require.Equal(t, map[string]int64{
		"MacReactClocks": 4, "MviaPacketTime": 8100000, "MviaWakeTime": 8500000, "TcpPacketTime": 7600000, "TcpWakeTime": 77000000,
	}, found)
}
