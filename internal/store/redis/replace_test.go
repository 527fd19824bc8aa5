package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/test/testenv"
)

// openAs is openSpace for a user with some rights removed.
func openAs(t testing.TB, rights string, args ...string) (*Space, *goredis.Client) {
	t.Helper()
	server := testenv.Redis(t, args...)
	setuser := []any{"acl", "setuser", "u", "on", ">pw", "~*", "+@all"}
	for r := range strings.FieldsSeq(rights) {
		setuser = append(setuser, r)
	}
	must(t, connect(t, goredis.Options{Addr: server.Addr}).Do(t.Context(), setuser...).Err())
	return openSpace(t, server, "u")
}

// openSpace returns database 0 of a server as seen by user, and a client with all rights.
func openSpace(t testing.TB, server *testenv.RedisServer, user string) (*Space, *goredis.Client) {
	t.Helper()
	o := goredis.Options{Addr: server.Addr, MaxRetries: -1, DialerRetries: 1}
	if user != "" {
		o.Username, o.Password = user, "pw"
	}
	s, err := Open(t.Context(), OpenOptions{Client: o, DBs: []int{0}})
	must(t, err)
	t.Cleanup(s.Close)
	return s.Nodes()[0].Spaces()[0], connect(t, goredis.Options{Addr: server.Addr})
}

func str(key, old string) *store.Value {
	return &store.Value{Key: []byte(key), Type: store.String, Stored: []byte(old)}
}

func field(key, name, old string) *store.Value {
	return &store.Value{Key: []byte(key), Field: []byte(name), Type: store.Hash, Stored: []byte(old)}
}

func mustReplace(t testing.TB, s *Space, changes ...store.Change) []store.Outcome {
	t.Helper()
	out, err := s.Replace(t.Context(), changes)
	must(t, err)
	return out
}

// each runs a test for a user who may run scripts and for one who may not.
func each(t *testing.T, test func(t *testing.T, s *Space, c *goredis.Client)) {
	for _, rights := range []string{"", "-@scripting"} {
		t.Run("rights "+rights, func(t *testing.T) {
			s, c := openAs(t, rights)
			if s.node.store.ready.lua != (rights == "") {
				t.Fatal("the right to run scripts was not detected")
			}
			test(t, s, c)
		})
	}
}

func TestReplaceComparesAndSets(t *testing.T) {
	each(t, func(t *testing.T, s *Space, c *goredis.Client) {
		ctx := t.Context()
		must(t, c.MSet(ctx, "same", "old", "changed", "newer", "empty", "", "int", "12").Err())
		must(t, c.HSet(ctx, "h", "same", "old", "changed", "newer").Err())
		must(t, c.LPush(ctx, "list", "old").Err())
		changes := []store.Change{
			{Value: str("same", "old"), New: []byte("new")},
			{Value: str("changed", "old"), New: []byte("x")},
			{Value: str("gone", "old"), New: []byte("x")},
			{Value: str("list", "old"), New: []byte("x")},
			{Value: str("h", "old"), New: []byte("x")},
			{Value: str("int", "12"), New: []byte("a\x00\xff\r\n")},
			{Value: field("h", "same", "old"), New: []byte("longer")},
			{Value: field("h", "changed", "old"), New: []byte("x")},
			{Value: field("h", "gone", "old"), New: []byte("x")},
			{Value: field("list", "f", "old"), New: []byte("x")},
			{Value: field("nothing", "f", "old"), New: []byte("x")},
			{Value: str("empty", ""), New: []byte("x")},
		}
		want := map[int]bool{0: true, 5: true, 6: true, 11: true}
		for i, o := range mustReplace(t, s, changes...) {
			if o.Replaced != want[i] || o.Skip != "" || o.Err != nil {
				t.Errorf("change %d (%s): %+v", i, changes[i].Value.Key, o)
			}
		}
		got := fmt.Sprintf("%q", c.MGet(ctx, "same", "changed", "gone", "int", "empty").Val())
		if want := `["new" "newer" <nil> "a\x00\xff\r\n" "x"]`; got != want {
			t.Errorf("strings: %s, want %s", got, want)
		}
		if h := c.HGetAll(ctx, "h").Val(); !maps.Equal(h, map[string]string{"same": "longer", "changed": "newer"}) {
			t.Errorf("hash: %v", h)
		}
		if n := c.DBSize(ctx).Val(); n != 6 {
			t.Errorf("%d keys, want 6", n)
		}
	})
}

