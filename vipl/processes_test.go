// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"hvia/conformance"
	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/fabric"
	"hvia/fabric/service"
	"hvia/host"
	"hvia/layout"
	"hvia/sim"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

// processVariable holds the job of this test program when it joins a fabric as
// a process instead of testing.
const processVariable = "HVIA_TEST_PROCESS"

func TestMain(m *testing.M) {
	if job := os.Getenv(processVariable); job != "" {
		if err := doJob(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

type job struct {
	Fabric, Name, Program string
	Node                  int
	Serve                 *service.Config // be the service instead
}

func doJob(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	ctx := context.Background()
	if j.Serve != nil {
		s, err := service.Start(ctx, *j.Serve)
		if err != nil {
			return err
		}
		fmt.Println("serving", s.Fabric().Pid())
		return s.Wait()
	}
	p, err := fabric.Join(ctx, fabric.JoinConfig{Fabric: j.Fabric, Node: j.Node, Name: j.Name, Group: "test"})
	if err != nil {
		return err
	}
	t, err := p.Thread(ctx, "main")
	if err != nil {
		return err
	}
	program, ok := processPrograms()[j.Program]
	if side, name, paired := strings.Cut(j.Program, " of pair "); paired {
		program, ok = pairClient(name), true
		if side == "server" {
			program = pairServer(name)
		}
	}
	if !ok {
		return fmt.Errorf("no program '%s'", j.Program)
	}
	err = conformance.Programs(program)[0].Main(t, p.Host())
	return errors.Join(err, p.Close())
}

func processPrograms() map[string]conformance.Main {
	all := map[string]conformance.Main{
		"times/client": timesClient, "times/server": timesServer, "busy/client": busyClient, "busy/server": busyServer, "idle": idleProgram, "hostile": hostileProgram, "fast/client": fastTraced, "fast/server": fastServer,
	}
	for _, s := range conformance.Scenarios {
		mains := conformance.MainsOf(s)
		all[s.Name+"/client"], all[s.Name+"/server"] = mains[0], mains[1]
	}
	return all
}

type process struct {
	*exec.Cmd
	out, err bytes.Buffer
	done     chan error
}

func startProcess(t *testing.T, j job) *process {
	t.Helper()
	return startCommand(t, exec.Command("/proc/self/exe"), j)
}

// startTraced records the system calls of the process.
func startTraced(t *testing.T, record string, j job) *process {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	return startCommand(t, exec.Command("strace", "-f", "-o", record, program), j)
}

func startCommand(t *testing.T, c *exec.Cmd, j job) *process {
	t.Helper()
	b, err := json.Marshal(j)
	require.NoError(t, err)
	p := &process{Cmd: c, done: make(chan error, 1)}
	p.Env = append(os.Environ(), processVariable+"="+string(b))
	p.Stdout, p.Stderr = &p.out, &p.err
	require.NoError(t, p.Start())
	go func() { p.done <- p.Wait() }()
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

func (p *process) ends(t *testing.T, limit time.Duration) error {
	t.Helper()
	select {
	case err := <-p.done:
		if err != nil {
			return fmt.Errorf("%w: %s", err, &p.err)
		}
		return nil
	case <-time.After(limit):
		require.Fail(t, "a process does not end", "after %v: %s", limit, &p.err)
		return nil
	}
}

// fabricPlace gives the fabrics of a test a separate directory.
func fabricPlace(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hvia-test-") // short enough for a socket's path
	require.NoError(t, err)
	t.Cleanup(func() {
		left, _ := filepath.Glob(dir + "/hvia/*")
		require.Empty(t, left, "a service leaves nothing")
		require.NoError(t, os.RemoveAll(dir))
	})
	t.Setenv("XDG_RUNTIME_DIR", dir)
}

func startService(t *testing.T, c service.Config) *service.Service {
	t.Helper()
	if testing.Verbose() && c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s, err := service.Start(ctx, c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func leftovers(s service.Status) (left []string) {
	for _, n := range s.Nodes {
		for _, p := range n.Processes {
			left = append(left, fmt.Sprintf("%+v", p))
		}
		for _, v := range n.VIs {
			left = append(left, fmt.Sprintf("%+v", v))
		}
	}
	return left
}

func requireEmpty(t *testing.T, s *service.Service, limit time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool { return len(leftovers(s.Status())) == 0 }, limit, 10*time.Millisecond, "%v", leftovers(s.Status()))
}

var participants = []service.Participant{{Node: 0, Name: "client"}, {Node: 1, Name: "server"}}

// cardLimits let a process use all of the card, as the scenarios try to.
var cardLimits = driver.Quota{VIs: 1 << 10, CQs: 1 << 10, Tags: 1 << 20, Regions: 1 << 20}

// The scenarios with client and server in separate processes, on the simulated
// card, in virtual time; with -short, some of them.
func TestScenariosBetweenProcesses(t *testing.T) {
	fabricPlace(t)
	for i, sc := range conformance.Scenarios {
		if testing.Short() && i%8 != 1 {
			continue
		}
		t.Run(sc.Name, func(t *testing.T) {
			s := startService(t, service.Config{Fabric: sim.Config{Mode: sim.Timed}, Participants: participants, Quota: cardLimits})
			playBetweenProcesses(t, s, sc)
			d, err := s.Fabric().Digest(t.Context())
			require.NoError(t, err)
			require.True(t, d.Reproducible, "nothing outside of simulated time took part")
			require.NoError(t, s.Close())
		})
	}
}

// inFreeMode are scenarios whose timeouts are long enough in wall time.
var inFreeMode = []string{
	"not connected", "disconnect with work posted", "local errors", "unreachable descriptor", "memory", "VIs and tags", "left behind",
	"errors of what has ended", "completion queue", "life of completion queues", "flushed into completion queues", "no receive posted",
}

// The same in free mode.
func TestScenariosBetweenProcessesInFreeMode(t *testing.T) {
	fabricPlace(t)
	for _, sc := range conformance.Scenarios {
		if slices.Contains(inFreeMode, sc.Name) {
			t.Run(sc.Name, func(t *testing.T) {
				s := startService(t, service.Config{Quota: cardLimits})
				playBetweenProcesses(t, s, sc)
				require.NoError(t, s.Close())
			})
		}
	}
}

func playBetweenProcesses(t *testing.T, s *service.Service, sc conformance.Scenario) {
	t.Helper()
	server := startProcess(t, job{Node: 1, Name: "server", Program: sc.Name + "/server"})
	client := startProcess(t, job{Node: 0, Name: "client", Program: sc.Name + "/client"})
	require.NoError(t, errors.Join(client.ends(t, 2*time.Minute), server.ends(t, time.Minute)))
	requireEmpty(t, s, 2*time.Second)
}

// notes records the times of the programs.
type notes struct{ out io.Writer }

func (n notes) now(e *conformance.Env) { fmt.Fprintln(n.out, int64(e.T.Now())) }

const (
	outgoing, incoming = 0, 40 * 1024 // in the buffer of a peer
	exchanges          = 12
)

// swap writes to the peer and waits for its write, or the reverse.
func swap(p *conformance.Peer, i, n int, to conformance.Remote, first bool, timeout host.Time, limit func() error) error {
	value := byte(i%250 + 1)
	out, in := p.Mem.Bytes()[outgoing:outgoing+n], p.Mem.Bytes()[incoming:incoming+n]
	send := func() error {
		copy(out, bytes.Repeat([]byte{value}, n))
		must(p.Write(outgoing, n, to, incoming))
		must(p.VI.SendWait(p.T, timeout))
		return limit()
	}
	if first {
		check(send())
	}
	check(p.Mem.Poll(p.T, incoming+n-1, 1, timeout, func() bool { return in[n-1] == value }))
	if !p.T.Timed() || bytes.Equal(in, bytes.Repeat([]byte{value}, n)) {
		if err := limit(); err != nil || first {
			return err
		}
		return send()
	}
	return fmt.Errorf("exchange %d: what came is not what was sent", i)
}

// timed connects, exchanges writes, sends and receives, with completion queues,
// and notes the time of every completion.
func timed(e *conformance.Env, first bool, out notes) error {
	other := 1 - e.H.Node()
	cq := must(e.NIC.CreateCQ(e.T, 64))
	a := vipl.VIAttributes{EnableRDMAWrite: true, ReliabilityLevel: vipl.ReliableDelivery}
	connect := e.Serve
	if first {
		connect = func(a vipl.VIAttributes) (*conformance.Peer, error) { return e.Dial(other, a) }
	}
	p := must(connect(a))
	check(p.Tell(other))
	to := must(p.Hear())
	note := func() error { out.now(e); return nil }
	for i := range exchanges {
		check(swap(p, i, 1+i*i*97, to, first, host.Second, note))
	}
	a.RecvCQ = cq
	q := must(p.Another(a, 1000))
	for i := range 5 {
		d := q.Next()
		check(d.SetReceive(q.Mem.Segment(incoming, 4096)))
		check(q.VI.PostRecv(e.T, d))
		check(e.T.Barrier(uint64(i)+1, 2))
		s := q.Next()
		check(s.SetSend(q.Mem.Segment(outgoing, 700*i+1)))
		check(q.VI.PostSend(e.T, s))
		must(q.VI.SendWait(e.T, host.Second))
		out.now(e)
		got, err := cq.Wait(e.T, host.Second)
		if err != nil || got.VI != q.VI || !got.Receive {
			return fmt.Errorf("entry of VI %v, receive %v: %w", got.VI, got.Receive, err)
		}
		must(got.Done(e.T))
		out.now(e)
	}
	return p.Settled(other)
}

func timesClient(e *conformance.Env) error { return timed(e, true, notes{os.Stdout}) }

func timesServer(e *conformance.Env) error { return timed(e, false, notes{os.Stdout}) }

// A timed fabric gives separate processes the same times as one process.
func TestTimesBetweenProcesses(t *testing.T) {
	fabricPlace(t)
	var want [2]bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	require.NoError(t, fabric.Run(ctx, fabric.RunConfig{}, conformance.Programs(
		func(e *conformance.Env) error { return timed(e, true, notes{&want[0]}) }, func(e *conformance.Env) error { return timed(e, false, notes{&want[1]}) })...))
	require.Equal(t, 2*exchanges+10, strings.Count(want[0].String(), "\n"))
	for run := range 2 {
		s := startService(t, service.Config{
			Name: fmt.Sprint("run", run), Fabric: sim.Config{Mode: sim.Timed}, Participants: participants,
		})
		// The order of starting does not change simulated time.
		var all [2]*process
		for _, i := range []int{run, 1 - run} {
			name := []string{"client", "server"}[i]
			all[i] = startProcess(t, job{Fabric: s.Name(), Node: i, Name: name, Program: "times/" + name})
		}
		for i, p := range all {
			require.NoError(t, p.ends(t, 2*time.Minute))
			require.Equal(t, want[i].String(), p.out.String(), "run %d, node %d", run, i)
		}
		requireEmpty(t, s, 2*time.Second)
		d, err := s.Fabric().Digest(ctx)
		require.NoError(t, err)
		require.True(t, d.Reproducible, "nothing outside of simulated time took part")
		require.NoError(t, s.Close())
	}
}

const busyBytes = 64 * 1024

// bounce writes to the peer and waits for its write, or the reverse.
func bounce(e *conformance.Env, p *endpoint.Endpoint, i int, first bool) error {
	n, value := 1+i*150, byte(i+1)
	send := func() error {
		p.Bytes()[n-1] = value
		return p.Write(e.T, 0, n, 0, host.Second)
	}
	if first {
		if err := send(); err != nil {
			return err
		}
		return p.Poll(e.T, busyBytes-n, value, host.Second)
	}
	if err := p.Poll(e.T, n-1, value, host.Second); err != nil {
		return err
	}
	p.Bytes()[0] = value
	return p.Write(e.T, 0, 1, busyBytes-n, host.Second)
}

// busyClient connects, exchanges messages and closes, without end.
func busyClient(e *conformance.Env) error {
	for {
		p, err := endpoint.Open(e.T, e.H, endpoint.Config{Bytes: busyBytes, ReliabilityLevel: vipl.ReliableDelivery, Receives: -1})
		if err != nil {
			return err
		}
		if err := p.Dial(e.T, vipl.At(1, "busy"), host.Second); err != nil {
			return err
		}
		cq, err := p.NIC.CreateCQ(e.T, 32)
		if err != nil {
			return err
		}
		for i := range 20 {
			if err := bounce(e, p, i, true); err != nil {
				return err
			}
			if err := cq.Resize(e.T, 32<<(i%3)); err != nil {
				return err
			}
		}
		fmt.Println("round")
		if err := p.Close(e.T); err != nil {
			return err
		}
	}
}

// busyServer answers until no client comes. It prints when and how it noticed
// that one had gone.
func busyServer(e *conformance.Env) error {
	for {
		p, err := endpoint.Open(e.T, e.H, endpoint.Config{Bytes: busyBytes, ReliabilityLevel: vipl.ReliableDelivery, Receives: -1})
		if err != nil {
			return err
		}
		fmt.Println("accept", time.Now().UnixMilli())
		if err := p.Accept(e.T, "busy", 1500*host.Millisecond); errors.Is(err, vipl.ErrTimeout) {
			fmt.Println("timeout", time.Now().UnixMilli())
			return nil
		}
		for i := 0; err == nil && i < 20; i++ {
			err = bounce(e, p, i, false)
		}
		fmt.Println("after", err)
		lost, err := p.NIC.ErrorWait(e.T, host.Second)
		switch {
		case errors.Is(err, vipl.ErrTimeout):
			fmt.Println("timeout", time.Now().UnixMilli())
		case err != nil:
			return err
		default:
			fmt.Println(lost.Code, time.Now().UnixMilli())
		}
		if err := p.Close(e.T); err != nil {
			return err
		}
	}
}

func idleProgram(e *conformance.Env) error {
	must(e.Prepare(conformance.Writable))
	fmt.Println("ready")
	return errOf(e.NIC.ConnectWait(e.T, vipl.NetAddress{Host: e.NIC.Query().LocalAddress, Discriminator: "nobody"}, vipl.Infinite))
}

// A client is killed at a random moment. Its server notices, nothing of the
// client is left, and the next client finds the fabric unchanged.
func TestProcessesAreKilled(t *testing.T) {
	fabricPlace(t)
	s := startService(t, service.Config{})
	kills := 10
	if testing.Short() {
		kills = 3
	}
	// The limits are of wall time: beside other tests they may be exceeded.
	const reclaimed, reported = time.Second, 2 * time.Second
	patience := time.Duration(5)
	if os.Getenv("HVIA_LONG") == "1" {
		kills, patience = 100, 1
	}
	lost := 0
	random := rand.New(rand.NewPCG(conformtest.Seed(t), 77))
	for i := range kills {
		after := time.Duration(random.IntN(900)) * time.Millisecond
		server := startProcess(t, job{Node: 1, Name: "server", Program: "busy/server"})
		client := startProcess(t, job{Node: 0, Name: "client", Program: "busy/client"})
		if i%2 == 1 { // half of them count from a connection, the others from the start
			require.Eventually(t, func() bool {
				return slices.ContainsFunc(s.Status().Nodes[0].VIs, func(v service.VIStatus) bool { return v.Peer != "" })
			}, 20*time.Second, 2*time.Millisecond)
		}
		time.Sleep(after)
		require.NoError(t, client.Process.Signal(syscall.SIGKILL), "kill %d after %v", i, after)
		killed := time.Now()
		require.ErrorContains(t, client.ends(t, time.Second), "killed", "kill %d after %v: %s", i, after, &client.err)
		require.Eventually(t, func() bool {
			return !slices.ContainsFunc(s.Status().Nodes[0].Processes, func(p service.ProcessStatus) bool { return true }) && len(s.Status().Nodes[0].VIs) == 0
		},
			patience*reclaimed-time.Since(killed), 5*time.Millisecond, "kill %d after %v: what the client had is not taken back: %+v", i, after, s.Status().Nodes[0])
		require.NoError(t, server.ends(t, (2+2*patience)*time.Second), "kill %d after %v", i, after)
		learnt, lines := "", strings.Split(strings.TrimSpace(server.out.String()), "\n")
		for _, line := range lines {
			var how string
			var at int64
			if n, _ := fmt.Sscan(line, &how, &at); n == 2 && how != "accept" && at >= killed.UnixMilli() {
				learnt = line
				require.Less(t, at, killed.Add(patience*reported).UnixMilli(), "kill %d after %v: %s", i, after, lines)
				break
			}
		}
		require.NotEmpty(t, learnt, "kill %d after %v: %s", i, after, lines)
		if strings.HasPrefix(learnt, layout.AsyncErrorConnectionLost.String()) {
			lost++
		}
		t.Logf("killed after %v and %d rounds: server learnt '%s', killed at %d", after, strings.Count(client.out.String(), "round"), learnt, killed.UnixMilli())
		requireEmpty(t, s, patience*time.Second)
	}
	require.Positive(t, lost, "no kill met a connection")
}

// A killed service or simulator ends every process with an error that says so,
// and leaves nothing that hinders the next service.
func TestServicesAreKilled(t *testing.T) {
	for _, victim := range []string{"service", "simulator"} {
		t.Run(victim, func(t *testing.T) {
			fabricPlace(t)
			c := service.Config{Nodes: 1}
			served := startProcess(t, job{Serve: &c})
			var pid int
			require.Eventually(t, func() bool { st, err := service.StatusOf(t.Context(), ""); pid = st.SimulatorPid; return err == nil }, time.Minute, 20*time.Millisecond)
			client := startProcess(t, job{Name: "idle", Program: "idle"})
			require.Eventually(t, func() bool {
				st, err := service.StatusOf(t.Context(), "")
				return err == nil && len(st.Nodes[0].VIs) == 1 && len(st.Nodes[0].Processes) == 1
			}, 30*time.Second, 20*time.Millisecond)
			time.Sleep(100 * time.Millisecond)
			if victim == "service" {
				require.NoError(t, served.Process.Kill())
			} else {
				require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			}
			err := client.ends(t, 2*time.Second)
			require.Error(t, err)
			t.Log(err)
			require.Error(t, served.ends(t, 10*time.Second))
			require.Eventually(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }, 5*time.Second, 20*time.Millisecond, "the simulator is still there")
			s := startService(t, service.Config{Nodes: 1})
			require.Empty(t, leftovers(s.Status()))
			require.NoError(t, s.Close())
		})
	}
}

// The same at any moment of two busy processes.
func TestServicesAreKilledAtAnyMoment(t *testing.T) {
	kills, patience := 2, time.Duration(5)
	if os.Getenv("HVIA_LONG") == "1" {
		kills, patience = 100, 1
	}
	for v, victim := range []string{"service", "simulator"} {
		t.Run(victim, func(t *testing.T) {
			fabricPlace(t)
			random := rand.New(rand.NewPCG(conformtest.Seed(t), uint64(v)))
			for i := range kills {
				after := time.Duration(random.IntN(1200)) * time.Millisecond
				c := service.Config{}
				served := startProcess(t, job{Serve: &c})
				var pid int
				require.Eventually(t, func() bool { st, err := service.StatusOf(t.Context(), ""); pid = st.SimulatorPid; return err == nil }, time.Minute, 5*time.Millisecond)
				all := []*process{
					startProcess(t, job{Node: 1, Name: "server", Program: "busy/server"}), startProcess(t, job{Node: 0, Name: "client", Program: "busy/client"}),
				}
				time.Sleep(after)
				if victim == "service" {
					require.NoError(t, served.Process.Kill())
				} else {
					require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
				}
				for _, p := range all {
					err := p.ends(t, patience*2*time.Second)
					require.Error(t, err, "kill %d after %v", i, after)
					t.Logf("kill %d after %v: %.200v", i, after, err)
				}
				require.Error(t, served.ends(t, 10*time.Second))
				require.Eventually(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }, 10*time.Second, 5*time.Millisecond, "the simulator is still there")
				left, err := filepath.Glob(os.Getenv("XDG_RUNTIME_DIR") + "/hvia/*")
				require.NoError(t, err)
				require.Empty(t, left, "kill %d after %v", i, after)
			}
			s := startService(t, service.Config{})
			require.Empty(t, leftovers(s.Status()))
			require.NoError(t, s.Close())
		})
	}
}

func hostileProgram(e *conformance.Env) error {
	must(e.Prepare(conformance.Writable))
	const foreign = 77 // another process's VI, or nobody's
	check(e.T.Write(layout.PciBar1Base+foreign*layout.DoorbellPageBytes+layout.DoorbellSend, 0x1000, 0, 1))
	return errOf(e.NIC.CreatePtag(e.T))
}

// A process that rings a doorbell of another VI is terminated with an error
// that names the process and the doorbell. Its resources are reclaimed, and
// others do not notice.
func TestHostileProcess(t *testing.T) {
	fabricPlace(t)
	var log lockedBuffer
	s := startService(t, service.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	good := startProcess(t, job{Node: 0, Name: "good", Program: "idle"})
	require.Eventually(t, func() bool { return len(s.Status().Nodes[0].VIs) == 1 }, 20*time.Second, 10*time.Millisecond)
	bad := startProcess(t, job{Node: 0, Name: "villain", Program: "hostile"})
	err := bad.ends(t, 20*time.Second)
	require.ErrorContains(t, err, "villain")
	require.ErrorContains(t, err, "doorbell")
	t.Log(err)
	require.Eventually(t, func() bool { st := s.Status().Nodes[0]; return len(st.VIs) == 1 && len(st.Processes) == 1 }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, "good", s.Status().Nodes[0].Processes[0].Name)
	require.Eventually(t, func() bool {
		text := log.String()
		return strings.Contains(text, "villain") && strings.Contains(text, fmt.Sprint(bad.Process.Pid))
	}, 5*time.Second, 10*time.Millisecond, "the log names it: %s", &log)
	select {
	case err := <-good.done:
		require.Fail(t, "the other process ended", "%v", err)
	default:
	}
	require.NoError(t, good.Process.Kill())
	require.Error(t, good.ends(t, 5*time.Second))
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Configurations that the service rejects, and the errors for the process.
func TestServiceRejects(t *testing.T) {
	fabricPlace(t)
	ctx := t.Context()
	_, err := fabric.Join(ctx, fabric.JoinConfig{Fabric: "nowhere"})
	require.ErrorIs(t, err, fabric.ErrNoFabric)
	require.ErrorContains(t, err, "nowhere")
	_, err = fabric.Join(ctx, fabric.JoinConfig{Fabric: "../x"})
	require.ErrorContains(t, err, "../x")
	for _, c := range []service.Config{
		{Device: driver.DeviceMvia}, {Nodes: 99}, {Name: "a/b"}, {Fabric: sim.Config{Mode: sim.Timed}}, {Participants: []service.Participant{{Name: "x"}}},
		{Fabric: sim.Config{Mode: sim.Timed}, Participants: []service.Participant{{Name: "x"}, {Name: "x"}}}, {Fabric: sim.Config{MemoryBytes: 4096}},
	} {
		_, err := service.Start(ctx, c)
		require.Error(t, err, "%+v", c)
	}
	s := startService(t, service.Config{Nodes: 1, Fabric: sim.Config{MemoryBytes: 128 << 20}})
	_, err = service.Start(ctx, service.Config{Nodes: 1})
	require.ErrorIs(t, err, service.ErrRunning)
	require.ErrorContains(t, err, fmt.Sprint(os.Getpid()))
	for _, c := range []struct {
		join fabric.JoinConfig
		want error
		text string
	}{
		{fabric.JoinConfig{Node: 1}, host.ErrInvalidParameter, "node 1"},
		{fabric.JoinConfig{Node: -1}, host.ErrInvalidParameter, "node -1"},
		{fabric.JoinConfig{Name: strings.Repeat("x", 101)}, host.ErrInvalidParameter, "101 bytes"},
		{fabric.JoinConfig{MemoryBytes: 1 << 40}, host.ErrInvalidParameter, "bytes of memory"},
		{fabric.JoinConfig{MemoryBytes: 120 << 20}, host.ErrResource, "in one piece"},
	} {
		_, err := fabric.Join(ctx, c.join)
		require.ErrorIs(t, err, c.want)
		require.ErrorContains(t, err, c.text)
	}
	// The node has capacity for three banks of the default size; a freed one is
	// reused.
	var all []*fabric.Process
	for range 3 {
		p, err := fabric.Join(ctx, fabric.JoinConfig{Name: "one of three"})
		require.NoError(t, err)
		all = append(all, p)
	}
	_, err = fabric.Join(ctx, fabric.JoinConfig{})
	require.ErrorIs(t, err, host.ErrResource)
	require.NoError(t, all[1].Close())
	require.NoError(t, all[1].Close())
	_, err = all[1].Thread(ctx, "late")
	require.ErrorIs(t, err, host.ErrClosed)
	var again *fabric.Process
	require.Eventually(t, func() bool { again, err = fabric.Join(ctx, fabric.JoinConfig{}); return err == nil }, 2*time.Second, 10*time.Millisecond)
	all[1] = again
	require.NoError(t, service.Down(ctx, ""))
	require.NoError(t, s.Wait())
	th, err := all[0].Thread(ctx, "after the end")
	if err == nil {
		_, err = all[0].Host().OpenNIC(th)
	}
	require.Error(t, err)
	for _, p := range all {
		require.NoError(t, p.Close())
	}
	_, err = fabric.Join(ctx, fabric.JoinConfig{})
	require.ErrorIs(t, err, fabric.ErrNoFabric)
}
