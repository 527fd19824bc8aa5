package pack

import (
	"time"

	"github.com/cinch-layer/cinch/internal/store"
)

// Options describe a run. Targets and Task are needed.
type Options struct {
	Targets []store.Target
	Task    Task
	Read    store.ReadOptions
	Match   string // pattern for the server to choose keys by; "": all
	Kind    string // type for the server to choose keys by; "": all

	// This is one of several processes that share the keys out by hash: 1 to Workers.
	Worker, Workers int

	Step     int // keys asked for at once; 0: 256
	Parallel int // pages at once on each node; 0: 4

	KeysPerSecond  float64       // looked at; 0: no limit
	BytesPerSecond float64       // of values read; 0: no limit
	MaxLatency     time.Duration // of a PING, above which to slow down; 0: only by the baseline
	NoBackoff      bool          // don't slow down with the server

	DryRun    bool // judge, replace nothing
	Sample    int  // stop after about so many keys; 0: never
	CheckRoom bool // end with ErrNoRoom before values that grow fill the server

	State    *State        // nil: nothing is remembered
	Patience time.Duration // with a server that doesn't answer; 0: 30 s
	// Unavailable recognizes errors after which trying again makes sense. Nil: none.
	Unavailable func(error) bool

	Stop <-chan struct{} // closed: finish what was begun, then return ErrInterrupted
	// Held is called before each page and each batch of changes. If it returns a channel, the run begins nothing until
	// that is closed. Nil: the run is never held.
	Held func() <-chan struct{}
	// Tell is called with what operators should see, never concurrently. Nil: it is not shown.
	Tell func(Event)
}

// Event is progress, a problem or a notice of a run under way. Exactly one field is set.
type Event struct {
	Progress *Progress
	Problem  *Problem
	Notice   string
}

// Problem is a value that a task could not deal with.
type Problem struct {
	Space string
	Value *store.Value
	Err   error
}
