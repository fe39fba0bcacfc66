// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/costs"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
)

// compareOnFakes runs the programs of a pattern on fake cards, where frames can
// be lost.
func compareOnFakes(t *testing.T, c Config, lose func(from int, frame []byte) bool) (*comparison, error) {
	t.Helper()
	require.NoError(t, c.Validate())
	p, err := protocolOf(c.Protocols[0])
	require.NoError(t, err)
	b, err := costs.New(c.Profile, nil)
	require.NoError(t, err)
	x := newComparison(c, p, b)
	x.meet = meetByMessages
	f, err := drivertest.New(c.nodes(), x.parties+c.nodes())
	require.NoError(t, err)
	t.Cleanup(f.Close)
	f.Lose = lose
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return x, fabric.RunOn(ctx, f, fabric.RunConfig{Costs: b.Costs(), Seed: c.Seed}, x.programs()...)
}

// meetByMessages is a barrier for the fakes, which have none: the receiver's
// thread collects a message of each of the others and replies to them.
func meetByMessages(t *host.Thread, _ uint64, parties int) error {
	middle := host.ThreadID{Node: 1, Rank: 1}
	if t.ID() != middle {
		if err := t.Send(middle, nil); err != nil {
			return err
		}
		_, _, err := t.Receive(host.Never)
		return err
	}
	var others []host.ThreadID
	for range parties - 1 {
		m, _, err := t.Receive(host.Never)
		if err != nil {
			return err
		}
		others = append(others, m.From)
	}
	for _, id := range others {
		if err := t.Send(id, nil); err != nil {
			return err
		}
	}
	return nil
}

// A lost message is counted, nothing waits for it forever, and the messages
// after it are right. The same holds for a message that loses a frame, and for
// one in the other direction. A missing RDMA write is only known not to have
// come.
func TestCompareLosses(t *testing.T) {
	configs := map[string]Config{"n-to-1 of 4 nodes": manyNodes(smallCompare(t, PatternManyToOne), 4)}
	for _, pattern := range Patterns() {
		configs[pattern] = smallCompare(t, pattern)
	}
	for name, c := range configs {
		for _, protocol := range []string{"rdma", "send"} {
			for _, node := range []int{0, 1} {
				t.Run(fmt.Sprintf("%s %s from node %d", name, protocol, node), func(t *testing.T) {
					c := c
					c.Protocols, c.Warmup, c.Messages = []string{protocol}, 0, 40
					if len(c.Sizes) > 0 {
						c.Sizes = []int{3000, 16}
					}
					frames, lost := 0, 0
					x, err := compareOnFakes(t, c, func(from int, frame []byte) bool {
						if from != node || layout.EthernetHeader(frame).EtherType() != layout.EtherTypeVia {
							return false
						}
						frames++
						if frames == 6 || frames == 9 {
							lost++
							return true
						}
						return false
					})
					if protocol == "rdma" {
						require.ErrorContains(t, err, "did not come within")
						return
					}
					require.NoError(t, err)
					require.Equal(t, 2, lost, "%d frames", frames)
					counted := 0
					for _, s := range x.stages {
						for _, n := range s.notes {
							require.True(t, n.complete)
							require.Empty(t, n.fault)
							counted += n.lost
						}
					}
					if c.oneWay() && node == 1 {
						require.Zero(t, counted, "a grant is no message")
						return
					}
					// A message that lost its end is noticed when the next one
					// comes, which may then find no receive.
					require.True(t, 1 <= counted && counted <= 2*lost, "%d messages, %d frames", counted, lost)
				})
			}
		}
	}
}
