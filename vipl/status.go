// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"errors"
	"fmt"
	"strings"

	"hvia/driver"
	"hvia/host"
	"hvia/layout"
)

// Status is VIP_RETURN. errors.Is and errors.As find it in the errors of this
// package.
type Status int

// Values of Status, as in vipl.h.
const (
	Success                    Status = 0
	ErrNotDone                 Status = 1
	ErrInvalidParameter        Status = 2
	ErrResource                Status = 3
	ErrTimeout                 Status = 4
	ErrReject                  Status = 5
	ErrInvalidReliabilityLevel Status = 6
	ErrInvalidMTU              Status = 7
	ErrInvalidQOS              Status = 8
	ErrInvalidPtag             Status = 9
	ErrInvalidRDMARead         Status = 10
	ErrDescriptor              Status = 11
	ErrInvalidState            Status = 12
	ErrNameService             Status = 13
	ErrNoMatch                 Status = 14
	ErrNotReachable            Status = 15
	ErrNotSupported            Status = 16
)

// ErrOverrun is wrapped, beside ErrResource, when a work queue is full.
var ErrOverrun = errors.New("VI overrun")

var statuses = [...]struct{ name, text string }{
	Success:                    {"VIP_SUCCESS", "success"},
	ErrNotDone:                 {"VIP_NOT_DONE", "not done"},
	ErrInvalidParameter:        {"VIP_INVALID_PARAMETER", "invalid parameter"},
	ErrResource:                {"VIP_ERROR_RESOURCE", "resource error"},
	ErrTimeout:                 {"VIP_TIMEOUT", "timeout"},
	ErrReject:                  {"VIP_REJECT", "rejected"},
	ErrInvalidReliabilityLevel: {"VIP_INVALID_RELIABILITY_LEVEL", "invalid reliability level"},
	ErrInvalidMTU:              {"VIP_INVALID_MTU", "invalid MTU"},
	ErrInvalidQOS:              {"VIP_INVALID_QOS", "invalid quality of service"},
	ErrInvalidPtag:             {"VIP_INVALID_PTAG", "invalid protection tag"},
	ErrInvalidRDMARead:         {"VIP_INVALID_RDMAREAD", "RDMA read is not offered"},
	ErrDescriptor:              {"VIP_DESCRIPTOR_ERROR", "descriptor error"},
	ErrInvalidState:            {"VIP_INVALID_STATE", "invalid state"},
	ErrNameService:             {"VIP_ERROR_NAMESERVICE", "name service error"},
	ErrNoMatch:                 {"VIP_NO_MATCH", "no match"},
	ErrNotReachable:            {"VIP_NOT_REACHABLE", "not reachable"},
	ErrNotSupported:            {"VIP_ERROR_NOT_SUPPORTED", "not supported"},
}

// String returns the name in vipl.h.
func (s Status) String() string {
	if s >= 0 && int(s) < len(statuses) {
		return statuses[s].name
	}
	return fmt.Sprintf("VIP_RETURN(%d)", int(s))
}

// Error describes the status in words.
func (s Status) Error() string {
	if s >= 0 && int(s) < len(statuses) {
		return statuses[s].text
	}
	return s.String()
}

// Error is the error of this package: a Status, and what it is about.
type Error struct {
	Op         string // what was attempted
	VI         *VI    // nil = about no VI
	Descriptor *Descriptor
	Number     uint64 // index of the descriptor, if there is one, in its queue, from 0
	Status     Status
	Bits       DescriptorStatus // status of a descriptor that completed with an error
	Detail     error            // cause; may be nil
}

// fail returns an error about no VI.
func fail(op string, s Status, detail error) error {
	return &Error{Op: op, Status: s, Detail: detail}
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("vipl: " + e.Op)
	if e.VI != nil {
		fmt.Fprintf(&b, ": VI %d", e.VI.Index())
	}
	if e.Descriptor != nil {
		fmt.Fprintf(&b, ", descriptor %d", e.Number)
	}
	if e.Detail != nil {
		b.WriteString(": " + strings.TrimPrefix(e.Detail.Error(), "driver: "))
	}
	return b.String() + ": " + e.Status.Error()
}

