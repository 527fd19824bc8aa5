package replace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// replacements is the number of times that each service is replaced.
const replacements = 2

// few returns how often to replace a service that is handed over in the same way as others: as often as
// those only with make full.
func few() int {
	if testenv.IsFull() {
		return replacements
	}
	return 1
}

// freeAddress returns an address without a listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(testenv.FreePort(t)))
}

func redisClient(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// addRedis adds Redis clients that write and read, count, wait for pushed values, and connect.
func addRedis(t *testing.T, l *load, addr string) (counted, popped *atomic.Int64) {
	counted, popped = new(atomic.Int64), new(atomic.Int64)
	for i := range 3 {
		c, key := redisClient(t, addr), fmt.Sprint("key", i)
		value := strings.Repeat(key, 100)
		l.add("SET and GET", func(ctx context.Context) error {
			if err := c.Set(ctx, key, value, 0).Err(); err != nil {
				return err
			}
			if got, err := c.Get(ctx, key).Result(); err != nil || got != value {
				return fmt.Errorf("%q: %w", got, err)
			}
			return nil
		})
	}
	c := redisClient(t, addr)
	l.add("INCR", func(context.Context) error {
		counted.Add(1)
		return c.Incr(context.Background(), "counter").Err()
	})
	l.add("a new connection", func(ctx context.Context) error { return ping(ctx, addr) })
	pops := redisClient(t, addr)
	context.AfterFunc(l.ctx, func() { _ = pops.Close() }) // a blocked client doesn't check its context
	l.all.Go(func() {
		for l.ctx.Err() == nil {
			if err := pops.BLPop(l.ctx, 0, "queue").Err(); err == nil {
				popped.Add(1)
			} else if l.ctx.Err() == nil {
				t.Error("BLPOP:", err)
			}
		}
	})
	return counted, popped
}

// ping pings over a new connection, without retries.
func ping(ctx context.Context, addr string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "+PONG\r\n" {
		return fmt.Errorf("%q: %w", line, err)
	}
	return nil
}

// Redis clients lose nothing when the gateway is replaced: no operation fails or is executed twice, no
// client blocked in BLPOP is disconnected, and no connection is refused.
func TestRedis(t *testing.T) {
	server := testenv.Redis(t)
	addr := freeAddress(t)
	s := start(t, fmt.Sprintf("  - {name: cache, protocol: redis, listen: %q, upstream: \"redis://%s\"}\n", addr, server.Addr), nil)
	l := newLoad(t)
	counted, popped := addRedis(t, l, addr)
	direct := redisClient(t, server.Addr)
	for i := range int64(replacements) {
		l.goesOn()
		s.replace()
		direct.RPush(t.Context(), "queue", i)
		testenv.Eventually(t, "what was pushed is popped", func() bool { return popped.Load() == i+1 || t.Failed() })
	}
	l.goesOn()
	t.Logf("%d operations, %d replacements", l.over(), replacements)
	if n, err := direct.Get(context.Background(), "counter").Int64(); err != nil || n != counted.Load() {
		t.Errorf("%d of %d were counted, %v", n, counted.Load(), err)
	}
}

// The same when the gateway is restarted and another process holds the socket, as systemd does.
func TestRedisRestartedOnAGivenSocket(t *testing.T) {
	server := testenv.Redis(t)
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	given := map[string]net.Listener{"cache": socket}
	s := start(t, fmt.Sprintf("  - {name: cache, protocol: redis, listen: \"127.0.0.1:1\", upstream: \"redis://%s\"}\n", server.Addr), given)
	l := newLoad(t)
	counted, _ := addRedis(t, l, socket.Addr().String())
	for range replacements {
		l.goesOn()
		s.stop()
		s.run(given)
	}
	l.goesOn()
	t.Logf("%d operations, %d restarts", l.over(), replacements)
	if n, err := redisClient(t, server.Addr).Get(context.Background(), "counter").Int64(); err != nil || n != counted.Load() {
		t.Errorf("%d of %d were counted, %v", n, counted.Load(), err)
	}
}

// gRPC calls use the next connection, and an idle stream ends with UNAVAILABLE.
func TestGRPC(t *testing.T) {
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(backend) }()
	t.Cleanup(server.Stop)
	addr := freeAddress(t)
	s := start(t, fmt.Sprintf("  - {name: calls, protocol: grpc, listen: %q, upstream: \"grpc://%s\"}\n", addr, backend.Addr()), nil)
	l := newLoad(t)
	client := func() grpc_health_v1.HealthClient {
		c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return grpc_health_v1.NewHealthClient(c)
	}
	for range 4 {
		c := client()
		l.add("Check", func(ctx context.Context) error {
			_, err := c.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
			return err
		})
	}
	var watched atomic.Int64
	w := client()
	l.all.Go(func() {
		for l.ctx.Err() == nil {
			if err := watch(l.ctx, w, &watched); err != nil && l.ctx.Err() == nil && status.Code(err) != codes.Unavailable {
				t.Error("Watch:", err)
			}
		}
	})
	for i := range int64(replacements) {
		l.goesOn()
		testenv.Eventually(t, "the stream is open", func() bool { return watched.Load() > i || t.Failed() })
		s.replace()
	}
	l.goesOn()
	t.Logf("%d calls, %d streams, %d replacements", l.over(), watched.Load(), replacements)
}

