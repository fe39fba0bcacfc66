// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/host"
	"hvia/vipl"
)

// priced has a price of its own for everything, so that an account shows what
// it is made of.
type priced struct{ host.NoCosts }

func (priced) Post() host.Time        { return 1000 * host.Nanosecond }
func (priced) PollPeriod() host.Time  { return 100 * host.Nanosecond }
func (priced) SendDone() host.Time    { return 2000 * host.Nanosecond }
func (priced) ReceiveDone() host.Time { return 3000 * host.Nanosecond }
func (priced) AgentCall() host.Time   { return 5000 * host.Nanosecond }
func (priced) PinPage() host.Time     { return 700 * host.Nanosecond }

// runPriced runs programs on fake cards with priced work.
func runPriced(t *testing.T, mains ...main) {
	t.Helper()
	f, err := drivertest.New(len(mains), 2*len(mains))
	require.NoError(t, err)
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, driver.RunOn(ctx, f, driver.RunConfig{Seed: 1, Costs: priced{}}, programs(mains...)...))
}

// What a call of the library takes is in the account of the thread that made it.
func TestAccountOfTheLibrary(t *testing.T) {
	var c priced
	account := func(e *env, what string, want host.Account, call func() error) error {
		before := e.t.Spent()
		err := call()
		got := e.t.Spent().Less(before)
		got[host.LayerPoll] = want[host.LayerPoll] // looks are counted by their own test
		e.that(fmt.Sprintf("%s: spent %v, want %v", what, got, want), got == want)
		return err
	}
	runPriced(t, func(e *env) error {
		var p *peer
		calls := c.AgentCall()
		if err := account(e, "create VI", host.Account{host.LayerAgent: calls}, func() error {
			_, err := e.nic.CreateVI(e.t, writable)
			return err
		}); err != nil {
			return err
		}
		p, err := e.prepare(writable)
		if err != nil {
			return err
		}
		if err := account(e, "post", host.Account{host.LayerLibrary: c.Post()}, func() error {
			_, err := p.write(0, 4, target{p.mem.Address(), p.mem.Handle()}, 0)
			return err
		}); err != nil {
			return err
		}
		if err := account(e, "send wait", host.Account{host.LayerLibrary: c.SendDone()}, func() error {
			d, err := p.vi.SendWait(e.t, host.Second)
			e.flushed("idle", d, err)
			return nil
		}); err != nil {
			return err
		}
		_ = account(e, "empty", host.Account{host.LayerLibrary: c.ReceiveDone()}, func() error {
			_, err := p.vi.RecvDone(e.t)
			e.is("empty", err, vipl.ErrDescriptor)
			return nil
		})
		// A look that finds nothing is polling.
		if _, err := p.receive(0, 16); err != nil {
			return err
		}
		before := e.t.Spent()
		_, err = p.vi.RecvDone(e.t)
		e.is("nothing came", err, vipl.ErrNotDone)
		e.that("a look that finds nothing", e.t.Spent().Less(before) == host.Account{host.LayerPoll: c.PollPeriod()})
		return p.vi.Disconnect(e.t)
	})
}
