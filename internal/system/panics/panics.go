// Package panics keeps a panic in one goroutine from ending the process. Every goroutine that handles input
// from clients, servers or peers defers [Catch], or runs below [KeepRunning]; a test in internal/archtest finds
// those that don't.
package panics

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"
)

// Err is the error of tasks that a panic has ended.
var Err = errors.New("a fault of Cinch, see its log")

// Counter counts errors by class. A gateway's Stats implements it.
type Counter interface{ Error(class string) }

// Catch, when deferred, recovers from a panic: it logs the panic with its stack, counts it as class "panic"
// and calls onPanic (may be nil), which must discard everything that the panic may have left inconsistent. If
// log is nil the default logger is used, and if count is nil the panic is not counted. Catch must be deferred
// directly: called by a deferred function it would not recover.
func Catch(log *slog.Logger, count Counter, onPanic func()) {
	if p := recover(); p != nil {
		Report(log, count, p)
		if onPanic != nil {
			onPanic()
		}
	}
}

// Report logs and counts the value p that a deferred function has recovered. It is for functions that can't
// use Catch.
func Report(log *slog.Logger, count Counter, p any) {
	if count != nil {
		count.Error("panic")
	}
	if log == nil {
		log = slog.Default()
	}
	log.Error("panic: a fault of Cinch has ended one task", "panic", p, "stack", string(debug.Stack()))
}

// restartPause is the time that KeepRunning waits after a panic.
const restartPause = 5 * time.Second

// KeepRunning calls run until ctx ends or run returns. It logs and counts a panic, and calls run again after
// restartPause.
func KeepRunning(ctx context.Context, log *slog.Logger, count Counter, run func(context.Context)) {
	for panicked(ctx, log, count, run) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(restartPause):
		}
	}
}

func panicked(ctx context.Context, log *slog.Logger, count Counter, run func(context.Context)) (yes bool) {
	defer Catch(log, count, func() { yes = true })
	run(ctx)
	return false
}