func TestReplaceKeepsExpiries(t *testing.T) {
	each(t, func(t *testing.T, s *Space, c *goredis.Client) {
		ctx, at := t.Context(), time.UnixMilli(4102444800123)
		must(t, c.Set(ctx, "s", "old", 0).Err())
		must(t, c.HSet(ctx, "h", "f", "old").Err())
		must(t, c.Set(ctx, "stays", "old", 0).Err())
		for _, key := range []string{"s", "h"} {
			must(t, c.PExpireAt(ctx, key, at).Err())
		}
		out := mustReplace(t, s, store.Change{Value: str("s", "old"), New: []byte("new")},
			store.Change{Value: field("h", "f", "old"), New: []byte("new")}, store.Change{Value: str("stays", "old"), New: []byte("new")})
		for i, o := range out {
			if !o.Replaced {
				t.Errorf("change %d: %+v", i, o)
			}
		}
		for key, want := range map[string]time.Duration{"s": 4102444800123 * time.Millisecond, "h": 4102444800123 * time.Millisecond, "stays": -1} {
			if got := c.PExpireTime(ctx, key).Val(); got != want {
				t.Errorf("%s expires at %v, want %v", key, got, want)
			}
		}
	})
}

// Many changes make several scripts; their outcomes must stay in order.
func TestReplaceManyInOrder(t *testing.T) {
	s, c := openSpace(t, testenv.Redis(t), "")
	var changes []store.Change
	for i := range 700 {
		old, key := strings.Repeat("o", 1+i*7), fmt.Sprint("k", i%50)
		v := field(key, fmt.Sprint("f", i), old)
		if i%3 == 0 {
			v = str(fmt.Sprint("s", i), old)
			must(t, c.Set(t.Context(), string(v.Key), old, 0).Err())
		} else if i%5 != 0 { // the others don't exist
			must(t, c.HSet(t.Context(), key, string(v.Field), old).Err())
		}
		changes = append(changes, store.Change{Value: v, New: fmt.Appendf(nil, "new %d", i)})
	}
	for i, o := range mustReplace(t, s, changes...) {
		if want := i%3 == 0 || i%5 != 0; o.Replaced != want {
			t.Errorf("change %d: %+v, want %v", i, o, want)
		}
	}
	for i, ch := range changes {
		got := c.Get(t.Context(), string(ch.Value.Key)).Val()
		if ch.Value.Type == store.Hash {
			got = c.HGet(t.Context(), string(ch.Value.Key), string(ch.Value.Field)).Val()
		}
		if want := fmt.Sprint("new ", i); got != want && (i%3 == 0 || i%5 != 0) {
			t.Errorf("change %d left %q", i, got)
		}
	}
}

// A server at its limit accepts smaller values and refuses larger ones.
func TestReplaceOnFullServer(t *testing.T) {
	s, c := openSpace(t, testenv.Redis(t, "--maxmemory-policy", "noeviction"), "")
	long := strings.Repeat("long", 1000)
	must(t, c.MSet(t.Context(), "a", long, "b", long).Err())
	must(t, c.HSet(t.Context(), "h", "f", long).Err())
	must(t, c.ConfigSet(t.Context(), "maxmemory", "1mb").Err())
	if err := c.Set(t.Context(), "c", "v", 0).Err(); !goredis.IsOOMError(err) {
		t.Fatalf("the server is not full: %v", err)
	}
	out := mustReplace(t, s, store.Change{Value: str("a", long), New: []byte("short")}, store.Change{Value: field("h", "f", long), New: []byte("short")},
		store.Change{Value: str("b", long), New: []byte(long + long)})
	if !out[0].Replaced || !out[1].Replaced {
		t.Errorf("smaller values: %+v", out[:2])
	}
	if !errors.Is(out[2].Err, store.ErrFull) {
		t.Errorf("a larger value: %+v, want ErrFull", out[2])
	}
}

