// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/host/mem"
	"hvia/sim"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

// client holds everything that a program has opened at its agent.
type client struct {
	t      *host.Thread
	h      *driver.Host
	nic    driver.NIC
	tag    uint16
	buffer *mem.Buffer
	region driver.RegionInfo
	vi     driver.VI
	spare  driver.VI
	cq     *driver.CQ
}

const stoppedLimit = 60 * host.Second

func (c *client) open() (err error) {
	if c.nic, err = c.h.OpenNIC(c.t); err != nil {
		return err
	}
	if c.tag, err = c.h.CreateTag(c.t, c.nic.ID); err != nil {
		return err
	}
	if c.buffer, err = c.h.Allocate(c.t, 4*mem.PageBytes, mem.Runs); err != nil {
		return err
	}
	if c.region, err = c.register(); err != nil {
		return err
	}
	if c.vi, err = c.create(); err != nil {
		return err
	}
	if c.spare, err = c.create(); err != nil {
		return err
	}
	c.cq, _, err = c.h.CreateCQ(c.t, c.nic.ID, 64)
	return err
}

func (c *client) register() (driver.RegionInfo, error) {
	return c.h.Register(c.t, c.nic.ID, c.buffer.Address(), uint64(c.buffer.Len()), 0, driver.Rights{RDMAWrite: true})
}

func (c *client) create() (driver.VI, error) {
	v, _, err := c.h.CreateVI(c.t, c.nic.ID, driver.VIAttributes{Reliability: 1})
	return v, err
}

// connect retries until the peer waits.
func (c *client) connect() error {
	for left := 1000; ; left-- {
		_, err := c.vi.Connect(c.t, driver.NodeMAC(1), "stopped", "", stoppedLimit)
		if left == 0 || !errors.Is(err, driver.ErrNoMatch) {
			return err
		}
		if err := c.t.Sleep(10 * host.Millisecond); err != nil {
			return err
		}
	}
}

// agentCommands are the operations of an agent, each on the result of open. The
// operations marked connected start when the VI is connected.
var agentCommands = []struct {
	name      string
	connected bool
	do        func(c *client) error
}{
	{"open", false, func(c *client) error { _, err := c.h.OpenNIC(c.t); return err }},
	{"close", true, func(c *client) error { return c.h.CloseNIC(c.t, c.nic.ID) }},
	{"create tag", false, func(c *client) error { _, err := c.h.CreateTag(c.t, c.nic.ID); return err }},
	{"destroy tag", false, func(c *client) error { return c.h.DestroyTag(c.t, c.nic.ID, c.tag) }},
	{"allocate", false, func(c *client) error { _, err := c.h.Allocate(c.t, 100, mem.Single); return err }},
	{"register", false, func(c *client) error { _, err := c.register(); return err }},
	{"deregister", true, func(c *client) error { return c.h.Deregister(c.t, c.nic.ID, c.region.Address, c.region.Handle) }},
	{"query region", false, func(c *client) error {
		_, err := c.h.QueryRegion(c.t, c.nic.ID, c.region.Address, c.region.Handle)
		return err
	}},
	{"modify region", true, func(c *client) error {
		return c.h.ModifyRegion(c.t, c.nic.ID, c.region.Address, c.region.Handle, c.tag, driver.Rights{})
	}},
	{"create VI", false, func(c *client) error { _, err := c.create(); return err }},
	{"modify VI", false, func(c *client) error { return c.vi.Modify(c.t, driver.VIAttributes{Reliability: 1, Tag: c.tag}) }},
	{"query VI", false, func(c *client) error { _, _, err := c.vi.Query(c.t); return err }},
	{"destroy VI", true, func(c *client) error { return c.spare.Destroy(c.t) }},
	{"offer", false, func(c *client) error { return c.vi.Offer(c.t, c.region.Handle) }},
	{"connect", false, (*client).connect},
	{"disconnect", true, func(c *client) error { return c.vi.Disconnect(c.t) }},
	{"drain", false, func(c *client) error { return c.spare.Drain(c.t) }},
	{"create CQ", false, func(c *client) error { _, _, err := c.h.CreateCQ(c.t, c.nic.ID, 64); return err }},
	{"resize CQ", false, func(c *client) error { _, _, err := c.cq.Resize(c.t, 128); return err }},
	{"destroy CQ", false, func(c *client) error { return c.cq.Destroy(c.t) }},
	{"arm", true, func(c *client) error { return c.cq.Notifier().Arm(c.t) }},
	{"error", true, func(c *client) error { _, _, err := c.h.NextError(c.t, c.nic.ID); return err }},
	{"counter", true, func(c *client) error { _, err := c.h.Counter(c.t, c.nic.ID, 0); return err }},
}

