package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/rig/link"
	"github.com/cinch-layer/cinch/test/testenv"
)

// The test's program also runs as the API and the link, as the example's does.
func TestMain(m *testing.M) {
	link.Child()
	if len(os.Args) > 1 && os.Args[1] == apiRole {
		if err := serveAPI(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The whole example in small. The test checks bytes, not times.
func TestExample(t *testing.T) {
	testenv.Program(t, "redis-server")
	file := filepath.Join(t.TempDir(), "page.html")
	o, err := parseOptions([]string{"--menus", "20", "--step", "150ms", "--out", file, "--cinch", testenv.Cinch(t)})
	if err != nil {
		t.Fatal(err)
	}
	var all []outcome
	for _, c := range []cache{{name: "before"}, {name: "after", setting: o.setting}} {
		out, err := c.run(o, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range out.steps {
			if s.failed > 0 {
				t.Errorf("%s: %d requests failed", c.name, s.failed)
			}
		}
		all = append(all, out)
	}
	if all[1].memory*2 > all[0].memory {
		t.Errorf("Redis takes %d, then %d", all[0].memory, all[1].memory)
	}
	last := len(shares) - 1
	if was, is := all[0].steps[last].perRequest(), all[1].steps[last].perRequest(); is*2 > was {
		t.Errorf("%.0f bytes a request, then %.0f", was, is)
	}
	if err := writePage(o, all); err != nil {
		t.Fatal(err)
	}
	html, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(html), "99 % of answers took up to") {
		t.Errorf("%v: %d bytes", err, len(html))
	}
	if s := text(o, all); strings.Count(s, "\nafter ") != len(shares) {
		t.Error(s)
	}
}

func TestOptions(t *testing.T) {
	for args, want := range map[string]string{
		"--menus 0":     "at least 1",
		"--mbit -1":     "more than 0",
		"--step 1ms":    "100ms",
		"menus":         `"menus" is not a flag`,
		"--unknown yes": "unknown",
	} {
		if _, err := parseOptions(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
