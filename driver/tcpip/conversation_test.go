// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/host"
)

// sum returns the Internet checksum of pieces; all but the last have an even
// length.
func sum(pieces ...[]byte) uint16 {
	total := uint32(0)
	for _, p := range pieces {
		for ; len(p) > 1; p = p[2:] {
			total += uint32(binary.BigEndian.Uint16(p))
		}
		if len(p) == 1 {
			total += uint32(p[0]) << 8
		}
	}
	for total > 0xffff {
		total = total&0xffff + total>>16
	}
	return ^uint16(total)
}

// conversation summarizes the frames of a trace.
type conversation struct {
	flags    []string // of each segment, "<node><flags>" or "<node>arp"
	data     [2]int   // segments with data, by sender
	bytes    [2]int
	acks     [2]int // pure acknowledgements
	again    int    // segments whose bytes were sent before
	largest  int    // bytes of data in a segment
	syn      [2]layers.TCP
	connects int
}

// read parses a trace, and fails on an invalid frame.
func (f *world) read(t *testing.T) (c conversation) {
	t.Helper()
	type stream struct {
		from     int
		src, dst uint16
	}
	next := map[stream]uint32{}
	for i, r := range f.trace {
		p := gopacket.NewPacket(r.frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{})
		require.Nil(t, p.ErrorLayer(), "frame %d: %v", i, p)
		eth := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
		own := driver.NodeMAC(r.from)
		require.Equal(t, own[:], []byte(eth.SrcMAC), "frame %d", i)
		if p.Layer(layers.LayerTypeARP) != nil {
			c.flags = append(c.flags, fmt.Sprintf("%darp", r.from))
			continue
		}
		ip := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
		require.Zero(t, sum(ip.Contents), "frame %d: checksum of the IP header", i)
		require.LessOrEqual(t, int(ip.Length), mtu)
		require.Equal(t, Address(r.from).String(), ip.SrcIP.String())
		tcp := p.Layer(layers.LayerTypeTCP).(*layers.TCP)
		pseudo := append(append([]byte{}, ip.SrcIP.To4()...), ip.DstIP.To4()...)
		pseudo = binary.BigEndian.AppendUint16(append(pseudo, 0, byte(layers.IPProtocolTCP)), uint16(len(ip.Payload)))
		require.Zero(t, sum(pseudo, ip.Payload), "frame %d: checksum of TCP", i)
		flags := ""
		for _, b := range []struct {
			set  bool
			name string
		}{{tcp.SYN, "S"}, {tcp.FIN, "F"}, {tcp.RST, "R"}, {tcp.ACK, "A"}} {
			if b.set {
				flags += b.name
			}
		}
		n := len(tcp.Payload)
		if n > 0 {
			flags += "+"
			c.data[r.from]++
			c.bytes[r.from] += n
			c.largest = max(c.largest, n)
		}
		if flags == "A" {
			c.acks[r.from]++
		}
		if tcp.SYN {
			c.syn[r.from] = *tcp
			c.connects++
		}
		c.flags = append(c.flags, fmt.Sprint(r.from, flags))
		s, length := stream{r.from, uint16(tcp.SrcPort), uint16(tcp.DstPort)}, n
		if tcp.SYN || tcp.FIN {
			length++
		}
		if want, known := next[s]; known && length > 0 && !tcp.SYN && int32(tcp.Seq-want) < 0 {
			c.again++
		} else if length > 0 {
			next[s] = tcp.Seq + uint32(length)
		}
	}
	return c
}

func option(t layers.TCP, kind layers.TCPOptionKind) []byte {
	for _, o := range t.Options {
		if o.OptionType == kind {
			return append([]byte{}, o.OptionData...)
		}
	}
	return nil
}