// watch opens a stream with only one message, and counts it.
func watch(ctx context.Context, c grpc_health_v1.HealthClient, opened *atomic.Int64) error {
	stream, err := c.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	opened.Add(1)
	_, err = stream.Recv()
	return err
}

// MongoDB's driver loses nothing: no insert fails or is done twice, no find fails, and a waiting change
// stream continues. With timeoutMS a driver retries until then. Otherwise it retries once, and its pool may be
// cleared twice: when an operation's connection ends, and when the monitoring connection does.
func TestMongo(t *testing.T) {
	server := mongotest.Start(t, mongotest.Config{ReplicaSet: "rs"})
	addr := freeAddress(t)
	s := start(t, fmt.Sprintf("  - {name: documents, protocol: mongo, listen: %q, upstream: \"mongodb://%s\"}\n", addr, server.Addr), nil)
	c, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + addr + "/?directConnection=true"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Disconnect(context.Background()) })
	retrying, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + addr + "/?directConnection=true&timeoutMS=60000"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = retrying.Disconnect(context.Background()) })
	docs, news := retrying.Database("shop").Collection("documents"), c.Database("shop").Collection("news")
	testenv.Eventually(t, "the server is primary", func() bool {
		_, err := news.InsertOne(t.Context(), bson.D{})
		return err == nil
	})
	l := newLoad(t)
	var inserted, heard atomic.Int64
	for range 3 {
		l.add("insert and find", func(context.Context) error {
			done, err := docs.InsertOne(context.Background(), bson.D{{Key: "text", Value: strings.Repeat("text ", 100)}})
			if err != nil {
				return err
			}
			inserted.Add(1)
			return docs.FindOne(context.Background(), bson.D{{Key: "_id", Value: done.InsertedID}}).Err()
		})
	}
	stream, err := news.Watch(l.ctx, mongo.Pipeline{}, options.ChangeStream().SetMaxAwaitTime(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	l.all.Go(func() {
		for stream.Next(l.ctx) {
			heard.Add(1)
		}
		if err := stream.Err(); l.ctx.Err() == nil {
			t.Error("change stream:", err)
		}
	})
	for i := range int64(few()) {
		l.goesOn()
		s.replace()
		testenv.Eventually(t, "the old process has ended", func() bool { return s.count("msg=stopped") == int(i)+1 })
		if _, err := retrying.Database("shop").Collection("news").InsertOne(t.Context(), bson.D{}); err != nil {
			t.Error(err)
		}
		testenv.Eventually(t, "the change is heard", func() bool { return heard.Load() == i+1 || t.Failed() })
	}
	l.goesOn()
	t.Logf("%d times insert and find, %d replacements", l.over(), few())
	if n, err := docs.CountDocuments(context.Background(), bson.D{}); err != nil || n != inserted.Load() {
		t.Errorf("%d documents of %d, %v", n, inserted.Load(), err)
	}
}

// A signal ends the drain of a process that was replaced.
func TestReplacedProcessIsCutOff(t *testing.T) {
	server := testenv.Redis(t)
	near, far := freeAddress(t), freeAddress(t)
	s := start(t, fmt.Sprintf("  - {name: near, protocol: tunnel, listen: %q, upstream: %q}\n  - {name: far, protocol: tunnel-exit, listen: %q, upstream: %q}\n",
		near, far, far, server.Addr), nil)
	c, err := net.Dial("tcp", near) // the drain waits for this connection
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprint(c, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	before := s.pid()
	s.replace()
	testenv.Eventually(t, "the old process drains", func() bool { return s.count("draining;") == 1 })
	if err := syscall.Kill(before, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "it has ended", func() bool { return syscall.Kill(before, 0) != nil })
	if s.count("deadline exceeded") > 0 || s.count("msg=stopped") > 0 {
		t.Error("it has ended when its time was over")
	}
}

// Both ends of a tunnel are replaced: existing connections continue through the old process until its time
// is over, and new ones use the new process.
func TestTunnel(t *testing.T) {
	server := testenv.Redis(t)
	near, far := freeAddress(t), freeAddress(t)
	s := start(t, fmt.Sprintf("  - {name: near, protocol: tunnel, listen: %q, upstream: %q}\n  - {name: far, protocol: tunnel-exit, listen: %q, upstream: %q}\n",
		near, far, far, server.Addr), nil)
	l := newLoad(t)
	for i := range 3 {
		c, key := redisClient(t, near), fmt.Sprint("key", i)
		l.add("SET and GET", func(ctx context.Context) error {
			return errors.Join(c.Set(ctx, key, "value", 0).Err(), c.Get(ctx, key).Err())
		})
	}
	l.add("a new connection", func(ctx context.Context) error { return ping(ctx, near) })
	for range few() {
		l.goesOn()
		s.replace()
	}
	testenv.Eventually(t, "the old processes have ended", func() bool { return s.count("msg=stopped") == few() })
	l.goesOn()
	t.Logf("%d operations, %d replacements", l.over(), few())
}
