package redis

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/test/testenv"
)

// While the store is open, the server behind its address is upgraded to one whose hash fields can expire. Fields keep
// their expiries, for users with and without the right to run scripts.
func TestFieldsKeepExpiriesAfterUpgrade(t *testing.T) {
	for _, rights := range []string{"+@all", "-@scripting"} {
		t.Run(rights, func(t *testing.T) {
			ctx, someday := t.Context(), time.UnixMilli(4102444800123)
			before, after := testenv.Redis(t), testenv.Redis74(t)
			for _, s := range []*testenv.RedisServer{before, after} {
				c := connect(t, goredis.Options{Addr: s.Addr})
				must(t, c.Do(ctx, "acl", "setuser", "u", "on", ">pw", "~*", "+@all", rights).Err())
				must(t, c.HSet(ctx, "h", "stays", "old", "expires", "old").Err())
			}
			c := connect(t, goredis.Options{Addr: after.Addr})
			must(t, c.HPExpireAt(ctx, "h", someday, "expires").Err())
			var at atomic.Pointer[string]
			at.Store(&before.Addr)
			o := goredis.Options{Addr: before.Addr, Username: "u", Password: "pw", MaxRetries: -1, DialerRetries: 1}
			o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, *at.Load())
			}
			s, err := Open(ctx, OpenOptions{Client: o, DBs: []int{0}})
			must(t, err)
			defer s.Close()
			space := s.Nodes()[0].Spaces()[0]
			replace := func(old, next string) {
				t.Helper()
				for i, o := range mustReplace(t, space, store.Change{Value: field("h", "stays", old), New: []byte(next)}, store.Change{Value: field("h", "expires", old), New: []byte(next)}) {
					if !o.Replaced {
						t.Errorf("change %d: %+v", i, o)
					}
				}
			}
			replace("old", "older")
			at.Store(&after.Addr)
			before.Kill()
			for Unavailable(space.scan.Ping(ctx).Err()) { // until the pool has noticed
			}
			replace("old", "new")
			if v := c.HMGet(ctx, "h", "stays", "expires").Val(); !slices.Equal(v, []any{"new", "new"}) {
				t.Errorf("the hash holds %v", v)
			}
			if got := c.HPExpireTime(ctx, "h", "stays", "expires").Val(); !slices.Equal(got, []int64{-1, someday.UnixMilli()}) {
				t.Errorf("the fields expire at %v", got)
			}
		})
	}
}

// While a cluster is upgraded node by node, fields expire on some nodes and others lack the commands, whichever of them
// was upgraded first.
func TestReplaceInClusterOfTwoVersions(t *testing.T) {
	for _, lines := range [][]string{{"redis-7.0", "redis-7.4"}, {"redis-7.4", "redis-7.0"}} {
		t.Run(lines[0]+" first", func(t *testing.T) {
			ctx, someday := t.Context(), time.UnixMilli(4102444800123)
			var nodes []*testenv.RedisServer
			for _, line := range lines {
				nodes = append(nodes, testenv.RedisOf(t, line, "--cluster-enabled", "yes", "--cluster-node-timeout", "10000", "--cluster-port", strconv.Itoa(testenv.FreePort(t))))
			}
			testenv.MakeCluster(t, nodes, 2)
			s, err := Open(ctx, OpenOptions{Client: goredis.Options{Addr: nodes[0].Addr, MaxRetries: -1, DialerRetries: 1}})
			must(t, err)
			defer s.Close()
			for i, line := range lines {
				key := []string{"b", "a"}[i] // slots 3300 and 15495
				c := connect(t, goredis.Options{Addr: nodes[i].Addr})
				must(t, c.HSet(ctx, key, "f", "old").Err())
				if line == "redis-7.4" {
					must(t, c.HPExpireAt(ctx, key, someday, "f").Err())
				}
				if o := mustReplace(t, s.Nodes()[0].Spaces()[0], store.Change{Value: field(key, "f", "old"), New: []byte("new")})[0]; !o.Replaced {
					t.Errorf("%s: %+v", line, o)
				}
				if at := c.HPExpireTime(ctx, key, "f").Val(); line == "redis-7.4" && !slices.Equal(at, []int64{someday.UnixMilli()}) {
					t.Errorf("%s: the field expires at %v", line, at)
				}
				if n, err := s.Nodes()[i].Spaces()[0].Rebuild(ctx, [][]byte{[]byte(key)}); n != 0 || err != nil { // it is a listpack
					t.Errorf("%s: rebuilt %d, %v", line, n, err)
				}
			}
		})
	}
}
