// SPDX-License-Identifier: Apache-2.0

// Package driver is the host side below VIPL: the kernel agent of each node,
// which owns the card, its translation table, its VIs and the connection
// protocol, and the calls of a process to it. Package card has the registers.
// With the device "mvia" a host has a plain Ethernet NIC instead of the card,
// and its agent implements VIA in software; other protocols of the kernel
// attach to that NIC with Host.AttachProtocol.
//
// Privileged work goes through the agent: a request is a message to its thread,
// which serves requests in the order of simulated time, so that a run does not
// depend on goroutine scheduling. Posts, doorbells and polls bypass it; package
// vipl does them with a Thread and host memory alone. On M-VIA a doorbell, and
// a wait that blocks, is a system call on the calling thread.
package driver
