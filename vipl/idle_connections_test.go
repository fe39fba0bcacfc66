// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/conformance/conformtest"
	"hvia/fabric"
	"hvia/fabric/service"
	"hvia/sim"
)

// The service survives 400 idle connections with at most 100 open files: its
// processes stay and another can join.
func TestServiceSurvivesIdleConnections(t *testing.T) {
	conformtest.NeedsSimulator(t)
	fabricPlace(t)
	program, err := os.Executable()
	require.NoError(t, err)
	_, err = sim.Build{}.Program(t.Context()) // a compiler needs more open files
	require.NoError(t, err)
	p := startCommand(t, exec.Command("sh", "-c", "ulimit -n 100; exec "+program),
		job{Serve: &service.Config{Name: "lab", Nodes: 1, Fabric: sim.Config{MemoryBytes: 128 << 20}}})
	join := fabric.JoinConfig{Fabric: "lab", Name: "visitor"}
	var first, second *fabric.Process
	require.Eventually(t, func() bool {
		first, err = fabric.Join(t.Context(), join)
		return !errors.Is(err, fabric.ErrNoFabric) || len(p.done) > 0
	}, time.Minute, 50*time.Millisecond)
	require.Empty(t, p.done, "%s", &p.err)
	require.NoError(t, err)
	for range 400 {
		c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "hvia", "lab", "service.sock"), Net: "unixpacket"})
		require.NoError(t, err)
		defer c.Close()
	}
	require.Eventually(t, func() bool {
		second, err = fabric.Join(t.Context(), join)
		return err == nil
	}, time.Minute, 50*time.Millisecond, "%v", err)
	for _, v := range []*fabric.Process{first, second} {
		th, err := v.Thread(t.Context(), "main")
		require.NoError(t, err)
		_, err = v.Host().OpenNIC(th)
		require.NoError(t, err)
		require.NoError(t, v.Close())
	}
	require.NoError(t, service.Down(t.Context(), "lab"))
	require.NoError(t, p.ends(t, time.Minute))
}
