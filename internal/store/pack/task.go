package pack

import (
	"errors"

	"github.com/cinch-layer/cinch/internal/store"
)

// A Task decides about values. Its methods are called concurrently.
type Task interface {
	// Wants reports whether the values at a key should be read.
	Wants(db string, key []byte) bool
	// Decide decides about a value. The verdict may alias the value's memory.
	Decide(db string, v *store.Value) Verdict
	// OnSkipped is called for a value that the store left out or could not replace. If it returns an error, the
	// value is reported as a problem.
	OnSkipped(v *store.Value, why store.Reason) error
	// Shrinks reports whether hashes may fit a listpack afterwards.
	Shrinks() bool
}

// openFailure returns the verdict for a value that does not open. If looking up the dictionary failed, that ends
// the walk, which retries if that makes sense.
func openFailure(err error) Verdict {
	if errors.Is(err, ErrDictUnknown) {
		return Verdict{Stop: err}
	}
	return Verdict{Problem: err}
}

// Verdict is the decision about a value.
type Verdict struct {
	Replace bool
	New     []byte       // with Replace
	Recoded bool         // with Replace: clients will get other bytes with the same content
	Skip    store.Reason // otherwise: why it is left alone
	Setting string       // of a compressed value that opens, for counting
	Problem error        // the value is left alone and reported
	Stop    error        // ends the run
}
