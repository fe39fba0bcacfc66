// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Time is an instant of simulated time or a span of it, in picoseconds. The
// cards boot before instant 0; threads start at 0.
type Time int64

// Units of simulated time.
const (
	Picosecond  Time = 1
	Nanosecond       = 1000 * Picosecond
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond

	// Never is later than every instant. As a timeout it means none.
	Never Time = math.MaxInt64
)

// String returns the exact time in the largest unit that does not exceed it.
func (t Time) String() string {
	if t == Never {
		return "never"
	}
	for _, u := range []struct {
		unit Time
		name string
	}{{Second, "s"}, {Millisecond, "ms"}, {Microsecond, "us"}, {Nanosecond, "ns"}} {
		if t < u.unit && t > -u.unit {
			continue
		}
		digits := len(strconv.FormatInt(int64(u.unit), 10)) - 1
		whole, part := int64(t/u.unit), int64(t%u.unit)
		if part < 0 {
			part = -part
		}
		text := strconv.FormatInt(whole, 10)
		if part != 0 {
			p := strconv.FormatInt(part, 10)
			text += "." + strings.TrimRight(strings.Repeat("0", digits-len(p))+p, "0")
		}
		return text + " " + u.name
	}
	return strconv.FormatInt(int64(t), 10) + " ps"
}

// Wall returns the same span in wall time, for free mode.
func (t Time) Wall() time.Duration { return time.Duration((t + Nanosecond - 1) / Nanosecond) }
