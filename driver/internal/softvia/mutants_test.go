// SPDX-License-Identifier: Apache-2.0

package softvia

import (
	"testing"

	"hvia/tools/mutants"
)

// bugs are injected into the engine. Some test must catch each.
var bugs = []mutants.Bug{
	{"an entry before its Status", "completion.go", "	e.env.StoreWord(who, body.pa+layout.DescriptorStatusOffset, status)\n", "	defer e.env.StoreWord(who, body.pa+layout.DescriptorStatusOffset, status)\n"},
	{"the lap does not change", "completion.go", "if q.written>>q.log2&1 == 0 {", "if true {"},
	{"one entry too many fits", "completion.go", "q.written-q.consumed == 1<<q.log2", "q.written-q.consumed == 1<<q.log2+1"},
	{"Consumed is read once", "completion.go", "	if q.used && e.full(q) {", "	if q.used && e.full(q) && q.consumed == 0 {"},
	{"Consumed is always read", "completion.go", "	if q.used && e.full(q) {", "	if q.used {"},
	{"a resized ring goes on in its middle", "completion.go", "	*q = completionQueue{used: ring, base: address, log2: log2}", "	*q = completionQueue{used: ring, base: address, log2: log2, written: q.written, consumed: q.consumed}"},
	{"the tie of the other queue", "completion.go", "ReceiveQueue: int(v.ctx().ReceiveCompletionQueue())", "ReceiveQueue: int(v.ctx().SendCompletionQueue())"},
	{"an overrun is not reported", "completion.go", "		e.env.Async(who, layout.AsyncErrorCompletionQueueOverrun, id.VI)\n", ""},
	{"an arming is for ever", "completion.go", "		delete(e.armed, n)\n", ""},
	{"an arming is for either queue", "completion.go", "[...]layout.NotifyKind{layout.NotifyKindSend, layout.NotifyKindReceive}[id.Of]", "layout.NotifyKindSend"},

	{"the window is one too wide", "ledger.go", "l.next-l.una < l.credit", "l.next-l.una <= l.credit"},
	{"every gap rewinds", "ledger.go", "code == layout.AcknowledgeCodeGap && !l.gone &&", "code == layout.AcknowledgeCodeGap &&"},
	{"a gap is ignored", "ledger.go", "code == layout.AcknowledgeCodeGap && !l.gone &&", "false &&"},
	{"a timeout does not rewind", "ledger.go", "	l.back()\n	l.gone = false\n", ""},
	{"progress does not begin the count anew", "ledger.go", "	v.ledger.tries = 0\n", ""},
	{"a sign of life does not begin the count anew", "ledger.go", "{ v.ledger.timeouts = 0 }", "{}"},
	{"an acknowledgement of nothing new is no sign of life", "ledger.go", "	if !nak {\n		v.alive()\n	}\n", ""},
	{"an old frame is no sign of life", "reliable.go", "		e.env.Count(layout.CounterReceiveOldSequence)\n		v.alive()\n", "		e.env.Count(layout.CounterReceiveOldSequence)\n"},
	{"a frame in order is no sign of life", "reliable.go", "	v.gap = false\n	v.alive()\n", "	v.gap = false\n"},
	{"a sign of life restarts the timer", "ledger.go", "	if !nak {\n		v.alive()\n", "	if !nak {\n		e.progress(v)\n"},
	{"a peer that lives may take for ever", "ledger.go", " || l.tries > limit*retryAliveFactor {", " {"},
	{"a read that waits is not asked for", "ledger.go", "	e.probe(who, index)\n", ""},
	{"one timeout too few", "ledger.go", "l.timeouts > limit ||", "l.timeouts >= limit ||"},
	{"the time runs on behind an acknowledgement", "ledger.go", "		e.advance(l, number)\n		e.progress(v)\n", "		e.advance(l, number)\n"},
	{"what begins has the time of what was before", "ledger.go", "			e.progress(v) // the", "			// the"},
	{"the moving limit falls too far", "ledger.go", "max(min(l.window, acknowledgeEvery), l.credit/2)", "max(1, l.credit/2)"},
	{"complete when it is sent", "ledger.go", "	return !behind(m.end(), l.una)\n", "	return !behind(m.end(), l.next)\n"},
	{"a read is complete when its request is acknowledged", "ledger.go", "	if !m.started || m.read() {\n", "	if !m.started {\n"},
	{"the fence is ignored", "ledger.go", "layout.DescriptorControlQueueFenceMask != 0 && reads > 0", "layout.DescriptorControlQueueFenceMask != 0 && false"},
	{"one read too many is in flight", "ledger.go", "m.read() && reads >= l.reads", "m.read() && reads > l.reads"},
	{"numbers do not wrap", "ledger.go", "return int32(a-b) > 0", "return a > b"},
	{"an acknowledgement of the future is believed", "ledger.go", "	case behind(number, l.top), behind(l.una, number) && !nak:", "	case behind(l.una, number) && !nak:"},
	{"an acknowledgement of the past is believed", "ledger.go", "	case behind(number, l.top), behind(l.una, number) && !nak:", "	case behind(number, l.top):"},
	{"a NAK has the wrong bit", "ledger.go", "layout.AcknowledgeCodeRDMAProtection:   layout.DescriptorStatusRDMAProtectionErrorMask", "layout.AcknowledgeCodeRDMAProtection:   layout.DescriptorStatusProtectionErrorMask"},
	{"a NAK of an acknowledged message marks the head", "ledger.go", "!behind(m.end(), number) || !m.read() && behind(l.una, number) {", "!behind(m.end(), l.una) {"},
	{"a failed message goes before its turn", "ledger.go", "		m := l.own[0]\n		if !m.failed()", "		m := l.own[0]\n		if k := slices.IndexFunc(l.own, (*entry).failed); k > 0 {\n			l.own[0], l.own[k] = l.own[k], m\n			m = l.own[0]\n		}\n		if !m.failed()"},
	{"what is behind an error begins", "ledger.go", "		case m.failed() || v.nak != nil:\n			return false\n", "		case m.failed() || v.nak != nil:\n			continue\n"},
	{"the connection goes on behind an error", "ledger.go", "		l.broken = m.failed()\n", ""},
	{"an unreachable descriptor is not reported", "ledger.go", "		e.env.Async(who, layout.AsyncErrorPostDescriptor, index)\n		return\n", "		return\n"},
	{"an acknowledged one is flushed", "ledger.go", "		if bits == 0 && !l.whole(m) {", "		if bits == 0 {"},
	{"a failed one is flushed", "ledger.go", "		if bits == 0 && !l.whole(m) {", "		if !l.whole(m) {"},
	{"a stale descriptor is completed", "ledger.go", "	if m.stale {\n", "	if false {\n"},
	{"a stale descriptor is sent by", "ledger.go", "	case m.stale: // the", "	case false: // the"},
	{"the walk does not rewind", "ledger.go", "	if m.walked != offset {\n", "	if m.walked > offset && offset == 0 {\n"},
	{"requests go before responses", "ledger.go", "		if !m.started {\n			l.number(m)", "		if !m.started && !slices.ContainsFunc(l.own, func(m *entry) bool { return !m.started && !m.failed() }) {\n			l.number(m)"},
	{"a NAKed read is reported before earlier responses", "ledger.go", "	if len(v.ledger.answers) == 0 || v.ledger.answers[0].bits == 0 ||", "	if i := slices.IndexFunc(v.ledger.answers, (*entry).failed); i > 0 {\n		v.ledger.answers = v.ledger.answers[i:]\n	}\n	if len(v.ledger.answers) == 0 || v.ledger.answers[0].bits == 0 ||"},
	{"the peer reads by local rights", "ledger.go", "v.tag(), layout.AttAccessRemoteRead)", "v.tag(), layout.AttAccessLocal)"},
	{"the peer's read is checked frame by frame", "ledger.go", "m.va+uint64(offset), m.length-offset, v.tag()", "m.va+uint64(offset), n, v.tag()"},
	{"handles of a read of nothing are looked at", "ledger.go", "	if m.length == 0 {\n		return nil, true // no", "	if false {\n		return nil, true // no"},

	{"a duplicate is delivered again", "reliable.go", "	case behind(v.expected, h.Sequence()):", "	case behind(v.expected-1, h.Sequence()):"},
	{"an old frame is not acknowledged", "reliable.go", "		v.alive()\n		e.acknowledge(who, index, v.expected, layout.AcknowledgeCodeOk)\n", "		v.alive()\n"},
	{"what is ahead is taken", "reliable.go", "	case behind(h.Sequence(), v.expected):", "	case behind(h.Sequence(), v.expected+1):"},
	{"a gap is acknowledged as if it were none", "reliable.go", "e.acknowledge(who, index, v.expected, layout.AcknowledgeCodeGap)", "e.acknowledge(who, index, v.expected, layout.AcknowledgeCodeOk)"},
	{"a gap is reported once and never again", "reliable.go", "	v.gap = false\n	v.alive()\n", "	v.alive()\n"},
	{"the frame behind is acknowledged", "reliable.go", "		e.acknowledge(who, index, v.expected, layout.AcknowledgeCodeOk)\n	}\n}\n\n// contradict", "		e.acknowledge(who, index, v.expected+1, layout.AcknowledgeCodeOk)\n	}\n}\n\n// contradict"},
	{"nothing is acknowledged inside a message", "reliable.go", "last || v.unsaid == acknowledgeEvery", "last"},
	{"a NAK is sent once", "reliable.go", "		e.acknowledge(who, index, v.nak.number, v.nak.code)\n", ""},
	{"NAKs end with the connection", "reliable.go", "!connected && (v.nak == nil || acknowledgement)", "!connected"},
	{"a NAK is permanent", "ledger.go", "	v.nak, v.gap, v.unsaid = nil, false, 0\n", "	v.gap, v.unsaid = false, 0\n"},
	{"contradictions are taken", "reliable.go", "	if first == m.open || m.open && (m.operation != operation ||", "	if m.open && !first && (m.operation != operation ||"},
	{"the VI's right to be read is not looked at", "reliable.go", "layout.VIContextAttributesEnableRDMAReadMask == 0:", "layout.VIContextAttributesEnableRDMAReadMask == 1:"},
	{"a request beyond the limit is taken", "reliable.go", "	case len(v.ledger.answers) == ledgerResponses:", "	case len(v.ledger.answers) == 99:"},
	{"a request beyond the limit uses its number", "reliable.go", "		e.env.Count(layout.CounterReceiveReadLimit)\n", "		e.env.Count(layout.CounterReceiveReadLimit)\n		e.accept(who, index, true)\n"},
	{"a response's offset is not checked", "reliable.go", "if h.Address() != uint64(r.length)<<32|uint64(m.received) ||", "if uint32(h.Address()>>32) != r.length ||"},
	{"a response's length is not checked", "reliable.go", "if h.Address() != uint64(r.length)<<32|uint64(m.received) ||", "if uint32(h.Address()) != m.received ||"},
	{"a response may end anywhere", "reliable.go", " || last != (received == uint64(r.length))", ""},
	{"the reader's own error is not NAKed", "reliable.go", "		e.reject(who, index, h.Sequence(), layout.AcknowledgeCodeTransport)\n		e.turn(who, index)\n", "		e.turn(who, index)\n"},
	{"a write protection error is NAKed as a descriptor error", "reliable.go", "		code = layout.AcknowledgeCodeRDMAProtection\n", "		code = layout.AcknowledgeCodeRemoteDescriptor\n"},
	{"a bad receive descriptor does not break", "reliable.go", "		e.lastFrame(who, index, h.Immediate())\n		e.env.Async(who, layout.AsyncErrorConnectionLost, index)\n", "		e.lastFrame(who, index, h.Immediate())\n"},
	{"reads at the unreliable level", "queue.go", "(!reads || d.immediate())", "d.immediate()"},
	{"reads with immediate data", "queue.go", "(!reads || d.immediate())", "!reads"},
	{"a response that is cut off is reported", "receive.go", " || m.operation == layout.FrameOperationRDMAReadResponse {", " {"},
}

// The tests find injected bugs of the engine. With HVIA_MUTANTS=1 or
// HVIA_LONG=1 all are injected, else one.
func TestMutants(t *testing.T) {
	mutants.MustCatch(t, ".", bugs, []string{"."}, "-failfast", "-short", "-timeout=2m")
}
