package redis

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// A request that ran without a guard does not affect the next one: values that its script stores are wrapped.
func TestRequestsAreGuardedAfterOneThatWasNot(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	expect(t, clientOf(t, sock), "ACL SETUSER app on >pw %W~w %RW~free &* +@all", "OK", "SET w a", "OK")
	path, _ := startGateway(t, sock)
	conn := clientOf(t, path, as("app", "pw")).Conn()
	defer conn.Close()
	expect(t, conn, "APPEND w b", "2") // here no script may read w
	value := envelope.Magic + strings.Repeat("x", 20)
	if err := conn.Eval(ctx, "return redis.call('SET',KEYS[1],ARGV[1])", []string{"free"}, value).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := conn.Get(ctx, "free").Result(); got != value || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A user who may not run a request on its key gets the server's permission error for that request, which does not
// disclose what the key holds, however long the request is and however it is encoded.
func TestRefusalsAreOfTheCurrentRequest(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	expect(t, direct, "ACL SETUSER app on >pw ~own &* +@all", "OK")
	if err := direct.Set(ctx, "k", envelope.Magic+"\x01no envelope", 0).Err(); err != nil {
		t.Fatal(err)
	}
	path, _ := startGateway(t, sock)
	c := dialRaw(t, path)
	in := bufio.NewReader(c)
	for _, test := range []struct{ request, want string }{
		{"AUTH app pw\r\n", "+OK"},
		{"*2\r\n$3\r\nGET\r\n$3\r\nown\r\n", "$-1"},
		{"*3\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n$1\r\nx\r\n", "-NOPERM"},
		{"*2\r\n$3\r\nGET\r\n$3\r\nown\r\n", "$-1"},
		{"APPEND k x\r\n", "-NOPERM"},
		{"*2\r\n$3\r\nGET\r\n$3\r\nown\r\n", "$-1"},
		{"*3\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n$100000\r\n" + strings.Repeat("x", 100_000) + "\r\n", "-NOPERM"},
	} {
		write(t, c, test.request)
		line, err := in.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, test.want) {
			t.Errorf("%.60q: %q, %v, want %s", test.request, line, err, test.want)
		}
	}
}

// A closed session opens no second connection, even if its request pump is about to use one.
func TestClosedSessionAsksNothing(t *testing.T) {
	t.Parallel()
	client, far := socketPair(t)
	up, server := socketPair(t)
	defer func() { _, _ = far.Close(), server.Close() }()
	dials := 0
	g := NewGateway(Config{Stats: gateway.NewStats("test", "redis"), Dial: func(context.Context) (net.Conn, error) {
		dials++
		return nil, errors.New("dialed")
	}})
	s := newSession(g, client, up, time.Now())
	var pump sync.WaitGroup
	pump.Go(func() {
		for range 100 {
			_ = s.user.sideConn.client().Ping // the race detector watches this
			s.user.sideConn.invalidate()
		}
	})
	_ = s.Close()
	pump.Wait()
	if err := s.user.sideConn.client().Ping(ctx).Err(); !errors.Is(err, goredis.ErrClosed) || dials > 0 {
		t.Errorf("%v, dialed %d times", err, dials)
	}
}
