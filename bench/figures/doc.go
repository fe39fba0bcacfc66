// SPDX-License-Identifier: Apache-2.0

// Package figures draws a report: the paper's figures 7 to 12, the latency
// waterfall and the pipeline, each as SVG and PNG, and one HTML page that holds
// them all with their tables.
//
// A [hvia/bench/report.Report] is the only input, so a report can be drawn from
// its JSON. Equal reports give equal bytes: wall times, which depend on the
// machine, are left out. Parts that the report lacks are left out, too, and the
// page says so.
//
// The package is separate because it alone needs gonum/plot.
package figures
