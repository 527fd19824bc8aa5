package main

import (
	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/switchover/shadow/cli"
)

func newReplayCommand() *cobra.Command {
	o := cli.Mirror{Exit: true}
	var options cli.ReplayOptions
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Drive a control and a test target from a recording, and judge the test",
		Long: `Drive two targets from a file of cinch record, and judge the test as cinch shadow does. Both targets should hold the data
that production had when the recording began. Nothing is dropped: operations that the targets can't take in time are late.

With --test cinch=URL both targets are first measured as they are (A/A phase), with half of the recording at most. Then a
Cinch gateway with the given rules is put in front of the test target.

Exit codes: 0 PASS, 1 failed, 2 the command line is wrong, 3 INCONCLUSIVE or VOID, 4 FAIL, 10 a server can't be used.`,
		Example: `  cinch replay monday.cinchrec --identity key.txt --control redis://a.internal --test cinch=redis://b.internal --batch 5s
  cinch replay monday.cinchrec --identity key.txt --control redis://a.internal --test redis://b.internal --speed max`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			signals, stop := shadowSignals()
			defer stop()
			options.File = args[0]
			return verdictCode(o.Replay(cmd.Context(), options, signals, cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	addTargetFlags(cmd.Flags(), &o)
	cmd.Flags().StringArrayVar(&options.Identities, "identity", nil, "`FILE` of age identities that can read the recording (may be repeated)")
	cmd.Flags().StringVar(&options.Speed, "speed", "1", "`FACTOR` of the recorded pace, or max")
	return cmd
}
