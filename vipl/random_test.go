// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/layout"
)

// fakeCards runs a list of operations on fake cards.
func fakeCards(ctx context.Context, seed uint64, r *randomRun, lose func(int, []byte) bool) error {
	f, err := drivertest.New(randomNodes, 2*randomNodes)
	if err != nil {
		return err
	}
	defer f.Close()
	f.Lose = lose
	return driver.RunOn(ctx, f, driver.RunConfig{Seed: seed}, programs(r.mains()...)...)
}

// runner carries a run out.
type runner func(ctx context.Context, r *randomRun) error

// shortest looks for the shortest list that fails, knowing that the run of all
// of them failed.
func shortest(ctx context.Context, ops []operation, judged int, run runner) (n int, err error) {
	low, high := judged, judged // the first so many are right, the first so many are not
	for high < len(ops) && (high == judged || ops[high-1].kind != opSettle) {
		high++
	}
	for {
		r := newRandomRun(ops[:high], lies{})
		if err = run(ctx, r); err != nil {
			break
		}
		if high == len(ops) {
			return high, errors.New("the failure did not come again")
		}
		high = len(ops) // it needs what comes later
	}
	for high-low > 1 {
		middle := (low + high) / 2
		if e := run(ctx, newRandomRun(ops[:middle], lies{})); e != nil {
			high, err = middle, e
		} else {
			low = middle
		}
	}
	return high, err
}

// randomOperations runs operations of a seed and reports the shortest prefix
// that fails.
func randomOperations(t *testing.T, seed uint64, n int, limit time.Duration, run runner) {
	t.Helper()
	ops, err := generate(seed, n)
	require.NoError(t, err, "the generator, seed %d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	start := time.Now()
	r := newRandomRun(ops, lies{})
	if err := run(ctx, r); err != nil {
		judged := r.judged
		t.Logf("%v\nlooking for the shortest list that fails; %d operations were right", err, judged)
		at, short := shortest(ctx, ops, judged, run)
		text := ""
		for i := max(0, at-8); i < at; i++ {
			text += fmt.Sprintf("\n  %d: %v", i, ops[i])
		}
		t.Fatalf("replay with HVIA_SEED=%d: the first %d operations of %d fail: %v\nthe last ones:%s", seed, at, n, short, text)
	}
	t.Logf("%d operations with %d posts, wall %v", n, r.posts, time.Since(start).Round(time.Millisecond))
}

// long chooses between the size of a normal run and that of a long one.
func long(normal, long int) int {
	if os.Getenv("HVIA_LONG") != "" {
		return long
	}
	return normal
}

// Random operations on fake cards: that the library, the agents and the fake
// cards do what VIA says.
func TestRandomOperationsOnFakeCards(t *testing.T) {
	n := long(20_000, 200_000)
	if testing.Short() {
		n = 2000
	}
	s := seed(t)
	randomOperations(t, s, n, 10*time.Minute, func(ctx context.Context, r *randomRun) error {
		return fakeCards(ctx, s, r, nil)
	})
}

// isVia says whether a frame belongs to a connection.
func isVia(frame []byte) bool {
	return layout.EthernetHeader(frame).EtherType() == layout.EtherTypeVia
}
