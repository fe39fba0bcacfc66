// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/pflag"

	"hvia/sim"
)

// checkers adds the flag that builds the RTL's assertions in.
func checkers(flags *pflag.FlagSet, value *bool) {
	flags.BoolVar(value, "checkers", false, "with the assertions of the RTL (same results, slower)")
}

// wireFaults adds the flag for fault injection on a fabric's wire.
func wireFaults(flags *pflag.FlagSet, value *sim.WireFaults) {
	flags.Var(value, "faults", "make the wire fail as `SPEC` says, for example drop=1%,delay=100% by 5us")
}
