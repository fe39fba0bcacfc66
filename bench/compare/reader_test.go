// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/rig"
	"hvia/host"
)

// script is a channel that returns scripted messages, nil for an empty wait.
type script struct {
	channel
	bring    [][]byte
	returned int
}

func (s *script) receive(*host.Thread, rig.Pattern, int, host.Time) ([]byte, error) {
	if len(s.bring) == 0 {
		return nil, errors.New("asked for more")
	}
	b := s.bring[0]
	s.bring = s.bring[1:]
	return b, nil
}

func (s *script) replenish(*host.Thread) error { s.returned++; return nil }

func TestReader(t *testing.T) {
	message := func(k int) (rig.Pattern, int) { return rig.Pattern{Seed: 7, Sender: 0, Round: k}, 5 + k%2 }
	bytesOf := func(k int) []byte {
		p, n := message(k)
		b := make([]byte, n)
		p.Fill(b)
		return b
	}
	wrong := bytesOf(1)
	wrong[2] ^= 1
	for name, c := range map[string]struct {
		bring    [][]byte
		want     []int
		lost     int
		fault    string
		reliable bool
		err      string
	}{
		"all":          {bring: [][]byte{bytesOf(0), bytesOf(1), bytesOf(2)}, want: []int{0, 1, 2}},
		"one missing":  {bring: [][]byte{bytesOf(0), bytesOf(2)}, want: []int{0, 2}, lost: 1},
		"one given up": {bring: [][]byte{nil, bytesOf(1), bytesOf(2)}, want: []int{-1, 1, 2}, lost: 1},
		"one late":     {bring: [][]byte{nil, bytesOf(0), bytesOf(1), bytesOf(2)}, want: []int{-1, 1, 2}, lost: 1},
		"the last":     {bring: [][]byte{bytesOf(0), bytesOf(1), nil}, want: []int{0, 1, -1}, lost: 1},
		"a wrong byte": {bring: [][]byte{bytesOf(0), wrong, bytesOf(2)}, want: []int{0, 1, 2}, fault: "message 1: byte 2 of 6 is 0x"},
		"too short":    {bring: [][]byte{bytesOf(0)[:3], bytesOf(1), bytesOf(2)}, want: []int{0, 1, 2}, fault: "message 0: 3 bytes, want 5"},
		"reliable":     {bring: [][]byte{bytesOf(0), nil}, want: []int{0}, reliable: true, err: "message 1, of 6 bytes, did not come within 200 ms"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{bring: c.bring}
			x := &comparison{protocol: protocol{loses: !c.reliable}}
			r := x.reader(s, patience, 3, message)
			var got []int
			for r.next < r.total {
				k, err := r.take(nil)
				if c.err != "" && err != nil {
					require.ErrorContains(t, err, c.err)
					break
				}
				require.NoError(t, err)
				got = append(got, k)
			}
			require.Equal(t, c.want, got)
			require.Equal(t, c.lost, r.lost)
			require.Contains(t, r.fault, c.fault)
			require.Equal(t, c.fault == "", r.fault == "")
			require.Empty(t, s.bring)
		})
	}
}
