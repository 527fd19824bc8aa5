package pack

import (
	"errors"

	"github.com/cinch-layer/cinch/internal/store"
)

// A Task decides about values. Its methods are called concurrently.
type Task interface {
	// Wants reports whether the values at a key are of any interest, before they are read.
	Wants(db string, key []byte) bool
	// Judge decides about a value. What it returns may alias the value.
	Judge(db string, v *store.Value) Verdict
	// Skipped is called for a value that the store left out, or could not replace; an error makes it a problem to be
	// listed.
	Skipped(v *store.Value, why store.Reason) error
	// Shrinks reports whether hashes may fit a listpack afterwards.
	Shrinks() bool
}

// unopened returns the verdict about a value that does not open. Where the store could not be asked for its dictionary
// that ends the walk, which tries again if that makes sense.
func unopened(err error) Verdict {
	if errors.Is(err, ErrNotAsked) {
		return Verdict{Stop: err}
	}
	return Verdict{Problem: err}
}

// Verdict says what to do with a value.
type Verdict struct {
	Replace bool
	New     []byte       // with Replace
	Recoded bool         // with Replace: clients will get another encoding of what they got
	Left    store.Reason // otherwise: why it stays
	Setting string       // of a sealed value that opens, for counting
	Problem error        // it stays, and is reported
	Stop    error        // ends the run
}
