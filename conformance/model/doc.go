// SPDX-License-Identifier: Apache-2.0

// Package model says what the Virtual Interface Architecture promises, as plain
// Go: what a program gets back for what it posts. It knows no clocks, no bus and
// nothing of a card's inside. Runs on the simulated card are judged by it.
//
// A Fabric has Hosts, a Host has memory, registered regions and VIs, and a VI
// has two work queues. Every call takes effect at once and completely: a post
// on the send queue of a connected VI is carried out, its message delivered, and
// both descriptors completed, before the call returns. What a program can see
// afterwards is compared with the real thing: the completions of each queue in
// their order, the asynchronous errors, and every byte of memory.
//
// # Where the rules come from
//
// Comments name the source of each rule:
//
//   - [VIA]: the architecture, version 1.0, and VIPL's headers and manual pages.
//   - [card]: section 6 of docs/reference/card.md, which decides what VIA
//     leaves to the provider: how much of a message in error was moved, which
//     of several errors is told.
//   - [vipl]: the list of decisions in package vipl.
//   - [transport]: docs/explanation/transport.md, of the reliable levels.
//
// # What is left open
//
// Neither says how far work came when a connection ends under it. The model
// goes to the end, unless Stop told it where to stop. An error bit that a
// provider may but need not set beside others stands in Completion.MaySet, and a
// status that is as good as the one expected in Completion.Or.
// No order is promised between queues, so the asynchronous errors of a VI are a
// multiset, and so are the entries of a completion queue.
//
// The wire keeps the order of each connection, and loses what Fabric.Lose says of
// unreliable ones. With unreliable delivery an error ends the descriptor, at the
// reliable levels the connection.
package model
