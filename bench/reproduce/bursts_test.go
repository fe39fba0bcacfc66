// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/tracetest"
	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/layout"
	"hvia/params"
)

// transaction is one on a bus of a node: clocks of FRAME#, then idle ones.
type transaction struct {
	use          uint32
	clocks, idle int64
}

// The buses of the base profile.
const clockPs = 30_000

func period(b bus, events []rig.TraceEvent) (int64, int) { return b.period(events, clockPs, 32) }

// onBus is the trace of transactions that follow each other.
func onBus(b bus, node int, list ...transaction) []rig.TraceEvent {
	var events []rig.TraceEvent
	now := int64(1000)
	for _, t := range list {
		events = append(events, rig.TraceEvent{TimePs: now, Node: node, Event: b.start, Sequence: t.use},
			rig.TraceEvent{TimePs: now + t.clocks*clockPs, Node: node, Event: b.end, Sequence: t.use})
		now += (t.clocks + t.idle) * clockPs
	}
	return events
}

func byTime(lists ...[]rig.TraceEvent) []rig.TraceEvent {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b rig.TraceEvent) int { return int(a.TimePs - b.TimePs) })
	return all
}

const (
	frameRead  = uint32(layout.MacBusUseFrameRead)
	frameWrite = uint32(layout.MacBusUseFrameWrite)
	kick       = uint32(layout.MacBusUseKick)
)

func TestBursts(t *testing.T) {
	// 140 + 2 clocks of 30 ns for 512 bytes: 4.26 us, 120.19 MB/s. 145 + 1:
	// 116.89 MB/s.
	system := onBus(systemBus, 0, transaction{1, 140, 2}, transaction{1, 140, 2}, transaction{1, 126, 2})
	mac := onBus(macBus, 1, transaction{frameRead, 145, 1}, transaction{frameRead, 145, 1}, transaction{frameRead, 140, 1})
	got, err := burstsOf(byTime(system, mac), params.Base)
	require.NoError(t, err)
	require.Equal(t, &report.Bursts{SystemBytesPerSec: 120_187_793, MACBytesPerSec: 116_894_977}, got)

	for _, missing := range [][]rig.TraceEvent{nil, system, mac} {
		_, err := burstsOf(missing, params.Base)
		require.ErrorIs(t, err, rig.ErrTrace)
	}
}

// At twice the clock and the width the same clocks give other rates.
func TestBurstsOfAnotherProfile(t *testing.T) {
	trace := byTime(onBus(systemBus, 0, transaction{1, 39, 1}, transaction{1, 39, 1}), onBus(macBus, 1, transaction{frameRead, 40, 1}, transaction{frameRead, 40, 1}))
	_, err := burstsOf(trace, params.Base)
	require.ErrorIs(t, err, rig.ErrTrace, "too short for 512 bytes on 32 bits")
	got, err := burstsOf(trace, "hvia-ge-66")
	require.NoError(t, err)
	require.Equal(t, report.BytesPerSecond(burstBytes, 40*clockPs), got.SystemBytesPerSec)
	require.Equal(t, report.BytesPerSecond(burstBytes, 41*clockPs), got.MACBytesPerSec)
	_, err = burstsOf(trace, "none")
	require.ErrorContains(t, err, `no profile "none"`)
}

// Only a 512-byte burst with another one right behind it counts.
func TestBurstsThatDoNotCount(t *testing.T) {
	read := transaction{frameRead, 145, 1}
	for _, tt := range []struct {
		name  string
		list  []transaction
		count int
		ps    int64
	}{
		{"one alone", []transaction{read}, 0, 0},
		{"two", []transaction{read, {frameRead, 10, 1}}, 1, 146 * clockPs},
		{"the rest of a frame, then a status", []transaction{read, {frameRead, 140, 1}, {uint32(layout.MacBusUseStatusWrite), 12, 1}, read}, 1, 146 * clockPs},
		{"another use between", []transaction{read, {kick, 6, 1}, read}, 0, 0},
		{"another direction", []transaction{read, {frameWrite, 145, 1}}, 0, 0},
		{"a pause", []transaction{{frameRead, 145, 5}, read}, 0, 0},
		{"the longest pause that is none", []transaction{{frameRead, 145, 4}, read}, 1, 149 * clockPs},
		{"too short for 512 bytes", []transaction{{frameRead, 127, 1}, read}, 0, 0},
		{"just long enough", []transaction{{frameRead, 128, 1}, read}, 1, 129 * clockPs},
		{"so long that something was in the way", []transaction{{frameRead, 193, 1}, read}, 0, 0},
		{"the mean of different ones", []transaction{{frameWrite, 140, 1}, {frameWrite, 144, 1}, {frameWrite, 150, 1}}, 2, 143 * clockPs},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ps, count := period(macBus, onBus(macBus, 0, tt.list...))
			require.Equal(t, tt.count, count)
			require.Equal(t, tt.ps, ps)
		})
	}
	// The host's transactions are not the card's.
	_, count := period(systemBus, onBus(systemBus, 0, transaction{0, 140, 1}, transaction{0, 140, 1}))
	require.Zero(t, count)
	// Two nodes have two buses.
	_, count = period(macBus, byTime(onBus(macBus, 0, read), onBus(macBus, 1, transaction{kick, 3, 200}, read)))
	require.Zero(t, count)
	// Without an idle clock the end is the next one's start.
	noEnd := slices.DeleteFunc(onBus(macBus, 0, transaction{frameRead, 146, 0}, read), func(e rig.TraceEvent) bool { return e.Event == macBus.end })
	ps, count := period(macBus, noEnd)
	require.Equal(t, 1, count)
	require.EqualValues(t, 146*clockPs, ps)
}

func FuzzBurstsOf(f *testing.F) {
	f.Add(make([]byte, 3*layout.TraceRecordSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = burstsOf(tracetest.Decoded(t, b), params.Base)
	})
}
