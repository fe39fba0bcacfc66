// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"

	"hvia/host"
)

// Quota limits what one process may have of a node's card, so that it leaves some to
// others. 0 stands for no limit but the card's.
type Quota struct {
	VIs     int
	CQs     int
	Tags    int // one for each NIC handle, too
	Regions int
}

// use counts what a process has.
type use struct {
	name, flag string // of what, and of the flag of hvia up that limits it
	limit      int
	count      int
}

// uses are the counts of a process that may have as much as a quota says.
func (q Quota) uses() (u uses) {
	return uses{
		vis:     use{"VIs", "--max-vis", q.VIs, 0},
		cqs:     use{"completion queues", "--max-cqs", q.CQs, 0},
		tags:    use{"protection tags", "--max-tags", q.Tags, 0},
		regions: use{"memory regions", "--max-regions", q.Regions, 0},
	}
}

type uses struct{ vis, cqs, tags, regions use }

// check rejects one more than the process may have.
func (u *use) check(p *process) error {
	if u.limit > 0 && u.count >= u.limit {
		return fmt.Errorf("process '%s' has %d %s, the most that one process may have (hvia up %s): %w", p.name, u.count, u.name, u.flag, host.ErrResource)
	}
	return nil
}
