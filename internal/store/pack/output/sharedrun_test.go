package output

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/store/pack"
)

// A state file that anyone could write does not control the terminal.
func TestSharedRunsOnATerminal(t *testing.T) {
	var out bytes.Buffer
	runs := []*pack.SharedRun{{Run: "pack \x1b]0;title\a\x1b[2Jstore", Workers: make([]*pack.Counts, 1)}}
	if err := SharedRuns(&out, runs, time.Now()); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.ContainsAny(text, "\x1b\a") || !strings.Contains(text, "store\n") {
		t.Errorf("%q", text)
	}
}
