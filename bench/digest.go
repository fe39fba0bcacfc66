// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"

	"hvia/bench/report"
	"hvia/sim"
)

// runDigest is the digest of a run that has ended.
type runDigest struct {
	all string // hash over frames, wakes and what differs from the usual configuration
	report.Parts
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
	return runDigest{digits(d.Hash), report.Parts{Frames: digits(d.FramesHash), Wakes: digits(d.WakesHash)}}, nil
}

// addDigest adds the digest of a run, unless it failed before its end.
func addDigest(r *report.Report, run string, d runDigest) {
	if d.all != "" {
		r.Results.Digests = append(r.Results.Digests, report.RunDigest{Run: run, Parts: d.Parts})
	}
}
