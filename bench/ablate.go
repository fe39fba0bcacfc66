// SPDX-License-Identifier: Apache-2.0

package bench

import "strings"

func (a *Ablations) writeText(b *strings.Builder) {
	if a == nil {
		return
	}
}
