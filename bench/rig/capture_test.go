// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"hvia/bench/internal/benchtest"
	"hvia/layout"
	"hvia/sim"
)

func encodeFrames(frames ...Frame) []byte {
	var b []byte
	for _, f := range frames {
		r := make(layout.FrameRecord, layout.FrameRecordSize)
		r.SetTime(uint64(f.TimePs))
		r.SetSource(uint8(f.Source))
		r.SetDestination(uint8(f.Destination))
		r.SetLength(uint16(len(f.Bytes)))
		b = append(append(b, r...), f.Bytes...)
	}
	return b
}

func testFrames() []Frame {
	return []Frame{
		{3_000_000, 0, 1, bytes.Repeat([]byte{1}, 60)},
		{1_234_567, 1, 0, bytes.Repeat([]byte{2}, 1514)}, // written later, but earlier on the wire
		{3_000_000, 1, 0, bytes.Repeat([]byte{3}, 61)},
	}
}

func TestWritePcap(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "frames"), filepath.Join(dir, "out.pcapng")
	frames := testFrames()
	require.NoError(t, os.WriteFile(in, encodeFrames(frames...), 0o600))
	require.NoError(t, writePcap(out, in, "what it is"))
	got, r := benchtest.ReadCapture(t, out)
	require.Equal(t, "what it is", r.SectionInfo().Comment)
	require.Equal(t, 2, r.NInterfaces())
	for n, name := range []string{"via0", "via1"} {
		i, err := r.Interface(n)
		require.NoError(t, err)
		require.Equal(t, name, i.Name)
		require.Equal(t, layers.LinkTypeEthernet, i.LinkType)
	}
	require.Len(t, got, 3)
	for i, want := range []Frame{frames[1], frames[0], frames[2]} {
		require.Equal(t, want.Bytes, got[i].Bytes)
		require.Equal(t, want.Source, got[i].Node)
		require.Equal(t, want.TimePs/1000, got[i].Time.UnixNano(), "nanoseconds of simulated time")
	}
}

// With a switch there is an interface for each node, also for one that sends
// nothing, and each frame appears once, when its node sends it. A cable with
// wrong ends ends the capture.
func TestWritePcapOfASwitch(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "frames"), filepath.Join(dir, "out.pcapng")
	frames := []Frame{
		{1000, 0, layout.WireSwitch, []byte("flooded")},
		{2000, layout.WireSwitch, 1, []byte("flooded")}, {2000, layout.WireSwitch, 2, []byte("flooded")}, {2000, layout.WireSwitch, 15, []byte("flooded")},
		{2500, 2, layout.WireSwitch, []byte("an answer")},
		{3500, layout.WireSwitch, 0, []byte("an answer")},
	}
	write := func(list ...Frame) error {
		require.NoError(t, os.WriteFile(in, encodeFrames(list...), 0o600))
		return writePcap(out, in, "")
	}
	require.NoError(t, write(frames...))
	got, r := benchtest.ReadCapture(t, out)
	require.Equal(t, 16, r.NInterfaces())
	last, err := r.Interface(15)
	require.NoError(t, err)
	require.Equal(t, "via15", last.Name)
	require.Len(t, got, 2)
	require.Equal(t, benchtest.Captured{Time: time.Unix(0, 1).UTC(), Node: 0, Bytes: []byte("flooded")}, got[0])
	require.Equal(t, benchtest.Captured{Time: time.Unix(0, 2).UTC(), Node: 2, Bytes: []byte("an answer")}, got[1])

	for _, wrong := range []Frame{{4000, 16, layout.WireSwitch, nil}, {4000, layout.WireSwitch, 16, nil}, {4000, 3, 3, nil}, {4000, layout.WireSwitch, layout.WireSwitch, nil}} {
		require.ErrorContains(t, write(append(frames[:6:6], wrong)...), "frame 6: from ", "%v", wrong)
		got, _ := benchtest.ReadCapture(t, out)
		require.Len(t, got, 2)
	}
}

// A truncated frame file gives the frames before the cut, and the error.
func TestWritePcapOfACutFile(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "frames"), filepath.Join(dir, "out.pcapng")
	whole := encodeFrames(testFrames()...)
	for _, cut := range []int{1, 60, 61, 70, 76} {
		require.NoError(t, os.WriteFile(in, whole[:len(whole)-cut], 0o600))
		err := writePcap(out, in, "")
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d bytes are missing", cut)
		require.ErrorContains(t, err, "frame 2")
		got, _ := benchtest.ReadCapture(t, out)
		require.Len(t, got, 2)
	}
	require.ErrorIs(t, writePcap(out, filepath.Join(dir, "none"), ""), os.ErrNotExist)
	require.ErrorIs(t, writePcap(filepath.Join(dir, "none", "x"), in, ""), os.ErrNotExist)
}

func FuzzDecodeFrames(f *testing.F) {
	f.Add(encodeFrames(testFrames()...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		frames, err := DecodeFrames(bytes.NewReader(b))
		size := 0
		for i, fr := range frames {
			size += layout.FrameRecordSize + len(fr.Bytes)
			if fr.wrongEnds() != "" || i > 0 && fr.TimePs < frames[i-1].TimePs {
				t.Fatalf("frame %d from %d to %d at %d ps", i, fr.Source, fr.Destination, fr.TimePs)
			}
		}
		if size > len(b) || (err == nil) != (size == len(b)) {
			t.Fatalf("%d of %d bytes taken, %v", size, len(b), err)
		}
	})
}

func TestRecording(t *testing.T) {
	dir := t.TempDir()
	r, err := Record("", "")
	require.NoError(t, err)
	var cfg sim.Config
	r.Into(&cfg)
	require.Equal(t, sim.Config{Arguments: []string{"--trace", r.trace()}}, cfg)
	require.NoError(t, r.WritePcap("p", 1), "none was asked for")
	r.Remove()
	require.NoDirExists(t, r.Dir)

	pcap, wave := filepath.Join(dir, "a.pcapng"), filepath.Join(dir, "a.fst")
	require.NoError(t, os.WriteFile(pcap, []byte("the last one"), 0o600))
	r, err = Record(pcap, wave)
	require.NoError(t, err)
	defer r.Remove()
	cfg = sim.Config{}
	r.Into(&cfg)
	require.Equal(t, []string{"--trace", r.trace(), "--frames", r.Frames()}, cfg.Arguments)
	require.Equal(t, filepath.Join(dir, "a"), cfg.Wave)
	body, err := os.ReadFile(pcap)
	require.NoError(t, err)
	require.Equal(t, "the last one", string(body), "nothing is lost before there is something new")
	require.FileExists(t, filepath.Join(dir, "a.node0.fst"))
	require.FileExists(t, filepath.Join(dir, "a.node1.fst"))

	for _, files := range [][2]string{{filepath.Join(dir, "none", "x"), ""}, {"", filepath.Join(dir, "none", "x")}, {dir, ""}} {
		_, err := Record(files[0], files[1])
		require.ErrorIs(t, err, ErrOutput)
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	_, err = Record("", "")
	require.ErrorIs(t, err, ErrOutput)
	require.ErrorContains(t, err, "TMPDIR")
}
