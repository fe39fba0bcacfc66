// SPDX-License-Identifier: Apache-2.0

// Package faults tries each kind of wire fault on each operation at each
// reliability level, and compares what both programs see with what VIA
// promises.
package faults
