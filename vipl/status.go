// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"errors"
	"fmt"
	"strings"

	"hvia/driver"
	"hvia/layout"
)

// Status is VIP_RETURN.
type Status int

// Values of Status, as in vipl.h.
const (
	StatusSuccess                 Status = 0
	StatusNotDone                 Status = 1
	StatusInvalidParameter        Status = 2
	StatusErrorResource           Status = 3
	StatusTimeout                 Status = 4
	StatusReject                  Status = 5
	StatusInvalidReliabilityLevel Status = 6
	StatusInvalidMTU              Status = 7
	StatusInvalidQOS              Status = 8
	StatusInvalidPtag             Status = 9
	StatusInvalidRDMARead         Status = 10
	StatusDescriptorError         Status = 11
	StatusInvalidState            Status = 12
	StatusErrorNameService        Status = 13
	StatusNoMatch                 Status = 14
	StatusNotReachable            Status = 15
	StatusErrorNotSupported       Status = 16
)

// One sentinel for each status that is not success. Test with errors.Is.
var (
	ErrNotDone                 = errors.New("not done")
	ErrInvalidParameter        = errors.New("invalid parameter")
	ErrResource                = errors.New("resource error")
	ErrTimeout                 = errors.New("timeout")
	ErrReject                  = errors.New("rejected")
	ErrInvalidReliabilityLevel = errors.New("invalid reliability level")
	ErrInvalidMTU              = errors.New("invalid MTU")
	ErrInvalidQOS              = errors.New("invalid quality of service")
	ErrInvalidPtag             = errors.New("invalid protection tag")
	ErrInvalidRDMARead         = errors.New("RDMA read is not offered")
	ErrDescriptor              = errors.New("descriptor error")
	ErrInvalidState            = errors.New("invalid state")
	ErrNameService             = errors.New("name service error")
	ErrNoMatch                 = errors.New("no match")
	ErrNotReachable            = errors.New("not reachable")
	ErrNotSupported            = errors.New("not supported")
)

// ErrOverrun is wrapped, beside ErrResource, when a work queue is full.
var ErrOverrun = errors.New("VI overrun")

var statuses = [...]struct {
	name string
	err  error
}{
	StatusSuccess: {"VIP_SUCCESS", nil}, StatusNotDone: {"VIP_NOT_DONE", ErrNotDone}, StatusInvalidParameter: {"VIP_INVALID_PARAMETER", ErrInvalidParameter},
	StatusErrorResource: {"VIP_ERROR_RESOURCE", ErrResource}, StatusTimeout: {"VIP_TIMEOUT", ErrTimeout}, StatusReject: {"VIP_REJECT", ErrReject},
	StatusInvalidReliabilityLevel: {"VIP_INVALID_RELIABILITY_LEVEL", ErrInvalidReliabilityLevel}, StatusInvalidMTU: {"VIP_INVALID_MTU", ErrInvalidMTU},
	StatusInvalidQOS: {"VIP_INVALID_QOS", ErrInvalidQOS}, StatusInvalidPtag: {"VIP_INVALID_PTAG", ErrInvalidPtag},
	StatusInvalidRDMARead: {"VIP_INVALID_RDMAREAD", ErrInvalidRDMARead}, StatusDescriptorError: {"VIP_DESCRIPTOR_ERROR", ErrDescriptor},
	StatusInvalidState: {"VIP_INVALID_STATE", ErrInvalidState}, StatusErrorNameService: {"VIP_ERROR_NAMESERVICE", ErrNameService},
	StatusNoMatch: {"VIP_NO_MATCH", ErrNoMatch}, StatusNotReachable: {"VIP_NOT_REACHABLE", ErrNotReachable}, StatusErrorNotSupported: {"VIP_ERROR_NOT_SUPPORTED", ErrNotSupported},
}

// String returns the name in vipl.h.
func (s Status) String() string {
	if s >= 0 && int(s) < len(statuses) {
		return statuses[s].name
	}
	return fmt.Sprintf("VIP_RETURN(%d)", int(s))
}

// Err returns the sentinel of a status, nil for success.
func (s Status) Err() error {
	if s >= 0 && int(s) < len(statuses) {
		return statuses[s].err
	}
	return ErrResource
}

// Error is what functions of this package return. errors.Is finds the
// sentinel of its status, and below it what the layers underneath said.
type Error struct {
	Op         string // what was attempted
	VI         int    // index of the VI, -1 = none
	Descriptor int64  // number of the descriptor in its queue, from 0; -1 = none
	Status     Status
	Bits       DescriptorStatus // of a descriptor that completed with an error
	Detail     error            // what exactly; may be nil
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("vipl: " + e.Op)
	if e.VI >= 0 {
		fmt.Fprintf(&b, ": VI %d", e.VI)
		if e.Descriptor >= 0 {
			fmt.Fprintf(&b, ", descriptor %d", e.Descriptor)
		}
	}
	if e.Detail != nil {
		b.WriteString(": " + strings.TrimPrefix(e.Detail.Error(), "driver: "))
	}
	if sentinel := e.Status.Err(); sentinel != nil {
		b.WriteString(": " + sentinel.Error())
	}
	return b.String()
}