// The server that refuses a command of a transaction says why. In a cluster that need not be the space's node, since
// the key may have moved.
func TestReplaceWithoutScriptsRefused(t *testing.T) {
	for refusal, want := range map[string]store.Outcome{
		"OOM command not allowed when used memory > 'maxmemory'.": {Err: store.ErrFull},
		"READONLY You can't write against a read only replica.":   {Err: store.ErrReadOnly},
		"NOPERM no permissions to run the 'set' command":          {Skip: store.Denied},
	} {
		client := goredis.NewClient(&goredis.Options{MaxRetries: -1, Dialer: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go testenv.AnswerRedis(far, func(args []string) string {
				switch strings.ToUpper(args[0]) {
				case "WATCH", "MULTI", "UNWATCH":
					return "+OK\r\n"
				case "GET":
					return "$3\r\nold\r\n"
				case "SET":
					return "-" + refusal + "\r\n"
				case "EXEC":
					return "-EXECABORT Transaction discarded because of previous errors.\r\n"
				case "INFO":
					return "$13\r\nmaxmemory:0\r\n\r\n"
				}
				return "-ERR unknown command\r\n"
			})
			return near, nil
		}})
		defer client.Close()
		s := &Space{node: &Node{store: &Store{}, client: client}, values: client}
		o, err := s.replaceWatched(t.Context(), &store.Change{Value: str("s", "old"), New: []byte("new")})
		if err != nil || o.Replaced || o.Skip != want.Skip || !errors.Is(o.Err, want.Err) {
			t.Errorf("%s: %+v, %v", refusal, o, err)
		}
	}
}

func TestReplaceDenied(t *testing.T) {
	for _, rights := range []string{"-set -hset", "-@scripting -set -hset", "-@scripting -@transaction", "-get -hget"} {
		t.Run(rights, func(t *testing.T) {
			s, c := openAs(t, rights)
			must(t, c.Set(t.Context(), "s", "old", 0).Err())
			must(t, c.HSet(t.Context(), "h", "f", "old").Err())
			out := mustReplace(t, s, store.Change{Value: str("s", "old"), New: []byte("new")}, store.Change{Value: field("h", "f", "old"), New: []byte("new")})
			for i, o := range out {
				if o.Replaced || o.Skip != store.Denied {
					t.Errorf("change %d: %+v, want %s", i, o, store.Denied)
				}
			}
			if v := c.Get(t.Context(), "s").Val(); v != "old" {
				t.Errorf("it holds %q", v)
			}
		})
	}
}

