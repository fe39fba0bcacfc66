// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"hvia/bench/internal/benchtest"
)

func TestMain(m *testing.M) {
	os.Exit(benchtest.Main(m, map[string]func() int{PeerVerb: servePeer}))
}

func servePeer() int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	job, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = ServePeer(ctx, job)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
