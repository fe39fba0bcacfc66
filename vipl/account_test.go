// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/conformance"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/host"
	"hvia/vipl"
)

// priced has a different price for everything, so that an account shows its
// parts.
var priced = host.CostModel{
	Post: 1000 * host.Nanosecond, SendDone: 2000 * host.Nanosecond, ReceiveDone: 3000 * host.Nanosecond,
	AgentCall: 5000 * host.Nanosecond, PinPage: 700 * host.Nanosecond,
}

func runPriced(t *testing.T, mains ...conformance.Main) {
	t.Helper()
	f, err := drivertest.New(len(mains), 2*len(mains))
	require.NoError(t, err)
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, fabric.RunOn(ctx, f, fabric.RunConfig{Seed: 1, Costs: priced}, conformance.Programs(mains...)...))
}

// The time of a call is in the account of the thread that made it.
func TestAccountOfTheLibrary(t *testing.T) {
	c := priced
	account := func(e *conformance.Env, what string, want host.Account, call func() error) error {
		before := e.T.Spent()
		err := call()
		got := e.T.Spent().Less(before)
		got[host.LayerPoll] = want[host.LayerPoll] // polls have their own test
		e.That(fmt.Sprintf("%s: spent %v, want %v", what, got, want), got == want)
		return err
	}
	runPriced(t, func(e *conformance.Env) error {
		var p *conformance.Peer
		calls := c.AgentCall
		check(account(e, "create VI", host.Account{host.LayerAgent: calls}, func() error {
			return errOf(e.NIC.CreateVI(e.T, conformance.Writable))
		}))
		p = must(e.Prepare(conformance.Writable))
		check(account(e, "post", host.Account{host.LayerLibrary: c.Post}, func() error {
			return errOf(p.Write(0, 4, conformance.Remote{Address: p.Mem.Address(), Handle: p.Mem.Handle()}, 0))
		}))
		check(account(e, "send wait", host.Account{host.LayerLibrary: c.SendDone}, func() error {
			d, err := p.VI.SendWait(e.T, host.Second)
			e.Flushed("idle", d, err)
			return nil
		}))
		_ = account(e, "empty", host.Account{host.LayerLibrary: c.ReceiveDone}, func() error {
			e.Is("empty", errOf(p.VI.RecvDone(e.T)), vipl.ErrDescriptor)
			return nil
		})
		// An empty poll is polling.
		must(p.Receive(0, 16))
		before := e.T.Spent()
		e.Is("nothing came", errOf(p.VI.RecvDone(e.T)), vipl.ErrNotDone)
		e.That("an empty poll", e.T.Spent().Less(before) == host.Account{host.LayerPoll: c.PollPeriod()})
		return p.VI.Disconnect(e.T)
	})
}
