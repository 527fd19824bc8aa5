package tarantool

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/cinch-layer/cinch/internal/gateway/trace"
	"github.com/cinch-layer/cinch/internal/gateway/trace/tracetest"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// tracedBed returns a bed whose gateway traces all requests.
func tracedBed(t *testing.T) (*bed, *tracetest.Commands) {
	t.Helper()
	c := tracetest.StartCommands(t)
	b := newBed(t, policy.Options{Rules: rules()}, func(o *Config) { o.Tracer = c.Tracer })
	b.install()
	return b, c
}

// changeSchema changes the schema without the gateway's knowledge.
func (b *bed) changeSchema() {
	b.t.Helper()
	b.direct().must(wire.Eval, 0x27, "local s = box.space.plain if s.index.other then s.index.other:drop() else s:create_index('other', {parts = {{2, 'unsigned'}}}) end", 0x21, []any{})
}

// upstreams returns the spans of the frames that were sent to the server for the request of span of, in their order.
func upstreams(c *tracetest.Commands, of tracetest.Span) (list []tracetest.Span) {
	for _, s := range c.Named("upstream") {
		if s.Parent == of.ID {
			list = append(list, s)
		}
	}
	return list
}

// Requests have spans for their parts, failures are errors with their codes, and no span contains data that a
// client has sent.
func TestTraceOfRequests(t *testing.T) {
	t.Parallel()
	b, c := tracedBed(t)
	client := b.client()
	client.must(wire.Replace, 0x10, docs, 0x21, tuple(1, document(1)))
	client.selectOne(docs, 1)
	client.do(wire.Insert, 0x10, docs, 0x21, tuple(1, document(1)))
	client.must(wire.Eval, 0x27, "return 'secret'", 0x21, []any{})
	client.must(wire.Ping)
	client.do(0x7e) // an unknown type
	client.sync++
	client.write(append(encode(t, wire.Delete, client.sync, nil, nil)[:4], 6, 0x82, 0, 9, 1, 9, 0x81)) // an UPSERT without its body
	if a := client.read(); a.code != wire.ErrorFlag|wire.ErrInvalid {
		t.Errorf("%+v", a)
	}
	c.End(t, systemName, b.g.Shutdown)
	c.SilentAbout(t, "subscriber", "docs", "tag", "secret", "uplicate")

	replace := c.One(t, "replace")
	parts := c.Parts(replace)
	for _, name := range []string{"parse", "codec request", "upstream"} {
		if _, ok := parts[name]; !ok {
			t.Errorf("the replace has no %s: %+v", name, parts)
		}
	}
	if up := parts["upstream"]; up.Kind != "SPAN_KIND_CLIENT" || !strings.Contains(up.Attributes["server.address"], b.server.Addr) ||
		!strings.Contains(replace.Attributes["db.operation.name"], "replace") || replace.Error != "" || up.Start.Before(parts["codec request"].End) {
		t.Errorf("the replace: %+v, upstream %+v", replace, up)
	}
	if selects := c.Parts(c.One(t, "select")); selects["codec reply"].Start.Before(selects["upstream"].End) {
		t.Errorf("the select: %+v", selects)
	}
	for name, want := range map[string]string{"insert": "3", "tarantool": "48"} {
		if bad := c.Named(name); len(bad) != 1 || bad[0].Error != "STATUS_CODE_ERROR "+want || !strings.Contains(bad[0].Attributes["db.response.status_code"], want) {
			t.Errorf("%s: %+v", name, bad)
		}
	}
	if eval := c.One(t, "eval"); eval.Error != "" {
		t.Errorf("%+v", eval)
	}
	if bad := c.One(t, "upsert"); bad.Error != "STATUS_CODE_ERROR refused" || len(c.Parts(bad)) != 0 {
		t.Errorf("%+v", bad)
	}
	c.One(t, "ping")
}

// A request that is sent again, or in steps, is still one request, with a span for each time that it was sent
// to the server.
func TestTraceOfWhatIsSentAgain(t *testing.T) {
	t.Parallel()
	b, c := tracedBed(t)
	client := b.client()
	b.put(client, 1, document(1))
	b.changeSchema()
	client.must(wire.Delete, 0x10, plain, 0x11, 0, 0x20, []any{1}) // not rewritten, so not refused
	b.changeSchema()
	client.splice(1)
	b.changeSchema()
	client.must(wire.Upsert, 0x10, docs, 0x21, tuple(2, document(2)), 0x28, []any{})
	c.End(t, systemName, b.g.Shutdown)
	if ups := upstreams(c, c.One(t, "delete")); len(ups) != 1 {
		t.Errorf("the delete: %+v", ups)
	}
	for name, least := range map[string]int{"update": 2, "upsert": 2} {
		one := c.One(t, name)
		ups := upstreams(c, one)
		if len(ups) < least || one.Error != "" || ups[len(ups)-1].Error != "" {
			t.Errorf("the %s: %+v, %+v", name, one, ups)
		}
		for i := range ups[:len(ups)-1] {
			if ups[i+1].Start.Before(ups[i].End) {
				t.Errorf("the %s: %+v", name, ups)
			}
		}
	}
	if ups := upstreams(c, c.One(t, "upsert")); ups[0].Error != "STATUS_CODE_ERROR schema_changed" {
		t.Errorf("the upsert: %+v", ups)
	}
}

