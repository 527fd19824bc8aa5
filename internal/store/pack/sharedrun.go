package pack

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Counts add up all runs with a state file until its last save, which is at most five seconds old while one runs. What
// a killed run did after its last save is missing.
type Counts struct {
	Updated         time.Time `json:"updated"`
	Done            float64   `json:"done"` // share of the walk, 0 to 1
	Seconds         float64   `json:"seconds"`
	WalkSeconds     float64   `json:"walk_seconds"` // of these, spent on the walk that Done is the share of
	Keys            int64     `json:"keys"`         // examined, after a restart of the server repeatedly
	Values          int64     `json:"values"`
	Replaced        int64     `json:"replaced"`
	Problems        int64     `json:"problems"`
	StoredBefore    int64     `json:"stored_bytes_before"`
	StoredAfter     int64     `json:"stored_bytes_after"`
	AllocatedBefore int64     `json:"allocated_bytes_before"`
	AllocatedAfter  int64     `json:"allocated_bytes_after"`
}

// add adds everything but Done. Updated becomes the later one.
func (c *Counts) add(o *Counts) {
	if o.Updated.After(c.Updated) {
		c.Updated = o.Updated
	}
	c.Seconds, c.WalkSeconds = c.Seconds+o.Seconds, c.WalkSeconds+o.WalkSeconds
	c.Keys, c.Values, c.Replaced, c.Problems = c.Keys+o.Keys, c.Values+o.Values, c.Replaced+o.Replaced, c.Problems+o.Problems
	c.StoredBefore, c.StoredAfter = c.StoredBefore+o.StoredBefore, c.StoredAfter+o.StoredAfter
	c.AllocatedBefore, c.AllocatedAfter = c.AllocatedBefore+o.AllocatedBefore, c.AllocatedAfter+o.AllocatedAfter
}

// Left estimates how long the walk will still take.
func (c *Counts) Left() time.Duration {
	if c.Done <= 0.001 {
		return 0
	}
	return time.Duration(c.WalkSeconds * (1 - c.Done) / c.Done * float64(time.Second))
}

// SharedRun is a walk over one store, by one or several workers that share its keys.
type SharedRun struct {
	Run         string    `json:"run"` // command and store
	Fingerprint string    `json:"fingerprint"`
	Workers     []*Counts `json:"workers"` // null: the worker has not begun
	// Total is the sum. Its Done is the mean of the workers, and its Seconds add up their time.
	Total Counts `json:"total"`
}

// ErrNoState: a directory has no state files.
var ErrNoState = errors.New("no state files")

// ReadSharedRuns reads the state files in a directory. The run whose files were updated last comes last.
func ReadSharedRuns(dir string) ([]*SharedRun, error) {
	names, err := fs.Glob(os.DirFS(dir), "*.json")
	if err != nil {
		return nil, err
	}
	var runs []*SharedRun
	for _, name := range names {
		file := filepath.Join(dir, name)
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var b stateBody
		worker, workers := 0, 0
		err = json.Unmarshal(text, &b)
		run, part, found := strings.Cut(b.Run, " worker ")
		if err == nil && found {
			_, err = fmt.Sscanf(part, "%d/%d", &worker, &workers)
		}
		if err != nil || b.Version != stateVersion || worker < 1 || worker > workers || workers > maxWorkers {
			return nil, fmt.Errorf("%s is not the state file of a worker", file)
		}
		i := slices.IndexFunc(runs, func(j *SharedRun) bool {
			return j.Run == run && j.Fingerprint == b.Fingerprint && len(j.Workers) == workers
		})
		if i < 0 {
			i = len(runs)
			runs = append(runs, &SharedRun{Run: run, Fingerprint: b.Fingerprint, Workers: make([]*Counts, workers)})
		}
		j := runs[i]
		j.Workers[worker-1] = &b.Counts
		j.Total.add(&b.Counts)
		j.Total.Done += b.Counts.Done / float64(workers)
	}
	if runs == nil {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoState)
	}
	slices.SortStableFunc(runs, func(a, b *SharedRun) int {
		return cmp.Compare(a.Total.Updated.UnixNano(), b.Total.Updated.UnixNano())
	})
	return runs, nil
}

// maxWorkers is more than the number of a cluster's slots. It protects ReadSharedRuns from files with wrong content.
const maxWorkers = 1 << 20
