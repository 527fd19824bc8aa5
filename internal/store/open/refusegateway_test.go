package open

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/test/testenv"
)

// served runs a gateway on listen and returns its address.
func served(t *testing.T, listen string, g interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
},
) string {
	t.Helper()
	l, err := gateway.Listen(listen)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = g.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = g.Shutdown(ctx)
	})
	return l.Addr().String()
}

// refuses checks that every way to open the store at the URL fails since it is a gateway, and that the error
// names behind.
func refuses(t *testing.T, url, behind string) {
	t.Helper()
	for way, try := range map[string]func() error{
		"Open": func() error {
			s, err := Open(t.Context(), url, Options{})
			if err == nil {
				s.Close()
			}
			return err
		},
		"Look": func() error {
			a, err := OpenAccess(t.Context(), url)
			if err == nil {
				a.Close()
			}
			return err
		},
		"Sample": func() error {
			s, err := OpenSample(t.Context(), url, nil)
			if err == nil {
				s.Close()
			}
			return err
		},
	} {
		err := try()
		var e *store.HintedError
		if !errors.Is(err, store.ErrGateway) || !errors.Is(err, store.ErrConfig) || !errors.As(err, &e) || !strings.HasSuffix(e.Help, behind) {
			t.Errorf("%s %s: %v", way, url, err)
		} else if strings.Contains(err.Error()+e.Help, "secret") {
			t.Errorf("%s %s tells a password: %v, %s", way, url, err, e.Help)
		}
	}
}

// errorsOf returns the number of errors that the server has counted.
func errorsOf(t *testing.T, c *goredis.Client) int {
	t.Helper()
	info, err := c.Info(t.Context(), "stats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "total_error_replies:")
	n, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "\r\n", 2)[0]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Gateways are recognised over TCP and a unix socket, by authenticated and unauthenticated clients, and by
// users without rights.
func TestGatewaysOfOneRedisServerAreRefused(t *testing.T) {
	server := testenv.Redis(t)
	direct := goredis.NewClient(&goredis.Options{Addr: server.Addr, Username: "default", Password: "secret"})
	defer direct.Close()
	g := redis.NewGateway(redis.Config{Name: "cache", Upstream: upstreamAt(t, "redis://"+server.Addr), UpstreamURL: "redis://" + server.Addr})
	tcp := served(t, "127.0.0.1:0", g)
	unix := served(t, "unix:"+t.TempDir()+"/g", g)
	behind := "the server behind it: redis://" + server.Addr
	for _, url := range []string{"redis://" + tcp, "unix://" + unix, "redis+cluster://" + tcp, "redis+cluster://127.0.0.1:1," + tcp} {
		refuses(t, url, behind)
	}
	plain := goredis.NewClient(&goredis.Options{Addr: server.Addr})
	defer plain.Close()
	for _, args := range [][]any{
		{"ACL", "SETUSER", "nothing", "on", ">secret", "resetkeys", "-@all"},
		{"CONFIG", "SET", "requirepass", "secret"},
	} {
		if err := plain.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	g = redis.NewGateway(redis.Config{Name: "closed", Upstream: upstreamAt(t, "redis://"+server.Addr), UpstreamURL: "redis://" + server.Addr})
	closed := served(t, "127.0.0.1:0", g)
	refuses(t, "redis://default:secret@"+closed, behind)
	refuses(t, "redis://nothing:secret@"+closed, behind)
	stranger := goredis.NewClient(&goredis.Options{Addr: closed})
	defer stranger.Close()
	if said, err := stranger.Do(t.Context(), "cinch.gateway").StringSlice(); err != nil || strings.Join(said, " ") != "cinch.gateway closed " {
		t.Errorf("a client without a login is told %q, %v", said, err)
	}

	before := errorsOf(t, direct)
	url := "redis://default:secret@" + server.Addr
	a, err := OpenAccess(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for range 3 {
		if _, err := a.DictAdmin().List(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := errorsOf(t, direct) - before; n > 1 {
		t.Errorf("the server has counted %d errors", n)
	}
}

// A gateway to a cluster, and one to servers under Sentinel, are recognised too.
func TestGatewaysOfSeveralRedisServersAreRefused(t *testing.T) {
	nodes := testenv.Cluster(t, 3, 0)
	var seeds []endpoint.Upstream
	for _, n := range nodes {
		seeds = append(seeds, upstreamAt(t, "redis://"+n.Addr))
	}
	behind := "redis+cluster://" + nodes[0].Addr
	port := testenv.FreePorts(t, 8, "127.0.0.1")
	several := redis.NewCluster(redis.ClusterConfig{Config: redis.Config{Name: "cells", UpstreamURL: behind}, Seeds: seeds, Nodes: 3})
	at := served(t, fmt.Sprintf("127.0.0.1:%d", port), several)
	refuses(t, "redis://"+at, behind)
	refuses(t, "redis+cluster://"+at, behind)
	s, err := Open(t.Context(), "redis+cluster://"+nodes[1].Addr, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n := len(s.Targets()); n != 3 {
		t.Errorf("%d nodes of the cluster itself", n)
	}
	// The nodes announce the address of a gateway as theirs: addresses found that way are checked too.
	_, one, _ := net.SplitHostPort(served(t, "127.0.0.1:0", redis.NewGateway(redis.Config{Name: "one", Upstream: seeds[0], UpstreamURL: behind})))
	for _, n := range nodes {
		c := goredis.NewClient(&goredis.Options{Addr: n.Addr})
		if err := c.ConfigSet(t.Context(), "cluster-announce-port", one).Err(); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	var announced error
	testenv.Eventually(t, "a node names the gateway", func() bool {
		s, err := Open(t.Context(), "redis+cluster://"+nodes[1].Addr, Options{})
		if announced = err; err == nil {
			_, announced = s.Targets()[0].Space.Keys(t.Context())
			s.Close()
		}
		return errors.Is(announced, store.ErrGateway) // before that nodes may not answer
	})
}

// UpstreamURL returns a URL that Cinch's commands accept, without credentials.
func TestBehind(t *testing.T) {
	for _, test := range []struct{ protocol, upstream, want string }{
		{config.Redis, "127.0.0.1:6379", "redis://127.0.0.1:6379"},
		{config.Redis, "redis://u:p%40@db:6379/2?x=y", "redis://db:6379/2"},
		{config.Redis, "rediss://db", "rediss://db"},
		{config.Redis, "unix://u:p@/run/redis.sock", "unix:///run/redis.sock"},
		{config.Redis, "redis+sentinel://u:p@a:1,b:2/main", "redis+sentinel://a:1,b:2/main"},
		{config.Tarantool, "tarantool://u:p@db:3301", "tarantool://db:3301"},
		{config.Tarantool, "db:3301", "tarantool://db:3301"},
		{config.Mongo, "mongodb://a,b,c/?loadBalanced=true", "mongodb://a,b,c/"},
	} {
		if got := UpstreamURL(test.protocol, test.upstream); got != test.want {
			t.Errorf("%s: %s, want %s", test.upstream, got, test.want)
		}
	}
}
