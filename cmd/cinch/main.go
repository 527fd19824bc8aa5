// Command cinch is a compression layer for the data path: it sits in front of
// a store, makes the values small, and leaves applications as they are.
//
// Each subcommand has a file of its own: an options struct, newXCommand, which
// fills it from flags, and runX, which does the work.
package main

import (
	"io"
	"os"
	"strings"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/ui"
)

func main() {
	logging.Disable() // what the Redis client would write to standard error, errors and our log say
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command line and returns the exit code.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	ui.PrintError(errs, withUsageHint(cmd, err))
	return exitCode(err)
}

// withUsageHint helps when cobra did not understand the command line.
func withUsageHint(cmd *cobra.Command, err error) error {
	if rest, ok := strings.CutPrefix(err.Error(), `unknown command "`); ok {
		word, _, _ := strings.Cut(rest, `"`)
		if near := ui.Nearest(word, commandNames(cmd)); near != "" {
			return ui.WithHint(err, "did you mean '%s %s'?", cmd.CommandPath(), near)
		}
	}
	for _, start := range []string{"unknown command", "unknown flag", "unknown shorthand", "flag needs", "invalid argument", "accepts ", "requires at"} {
		if strings.HasPrefix(err.Error(), start) {
			return ui.WithHint(err, "see '%s --help'", cmd.CommandPath())
		}
	}
	return err
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return names
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "cinch",
		Short: "Make the values in a store small, without changing an application",
		Long: `Cinch is a compression layer for the data path. A gateway in front of a store seals values on their way in and opens
them on their way out, by rules; applications and their clients stay as they are.

Exit codes: 0 ok, 1 failed, 4 a stored value is damaged, 10 a store can't be reached, 11 configuration invalid,
12 dictionary missing, 130 stopped by a second signal.`,
		Example: `  cinch serve
  cinch serve --redis 127.0.0.1:6380=redis://cache.internal:6379
  cinch config check cinch.yaml`,
		SilenceUsage:  true,
		SilenceErrors: true,

		DisableSuggestions: true, // withUsageHint has its own
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		newPlanCommand(),
		newServeCommand(),
		newPackCommand(),
		newUnpackCommand(),
		newVerifyCommand(),
		newInspectCommand(),
		newDictCommand(),
		newTarantoolCommand(),
		newConfigCommand(),
		newVersionCommand(),
	)
	return root
}
