// Package panics keeps a panic in one goroutine from ending the process. Every goroutine that handles input, or what a
// server or a peer has said, defers [Catch], or runs below [KeepRunning]; internal/arrows has a test that finds those that don't.
package panics

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"
)

// Err is the error of what a panic has ended.
var Err = errors.New("a fault of Cinch, see its log")

// Counter counts errors by class. A gateway's Stats implements it.
type Counter interface{ Error(class string) }

// Catch, when deferred, ends a panic: it logs the panic with its stack, counts it as class "panic" and calls onPanic (nil:
// nothing), which has to discard what the panic may have left half done. Without a log the default one is used, and without a
// counter nothing is counted. It has to be deferred itself: a deferred function that calls it would not recover.
func Catch(log *slog.Logger, count Counter, onPanic func()) {
	if p := recover(); p != nil {
		Report(log, count, p)
		if onPanic != nil {
			onPanic()
		}
	}
}

// Report logs and counts what a deferred function has recovered. It is for those that have more to decide than Catch.
func Report(log *slog.Logger, count Counter, p any) {
	if count != nil {
		count.Error("panic")
	}
	if log == nil {
		log = slog.Default()
	}
	log.Error("panic: a fault of Cinch has ended one task", "panic", p, "stack", string(debug.Stack()))
}

// restartPause sets how long KeepRunning waits after a panic.
const restartPause = 5 * time.Second

// KeepRunning calls run until ctx ends or run returns. After a panic, which is logged and counted, it begins again after a pause.
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
