// SPDX-License-Identifier: Apache-2.0

package house

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// tooLong lists the exceptions to the limits of length, with reasons. The lists
// only shrink: the test fails if a name no longer needs its exception.
var tooLong = map[string]struct{ reason, names string }{
	"Go file": {"", ""},
	"Go function": {"to be split into steps or a table", `
`},
	"module": {"cut when its per-VI bits move into RAM", `
		gec rx_engine send_ledger tx_engine`},
}

var counted = sync.OnceValues(func() (Figures, error) { return Count("../..") })

func count(t *testing.T) Figures {
	t.Helper()
	f, err := counted()
	require.NoError(t, err)
	return f
}

func TestNothingIsTooLong(t *testing.T) {
	f := count(t)
	for kind, e := range tooLong {
		allowed := strings.Fields(e.names)
		for name, lines := range f.Long[kind] {
			require.Contains(t, allowed, name, "a %s of %d lines: split it", kind, lines)
		}
		for _, name := range allowed {
			require.Contains(t, f.Long[kind], name, "%s is short enough: take it off the list", name)
		}
		require.True(t, slices.IsSorted(allowed), kind)
	}
}

// exportedLimit is the most exported functions, methods and types of a package.
const exportedLimit = 60

// manyNames are the packages with another limit: the public API, and packages
// that must still shrink to exportedLimit.
var manyNames = map[string]int{"vipl": 100, "driver": 90}

func TestPackagesExportFew(t *testing.T) {
	f := count(t)
	for name, n := range f.Exported {
		limit, ok := manyNames[name]
		if !ok {
			limit = exportedLimit
		}
		require.LessOrEqual(t, n, limit, "package %s exports %d functions, methods and types", name, n)
	}
}
