// SPDX-License-Identifier: Apache-2.0

package layout

var attSection = Section{
	Title: "Address translation table",
	Doc:   "",
}
