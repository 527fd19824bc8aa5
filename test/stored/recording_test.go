package stored

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// replayed is a part of a report of `cinch replay`. Outcome and Compared are compared, Reasons explain a failure.
type replayed struct {
	Outcome  string
	Reasons  []string
	Compared struct{ Equal, Different, Diverged int }
}

// TestRecording replays a recording with its identity, from the state of an earlier replay.
func TestRecording(t *testing.T) {
	t.Parallel()
	control, test := testenv.Redis(t), testenv.Redis(t)
	state := filepath.Join(t.TempDir(), "shadow.state.json")
	then := read(t, "recording/shadow.state.json")
	ports := strings.NewReplacer("6379", fmt.Sprint(control.Port), "6380", fmt.Sprint(test.Port))
	must(t, os.WriteFile(state, []byte(ports.Replace(then)), 0o600))
	var r replayed
	out := cinch(t, []int{0, 3}, "replay", filepath.Join(version, "recording/monday.cinchrec"),
		"--identity", filepath.Join(version, "recording/identity.txt"),
		"--control", control.URL(), "--test", test.URL(), "--batch", "1s", "--speed", "10", "--baseline-only", "--self-test=false", "--json", "--state", state)
	must(t, json.Unmarshal([]byte(out), &r))
	if r.Outcome == "VOID" || r.Compared.Equal < 800 || r.Compared.Different+r.Compared.Diverged > 0 {
		t.Errorf("%+v", r)
	}
	var before, after struct{ Baseline []any }
	must(t, json.Unmarshal([]byte(then), &before))
	now, err := os.ReadFile(state)
	must(t, err)
	must(t, json.Unmarshal(now, &after))
	if len(before.Baseline) < 3 || len(after.Baseline) <= len(before.Baseline) {
		t.Errorf("the state had %d batches, and has %d", len(before.Baseline), len(after.Baseline))
	}
	for n := range 2 {
		if got := connect(t, control.Addr).Get(t.Context(), fmt.Sprintf("cart:%d:19", n)).Val(); !strings.Contains(got, "noodles") {
			t.Errorf("the control has %.80q", got)
		}
		got := connect(t, test.Addr).HVals(t.Context(), fmt.Sprintf("user:%d", n)).Val()
		if len(got) != 1 || len(got[0]) != len("secret-109") || strings.Contains(got[0], "secret") {
			t.Errorf("the redacted value is replayed as %q", got)
		}
	}
}
