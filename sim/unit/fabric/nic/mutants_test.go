// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"testing"

	"hvia/sim/unit/internal/unit"
)

type bodies struct{ a, b func(n *nic) }

func both(body func(n *nic)) bodies { return bodies{body, body} }

// Bugs injected into the model, each with the test that must notice it.
func TestPlantedFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a separate build")
	}
	prices := func() bodies { a, b := busPrices(3); return bodies{a, b} }
	late := func() bodies { a, b := latency(paramsWith(nil)); return bodies{a, b} }
	who := func() bodies { a, b := addresses(); return bodies{a, b} }
	faults := []struct {
		name, old, new string
		play           bodies
		params         map[string]int64
	}{
		{"the bus turns for nothing", "constexpr int64_t kTurnClocks = 2;", "const int64_t kTurnClocks = FAULT ? 1 : 2;", prices(), nil},
		{"no wait states", "return grant + (write", "return grant - (FAULT ? waits * p.BridgeWaitClocks : 0) + (write", prices(), nil},
		{"bursts of 516 bytes", "constexpr uint32_t kBurstBytes = 512;", "const uint32_t kBurstBytes = FAULT ? 516 : 512;", prices(), nil},
		{"the firmware is asked twice", "At(t + s_.params->NICReceiveTime,", "At(t + (FAULT ? 2 : 1) * s_.params->NICReceiveTime,", late(), nil},
		{"entries are read before a status", "if (!storing_) Fetch(t, rx_);", "Fetch(t, rx_);", late(), nil},
		{"edges of words are overwritten", "enables |= 1u << (lane + k);", "enables = 0xf;", both(traffic(300, 5)), nil},
		{"a fetch forgets the ring's end", "size - ring.fetch, (kPage", "size - (FAULT ? 0 : ring.fetch), (kPage", both(traffic(300, 5)), nil},
		{"a fetch forgets the page's end", "(kPage - address % kPage) / uint32_t{kRawEntrySize}", "most",
			bodies{func(n *nic) { hostileRingRead(n, 2) }, func(n *nic) {}}, map[string]int64{"NICFetchEntries": 32}},
		{"a piece is reported as a frame", "Return(t, tx_, e, 0, !e.More());", "Return(t, tx_, e, 0, true);", bodies{transmitModeration, func(n *nic) {}}, nil},
		{"the time runs from the last frame", "if (m.unreported++ == 0) m.first = t;", "m.unreported++, m.first = t;", bodies{receiveBatches(), receiveModeration}, nil},
		{"a clear keeps unreported frames", "if ((v & m->cause) != 0) m->unreported = 0;", "(void)m;", bodies{receiveBatches(), receiveModeration}, nil},
		{"a frame of 1515 bytes", "sum <= kMaxFrame", "sum <= kMaxFrame + 1", bodies{hostileEntries, witness}, nil},
		{"a rejected frame's rest is sent", "started_ = rejected_ = pieces_.back().More();", "started_ = pieces_.back().More();", bodies{hostileEntries, witness}, nil},
		{"a page's end is not looked for", "address % kPage + Bytes() <= kPage", "true", bodies{hostileEntries, witness}, nil},
		{"the FIFO takes one frame too many", "fifo_bytes_ + frame.size() >", "fifo_bytes_ + (FAULT ? 0 : frame.size()) >", bodies{burstOf(24, 1500), overrun}, smallFifo},
		{"the FIFO is free when a store begins", "storing_ = true;\n      Store(t, e, 0);", "storing_ = true;\n      fifo_bytes_ -= fifo_.front().size(), fifo_bytes_ += 60;\n      Store(t, e, 0);",
			bodies{burstOf(24, 1500), overrun}, smallFifo},
		{"broadcast is not for us", "std::memcmp(destination, kBroadcast, 6) != 0", "kBroadcast[0] != 0", who(), nil},
		{"everything is for us", "std::memcmp(destination, mac_, 6) != 0", "std::memcmp(destination, mac_, 5) != 0", who(), nil},
		{"a starved ring keeps the frame", "Count(kNICCounterReceiveDropped);\n      PopFrame();\n      continue;", "return;", bodies{burstOf(10, 300), starved}, nil},
		{"a reset does not wait for the bus", "if (bursts_ != 0) return;  // the last burst in flight completes the reset\n  Forget({Kind::kChip, Kind::kTail});", "", both(resets(60, 7)), nil},
		{"RST# does not stop a burst", "Forget({Kind::kHost, Kind::kChip, Kind::kTail, Kind::kBoot});", "Forget({Kind::kHost, Kind::kTail, Kind::kBoot});", both(resets(60, 7)), nil},
		{"a ring that is off is written to", "ring.transmit = transmit, ring.base = base, ring.log2 = log2, ring.start = start, ring.bursts = bursts;",
			"ring.transmit = transmit, ring.base = base, ring.log2 = log2, ring.start = start, ring.bursts = bursts & 0;", both(resets(60, 7)), nil},
		{"an old tail reaches the new ring", "Forget({Kind::kTail});\n  started_", "if (!FAULT) Forget({Kind::kTail});\n  started_", bodies{hostileRing, func(n *nic) {}}, nil},
	}
	var bugs []unit.Bug
	for _, f := range faults {
		bugs = append(bugs, unit.Bug{f.name, "sim/fabric/plain_nic.cc", f.old, f.new})
	}
	unit.MustNotice(t, bugs, func(i int, program string) error {
		f := faults[i]
		return play(t, config{program: program, params: f.params}, f.play.a, f.play.b)
	})
}
