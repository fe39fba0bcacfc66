// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
)

// Arguments that the simulator would misread are rejected before the request.
// This connection has no simulator.
func TestAttachRejects(t *testing.T) {
	longest := len(newRequest(layout.BridgeControlAttach).Name()) - 1
	for _, x := range []struct {
		node, rank int
		name       string
		want       string
	}{
		{-1, 0, "a", "both count from 0"},
		{0, -1, "a", "both count from 0"},
		{0, 0, strings.Repeat("x", longest+1), "a name has at most"},
	} {
		_, err := (&Conn{}).Attach(t.Context(), x.node, x.rank, x.name)
		require.ErrorContains(t, err, x.want)
	}
}
