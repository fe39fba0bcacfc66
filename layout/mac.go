// SPDX-License-Identifier: Apache-2.0

package layout

import "fmt"

// MAC is an Ethernet address in wire order.
type MAC [6]byte

func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}
