package http

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

type faultyWriter struct{ closed bool }

func (*faultyWriter) Append([]byte, []byte) ([]byte, error) { panic("while compressing") }
func (*faultyWriter) End([]byte) ([]byte, error)            { panic("while compressing") }
func (w *faultyWriter) Close()                              { w.closed = true }

// A body of unknown length is compressed in a goroutine of net/http's transport, which does not recover. A
// panic there becomes an error of the body, and the body's memory is released.
func TestPanicInAStream(t *testing.T) {
	log, w, freed := &testenv.Log{}, &faultyWriter{}, 0
	s := &streamBody{
		src: io.NopCloser(strings.NewReader("a body")), to: w, log: slog.New(slog.NewTextHandler(log, nil)), stats: gateway.NewStats("test", "http"),
		ch: recoding{rule: &policy.MessageRule{}}, free: func() { freed++ }, piece: make([]byte, 100),
	}
	for range 2 {
		if _, err := s.Read(make([]byte, 10)); !errors.Is(err, gateway.ErrPanicked) {
			t.Errorf("read: %v", err)
		}
	}
	_ = s.Close()
	if n := s.stats.Snapshot().Errors["panic"]; n != 1 || log.Count("stack=") != 1 || freed != 1 || !w.closed {
		t.Errorf("%d panics, %d stacks, freed %d times, closed %v", n, log.Count("stack="), freed, w.closed)
	}
}
