// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"

	"hvia/layout"
)

// Why a connection or a call ended; test with errors.Is. A StopError carries
// one of the first group.
var (
	ErrClosed        = errors.New("fabric is closed")
	ErrDeadlock      = errors.New("deadlock in virtual time")
	ErrStuck         = errors.New("a thread neither acts nor waits")
	ErrPeerDied      = errors.New("a peer process died")
	ErrMemoryFault   = errors.New("card accessed host memory outside the frames in use")
	ErrProtocol      = errors.New("bridge protocol violated")
	ErrStartTimeout  = errors.New("not all declared threads attached")
	ErrDevice        = errors.New("card model fault")
	ErrSimulatorDied = errors.New("simulator died")

	// These end one process, not the run.
	ErrViolation  = errors.New("process tried what it may not do")
	ErrGuestEnded = errors.New("the owner of the fabric ended the process")

	// ErrForked: the process was forked from the one that joined.
	ErrForked = errors.New("process was forked from the one that joined")

	ErrVersion      = errors.New("program and simulator do not match")
	ErrRejected     = errors.New("simulator rejected the request")
	ErrAborted      = errors.New("call aborted by its context")
	ErrNoSimulator  = errors.New("no simulator serves this path")
	ErrUnresponsive = errors.New("simulator does not respond")
)

var stopErrors = map[layout.BridgeStop]error{
	layout.BridgeStopClosed:       ErrClosed,
	layout.BridgeStopDeadlock:     ErrDeadlock,
	layout.BridgeStopStuck:        ErrStuck,
	layout.BridgeStopPeerDied:     ErrPeerDied,
	layout.BridgeStopMemoryFault:  ErrMemoryFault,
	layout.BridgeStopProtocol:     ErrProtocol,
	layout.BridgeStopStartTimeout: ErrStartTimeout,
	layout.BridgeStopDevice:       ErrDevice,
}

var endErrors = map[layout.BridgeGuestEnd]error{
	layout.BridgeGuestEndViolation: ErrViolation,
	layout.BridgeGuestEndStuck:     ErrStuck,
	layout.BridgeGuestEndOwner:     ErrGuestEnded,
}

// StopError reports the end of a run, its cause and its simulated time. Every
// waiting or later call of every process returns it. If only one guest ended
// (ErrViolation, ErrGuestEnded, ErrStuck), the calls of its process return it.
type StopError struct {
	Kind error  // one of the sentinels of this package
	Time Time   // simulated time of the end
	Text string // one sentence: the cause and its origin
}

func (e *StopError) Error() string { return fmt.Sprintf("bridge: %v: %s", e.Kind, e.Text) }

// Unwrap returns the sentinel.
func (e *StopError) Unwrap() error { return e.Kind }
