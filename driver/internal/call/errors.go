// SPDX-License-Identifier: Apache-2.0

package call

import (
	"errors"

	"hvia/driver/card"
	"hvia/driver/internal/connect"
	"hvia/host"
)

// Errors of the agent, besides those of card and connection protocol.
var (
	ErrTag          = errors.New("no such protection tag")
	ErrUnsupported  = errors.New("the card does not support this")
	ErrNotDone      = errors.New("not done yet")
	ErrNotReachable = errors.New("that host cannot be reached")
)

// sentinels are the errors of an agent, by their number in a reply. The order
// is part of the protocol between library and agent.
var sentinels = []error{
	nil, host.ErrResource, host.ErrInvalidParameter, host.ErrInUse, card.ErrState, ErrTag, ErrUnsupported, card.ErrIdentity, card.ErrCommand, card.ErrDeadline,
	host.ErrClosed, connect.ErrTimeout, connect.ErrNoMatch, connect.ErrRejected, connect.ErrReliability, connect.ErrTransferSize, connect.ErrCancelled, connect.ErrUnknown,
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
	return codeOf(card.ErrCommand)
}

// RemoteError is an error of the agent, or of a service, at its client.
type RemoteError struct {
	Text string
	Kind error // one of the errors of this package or of package host
}

func (e *RemoteError) Error() string { return e.Text }

func (e *RemoteError) Unwrap() error { return e.Kind }
