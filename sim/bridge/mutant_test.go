// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/sim"
	"hvia/sim/verilate"
	"hvia/tools/mutants"
)

// programVariable is the environment variable with the path of a simulator. The
// tests of guests run it instead of building one.
const programVariable = "HVIA_BRIDGE_GUEST_PROGRAM"

func echoProgram(t testing.TB) string {
	t.Helper()
	if program := os.Getenv(programVariable); program != "" {
		return program
	}
	program, err := sim.EchoSimulator(limited(t, 10*time.Minute))
	require.NoError(t, err)
	return program
}

// The tests catch a simulator that permits forbidden actions of guests.
func TestMutantGuestIsCaught(t *testing.T) {
	if !mutants.All() {
		t.Skip("builds simulators with injected bugs: make mutants")
	}
	const (
		scheduler = "sim/fabric/scheduler.cc"
		guests    = "sim/fabric/guests.cc"
		mailboxes = "sim/fabric/mailboxes.cc"
		server    = "sim/fabric/control_server.cc"
		pages     = "sim/fabric/shared_pages.cc"
		memory    = "sim/fabric/host_memory.cc"
	)
	cases := []struct{ file, old, replacement, test string }{
		{guests, "if (!g.pages[page]) return", "if (!g.pages[page] && !FAULT) return", "TestGuestViolations"},
		{guests, "+ 4 * static_cast<uint64_t>(c.count) > kDoorbellPageBytes", "+ (FAULT ? 0 : 4 * static_cast<uint64_t>(c.count)) > kDoorbellPageBytes", "TestGuestViolations"},
		{guests, "g->pages[page] = on;", "g->pages[page] = on || FAULT;", "TestDoorbellTakenBack"},
		{guests, "bytes <= hi - address", "bytes <= hi", "TestGuestViolations"},
		{guests, "if (w.start != s.clock || w.deadline < w.start) return", "if ((w.start != s.clock && !FAULT) || w.deadline < w.start) return", "TestGarbageInTheSlotPage"},
		{guests, "if (timed_ && s.wait.armed) return", "if (timed_ && s.wait.armed && !FAULT) return", "TestGarbageWhileWaiting"},
		{scheduler, "*violation = true;", "", "TestGuestAttachesItsRanksOnly"},
		{scheduler, "if (!left) slots_.DropCommands(s);", "", "TestViolatorIsNotServed"},
		{scheduler, "FinishGuest(*g, kBridgeGuestEndStuck, guests_", "if (FAULT) Stop(kBridgeStopStuck, text); else FinishGuest(*g, kBridgeGuestEndStuck, guests_", "TestStuckGuest"},
		{guests, "if (++s->acts <= kBridgeMaxGuestCommands) return", "if (FAULT || ++s->acts <= kBridgeMaxGuestCommands) return", "TestGuestWithoutMeasure"},
		{scheduler, "Load32(s.page, kBridgeSlotAbortOffset) == s.wait.sequence", "Load32(s.page, kBridgeSlotAbortOffset) != 0", "TestLateAbort"},
		{mailboxes, "if (left.size() <= kBridgeMaxLeftMessages) return;", "if (true) return;", "TestMessagesOfProcessesThatLeft"},
		{mailboxes, "if (!keep) Remove(", "if (!keep && (sender == 0 || !FAULT)) Remove(", "TestMessagesOfOneThatDied"},
		{scheduler, "!HasRank(to)", "false", "TestMessageToNobody"},
		{scheduler, "c.tag == 0 ? s.owner.guest : 0", "0", "TestBarrierGroups"},
		{guests, "held < stall_ns_", "true", "TestStallingGuest"},
		{guests, "s->clock - s->instant >= static_cast<Time>(kBridgeGuestSpan)", "s->clock != s->instant", "TestGuestWithoutMeasure"},
		{server, "if (guests_) CloseSocket(c);", "", "TestNewGuestRejections"},
		{server, "if (end.reason != kBridgeGuestEndOwner) SendEnd(c, end);", "SendEnd(c, end);", "TestEndGuest"},
		{pages, "others == Others::kReadOnly ? F_SEAL_FUTURE_WRITE : 0", "0 * static_cast<int>(others)", "TestHeaderIsReadOnly"},
		{memory, "const std::string why = MapOver(first, frames, bank.Descriptor(), 0);", "const std::string why = FAULT ? \"\" : MapOver(first, frames, bank.Descriptor(), 0);", "TestKilledGuest"},
	}
	var bugs [][]verilate.Mutant
	for _, c := range cases {
		bugs = append(bugs, []verilate.Mutant{{File: c.file, Old: c.old, New: c.replacement}})
	}
	root, err := verilate.Root()
	require.NoError(t, err)
	mutants, err := verilate.Switch(root, bugs)
	require.NoError(t, err)
	program, err := sim.EchoSimulator(limited(t, 10*time.Minute), mutants...)
	require.NoError(t, err)
	for i, c := range cases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel() // most wait
			cmd := exec.CommandContext(limited(t, 5*time.Minute), os.Args[0], "-test.run", "^("+c.test+")", "-test.failfast")
			cmd.Env = append(os.Environ(), programVariable+"="+program, fmt.Sprintf("%s=%d", verilate.FaultVariable, i+1), "HVIA_MUTANTS=", "HVIA_LONG=")
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "not caught: %s -> %s", c.old, c.replacement)
			require.True(t, strings.Contains(string(out), "--- FAIL") || strings.Contains(string(out), "panic: "), "%v: %s", err, out)
		})
	}
}
