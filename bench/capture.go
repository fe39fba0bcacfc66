// SPDX-License-Identifier: Apache-2.0

package bench

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
// interface for each node, on which its card sends; simulated time counts from
// the epoch, so time 0 shows as 1970.
func writePcap(file, frames, comment string) (err error) {
	in, err := os.Open(frames)
	if err != nil {
		return fmt.Errorf("write the capture %s: %w", file, err)
	}
	defer in.Close()
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
	if _, err := w.AddInterface(captureInterface(1)); err != nil {
		return fmt.Errorf("write the capture %s: %w", file, err)
	}
	// What was copied before an error is still a capture.
	if err := errors.Join(copyFrames(bufio.NewReader(in), w), w.Flush(), buffered.Flush()); err != nil {
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

func copyFrames(r io.Reader, w *pcapgo.NgWriter) error {
	frames, cut := decodeFrames(r)
	for _, f := range frames {
		ci := gopacket.CaptureInfo{
			Timestamp: time.Unix(0, f.timePs/1000).UTC(), CaptureLength: len(f.bytes), Length: len(f.bytes), InterfaceIndex: f.source,
		}
		if err := w.WritePacket(ci, f.bytes); err != nil {
			return err
		}
	}
	return cut
}

// frame is one frame on the wire.
type frame struct {
	timePs int64 // at which its preamble begins at the sender
	source int   // node
	bytes  []byte
}

// decodeFrames reads a frame file, in the order of the frames' times: the
// simulator writes each when its sender hands it over, which for one that waits
// for the wire is before its time.
func decodeFrames(r io.Reader) ([]frame, error) {
	var frames []frame
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
		if head.Source() > 1 {
			cut = fmt.Errorf("frame %d: source %d, of two nodes", len(frames), head.Source())
			break
		}
		frames = append(frames, frame{int64(head.Time()), int(head.Source()), b})
	}
	if errors.Is(cut, io.EOF) || errors.Is(cut, io.ErrUnexpectedEOF) {
		cut = fmt.Errorf("frame %d: %w: the simulator did not finish writing it", len(frames), io.ErrUnexpectedEOF)
	}
	slices.SortStableFunc(frames, func(a, b frame) int { return cmp.Compare(a.timePs, b.timePs) })
	return frames, cut
}
