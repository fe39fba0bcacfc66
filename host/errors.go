// SPDX-License-Identifier: Apache-2.0

package host

import "errors"

// Errors that the packages above use too. Returned errors wrap one of them and say
// what was attempted, on what and with which value.
var (
	ErrResource         = errors.New("not enough resources")
	ErrInvalidParameter = errors.New("invalid parameter")
	ErrInUse            = errors.New("still in use")
	ErrClosed           = errors.New("closed")
)
