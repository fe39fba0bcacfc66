// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"path/filepath"
	"testing"

	"hvia/tools/mutants"
)

// mviaMutants are bugs of M-VIA, in files of the driver. All compile, and some
// test must fail on each.
var mviaMutants = []mutants.Bug{
	{"a second thread begins its message within the first one's", "internal/softvia/send.go", "	if v.busy {\n", "	if false {\n"},
	{"a send completes when its frames are in the ring", "internal/softvia/send.go", "v.sends[0].settled && v.sends[0].frames == 0", "v.sends[0].settled"},
	{"a stopped message goes on", "internal/softvia/send.go", "		if v.state != layout.VIStateConnected { // stopped", "		if false { // stopped"},
	{"what is left in the segments is not found", "internal/softvia/send.go", "if bits = rejected; more {", "if bits = rejected; more && false {"},
	{"the largest transfer is not checked", "internal/softvia/send.go", "	case length > v.ctx().MaxTransferSize():", "	case false:"},
	{"a broken send queue sends", "internal/softvia/send.go", "v.state != layout.VIStateConnected || v.broken", "v.state != layout.VIStateConnected"},
	{"frames have no offset", "internal/softvia/send.go", "uint64(d.control.Length())<<32 | uint64(offset)", "uint64(d.control.Length()) << 32"},
	{"reserved words are not checked", "internal/softvia/queue.go", "|| !zero(d.control[layout.DescriptorReservedOffset:layout.DescriptorImmediateDataOffset])", ""},
	{"the link is followed when the queue has run empty", "internal/softvia/queue.go", "	if q.count == 0 {\n		q.next, q.handle = address, handle", "	if q.next == 0 {\n		q.next, q.handle = address, handle"},
	{"an unreachable descriptor does not hide those behind it", "internal/softvia/queue.go", "		q.count = 0\n", ""},
	{"immediate data are withheld", "internal/softvia/completion.go", "		d.SetImmediateData(n.immediate)\n", ""},
	{"frames of another connection are taken", "internal/softvia/receive.go", "v.number(index) != h.DestinationVI(), v.ctx().PeerVI() != h.SourceVI(), ", ""},
	{"a gap is not noticed", "internal/softvia/receive.go", "	if h.Sequence() != v.expected {", "	if false {"},
	{"every VI may be written through", "internal/softvia/receive.go", "if !ok || v.ctx().Attributes()&layout.VIContextAttributesEnableRDMAWriteMask == 0 {", "if !ok {"},
	{"a peer writes by local rights", "internal/softvia/receive.go", "v.tag(), layout.AttAccessRemoteWrite)", "v.tag(), layout.AttAccessLocal)"},
	{"a cut message has no end", "internal/softvia/engine.go", "	e.endMessage(who, index, layout.DescriptorStatusPartialErrorMask|layout.DescriptorStatusFlushedMask)\n", ""},
	{"the descriptor at hand is not flushed", "internal/softvia/engine.go", "	for v.head.valid || v.queues", "	for v.queues"},
	{"a deregistered receive descriptor is completed", "internal/softvia/engine.go", "			h.stale = true\n", ""},
	{"a disconnect does not wait for the NIC", "internal/softvia/engine.go", "	return v.busy || len(v.sends) > 0", "	return v.busy"},
	{"a disconnect does not wait for the sender", "internal/softvia/engine.go", "	return v.busy || len(v.sends) > 0", "	return v == nil"},
	{"a deregistration does not wait", "internal/softvia/engine.go", "s[0].number <= started {\n			return false", "s[0].number <= started {\n			return true"},
	{"a region is found until it is gone", "internal/agent/mvia.go", "	if err := m.agent.table.Invalidate(h); err != nil {", "	defer func() { _ = m.agent.table.Invalidate(h) }()\n	if err := error(nil); err != nil {"},
	{"the agent is not sent for", "internal/agent/mvia.go", "		m.store(m.attend(t))\n", ""},
	{"the copy is free", "internal/agent/mvia.go", "t.SpendInService(host.LayerCopy, kernel.Copy(min(payload, len(frame)-layout.HeaderBytes)))", "t.SpendInService(host.LayerCopy, 0*host.Time(payload))"},
	{"many pieces are cut short", "internal/agent/mvia.go", "		for _, r := range payload {\n			head", "		for _, r := range payload[:gatherLimit] {\n			head"},
	{"a woken thread gets the processor at once", "work.go", "t.Sleep(kernel.Mvia.Wake)", "t.Sleep(0)"},
}

const mutantTests = "^(TestAccountOfMvia|TestThreadsPostOnOneVI|TestMessagesAreInterrupted|TestFramesOfOthers|TestLostFrames|TestScenariosOnFakes|TestRandomOperationsOnFakes)$/^(mvia|)"

// The tests find bugs injected into M-VIA: all with HVIA_MUTANTS=1 or
// HVIA_LONG=1, else one.
func TestMviaMutants(t *testing.T) {
	mustCatch(t, filepath.Join("..", "driver"), mviaMutants, mutantTests)
}

// mustCatch runs the named tests here and of the conformance suite.
func mustCatch(t *testing.T, folder string, bugs []mutants.Bug, tests string) {
	t.Helper()
	mutants.MustCatch(t, folder, bugs, []string{".", "hvia/conformance", "hvia/conformance/random"}, "-failfast", "-short", "-timeout=5m", "-run="+tests)
}