// peer accepts connection requests until the client ends.
func peer(t *host.Thread, h *driver.Host) error {
	c := &client{t: t, h: h}
	if err := c.open(); err != nil {
		return err
	}
	if _, _, err := t.Receive(host.Never); err != nil { // reports whether one will come
		return err
	}
	request, err := h.ConnectWait(t, c.nic.ID, "stopped", stoppedLimit)
	if err == nil {
		err = request.Accept(t, c.vi)
	}
	if err != nil {
		return err
	}
	_, _, err = t.Receive(host.Never)
	return err
}

// The simulator's process is stopped for 3 s while a command of the agent is in
// flight, in free mode. Nothing times out, because the agent's limits are in
// simulated time.
func TestStoppedSimulator(t *testing.T) {
	takesSeconds(t)
	const stopped = 3 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	results, room := make(chan error, len(agentCommands)), make(chan struct{}, 8)
	for _, command := range agentCommands {
		try := func() error {
			f, err := sim.Start(ctx, sim.Config{Mode: sim.Free, MemoryBytes: 64 << 20, Nodes: []sim.Node{{Kind: "card", Name: "a"}, {Kind: "card", Name: "b"}}})
			if err != nil {
				return err
			}
			var took time.Duration
			err = fabric.RunOn(ctx, fabric.Machines(f.Conn()), fabric.RunConfig{},
				fabric.Program{Node: 0, Main: func(t *host.Thread, h *driver.Host) error {
					c := &client{t: t, h: h}
					other := host.ThreadID{Node: 1, Rank: 1}
					if err := errors.Join(c.open(), t.Send(other, nil)); err != nil {
						return err
					}
					if command.connected {
						if err := c.connect(); err != nil {
							return err
						}
					}
					if err := syscall.Kill(f.Pid(), syscall.SIGSTOP); err != nil {
						return err
					}
					began := time.Now()
					time.AfterFunc(stopped, func() { _ = syscall.Kill(f.Pid(), syscall.SIGCONT) })
					if err := command.do(c); err != nil {
						return err
					}
					took = time.Since(began)
					if !command.connected && command.name != "connect" { // the peer waits for that
						if err := c.connect(); err != nil {
							return err
						}
					}
					return t.Send(other, nil)
				}},
				fabric.Program{Node: 1, Main: peer})
			if err == nil && took < stopped {
				err = fmt.Errorf("it took %v, so it was not in flight", took)
			}
			if err = errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("%s: %w", command.name, err)
			}
			return nil
		}
		go func() {
			room <- struct{}{}
			defer func() { <-room }()
			results <- try()
		}()
	}
	var failed []error
	for range agentCommands {
		failed = append(failed, <-results)
	}
	require.NoError(t, errors.Join(failed...))
}

// Other processes load the CPUs while programs work, in free mode.
func TestLoadedMachine(t *testing.T) {
	if os.Getenv("HVIA_LONG") != "1" {
		t.Skip("loads the machine for half a minute: HVIA_LONG=1")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	for range 16 {
		busy := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		require.NoError(t, busy.Start())
		defer func() {
			_ = busy.Process.Kill()
			_ = busy.Wait()
		}()
	}
	until := time.Now().Add(30 * time.Second)
	rounds := 0
	require.NoError(t, fabric.Run(ctx, fabric.RunConfig{Fabric: sim.Config{Mode: sim.Free}},
		fabric.Program{Node: 0, Main: func(t *host.Thread, h *driver.Host) error {
			other := host.ThreadID{Node: 1, Rank: 1}
			for ; time.Now().Before(until); rounds++ {
				if err := t.Send(other, []byte("one more")); err != nil {
					return err
				}
				e, err := endpoint.Open(t, h, endpoint.Config{Bytes: 1 << 16})
				if err != nil {
					return err
				}
				if err := e.Dial(t, vipl.At(1, "loaded"), stoppedLimit); err != nil {
					return err
				}
				if err := errors.Join(e.Write(t, 0, 1<<16, 0, stoppedLimit), t.Send(other, []byte("done")), e.Close(t)); err != nil {
					return err
				}
			}
			return t.Send(other, nil)
		}},
		fabric.Program{Node: 1, Main: func(t *host.Thread, h *driver.Host) error {
			for {
				m, _, err := t.Receive(host.Never)
				if err != nil || len(m.Data) == 0 {
					return err
				}
				e, err := endpoint.Open(t, h, endpoint.Config{Bytes: 1 << 16})
				if err != nil {
					return err
				}
				if err := e.Accept(t, "loaded", stoppedLimit); err != nil {
					return err
				}
				if _, _, err := t.Receive(host.Never); err != nil {
					return err
				}
				if err := e.Close(t); err != nil {
					return err
				}
			}
		}}))
	t.Logf("%d connections beside 16 busy loops", rounds)
	require.NotZero(t, rounds)
}
