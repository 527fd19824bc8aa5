package pack

import (
	"time"

	"github.com/cinch-layer/cinch/internal/store"
)

// Options describe a run. Targets and Task are required.
type Options struct {
	Targets []store.Target
	Task    Task
	Read    store.ReadOptions
	Match   string // pattern by which the server chooses keys; "": all
	Kind    string // type by which the server chooses keys; "": all

	// Own reports whether a key is among those of this process, which shares the keys with others. Nil: all are.
	Own func(key []byte) bool

	Step     int // keys requested at once; 0: 256
	Parallel int // concurrent pages on each node; 0: 4

	KeysPerSecond  float64       // examined; 0: no limit
	BytesPerSecond float64       // of values read; 0: no limit
	MaxLatency     time.Duration // of a PING, above which to slow down; 0: relative to the best seen
	NoBackoff      bool          // don't slow down with the server

	DryRun    bool // decide but replace nothing
	Sample    int  // stop after about that many keys; 0: never
	CheckRoom bool // end with ErrNoRoom before values that grow fill the server

	State    *State        // nil: positions are not stored
	Patience time.Duration // how long to wait for a server that doesn't answer; 0: 30 s
	// Unavailable reports whether a retry makes sense after an error. Nil: never.
	Unavailable func(error) bool

	TrainingCPU time.Duration // spent on dictionaries for this run; the report has it

	Stop <-chan struct{} // when closed, Run finishes pages in work and returns ErrInterrupted
	// Paused is called before each page and each batch of changes. If it returns a channel, the run starts
	// nothing until that is closed. Nil: the run is never paused.
	Paused func() <-chan struct{}
	// Tell is called with events for operators, never concurrently. Nil: none.
	Tell func(Event)
}

// Event is progress, a problem or a notice of a run. Exactly one field is set.
type Event struct {
	Progress *Progress
	Problem  *Problem
	Notice   string
}

// Problem is a value that a task could not handle.
type Problem struct {
	Space string
	Value *store.Value
	Err   error
}
