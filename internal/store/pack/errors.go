package pack

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/cinch-layer/cinch/internal/store"
)

// Reasons of the tasks, besides the store's own.
const (
	NoRule        store.Reason = "no rule"
	AlreadySealed store.Reason = "already sealed"
	Computed      store.Reason = "number or HyperLogLog"
	NoGain        store.Reason = "no gain"
	Indexed       store.Reason = "under a search index"
	Plain         store.Reason = "plain"
	Opened        store.Reason = "opens"
	KeptChanging  store.Reason = "kept changing"
	OtherBytes    store.Reason = "compressed by a library, comes out in other bytes (--allow-recode)"
	OpensTooLong  store.Reason = "compressed by a library, opens to more than 32 times its length"
)

// ErrDenied: the user lacks the right to read or replace a value.
var ErrDenied = errors.New(string(store.Denied))

// reasonError returns an error for the reason why a value was left unchanged.
func reasonError(why store.Reason) error {
	if why == store.Denied {
		return ErrDenied
	}
	return errors.New(string(why))
}

// Reasons why a run ended early.
var (
	ErrInterrupted = errors.New("interrupted")
	// ErrMismatch: an envelope does not open to the value that it was made from.
	ErrMismatch = errors.New("an envelope does not decompress to the value that it was to replace")
	// ErrNoRoom: the server is too close to its memory limit.
	ErrNoRoom = errors.New("not enough memory left on the server")
	// ErrNoDictionary: the server lacks a dictionary that new values would name.
	ErrNoDictionary = errors.New("the server does not hold the dictionary")
	// ErrDictUnknown: it is unknown whether a value opens.
	ErrDictUnknown = store.ErrDictUnknown

	errSampled = errors.New("the sample is complete")
	errPanic   = errors.New("panic")
)

// catch, when deferred, passes a panic to fail as an error: a bug ends the run, but not the process, which
// may be a gateway.
func catch(fail func(error)) {
	if p := recover(); p != nil {
		fail(fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack()))
	}
}

// start runs f in a goroutine of the group, and passes its error or panic to fail.
func start(group *sync.WaitGroup, fail func(error), f func() error) {
	group.Go(func() {
		defer catch(fail)
		if err := f(); err != nil {
			fail(err)
		}
	})
}

// IsFinal reports whether a retry is pointless after the error.
func IsFinal(err error) bool {
	for _, e := range []error{ErrInterrupted, ErrMismatch, ErrNoRoom, ErrNoDictionary, store.ErrFull, store.ErrReadOnly} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
