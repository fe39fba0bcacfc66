// SPDX-License-Identifier: Apache-2.0

package att

import (
	"fmt"
	"sort"
)

// extents allocates runs of level-2 entries: first fit over an ascending list
// of free runs, with neighbours joined. First fit keeps the far end free for
// large regions. The length of the list grows with fragmentation.
type extents struct {
	free []extent
}

type extent struct{ first, count uint32 }

func newExtents(count uint32) extents {
	return extents{free: []extent{{0, count}}}
}

// allocate takes count consecutive entries; false if no run is long enough.
func (x *extents) allocate(count uint32) (first uint32, ok bool) {
	if count == 0 {
		return 0, false
	}
	for i := range x.free {
		e := &x.free[i]
		if e.count < count {
			continue
		}
		first = e.first
		e.first += count
		e.count -= count
		if e.count == 0 {
			x.free = append(x.free[:i], x.free[i+1:]...)
		}
		return first, true
	}
	return 0, false
}

// release frees a run. A run that overlaps a free one is a bug of this package
// and panics.
func (x *extents) release(first, count uint32) {
	i := sort.Search(len(x.free), func(i int) bool { return x.free[i].first >= first })
	if i < len(x.free) && x.free[i].first-first < count || i > 0 && first-x.free[i-1].first < x.free[i-1].count {
		panic(fmt.Sprintf("att: release of %d level-2 entries at %d: some are free already", count, first))
	}
	joinsNext := i < len(x.free) && first+count == x.free[i].first
	joinsPrevious := i > 0 && x.free[i-1].first+x.free[i-1].count == first
	switch {
	case joinsPrevious && joinsNext:
		x.free[i-1].count += count + x.free[i].count
		x.free = append(x.free[:i], x.free[i+1:]...)
	case joinsPrevious:
		x.free[i-1].count += count
	case joinsNext:
		x.free[i].first = first
		x.free[i].count += count
	default:
		x.free = append(x.free, extent{})
		copy(x.free[i+1:], x.free[i:])
		x.free[i] = extent{first, count}
	}
}