func TestConversation(t *testing.T) {
	f, err := play(t, gigabit(), transfer(t, pattern(1, 100), pattern(2, 3000))...)
	require.NoError(t, err)
	c := f.read(t)
	assert.Equal(t, []string{
		"0arp", "1arp", "0S", "1SA", "0A", // address resolution, handshake
		"0A+", "0FA", "1A", // 100 bytes and the end of this direction
	}, c.flags[:8])
	assert.Equal(t, [2]int{100, 3000}, c.bytes)
	assert.Equal(t, [2]int{1, 3}, c.data)
	assert.Equal(t, 1448, c.largest)
	assert.Zero(t, c.again)
	fins := 0
	for _, s := range c.flags {
		if s == "0FA" || s == "1FA" {
			fins++
		}
		assert.NotContains(t, s, "R")
	}
	assert.Equal(t, 2, fins)
	for node := range 2 {
		syn := c.syn[node]
		assert.Equal(t, []byte{1460 >> 8, 1460 & 255}, option(syn, layers.TCPOptionKindMSS), "node %d", node)
		assert.Len(t, option(syn, layers.TCPOptionKindTimestamps), 8, "node %d", node)
		assert.NotNil(t, option(syn, layers.TCPOptionKindWindowScale), "node %d", node)
	}
	assert.NotEqual(t, c.syn[0].Seq, c.syn[1].Seq)
}

// A run without loss has no retransmission, and an acknowledgement for each
// segment. With selective acknowledgement segments are smaller; RACK, which
// needs it, would treat some as lost on a fast host.
func TestEachSegmentIsAcknowledged(t *testing.T) {
	for _, v := range []struct {
		sack  bool
		size  int
		costs host.KernelCosts
	}{{false, 1448, testCosts()}, {true, 1420, testCosts()}, {true, 1420, host.KernelCosts{}}} {
		r := gigabit()
		r.costs = v.costs
		r.config = func(int) Config { return Config{Sack: v.sack} }
		f, err := play(t, r, transfer(t, pattern(1, 1<<20), pattern(2, 1))...)
		require.NoError(t, err)
		c := f.read(t)
		assert.Zero(t, c.again)
		assert.Equal(t, v.size, c.largest)
		assert.Equal(t, v.sack, option(c.syn[0], layers.TCPOptionKindSACKPermitted) != nil)
		assert.InDelta(t, (1<<20+v.size-1)/v.size, c.data[0], 2, "where the window cut one in two")
		assert.GreaterOrEqual(t, c.acks[1], c.data[0])
		assert.LessOrEqual(t, c.acks[1], c.data[0]*11/10, "and a few of the window")
	}
}

// The seed decides the losses, and every byte arrives in spite of them.
func TestLoss(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		r := gigabit()
		r.config = func(int) Config { return Config{Sack: seed%2 == 1, Congestion: []string{Reno, Cubic}[seed/2%2]} }
		lost := 0
		lose := newRandom(seed+1, 0, 3)
		r.lose = func(int, int, []byte) bool {
			if lose.Int63()%100 == 0 {
				lost++
				return true
			}
			return false
		}
		f, err := play(t, r, transfer(t, pattern(seed, 1<<20), pattern(seed+1, 1<<20))...)
		require.NoError(t, err, "seed %d", seed)
		c := f.read(t)
		assert.NotZero(t, c.again, "seed %d", seed)
		assert.Greater(t, lost, 10, "seed %d", seed)
		t.Logf("seed %d: %d of %d frames lost, %d segments again, %v", seed, lost, len(f.trace), c.again, f.now)
	}
}

// One lost segment in a full window is retransmitted after three duplicate
// acknowledgements, not after a timeout; one without a successor waits for the
// timeout.
func TestFastRetransmitAndTimeout(t *testing.T) {
	for _, v := range []struct {
		name     string
		size     int
		drop     int // index of the segment with data
		min, max host.Time
	}{
		{"none", 64 << 10, -1, 0, 5 * host.Millisecond},
		{"in the middle", 64 << 10, 20, 0, 5 * host.Millisecond},
		{"the last", 20 * segment, 19, 200 * host.Millisecond, 300 * host.Millisecond},
	} {
		t.Run(v.name, func(t *testing.T) {
			r := gigabit()
			seen := 0
			r.lose = func(from, _ int, frame []byte) bool {
				if from != 0 || len(frame) < 1000 {
					return false
				}
				seen++
				return seen == v.drop+1
			}
			// The answer follows without delay, so the run ends with the end of
			// the data.
			f, err := play(t, r, transfer(t, pattern(1, v.size), nil)...)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, f.now, v.min)
			assert.Less(t, f.now, v.max)
			again := f.read(t).again
			if v.drop >= 0 {
				assert.NotZero(t, again)
			} else {
				assert.Zero(t, again)
			}
		})
	}
}
