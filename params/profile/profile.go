// SPDX-License-Identifier: Apache-2.0

// Package profile renders the generated sources of a profile. The checkout
// holds those of the base profile.
package profile

import (
	"hvia/params"
	"hvia/params/internal/render"
)

// The files that differ between profiles, relative to the module's root.
const (
	SVFile  = render.SVFile
	CppFile = render.CppFile
)

// Files returns SVFile and CppFile of a profile.
func Files(name string) (map[string][]byte, error) {
	s, err := params.ForProfile(name)
	if err != nil {
		return nil, err
	}
	return render.Board(s, s.Table()), nil
}
