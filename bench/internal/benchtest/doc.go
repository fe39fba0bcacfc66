// SPDX-License-Identifier: Apache-2.0

// Package benchtest is what tests of several experiments share: the main function
// that looks for leaks, the seed, captures and what tshark reads in them.
package benchtest
