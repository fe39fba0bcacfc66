// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"hvia/driver/card"
	"hvia/driver/internal/call"
	"hvia/driver/internal/connect"
)

// Errors of this package. Returned errors wrap one of them and name the
// operation, its object and the value.
var (
	ErrState    = card.ErrState
	ErrIdentity = card.ErrIdentity
	ErrCommand  = card.ErrCommand
	ErrDeadline = card.ErrDeadline

	ErrTag          = call.ErrTag
	ErrUnsupported  = call.ErrUnsupported
	ErrNotDone      = call.ErrNotDone
	ErrNotReachable = call.ErrNotReachable
	ErrTimeout      = connect.ErrTimeout
	ErrNoMatch      = connect.ErrNoMatch
	ErrRejected     = connect.ErrRejected
	ErrReliability  = connect.ErrReliability
	ErrTransferSize = connect.ErrTransferSize
	ErrCancelled    = connect.ErrCancelled
	ErrNoRequest    = connect.ErrUnknown
)
