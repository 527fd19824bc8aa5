package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// A flag in no group would be missing from the help.
func TestGroupedHelpHasEveryFlag(t *testing.T) {
	cmd := newPlanCommand()
	help := cmd.UsageString()
	flags := 0
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if flags++; f.Name != "help" && strings.Count(help, "--"+f.Name+" ") == 0 {
			t.Errorf("--%s is not in the help", f.Name)
		}
	})
	if flags < 30 || !strings.Contains(help, "\nRates and prices:\n      --reads N") || strings.Contains(help, "\nFlags:") {
		t.Errorf("%d flags in\n%s", flags, help)
	}
}
