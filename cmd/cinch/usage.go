package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// wrongUsage marks an error of the command line. An exit code that it already has stays.
func wrongUsage(err error) error {
	var e *exitError
	if errors.As(err, &e) {
		return err
	}
	return withCode(exitUsage, err)
}

// explainUsage adds hints to cobra's errors about the command line. Other errors are returned unchanged.
func explainUsage(cmd *cobra.Command, err error) error {
	var done *exitError
	text := err.Error()
	switch {
	case errors.As(err, &done):
		return err
	case strings.HasPrefix(text, "unknown command") && cmd.HasSubCommands():
		return unknownCommand(cmd, quoted(text))
	case strings.HasPrefix(text, "unknown command"): // cobra's text for any unexpected argument
		err = fmt.Errorf("%q: %s takes no arguments", quoted(text), cmd.CommandPath())
	case strings.HasPrefix(text, "accepts "), strings.HasPrefix(text, "requires at"):
		return wrongUsage(terminal.WithHint(err, "write '%s'; see '%s --help'", strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.CommandPath()))
	case strings.HasPrefix(text, "required flag"), strings.HasPrefix(text, "if any flags in the group"):
	default:
		return err
	}
	return wrongUsage(terminal.WithHint(err, "see '%s --help'", cmd.CommandPath()))
}

// quoted returns the first quoted part of text.
func quoted(text string) string {
	_, rest, _ := strings.Cut(text, `"`)
	word, _, _ := strings.Cut(rest, `"`)
	return word
}

func unknownCommand(parent *cobra.Command, word string) error {
	err := fmt.Errorf("unknown command %q for %q", word, parent.CommandPath())
	if near := terminal.Nearest(word, commandNames(parent)); near != "" {
		return wrongUsage(terminal.WithHint(err, "did you mean '%s %s'?", parent.CommandPath(), near))
	}
	return wrongUsage(terminal.WithHint(err, "see '%s --help'", parent.CommandPath()))
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return names
}

// unknownFlag handles flags that cobra can't parse.
func unknownFlag(cmd *cobra.Command, err error) error {
	return wrongUsage(terminal.WithHint(err, "see '%s --help'", cmd.CommandPath()))
}

// checkGroup rejects 'cinch dict foo', for which cobra prints the help of 'cinch dict' and succeeds: it
// checks only the arguments of commands that run.
func checkGroup(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if err != nil || cmd.Runnable() {
		return nil // cobra reports it
	}
	for _, word := range rest {
		if !strings.HasPrefix(word, "-") && word != "help" {
			return unknownCommand(cmd, word)
		}
	}
	return nil
}

// newHelpCommand replaces cobra's help command, which succeeds for unknown topics.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Explain a command",
		Example: "  cinch help dict train",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return unknownCommand(about, rest[0])
			}
			if err := checkGroup(cmd.Root(), args); err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}
