// SPDX-License-Identifier: Apache-2.0

package service

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A status in several packets has the names as they were given.
func TestCutBetweenCharacters(t *testing.T) {
	const text = "aé漢🖧b"
	for n, want := range map[int]string{1: "a", 2: "a", 3: "aé", 5: "aé", 6: "aé漢", 9: "aé漢", 10: "aé漢🖧"} {
		require.Equal(t, want, text[:cut([]byte(text), n)], n)
	}
}
