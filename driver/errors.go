// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"

	"hvia/driver/card"
	"hvia/driver/internal/connect"
	"hvia/host"
)

// Errors of this package. Returned errors wrap one of them and name the
// operation, its object and the value.
var (
	ErrTag          = errors.New("no such protection tag")
	ErrUnsupported  = errors.New("the card does not support this")
	ErrNotDone      = errors.New("not done yet")
	ErrNotReachable = errors.New("that host cannot be reached")

	ErrState    = card.ErrState
	ErrIdentity = card.ErrIdentity
	ErrCommand  = card.ErrCommand
	ErrDeadline = card.ErrDeadline

	ErrTimeout      = connect.ErrTimeout
	ErrNoMatch      = connect.ErrNoMatch
	ErrRejected     = connect.ErrRejected
	ErrReliability  = connect.ErrReliability
	ErrTransferSize = connect.ErrTransferSize
	ErrCancelled    = connect.ErrCancelled
	ErrNoRequest    = connect.ErrUnknown
)

// sentinels are the errors of an agent, by their number in a reply. The order
// is part of the protocol between library and agent.
var sentinels = []error{
	nil, host.ErrResource, host.ErrInvalidParameter, host.ErrInUse, ErrState, ErrTag, ErrUnsupported, ErrIdentity, ErrCommand, ErrDeadline,
	host.ErrClosed, ErrTimeout, ErrNoMatch, ErrRejected, ErrReliability, ErrTransferSize, ErrCancelled, ErrNoRequest,
	ErrNotDone, ErrNotReachable,
}

// codeOf returns the number of the first sentinel that err wraps; other errors
// count as ErrCommand.
func codeOf(err error) uint16 {
	if err == nil {
		return 0
	}
	for i, s := range sentinels[1:] {
		if errors.Is(err, s) {
			return uint16(i + 1)
		}
	}
	return codeOf(ErrCommand)
}

// RemoteError is an error of the agent, or of a service, at its client.
type RemoteError struct {
	Text string
	Kind error // one of the errors of this package or of package host
}

func (e *RemoteError) Error() string { return e.Text }
func (e *RemoteError) Unwrap() error { return e.Kind }
