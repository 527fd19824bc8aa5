package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newManCommand writes manual pages, for packaging.
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write manual pages, one a command",
		Example: "  cinch man /usr/local/share/man/man1",
		Hidden:  true,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cmd.Root().DisableAutoGenTag = true
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Section: "1", Source: "cinch " + readBuild().Version, Manual: "Cinch"}, args[0])
		},
	}
}
