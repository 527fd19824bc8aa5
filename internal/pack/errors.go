package pack

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/cinch-layer/cinch/internal/store"
)

// Reasons of the tasks, beside the store's own.
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

// ErrDenied: the user has no right to read or replace a value.
var ErrDenied = errors.New(string(store.Denied))

// because makes an error of the reason for which a value was left.
func because(why store.Reason) error {
	if why == store.Denied {
		return ErrDenied
	}
	return errors.New(string(why))
}

// Why a run ended before everything was looked at.
var (
	ErrInterrupted = errors.New("interrupted")
	// ErrMismatch: an envelope does not open to the value that it was made of.
	ErrMismatch = errors.New("an envelope does not open to the value that it was to replace")
	// ErrNoRoom: the server's memory limit is too near.
	ErrNoRoom = errors.New("not enough memory left on the server")
	// ErrNoDictionary: a dictionary that values were to name is not in the server.
	ErrNoDictionary = errors.New("the server does not hold the dictionary")
	// ErrNotAsked: whether a value opens is not known.
	ErrNotAsked = store.ErrDictUnknown

	errSampled = errors.New("the sample is complete")
	errPanic   = errors.New("panic")
)

// catch, when deferred, calls fail with a panic as an error: a bug ends a run, and not the process, which may be a
// gateway.
func catch(fail func(error)) {
	if p := recover(); p != nil {
		fail(fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack()))
	}
}

// start runs f in a goroutine of a group, and calls fail with its error, if there is one, or with that of a panic.
func start(group *sync.WaitGroup, fail func(error), f func() error) {
	group.Go(func() {
		defer catch(fail)
		if err := f(); err != nil {
			fail(err)
		}
	})
}

// Final reports whether an error is the run's own, after which nothing is tried again.
func Final(err error) bool {
	for _, e := range []error{ErrInterrupted, ErrMismatch, ErrNoRoom, ErrNoDictionary, store.ErrFull, store.ErrReadOnly} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
