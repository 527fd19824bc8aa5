package link

import (
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A panic while a link compresses or decompresses ends that link with an error, and frees its histories. Another link
// of the same gateways continues.
func TestPanicsOfALink(t *testing.T) {
	for _, where := range []string{"writing", "reading"} {
		t.Run(where, func(t *testing.T) {
			log := &testenv.Log{}
			near, far := newEndpoint(t, "near"), newEndpoint(t, "far")
			near.cfg.Log, far.cfg.Log = slog.New(slog.NewTextHandler(log, nil)), slog.New(slog.NewTextHandler(log, nil))
			n, f, _ := carryNew(t, near, far)
			n2, f2, _ := carryNew(t, near, far)
			end := near
			if where == "reading" {
				end = far
			}
			engine := end.cfg.Engine
			end.cfg.Engine = nil
			piece := make([]byte, 10<<10)
			_, err := n.Write(piece)
			if where == "reading" {
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.ReadFull(f, piece)
			}
			if !errors.Is(err, gateway.ErrPanicked) {
				t.Errorf("%s ended with %v", where, err)
			}
			if errs := end.cfg.Stats.Snapshot().Errors; errs["panic"] != 1 || log.Count("stack=") != 1 {
				t.Errorf("counted %v, and logged:\n%s", errs, log.String())
			}
			end.cfg.Engine = engine
			if _, err := n.Write(piece); err == nil && where == "writing" {
				t.Error("the link goes on")
			}
			_, _ = n.Close(), f.Close()
			if _, err := n2.Write(piece); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(f2, piece); err != nil {
				t.Error(err)
			}
		})
	}
}
