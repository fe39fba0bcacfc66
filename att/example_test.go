// SPDX-License-Identifier: Apache-2.0

package att_test

import (
	"fmt"

	"hvia/att"
	"hvia/layout"
)

// A buffer of 6000 bytes over two scattered physical pages.
func Example() {
	table, err := att.NewTable(1024)
	if err != nil {
		fmt.Println(err)
		return
	}
	reg, err := table.Register(att.Region{
		Start: 0x10000800, Length: 6000, Pages: []uint32{0x00345000, 0x00017000}, Tag: 42, RDMAWrite: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, va := range []uint64{0x10000800, 0x10001000} {
		p, err := table.Translate(reg.Handle, va, 100, 42, layout.AttAccessRemoteWrite)
		fmt.Printf("%#x is at %#x, %d bytes follow in the page (%v)\n", va, p.Address, p.Bytes, err)
	}
	_, err = table.Translate(reg.Handle, 0x10001000, 6000, 42, layout.AttAccessRemoteWrite)
	fmt.Println(att.Code(err))
	// Output:
	// 0x10000800 is at 0x345800, 2048 bytes follow in the page (<nil>)
	// 0x10001000 is at 0x17000, 3952 bytes follow in the page (<nil>)
	// Bounds
}
