package pack

import (
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/store"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

// fieldExpiry is the time of expiry of a field, -1 for none.
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

// TestFieldsThatExpire needs Redis 7.4: HSET would clear the expiry of a field, and a
// rebuilt hash would lose those of all.
func TestFieldsThatExpire(t *testing.T) {
	for name, user := range map[string]string{
		"with EVAL":    "",
		"without EVAL": "limited:secret@",
	} {
		t.Run(name, func(t *testing.T) {
			server := testenv.Redis74(t)
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
			// All of one size, so that the hash is a listpack once they are sealed, were it
			// not for one that expires.
			must(t, c.HSet(ctx, "dense", "a", document(5, 100), "b", document(5, 100), "c", "short").Err())
			expireField(t, c, "dense", "c")
			before := contents(t, c, newSealer(nil))

			args := []string{"pack", url, "--rule", "setting=zstd-3,min_gain=0%"}
			expect(t, 0, args, "left: field has expiry              50", "values packed                       52")
			sameContents(t, "packed", contents(t, c, newSealer(nil)), before)
			for i := range 50 {
				key := fmt.Sprint("hash:", i)
				if at := fieldExpiry(t, c, key, "goes"); at != someday {
					t.Fatalf("%s: goes expires at %d", key, at)
				}
				if v := c.HGet(ctx, key, "goes").Val(); cinch.IsSealed([]byte(v)) {
					t.Fatalf("%s: the field that expires was replaced", key)
				}
				if v := c.HGet(ctx, key, "stays").Val(); !cinch.IsSealed([]byte(v)) || fieldExpiry(t, c, key, "stays") != -1 {
					t.Fatalf("%s: stays is %.20q", key, v)
				}
			}
			if at := fieldExpiry(t, c, "dense", "c"); at != someday {
				t.Errorf("dense: c expires at %d", at)
			}

			// A sealed field that was given an expiry afterwards can't go back without losing it.
			expireField(t, c, "hash:7", "stays")
			expect(t, 3, []string{"unpack", url}, "1 value was not put back", `key "hash:7" field "stays": not put back: field has expiry`)
			if at := fieldExpiry(t, c, "hash:7", "stays"); at != someday {
				t.Errorf("unpack changed the expiry to %d", at)
			}
			sameContents(t, "unpacked", contents(t, c, newSealer(nil)), before)
		})
	}
}

// TestExpirySetMeanwhile: a field gets its expiry after it was read.
func TestExpirySetMeanwhile(t *testing.T) {
	server := testenv.Redis74(t)
	c := connect(t, server.Addr)
	ctx := t.Context()
	must(t, c.HSet(ctx, "h", "f", document(1, 600), "g", document(2, 600)).Err())
	s, err := storeredis.Open(ctx, storeredis.OpenOptions{Client: goredis.Options{Addr: server.Addr}})
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
	outcomes, err := space.Replace(ctx, changes)
	must(t, err)
	for i, o := range outcomes {
		switch string(changes[i].Value.Field) {
		case "f":
			if o.Replaced || o.Skip != store.FieldExpiry {
				t.Errorf("f: %+v", o)
			}
		case "g":
			if !o.Replaced {
				t.Errorf("g: %+v", o)
			}
		}
	}
	if at := fieldExpiry(t, c, "h", "f"); at != someday {
		t.Errorf("f expires at %d", at)
	}
}
