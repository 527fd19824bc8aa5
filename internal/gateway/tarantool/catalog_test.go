package tarantool

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
	"github.com/cinch-layer/cinch/test/testenv"
)

// The schema is read again when it may have changed, and the previous one stays in use when that fails.
func TestCatalogReadsAgain(t *testing.T) {
	reads, version, fail := 0, uint64(3), error(nil)
	log := slog.New(slog.DiscardHandler)
	c := newCatalog(t.Context(), nil, func(context.Context) (*schema.Schema, error) {
		reads++
		return &schema.Schema{Version: version}, fail
	}, gateway.NewStats("test", "tarantool"), log)
	expect := func(why string, wantReads int, wantVersion uint64) {
		t.Helper()
		if all := c.current(t.Context()); all == nil || all.version != wantVersion || reads != wantReads {
			t.Errorf("%s: %d reads, want %d; %+v", why, reads, wantReads, all)
		}
	}
	expect("first", 1, 3)
	expect("again", 1, 3)
	version = 5
	c.recordVersion(4)
	expect("an answer names a newer version", 2, 5)
	c.recordVersion(3)
	c.markRefused(3)
	expect("an old answer", 2, 5)
	c.markRefused(5)
	expect("a request by that version is refused", 3, 5)
	c.markLost()
	expect("a connection was lost", 4, 5)
	fail = errors.New("down")
	c.markLost()
	expect("the server is down", 5, 5)
	fail, version = nil, 2
	c.recordGreeting()
	expect("it has greeted a client, and counts anew", 6, 2)
	if c := newCatalog(t.Context(), nil, nil, nil, log); c.readsSchema() || c.current(t.Context()) != nil || c.awaitSpaces(t.Context()) != nil {
		t.Error("something is known without a way to read it")
	}
}

// A reply may name a version while the schema is read. It is remembered if it is newer than the schema that was read.
func TestCatalogKeepsNewerVersions(t *testing.T) {
	var c *catalog
	reads := uint64(0)
	c = newCatalog(t.Context(), nil, func(context.Context) (*schema.Schema, error) {
		reads++
		c.recordVersion(6) // the version of the second schema; a session records each version only once
		return &schema.Schema{Version: 4 + reads}, nil
	}, gateway.NewStats("test", "tarantool"), slog.New(slog.DiscardHandler))
	for want := uint64(5); want <= 6; want++ {
		if all := c.current(t.Context()); all.version != want || c.isFresh(all) != (want == 6) {
			t.Errorf("version %d in place of %d, fresh: %v", all.version, want, c.isFresh(all))
		}
	}
	if c.current(t.Context()); reads != 2 {
		t.Errorf("%d reads", reads)
	}
}

// A panic while the schema is read counts as a failure to read it, so requests that wait for the schema continue.
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
