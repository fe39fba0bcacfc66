// SPDX-License-Identifier: Apache-2.0

package layout

var pciSection = Section{
	Title: "PCI configuration space",
	Doc:   "",
}
