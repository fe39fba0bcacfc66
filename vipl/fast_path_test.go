// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/conformance"
	"hvia/conformance/conformtest"
	"hvia/fabric"
	"hvia/fabric/service"
	"hvia/host"
	"hvia/sim"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

// A post and its doorbell allocate nothing: the fast path must not feed the
// garbage collector.
func TestPostAllocatesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	runCard(t, conformtest.Seed(t), func(e *conformance.Env) error {
		p := must(e.Prepare(conformance.Writable))
		var posts, receives [101]*vipl.Descriptor
		for i := range posts {
			receives[i] = p.Next()
			posts[i] = p.Next()
			posts[i].SetRDMAWrite(p.Mem.Address(), p.Mem.Handle(), p.Mem.Segment(0, 4))
		}
		n := 0
		allocations := testing.AllocsPerRun(100, func() {
			if err := p.VI.PostSend(p.T, posts[n]); err != nil {
				panic(err)
			}
			n++
		})
		e.That(fmt.Sprintf("%v allocations for each post", allocations), allocations == 0)
		m := 0
		allocations = testing.AllocsPerRun(100, func() {
			if err := receives[m].SetReceive(p.Mem.Segment(0, 4), p.Mem.Segment(8, 4)); err != nil {
				panic(err)
			}
			if err := p.VI.PostRecv(p.T, receives[m]); err != nil {
				panic(err)
			}
			m++
		})
		e.That(fmt.Sprintf("%v allocations for each receive", allocations), allocations == 0)
		for range n {
			if _, err := p.VI.SendWait(p.T, host.Second); err == nil {
				return fmt.Errorf("a post on an idle VI succeeded")
			}
		}
		return p.VI.Disconnect(p.T)
	}, func(*conformance.Env) error { return nil })
}

// The fast path: what a program does for each message when it posts and polls.
const (
	fastWindow = 16
	fastPosts  = 50 * fastWindow
)

// fast writes to the peer, a window of writes at a time, and polls its send
// queue until they are done. It does nothing else between the calls of mark.
func fast(e *conformance.Env, p *endpoint.Endpoint, list []*vipl.Descriptor, mark func()) (polls int, err error) {
	window := func() error {
		for _, d := range list {
			d.SetRDMAWrite(p.Peer.Address, p.Peer.Handle, p.Buffer.Segment(0, 1024))
			check(p.VI.PostSend(e.T, d))
		}
		for done := 0; done < len(list); polls++ {
			switch _, err := p.VI.SendDone(e.T); {
			case err == nil:
				done++
			case !errors.Is(err, vipl.ErrNotDone):
				return err
			}
		}
		return nil
	}
	check(window()) // one-time allocations happen here
	polls = 0
	mark()
	for range fastPosts / fastWindow {
		check(window())
	}
	mark()
	return polls, nil
}

func fastClient(mark func(), report func(polls int)) conformance.Main {
	return func(e *conformance.Env) error {
		p := must(endpoint.Open(e.T, e.H, endpoint.Config{Bytes: 8192, Receives: -1}))
		for {
			err := p.Dial(e.T, vipl.At(1, "fast"), 10*host.Second)
			if err == nil {
				break
			}
			if !errors.Is(err, vipl.ErrNoMatch) {
				return err
			}
		}
		var list []*vipl.Descriptor
		for i := range fastWindow {
			list = append(list, must(p.Buffer.Descriptor(4096+128*i, 1)))
		}
		polls := must(fast(e, p, list, mark))
		report(polls)
		// The last byte ends the server.
		p.Bytes()[0] = 1
		return errors.Join(p.Write(e.T, 0, 1, 8000, 10*host.Second), p.Close(e.T))
	}
}

func fastServer(e *conformance.Env) error {
	p := must(endpoint.Open(e.T, e.H, endpoint.Config{Bytes: 8192, Receives: -1}))
	check(p.Accept(e.T, "fast", 20*host.Second))
	return errors.Join(p.Poll(e.T, 8000, 1, time60), p.Close(e.T))
}

const time60 = 60 * host.Second

// In free mode neither a post nor a poll allocates, empty or not.
func TestFastPathAllocatesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	var at [2]runtime.MemStats
	marks, polled := 0, 0
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	require.NoError(t, fabric.Run(ctx, fabric.RunConfig{Fabric: sim.Config{Mode: sim.Free}}, conformance.Programs(
		fastClient(func() { runtime.ReadMemStats(&at[marks]); marks++ }, func(n int) { polled = n }), fastServer)...))
	n := at[1].Mallocs - at[0].Mallocs
	t.Logf("%d posts and %d polls: %d allocations in the whole process", fastPosts, polled, n)
	// The other goroutines of the process wait meanwhile, and poll now and
	// then.
	require.Less(t, n, uint64(fastPosts/4))
}

// In free mode neither makes a system call while the simulator is awake.
func TestFastPathMakesNoSystemCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	if out, err := exec.Command("strace", "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		t.Skipf("strace does not run here: %v: %s", err, out)
	}
	// A starved simulator sleeps, and then a post wakes it. On a loaded machine
	// this happens often, so the best of three runs counts.
	var calls []string
	for range 3 {
		if calls = systemCallsOfFastPath(t); len(calls) < fastPosts/20 {
			return
		}
	}
	t.Fatalf("%d posts made %d system calls:\n%s", fastPosts, len(calls), strings.Join(calls, "\n"))
}

// systemCallsOfFastPath returns the system calls between the client's marks.
func systemCallsOfFastPath(t *testing.T) (between []string) {
	t.Helper()
	fabricPlace(t)
	s := startService(t, service.Config{})
	server := startProcess(t, job{Node: 1, Name: "server", Program: "fast/server"})
	record := filepath.Join(t.TempDir(), "strace")
	client := startTraced(t, record, job{Node: 0, Name: "client", Program: "fast/client"})
	require.NoError(t, client.ends(t, 2*time.Minute))
	require.NoError(t, server.ends(t, time.Minute))
	b, err := os.ReadFile(record)
	require.NoError(t, err)
	lines := strings.Split(string(b), "\n")
	// The two marks are on the thread that posts.
	var thread string
	marks := 0
	for _, line := range lines {
		if m := regexp.MustCompile(`^(\d+) .*getpriority\(PRIO_PROCESS, 424242`).FindStringSubmatch(line); m != nil {
			thread = m[1]
			marks++
			continue
		}
		if marks == 1 && strings.HasPrefix(line, thread+" ") && !ofGo.MatchString(line) {
			between = append(between, line)
		}
	}
	require.Equal(t, 2, marks, "marks in the record")
	t.Logf("%d posts, %s polls: %d system calls", fastPosts, strings.TrimSpace(client.out.String()), len(between))
	requireEmpty(t, s, 5*time.Second)
	return between
}

// ofGo matches the system calls of Go's scheduler, which preempts a goroutine
// after a while. Its futexes are private. The bridge's futexes are shared
// between processes, so they do not match.
var ofGo = regexp.MustCompile(`_PRIVATE|SIGURG|rt_sig|sched_yield|tgkill|getpid|nanosleep|epoll_|madvise|resumed>`)

// traceMark is a system call that nothing else makes.
func traceMark() { _, _, _ = syscall.Syscall(syscall.SYS_GETPRIORITY, 0, 424242, 0) }

// fastTraced is the client of TestFastPathMakesNoSystemCalls.
func fastTraced(e *conformance.Env) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return fastClient(traceMark, func(polls int) { fmt.Println(polls) })(e)
}
