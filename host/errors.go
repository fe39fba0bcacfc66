// SPDX-License-Identifier: Apache-2.0

package host

import "errors"

// Common errors, also of the packages above. Returned errors wrap one of them
// and name the operation, its object and the value.
var (
	ErrResource         = errors.New("not enough resources")
	ErrInvalidParameter = errors.New("invalid parameter")
	ErrInUse            = errors.New("still in use")
	ErrClosed           = errors.New("closed")
)
