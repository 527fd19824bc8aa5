package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the maximum width of the help for flags.
const helpWidth = 120

// flagGroups groups the flags of a command that has too many for one list.
type flagGroups struct {
	cmd    *cobra.Command
	groups []*pflag.FlagSet // in the order of the help; the name of each is its title
}

// group adds a titled group. The caller adds its flags before the next call.
func (g *flagGroups) group(title string) *pflag.FlagSet {
	f := pflag.NewFlagSet(title, pflag.ContinueOnError)
	f.SortFlags = false
	g.groups = append(g.groups, f)
	return f
}

// done adds the flags to the command, and groups them in its help.
func (g *flagGroups) done() {
	var help strings.Builder
	for _, f := range g.groups {
		help.WriteString(f.Name() + ":\n" + f.FlagUsagesWrapped(helpWidth) + "\n")
		g.cmd.Flags().AddFlagSet(f)
	}
	const all = "Flags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}"
	g.cmd.SetUsageTemplate(wide(strings.Replace(g.cmd.UsageTemplate(), all, strings.TrimSpace(help.String()), 1)))
}

// wide returns cobra's help template with flags up to helpWidth wide.
func wide(template string) string {
	return strings.ReplaceAll(template, ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", helpWidth))
}
