package page

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/tarantool/go-tarantool/v2"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

const (
	token    = "a token of this test 0123456789"
	patience = time.Minute // limit for a server's answer, on a busy machine
)

// world is a cinch serve with five gateways, one of which has no server behind it.
type world struct {
	*testenv.GatewayServer
	URL    string
	server *testenv.RedisServer // behind the gateway test
	other  *testenv.RedisServer // behind sessions
	addr   map[string]string    // of the other gateways

	redis  *goredis.Client
	more   *goredis.Client
	tuples *tarantool.Connection
	docs   *mongo.Collection
	seed   uint64
}

const tarantoolSpace = `local s = box.schema.space.create('events', {if_not_exists = true})
s:format({{'id', 'unsigned'}, {'body', 'string'}})
s:create_index('pk', {if_not_exists = true})
`

// gateways are all gateways but the first, which is called test.
const gateways = `- name: sessions
  protocol: redis
  listen: %q
  upstream: %q
  rules:
    - {name: sessions, key: "session:*", setting: zstd-1, min_size: 64}
    - {name: rest, setting: lz4}
- name: orders
  protocol: redis
  listen: %q
  upstream: %q
  rules: [{name: orders, setting: zstd-3}]
- name: events
  protocol: tarantool
  listen: %q
  upstream: %q
  rules: [{name: bodies, space: events, field: body, setting: zstd-3}]
- name: documents
  protocol: mongo
  listen: %q
  upstream: %q
  rules: [{name: all, setting: zstd-3}]
`

// begin starts the servers, the process and the clients.
func begin(t *testing.T) *world {
	t.Helper()
	server, other, tuples, mongod := testenv.Redis(t), testenv.Redis(t), testenv.Tarantool(t, tarantoolSpace), mongotest.Start(t, mongotest.Config{})
	w := &world{server: server, other: other, addr: map[string]string{}}
	for _, name := range []string{"sessions", "orders", "events", "documents", "nobody"} {
		w.addr[name] = net.JoinHostPort("127.0.0.1", fmt.Sprint(testenv.FreePort(t)))
	}
	dir := t.TempDir()
	secret := filepath.Join(dir, "token")
	if err := os.WriteFile(secret, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.GatewayServer = testenv.Gateway(t, testenv.GatewayConfig{
		Upstream: server.Addr,
		Rules:    "- {name: menus, key: \"menu:*\", setting: zstd-3, min_size: 64}\n- {name: default, setting: zstd-1, min_size: 64}\n",
		Process:  fmt.Sprintf("history: {path: %q}\n", filepath.Join(dir, "history")),
		Admin:    fmt.Sprintf("token_file: %q", secret),
		More: fmt.Sprintf(gateways, w.addr["sessions"], other.URL(), w.addr["orders"], "redis://"+w.addr["nobody"],
			w.addr["events"], "tarantool://"+tuples.Addr, w.addr["documents"], "mongodb://"+mongod.Addr),
	})
	w.URL = "http://" + w.GatewayServer.Admin + "/"
	w.connect(t)
	return w
}

// connect creates the clients. They survive restarts of the process.
func (w *world) connect(t *testing.T) {
	t.Helper()
	for addr, into := range map[string]**goredis.Client{w.Addr: &w.redis, w.addr["sessions"]: &w.more} {
		*into = goredis.NewClient(&goredis.Options{Addr: addr, ReadTimeout: patience})
		t.Cleanup(func() { _ = (*into).Close() })
	}
	dialer := tarantool.NetDialer{Address: w.addr["events"]}
	testenv.Eventually(t, "a Tarantool client connects", func() (ok bool) {
		var err error
		w.tuples, err = tarantool.Connect(t.Context(), dialer, tarantool.Opts{Timeout: patience, Reconnect: time.Second, MaxReconnects: 1000})
		return err == nil
	})
	t.Cleanup(func() { _ = w.tuples.Close() })
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + w.addr["documents"] + "/?directConnection=true").SetTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	w.docs = client.Database("shop").Collection("documents")
}

// document returns a value as an application might store it: about a kilobyte that compresses well.
func document(r *rand.Rand) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"id":%d,"items":[`, r.Uint32())
	for range 4 + r.IntN(24) {
		fmt.Fprintf(&b, `{"sku":"%08x","quantity":%d,"price":%d.%02d,"currency":"EUR","status":"in stock"},`, r.Uint32(), r.IntN(9), r.IntN(500), r.IntN(100))
	}
	return b.String() + `{}]}`
}

// work sends n values through each gateway that has a server, and reads some back.
func (w *world) work(ctx context.Context, n int) error {
	w.seed++
	r := rand.New(rand.NewPCG(w.seed, 1))
	for range n {
		id, body := r.IntN(5000), document(r)
		if err := w.redis.Set(ctx, fmt.Sprint("menu:", id), body, 0).Err(); err != nil {
			return err
		}
		if err := w.redis.Get(ctx, fmt.Sprint("menu:", id)).Err(); err != nil {
			return err
		}
		if err := w.more.Set(ctx, fmt.Sprint("session:", id), body[:len(body)/2], 0).Err(); err != nil {
			return err
		}
		if err := w.more.Set(ctx, fmt.Sprint("other:", id), body[:len(body)/3], 0).Err(); err != nil {
			return err
		}
		if _, err := w.tuples.Do(tarantool.NewReplaceRequest("events").Context(ctx).Tuple([]any{id, body})).Get(); err != nil {
			return err
		}
		if _, err := w.docs.InsertOne(ctx, bson.D{{Key: "body", Value: body}}); err != nil {
			return err
		}
	}
	return nil
}

// load calls work until stop is called, which returns when no request is in progress any more.
func (w *world) load(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if err := w.work(ctx, 5); err != nil && ctx.Err() == nil {
				t.Errorf("a client: %v", err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond): // this test measures the page, not the load
			}
		}
	})
	return func() { cancel(); done.Wait() }
}
