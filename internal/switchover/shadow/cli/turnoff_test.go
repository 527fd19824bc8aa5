package cli

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/recording"
	"github.com/cinch-layer/cinch/test/testenv"
)

// SIGUSR1 turns the mirror off, and does nothing else, however often it is sent, and even if the mirror has
// ended by itself.
func TestShadowSwitchNeverCutsClientsOff(t *testing.T) {
	for name, first := range map[string]func(*Watcher, chan os.Signal){
		"by SIGUSR1": func(_ *Watcher, signals chan os.Signal) { signals <- syscall.SIGUSR1 },
		"by itself":  func(w *Watcher, _ chan os.Signal) { w.Run.Off("a target froze") },
	} {
		t.Run(name, func(t *testing.T) {
			w, signals, _ := newWatcher(t)
			errs := &said{}
			w.Errs = errs
			ended := make(chan error, 1)
			go func() { ended <- w.Watch(make(chan error)) }()
			first(w, signals)
			testenv.Eventually(t, "the report is there", func() bool { return errs.has("passed through to production until") })
			stillThere(t, ended, signals)
			signals <- syscall.SIGTERM
			if err := <-ended; !errors.Is(err, ErrNoVerdict) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// stillThere sends SIGUSR1 more often than the channel can buffer, so that all but the last ones were handled.
func stillThere(t *testing.T, ended <-chan error, signals chan os.Signal) {
	t.Helper()
	for range 3 * cap(signals) {
		select {
		case err := <-ended:
			t.Fatalf("clients are cut off: %v", err)
		case signals <- syscall.SIGUSR1:
		case <-time.After(time.Minute):
			t.Fatal("no goroutine receives signals")
		}
	}
}

// The same for a recording that has ended.
func TestRecordSwitchNeverCutsClientsOff(t *testing.T) {
	file, err := recording.Create(filepath.Join(t.TempDir(), "tape"), recording.Header{Protocol: "redis", Start: time.Now()}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	r := shadow.NewRecorder(shadow.RecorderConfig{}, file)
	signals, errs, ended := make(chan os.Signal, 4), &said{}, make(chan error, 1)
	go func() { ended <- Recording{}.watch(t.Context(), r, echo(t), signals, errs) }()
	signals <- syscall.SIGUSR1
	testenv.Eventually(t, "the recording has ended", func() bool { return errs.has("passed through to production until") })
	stillThere(t, ended, signals)
	signals <- syscall.SIGTERM
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
