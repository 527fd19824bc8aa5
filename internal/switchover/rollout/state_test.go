package rollout

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const goodState = `{"version": 1, "id": "ONE", "cell": "orders", "order": ["b", "a"], "primary": "a", "at": 1, "step": "fence",
	"nodes": {"a": {"made": "a2 in /a2", "mark": "m"}, "b": {"made": "b2 in /b2", "replaced": true}}}`

// A state that is damaged, edited, of another cell or of another version is refused by every reader, with the
// reason.
func TestDamagedState(t *testing.T) {
	replaced := func(old, by string) string { return strings.Replace(goodState, old, by, 1) }
	for name, one := range map[string]struct{ text, says string }{
		"empty":                   {"", "unexpected end"},
		"truncated":               {goodState[:len(goodState)/2], "unexpected end"},
		"zeros":                   {strings.Repeat("\x00", 100), "invalid character"},
		"another version":         {replaced(`"version": 1`, `"version": 2`), "has version 2"},
		"another cell":            {replaced("orders", "payments"), "belongs to the cell payments"},
		"an unknown step":         {replaced("fence", "fense"), `step "fense"`},
		"a step of a standby":     {replaced("fence", "retire"), `step "retire"`},
		"beyond the last node":    {replaced(`"at": 1`, `"at": 2`), "node 2"},
		"before the first node":   {replaced(`"at": 1`, `"at": -1`), "node -1"},
		"no primary":              {replaced(`"primary": "a"`, `"primary": "c"`), `primary "c"`},
		"a node twice":            {replaced(`["b", "a"]`, `["a", "a"]`), "node a"},
		"a node that is not told": {replaced(`"b": {`, `"c": {`), "node b"},
		"one node less":           {replaced(`["b", "a"]`, `["a"]`), "the cell's file has 2"},
		"another node":            {replaced(`["b", "a"]`, `["c", "a"]`), "has a node c"},
		"another replacement":     {replaced("a2 in /a2", "a3 in /a2"), "now has a2 in /a2"},
		"another directory":       {replaced("b2 in /b2", "b2 in /b3"), "has b2 in /b3 as the replacement of b"},
	} {
		c := &Cell{Name: "orders", State: filepath.Join(t.TempDir(), "state.json"), Nodes: []Node{notThere("a"), notThere("b")}}
		if err := os.WriteFile(c.State, []byte(one.text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := &Rollout{Cell: c}
		_, planned := r.Plan(t.Context(), new(strings.Builder))
		_, read := c.ReadState()
		for who, err := range map[string]error{"run": r.Run(t.Context()), "abort": r.Abort(t.Context()), "confirm": r.Confirm(), "status": read, "plan": planned} {
			if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), one.says) || !strings.Contains(err.Error(), c.State) {
				t.Errorf("%s, %s: %v, and should say %q", name, who, err, one.says)
			}
		}
		if text, err := os.ReadFile(c.State); err != nil || string(text) != one.text {
			t.Errorf("%s: the file was changed: %v\n%s", name, err, text)
		}
	}
}

func notThere(name string) Node {
	made := Node{Name: name + "2", URL: "postgres://localhost:1/" + name, Directory: "/" + name + "2"}
	return Node{Name: name, URL: "postgres://localhost:2/" + name, Directory: "/" + name, Replacement: &made}
}

// A valid state is read, and an aborted one may continue with another replacement.
func TestState(t *testing.T) {
	c := &Cell{Name: "orders", State: filepath.Join(t.TempDir(), "state.json"), Nodes: []Node{notThere("a"), notThere("b")}}
	for _, text := range []string{goodState, strings.Replace(strings.Replace(goodState, "a2 in", "a3 in", 1), `"at": 1`, `"at": 1, "aborted": true`, 1)} {
		if err := os.WriteFile(c.State, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := c.ReadState(); err != nil || s.Nodes["a"].Mark != "m" {
			t.Errorf("%+v %v", s, err)
		}
	}
	if s, err := (&Cell{State: c.State + "-not"}).ReadState(); s != nil || err != nil {
		t.Errorf("no file: %+v %v", s, err)
	}
}
