// SPDX-License-Identifier: Apache-2.0

package simspeed

import (
	"os"
	"testing"

	"hvia/bench/internal/benchtest"
)

func TestMain(m *testing.M) { os.Exit(benchtest.Main(m, nil)) }
