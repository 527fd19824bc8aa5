package mongo

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/gateway/trace/tracetest"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/testenv"
)

func traceAll(by *tracetest.Commands) func(*Config) {
	return func(c *Config) { c.Tracer = by.Tracer }
}

// Commands have spans for their parts, failures have the error's code, and no span contains data sent by a
// client.
func TestTraceOfCommands(t *testing.T) {
	server, _ := between(t)
	c := tracetest.StartCommands(t)
	s := serve(t, server.Addr, withZstd, traceAll(c))
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello("snappy"))
	raw.run(wire.Snappy, command("insert", "people", manyDocuments))
	for range 2 { // until the gateway knows that the replies are large
		raw.run(plain, command("find", "people"))
	}
	raw.run(plain, command("count", "people", bson.E{Key: "query", Value: bson.D{{Key: "$secret", Value: 1}}}))
	raw.run(plain, command("mySecret", 1))
	raw.send(plain, uint32(wire.MoreToCome), command("delete", "people", bson.E{Key: "deletes", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "secret", Value: 1}}}, {Key: "limit", Value: 0}}}}))
	raw.run(plain, command("ping", 1)) // waits for the delete
	c.End(t, systemName, s.Shutdown)
	c.SilentAbout(t, "ecret", "people", "shop", "errmsg")

	insert := c.One(t, "insert")
	parts := c.Parts(insert)
	for _, name := range []string{"parse", "codec request", "upstream"} {
		if _, ok := parts[name]; !ok {
			t.Errorf("the insert has no %s: %+v", name, parts)
		}
	}
	up := parts["upstream"]
	if up.Kind != "SPAN_KIND_CLIENT" || !strings.Contains(up.Attributes["server.address"], server.Addr) || !strings.Contains(up.Attributes["cinch.encoding"], "zstd") ||
		!strings.Contains(insert.Attributes["db.operation.name"], "insert") || insert.Error != "" || up.Start.Before(parts["parse"].End) {
		t.Errorf("the insert: %+v, upstream %+v", insert, up)
	}
	if finds := c.Named("find"); len(finds) == 0 || !strings.Contains(c.Parts(finds[len(finds)-1])["codec reply"].Attributes["cinch.encoding.from"], "zstd") {
		t.Errorf("finds: %+v", finds)
	}
	if bad := c.One(t, "count"); bad.Error != "STATUS_CODE_ERROR 2" || !strings.Contains(bad.Attributes["db.response.status_code"], "2") {
		t.Errorf("a bad one: %+v", bad)
	}
	if unknown := c.One(t, "mongodb"); unknown.Error != "STATUS_CODE_ERROR 59" || unknown.Attributes["db.operation.name"] != "" {
		t.Errorf("an unknown one: %+v", unknown)
	}
	if unanswered := c.One(t, "delete"); unanswered.Error != "" || c.Parts(unanswered)["upstream"].Error != "" {
		t.Errorf("one without a reply: %+v", unanswered)
	}
	c.One(t, "hello")
}

