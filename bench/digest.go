// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"hvia/sim"
)

// Parts are the two parts of a run's digest, as 16 hexadecimal digits each:
// what the cards and the wire did, and what the hosts saw of it.
type Parts struct {
	Frames string `json:"frames_digest,omitempty"` // hash over every frame on a wire and its time
	Wakes  string `json:"wakes_digest,omitempty"`  // hash over every wake, and the message or reply it brought
}

// RunDigest is the digest of one run of a report.
type RunDigest struct {
	Run string `json:"run"` // key of its results, or receive_side
	Parts
}

// runDigest is the digest of a run that has ended.
type runDigest struct {
	all string // hash over frames, wakes and what differs from the usual configuration
	Parts
}

// digestOf is the digest of a run that has ended. It rejects a run in which
// something outside virtual time took part.
func digestOf(ctx context.Context, f *sim.Fabric) (runDigest, error) {
	d, err := f.Digest(ctx)
	if err != nil {
		return runDigest{}, err
	}
	if !d.Reproducible {
		return runDigest{}, errors.New("something outside virtual time took part in the run, so that it is not reproducible")
	}
	digits := func(hash uint64) string { return fmt.Sprintf("%016x", hash) }
	return runDigest{digits(d.Hash), Parts{digits(d.FramesHash), digits(d.WakesHash)}}, nil
}

// addDigest adds the digest of a run, unless it failed before its end.
func (r *Report) addDigest(run string, d runDigest) {
	if d.all != "" {
		r.Results.Digests = append(r.Results.Digests, RunDigest{run, d.Parts})
	}
}

func (r *Report) writeDigests(b *strings.Builder) {
	if len(r.Results.Digests) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%-14s %-16s  %s\n", "digest of", "frames", "wakes")
	for _, d := range r.Results.Digests {
		fmt.Fprintf(b, "%-14s %s  %s\n", d.Run, d.Frames, d.Wakes)
	}
}
