// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"

	"hvia/bench/report"
	"hvia/sim"
)

// RunDigest is the digest of a finished run.
type RunDigest struct {
	All string // hash over frames, wakes and what differs from the usual configuration
	report.Parts
}

// DigestOf is the digest of a finished run. It rejects a run in which something
// outside virtual time took part.
func DigestOf(ctx context.Context, f *sim.Fabric) (RunDigest, error) {
	d, err := f.Digest(ctx)
	if err != nil {
		return RunDigest{}, err
	}
	if !d.Reproducible {
		return RunDigest{}, errors.New("something outside virtual time took part in the run, so that it is not reproducible")
	}
	digits := func(hash uint64) string { return fmt.Sprintf("%016x", hash) }
	return RunDigest{digits(d.Hash), report.Parts{Frames: digits(d.FramesHash), Wakes: digits(d.WakesHash)}}, nil
}
