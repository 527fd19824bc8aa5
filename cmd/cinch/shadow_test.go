package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/test/testenv"
)

// newWatcher is one of a run without traffic.
func newWatcher(t *testing.T) (w *watcher, signals chan os.Signal, out *bytes.Buffer) {
	t.Helper()
	r := shadow.New(shadow.Config{})
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	signals, out = make(chan os.Signal, 4), &bytes.Buffer{}
	return &watcher{options: &shadowOptions{cfg: shadow.Config{Batch: time.Hour}}, run: r, signals: signals, out: out, errs: &bytes.Buffer{}}, signals, out
}

// A page that can't be written leaves clients connected and the report printed.
func TestShadowPageOnAFullDisk(t *testing.T) {
	w, signals, out := newWatcher(t)
	name := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.page, _ = os.Open(name) // which can't be written
	served, ended := make(chan error), make(chan error, 1)
	go func() { ended <- w.watch(served) }()
	signals <- syscall.SIGTERM
	<-w.run.Over()
	select {
	case err := <-ended:
		t.Fatalf("clients are cut off: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	signals <- syscall.SIGTERM
	if err := <-ended; !errors.Is(err, os.ErrPermission) && !strings.Contains(err.Error(), "bad file descriptor") {
		t.Errorf("it ended with %v", err)
	}
	if !strings.Contains(out.String(), "INCONCLUSIVE") {
		t.Errorf("the report is %q", out)
	}
}

// The second signal does not wait for targets.
func TestShadowSecondSignal(t *testing.T) {
	w, _, _ := newWatcher(t)
	w.obey(syscall.SIGINT)
	w.obey(syscall.SIGINT)
	<-w.run.Over()
	if w.ending != 2 {
		t.Errorf("%d signals were counted", w.ending)
	}
}

// A run whose target is production, by another name, does not begin and changes nothing.
func TestShadowRefusesProductionAsTarget(t *testing.T) {
	production, other := testenv.Redis(t), testenv.Redis(t)
	alias := strings.Replace(production.URL(), "127.0.0.1", "localhost", 1)
	for _, targets := range [][2]string{{alias, other.URL()}, {other.URL(), alias}, {production.URL(), other.URL()}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		o := shadowOptions{redis: "127.0.0.1:0=" + production.URL(), control: targets[0], test: targets[1], memory: "1MiB", selfTest: true}
		o.cfg.Reads, o.cfg.Margins = 1, shadow.Margins{P50: 0.05, P99: 0.1}
		err := runShadow(ctx, o, nil, &bytes.Buffer{}, &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), "is production itself") {
			t.Errorf("%v: %v", targets, err)
		}
	}
	c := goredis.NewClient(&goredis.Options{Addr: production.Addr})
	defer c.Close()
	if stats := c.Info(t.Context(), "commandstats").Val(); strings.Contains(stats, "cmdstat_set:") {
		t.Errorf("production was written to: %s", stats)
	}
}
