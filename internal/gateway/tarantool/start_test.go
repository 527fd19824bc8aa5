package tarantool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
	"github.com/cinch-layer/cinch/test/testenv"
)

// failing holds a function that is called before the schema is read. If it returns an error, reading fails with it.
type failing struct{ f atomic.Pointer[func() error] }

func (f *failing) set(err error)        { f.do(func() error { return err }) }
func (f *failing) do(fail func() error) { f.f.Store(&fail) }

// bed returns a bed whose gateway has failed to read the schema.
func (f *failing) bed(t *testing.T, err error) *bed {
	t.Helper()
	f.set(err)
	b := newBed(t, policy.Options{Rules: rules()}, func(c *Config) {
		read := c.Schema
		c.Schema = func(ctx context.Context) (*schema.Schema, error) {
			if err := (*f.f.Load())(); err != nil {
				return nil, err
			}
			return read(ctx)
		}
	})
	b.install()
	b.direct().must(wire.Replace, 0x10, docs, 0x21, tuple(1, document(1)))
	testenv.Eventually(t, "the schema can't be read", func() bool { return b.failures() > 0 })
	return b
}

func (b *bed) failures() uint64 { return b.stats.Snapshot().Errors["schema"] }

var errNoServer = errors.New("refused")

func (r *raw) splice(id int) { // replaces the first byte by "X"
	r.t.Helper()
	r.must(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{id}, 0x21, []any{[]any{":", "doc", 0, 1, "X"}})
}

// The hint in an error of reading the schema is logged; without one, a default hint.
func TestHintOfUnreadableSchema(t *testing.T) {
	for _, c := range []struct {
		err  error
		hint string
	}{{errNoServer, "is the server up?"}, {terminal.WithHint(errNoServer, "grant it"), "grant it"}} {
		var log strings.Builder
		newCatalog(t.Context(), nil, nil, gateway.NewStats("t", "tarantool"), slog.New(slog.NewTextHandler(&log, nil))).logFailure(c.err)
		if !strings.Contains(log.String(), fmt.Sprintf("err=refused hint=%q", c.hint)) {
			t.Errorf("the log has %s", &log)
		}
	}
}

// A gateway that was started before its server reads the schema as soon as a client connects to the server.
func TestGatewayBeforeItsServer(t *testing.T) {
	var f failing
	b := f.bed(t, errNoServer)
	b.g.catalog.refresh(t.Context()) // so that a load has just failed
	f.set(nil)
	c := b.client()
	c.splice(1)
	b.put(c, 2, document(2))
	b.check(c, 1, "X"+document(1)[1:], true)
	b.check(c, 2, document(2), true)
}

// If a client connects during a load that fails because it began before the server was up, the client's request starts
// another load.
func TestGatewayReadsTheSchemaInVain(t *testing.T) {
	var f failing
	b := f.bed(t, errNoServer)
	begun, end := make(chan struct{}), make(chan struct{})
	var reads atomic.Int32
	f.do(func() error {
		if reads.Add(1) > 1 {
			return nil
		}
		close(begun)
		<-end
		return errNoServer
	})
	go func() { // the gateway does the same by itself, a little later
		for b.g.ctx.Err() == nil && reads.Load() == 0 {
			b.g.catalog.refresh(b.g.ctx)
			time.Sleep(time.Millisecond)
		}
	}()
	<-begun
	c := b.client()
	time.AfterFunc(50*time.Millisecond, func() { close(end) })
	c.splice(1)
	b.check(c, 1, "X"+document(1)[1:], true)
}

// Requests that need the schema wait if the gateway's user is created a little after the first clients have connected.
func TestGatewayBeforeItsUser(t *testing.T) {
	var f failing
	b := f.bed(t, errors.New("no such user"))
	c := b.client()
	before := b.failures()
	go func() {
		for b.failures() < before+2 {
			time.Sleep(time.Millisecond)
		}
		f.set(nil)
	}()
	c.splice(1)
	b.check(c, 1, "X"+document(1)[1:], true)
}

// A restarted server counts schema versions from the beginning. A client that connects to it need not wait until the
// gateway's next attempt to read the schema.
func TestSpliceAtOnceAfterRestart(t *testing.T) {
	var f failing
	b := f.bed(t, errNoServer)
	f.set(nil)
	b.client().splice(1)
	b.server.Kill()
	f.set(errNoServer)
	testenv.Eventually(t, "the end of the server is noticed", b.g.catalog.stale.Load)
	if err := b.server.Restart(t); err != nil {
		t.Fatal(err)
	}
	direct := b.direct()
	for range 3 { // so that the schema version differs from those read before
		direct.must(wire.Eval, 0x27, "box.schema.space.create('more'):drop()", 0x21, []any{})
	}
	b.g.catalog.refresh(t.Context())
	f.set(nil)
	c := b.client()
	c.splice(1)
	b.check(c, 1, "X"+document(1)[1:], true)
}
