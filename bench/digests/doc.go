// SPDX-License-Identifier: Apache-2.0

// Package digests runs the experiments and compares their digests and printed
// times with a committed table, so that no change goes unnoticed.
package digests
