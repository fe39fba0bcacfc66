// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"fmt"

	"hvia/conformance"
)

// The helpers of package conformance for programs whose steps must succeed.

func check(err error) { conformance.Check(err) }

func step(err error, format string, args ...any) {
	if err != nil {
		check(fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err))
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func must2[T, U any](v T, w U, err error) (T, U) {
	check(err)
	return v, w
}
