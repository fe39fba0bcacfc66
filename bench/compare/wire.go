// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"strconv"
	"strings"

	"hvia/host"
	"hvia/layout"
	"hvia/sim/bridge"
	"hvia/vipl"
)

// WireEffect counts the faulty frames and retransmissions of a run, including
// set-up.
type WireEffect struct {
	Frames uint64            `json:"frames"` // given to a cable
	Faults map[string]uint64 `json:"faults"` // faulty frames by kind; no zeros
	// Frames of the card or segments of TCP; nil if the protocol retransmits
	// nothing.
	Retransmitted *uint64 `json:"retransmitted,omitempty"`
}

// faulty reports whether the wire of this run has faults.
func (c Config) faulty() bool { return len(c.Faults.Faults) > 0 }

func (p protocol) retransmits() bool {
	return p.tcp || p.level == vipl.ReliableDelivery || p.level == vipl.ReliableReception
}

// countRetransmitted notes the retransmissions of a node so far. The last of
// its threads to close has the final count.
func (x *comparison) countRetransmitted(t *host.Thread, c channel) error {
	if !x.config.faulty() || !x.protocol.retransmits() {
		return nil
	}
	var n uint64
	switch c := c.(type) {
	case *tcpChannel:
		n = c.node.stack.Counters().Retransmitted
	case *viaChannel:
		v, err := c.endpoint.NIC.Counter(t, layout.CounterRetransmitFrame)
		if err != nil {
			return err
		}
		n = uint64(v)
	}
	x.retransmitted[t.ID().Node].Store(n)
	return nil
}

// wireEffect is nil for a run without faults.
func (x *comparison) wireEffect(d bridge.Digest) *WireEffect {
	if !x.config.faulty() {
		return nil
	}
	e := &WireEffect{Faults: map[string]uint64{}}
	add := func(w bridge.WireCounts) {
		e.Frames += w.Sent
		for kind, n := range w.Faults {
			if n > 0 {
				e.Faults[strings.ToLower(layout.WireFault(kind).String())] += n
			}
		}
	}
	for n := range d.Wire {
		add(d.Wire[n])
		add(d.Switch.Wire[n])
	}
	if x.protocol.retransmits() {
		e.Retransmitted = new(uint64)
		for i := range x.retransmitted {
			*e.Retransmitted += x.retransmitted[i].Load()
		}
	}
	return e
}

// faultVerbs are the verbs for faults, in the order of layout.WireFault.
var faultVerbs = []struct{ kind, verb string }{
	{"drop", "dropped"}, {"duplicate", "duplicated"}, {"reorder", "reordered"}, {"corrupt", "corrupted"},
	{"truncate", "truncated"}, {"delay", "delayed"}, {"pause", "paused"}, {"cut", "lost to a cut cable"},
}

// String is a line such as "dropped 12 of 2,940 frames; retransmitted 15".
func (e WireEffect) String() string {
	var did []string
	for _, v := range faultVerbs {
		if n := e.Faults[v.kind]; n > 0 {
			did = append(did, v.verb+" "+grouped(n))
		}
	}
	if did == nil {
		did = []string{"no fault on any"}
	}
	s := fmt.Sprintf("%s of %s frames", strings.Join(did, ", "), grouped(e.Frames))
	if e.Retransmitted != nil {
		s += "; retransmitted " + grouped(*e.Retransmitted)
	}
	return s
}

// grouped writes a number with commas between thousands.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func (r *Report) writeWire(b *strings.Builder) {
	first := true
	for _, d := range r.Digests {
		if d.Wire == nil {
			continue
		}
		if first {
			b.WriteString("\nThe wire in the whole run, set-up included:\n")
			first = false
		}
		fmt.Fprintf(b, "%-*s %s\n", r.protocolWidth(), d.Protocol, d.Wire)
	}
}
