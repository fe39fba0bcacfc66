// SPDX-License-Identifier: Apache-2.0

// Package report writes and reads the results of a reproduction of the paper:
// the JSON of a report, its tables, and its targets. It does not know how
// anything was measured.
package report
