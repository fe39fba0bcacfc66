// SPDX-License-Identifier: Apache-2.0

package benchtest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChildProcesses(t *testing.T) {
	stop := StartSpinners(t, 1)
	children, err := childProcesses(os.Getpid())
	require.NoError(t, err)
	require.Len(t, children, 1)
	stop()
	children, err = childProcesses(os.Getpid())
	require.NoError(t, err)
	require.Empty(t, children)
}

func TestMain(m *testing.M) { os.Exit(Main(m, nil)) }
