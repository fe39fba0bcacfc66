// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
)

// EncodeTrace encodes events as the simulator does.
func EncodeTrace(events []TraceEvent) []byte {
	var b []byte
	for _, e := range events {
		r := make(layout.TraceRecord, layout.TraceRecordSize)
		r.SetTime(uint64(e.TimePs))
		r.SetNode(uint8(e.Node))
		r.SetVI(uint8(e.VI))
		r.SetEvent(uint8(e.Event))
		r.SetSequence(e.Sequence)
		b = append(b, r...)
	}
	return b
}

func TestReadTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	_, err := ReadTrace(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	events := []TraceEvent{
		{TimePs: 20, Node: 1, VI: 255, Event: layout.TraceEventWireEnd, Sequence: 0xffffffff},
		{TimePs: -5, Event: layout.TraceEventCommandStart},
		{TimePs: 20, Node: 0, Event: layout.TraceEventMacReceiveEnd},
	}
	require.NoError(t, os.WriteFile(path, EncodeTrace(events), 0o600))
	got, err := ReadTrace(path)
	require.NoError(t, err)
	require.Equal(t, []TraceEvent{events[1], events[0], events[2]}, got, "by time, and at one time as written")

	// A simulator that was killed leaves half a record.
	whole := EncodeTrace(events)
	for cut := 1; cut < layout.TraceRecordSize; cut++ {
		got, err := decodeTrace(bytes.NewReader(whole[:len(whole)-cut]))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.ErrorContains(t, err, "record 2")
		require.Equal(t, events[:2], got)
	}
}

func FuzzDecodeTrace(f *testing.F) {
	f.Add(EncodeTrace([]TraceEvent{{TimePs: 10, VI: 3, Event: layout.TraceEventHostDoorbell}, {TimePs: 20, Node: 1, VI: 5, Event: layout.TraceEventReceiveWritten}}))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		events, err := decodeTrace(bytes.NewReader(b))
		if (err == nil) != (len(b)%layout.TraceRecordSize == 0) || len(events) != len(b)/layout.TraceRecordSize {
			t.Fatalf("%d bytes: %d events, %v", len(b), len(events), err)
		}
		// The search for messages ends, whatever a trace contains.
		_, _, _, _ = MessageTimes(events, RDMAWriteStages, 0, 0, 3, 5, 2)
		_, _, _, _ = MessageTimes(events, SendReceiveStages, 0, 0, 3, 5, 2)
	})
}
