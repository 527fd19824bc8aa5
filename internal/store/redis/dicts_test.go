package redis

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestPublishedIsFoundByOthers(t *testing.T) {
	server := testenv.Redis(t)
	for protocol := 2; protocol <= 3; protocol++ {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			client := connect(t, goredis.Options{Addr: server.Addr, Protocol: protocol})
			d := NewDicts(DictsOptions{Client: client})
			x := testDict(t, fmt.Sprint("published ", protocol))
			wantReady(t, d, x, false)
			mustPublish(t, d, x)
			mustPublish(t, d, x) // again: no effect
			mustHold(t, server.Addr, x)

			err := client.FCallRO(t.Context(), libraryName(x.Number()), nil).Err()
			if err == nil || !strings.Contains(err.Error(), "FUNCTION LIST LIBRARYNAME "+libraryName(x.Number())+" WITHCODE") {
				t.Errorf("the function returns %v", err)
			}
			if n := client.DBSize(t.Context()).Val(); n != 0 {
				t.Errorf("%d keys were written", n)
			}
		})
	}
}

func TestLibrariesSurviveFlushAll(t *testing.T) {
	server := testenv.Redis(t)
	d, client := gatewayOn(t, server.Addr, &testenv.Log{})
	x := testDict(t, "flushall")
	mustPublish(t, d, x)
	must(t, client.FlushAll(t.Context()).Err())
	mustHold(t, server.Addr, x)
	d.Kick()
	wantReady(t, d, x, false)
	loads := &asked{}
	client.AddHook(loads)
	mustRecheck(t, d)
	wantReady(t, d, x, true)
	if n := loads.count("function load"); n != 0 {
		t.Errorf("stored %d times more", n)
	}
}

func TestFunctionFlushIsRepaired(t *testing.T) {
	server := testenv.Redis(t)
	d, client := gatewayOn(t, server.Addr, &testenv.Log{})
	published, fetched := testDict(t, "published"), testDict(t, "fetched")
	other, _ := gatewayOn(t, server.Addr, &testenv.Log{})
	mustPublish(t, other, fetched)
	mustPublish(t, d, published)
	if _, err := d.Dictionary(fetched.Number()); err != nil {
		t.Fatal(err)
	}
	must(t, client.FunctionFlush(t.Context()).Err())
	mustRecheck(t, d)
	wantReady(t, d, published, true)
	wantReady(t, d, fetched, true)
	mustHold(t, server.Addr, published)
	mustHold(t, server.Addr, fetched)
}

func TestRunAnswersKicks(t *testing.T) {
	server := testenv.Redis(t)
	d, client := gatewayOn(t, server.Addr, &testenv.Log{})
	x := testDict(t, "kicked")
	mustPublish(t, d, x)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.Run(ctx) }()
	for range 3 {
		must(t, client.FunctionFlush(ctx).Err())
		d.Kick()
		testenv.Eventually(t, "ready after a kick", func() bool { return d.Ready(x.Number()) })
		mustHold(t, server.Addr, x)
	}
	cancel()
	<-ended
}

func TestRestart(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		kept bool
	}{
		{"append-only file", []string{"--appendonly", "yes", "--appendfsync", "always"}, true},
		{"nothing saved", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := testenv.Redis(t, c.args...)
			d, _ := gatewayOn(t, server.Addr, &testenv.Log{})
			x := testDict(t, "restart")
			mustPublish(t, d, x)
			server.Kill()
			if err := d.Recheck(t.Context()); err == nil {
				t.Error("a recheck without a server says all is well")
			}
			wantReady(t, d, x, false)
			must(t, server.Restart())
			if c.kept {
				mustHold(t, server.Addr, x)
			}
			mustRecheck(t, d)
			wantReady(t, d, x, true)
			mustHold(t, server.Addr, x)
		})
	}
}

