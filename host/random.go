// SPDX-License-Identifier: Apache-2.0

package host

import "math/bits"

// SplitMix is the generator SplitMix64, written out so that a library upgrade
// cannot change a run.
type SplitMix uint64

// Next returns the next number of the sequence.
func (s *SplitMix) Next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below returns a number from 0 to n-1.
func (s *SplitMix) Below(n int) int {
	hi, _ := bits.Mul64(s.Next(), uint64(n))
	return int(hi)
}
