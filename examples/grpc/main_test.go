package main

import (
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	if o, err := parseOptions([]string{"--requests", "3"}); err != nil || o.requests != 3 || o.series != 2000 {
		t.Errorf("%+v, %v", o, err)
	}
	for args, want := range map[string]string{
		"--requests 0":   "at least 1",
		"--series -1":    "at least 1",
		"load":           `"load" is not a flag`,
		"--json x --out": `"x" is not a flag`,
	} {
		if _, err := parseOptions(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// freeAddr returns no address twice, even if nothing listens on it yet: processes are started one after the
// other.
func TestAddressesDiffer(t *testing.T) {
	r := &runner{port: highestPort - 2}
	seen := map[string]bool{}
	for range 20 {
		addr, err := r.freeAddr()
		if err != nil || seen[addr] {
			t.Fatalf("%s, %v", addr, err)
		}
		seen[addr] = true
	}
}
