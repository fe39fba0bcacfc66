// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func play(t *testing.T, args ...string) string {
	t.Helper()
	o, err := parse(args, os.Stderr)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, o))
	return out.String()
}

var byReads = regexp.MustCompile(`(?m)^client \d: \d+ puts of [\d.]+ us; \d+ gets of [\d.]+ us by \d+ reads, (\d+) of them during a store$`)

// On the card the server replies to no get. A second run prints the same bytes.
func TestOnTheCard(t *testing.T) {
	got := play(t, "-clients", "3")
	require.Len(t, byReads.FindAllString(got, -1), 3, "%s", got)
	require.Contains(t, got, "server: 44 puts stored, 0 gets answered\n") // 3 clients with 8 keys, 20 rounds
	require.Equal(t, got, play(t, "-clients", "3"))
}

// M-VIA has no RDMA read: the server replies to every get.
func TestOnMvia(t *testing.T) {
	got := play(t, "-device", "mvia")
	require.NotContains(t, got, "reads")
	require.Regexp(t, `server: 36 puts stored, [1-9]\d* gets answered\n`, got)
	require.Equal(t, got, play(t, "-device", "mvia"))
}

// Reads meet long stores. A client that checks the checksum repeats the read
// and gets no half value. A client that ignores it gets some, so the race
// exists.
func TestNoHalfValue(t *testing.T) {
	meet := func(trusting bool) (repeated, halves int) {
		s, programs := newStore(options{
			device: driver.DeviceHvia, clients: 3, buckets: 16, keys: 1, rounds: 40, pause: 50 * host.Microsecond, trusting: trusting,
		})
		require.NoError(t, fabric.Run(t.Context(), fabric.RunConfig{}, programs...))
		for _, c := range s.readers {
			repeated, halves = repeated+c.repeated, halves+c.halves
		}
		return repeated, halves
	}
	repeated, halves := meet(false)
	require.Greater(t, repeated, 20)
	require.Zero(t, halves)
	repeated, halves = meet(true)
	require.Zero(t, repeated)
	require.Greater(t, halves, 20)
}

// The programs run on fake cards and fake plain NICs, without a simulator. They
// leave nothing behind.
func TestOnFakes(t *testing.T) {
	for _, d := range []driver.Device{driver.DeviceHvia, driver.DeviceMvia} {
		t.Run(string(d), func(t *testing.T) {
			require.NoError(t, fake(t, options{device: d, clients: 3, buckets: 64, keys: 8, rounds: 20}))
		})
	}
}

func fake(t *testing.T, o options) error {
	t.Helper()
	f, err := drivertest.NewOf(o.device, o.clients+1, 2*(o.clients+1))
	require.NoError(t, err)
	t.Cleanup(f.Close)
	_, programs := newStore(o)
	err = fabric.RunOn(context.Background(), f, fabric.RunConfig{Device: o.device}, programs...)
	if err == nil {
		for i := range o.clients + 1 {
			require.Zero(t, f.Node(i).InUse(), "node %d", i)
		}
	}
	return err
}

func TestFullTable(t *testing.T) {
	err := fake(t, options{device: driver.DeviceHvia, clients: 2, buckets: 4, keys: 3, rounds: 1})
	require.ErrorContains(t, err, "the table of 4 buckets is full")
}

// A bucket of two stores, cut anywhere, is not complete; neither is one with a
// wrong bit.
func TestComplete(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		draw := func(name string, version uint64) (entry, []byte) {
			e := entry{
				key: rapid.StringN(1, -1, maxKey).Draw(r, name+" key"), value: rapid.StringN(0, -1, maxValue).Draw(r, name+" value"), version: version,
			}
			b, err := e.seal()
			require.NoError(r, err)
			require.True(r, complete(b))
			require.Equal(r, e, unseal(b))
			return e, b
		}
		_, old := draw("old", rapid.Uint64Range(0, 9).Draw(r, "version"))
		if old[versionAt] == 0 {
			old = make([]byte, bucketBytes) // empty before
		}
		_, young := draw("new", 10)
		for cut := range bucketBytes + 1 {
			mixed := append(append([]byte(nil), young[:cut]...), old[cut:]...)
			if !bytes.Equal(mixed, old) && !bytes.Equal(mixed, young) {
				require.False(r, complete(mixed), "cut at %d", cut)
			}
		}
		bit := rapid.IntRange(0, 8*bucketBytes-1).Draw(r, "bit")
		young[bit/8] ^= 1 << (bit % 8)
		require.False(r, complete(young))
	})
	for _, e := range []entry{{}, {key: strings.Repeat("k", maxKey+1)}, {key: "k", value: strings.Repeat("v", maxValue+1)}} {
		_, err := e.seal()
		require.ErrorContains(t, err, "a key of")
	}
}

func TestParseRejects(t *testing.T) {
	for _, args := range [][]string{
		{"x"}, {"-device", "tcp"}, {"-clients", "1"}, {"-clients", "16"}, {"-keys", "0"}, {"-rounds", "0"}, {"-pause", "-1"}, {"-buckets", "17"}, {"-buckets", "5000"}, {"-none"},
	} {
		var stderr bytes.Buffer
		_, err := parse(args, &stderr)
		require.Error(t, err, "%v", args)
		require.NotEmpty(t, stderr.String(), "%v", args)
	}
	_, err := parse([]string{"-buckets", "18"}, io.Discard)
	require.NoError(t, err)
}
