// SPDX-License-Identifier: Apache-2.0

// Package figures draws a report: the paper's figures 7 to 12, the latency
// waterfall and the pipeline, each as SVG and PNG, and one HTML page that holds
// them all with their tables.
//
// A [hvia/bench.Report] is all that goes in, so a report can be drawn again
// from its JSON. Equal reports give equal bytes. What depends on the machine,
// the wall times, is left out for that reason. A part that the report lacks is
// left out, and the page says so.
//
// The package is apart from bench because it alone needs gonum/plot.
package figures
