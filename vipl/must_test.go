// SPDX-License-Identifier: Apache-2.0

package vipl_test

import "hvia/conformance"

var check = conformance.Check

func must[T any](v T, err error) T {
	check(err)
	return v
}