// Is says whether the target is the status's sentinel. Unwrap says it too, but
// allocates, and a loop that looks at a queue asks it each time.
func (e *Error) Is(target error) bool { return target != nil && target == e.Status.Err() }

// Unwrap gives the status's sentinel and the detail.
func (e *Error) Unwrap() []error {
	if e.Detail == nil {
		return []error{e.Status.Err()}
	}
	return []error{e.Status.Err(), e.Detail}
}

// StatusOf returns the status that an error carries. Errors that say that the
// run has ended carry none.
func StatusOf(err error) (Status, bool) {
	if err == nil {
		return StatusSuccess, true
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Status, true
	}
	return 0, false
}

// DescriptorStatus is the Status word of a completed descriptor.
type DescriptorStatus uint32

var descriptorBits = []struct {
	mask DescriptorStatus
	text string
}{
	{layout.DescriptorStatusFormatErrorMask, "malformed descriptor"},
	{layout.DescriptorStatusProtectionErrorMask, "local protection error (address, handle or tag)"},
	{layout.DescriptorStatusLengthErrorMask, "local length error"},
	{layout.DescriptorStatusPartialErrorMask, "message cut off"},
	{layout.DescriptorStatusFlushedMask, "flushed"},
	{layout.DescriptorStatusTransportErrorMask, "transport error"},
	{layout.DescriptorStatusRDMAProtectionErrorMask, "remote protection error"},
	{layout.DescriptorStatusRemoteDescriptorErrorMask, "remote descriptor error"},
}

// DescriptorErrorMask covers the error bits, VIP_STATUS_ERROR_MASK.
const DescriptorErrorMask DescriptorStatus = layout.DescriptorStatusFormatErrorMask | layout.DescriptorStatusProtectionErrorMask |
	layout.DescriptorStatusLengthErrorMask | layout.DescriptorStatusPartialErrorMask | layout.DescriptorStatusFlushedMask |
	layout.DescriptorStatusTransportErrorMask | layout.DescriptorStatusRDMAProtectionErrorMask | layout.DescriptorStatusRemoteDescriptorErrorMask

// Done says whether processing has finished.
func (s DescriptorStatus) Done() bool { return s&layout.DescriptorStatusDoneMask != 0 }

// Failed says whether an error bit is set.
func (s DescriptorStatus) Failed() bool { return s&DescriptorErrorMask != 0 }

// Flushed says whether the descriptor was discarded unprocessed.
func (s DescriptorStatus) Flushed() bool { return s&layout.DescriptorStatusFlushedMask != 0 }

// Partial says whether a message was cut off: frames of it did not come.
func (s DescriptorStatus) Partial() bool { return s&layout.DescriptorStatusPartialErrorMask != 0 }

// Operation is what was completed: on the receive queue Receive, or
// RemoteRDMAWrite for an RDMA write with immediate data.
func (s DescriptorStatus) Operation() layout.StatusOperation {
	return layout.StatusOperation(s & layout.DescriptorStatusOperationMask >> layout.DescriptorStatusOperationLsb)
}

// Immediate says whether immediate data came with the message.
func (s DescriptorStatus) Immediate() bool { return s&layout.DescriptorStatusImmediateMask != 0 }

// String says in words what the word holds.
func (s DescriptorStatus) String() string {
	var words []string
	for _, b := range descriptorBits {
		if s&b.mask != 0 {
			words = append(words, b.text)
		}
	}
	switch {
	case len(words) > 0:
		return strings.Join(words, ", ")
	case s.Done():
		return "done"
	}
	return "not done"
}

// missing is the error of a call without a handle or pointer that it needs.
func missing(op, what string) error {
	return &Error{Op: op, VI: -1, Descriptor: -1, Status: StatusInvalidParameter, Detail: fmt.Errorf("no %s was given", what)}
}

// translate maps an error of the driver to a status. What ends the whole run
// has no status and passes unchanged.
func translate(op string, vi int, err error) error {
	if err == nil {
		return nil
	}
	for _, m := range []struct {
		kind   error
		status Status
	}{
		{driver.ErrResource, StatusErrorResource}, {driver.ErrInUse, StatusErrorResource}, {driver.ErrTag, StatusInvalidPtag},
		{driver.ErrState, StatusInvalidState}, {driver.ErrUnsupported, StatusInvalidRDMARead}, {driver.ErrTimeout, StatusTimeout},
		{driver.ErrNotDone, StatusNotDone}, {driver.ErrNoMatch, StatusNoMatch}, {driver.ErrNotReachable, StatusNotReachable}, {driver.ErrRejected, StatusReject}, {driver.ErrReliability, StatusInvalidReliabilityLevel},
		{driver.ErrTransferSize, StatusInvalidMTU}, {driver.ErrCancelled, StatusErrorResource}, {driver.ErrNoRequest, StatusInvalidParameter},
		{driver.ErrCommand, StatusErrorResource}, {driver.ErrInvalidParameter, StatusInvalidParameter},
	} {
		if errors.Is(err, m.kind) {
			return &Error{Op: op, VI: vi, Descriptor: -1, Status: m.status, Detail: err}
		}
	}
	return fmt.Errorf("vipl: %s: %w", op, err)
}
