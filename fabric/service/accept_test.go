// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"hvia/fabric/internal/hub"
	"hvia/sim/bridge"
)

type failing struct {
	*net.UnixListener
	mu   sync.Mutex
	errs []error
}

func (f *failing) AcceptUnix() (*net.UnixConn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return nil, &net.OpError{Op: "accept", Net: "unixpacket", Err: err}
	}
	return f.UnixListener.AcceptUnix()
}

func acceptor(t *testing.T, errs ...error) (s *Service, dial func() *net.UnixConn) {
	path := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unixpacket"}
	l, err := net.ListenUnix("unixpacket", path)
	require.NoError(t, err)
	s = &Service{
		log: slog.New(slog.DiscardHandler), place: &place{socket: path.Name}, listener: &failing{UnixListener: l, errs: errs},
		members: map[bridge.GuestID]*member{}, conns: map[*net.UnixConn]struct{}{}, silence: 300 * time.Millisecond, mostPending: 16,
	}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	over := make(chan struct{})
	go func() { s.accept(); close(over) }()
	t.Cleanup(func() {
		s.end(ErrDown)
		_ = l.Close()
		<-over
		s.sessions.Wait()
		require.Zero(t, s.pending)
		require.Empty(t, s.conns)
	})
	return s, func() *net.UnixConn {
		c, err := net.DialUnix("unixpacket", nil, path)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
		return c
	}
}

// asked returns the service's reply to an unknown operation.
func asked(t *testing.T, c *net.UnixConn) (r hub.Reply) {
	require.NoError(t, hub.Send(c, hub.Request{Op: "what"}))
	_, err := hub.Receive(c, &r)
	require.NoError(t, err)
	return r
}

// A lack of descriptors or memory delays connections, and ends nothing.
func TestAcceptGoesOn(t *testing.T) {
	for _, e := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ECONNABORTED} {
		t.Run(unix.ErrnoName(e.(unix.Errno)), func(t *testing.T) {
			s, dial := acceptor(t, e, e, e)
			require.Contains(t, asked(t, dial()).Error, "operation 'what'")
			require.NoError(t, s.ctx.Err())
		})
	}
	s, _ := acceptor(t, unix.EINVAL)
	<-s.ctx.Done()
	require.ErrorIs(t, context.Cause(s.ctx), unix.EINVAL)
}

// Silent connections are limited in number and time, and others are served.
func TestSilentConnections(t *testing.T) {
	s, dial := acceptor(t)
	var silent []*net.UnixConn
	for range s.mostPending {
		silent = append(silent, dial())
	}
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.pending == s.mostPending
	}, 10*time.Second, time.Millisecond)
	for range 30 {
		r := asked(t, dial())
		require.Contains(t, r.Error, fmt.Sprintf("%d connections of processes that have not joined", s.mostPending))
		require.Equal(t, "resource", r.Refusal)
	}
	for _, c := range silent {
		var r hub.Reply
		_, err := hub.Receive(c, &r)
		require.Error(t, err, "it is closed")
	}
	require.Contains(t, asked(t, dial()).Error, "operation 'what'")
}
