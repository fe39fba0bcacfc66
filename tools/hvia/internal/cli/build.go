// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// build compiles the simulator before the first run. It is for the Makefile;
// the other verbs build what they need.
func (a *app) build() *cobra.Command {
	return &cobra.Command{
		Use:    "build",
		Short:  "Build the simulator.",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needCheckout(); err != nil {
				return err
			}
			path, err := a.BuildSimulator(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.Stdout, path)
			return err
		},
	}
}
