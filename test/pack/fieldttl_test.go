package pack

import (
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

// fieldExpiry returns a field's expiry time, -1 for none.
func fieldExpiry(t *testing.T, c *goredis.Client, key, field string) int64 {
	t.Helper()
	at, err := c.HPExpireTime(t.Context(), key, field).Result()
	must(t, err)
	return at[0]
}

const someday = 4102444800123

func expireField(t *testing.T, c *goredis.Client, key, field string) {
	t.Helper()
	must(t, c.HPExpireAt(t.Context(), key, time.UnixMilli(someday), field).Err())
}

// eachLine runs a test for each server version that supports expiry of hash fields with make full,
// otherwise for the newest of Redis and of Valkey.
func eachLine(t *testing.T, test func(t *testing.T, line string)) {
	for _, line := range []string{"redis-7.4", "redis-8.2", "redis-8.6", "valkey-9.1"} {
		t.Run(line, func(t *testing.T) {
			if line == "redis-7.4" || line == "redis-8.2" {
				testenv.Full(t)
			}
			t.Parallel()
			test(t, line)
		})
	}
}

// TestFieldsThatExpire checks that expiries of fields survive: HSET would remove that of a field, and
// rebuilding a hash those of all fields.
func TestFieldsThatExpire(t *testing.T) {
	t.Parallel()
	eachLine(t, func(t *testing.T, line string) {
		for name, user := range map[string]string{"with EVAL": "", "without EVAL": "limited:secret@"} {
			t.Run(name, func(t *testing.T) { packFieldsThatExpire(t, testenv.RedisOf(t, line), user) })
		}
	})
}

func packFieldsThatExpire(t *testing.T, server *testenv.RedisServer, user string) {
	c := connect(t, server.Addr)
	ctx := t.Context()
	must(t, c.Do(ctx, "acl", "setuser", "limited", "on", ">secret", "~*", "+@all", "-eval", "-evalsha", "-fcall").Err())
	url := "redis://" + user + server.Addr
	for i := range 50 {
		key := fmt.Sprint("hash:", i)
		must(t, c.HSet(ctx, key, "stays", document(i, 600), "goes", document(i+1, 600)).Err())
		must(t, c.Do(ctx, "pexpireat", key, someday+int64(i)+1).Err())
		expireField(t, c, key, "goes")
	}
	// All values have one size, so that the hash would become a listpack once they are compressed, were it
	// not for a field that expires.
	must(t, c.HSet(ctx, "dense", "a", document(5, 100), "b", document(5, 100), "c", "short").Err())
	expireField(t, c, "dense", "c")
	before := contents(t, c, newSealer(nil))
	check := func(when string, sealed bool) {
		t.Helper()
		sameContents(t, when, contents(t, c, newSealer(nil)), before)
		for i := range 50 {
			for field, want := range map[string]int64{"goes": someday, "stays": -1} {
				key := fmt.Sprint("hash:", i)
				v := c.HGet(ctx, key, field).Val()
				if at := fieldExpiry(t, c, key, field); at != want || envelope.IsSealed([]byte(v)) != sealed {
					t.Fatalf("%s: %s of %s expires at %d, and is %.20q", when, field, key, at, v)
				}
			}
		}
		if at := fieldExpiry(t, c, "dense", "c"); at != someday {
			t.Errorf("%s: dense: c expires at %d", when, at)
		}
	}
	expect(t, 0, []string{"pack", url, "--rule", "setting=zstd-3,min_gain=0%"}, "values packed 102")
	check("packed", true)
	expect(t, 0, []string{"unpack", url})
	check("unpacked", false)
}

// TestExpirySetMeanwhile sets expiries of fields after the packer has read them. One of them has passed at
// once.
func TestExpirySetMeanwhile(t *testing.T) {
	t.Parallel()
	eachLine(t, func(t *testing.T, line string) {
		for _, user := range []string{"default", "limited", "timeless"} {
			t.Run(user, func(t *testing.T) { replaceWhatExpires(t, testenv.RedisOf(t, line), user) })
		}
	})
}

func replaceWhatExpires(t *testing.T, server *testenv.RedisServer, user string) {
	c := connect(t, server.Addr)
	ctx := t.Context()
	must(t, c.Do(ctx, "acl", "setuser", "limited", "on", ">pw", "~*", "+@all", "-eval").Err())
	must(t, c.Do(ctx, "acl", "setuser", "timeless", "on", ">pw", "~*", "+@all", "-hpexpireat").Err())
	must(t, c.HSet(ctx, "h", "f", document(1, 600), "g", document(2, 600), "over", document(3, 600)).Err())
	o := goredis.Options{Addr: server.Addr}
	if user != "default" {
		o.Username, o.Password = user, "pw"
	}
	s, err := storeredis.Open(ctx, storeredis.OpenOptions{Client: o})
	must(t, err)
	defer s.Close()
	space := s.Nodes()[0].Spaces()[0]
	var changes []store.Change
	seal := newSealer(nil)
	must(t, space.Read(ctx, [][]byte{[]byte("h")}, store.ReadOptions{Types: store.Hash}, func(v *store.Value) error {
		changes = append(changes, store.Change{Value: v, New: seal.Seal(nil, v.Stored, codec.Setting{Codec: codec.LZ4}, nil)})
		return nil
	}))
	expireField(t, c, "h", "f")
	must(t, c.HPExpire(ctx, "h", time.Millisecond, "over").Err())
	testenv.Eventually(t, "a field is over", func() bool { return c.HGet(ctx, "h", "over").Err() == goredis.Nil })
	outcomes, err := space.Replace(ctx, changes)
	must(t, err)
	for i, o := range outcomes {
		field := string(changes[i].Value.Field)
		// The server has removed field "over" while this one was being replaced.
		if field != "over" && o == (store.Outcome{}) {
			again, err := space.Replace(ctx, changes[i:i+1])
			must(t, err)
			o = again[0]
		}
		want := store.Outcome{Replaced: field != "over"}
		if user == "timeless" && field == "f" {
			want = store.Outcome{Skip: store.Denied}
		}
		if v := c.HGet(ctx, "h", field).Val(); o != want || envelope.IsSealed([]byte(v)) != want.Replaced {
			t.Errorf("%s: %+v, want %+v, and is %.20q", field, o, want, v)
		}
	}
	if at := fieldExpiry(t, c, "h", "f"); at != someday {
		t.Errorf("f expires at %d", at)
	}
	if at := fieldExpiry(t, c, "h", "g"); at != -1 {
		t.Errorf("g expires at %d", at)
	}
	if c.HExists(ctx, "h", "over").Val() {
		t.Error("what was over is back")
	}
}
