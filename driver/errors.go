// SPDX-License-Identifier: Apache-2.0

package driver

import "errors"

// Errors of this package. Returned errors wrap one of them and say what was
// attempted, on what and with which value.
var (
	ErrResource         = errors.New("not enough resources")
	ErrInvalidParameter = errors.New("invalid parameter")
	ErrInUse            = errors.New("still in use")
	ErrIdentity         = errors.New("this is not a card that the driver knows")
	ErrCommand          = errors.New("the card refused a command")
	ErrDeadline         = errors.New("the card did not answer in time")
	ErrClosed           = errors.New("closed")
)
