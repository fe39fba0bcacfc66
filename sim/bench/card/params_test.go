// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/params"
	"hvia/sim"
)

// The models around the card take replaced parameters: with one clock more before
// the first data of each read, or a longer cable, the same work ends later.
func TestReplacedParametersReachTheModels(t *testing.T) {
	takesSeconds(t)
	const seed, think = 20041104, 10 * driver.Microsecond
	plain := runEcho(t, seed, 1, think, sim.Config{})
	for _, name := range []string{"BridgeReadInitialClocks", "MacReactClocks", "CableDelay"} {
		v, err := params.Lookup(params.Base, name)
		require.NoError(t, err)
		add := int64(1)
		if name == "CableDelay" {
			add = 1_000_000
		}
		slow := runEcho(t, seed, 1, think, sim.Config{Params: map[string]int64{name: v + add}})
		require.Greater(t, slow.Time, plain.Time, name)
		require.Equal(t, plain.Frames, slow.Frames, name)
	}
}
