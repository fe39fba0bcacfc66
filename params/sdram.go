// SPDX-License-Identifier: Apache-2.0

package params

// PC100 SDRAM on the card.
var sdramTable = []Param{}
