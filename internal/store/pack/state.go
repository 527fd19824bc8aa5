package pack

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/system/durable"
)

// ErrOtherState: the file holds positions of a run of another kind.
var ErrOtherState = errors.New("the state file belongs to another run")

// ErrState: the file can't be read or written.
var ErrState = errors.New("the position can't be saved")

var errOtherRules = fmt.Errorf("%w: the rules have changed", ErrOtherState)

// State keeps the positions of a run in a file, so that the run can continue after any kind of end. Each save replaces
// the whole file (see durable.WriteFile).
//
//	{"version": 1, "run": "pack redis://… worker 1/1", "fingerprint": "<hex>",
//	 "spaces": {"127.0.0.1:6379/0": {"run_id": "…", "cursor": "123", "done": false}},
//	 "counts": {"updated": "2026-12-01T12:00:00Z", "done": 0.5, "keys": 1000, …}}
type State struct {
	file   string
	mu     sync.Mutex
	body   stateBody
	before Counts // by earlier runs
}

type stateBody struct {
	Version     int                 `json:"version"`
	Run         string              `json:"run"`
	Fingerprint string              `json:"fingerprint"`
	Spaces      map[string]Position `json:"spaces"`
	Counts      Counts              `json:"counts"`
}

// Position is a place in the walk of one space.
type Position struct {
	RunID  string `json:"run_id"` // of the server process for which the cursor is valid
	Cursor Cursor `json:"cursor"` // "": the beginning
	Done   bool   `json:"done"`
}

// Cursor is a place in a scan, opaque except to its store. Files of earlier releases hold a number.
type Cursor string

// UnmarshalJSON implements json.Unmarshaler.
func (c *Cursor) UnmarshalJSON(text []byte) error {
	var number uint64
	if json.Unmarshal(text, &number) == nil {
		if *c = ""; number != 0 {
			*c = Cursor(strconv.FormatUint(number, 10))
		}
		return nil
	}
	return json.Unmarshal(text, (*string)(c))
}

const stateVersion = 1

// OpenState reads the file if there is one. run names the kind of run and its target, fingerprint the rules;
// if either differs from the file's, the error wraps ErrOtherState. The file of a completed run counts as
// empty. OpenState also writes the file, so that an unwritable one fails here and not when there is a
// position to lose.
func OpenState(file, run, fingerprint string) (*State, error) {
	s := &State{file: file, body: stateBody{Version: stateVersion, Run: run, Fingerprint: fingerprint, Spaces: map[string]Position{}}}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, s.save()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	var old stateBody
	if err := json.Unmarshal(text, &old); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", file, ErrOtherState, err)
	}
	switch {
	case old.Version != stateVersion:
		return nil, fmt.Errorf("%s: %w: version %d", file, ErrOtherState, old.Version)
	case old.Run != run:
		return nil, fmt.Errorf("%s: %w: it belongs to %q, this run is %q", file, ErrOtherState, old.Run, run)
	case old.Fingerprint != fingerprint:
		return nil, fmt.Errorf("%s: %w", file, errOtherRules)
	}
	if old.complete() { // the next walk begins
		old.Counts.Done, old.Counts.WalkSeconds = 0, 0
	} else {
		s.body = old
	}
	s.before, s.body.Counts = old.Counts, old.Counts
	return s, s.save()
}

func (b *stateBody) complete() bool {
	for _, p := range b.Spaces {
		if !p.Done {
			return false
		}
	}
	return true
}

func (s *State) position(space string) (Position, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.body.Spaces[space]
	return p, ok
}

// retain removes all spaces but these: those that no longer exist would never be done.
func (s *State) retain(targets []store.Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.body.Spaces, func(name string, _ Position) bool {
		return !slices.ContainsFunc(targets, func(t store.Target) bool { return t.Space.Name() == name })
	})
}

func (s *State) set(space string, p Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.body.Spaces[space] = p
}

// count sets the counts to those of the earlier runs and of the current one.
func (s *State) count(p Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.body.Counts = s.before
	s.body.Counts.add(&Counts{
		Seconds: p.Took.Seconds(), WalkSeconds: p.Took.Seconds(),
		Keys: p.Keys, Values: p.Values, Replaced: p.Replaced, Problems: p.Problems,
		StoredBefore: p.StoredBefore, StoredAfter: p.StoredAfter, AllocatedBefore: p.CostBefore, AllocatedAfter: p.CostAfter,
	})
	s.body.Counts.Done = p.Done
}

func (s *State) save() error {
	if err := s.write(); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	return nil
}

func (s *State) write() error {
	s.mu.Lock()
	s.body.Counts.Updated = time.Now().UTC()
	text, err := json.MarshalIndent(s.body, "", "  ")
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return durable.WriteFile(s.file, append(text, '\n'))
}

// Fingerprint returns a hash of everything in the policy that affects its decisions, and of the texts in more.
func Fingerprint(p *policy.Policy, more ...string) string {
	h := sha256.New()
	if p != nil {
		for _, r := range p.Rules() {
			fmt.Fprintf(h, "%q %q %q %d %d %d %v %s\n", r.Key, r.Field, r.Space, r.Types, r.MinSize, r.MaxSize, r.MinGain, r.Setting)
			if r.Formats != nil {
				fmt.Fprintln(h, r.Formats, r.ToPlain)
			}
			if r.Observe { // such a pass stored nothing: after a change the next one starts over
				fmt.Fprintln(h, "observe")
			}
		}
	}
	for _, m := range more {
		fmt.Fprintf(h, "%q\n", m)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
