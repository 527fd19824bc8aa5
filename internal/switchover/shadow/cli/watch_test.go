package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/testenv"
)

// newWatcher returns a Watcher of a run without traffic.
func newWatcher(t *testing.T) (w *Watcher, signals chan os.Signal, out *bytes.Buffer) {
	t.Helper()
	r := shadow.New(shadow.Config{})
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	signals, out = make(chan os.Signal, 4), &bytes.Buffer{}
	return &Watcher{Every: time.Hour, Run: r, Signals: signals, Out: out, Errs: &bytes.Buffer{}}, signals, out
}

// If the page can't be written, clients stay connected and the report is still printed.
func TestShadowPageOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, signals, out := newWatcher(t)
		name := filepath.Join(t.TempDir(), "page.html")
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w.ReportFile, _ = os.Open(name) // read-only
		served, ended := make(chan error), make(chan error, 1)
		go func() { ended <- w.Watch(served) }()
		signals <- syscall.SIGTERM
		<-w.Run.Over()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("clients are cut off: %v", err)
		default:
		}
		signals <- syscall.SIGTERM
		if err := <-ended; !errors.Is(err, os.ErrPermission) && !strings.Contains(err.Error(), "bad file descriptor") {
			t.Errorf("it ended with %v", err)
		}
		if !strings.Contains(out.String(), "INCONCLUSIVE") {
			t.Errorf("the report is %q", out)
		}
	})
}

// The second signal does not wait for targets.
func TestShadowSecondSignal(t *testing.T) {
	w, _, _ := newWatcher(t)
	w.handleSignal(syscall.SIGINT)
	w.handleSignal(syscall.SIGINT)
	<-w.Run.Over()
	if w.endSignals != 2 {
		t.Errorf("%d signals were counted", w.endSignals)
	}
}

// A run that can't begin leaves no page, so that the next one can use the name. An existing page stays.
func TestShadowLeavesNoEmptyPage(t *testing.T) {
	production := testenv.Redis(t)
	name := filepath.Join(t.TempDir(), "page.html")
	run := func() error {
		o := Mirror{Memory: "1MiB", HTML: name, Config: limited().Config}
		o.Servers = Servers{Listeners: Listeners{Redis: "127.0.0.1:0=" + production.URL()}, Control: production.URL(), Test: production.URL()}
		return o.Run(t.Context(), nil, &bytes.Buffer{}, &bytes.Buffer{})
	}
	for range 2 {
		if err := run(); !errors.Is(err, store.ErrUsage) {
			t.Fatal(err)
		}
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the page is left: %v", err)
		}
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(); !errors.Is(err, os.ErrExist) {
		t.Error(err)
	}
	if _, err := os.Stat(name); err != nil {
		t.Error(err)
	}
}