// Is compares the target with the status. Unwrap would do, but it allocates,
// and a polling loop calls Is each time.
func (e *Error) Is(target error) bool { return target == e.Status }

// Unwrap returns the status and the cause.
func (e *Error) Unwrap() []error {
	if e.Detail == nil {
		return []error{e.Status}
	}
	return []error{e.Status, e.Detail}
}

// DescriptorStatus is the Status word of a completed descriptor.
type DescriptorStatus uint32

// Bits of a DescriptorStatus: all but DescriptorDone are errors.
const (
	DescriptorDone        DescriptorStatus = layout.DescriptorStatusDoneMask
	FormatError           DescriptorStatus = layout.DescriptorStatusFormatErrorMask
	ProtectionError       DescriptorStatus = layout.DescriptorStatusProtectionErrorMask
	LengthError           DescriptorStatus = layout.DescriptorStatusLengthErrorMask
	PartialError          DescriptorStatus = layout.DescriptorStatusPartialErrorMask
	Flushed               DescriptorStatus = layout.DescriptorStatusFlushedMask
	TransportError        DescriptorStatus = layout.DescriptorStatusTransportErrorMask
	RDMAProtectionError   DescriptorStatus = layout.DescriptorStatusRDMAProtectionErrorMask
	RemoteDescriptorError DescriptorStatus = layout.DescriptorStatusRemoteDescriptorErrorMask

	// DescriptorErrorMask is VIP_STATUS_ERROR_MASK: all errors.
	DescriptorErrorMask DescriptorStatus = layout.DescriptorErrorMask
)

var descriptorBits = []struct {
	mask DescriptorStatus
	text string
}{
	{FormatError, "malformed descriptor"},
	{ProtectionError, "local protection error (address, handle or tag)"},
	{LengthError, "local length error"},
	{PartialError, "message cut off"},
	{Flushed, "flushed"},
	{TransportError, "transport error"},
	{RDMAProtectionError, "remote protection error"},
	{RemoteDescriptorError, "remote descriptor error"},
}

// String describes the status in words.
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
	case s&DescriptorDone != 0:
		return "done"
	}
	return "not done"
}

// missing is the error of a call that lacks a handle or pointer.
func missing(op, what string) error {
	return fail(op, ErrInvalidParameter, fmt.Errorf("no %s was given", what))
}

// translate maps an error of the driver to a status. An error that ends the run
// has none and passes unchanged.
func translate(op string, v *VI, err error) error {
	if err == nil {
		return nil
	}
	if own := (*Error)(nil); errors.As(err, &own) {
		return err
	}
	for _, m := range []struct {
		kind   error
		status Status
	}{
		{host.ErrResource, ErrResource}, {host.ErrInUse, ErrResource}, {driver.ErrTag, ErrInvalidPtag},
		{driver.ErrState, ErrInvalidState}, {driver.ErrUnsupported, ErrInvalidRDMARead}, {driver.ErrTimeout, ErrTimeout},
		{driver.ErrNotDone, ErrNotDone}, {driver.ErrNoMatch, ErrNoMatch}, {driver.ErrNotReachable, ErrNotReachable}, {driver.ErrRejected, ErrReject}, {driver.ErrReliability, ErrInvalidReliabilityLevel},
		{driver.ErrTransferSize, ErrInvalidMTU}, {driver.ErrCancelled, ErrResource}, {driver.ErrNoRequest, ErrInvalidParameter},
		{driver.ErrCommand, ErrResource}, {host.ErrInvalidParameter, ErrInvalidParameter},
	} {
		if errors.Is(err, m.kind) {
			return &Error{Op: op, VI: v, Status: m.status, Detail: err}
		}
	}
	return fmt.Errorf("vipl: %s: %w", op, err)
}
