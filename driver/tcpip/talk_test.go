// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
)

const port = 7

func there(node int) netip.AddrPort { return netip.AddrPortFrom(Address(node), port) }

func pattern(seed uint64, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b)
	return b
}

// transfer is a client that sends data and a server that answers with other
// data, both to the end of the stream.
func transfer(t *testing.T, data, answer []byte) []program {
	return []program{
		{0, func(th *host.Thread, s *Stack) error {
			c, err := s.Dial(th, there(1), host.Never)
			if err != nil {
				return err
			}
			if _, err := c.Write(data); err != nil {
				return err
			}
			if err := c.CloseWrite(); err != nil {
				return err
			}
			got, err := io.ReadAll(c)
			if err != nil {
				return err
			}
			require.True(t, bytes.Equal(answer, got), "%d of %d bytes of the answer", len(got), len(answer))
			return c.Close()
		}},
		{1, func(th *host.Thread, s *Stack) error {
			l, err := s.Listen(th, port)
			if err != nil {
				return err
			}
			c, err := l.Accept(th, host.Never)
			if err != nil {
				return err
			}
			got, err := io.ReadAll(c)
			if err != nil {
				return err
			}
			require.True(t, bytes.Equal(data, got), "%d of %d bytes of the data", len(got), len(data))
			if _, err := c.Write(answer); err != nil {
				return err
			}
			if err := c.Close(); err != nil {
				return err
			}
			return l.Close(th)
		}},
	}
}

func TestTransfer(t *testing.T) {
	for _, n := range []int{0, 1, 1448, 1449, 64 << 10, 1 << 20} {
		f, err := play(t, gigabit(), transfer(t, pattern(1, n), pattern(2, n/2+1))...)
		require.NoError(t, err)
		t.Logf("%d bytes: %d frames in %v", n, len(f.trace), f.now)
	}
}
