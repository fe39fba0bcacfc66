// SPDX-License-Identifier: Apache-2.0

// Package bridge holds the tests of the bridge with the real simulator and its
// echo test device.
package bridge

import "unsafe"

// WordAt is the aligned dword at a physical address, for atomic access.
func WordAt(memory []byte, address uint32) *uint32 {
	_ = memory[address+3]
	return (*uint32)(unsafe.Pointer(&memory[address]))
}
