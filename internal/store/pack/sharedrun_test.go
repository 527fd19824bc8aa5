package pack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The counts of all workers of a run add up, also over repeated runs with the same files. Other runs are apart, and the
// one that was saved last comes last.
func TestSharedRuns(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadSharedRuns(dir); !errors.Is(err, ErrNoState) {
		t.Fatalf("an empty directory: %v", err)
	}
	save := func(worker, workers int, fingerprint string, done float64) {
		t.Helper()
		s, err := OpenState(filepath.Join(dir, fmt.Sprint(worker, workers, fingerprint, ".json")), fmt.Sprintf("pack store worker %d/%d", worker, workers), fingerprint)
		if err != nil {
			t.Fatal(err)
		}
		p := Progress{Report: newReport(), Done: done}
		p.Keys, p.Replaced, p.StoredBefore, p.CostAfter, p.Took = 10, 9, 1000, 500, 2*time.Second
		s.count(p)
		if err := s.save(); err != nil {
			t.Fatal(err)
		}
	}
	save(1, 3, "new", 0.5)
	save(1, 3, "new", 1)
	save(2, 3, "new", 0.5)
	save(1, 1, "old", 1)
	runs, err := ReadSharedRuns(dir)
	if err != nil || len(runs) != 2 || runs[1].Fingerprint != "old" || len(runs[0].Workers) != 3 || runs[0].Workers[2] != nil {
		t.Fatalf("%+v %v", runs, err)
	}
	sum := runs[0].Total
	if sum.Done != 0.5 || sum.Keys != 30 || sum.Replaced != 27 || sum.StoredBefore != 3000 || sum.AllocatedAfter != 1500 || sum.Seconds != 6 || sum.Updated.IsZero() {
		t.Errorf("%+v", sum)
	}
	if left := runs[0].Workers[1].Left(); left != 2*time.Second || runs[0].Workers[0].Left() != 0 {
		t.Errorf("%v left", left)
	}
	if _, err := OpenState(filepath.Join(dir, "begun.json"), "pack begun worker 1/1", ""); err != nil {
		t.Fatal(err)
	}
	if runs, err = ReadSharedRuns(dir); err != nil || len(runs) != 3 || time.Since(runs[2].Total.Updated) > time.Minute {
		t.Errorf("after a worker has begun: %+v %v", runs, err)
	}
	save(3, 3, "new", 1)
	save(3, 3, "new", 0.5) // the walk before was complete
	if runs, err = ReadSharedRuns(dir); err != nil {
		t.Fatal(err)
	}
	if w := runs[2].Workers[2]; w.Left() != 2*time.Second || w.Seconds != 4 {
		t.Errorf("%v left of the second walk, %+v", w.Left(), w)
	}
	for _, text := range []string{"", `{"version": 1, "run": "background"}`, `{"version": 1, "run": "pack a worker 3/2"}`, `{"version": 1, "run": "pack a worker 1/99999999"}`} {
		if err := os.WriteFile(filepath.Join(dir, "other.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSharedRuns(dir); err == nil {
			t.Errorf("%q is taken for the state of a worker", text)
		}
	}
}