// The trace of a request that the gateway refuses ends with the refusal.
func TestTraceOfRefusals(t *testing.T) {
	t.Parallel()
	c := tracetest.StartCommands(t)
	b := newBed(t, policy.Options{Rules: rules()}, func(o *Config) { o.Tracer = c.Tracer })
	client := b.client()
	b.put(client, 1, document(1))
	client.do(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{":", "doc", 0, 1, "X"}}) // without the stored function
	c.End(t, systemName, b.g.Shutdown)
	if no := c.One(t, "update"); no.Error != "STATUS_CODE_ERROR refused" || !strings.Contains(no.Attributes["db.response.status_code"], "5") {
		t.Errorf("%+v", no)
	}
}

// The trace of a request that waits for its reply ends with the connection.
func TestTraceOfEnds(t *testing.T) {
	b, c := tracedBed(t)
	client := b.client()
	client.send(wire.Call, 0x22, "slow", 0x21, []any{})
	b.asleep()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = b.g.Shutdown(ctx)
	if _, err := client.tryRead(); err == nil {
		t.Error("an answer")
	}
	c.End(t, systemName, b.g.Shutdown)
	if call := c.One(t, "call"); call.Error != "STATUS_CODE_ERROR connection_ended" || c.Parts(call)["upstream"].Error != call.Error {
		t.Errorf("%+v, %+v", call, c.Parts(call))
	}
	b.wake()
}

// All traces of requests of several clients end: of requests that are sent again, in steps, or in streams, and of those
// whose client disconnects.
func TestTraceUnderLoad(t *testing.T) {
	t.Parallel()
	b, c := tracedBed(t)
	b.put(b.client(), 1, document(1))
	var all sync.WaitGroup
	const rounds = 20
	for n := range 4 {
		all.Go(func() {
			client := b.client()
			for round := range rounds {
				if n == 0 {
					b.changeSchema()
				}
				var batch []byte
				for stream := range uint64(3) {
					client.sync += 2
					batch = append(batch, encode(t, wire.Replace, client.sync-1, keyed{0x0a, stream}, keyed{0x10, docs, 0x21, tuple(10+n, document(round))})...)
					batch = append(batch, encode(t, wire.Update, client.sync, keyed{0x0a, stream}, keyed{0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{":", "doc", 0, 1, "X"}}})...)
				}
				client.write(batch)
				if n == 3 && round == rounds/2 {
					_ = client.c.Close()
					client = b.client()
					continue
				}
				for range 6 {
					client.read()
				}
			}
		})
	}
	all.Wait()
	c.End(t, systemName, b.g.Shutdown)
	c.SilentAbout(t, "subscriber", "docs", "tag")
	if n := len(c.Named("replace")); n < 3*3*rounds {
		t.Errorf("%d replacements", n)
	}
}

// A request that is not traced costs no allocation, whether the gateway traces others or not, and exchanges are small
// enough for a map to store them in place.
func TestUntracedRequestsAllocateNothing(t *testing.T) {
	if n := unsafe.Sizeof(exchange{}); n > 128 {
		t.Errorf("an exchange has %d bytes", n)
	}
	others, err := trace.New(trace.Options{Endpoint: "http://127.0.0.1:1/v1/traces", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for name, tracer := range map[string]*trace.Tracer{"off": nil, "others": others} {
		g := offline(t)
		g.cfg.Tracer = tracer
		s := newSession(g, nowhere{}, nowhere{})
		for typ, body := range map[wire.Type]keyed{
			wire.Ping:   nil,
			wire.Select: {0x10, 600, 0x11, 0, 0x12, 1, 0x20, []any{1}},
			wire.Update: {0x10, 600, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{"+", 2, 1}}},
			wire.Insert: {0x10, 600, 0x21, []any{1, abc, 3}}, // its second field is compressed
		} {
			request, reply := frame{encode(t, typ, 7, nil, body), 5}, frame{encode(t, wire.OK, 7, keyed{0x05, 9}, keyed{0x30, []any{}}), 5}
			if n := testing.AllocsPerRun(1000, func() {
				if s.handleRequest(&request) != nil || s.handleReply(&reply) != nil {
					t.Fatal("an error")
				}
			}); n > 0 {
				t.Errorf("traces %s, type %d: %v allocations", name, typ, n)
			}
		}
		_ = s.Close()
		g.cancel()
	}
}
