// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/pflag"

	"hvia/sim"
)

// checks adds the flags for those who doubt the simulator.
func checks(flags *pflag.FlagSet, value *sim.Checks) {
	flags.BoolVar(&value.Checkers, "checkers", false, "with the assertions of the RTL (same results, slower)")
	flags.BoolVar(&value.NoSkip, "no-skip", false, "simulate every edge of every clock (same results, slower)")
}

// wireFaults adds the flag for fault injection on a fabric's wire.
func wireFaults(flags *pflag.FlagSet, value *sim.WireFaults) {
	flags.Var(value, "faults", "make the wire fail as `SPEC` says, for example drop=1%,delay=100% by 5us")
}
