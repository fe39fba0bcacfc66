// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/conformance"
	"hvia/fabric/service"
	"hvia/host"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

// pairRounds are the round trips of a pair of processes; pairWarm precede the
// measurement.
const (
	pairWarm   = 20
	pairRounds = 500
)

// pairClient writes 4 bytes to its server and waits for 4 bytes of the server,
// in turn, and prints the wall time of the rounds in nanoseconds. A pair's name
// begins with the server's node.
func pairClient(name string) conformance.Main {
	return func(e *conformance.Env) error {
		p := must(endpoint.Open(e.T, e.H, endpoint.Config{Bytes: 4096}))
		node := must(strconv.Atoi(name[:strings.IndexByte(name, '/')]))
		to := vipl.At(node, name)
		check(p.Dial(e.T, to, 20*host.Second))
		var began time.Time
		for i := range pairWarm + pairRounds {
			if i == pairWarm {
				fmt.Println("started")
				began = time.Now()
			}
			value := byte(i%255 + 1)
			p.Bytes()[3] = value
			conformance.Step(p.Write(e.T, 0, 4, 1024, 10*host.Second), "round %d", i)
			conformance.Step(p.Poll(e.T, 2048+3, value, 10*host.Second), "answer %d", i)
		}
		fmt.Println("took", time.Since(began).Nanoseconds())
		return p.Close(e.T)
	}
}

func pairServer(name string) conformance.Main {
	return func(e *conformance.Env) error {
		p := must(endpoint.Open(e.T, e.H, endpoint.Config{Bytes: 4096}))
		check(p.Accept(e.T, name, 20*host.Second))
		for i := range pairWarm + pairRounds {
			value := byte(i%255 + 1)
			conformance.Step(p.Poll(e.T, 1024+3, value, 10*host.Second), "question %d", i)
			p.Bytes()[3] = value
			conformance.Step(p.Write(e.T, 0, 4, 2048, 10*host.Second), "round %d", i)
		}
		return p.Close(e.T)
	}
}

// Sixteen processes on four nodes, each connected to its partner, run at once.
func TestSixteenProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	fabricPlace(t)
	s := startService(t, service.Config{Nodes: 4})
	var all []*process
	for i := range 8 {
		node := 2 + i%2
		name := fmt.Sprintf("%d/%d", node, i)
		all = append(all,
			startProcess(t, job{Node: node, Name: "server " + name, Program: "server of pair " + name}),
			startProcess(t, job{Node: i / 2 % 2, Name: "client " + name, Program: "client of pair " + name}))
	}
	for _, p := range all {
		require.NoError(t, p.ends(t, 3*time.Minute))
	}
	requireEmpty(t, s, 2*time.Second)
}

// In free mode, the wall time of a round trip of 4 bytes between two processes
// is little more than the simulator's own work for it: the bridge delays
// nobody. The limit is on wall time, and holds only if nothing else runs.
func TestRoundTripInFreeMode(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	fabricPlace(t)
	s := startService(t, service.Config{})
	work := func() time.Duration { return processorTime(t, s.Fabric().Pid()) }
	server := startProcess(t, job{Node: 1, Name: "server", Program: "server of pair 1/x"})
	client := startProcess(t, job{Node: 0, Name: "client", Program: "client of pair 1/x"})
	before := work()
	require.NoError(t, client.ends(t, 3*time.Minute))
	after := work()
	require.NoError(t, server.ends(t, time.Minute))
	_, text, ok := strings.Cut(client.out.String(), "took ")
	require.True(t, ok, "%s", &client.out)
	ns, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	require.NoError(t, err)
	round := time.Duration(ns) / pairRounds
	own := (after - before) / (pairWarm + pairRounds) // includes connecting, which is little
	ratio := float64(round) / float64(own)
	t.Logf("round trip %v, of which the simulator works %v: %.2f times", round, own, ratio)
	if os.Getenv("HVIA_LONG") == "1" {
		require.Less(t, ratio, 1.5)
	}
}

func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
}
