// SPDX-License-Identifier: Apache-2.0

package layout

var bridgeSection = Section{
	Title: "Bridge pages",
	Doc:   "",
}
