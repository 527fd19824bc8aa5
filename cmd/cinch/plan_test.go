package main

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/config"
)

// A plan for gateways that train their own dictionaries has only those that gateways would roll out.
func TestPlanOfAutoDictionaries(t *testing.T) {
	for kind, want := range map[string]float64{"files": 0, "none": 0, "auto": config.Default().Training.MinSaving.Share()} {
		var o planOptions
		cmd := &cobra.Command{}
		o.flags(cmd)
		if err := cmd.ParseFlags([]string{"--dictionaries", kind}); err != nil {
			t.Fatal(err)
		}
		p, _, err := o.parse()
		if err != nil || p.DictSaving != want || kind == "auto" && want <= 0 || p.NoDictionaries != (kind == "none") {
			t.Errorf("%s: a dictionary has to save %v, want %v; %v", kind, p.DictSaving, want, err)
		}
	}
}
