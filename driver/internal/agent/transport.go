// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"math/bits"

	"hvia/driver/internal/connect"
	"hvia/host"
)

// NoRetries is the RetryLimit at which the first timeout breaks a connection.
const NoRetries = -1

// Transport configures a host's card at the reliable levels. The zero value of
// a field takes the default, which package params holds.
type Transport struct {
	// Window is the number of unacknowledged frames of a connection in flight,
	// 4 to 255: TransportWindow. Two hosts agree on the smaller of theirs.
	Window int
	// ReadLimit is the number of outstanding RDMA reads of a connection, 1 to
	// 4: 4. Two hosts agree on the smaller of theirs.
	ReadLimit int
	// RetryTimeout is the time without progress after which the card
	// retransmits. It is rounded up to a power of two of the card's clocks,
	// from 2^8 to 2^31: 2^TransportRetryTimeoutLog2.
	RetryTimeout host.Time
	// RetryLimit is the number of consecutive timeouts without a frame from the
	// peer that a connection survives, at most 255: TransportRetryLimit. If the
	// peer responds but there is no progress, it survives RetryAliveFactor
	// times as many. NoRetries means 0.
	RetryLimit int
}

const (
	minTimeoutLog2 = 8
	maxTimeoutLog2 = 31
	// lingerTimeouts is the number of retry timeouts that an agent delays a
	// Disconnect, so that the card's NAK arrives before it even if the first
	// copy was lost.
	lingerTimeouts = 4
	// Free mode uses wall time, in which the simulated fabric is far slower.
	freeLinger = 64
)

type transport struct {
	offer       connect.Offer
	retryLimit  uint8
	timeoutLog2 uint8
	linger      host.Time
}

func (c Transport) settle(value func(name string) (int64, error)) (t transport, err error) {
	var figures [6]int64
	for i, name := range []string{"AcknowledgeEvery", "LedgerResponses", "SystemClockPeriod", "TransportWindow", "TransportRetryLimit", "TransportRetryTimeoutLog2"} {
		if figures[i], err = value(name); err != nil {
			return t, fmt.Errorf("driver: transport: %w", err)
		}
	}
	// With a smaller window the sender would wait for acknowledgements that are
	// not due.
	minWindow, maxReadLimit, clock := int(figures[0]), int(figures[1]), host.Time(figures[2])
	for _, f := range []struct {
		name              string
		value, byDefault  int
		least, most, zero int
		to                *uint8
	}{
		{"Window", c.Window, int(figures[3]), minWindow, 255, 0, &t.offer.Window},
		{"ReadLimit", c.ReadLimit, maxReadLimit, 1, maxReadLimit, 0, &t.offer.ReadLimit},
		{"RetryLimit", c.RetryLimit, int(figures[4]), 1, 255, NoRetries, &t.retryLimit},
	} {
		switch v := f.value; {
		case v == 0:
			*f.to = uint8(f.byDefault)
		case v == f.zero:
			*f.to = 0
		case v < f.least || v > f.most:
			return t, fmt.Errorf("driver: transport: %s is %d: want %d to %d, or 0 for the default of %d: %w", f.name, v, f.least, f.most, f.byDefault, host.ErrInvalidParameter)
		default:
			*f.to = uint8(v)
		}
	}
	if c.RetryTimeout == 0 {
		c.RetryTimeout = clock << figures[5]
	}
	if c.RetryTimeout < 0 || c.RetryTimeout > clock<<maxTimeoutLog2 {
		return t, fmt.Errorf("driver: transport: RetryTimeout is %v, the card's clock %v: want up to 2^%d clocks: %w", c.RetryTimeout, clock, maxTimeoutLog2, host.ErrInvalidParameter)
	}
	clocks := (c.RetryTimeout + clock - 1) / clock
	t.timeoutLog2 = uint8(max(bits.Len64(uint64(clocks-1)), minTimeoutLog2))
	t.linger = lingerTimeouts * (clock << t.timeoutLog2)
	return t, nil
}
