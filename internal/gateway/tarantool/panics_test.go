package tarantool

import (
	"context"
	"log/slog"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A panic while the schema is read counts as a failure to read it: requests that wait for the schema
// continue.
func TestPanicOfALoad(t *testing.T) {
	log, stats := &testenv.Log{}, gateway.NewStats("test", "tarantool")
	c := newCatalog(t.Context(), nil, func(context.Context) (*schema.Schema, error) { panic("while loading") }, stats, slog.New(slog.NewTextHandler(log, nil)))
	c.refresh(t.Context())
	if n := stats.Snapshot().Errors["panic"]; n != 1 || log.Count("stack=") != 1 {
		t.Errorf("%d panics counted, and logged:\n%s", n, log.String())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loading != nil || c.failedAt.IsZero() {
		t.Error("the load has not failed")
	}
}
