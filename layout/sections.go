// SPDX-License-Identifier: Apache-2.0

package layout

import "strconv"

var sections = []Section{
	pciSection,
	registerSection,
	doorbellSection,
	descriptorSection,
	attSection,
	viSection,
	completionQueueSection,
	commandSection,
	frameSection,
	rawSection,
	nicSection,
	macSection,
	connectionSection,
	traceSection,
	counterSection,
	bridgeSection,
}

func unknown(name string, v uint64) string {
	return name + "(" + strconv.FormatUint(v, 10) + ")"
}
