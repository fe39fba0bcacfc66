// SPDX-License-Identifier: Apache-2.0

// Package simspeed measures how much time of this machine the simulator takes:
// to run a stream, a ping-pong and an idle second, and to be built.
package simspeed
