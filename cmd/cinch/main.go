// Command cinch is a compression layer for the data path: it sits in front of a store and compresses the
// values, without changes to applications.
//
// Each subcommand has a file of its own: an options struct, newXCommand, which fills it from flags, and runX,
// which does the work.
package main

import (
	"errors"
	"io"
	"os"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

func main() {
	logging.Disable() // what the Redis client would print is in errors and Cinch's log
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command line and returns the exit code.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := checkGroup(root, args)
	if err == nil {
		var cmd *cobra.Command
		if cmd, err = root.ExecuteC(); err == nil {
			return exitOK
		}
		err = explainUsage(cmd, err)
	}
	if !errors.As(err, new(printedError)) {
		terminal.PrintError(errs, err)
	}
	return exitCode(err)
}

const quietFlag = "quiet"

func quiet(cmd *cobra.Command) bool {
	is, err := cmd.Flags().GetBool(quietFlag)
	return err == nil && is
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "cinch",
		Short: "Compress what servers store and what crosses zones, without changing applications",
		Long: `Cinch shrinks stored data and the traffic between zones. A gateway in front of a store compresses values that clients
write and decompresses values that clients read, as its rules say. Applications need no change.

Exit codes: 0 ok, 1 failed, 2 the command line is wrong, 3 finished, exceptions listed, 4 a stored value is damaged,
10 a store can't be reached, 11 configuration invalid, or a store's address is a gateway's, 12 dictionary missing, 130
interrupted.`,
		Example: `  cinch serve
  cinch serve --redis 127.0.0.1:6380=redis://cache.internal:6379
  cinch config check cinch.yaml`,
		Version:       readBuild().Version, // -v and --version
		SilenceUsage:  true,
		SilenceErrors: true,

		DisableSuggestions: true, // explainUsage makes its own
	}
	addPasswords(root)
	root.PersistentFlags().BoolP(quietFlag, "q", false, "print only results, warnings and errors, no progress and no notes")
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if quiet(cmd) {
			root.SetErr(terminal.Quiet(root.ErrOrStderr()))
		}
		return fillPasswords(cmd, args)
	}
	root.SetFlagErrorFunc(unknownFlag)
	root.SetVersionTemplate(readBuild().text())
	root.SetUsageTemplate(wide(root.UsageTemplate()))
	root.SetHelpCommand(newHelpCommand())
	root.AddCommand(
		newPlanCommand(),
		newServeCommand(),
		newShadowCommand(),
		newRecordCommand(),
		newReplayCommand(),
		newRolloutCommand(),
		newPackCommand(),
		newUnpackCommand(),
		newVerifyCommand(),
		newInspectCommand(),
		newDictCommand(),
		newTopCommand(),
		newReportCommand(),
		newTarantoolCommand(),
		newConfigCommand(),
		newVersionCommand(),
		newManCommand(),
	)
	completeValues(root)
	return root
}

// flagValues lists the values of flags, for completion in a shell.
var flagValues = map[string][]string{
	"cloud":      {"aws", "azure", "gcp"},
	"log-format": {"text", "json"},
	"log-level":  {"debug", "info", "warn", "error"},
	"minimize":   {"balance", "cost", "latency", "bytes"},
	"zstd":       {"auto", "libzstd", "go"},
}

// completeValues registers flagValues with every command that has such a flag.
func completeValues(cmd *cobra.Command) {
	for name, values := range flagValues {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	for _, sub := range cmd.Commands() {
		completeValues(sub)
	}
}
