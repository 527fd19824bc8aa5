package open

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	tnt "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/storetest"
	"github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/test/testenv"
)

// opened returns the fixture of the store at a URL, without Write and Read.
func opened(t *testing.T, url string) storetest.Fixture {
	t.Helper()
	s, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	a, err := OpenAccess(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return storetest.Fixture{Store: s, Access: a}
}

func TestRedis(t *testing.T) {
	server := testenv.Redis(t)
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr})
	defer client.Close()
	redisSuite(t, client, "redis://"+server.Addr+"/0", "redis://"+server.Addr)
}

func TestRedisCluster(t *testing.T) {
	nodes := testenv.Cluster(t, 3, 0)
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{nodes[0].Addr}})
	defer client.Close()
	redisSuite(t, client, "redis+cluster://"+nodes[0].Addr+","+nodes[1].Addr, "redis+cluster://"+nodes[2].Addr)
}

func redisSuite(t *testing.T, client goredis.UniversalClient, look, walk string) {
	key := func(i int) string { return fmt.Sprintf("key:%d", i) }
	write := func(t *testing.T, i int, value []byte) {
		t.Helper()
		err := client.Set(t.Context(), key(i), value, 0).Err()
		if value == nil {
			err = client.Del(t.Context(), key(i)).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(t, 0, []byte("databases without keys are not walked"))
	f := opened(t, walk)
	a, err := OpenAccess(t.Context(), look)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	f.Access, f.Write = a, write
	f.Read = func(t *testing.T, i int) []byte {
		t.Helper()
		b, err := client.Get(t.Context(), key(i)).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	f.Address = func(i int) store.Address { return store.Address{Key: key(i)} }
	storetest.Store(t, f)
}

func TestTarantool(t *testing.T) {
	server := testenv.Tarantool(t, `box.schema.space.create('docs', {if_not_exists = true, format = {{'id', 'unsigned'}, {'body', 'string'}}})
		box.space.docs:create_index('pk', {if_not_exists = true})`)
	url := "tarantool://" + server.Addr
	conn, _, err := ConnectTarantool(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := tarantool.Install(t.Context(), conn, tarantool.InstallOptions{}); err != nil {
		t.Fatal(err)
	}
	client, err := tnt.Connect(t.Context(), tnt.NetDialer{Address: server.Addr}, tnt.Opts{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	eval := func(t *testing.T, lua string, args ...any) []any {
		t.Helper()
		answer, err := client.Do(tnt.NewEvalRequest(lua).Args(args)).Get()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	f := opened(t, url)
	f.Write = func(t *testing.T, i int, value []byte) {
		t.Helper()
		if value == nil {
			eval(t, "box.space.docs:delete{...}", i)
			return
		}
		eval(t, "box.space.docs:replace{...}", i, string(value))
	}
	f.Read = func(t *testing.T, i int) []byte {
		t.Helper()
		return []byte(eval(t, "return box.space.docs:get{...}.body", i)[0].(string))
	}
	f.Address = func(i int) store.Address { return store.Address{Space: "docs", Key: fmt.Sprint(i), Field: "body"} }
	storetest.Store(t, f)
}

// GatewayDicts passes the part of the suite for store.Dicts.
func TestGatewayDicts(t *testing.T) {
	server := testenv.Redis(t)
	up, err := endpoint.ParseUpstream("redis://"+server.Addr, config.RedisPort)
	if err != nil {
		t.Fatal(err)
	}
	dicts, end := GatewayDicts(up, nil, nil)
	defer end()
	storetest.Dicts(t, dicts)
}

// Open and OpenAccess accept every scheme that IsStoreURL reports.
func TestEverySchemeOpens(t *testing.T) {
	for scheme := range schemes {
		url := scheme + "://127.0.0.1:1"
		if scheme == "unix" {
			url = "unix://" + t.TempDir() + "/nobody"
		}
		if !IsStoreURL(url) {
			continue
		}
		s, err := Open(t.Context(), url, Options{})
		if errors.Is(err, store.ErrUsage) {
			t.Errorf("%s: Holds says that it is a store, open has no case for it: %v", scheme, err)
		} else if err == nil {
			s.Close()
		}
		a, err := OpenAccess(t.Context(), url)
		if errors.Is(err, store.ErrUsage) {
			t.Errorf("%s: Holds says that it is a store, look has no case for it: %v", scheme, err)
		} else if err == nil {
			a.Close()
		}
	}
}

func TestNoStore(t *testing.T) {
	for _, url := range []string{"mongodb://127.0.0.1", "http://127.0.0.1", "redis", "redis+ring://a,b"} {
		for _, open := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := Open(ctx, url, Options{}); return err },
			func(ctx context.Context) error { _, err := OpenAccess(ctx, url); return err },
		} {
			if err := open(t.Context()); err == nil || errors.Is(err, store.ErrUnreachable) {
				t.Errorf("%s: %v", url, err)
			}
		}
	}
	for _, url := range []string{"redis://127.0.0.1:1", "tarantool://127.0.0.1:1"} {
		if _, err := Open(t.Context(), url, Options{}); !errors.Is(err, store.ErrUnreachable) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
