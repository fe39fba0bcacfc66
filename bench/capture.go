// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"hvia/layout"
)

// waveStem is what the simulator appends a node's name and ".fst" to.
func waveStem(file string) string { return strings.TrimSuffix(file, ".fst") }

// writePcap turns a frame file of the simulator into a pcapng file: one
// interface for each node, on which its card sends; simulated time counts from
// the epoch, so time 0 shows as 1970.
func writePcap(file, frames string, c ReproduceConfig) (err error) {
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
		SectionInfo: pcapgo.NgSectionInfo{Application: "hvia", Comment: fmt.Sprintf("profile %s, seed %d, simulated time from 1970-01-01", c.Profile, c.Seed)},
	})
	if err != nil {
		return fmt.Errorf("write the capture %s: %w", file, err)
	}
	if _, err := w.AddInterface(captureInterface(1)); err != nil {
		return fmt.Errorf("write the capture %s: %w", file, err)
	}
	if err := copyFrames(bufio.NewReader(in), w); err != nil {
		return fmt.Errorf("write the capture %s: %w", file, err)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the capture %s: %w", file, err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("write the capture: %w", err)
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
	head := make(layout.FrameRecord, layout.FrameRecordSize)
	for {
		if _, err := io.ReadFull(r, head); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		frame := make([]byte, head.Length())
		if _, err := io.ReadFull(r, frame); err != nil {
			return err
		}
		ci := gopacket.CaptureInfo{
			Timestamp: time.Unix(0, int64(head.Time())/1000).UTC(), CaptureLength: len(frame), Length: len(frame), InterfaceIndex: int(head.Source()),
		}
		if err := w.WritePacket(ci, frame); err != nil {
			return err
		}
	}
}
