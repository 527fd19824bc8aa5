package panics

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

type counter struct{ n atomic.Int64 }

func (c *counter) Error(class string) {
	if class == "panic" {
		c.n.Add(1)
	}
}

func TestCatch(t *testing.T) {
	var log bytes.Buffer
	to := slog.New(slog.NewTextHandler(&log, nil))
	c, ended := &counter{}, 0
	run := func(fails bool) {
		defer Catch(to, c, func() { ended++ })
		if fails {
			panic("a fault")
		}
	}
	run(false)
	run(true)
	if c.n.Load() != 1 || ended != 1 || strings.Count(log.String(), "stack=") != 1 || !strings.Contains(log.String(), "TestCatch") {
		t.Errorf("counted %d, ended %d, logged:\n%s", c.n.Load(), ended, log.String())
	}
	if n := testing.AllocsPerRun(100, func() { run(false) }); n > 0 {
		t.Errorf("without a panic it costs %v allocations", n)
	}
}

// A function that panics is called again after a pause, until it returns or its context ends.
func TestKeepRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{}
		quiet := slog.New(slog.DiscardHandler)
		runs := 0
		KeepRunning(t.Context(), quiet, c, func(context.Context) {
			if runs++; runs < 3 {
				panic("a fault")
			}
		})
		if runs != 3 || c.n.Load() != 2 {
			t.Errorf("%d runs, %d panics counted", runs, c.n.Load())
		}
		ctx, cancel := context.WithCancel(t.Context())
		runs = 0
		KeepRunning(ctx, quiet, c, func(context.Context) {
			runs++
			cancel()
			panic("the last")
		})
		if runs != 1 {
			t.Errorf("it ran %d times beyond its context", runs)
		}
	})
}
