// SPDX-License-Identifier: Apache-2.0

package random_test

import (
	"path/filepath"
	"testing"

	"hvia/tools/mutants"
)

// transportMutants are injected bugs of the fake card's transport, the driver's
// softvia. The random runs must find each.
var transportMutants = []mutants.Bug{
	{"a message completes before it is acknowledged", "ledger.go", "	return !behind(m.end(), l.una)\n", "	return true\n"},
	{"a message completes one frame too early", "ledger.go", "	return !behind(m.end(), l.una)\n", "	return !behind(m.end()-1, l.una)\n"},
	{"a read completes when it was sent", "ledger.go", "		return m.started && m.answered\n", "		return m.started\n"},
	{"the fence is ignored", "ledger.go", "&layout.DescriptorControlQueueFenceMask != 0 && reads > 0,", "&layout.DescriptorControlQueueFenceMask != 0 && reads > 99,"},
	{"a NAK sets the wrong bit", "ledger.go", "RemoteDescriptor: layout.DescriptorStatusRemoteDescriptorErrorMask", "RemoteDescriptor: layout.DescriptorStatusTransportErrorMask"},
	{"a NAK fails the oldest message", "ledger.go", "!m.started || m.answered || behind(m.first, number) || !behind(m.end(), number) || !m.read() && behind(l.una, number)", "!m.started"},
	{"messages behind a failed one execute", "ledger.go", "		l.broken = m.failed()\n", "		l.broken = false\n"},
	{"the failing side does not report the lost connection", "ledger.go", "		if m.bits != 0 {\n			e.env.Async(who, layout.AsyncErrorConnectionLost, index)\n", "		if m.bits != 0 {\n			_ = 0\n"},
	{"a retransmitted message starts at the wrong byte", "ledger.go", "m.walk.skip(offset); bits", "m.walk.skip(offset / 2); bits"},
	{"a failed message has the length of a good one", "ledger.go", "	case bits != 0:\n		n.length = 0\n", "	case bits != 0:\n"},
	{"timeouts never end a connection", "ledger.go", "l.timeouts > limit || l.tries > limit*retryAliveFactor", "limit < 0"},
	{"a connection without responses ends without a transport error", "ledger.go", "|= layout.DescriptorStatusTransportErrorMask\n", "|= layout.DescriptorStatusRemoteDescriptorErrorMask\n"},
	{"a read response has the rights of the host", "ledger.go", "m.length-offset, v.tag(), layout.AttAccessRemoteRead)", "m.length-offset, v.tag(), layout.AttAccessLocal)"},
	{"a read of 0 bytes checks the handle", "ledger.go", "	if m.length == 0 {\n		return nil, true", "	if false {\n		return nil, true"},
	{"the NAK of a read is not reported", "ledger.go", "	e.env.Async(who, layout.AsyncErrorRDMAReadProtection, index)\n	e.reject(who, index, v.ledger", "	e.reject(who, index, v.ledger"},

	{"an old frame is delivered twice", "reliable.go", "	case behind(v.expected, h.Sequence()):\n", "	case behind(v.expected, h.Sequence()) && operation != layout.FrameOperationSend:\n"},
	{"a duplicate read request executes twice", "reliable.go", "	case behind(v.expected, h.Sequence()):\n", "	case behind(v.expected, h.Sequence()) && operation != layout.FrameOperationRDMAReadRequest:\n"},
	{"a frame behind a gap is accepted", "reliable.go", "	case behind(h.Sequence(), v.expected):\n", "	case false:\n"},
	{"a frame behind a gap is acknowledged", "reliable.go", "			e.acknowledge(who, index, v.expected, layout.AcknowledgeCodeGap)\n", "			e.acknowledge(who, index, h.Sequence()+1, layout.AcknowledgeCodeOk)\n"},
	{"frames behind a NAKed one are accepted", "reliable.go", "	case v.nak != nil:\n", "	case v.nak != nil && operation == layout.FrameOperationRDMAReadRequest:\n"},
	{"the descriptor of a NAKed message does not complete", "reliable.go", "	if !m.dropped {\n		e.lastFrame(who, index, h.Immediate())\n", "	if !m.dropped {\n"},
	{"the VI's read right is not checked", "reliable.go", "&layout.VIContextAttributesEnableRDMAReadMask == 0:", "&layout.VIContextAttributesEnableRDMAReadMask == 0 && h.Immediate() > 4000:"},
	{"a NAKed write is reported as a missing receive descriptor", "reliable.go", "		code = layout.AcknowledgeCodeRDMAProtection\n", "		code = layout.AcknowledgeCodeRemoteDescriptor\n"},
	{"a frame of a read response overwrites the previous one", "reliable.go", "		*m = message{open: true, operation: layout.FrameOperationRDMAReadResponse, segment: r.body.firstData()}\n	}\n", "		*m = message{open: true, operation: layout.FrameOperationRDMAReadResponse, segment: r.body.firstData()}\n	}\n	m.segment, m.offset = r.body.firstData(), 0\n"},

	{"a flushed descriptor has no entry", "completion.go", "tied := e.vis[id.VI].ties[id.Of]; tied > 0 {", "tied := e.vis[id.VI].ties[id.Of]; tied > 0 && n.bits != layout.DescriptorStatusFlushedMask {"},
	{"an entry names the other work queue", "completion.go", "uint32(id.Of)<<layout", "uint32(1-id.Of)<<layout"},
	{"an entry is lost when the capacity changes", "completion.go", "		detail = q.written & 0xffff\n", "		detail = max(q.written, 1) - 1\n"},
	{"an entry is written twice", "completion.go", "		e.enter(who, tied-1, id, body.sequence)\n", "		e.enter(who, tied-1, id, body.sequence)\n		if body.sequence%64 == 63 {\n			e.enter(who, tied-1, id, body.sequence)\n		}\n"},
	{"a full queue is not reported", "completion.go", "		e.env.Async(who, layout.AsyncErrorCompletionQueueOverrun, id.VI)\n", ""},
	{"a queue is full one entry too early", "completion.go", "q.written-q.consumed == 1<<q.log2 }", "q.written-q.consumed == 1<<q.log2-1 }"},
}

// The random runs must find all mutants. The test runs only with HVIA_MUTANTS=1
// or HVIA_LONG=1.
func TestTransportMutants(t *testing.T) {
	softvia := filepath.Join("..", "..", "driver", "internal", "softvia")
	mutants.Check(t, softvia, transportMutants)
	if !mutants.All() {
		t.Skip("compiles the driver for each mutant: HVIA_MUTANTS=1")
	}
	mutants.MustCatch(t, softvia, transportMutants, []string{"."}, "-timeout=5m", "-run=^TestSomeOperationsOfAllLevels$")
}
