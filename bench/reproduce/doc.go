// SPDX-License-Identifier: Apache-2.0

// Package reproduce runs the experiments of the paper: Run measures what a
// Config requests and returns it in a report.Report.
package reproduce