// A store opened with ReadOnly can't replace, and may be a replica.
func TestReadOnly(t *testing.T) {
	server := testenv.Redis(t)
	_, c := openSpace(t, server, "")
	must(t, c.Set(t.Context(), "s", "old", 0).Err())
	for _, replica := range []bool{false, true} {
		if replica {
			must(t, c.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
			must(t, c.ConfigSet(t.Context(), "replica-serve-stale-data", "yes").Err())
		}
		s, err := Open(t.Context(), OpenOptions{Client: goredis.Options{Addr: server.Addr}, DBs: []int{0}, ReadOnly: true})
		must(t, err)
		defer s.Close()
		space := s.Nodes()[0].Spaces()[0]
		out, err := space.Replace(t.Context(), []store.Change{{Value: str("s", "old"), New: []byte("new")}})
		must(t, err)
		if n, err := space.Rebuild(t.Context(), [][]byte{[]byte("s")}); n != 0 || err != nil {
			t.Errorf("rebuilt %d, %v", n, err)
		}
		if got := c.Get(t.Context(), "s").Val(); !errors.Is(out[0].Err, store.ErrReadOnly) || out[0].Replaced || got != "old" {
			t.Errorf("%+v; the value is %q", out[0], got)
		}
	}
}

func TestReplaceOnReplica(t *testing.T) {
	server := testenv.Redis(t)
	s, c := openSpace(t, server, "")
	must(t, c.Set(t.Context(), "s", "old", 0).Err())
	must(t, c.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	must(t, c.ConfigSet(t.Context(), "replica-serve-stale-data", "yes").Err())
	if out := mustReplace(t, s, store.Change{Value: str("s", "old"), New: []byte("new")}); !errors.Is(out[0].Err, store.ErrReadOnly) {
		t.Errorf("%+v, want ErrReadOnly", out[0])
	}
	if _, err := Open(t.Context(), OpenOptions{Client: goredis.Options{Addr: server.Addr}}); !errors.Is(err, ErrReplica) {
		t.Errorf("open: %v, want ErrReplica", err)
	}
}

func TestReplaceUnavailable(t *testing.T) {
	server := testenv.Redis(t)
	s, _ := openSpace(t, server, "")
	server.Kill()
	if _, err := s.Replace(t.Context(), []store.Change{{Value: str("s", "old"), New: []byte("new")}}); !Unavailable(err) {
		t.Errorf("replace: %v", err)
	}
	if _, err := s.Page(t.Context(), "", store.ScanOptions{Count: 10}); !Unavailable(err) {
		t.Errorf("scan: %v", err)
	}
}

func TestRebuild(t *testing.T) {
	s, c := openSpace(t, testenv.Redis(t), "")
	ctx, at := t.Context(), time.UnixMilli(4102444800123)
	hashtable := func(key string, fields int, value string) {
		t.Helper()
		must(t, c.HSet(ctx, key, "f0", strings.Repeat("x", 100)).Err())
		for i := range fields {
			must(t, c.HSet(ctx, key, fmt.Sprint("f", i), value).Err())
		}
	}
	hashtable("fits", 100, strings.Repeat("v", 64))
	hashtable("expires", 3, "v\x00\r\n")
	must(t, c.PExpireAt(ctx, "expires", at).Err())
	hashtable("long", 3, strings.Repeat("v", 65))
	hashtable("many", 513, "v")
	must(t, c.HSet(ctx, "longname", strings.Repeat("n", 65), "v").Err())
	must(t, c.HSet(ctx, "listpack", "f", "v").Err())
	must(t, c.Set(ctx, "string", "v", 0).Err())
	before := map[string]map[string]string{}
	var keys [][]byte
	for _, k := range []string{"fits", "expires", "long", "many", "longname", "listpack", "string", "gone"} {
		before[k] = c.HGetAll(ctx, k).Val()
		keys = append(keys, []byte(k))
	}
	n, err := s.Rebuild(ctx, keys)
	must(t, err)
	if n != 2 {
		t.Errorf("%d were rebuilt, want 2", n)
	}
	for k, want := range before {
		if got := c.HGetAll(ctx, k).Val(); !maps.Equal(got, want) {
			t.Errorf("%s holds something else", k)
		}
	}
	for k, want := range map[string]string{"fits": "listpack", "expires": "listpack", "long": "hashtable", "many": "hashtable", "longname": "hashtable"} {
		if got := c.ObjectEncoding(ctx, k).Val(); got != want {
			t.Errorf("%s is a %s, want a %s", k, got, want)
		}
	}
	if got := c.PExpireTime(ctx, "expires").Val(); got != time.Duration(at.UnixMilli())*time.Millisecond {
		t.Errorf("it expires at %v", got)
	}
	if got := c.PExpireTime(ctx, "fits").Val(); got != -1 {
		t.Errorf("it has an expiry: %v", got)
	}
}

// A rebuild must not lose a hash if the user may delete but not write, or if the server is full.
func TestRebuildLosesNothing(t *testing.T) {
	for _, rights := range []string{"-hset", "-del", "-pexpireat", "-hset -pexpireat"} {
		s, c := openAs(t, rights)
		must(t, c.HSet(t.Context(), "h", "f", strings.Repeat("x", 100)).Err())
		must(t, c.HSet(t.Context(), "h", "f", "short").Err())
		must(t, c.PExpireAt(t.Context(), "h", time.UnixMilli(4102444800123)).Err())
		if n, err := s.Rebuild(t.Context(), [][]byte{[]byte("h")}); n != 0 || err != nil {
			t.Errorf("%s: rebuilt %d, %v", rights, n, err)
		}
		if v := c.HGet(t.Context(), "h", "f").Val(); v != "short" {
			t.Errorf("%s: it holds %q", rights, v)
		}
		if c.PExpireTime(t.Context(), "h").Val() < 0 {
			t.Errorf("%s: the expiry is gone", rights)
		}
	}
	s, c := openSpace(t, testenv.Redis(t, "--maxmemory-policy", "noeviction"), "")
	must(t, c.HSet(t.Context(), "h", "f", strings.Repeat("x", 100)).Err())
	must(t, c.HSet(t.Context(), "h", "f", "short").Err())
	must(t, c.ConfigSet(t.Context(), "maxmemory", "1mb").Err())
	n, err := s.Rebuild(t.Context(), [][]byte{[]byte("h")})
	if v := c.HGet(t.Context(), "h", "f").Val(); v != "short" || n != 1 || err != nil {
		t.Errorf("on a full server: rebuilt %d, %v, left %q", n, err, v)
	}
}
