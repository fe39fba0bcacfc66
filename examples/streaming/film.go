// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"hvia/driver"
	"hvia/host/mem"
)

// The film: noise frames of equal length, each different. The last four bytes
// of a frame are its number, counted from 1, so that unwritten memory holds no
// number. They arrive last.

const numberBytes = 4

// noise is the source of all frames, each from a different offset.
var noise = func() []byte {
	b := make([]byte, 2*driver.MaxTransferSize)
	x := uint64(0x9e3779b97f4a7c15)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x >> 32)
	}
	return b
}()

// picture is frame k without its number.
func picture(k, n int) []byte {
	from := k * 4099 % driver.MaxTransferSize
	return noise[from : from+n-numberBytes]
}

func fillFrame(b []byte, k int) {
	n := copy(b, picture(k, len(b)))
	binary.LittleEndian.PutUint32(b[n:], uint32(k+1))
}

// numberOf returns the frame that ends in b, -1 for none.
func numberOf(b []byte) int { return int(mem.LoadUint32(b[len(b)-numberBytes:])) - 1 }

func checkFrame(b []byte, k int) error {
	want := picture(k, len(b))
	if got := b[:len(want)]; !bytes.Equal(got, want) {
		for i := range got {
			if got[i] != want[i] {
				return fmt.Errorf("frame %d: byte %d of %d is %#02x, want %#02x", k, i, len(b), got[i], want[i])
			}
		}
	}
	return nil
}
