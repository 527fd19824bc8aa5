package stored

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/cinch-layer/cinch/internal/switchover/postgres"
	"github.com/cinch-layer/cinch/internal/switchover/rollout"
)

// TestRolloutState reads a cell's file and the states of its roll-out, while a standby and while the primary waits to
// be confirmed. Every field must be there again when the state is written.
func TestRolloutState(t *testing.T) {
	t.Parallel()
	c, err := rollout.ReadCell(filepath.Join(version, "rollout/cell.yaml"))
	must(t, err)
	for _, name := range []string{"standby", "primary"} {
		file := "rollout/" + name + ".state.json"
		c.State = filepath.Join(version, file)
		s, err := c.ReadState()
		must(t, err)
		if s.Step != rollout.StepKeep || len(s.Nodes) != 2 || len(s.Actions) < 10 {
			t.Errorf("%s: %+v", name, s)
		}
		again, err := json.Marshal(s)
		must(t, err)
		var got any
		must(t, json.Unmarshal(again, &got))
		if want := parse[any](t, file); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is written again as %s\nwant %s", name, again, want)
		}
	}
	to, err := postgres.Remembered(filepath.Join(version, "rollout/gateway.json"))
	if want := "postgres://127.0.0.1:20485"; err != nil || to != want {
		t.Errorf("the gateway has moved to %q, %v; want %q", to, err, want)
	}
}
