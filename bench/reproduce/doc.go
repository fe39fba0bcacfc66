// SPDX-License-Identifier: Apache-2.0

// Package reproduce runs the experiments of the paper: what a Config asks for
// is in the report.Report that Run returns.
package reproduce
