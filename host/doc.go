// SPDX-License-Identifier: Apache-2.0

// Package host is the simulated machine that programs run on: threads with
// virtual clocks, their processor accounts, and the cost model of software.
// Package mem is the machine's memory.
//
// A Thread holds the context that ends its waits, although contexts usually are
// arguments. A thread serves one goroutine, every call on it may wait, and all
// these waits end together, with the fabric or the program. A context argument
// would be in every signature of the library, and the VIPL functions would not
// match VIPL's. SetContext replaces it for a part of a program.
package host
