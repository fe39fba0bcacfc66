// SPDX-License-Identifier: Apache-2.0

// Package host is the simulated machine that programs run on: threads with
// virtual clocks, the account of their processor time, and the cost model that
// says how long software takes. Package mem is the machine's memory.
//
// A Thread holds the context that ends its waits, although contexts usually
// are arguments. A thread acts for one goroutine, every call on it may wait,
// and all of these waits end together, with the fabric or the program. As an
// argument the context would stand in every signature of the library and the
// VIPL functions would not look like VIPL's. SetContext replaces it for a part
// of a program.
package host
