package pack

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// restarting is a server that restarts once, between two pages, without a failing call. Its cursors count
// keys from the front before that, and from the back afterwards.
type restarting struct {
	endless
	mu    sync.Mutex
	pages int
	seen  map[string]bool // keys whose values were read
}

// The number of keys in a database, and of pages before the restart.
const (
	restartingKeys   = 100
	pagesBeforeStart = 3
)

// runID returns "1", and "2" after the restart. mu must be held.
func (s *restarting) runID() string { return strconv.Itoa(1 + min(s.pages/(pagesBeforeStart+1), 1)) }

func (s *restarting) RunID(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runID(), nil
}

// restartingDB is a database of the server.
type restartingDB struct {
	*restarting
	name string
}

func (d restartingDB) Name() string                        { return "server/" + d.name }
func (d restartingDB) DB() string                          { return d.name }
func (d restartingDB) Keys(context.Context) (int64, error) { return restartingKeys, nil }

func (d restartingDB) Page(_ context.Context, cursor string, o store.ScanOptions) (p store.Page, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages++
	run := d.runID()
	if o.RunID != "" && o.RunID != run {
		return p, store.ErrRestarted
	}
	at, _ := strconv.Atoi(cursor)
	end := min(at+o.Count, restartingKeys)
	for i := at; i < end; i++ {
		n := i
		if run == "2" {
			n = restartingKeys - 1 - i
		}
		p.Keys = append(p.Keys, []byte(d.name+":"+strconv.Itoa(n)))
	}
	if end < restartingKeys {
		p.Next = strconv.Itoa(end)
	}
	return p, nil
}

func (d restartingDB) Read(_ context.Context, keys [][]byte, _ store.ReadOptions, emit func(*store.Value) error) error {
	for _, k := range keys {
		d.mu.Lock()
		d.seen[string(k)] = true
		d.mu.Unlock()
		if err := emit(&store.Value{Key: k, Type: policy.String, Stored: []byte("plain")}); err != nil {
			return err
		}
	}
	return nil
}

// No key is missed if the server restarts between two pages and the client's new connections hide it: neither
// in the current database, nor in a later one whose position in the state file is from the earlier process.
func TestHiddenRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &restarting{seen: map[string]bool{}}
		state, err := OpenState(filepath.Join(t.TempDir(), "state"), "test", "")
		if err != nil {
			t.Fatal(err)
		}
		state.set("server/1", Position{RunID: "1", Cursor: "50"})
		o := Options{
			Targets: []store.Target{{Node: s, Space: restartingDB{s, "0"}}, {Node: s, Space: restartingDB{s, "1"}}},
			Task:    newSeal(t, policy.Options{Rules: []policy.Rule{{Key: "*", Setting: zstd(1)}}}),
			Step:    10, Parallel: 1, DryRun: true, NoBackoff: true, State: state,
		}
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for _, db := range []string{"0", "1"} {
			for i := range restartingKeys {
				if key := db + ":" + strconv.Itoa(i); !s.seen[key] {
					t.Errorf("%s was missed", key)
				}
			}
		}
	})
}
