// SPDX-License-Identifier: Apache-2.0

// Package benchtest is shared by tests of several experiments: the main
// function that detects leaks, the seed, captures and tshark.
package benchtest
