// SPDX-License-Identifier: Apache-2.0

package figures

import "hvia/bench/report"

// sample is a complete report with made-up numbers of the right magnitude.
func sample() *report.Report {
	r, err := report.Read("testdata/sample.json")
	if err != nil {
		panic(err)
	}
	return r
}