// Drivers work unchanged while everything is traced, through both gateways of a pair.
func TestTraceOfDrivers(t *testing.T) {
	server := standalone(t)
	c, near := tracetest.StartCommands(t), tracetest.StartCommands(t)
	far := serve(t, server.Addr, withZstd, traceAll(c), peers)
	s := serve(t, far.addr, withZstd, traceAll(near), linking)
	client := connect(t, s.uri(), "snappy")
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			coll := client.Database("shop").Collection("people")
			for i := range 20 {
				if _, err := coll.InsertOne(t.Context(), user(100*worker+i)); err != nil {
					t.Error(err)
				}
				if err := coll.FindOne(t.Context(), bson.D{}).Err(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	_ = client.Disconnect(t.Context())
	near.End(t, systemName, s.Shutdown)
	c.End(t, systemName, far.Shutdown)
	for _, one := range []*tracetest.Commands{c, near} {
		one.SilentAbout(t, "people", "shop")
		if inserts, finds := one.Named("insert"), one.Named("find"); len(inserts) < 80 || len(finds) < 80 {
			t.Errorf("%d inserts, %d finds", len(inserts), len(finds))
		}
	}
	if up := near.Parts(near.Named("insert")[70])["upstream"]; !strings.Contains(up.Attributes["cinch.encoding"], "link") {
		t.Errorf("to a gateway: %+v", up)
	}
}

// Traces end when their connection ends, and at an invalid message.
func TestTraceOfEnds(t *testing.T) {
	t.Parallel() // the subtest with the client's end takes two seconds
	l := listen(t)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				b := make([]byte, 4096)
				n, _ := conn.Read(b)
				if n > 0 && strings.Contains(string(b[:n]), "stays") {
					_, _ = conn.Read(b)
				}
			}()
		}
	}()
	t.Run("the server's", func(t *testing.T) {
		c := tracetest.StartCommands(t)
		s := serve(t, l.Addr().String(), nil, traceAll(c))
		raw := dialRaw(t, s.addr)
		raw.send(plain, 0, command("find", "people"))
		if _, err := raw.tryReceive(); err == nil {
			t.Error("an answer")
		}
		c.End(t, systemName, s.Shutdown)
		if find := c.One(t, "find"); find.Error != "STATUS_CODE_ERROR connection_ended" || c.Parts(find)["upstream"].Error != find.Error {
			t.Errorf("%+v, %+v", find, c.Parts(find))
		}
	})
	t.Run("the client's", func(t *testing.T) {
		c := tracetest.StartCommands(t)
		s := serve(t, l.Addr().String(), nil, traceAll(c))
		raw := dialRaw(t, s.addr)
		raw.send(plain, 0, command("find", "stays"))
		testenv.Eventually(t, "the request is sent", func() bool { return c.Tracer.Counts().Requests == 1 })
		_ = raw.conn.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx) // the server does not end the session
		c.End(t, systemName, s.Shutdown)
		if find := c.One(t, "find"); find.Error != "STATUS_CODE_ERROR connection_ended" {
			t.Errorf("%+v", find)
		}
	})
	t.Run("no message", func(t *testing.T) {
		c := tracetest.StartCommands(t)
		s := serve(t, l.Addr().String(), nil, traceAll(c))
		raw := dialRaw(t, s.addr)
		bad := opMsg(1, 0, command("find", "stays"))
		bad[wire.HeaderLen+4] = 77 // the section kind
		raw.write(bad)
		expectClosed(t, s, raw, "malformed")
		c.End(t, systemName, s.Shutdown)
		if is := c.One(t, "mongodb"); is.Error != "STATUS_CODE_ERROR malformed" {
			t.Errorf("%+v", is)
		}
	})
	t.Run("a login that does not pass", func(t *testing.T) {
		c := tracetest.StartCommands(t)
		s := serve(t, l.Addr().String(), nil, traceAll(c))
		raw := dialRaw(t, s.addr)
		raw.run(plain, command("saslStart", 1, bson.E{Key: "mechanism", Value: "PLAIN"}))
		c.End(t, systemName, s.Shutdown)
		if login := c.One(t, "saslStart"); login.Error != "STATUS_CODE_ERROR login_refused" {
			t.Errorf("%+v", login)
		}
	})
}

// The first of several replies ends the trace of its request, and the others have none. The wait of a blocked
// push is recorded.
func TestTraceOfQueues(t *testing.T) {
	c := tracetest.StartCommands(t)
	by := tracing{tracer: c.Tracer, gateway: "test", server: "there"}
	var p pending
	p.init()
	p.push(&exchange{id: 1, trace: by.begin(time.Now(), 0)}, nil)
	if x, _ := p.take(1, true, 2); x.trace == nil {
		t.Error("the first reply has no trace")
	} else {
		traceEnded(x.trace, nil, nil)
	}
	if x, ok := p.take(2, false, 0); !ok || x.trace != nil {
		t.Errorf("the second: %+v, %v", x, ok)
	}
	for i := range int32(maxPending) {
		p.push(&exchange{id: i}, nil)
	}
	waits := make(chan struct{})
	go func() {
		<-waits
		p.take(0, false, 0)
	}()
	p.push(&exchange{id: maxPending, trace: by.begin(time.Now(), time.Second)}, room(waits))
	by.conn.End()
	if err := c.Tracer.Close(t.Context()); err != nil {
		t.Error(err)
	}
	waited := c.Named("wait")
	if len(waited) != 2 || waited[0].End.Sub(waited[0].Start) != time.Second {
		t.Errorf("waits: %+v", waited)
	}
	if list := c.Named("mongodb"); len(list) != 2 || list[0].Error != "" || list[1].Error != "STATUS_CODE_ERROR connection_ended" {
		t.Errorf("commands: %+v", list)
	}
}

// Spans have only known operation names.
func TestOperationNames(t *testing.T) {
	lower := map[string]bool{}
	for name := range operations {
		lower[strings.ToLower(name)] = true
	}
	for name := range commands {
		if !lower[name] && !strings.HasPrefix(name, "copydb") {
			t.Errorf("%s is not known", name)
		}
	}
	for name, want := range map[string]string{"isMaster": "isMaster", "ismaster": "ismaster", "findAndModify": "findAndModify", "FIND": "", "": "", "find me": "", strings.Repeat("x", 1000): ""} {
		if got := operationName([]byte(name)); got != want {
			t.Errorf("%s is %s", name, got)
		}
	}
}
