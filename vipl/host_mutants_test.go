// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"testing"

	"hvia/tools/mutants"
)

// hostMutants are bugs of agent and library at the reliable levels, with
// completion queues and notifications, in files below the root.
var hostMutants = []mutants.Bug{
	{"a lost connection is reported twice", "driver/internal/agent/vi.go", "	if v.lost {\n", "	if false {\n"},
	{"the loss of the next connection is not reported", "driver/internal/agent/vi.go", "	v.lost = false\n", ""},
	{"the peer is notified before its NAK", "driver/internal/agent/vi.go", "linger := int64(a.settings.linger)", "linger := int64(0)"},
	{"what was posted is not flushed", "driver/internal/agent/vi.go", "		a.Disconnect(index)\n		a.setState(index, layout.VIStateError)\n", "		a.setState(index, layout.VIStateError)\n"},
	{"a broken VI wakes nobody", "driver/internal/agent/vi.go", "		defer a.raiseAll(index, v)\n", ""},
	{"a NAKed write does not break the connection", "driver/internal/agent/errors.go", "		if v.reliable() && v.state != layout.VIStateIdle {", "		if false {"},
	{"reads are allowed at the unreliable level", "driver/internal/agent/vi.go", "w.Reliability == uint8(layout.ReliabilityUnreliable) {\n		return w, t", "false {\n		return w, t"},
	{"entries of a ring that was replaced are lost", "vipl/cq.go", "	for uint16(c.ring.taken) != written && c.pull() {\n	}\n", "	c.ring.taken = uint32(written)\n"},
	{"entries are not given back", "vipl/cq.go", "	mem.StoreUint32(r.bytes[layout.CompletionQueueHeaderConsumedOffset:], r.taken)\n", ""},
	{"rounds of a ring are not distinguished", "vipl/cq.go", " && lap == (r.taken/r.entries%2 == 0)", " && (lap || !lap)"},
	{"what the library flushes has no entry", "vipl/cq.go", "		c.pending = append(c.pending, Completion{v, receive})\n", ""},
	{"what the library flushes goes before what has come", "vipl/cq.go", "	for c.pull() {\n	}\n	for range n {", "	for range n {"},
	{"entries of a destroyed VI stay", "vipl/cq.go", "	c.pending = slices.DeleteFunc(c.pending, func(e Completion) bool { return e.VI == v })\n", ""},
	{"a broken VI is not settled for its completion queue", "vipl/cq.go", "		if v.unsettled() {", "		if false {"},
	{"what is posted on a broken VI stays", "vipl/queue.go", "	// A waiter at the completion queue does not see the state of each VI.\n	return v.settle(t)\n", "	return nil\n"},
	{"a tied queue is waited for", "vipl/queue.go", "	if q.cq != nil {\n		return nil, q.errTied(q.names.wait", "	if false {\n		return nil, q.errTied(q.names.wait"},
	{"a wait does not look after it has armed", "driver/work.go", "		return s.at.Arm(t)\n	}\n", "		if err := s.at.Arm(t); err != nil {\n			return err\n		}\n	}\n"},
	{"who sleeps is not switched to", "driver/work.go", "		err = s.host.Switch(t)\n", ""},
	{"a handler is called for each completion", "vipl/notify.go", "				k.waiting = k.waiting[1:]\n", ""},
	{"registrations are never armed", "vipl/notify.go", "			if err := k.at.Arm(t); err != nil {\n				return calls, err\n			}\n", ""},
	{"registrations outlive their queue", "vipl/notify.go", "	k.waiting = nil\n	k.unlist()\n", ""},
	{"a destroyed completion queue wakes nobody", "vipl/cq.go", "	if err := t.Publish(c.arm.Range()); err != nil {\n		return translate(op, nil, err)\n	}\n	return translate(fmt", "	return translate(fmt"},
	{"an overrun is another error", "vipl/async.go", "		d.Resource, d.Code = ResourceCQ, layout.AsyncErrorCatastrophic\n", ""},
	{"a notification is thrown away", "driver/internal/agent/card.go", "		notified(layout.NotifyKind(", "		func(layout.NotifyKind, int) {}(layout.NotifyKind("},
	{"the fence is forgotten", "vipl/descriptor.go", "	d.memory.SetControl(d.memory.Control() | layout.DescriptorControlQueueFenceMask)\n", ""},
}

const hostTests = "^(TestScenariosOnFakes|TestReliableOverALossyLink|TestRetryLimit|TestLostNAK|TestCQWaitsOfOtherThreads|TestNotifyThread|TestAccountOfWaits|TestSleepMissesNothing)$"

// The tests find bugs injected into agent and library: all with HVIA_MUTANTS=1
// or HVIA_LONG=1, else one.
func TestHostMutants(t *testing.T) { mustCatch(t, "..", hostMutants, hostTests) }
