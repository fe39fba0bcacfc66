// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"gvisor.dev/gvisor/pkg/tcpip"
)

// ErrFreeMode is Open's error in free mode.
var ErrFreeMode = errors.New("TCP/IP needs a fabric in timed mode")

func asError(call string, e tcpip.Error) error {
	number := syscall.EIO
	switch e.(type) {
	case nil:
		return nil
	case *tcpip.ErrClosedForReceive:
		return io.EOF
	case *tcpip.ErrInvalidEndpointState:
		return net.ErrClosed
	case *tcpip.ErrWouldBlock:
		return os.ErrDeadlineExceeded
	case *tcpip.ErrConnectionRefused:
		number = syscall.ECONNREFUSED
	case *tcpip.ErrConnectionReset:
		number = syscall.ECONNRESET
	case *tcpip.ErrConnectionAborted, *tcpip.ErrAborted:
		number = syscall.ECONNABORTED
	case *tcpip.ErrTimeout:
		number = syscall.ETIMEDOUT
	case *tcpip.ErrClosedForSend:
		number = syscall.EPIPE
	case *tcpip.ErrHostUnreachable:
		number = syscall.EHOSTUNREACH
	case *tcpip.ErrHostDown:
		number = syscall.EHOSTDOWN
	case *tcpip.ErrNetworkUnreachable:
		number = syscall.ENETUNREACH
	case *tcpip.ErrNotConnected:
		number = syscall.ENOTCONN
	case *tcpip.ErrPortInUse:
		number = syscall.EADDRINUSE
	case *tcpip.ErrNoPortAvailable, *tcpip.ErrBadLocalAddress:
		number = syscall.EADDRNOTAVAIL
	case *tcpip.ErrNoBufferSpace:
		number = syscall.ENOBUFS
	default:
		return os.NewSyscallError(call, errors.New(e.String()))
	}
	return os.NewSyscallError(call, number)
}
