// SPDX-License-Identifier: Apache-2.0

// Package report is what a reproduction of the paper writes and reads: the
// JSON of a report, its tables, and the targets it is held to. It does not
// know how anything was measured.
package report