func TestSnapshotHoldsLibraries(t *testing.T) {
	server := testenv.Redis(t)
	d, client := gatewayOn(t, server.Addr, &testenv.Log{})
	x := testDict(t, "snapshot")
	mustPublish(t, d, x)
	must(t, client.Save(t.Context()).Err())
	server.Kill()
	must(t, server.Restart())
	mustHold(t, server.Addr, x)
}

func TestLibrariesSurviveEviction(t *testing.T) {
	server := testenv.Redis(t, "--maxmemory", "8mb", "--maxmemory-policy", "allkeys-lru")
	d, client := gatewayOn(t, server.Addr, &testenv.Log{})
	x := testDict(t, "evicted")
	mustPublish(t, d, x)
	value := strings.Repeat("v", 10_000)
	for i := range 3000 {
		must(t, client.Set(t.Context(), fmt.Sprint("key", i), value, 0).Err())
	}
	if info := client.Info(t.Context(), "stats").Val(); strings.Contains(info, "evicted_keys:0\r\n") {
		t.Fatal("nothing was evicted")
	}
	mustHold(t, server.Addr, x)
	mustRecheck(t, d)
	wantReady(t, d, x, true)
}

func TestFullServer(t *testing.T) {
	server := testenv.Redis(t, "--maxmemory", "100kb", "--maxmemory-policy", "noeviction")
	d, client := gatewayOn(t, server.Addr, &testenv.Log{})
	x := testDict(t, "full")
	if err := d.Publish(t.Context(), x); !goredis.IsOOMError(err) {
		t.Fatalf("publish: %v, want an OOM error", err)
	}
	wantReady(t, d, x, false)
	must(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	mustRecheck(t, d)
	wantReady(t, d, x, true)
}

func TestDeniedUser(t *testing.T) {
	for _, missing := range []string{"-function|load", "-function|list", "-@all"} {
		t.Run(missing, func(t *testing.T) {
			server := testenv.Redis(t)
			_, admin := gatewayOn(t, server.Addr, &testenv.Log{})
			must(t, admin.Do(t.Context(), "ACL", "SETUSER", "gw", "on", ">pw", "~*", "+@all", missing).Err())
			log := &testenv.Log{}
			client := connect(t, goredis.Options{Addr: server.Addr, Username: "gw", Password: "pw"})
			d := NewDicts(DictsOptions{Client: client, Log: log.Logger()})
			x, y := testDict(t, "denied"), testDict(t, "denied too")
			if err := d.Publish(t.Context(), x, y); !errors.Is(err, ErrDenied) {
				t.Fatalf("publish: %v, want ErrDenied", err)
			}
			for range 3 {
				if err := d.Recheck(t.Context()); !errors.Is(err, ErrDenied) {
					t.Fatalf("recheck: %v, want ErrDenied", err)
				}
			}
			wantReady(t, d, x, false)
			if n := log.Count("WARN"); n != 1 {
				t.Errorf("%d warnings, want 1", n)
			}
			must(t, admin.Do(t.Context(), "ACL", "SETUSER", "gw", "+@all").Err())
			mustRecheck(t, d)
			wantReady(t, d, x, true)
			wantReady(t, d, y, true)
		})
	}
}

// TestLeastRights checks that the rights in doc.go suffice.
func TestLeastRights(t *testing.T) {
	for _, start := range []func(testing.TB, ...string) *testenv.RedisServer{testenv.Redis, withoutFunctions} {
		server := start(t)
		_, admin := gatewayOn(t, server.Addr, &testenv.Log{})
		rights := []any{"ACL", "SETUSER", "gw", "on", ">pw", "~cinch:dict:*", "+getrange", "+set", "+scan", "+config|get"}
		if admin.FunctionStats(t.Context()).Err() == nil {
			rights = append(rights, "+function|list", "+function|load")
		}
		must(t, admin.Do(t.Context(), rights...).Err())
		log := &testenv.Log{}
		client := connect(t, goredis.Options{Addr: server.Addr, Username: "gw", Password: "pw"})
		d := NewDicts(DictsOptions{Client: client, Log: log.Logger()})
		x := testDict(t, "rights")
		mustPublish(t, d, x)
		mustRecheck(t, d)
		mustHold(t, server.Addr, x)
		if infos, err := d.List(t.Context()); err != nil || len(infos) != 1 {
			t.Errorf("list: %v, %v", infos, err)
		}
		if log.Count("WARN") != 0 {
			t.Errorf("warnings: %s", log)
		}
	}
}

func TestReplica(t *testing.T) {
	primary, replica := testenv.Redis(t, "--repl-diskless-sync-delay", "0"), testenv.Redis(t)
	first, _ := gatewayOn(t, primary.Addr, &testenv.Log{})
	log := &testenv.Log{}
	second, client := gatewayOn(t, replica.Addr, log)
	must(t, client.ReplicaOf(t.Context(), "127.0.0.1", fmt.Sprint(primary.Port)).Err())
	testenv.Eventually(t, "the replica is in sync", func() bool {
		return strings.Contains(client.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	x := testDict(t, "replica")
	must(t, second.Publish(t.Context(), x))
	must(t, second.Recheck(t.Context()))
	wantReady(t, second, x, false)
	if n := log.Count("replica"); n != 1 {
		t.Errorf("the replica was mentioned %d times", n)
	}
	mustPublish(t, first, x)
	testenv.Eventually(t, "the dictionary arrives", func() bool {
		mustRecheck(t, second)
		return second.Ready(x.Number())
	})
	primary.Kill() // failover
	must(t, client.ReplicaOf(t.Context(), "NO", "ONE").Err())
	mustHold(t, replica.Addr, x)
}

func TestCollision(t *testing.T) {
	server := testenv.Redis(t)
	a, b := twins()
	first, _ := gatewayOn(t, server.Addr, &testenv.Log{})
	mustPublish(t, first, a)
	second, _ := gatewayOn(t, server.Addr, &testenv.Log{})
	if err := second.Publish(t.Context(), b); !errors.Is(err, ErrCollision) {
		t.Fatalf("publish: %v, want ErrCollision", err)
	}
	wantReady(t, second, b, false)
	if err := first.Publish(t.Context(), b); !errors.Is(err, ErrCollision) {
		t.Fatalf("publish of both: %v, want ErrCollision", err)
	}
	wantReady(t, first, a, true)
	mustHold(t, server.Addr, a)
}

func TestForeignLibrary(t *testing.T) {
	x, y := testDict(t, "foreign"), testDict(t, "another")
	for what, code := range map[string]string{
		"something else": "#!lua name=" + libraryName(x.Number()) + "\nredis.register_function('whatever', function() return 1 end)",
		"wrong content":  strings.ReplaceAll(libraryCode(libraryName(y.Number()), y), libraryName(y.Number()), libraryName(x.Number())),
		"wrong hash":     strings.Replace(libraryCode(libraryName(x.Number()), x), describe(x), describe(y), 1),
		"too large":      libraryCode(libraryName(x.Number()), x) + "--" + strings.Repeat("x", maxStored),
		"no base64":      withText(libraryCode(libraryName(x.Number()), x), "no base64!"),
		"no frame":       withText(libraryCode(libraryName(x.Number()), x), base64.StdEncoding.EncodeToString(x.Content())),
		"a bomb":         withText(libraryCode(libraryName(x.Number()), x), bomb()),
	} {
		t.Run(what, func(t *testing.T) {
			server := testenv.Redis(t)
			d, client := gatewayOn(t, server.Addr, &testenv.Log{})
			must(t, client.FunctionLoad(t.Context(), code).Err())
			if _, err := d.Dictionary(x.Number()); !errors.Is(err, ErrForeign) || errors.Is(err, envelope.ErrDictMissing) {
				t.Errorf("dictionary: %v, want ErrForeign", err)
			}
			if err := d.Publish(t.Context(), x); !errors.Is(err, ErrForeign) {
				t.Errorf("publish: %v, want ErrForeign", err)
			}
			wantReady(t, d, x, false)
			libraries, err := client.FunctionList(t.Context(), goredis.FunctionListQuery{WithCode: true}).Result()
			if err != nil || len(libraries) != 1 || libraries[0].Code != code {
				t.Error("the library was changed")
			}
		})
	}
}

// bomb returns a frame of zstd of far more content than withText declares, as base64.
func bomb() string {
	frame, err := codec.NewGoZstd().Compress([]byte(zstdMagic), make([]byte, 64<<20), 9, nil)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(frame)
}

// withText replaces the base64 in a library's source.
func withText(code, text string) string {
	before, rest, _ := strings.Cut(code, "-- zstd ")
	_, after, _ := strings.Cut(rest, "\n")
	return before + "-- zstd 1000 " + text + "\n" + after
}

// Libraries as 0.1.0 stored them are read, and not replaced.
func TestLibraryOfEarlierVersion(t *testing.T) {
	server := testenv.Redis(t)
	d, client := gatewayOn(t, server.Addr, &testenv.Log{})
	x := testDict(t, "earlier")
	code := fmt.Sprintf("#!lua name=%[1]s\nredis.register_function{\n  function_name = '%[1]s',\n  description = '%[2]s',\n"+
		"  flags = {'no-writes'},\n  callback = function() return '%[3]s' end,\n}\n",
		libraryName(x.Number()), describe(x), base64.StdEncoding.EncodeToString(x.Content()))
	must(t, client.FunctionLoad(t.Context(), code).Err())
	mustPublish(t, d, x)
	mustHold(t, server.Addr, x)
	libraries, err := client.FunctionList(t.Context(), goredis.FunctionListQuery{WithCode: true}).Result()
	if err != nil || len(libraries) != 1 || libraries[0].Code != code {
		t.Errorf("the library was changed: %v", err)
	}
}

// Dictionaries of all sizes come back, however badly they compress.
func TestLargestDictionary(t *testing.T) {
	random := make([]byte, codec.MaxDictLen)
	rand.NewChaCha8([32]byte{1}).Read(random)
	for _, content := range [][]byte{random, bytes.Repeat([]byte("x"), codec.MaxDictLen), random[:codec.MinDictLen]} {
		x, err := codec.NewDict(content)
		must(t, err)
		got, err := parseLibrary(x.Number(), libraryCode("any", x))
		if err != nil || !bytes.Equal(got.Content(), content) {
			t.Errorf("%d bytes: %v", len(content), err)
		}
	}
}

func TestList(t *testing.T) {
	server := testenv.Redis(t)
	d, client := gatewayOn(t, server.Addr, &testenv.Log{})
	x, y := testDict(t, "one"), testDict(t, "two and more")
	mustPublish(t, d, x, y)
	must(t, client.FunctionLoad(t.Context(), "#!lua name=cinch_dict_00000001\nredis.register_function('f', function() return 1 end)").Err())
	must(t, client.FunctionLoad(t.Context(), "#!lua name=cinch_dict_x\nredis.register_function('g', function() return 1 end)").Err())
	infos, err := d.List(t.Context())
	must(t, err)
	if len(infos) != 3 || infos[0].Number != 1 || infos[0].Problem == "" {
		t.Fatalf("list: %+v", infos)
	}
	for _, info := range infos[1:] {
		want := x
		if info.Number == y.Number() {
			want = y
		}
		if info.Number != want.Number() || info.Hash != want.Hash() || info.Bytes != len(want.Content()) ||
			info.Place != InFunction || info.Problem != "" {
			t.Errorf("list: %+v", info)
		}
	}
}

func TestReadyDoesNotAllocate(t *testing.T) {
	server := testenv.Redis(t)
	d, _ := gatewayOn(t, server.Addr, &testenv.Log{})
	x := testDict(t, "ready")
	mustPublish(t, d, x)
	if n := testing.AllocsPerRun(100, func() { d.Ready(x.Number()) }); n != 0 {
		t.Errorf("Ready allocates %v times", n)
	}
}
