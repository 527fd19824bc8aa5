package server

import (
	"context"
	"errors"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/switchover/postgres"
	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
	"github.com/cinch-layer/cinch/test/testenv"
)

// While clients are held the process is not replaced, and while it is being replaced no clients can be held.
func TestHeldClientsKeepTheProcess(t *testing.T) {
	p, err := New(Options{
		Load: func() (*config.Config, error) {
			return config.Parse("", []byte("admin: {listen: off}\ngateways:\n"+
				"  - {name: a, protocol: postgres, listen: \"127.0.0.1:0\", upstream: \"postgres://127.0.0.1:1\"}\n"+
				"  - {name: b, protocol: postgres, listen: \"127.0.0.1:0\", upstream: \"postgres://127.0.0.1:1\"}\n"), nil)
		},
		Log:  &testenv.Log{},
		Zstd: Zstd{Engine: func(string) (*codec.Engine, error) { return codec.New(codec.Options{}), nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	a, b := p.shared.postgres[0], p.shared.postgres[1]
	if _, err := b.Hold(t.Context(), control.HoldRequest{By: "a rollout"}); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel() // a successor that is started all the same ends at once
	if _, err := p.startSuccessor(over); !errors.Is(err, postgres.ErrBusy) {
		t.Errorf("replaced while clients are held: %v", err)
	}
	if _, err := b.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	done, err := p.shared.preventHolds()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []*postgres.Gateway{a, b} {
		if _, err := g.Hold(t.Context(), control.HoldRequest{}); !errors.Is(err, postgres.ErrBusy) {
			t.Errorf("held while the process is replaced: %v", err)
		}
	}
	done()
	if _, err := a.Hold(t.Context(), control.HoldRequest{}); err != nil {
		t.Error(err)
	}
}
