// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"hvia/bench/reproduce"
)

// peer is the second process of an experiment with one process per host. The
// first one starts it.
func (a *app) peer() *cobra.Command {
	return &cobra.Command{
		Use:    reproduce.PeerVerb,
		Short:  "Serve the second host of a running experiment.",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			job, err := io.ReadAll(os.Stdin)
			if err != nil {
				return fmt.Errorf("read the job from standard input: %w", err)
			}
			return a.ServePeer(cmd.Context(), job)
		},
	}
}
