package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// A shell completes the values of a flag, and the command accepts the completed values.
func TestFlagValuesAreCompleted(t *testing.T) {
	for _, line := range []string{"serve --log-level", "serve --log-format", "serve --zstd", "plan --cloud", "plan --minimize", "report --cloud", "pack --zstd"} {
		words := strings.Fields(line)
		var out, errs bytes.Buffer
		if code := run(append([]string{"__complete"}, append(words, "")...), strings.NewReader(""), &out, &errs); code != exitOK {
			t.Fatalf("%s: exit code %d, %s", line, code, &errs)
		}
		got := strings.Fields(out.String())
		for _, want := range flagValues[strings.TrimPrefix(words[1], "--")] {
			if !slices.Contains(got, want) {
				t.Errorf("%s: completes %q, without %q", line, got, want)
			}
		}
	}
}
