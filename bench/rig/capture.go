// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"hvia/layout"
)

// writePcap turns a frame file of the simulator into a pcapng file: one
// interface for each node, on which its card sends. Simulated time counts from
// the epoch, so time 0 shows as 1970. A frame that crosses a switch is recorded
// once, when its node sends it.
func writePcap(file, framesFile, comment string) (err error) {
	in, err := os.Open(framesFile)
	if err != nil {
		return fmt.Errorf("write the capture %s: %w", file, err)
	}
	defer in.Close()
	frames, cut := DecodeFrames(bufio.NewReader(in))
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write the capture: %w", err)
	}
	defer func() {
		if e := out.Close(); err == nil && e != nil {
			err = fmt.Errorf("write the capture: %w", e)
		}
	}()
	buffered := bufio.NewWriter(out)
	w, err := pcapgo.NewNgWriterInterface(buffered, captureInterface(0), pcapgo.NgWriterOptions{
		SectionInfo: pcapgo.NgSectionInfo{Application: "hvia", Comment: comment},
	})
	if err != nil {
		return fmt.Errorf("write the capture %s: %w", file, err)
	}
	for n := 1; n < nodesOf(frames); n++ {
		if _, err := w.AddInterface(captureInterface(n)); err != nil {
			return fmt.Errorf("write the capture %s: %w", file, err)
		}
	}
	// The frames before an error still make a valid capture.
	if err := errors.Join(copyFrames(frames, w), cut, w.Flush(), buffered.Flush()); err != nil {
		return fmt.Errorf("write the capture %s: %w", file, err)
	}
	return nil
}

func captureInterface(node int) pcapgo.NgInterface {
	return pcapgo.NgInterface{
		Name: fmt.Sprintf("via%d", node), Description: fmt.Sprintf("frames sent by the card of node %d", node),
		LinkType: layers.LinkTypeEthernet, TimestampResolution: 9, SnapLength: 0,
	}
}

// nodesOf returns the highest node number in the frames plus 1, at least 2. A
// switch floods unknown destinations, so its idle nodes appear too.
func nodesOf(frames []Frame) int {
	n := 2
	for _, f := range frames {
		for _, node := range []int{f.Source, f.Destination} {
			if node != layout.WireSwitch {
				n = max(n, node+1)
			}
		}
	}
	return n
}

func copyFrames(frames []Frame, w *pcapgo.NgWriter) error {
	for _, f := range frames {
		if f.Source == layout.WireSwitch {
			continue
		}
		ci := gopacket.CaptureInfo{
			Timestamp: time.Unix(0, f.TimePs/1000).UTC(), CaptureLength: len(f.Bytes), Length: len(f.Bytes), InterfaceIndex: f.Source,
		}
		if err := w.WritePacket(ci, f.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// Frame is one frame on one cable. Source and destination are nodes, or
// layout.WireSwitch.
type Frame struct {
	TimePs      int64 // start of its preamble at the sender
	Source      int
	Destination int
	Bytes       []byte
}

// wrongEnds says why no cable has these ends.
func (f Frame) wrongEnds() string {
	for _, end := range []int{f.Source, f.Destination} {
		if end >= layout.BridgeMaxNodes && end != layout.WireSwitch {
			return fmt.Sprintf("from %d to %d: a fabric has %d nodes at most, and a switch is %d", f.Source, f.Destination, layout.BridgeMaxNodes, layout.WireSwitch)
		}
	}
	if f.Source == f.Destination {
		return fmt.Sprintf("from %d to %d: a cable has two ends", f.Source, f.Destination)
	}
	return ""
}

// DecodeFrames reads a frame file and sorts the frames by time. The simulator
// writes a frame when its sender passes it on, which is before its time if it
// waits for the wire.
func DecodeFrames(r io.Reader) ([]Frame, error) {
	var frames []Frame
	var cut error
	head := make(layout.FrameRecord, layout.FrameRecordSize)
	for {
		if _, err := io.ReadFull(r, head); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			cut = err
			break
		}
		b := make([]byte, head.Length())
		if _, err := io.ReadFull(r, b); err != nil {
			cut = err
			break
		}
		f := Frame{int64(head.Time()), int(head.Source()), int(head.Destination()), b}
		if wrong := f.wrongEnds(); wrong != "" {
			cut = fmt.Errorf("frame %d: %s", len(frames), wrong)
			break
		}
		frames = append(frames, f)
	}
	if errors.Is(cut, io.EOF) || errors.Is(cut, io.ErrUnexpectedEOF) {
		cut = fmt.Errorf("frame %d: %w: the simulator did not finish writing it", len(frames), io.ErrUnexpectedEOF)
	}
	slices.SortStableFunc(frames, func(a, b Frame) int { return cmp.Compare(a.TimePs, b.TimePs) })
	return frames, cut
}
