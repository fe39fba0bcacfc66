// SPDX-License-Identifier: Apache-2.0

// Package rig runs one fabric of an experiment and records it: the two sides
// that exchange messages, their payload, the trace, the capture, the digest.
package rig
