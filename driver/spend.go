// SPDX-License-Identifier: Apache-2.0

package driver

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

// Spend is Charge, entered into the thread's account.
func (t *Thread) Spend(l Layer, span Time) error {
	if err := t.Charge(span); err != nil {
		return err
	}
	t.spent[l] += t.charged(span)
	return nil
}

// SpendInService is ChargeInterrupt, entered into the thread's account.
func (t *Thread) SpendInService(l Layer, span Time) error {
	if err := t.ChargeInterrupt(span); err != nil {
		return err
	}
	t.spent[l] += t.charged(span)
	return nil
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
func (t *Thread) Spent() Account { return t.spent }
