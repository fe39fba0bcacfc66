// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"

	"hvia/host"
)

// Quota limits what one process may use of a node's card, so that some is left
// for others. 0 means no limit but the card's.
type Quota struct {
	VIs     int
	CQs     int
	Tags    int // each NIC handle uses one too
	Regions int
}

type use struct {
	name, flag string // name of the kind, and the flag of hvia up that limits it
	limit      int
	count      int
}

func (q Quota) uses() (u uses) {
	return uses{
		vis:     use{"VIs", "--max-vis", q.VIs, 0},
		cqs:     use{"completion queues", "--max-cqs", q.CQs, 0},
		tags:    use{"protection tags", "--max-tags", q.Tags, 0},
		regions: use{"memory regions", "--max-regions", q.Regions, 0},
	}
}

type uses struct{ vis, cqs, tags, regions use }

func (u *use) check(p *process) error {
	if u.limit > 0 && u.count >= u.limit {
		return fmt.Errorf("process '%s' has %d %s, the most that one process may have (hvia up %s): %w", p.name, u.count, u.name, u.flag, host.ErrResource)
	}
	return nil
}
