// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hvia/host"
)

// digest hashes a trace: every frame, its time, its sender, its fate.
func (f *world) digest() (d [sha256.Size]byte) {
	h := sha256.New()
	for _, r := range f.trace {
		var b [18]byte
		binary.BigEndian.PutUint64(b[:], uint64(r.at))
		binary.BigEndian.PutUint64(b[8:], uint64(r.from))
		if r.lost {
			b[16] = 1
		}
		h.Write(b[:])
		h.Write(r.frame)
	}
	h.Sum(d[:0])
	return d
}

// crowd is work with many races: connections in both directions by several
// threads, loss, a listener that closes during handshakes, resets.
func crowd(t *testing.T, seed uint64) (rules, []program) {
	r := gigabit()
	r.config = func(int) Config { return Config{Seed: seed, SendBuffer: 32 << 10, ReceiveBuffer: 64 << 10} }
	lose := newRandom(seed, 0, 4)
	r.lose = func(int, int, []byte) bool { return lose.Int63()%200 == 0 }
	var all []program
	for i := range 3 {
		on := uint16(200 + i)
		data := pattern(seed+uint64(i), 40_000)
		from, to := i%2, 1-i%2
		all = append(all,
			program{to, func(th *host.Thread, s *Stack) error {
				l, err := s.Listen(th, on)
				if err != nil {
					return err
				}
				c, err := l.Accept(th, host.Never)
				if err != nil {
					return err
				}
				_, err = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
				return errors.Join(err, c.Close(), l.Close(th))
			}},
			program{from, func(th *host.Thread, s *Stack) error {
				if err := th.Sleep(host.Microsecond); err != nil {
					return err
				}
				c, err := s.Dial(th, netip.AddrPortFrom(Address(to), on), host.Never)
				if err != nil {
					return err
				}
				for part := data; len(part) > 0; {
					n, err := c.Write(part[:min(len(part), 5000)])
					if err != nil {
						return err
					}
					got := make([]byte, n)
					if _, err := io.ReadFull(c, got); err != nil {
						return err
					}
					assert.True(t, bytes.Equal(part[:n], got))
					part = part[n:]
				}
				return c.Close()
			}},
			program{from, func(th *host.Thread, s *Stack) error {
				if err := th.Sleep(100 * host.Microsecond); err != nil {
					return err
				}
				for range 4 { // these are never accepted, and soon the listener is closed
					c, err := s.Dial(th, netip.AddrPortFrom(Address(to), 300), 20*host.Millisecond)
					if err == nil {
						_, _ = c.Write([]byte("hello"))
						_ = c.Close()
					}
				}
				return nil
			}})
	}
	for node := range 2 {
		all = append(all, program{node, func(th *host.Thread, s *Stack) error {
			l, err := s.Listen(th, 300)
			if err != nil {
				return err
			}
			// The backlog has unfinished handshakes at this instant.
			return errors.Join(th.Sleep(310*host.Microsecond), l.Close(th))
		}})
	}
	return r, all
}

func busy(n int) (stop func()) {
	var over atomic.Bool
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for x := uint64(1); !over.Load(); x = x*6364136223846793005 + 1 {
				if x%1000 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	return func() { over.Store(true); all.Wait() }
}

// All frames of a run and their times are the same for any number of processors
// and any other load. TestSeedMatters shows that the digest detects a
// difference.
func TestRunsRepeat(t *testing.T) {
	runs := 20
	if os.Getenv("HVIA_LONG") == "1" {
		runs = 100
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var first [sha256.Size]byte
	for i := range runs {
		runtime.GOMAXPROCS(1 + i%4)
		stop := busy(i % 3)
		r, all := crowd(t, 1)
		f, err := play(t, r, all...)
		stop()
		require.NoError(t, err, "run %d", i)
		if i == 0 {
			first = f.digest()
			c := f.read(t)
			t.Logf("%d frames, %d retransmitted, %v", len(f.trace), c.again, f.now)
			require.NotZero(t, c.again)
			require.Contains(t, c.flags, "0RA")
		}
		require.Equal(t, first, f.digest(), "run %d of %d has another trace", i, runs)
	}
}

const child = "HVIA_TCPIP_DIGEST"

// The same in another process: nothing depends on addresses or on map order.
func TestAnotherProcessRepeats(t *testing.T) {
	r, all := crowd(t, 2)
	f, err := play(t, r, all...)
	require.NoError(t, err)
	digest := fmt.Sprintf("digest %x", f.digest())
	if os.Getenv(child) != "" {
		fmt.Println(digest)
		return
	}
	for range 3 {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAnotherProcessRepeats$", "-test.count=1")
		c.Env = append(os.Environ(), child+"=1")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), digest)
	}
}

func TestSeedMatters(t *testing.T) {
	var digests [2][sha256.Size]byte
	for i := range digests {
		r := gigabit()
		r.config = func(int) Config { return Config{Seed: uint64(i + 1)} }
		f, err := play(t, r, transfer(t, nil, nil)...)
		require.NoError(t, err)
		digests[i] = f.digest()
	}
	assert.NotEqual(t, digests[0], digests[1])
}
