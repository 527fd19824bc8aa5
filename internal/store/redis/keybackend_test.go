package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestKeysInMiniredis(t *testing.T) {
	server := miniredis.RunT(t)
	log := &testenv.Log{}
	d, _ := gatewayOn(t, server.Addr(), log)
	x, y := testDict(t, "one"), testDict(t, "two")
	mustPublish(t, d, x, y)
	if got, err := server.Get(keyName(x.Number())); err != nil || got != string(x.Content()) {
		t.Errorf("the key holds %.20q (%v)", got, err)
	}
	mustHold(t, server.Addr(), x)
	infos, err := d.List(t.Context())
	if err != nil || len(infos) != 2 || infos[0].Place != InKey || infos[0].Bytes == 0 || infos[0].Problem != "" {
		t.Errorf("list: %+v, %v", infos, err)
	}

	server.FlushAll()
	d.Kick()
	wantReady(t, d, x, false)
	mustRecheck(t, d)
	wantReady(t, d, x, true)
	mustHold(t, server.Addr(), y)
	if log.Count("WARN") != 0 {
		t.Errorf("warnings: %s", log)
	}
}

func TestKeyTrouble(t *testing.T) {
	server := miniredis.RunT(t)
	a, b := twins()
	d, client := gatewayOn(t, server.Addr(), &testenv.Log{})
	must(t, client.Set(t.Context(), keyName(a.Number()), b.Content(), 0).Err())
	if err := d.Publish(t.Context(), a); !errors.Is(err, ErrCollision) {
		t.Errorf("collision: %v", err)
	}
	for what, store := range map[string]func(key string) error{
		"other content": func(k string) error { return client.Set(t.Context(), k, "some other content", 0).Err() },
		"other type":    func(k string) error { return client.RPush(t.Context(), k, "x").Err() },
		"too large":     func(k string) error { return client.Set(t.Context(), k, strings.Repeat("x", maxStored+1), 0).Err() },
	} {
		x := testDict(t, what)
		must(t, store(keyName(x.Number())))
		if err := d.Publish(t.Context(), x); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v, want ErrForeign", what, err)
		}
		wantReady(t, d, x, false)
	}
	if infos, err := d.List(t.Context()); err != nil || len(infos) != 4 {
		t.Errorf("list: %+v, %v", infos, err)
	}
}

func TestEvictableKeysAreRefused(t *testing.T) {
	server := withoutFunctions(t, "--maxmemory-policy", "volatile-lru")
	log := &testenv.Log{}
	d, client := gatewayOn(t, server.Addr, log)
	x := testDict(t, "evictable")
	mustPublish(t, d, x)
	must(t, client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	for range 2 {
		if err := d.Recheck(t.Context()); !errors.Is(err, ErrEvictable) {
			t.Fatalf("recheck: %v, want ErrEvictable", err)
		}
	}
	wantReady(t, d, x, false)
	if n := log.Count("WARN"); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
	must(t, client.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	mustRecheck(t, d)
	wantReady(t, d, x, true)
}

func TestUnknownEvictionPolicyIsTolerated(t *testing.T) {
	server := withoutFunctions(t)
	_, admin := gatewayOn(t, server.Addr, &testenv.Log{})
	must(t, admin.Do(t.Context(), "ACL", "SETUSER", "gw", "on", ">pw", "~*", "+@all", "-config").Err())
	log := &testenv.Log{}
	client := connect(t, goredis.Options{Addr: server.Addr, Username: "gw", Password: "pw"})
	d := NewDicts(DictsOptions{Client: client, Log: log.Logger()})
	mustPublish(t, d, testDict(t, "one"), testDict(t, "two"))
	mustRecheck(t, d)
	if n := log.Count("WARN"); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
}

// TestUpgradedServer finds dictionaries stored as keys before the server had functions, and moves them out of
// the keyspace.
func TestUpgradedServer(t *testing.T) {
	server := testenv.Redis(t)
	d, client := gatewayOn(t, server.Addr, &testenv.Log{})
	x := testDict(t, "upgraded")
	must(t, client.Set(t.Context(), keyName(x.Number()), x.Content(), 0).Err())
	if _, err := d.Dictionary(x.Number()); err != nil {
		t.Fatal(err)
	}
	mustRecheck(t, d)
	must(t, client.FlushAll(t.Context()).Err())
	mustHold(t, server.Addr, x)
}

func TestOtherDatabaseIsRefused(t *testing.T) {
	server := miniredis.RunT(t)
	client := connect(t, goredis.Options{Addr: server.Addr(), DB: 3})
	d := NewDicts(DictsOptions{Client: client, Log: new(testenv.Log).Logger()})
	x := testDict(t, "database")
	if err := d.Publish(t.Context(), x); err == nil {
		t.Error("published into database 3")
	}
	if _, err := d.Dictionary(1); err == nil || errors.Is(err, envelope.ErrDictMissing) {
		t.Errorf("dictionary: %v", err)
	}
}

func TestKeysOnReplica(t *testing.T) {
	primary, replica := withoutFunctions(t, "--repl-diskless-sync-delay", "0"), withoutFunctions(t)
	first, _ := gatewayOn(t, primary.Addr, &testenv.Log{})
	second, client := gatewayOn(t, replica.Addr, &testenv.Log{})
	must(t, client.ReplicaOf(t.Context(), "127.0.0.1", fmt.Sprint(primary.Port)).Err())
	x := testDict(t, "replica")
	must(t, second.Publish(t.Context(), x))
	wantReady(t, second, x, false)
	mustPublish(t, first, x)
	testenv.Eventually(t, "the dictionary arrives", func() bool {
		return second.Recheck(t.Context()) == nil && second.Ready(x.Number())
	})
}
