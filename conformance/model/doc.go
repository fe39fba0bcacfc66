// SPDX-License-Identifier: Apache-2.0

// Package model is the reference model of the Virtual Interface Architecture in
// plain Go: it predicts the results of what a program posts. It has no clock,
// bus or card internals. Tests compare runs on the simulated card with it.
//
// A Fabric has Hosts, a Host has memory, registered regions and VIs, and a VI
// has two work queues. Every call takes effect at once and completely: a post
// on the send queue of a connected VI executes the descriptor, delivers the
// message, and completes both descriptors before it returns. Tests then compare
// what a program can observe: the completions of each queue in order, the
// asynchronous errors, and every byte of memory.
//
// # Where the rules come from
//
// Comments name the source of each rule:
//
//   - [VIA]: the architecture, version 1.0, VIPL's headers and manual pages.
//   - [card]: section 6 of docs/reference/card.md. It decides what VIA leaves
//     open: how many bytes of a message in error move, and which of several
//     errors is reported.
//   - [vipl]: the list of decisions in package vipl.
//   - [transport]: docs/explanation/transport.md, for the reliable levels.
//
// # What is left open
//
// The sources do not say how far work proceeds before a connection ends. The
// model executes all of it, or up to the limits of Stop. Completion.MaySet has
// error bits that a provider may set in addition, Completion.Or an alternative
// status. Different queues have no common order, so the asynchronous errors of
// a VI are a multiset, and so are the entries of a completion queue.
//
// The wire keeps the order of each connection. It loses the frames of
// unreliable VIs that Fabric.Lose selects. An error ends the descriptor with
// unreliable delivery, and the connection at the reliable levels.
package model
