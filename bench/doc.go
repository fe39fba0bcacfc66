// SPDX-License-Identifier: Apache-2.0

// Package bench holds the experiments of the paper, what they are asked
// (ReproduceConfig, DemoConfig) and what they answer (Report, DemoReport).
// It prints nothing by itself: the command hvia does.
package bench
