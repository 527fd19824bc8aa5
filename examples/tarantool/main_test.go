package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

func TestOptions(t *testing.T) {
	if o, err := parseOptions([]string{"--writes", "3"}); err != nil || o.writes != 3 || o.users != 10 {
		t.Errorf("%+v, %v", o, err)
	}
	for args, want := range map[string]string{
		"--writes 0":     "more than 0",
		"--duration -1s": "more than 0",
		"load":           `"load" is not a flag`,
	} {
		if _, err := parseOptions(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// The example in short: it fails if one of its checks does.
func TestCluster(t *testing.T) {
	testenv.Program(t, "tarantool")
	for name, more := range map[string][]string{"with a dictionary": nil, "without": {"--no-dictionary", "--setting", "lz4"}} {
		t.Run(name, func(t *testing.T) {
			if more != nil {
				testenv.Full(t)
			}
			var out bytes.Buffer
			args := append([]string{"--json", "--cinch", testenv.Cinch(t), "--writes", "800", "--before", "700"}, more...)
			if err := run(t.Context(), args, &out); err != nil {
				t.Fatal(err)
			}
			var r report
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatalf("%v: %s", err, &out)
			}
			if r.Load.Done != 800 || r.Tuples != 1500 || r.RawBytes < 1500*3000 {
				t.Errorf("%+v", r)
			}
			saved := 1 - float64(r.BSize)/float64(r.RawBytes)
			if want := map[bool]float64{true: 0.75, false: 0.37}[more == nil]; saved < want {
				t.Errorf("%.3f of the memory is saved, want %.2f", saved, want)
			}
		})
	}
}
