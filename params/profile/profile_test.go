// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/params"
	"hvia/params/profile"
)

// The committed files are the base profile's; each other profile has different
// values and hashes in both.
func TestFiles(t *testing.T) {
	base, err := profile.Files(params.Base)
	require.NoError(t, err)
	for name, body := range base {
		committed, err := os.ReadFile(filepath.Join("..", "..", name))
		require.NoError(t, err)
		require.Equal(t, string(committed), string(body), name)
	}
	seen := map[uint64]string{}
	for _, p := range params.Profiles {
		s, err := params.ForProfile(p.Name)
		require.NoError(t, err)
		require.NotContains(t, seen, s.Hash)
		seen[s.Hash] = p.Name
		files, err := profile.Files(p.Name)
		require.NoError(t, err)
		sv, cpp := string(files[profile.SVFile]), string(files[profile.CppFile])
		require.Contains(t, sv, fmt.Sprintf("64'h%x", s.Hash))
		require.Contains(t, cpp, fmt.Sprintf("0x%xull", s.Hash))
		require.Contains(t, cpp, fmt.Sprintf("{%q, ", p.Name))
		bits, err := s.Lookup("SystemBusBits")
		require.NoError(t, err)
		require.Contains(t, sv, fmt.Sprintf("SystemBusBits = %d;", bits))
	}
	require.Equal(t, params.Base, seen[params.Hash])
	_, err = profile.Files("no-such-board")
	require.ErrorContains(t, err, `no profile "no-such-board"`)
}
