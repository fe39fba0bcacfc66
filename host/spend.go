// SPDX-License-Identifier: Apache-2.0

package host

import "fmt"

// Layer is what a host's processor works on, as an account of its time names it.
type Layer int

// Layers of a host's software. LayerLibrary is the library in the program
// (post, bookkeeping), LayerPoll the looks of its polling loops that find nothing.
const (
	LayerLibrary   Layer = iota
	LayerPoll            // looks that find nothing
	LayerTrap            // into the kernel and out of it
	LayerCopy            // bytes between user memory and the kernel's
	LayerInterrupt       // into an interrupt service and out of it
	LayerProtocol        // the kernel's work for a packet
	LayerSwitch          // giving the processor to a thread that was woken
	LayerAgent           // privileged work: registration, connections
	Layers               // how many there are
)

var layerNames = [Layers]string{"library", "poll", "trap", "copy", "interrupt", "protocol", "switch", "agent"}

// String returns the layer's name.
func (l Layer) String() string {
	if l >= 0 && l < Layers {
		return layerNames[l]
	}
	return fmt.Sprintf("Layer(%d)", int(l))
}

// Account is processor time by layer.
type Account [Layers]Time

// Total is the sum of all layers but LayerPoll: the time that work took. A
// polling loop takes what is left.
func (a Account) Total() (sum Time) {
	for l, t := range a {
		if Layer(l) != LayerPoll {
			sum += t
		}
	}
	return sum
}

// Less returns what was spent since an earlier account.
func (a Account) Less(earlier Account) Account {
	for l := range a {
		a[l] -= earlier[l]
	}
	return a
}

// Plus adds two accounts.
func (a Account) Plus(b Account) Account {
	for l := range a {
		a[l] += b[l]
	}
	return a
}

// Spending is one entry of a thread's account. End less Asked is more than Span
// where the thread waited for the processor, or was interrupted.
type Spending struct {
	Thread ThreadID
	Layer  Layer
	Asked  Time // when the thread asked for the processor
	End    Time
	Span   Time
}

// Spend is Charge, entered into the thread's account.
func (t *Thread) Spend(l Layer, span Time) error {
	asked := t.clock()
	if err := t.Charge(span); err != nil {
		return err
	}
	t.enterAccount(l, asked, t.charged(span))
	return nil
}

// SpendInService is ChargeInterrupt, entered into the thread's account.
func (t *Thread) SpendInService(l Layer, span Time) error {
	asked := t.clock()
	if err := t.ChargeInterrupt(span); err != nil {
		return err
	}
	t.enterAccount(l, asked, t.charged(span))
	return nil
}

// enterAccount enters what has been spent by now.
func (t *Thread) enterAccount(l Layer, asked, span Time) {
	if span <= 0 {
		return
	}
	t.spent[l].Add(int64(span))
	if t.spending != nil {
		t.spending(Spending{Thread: t.id, Layer: l, Asked: asked, End: t.clock(), Span: span})
	}
}

// charged is what a charge takes: nothing in free mode.
func (t *Thread) charged(span Time) Time {
	if !t.timed() {
		return 0
	}
	return span
}

// Spent is the thread's account: what it has spent through Spend and
// SpendInService, and in LayerPoll the time that it was in Poll.
func (t *Thread) Spent() (a Account) {
	for l := range a {
		a[l] = Time(t.spent[l].Load())
	}
	return a
}
