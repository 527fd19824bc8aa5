package redis

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/gateway/trace"
	"github.com/cinch-layer/cinch/internal/gateway/trace/tracetest"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

func traceAll(by *tracetest.Commands) func(*Config) {
	return func(c *Config) { c.Tracer = by.Tracer }
}

// Commands have spans for their parts. Failures are recorded by the first word of the error. No span contains
// bytes that a client sent.
func TestTraceOfCommands(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	c := tracetest.StartCommands(t)
	path, g := startGateway(t, sock, traceAll(c))
	client := clientOf(t, path)
	expect(t, client, "SET key:secret {long}", "OK", "GET key:secret", "{long}", "LPUSH list:secret a", "1",
		"LLEN key:secret", "error: WRONGTYPE", "APPEND key:secret x", "1051", "GETRANGE key:secret 0 0", string([]rune(long)[:1]), "MYSECRET x", "error: ERR unknown command",
		"EVAL return{err='MYERROR'} 0", "error: MYERROR")
	if _, err := client.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		p.Set(ctx, "key:secret", 1, 0)
		p.Incr(ctx, "key:secret")
		return nil
	}); err != nil {
		t.Error(err)
	}
	c.End(t, systemName, g.Shutdown)
	c.SilentAbout(t, "ecret", "SECRET", "MYERROR", "return", "unknown command")

	set := c.Named("SET")[0]
	parts := c.Parts(set)
	if up := parts["upstream"]; up.Kind != "SPAN_KIND_CLIENT" || !strings.Contains(up.Attributes["server.address"], sock) || parts["codec request"].Parent != set.ID ||
		!strings.Contains(set.Attributes["db.operation.name"], "SET") || set.Error != "" {
		t.Errorf("SET: %+v, %+v", set, parts)
	}
	if get := c.Parts(c.Named("GET")[0]); get["codec reply"].Start.Before(get["upstream"].End) || get["upstream"].ID == "" {
		t.Errorf("GET: %+v", get)
	}
	for name, want := range map[string]string{"LLEN": "WRONGTYPE", "redis": "ERR", "EVAL": "other", "APPEND": "", "GETRANGE": ""} {
		if want != "" {
			want = "STATUS_CODE_ERROR " + want
		}
		if list := c.Named(name); len(list) != 1 || list[0].Error != want {
			t.Errorf("%s: %+v", name, list)
		}
	}
	c.One(t, "MULTI") // the first command of a pipeline
}

// Some commands of several clients' pipelines are traced, however their replies are carried, and all those
// traces end.
func TestTraceOfPipelines(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	c := tracetest.StartCommands(t)
	path, g := startGateway(t, sock, traceAll(c))
	var all sync.WaitGroup
	const clients, rounds = 4, 30
	for range clients {
		all.Go(func() {
			client := clientOf(t, path)
			for range rounds {
				if _, err := client.Pipelined(ctx, func(p goredis.Pipeliner) error {
					for range 20 {
						p.Set(ctx, "a", long, 0)
						p.Get(ctx, "a")
						p.Set(ctx, "b", "short", 0)
						p.Append(ctx, "a", "x")
						p.Get(ctx, "b")
						p.MGet(ctx, "a", "b")
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	c.End(t, systemName, g.Shutdown)
	n := c.Tracer.Counts().Requests
	if n < clients*rounds { // at least the first of each
		t.Errorf("%d are traced", n)
	}
	for _, s := range c.Spans() {
		if s.Error != "" {
			t.Errorf("%+v", s)
		}
	}
	t.Logf("%d of %d commands are traced", n, clients*rounds*20*6)
}

// A trace of a blocked command ends with the connection, and a value that cannot be decompressed is an error.
func TestTraceOfEnds(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	c := tracetest.StartCommands(t)
	path, g := startGateway(t, sock, traceAll(c))
	client := clientOf(t, path)
	expect(t, client, "SET menu:17:de {long}", "OK", "HSET cart:9 item {long}", "1")
	damage(t, sock)
	if got := do(client, "GET menu:17:de"); !strings.HasPrefix(got, "error") {
		t.Errorf("got %.60q", got)
	}
	waits := clientOf(t, path)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = waits.BLPop(ctx, 0, "nothing").Err()
	}()
	direct := clientOf(t, sock)
	testenv.Eventually(t, "a client is blocked", func() bool { return strings.Contains(do(direct, "INFO clients"), "blocked_clients:1") })
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_ = g.Shutdown(ended)
	<-done
	c.End(t, systemName, g.Shutdown)
	if get := c.One(t, "GET"); get.Error != "STATUS_CODE_ERROR not_opened" {
		t.Errorf("%+v", get)
	}
	if pop := c.One(t, "BLPOP"); pop.Error != "STATUS_CODE_ERROR connection_ended" || c.Parts(pop)["upstream"].Error != pop.Error {
		t.Errorf("%+v, %+v", pop, c.Parts(pop))
	}
}

// A trace ends once, whichever pump is later: the one that learns the number of its reply, or the one that
// has the reply.
func TestTraceOfEarlyReplies(t *testing.T) {
	c := tracetest.StartCommands(t)
	by := newTracing(&Config{Name: "test", Tracer: c.Tracer}, &feed{})
	get, requests := &command{name: "get", strategy: values}, uint64(7)
	for _, early := range []bool{false, true} {
		if !by.begin(get, requests) || by.begin(get, requests) {
			t.Fatal("not one at a time")
		}
		requests++
		if !early {
			by.sent(requests, 0)
		}
		by.beginReply(requests, nil, resp.Bulk)
		by.recordCorrupt()
		by.endReply(requests)
		if early {
			by.sent(requests, 0)
		}
		if by.current.Load() != nil {
			t.Errorf("early %v: it goes on", early)
		}
	}
	by.begin(get, requests)
	by.endReply(requests)
	requests += 2
	by.sent(requests, 0) // the reply above was not to this command
	by.beginReply(requests, nil, resp.Integer)
	by.endReply(requests + 3) // its reply was carried together with others
	by.begin(get, requests)
	by.sent(requests, 0) // this command has no reply
	if by.current.Load() != nil {
		t.Error("it goes on")
	}
	c.End(t, systemName, func(context.Context) error { return nil })
	list := c.Named("GET")
	if len(list) != 4 || list[0].Error != "STATUS_CODE_ERROR not_opened" || list[1].Error != list[0].Error || list[2].Error != "" || list[3].Error != "" {
		t.Errorf("%+v", list)
	}
}

// A command that is not traced allocates nothing for tracing, whether others are traced or not.
func TestUntracedCommandsAllocateNothing(t *testing.T) {
	others, err := trace.New(trace.Options{Endpoint: "http://127.0.0.1:1/v1/traces", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for name, tracer := range map[string]*trace.Tracer{"off": nil, "others": others} {
		const times = 1000
		g := NewGateway(Config{Tracer: tracer})
		client := &feed{bytes: resp.AppendCommand(nil, "GET", "key:000000000123"), reads: 2 * times}
		server := &feed{bytes: []byte("$16\r\nxxxxxxxxxxxxxxxx\r\n"), reads: 2 * times}
		s := newSession(g, client, server, time.Now())
		if n := testing.AllocsPerRun(times, func() {
			for before := s.upstream.queue.pushed; s.upstream.queue.pushed == before; {
				if err := s.next(); err != nil {
					t.Fatal(err)
				}
			}
			if s.upstream.out.Flush() != nil || s.replyPump.next() != nil {
				t.Fatal("an error")
			}
		}); n > 0 && !testenv.RaceDetector {
			t.Errorf("traces %s: %v allocations", name, n)
		}
	}
}
