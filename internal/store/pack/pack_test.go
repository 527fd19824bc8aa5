package pack

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestState(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	open := func(run, fingerprint string) (*State, error) { return OpenState(file, run, fingerprint) }
	s, err := open("run", "f")
	if err != nil || len(s.body.Spaces) > 0 {
		t.Fatal(err)
	}
	s.set("a", Position{RunID: "1", Cursor: "18446744073709551615"})
	s.set("b", Position{RunID: "1", Done: true})
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	if s, err = open("run", "f"); err != nil || len(s.body.Spaces) == 0 {
		t.Fatal(err)
	}
	if p, ok := s.position("a"); !ok || p.Cursor != "18446744073709551615" || p.RunID != "1" || p.Done {
		t.Errorf("%+v", p)
	}
	for _, other := range [][2]string{{"another", "f"}, {"run", "g"}} {
		if _, err := open(other[0], other[1]); !errors.Is(err, ErrOtherState) {
			t.Errorf("%v: %v", other, err)
		}
	}
	earlier := `{"version": 1, "run": "run", "fingerprint": "f", "spaces": {"a": {"run_id": "1", "cursor": 123}, "b": {"run_id": "1", "cursor": 0}}}`
	if err := os.WriteFile(file, []byte(earlier), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = open("run", "f"); err != nil || s.body.Spaces["a"].Cursor != "123" || s.body.Spaces["b"].Cursor != "" {
		t.Errorf("a file of an earlier release: %+v, %v", s, err)
	}
	s.set("a", Position{RunID: "1", Done: true})
	s.set("b", Position{RunID: "1", Done: true})
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	if s, err = open("run", "f"); err != nil || len(s.body.Spaces) > 0 {
		t.Errorf("a run that was completed resumes (%v)", err)
	}
	if err := os.WriteFile(file, []byte("{\"ver"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open("run", "f"); !errors.Is(err, ErrOtherState) {
		t.Errorf("half a file: %v", err)
	}
	if _, err := OpenState(filepath.Join(file, "none"), "run", "f"); !errors.Is(err, ErrState) {
		t.Errorf("where no file can be: %v", err)
	}
	if left, _ := filepath.Glob(file + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
