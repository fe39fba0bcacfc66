// SPDX-License-Identifier: Apache-2.0

package host

import "fmt"

// Layer names a kind of processor work in a host's account.
type Layer int

// Layers of a host's software.
const (
	LayerLibrary   Layer = iota
	LayerPoll            // empty polls
	LayerTrap            // system calls, entry and return
	LayerCopy            // bytes between user memory and the kernel
	LayerInterrupt       // entry and exit of an interrupt service
	LayerProtocol        // the kernel's work for a packet
	LayerSwitch          // context switches to woken threads
	LayerAgent           // privileged work: registration, connections
	Layers               // number of layers
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

// Total returns the time of all layers but LayerPoll: polling loops use the
// rest of the processor's time.
func (a Account) Total() (sum Time) {
	for l, t := range a {
		if Layer(l) != LayerPoll {
			sum += t
		}
	}
	return sum
}

// Less returns the time spent since an earlier account.
func (a Account) Less(earlier Account) Account {
	for l := range a {
		a[l] -= earlier[l]
	}
	return a
}

// Plus returns the sum of two accounts.
func (a Account) Plus(b Account) Account {
	for l := range a {
		a[l] += b[l]
	}
	return a
}

// Spending is one entry of a thread's account. End less Asked exceeds Span if
// the thread waited for the processor or was interrupted.
type Spending struct {
	Thread ThreadID
	Layer  Layer
	Asked  Time // when the thread asked for the processor
	End    Time
	Span   Time
}

// Spend is Charge, with an entry in the thread's account.
func (t *Thread) Spend(l Layer, span Time) error {
	asked := t.clock()
	if err := t.Charge(span); err != nil {
		return err
	}
	t.enterAccount(l, asked, t.charged(span))
	return nil
}

// SpendInService is ChargeInterrupt, with an entry in the thread's account.
func (t *Thread) SpendInService(l Layer, span Time) error {
	asked := t.clock()
	if err := t.ChargeInterrupt(span); err != nil {
		return err
	}
	t.enterAccount(l, asked, t.charged(span))
	return nil
}

func (t *Thread) enterAccount(l Layer, asked, span Time) {
	if span <= 0 {
		return
	}
	t.spent[l].Add(int64(span))
	if t.spending != nil {
		t.spending(Spending{Thread: t.id, Layer: l, Asked: asked, End: t.clock(), Span: span})
	}
}

func (t *Thread) charged(span Time) Time {
	if !t.timed() {
		return 0
	}
	return span
}

// Spent returns the thread's account: the time spent through Spend and
// SpendInService, and in LayerPoll the time in Poll.
func (t *Thread) Spent() (a Account) {
	for l := range a {
		a[l] = Time(t.spent[l].Load())
	}
	return a
}
