// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/sim/bridge"
)

// newTestBank returns a bank as its agent and its process see it: frames 64 to
// 64+frames-1 of a node, at frame 8 of their file.
func newTestBank(t testing.TB, frames int) (agent, process *Memory, linear []byte, use useTable) {
	t.Helper()
	fd, linear := memoryFile(t, 8+frames)
	use = useTable{}
	c := Config{Fd: fd, Frames: frames, First: 64, Skip: 8, Use: use, Seed: 5, Budget: NewBudget(1000)}
	agent, err := NewBank(c)
	require.NoError(t, err)
	t.Cleanup(agent.Close)
	c.Use = nil
	process, err = OpenBank(c)
	require.NoError(t, err)
	t.Cleanup(process.Close)
	return agent, process, linear, use
}

// A process sees at a virtual address the contents of the frames that the agent
// allocated.
func TestBankIsSharedByItsTable(t *testing.T) {
	agent, process, linear, use := newTestBank(t, 512)
	for i, how := range []Scatter{Single, Runs, Contiguous} {
		n := 40*PageBytes - 100*i
		linear[8*PageBytes+9*PageBytes] = 0xff // leftover of the previous buffer, in the first frame behind the table
		a, err := agent.Allocate(n, how)
		require.NoError(t, err)
		p, err := process.Adopt(a.Address(), n)
		require.NoError(t, err)
		require.Equal(t, n, p.Len())
		require.Len(t, p.Bytes(), n)
		require.Equal(t, make([]byte, n), p.Bytes(), "memory comes zeroed")
		require.Equal(t, a.Physical(nil, 0, n), p.Physical(nil, 0, n))
		for j := range p.Bytes() {
			p.Bytes()[j] = byte(j*7 + i)
		}
		at := 0
		for _, r := range p.Physical(nil, 0, n) {
			require.GreaterOrEqual(t, r.Address, uint32(64+bankTable(512))*PageBytes, "the table is not given out")
			require.LessOrEqual(t, r.Address+r.Length, uint32(64+512)*PageBytes)
			file := (int(r.Address)/PageBytes-64+8)*PageBytes + int(r.Address)%PageBytes
			require.Equal(t, p.Bytes()[at:at+int(r.Length)], linear[file:file+int(r.Length)])
			at += int(r.Length)
		}
		// Pin counts uses by physical frame number, also in a bank.
		pages, err := agent.Pin(bridge.UseRegion, a.Address(), uint64(n))
		require.NoError(t, err)
		for _, page := range pages {
			require.Equal(t, 1, use[int(page/PageBytes)][bridge.UseRegion])
		}
		require.ErrorIs(t, a.Free(), host.ErrInUse)
		require.NoError(t, agent.Unpin(bridge.UseRegion, a.Address(), uint64(n)))
	}
	// A process can neither allocate, nor free, nor pin.
	_, err := process.Allocate(1, Single)
	require.ErrorIs(t, err, host.ErrInvalidParameter)
	b := process.buffers[0]
	require.ErrorIs(t, b.Free(), host.ErrInvalidParameter)
	_, err = process.Pin(bridge.UseRegion, b.Address(), 1)
	require.ErrorIs(t, err, host.ErrInvalidParameter)
}

// A process that writes into its page table reaches neither memory outside its
// bank nor the agent.
func TestBankWithABadTable(t *testing.T) {
	agent, process, _, _ := newTestBank(t, 512)
	a, err := agent.Allocate(2*PageBytes, Single)
	require.NoError(t, err)
	entry := process.bank.entry(a.Address(), 1)
	good := LoadUint32(entry)
	for _, bad := range []uint32{0, good &^ pagePresent, 63*PageBytes | pagePresent, (64+512)*PageBytes | pagePresent, 0xfffff001} {
		StoreUint32(entry, bad)
		_, err := process.Adopt(a.Address(), a.Len())
		require.ErrorIs(t, err, host.ErrInvalidParameter, "%#x", bad)
		require.ErrorContains(t, err, fmt.Sprintf("%#x", bad))
	}
	require.Zero(t, process.budget.Used())
	for _, bad := range []uint64{0, a.Address() + 1, firstAddress - PageBytes, spaceEnd(512), spaceEnd(512) - PageBytes} {
		_, err := process.Adopt(bad, 2*PageBytes)
		require.ErrorIs(t, err, host.ErrInvalidParameter, "%#x", bad)
	}
	require.Len(t, a.Physical(nil, 0, a.Len()), 2)
	require.NoError(t, a.Free())
}

// Random allocations and frees, until addresses have been reused many times: no
// two buffers share a frame or an address, and each keeps its contents.
func TestBankAddressesAreUsedAgain(t *testing.T) {
	const frames = 256
	agent, process, _, _ := newTestBank(t, frames)
	random := rand.New(rand.NewPCG(1, 2))
	type pair struct {
		agent, process *Buffer
		value          byte
	}
	var live []pair
	first, reused := map[uint64]bool{}, 0
	for i := range 5000 {
		if len(live) > 0 && random.IntN(2) == 0 {
			k := random.IntN(len(live))
			p := live[k]
			require.Equal(t, bytes.Repeat([]byte{p.value}, p.process.Len()), p.process.Bytes())
			require.NoError(t, p.agent.Free())
			if random.IntN(2) == 0 {
				process.Sweep()
				require.Nil(t, p.process.Bytes())
			}
			live = append(live[:k], live[k+1:]...)
			continue
		}
		a, err := agent.Allocate(1+random.IntN(6*PageBytes), Scatter(random.IntN(2)))
		if err != nil {
			require.ErrorIs(t, err, host.ErrResource)
			continue
		}
		p, err := process.Adopt(a.Address(), a.Len())
		require.NoError(t, err)
		if first[a.Address()] {
			reused++
		}
		first[a.Address()] = true
		for _, o := range live {
			require.False(t, o.agent.address < a.end() && a.address < o.agent.end(), "a buffer lies in another, or in its guard")
		}
		v := byte(i)
		copy(p.Bytes(), bytes.Repeat([]byte{v}, p.Len()))
		live = append(live, pair{a, p, v})
	}
	require.Greater(t, reused, 100)
	for _, p := range live {
		require.NoError(t, p.agent.Free())
	}
	process.Sweep()
	require.Empty(t, process.buffers)
	require.Zero(t, process.budget.Used())
	_, err := agent.Allocate((frames-bankTable(frames)-blockFrames)*PageBytes, Single)
	require.NoError(t, err, "all frames are free again")
}

// A bank without space for its table is rejected, and so is one that does not
// fit.
func TestBankLimits(t *testing.T) {
	fd, _ := memoryFile(t, 64)
	for _, c := range []Config{{Frames: 0}, {Frames: 16}, {Frames: 64, First: -1}, {Frames: 64, First: 1 << 20}, {Frames: 64, Skip: -1}} {
		c.Fd, c.Use = fd, useTable{}
		_, err := NewBank(c)
		require.ErrorIs(t, err, host.ErrInvalidParameter, "%+v", c)
	}
}
