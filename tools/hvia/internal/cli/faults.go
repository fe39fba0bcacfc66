// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/pflag"

	"hvia/sim"
)

// wireFaults adds the flag of a command whose fabric's wire can be made to fail.
func wireFaults(flags *pflag.FlagSet, value *sim.WireFaults) {
	flags.Var(value, "faults", "make the wire fail as `SPEC` says, for example drop=1%,delay=100% by 5us")
}
