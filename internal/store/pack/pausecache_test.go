package pack

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// word is a store.Pause in memory, shared by two gateways.
type word struct {
	mu    sync.Mutex
	since time.Time
	is    bool
	away  error
}

func (w *word) Set(_ context.Context, at time.Time) (time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.is && w.away == nil {
		w.is, w.since = true, at
	}
	return w.since, w.away
}

func (w *word) Clear(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away == nil {
		w.is, w.since = false, time.Time{}
	}
	return w.away
}

func (w *word) Get(context.Context) (time.Time, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since, w.is, w.away
}

func (w *word) goAway(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = err
}

// looks makes a Background read its store's pause a few times.
func looks(t *testing.T, b *Background) {
	t.Helper()
	for range 5 {
		if _, err := b.paused.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A pause set by another gateway holds a pass where it is. Afterwards the pass continues there.
func TestBackgroundIsPaused(t *testing.T) {
	w, lease := &word{}, &turns{}
	var reads atomic.Int64
	b, _ := pausable(t, lease, w, func() error { reads.Add(1); return nil })
	until(t, "it runs", func() bool { return reads.Load() > 3 })
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	if _, err := w.Set(t.Context(), at); err != nil { // as another gateway does
		t.Fatal(err)
	}
	until(t, "it hears of it", func() bool { s := b.Status(); return s.Paused && s.Since.Equal(at) })
	before := reads.Load() + defaultParallel // pages in work
	looks(t, b)
	if now := reads.Load(); now > before {
		t.Errorf("%d pages, then %d", before, now)
	}
	if s := b.Status(); !s.Running || s.Passes[PassInterrupted]+s.Passes[PassFailed] != 0 || lease.taken.Load() != 1 {
		t.Errorf("the pass has ended: %+v", s)
	}
	still := reads.Load()
	if since, err := b.Pause(t.Context()); err != nil || !since.Equal(at) { // again, here
		t.Errorf("since %v, %v", since, err)
	}
	if err := b.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.Status().Paused {
		t.Error("paused after Resume")
	}
	until(t, "it continues", func() bool { return reads.Load() > still+10 })
	if s := b.Status(); lease.taken.Load() != 1 || s.Passes[PassInterrupted] != 0 {
		t.Errorf("it began anew: %+v", s)
	}
}

// A paused Background takes no turn, even if its job changes, and ends when stopped.
func TestBackgroundStaysPaused(t *testing.T) {
	w, lease := &word{}, &turns{}
	if _, err := w.Set(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	b, rules := pausable(t, lease, w, fine)
	until(t, "it hears of it", func() bool { return b.Status().Paused })
	rules.Store(rulesFor(t, "other*"))
	looks(t, b)
	w.goAway(errors.New("away"))
	if _, err := b.Pause(t.Context()); err == nil {
		t.Error("paused although the store is away")
	}
	if err := b.Resume(t.Context()); err == nil || !b.Status().Paused {
		t.Errorf("resumed although the store is away: %v", err)
	}
	if n := lease.taken.Load(); n != 0 {
		t.Errorf("%d turns", n)
	}
	w.goAway(nil)
	if err := b.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "it runs", func() bool { return b.Status().Running })
	rules.Store(rulesFor(t, "key"))
	if _, err := b.Pause(t.Context()); err != nil { // the test ends with the pass held, or about to begin
		t.Fatal(err)
	}
}

// A held pass ends when the job changes, and nothing begins before packing is resumed.
func TestBackgroundIsPausedAndReloaded(t *testing.T) {
	w, lease := &word{}, &turns{}
	b, rules := pausable(t, lease, w, fine)
	until(t, "it runs", func() bool { return b.Status().Running })
	if _, err := b.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	rules.Store(rulesFor(t, "other*"))
	until(t, "the pass ends", func() bool { s := b.Status(); return !s.Running && s.Passes[PassInterrupted] == 1 })
	looks(t, b)
	if s := b.Status(); !s.Paused || s.Running || lease.taken.Load() != 1 {
		t.Errorf("%+v", s)
	}
}

// If the store does not say whether packing is paused, nothing is packed.
func TestBackgroundAsksBeforeItBegins(t *testing.T) {
	w, lease := &word{away: errors.New("no right to ask")}, &turns{}
	b, _ := pausable(t, lease, w, fine)
	until(t, "it fails", func() bool { s := b.Status(); return s.Passes[PassFailed] > 0 && s.Trouble == "no right to ask" })
	if lease.taken.Load() != 0 {
		t.Error("it has taken a turn")
	}
	w.goAway(nil)
	until(t, "it runs", func() bool { return b.Status().Running })
}
