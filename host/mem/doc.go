// SPDX-License-Identifier: Apache-2.0

// Package mem is the memory of a simulated host: buffers whose consecutive
// pages lie in scattered physical frames, pinning, and banks, the part of a
// node's memory that belongs to one process.
package mem
