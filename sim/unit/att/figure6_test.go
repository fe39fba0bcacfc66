// SPDX-License-Identifier: Apache-2.0

package att_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/att"
	"hvia/layout"
	"hvia/sim/unit/internal/unit"
)

// The example of the paper's Figure 6 in the RTL: a buffer of 9 KB at virtual
// address 1C00h over pages at 2C00h (only its last 1 KB), 5000h and 8000h. The
// entries are those of the figure, and every byte is translated.
func TestPaperFigure6(t *testing.T) {
	const start, length, handle, tag = 0x1c00, 9 << 10, 1<<layout.AttHandleValueGenerationLsb | 2, 1
	program := unit.Build(t, spec(t))
	for name, straps := range map[string]uint32{"table in SDRAM": 0, "table in host memory": 1 << layout.StrapAttInHostMemory} {
		t.Run(name, func(t *testing.T) {
			b := startBench(t, program, unit.Seed(t), 30_000, false, straps)
			entry := layout.AttLevel1(make([]byte, layout.AttLevel1Size))
			entry.SetStartAddress(start)
			entry.SetLevel2Address(layout.AttLevel2Base + 40)
			entry.SetPageCount(3)
			entry.SetFirstBytes(1 << 10)
			entry.SetLastBytes(4 << 10)
			entry.SetAttributes(layout.AttLevel1AttributesValidMask | 1<<layout.AttLevel1AttributesGenerationLsb | tag<<layout.AttLevel1AttributesTagLsb)
			decoded, err := att.DecodeEntry(entry)
			require.NoError(t, err)
			words := decoded.Dwords()
			var id uint32
			step := func(o operation, words []uint32) event {
				id++
				o.ID = id
				require.NoError(t, errors.Join(b.send(o, words), b.send(operation{Kind: opRun}, nil), b.flush()))
				var answer event
				for {
					e, err := b.next()
					require.NoError(t, err)
					switch e.Type {
					case evDone, evResponse:
						answer = e
					case evRan:
						require.Equal(t, id, answer.ID)
						return answer
					}
				}
			}
			for _, w := range []struct {
				op    operation
				words []uint32
			}{
				{operation{Kind: opLimit, Argument: 16}, nil},
				{operation{Kind: opWrite, Argument: layout.AttLevel2Base + 40, Length: 3}, []uint32{0x2c00, 0x5000, 0x8000}},
				{operation{Kind: opWrite, Argument: att.Level1Address(2), Length: uint32(len(words))}, words},
			} {
				w.op.Lane = updateLane
				require.Equal(t, none, step(w.op, w.words).Error)
			}
			translate := func(va uint64, n uint32) event {
				return step(operation{Kind: opTranslate, Lane: uint8(layout.AttClientReceive), Argument: handle, Va: va, Length: n, Tag: tag}, nil)
			}
			for va := uint64(start); va < start+length; va++ {
				address, bytes := uint32(va-0x1c00+0x2c00), uint32(0x2000-va)
				switch {
				case va >= 0x3000:
					address, bytes = uint32(va-0x3000+0x8000), uint32(0x4000-va)
				case va >= 0x2000:
					address, bytes = uint32(va-0x2000+0x5000), uint32(0x3000-va)
				}
				e := translate(va, uint32(start+length-va))
				require.Equal(t, none, e.Error, "virtual address %#x", va)
				require.Equal(t, address, e.Address, "virtual address %#x", va)
				require.Equal(t, bytes, e.Bytes, "bytes from virtual address %#x to the end of the page", va)
			}
			for _, va := range []uint64{start - 1, start + length} {
				require.Equal(t, uint8(layout.AttErrorBounds), translate(va, 1).Error, "virtual address %#x", va)
			}
		})
	}
}
