package search

import (
	"context"
	"errors"
	"slices"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// IndexTracker understands the answers of a real module, in both protocols.
func TestIndexesOfAServer(t *testing.T) {
	server := testenv.RedisStack(t)
	for _, protocol := range []int{2, 3} {
		c := goredis.NewClient(&goredis.Options{Addr: server.Addr, Protocol: protocol, DisableIdentity: true})
		defer c.Close()
		ctx := t.Context()
		c.FlushAll(ctx)
		ask := func(ctx context.Context, args ...any) (any, error) { return c.Do(ctx, args...).Result() }
		var look IndexTracker
		expect := func(what string, want ...string) {
			t.Helper()
			for _, fresh := range []bool{false, true} {
				if x := look.Refresh(ctx, ask, fresh); x.Unknown != nil || !slices.Equal(x.Prefixes, want) {
					t.Errorf("RESP%d, %s: %q %v, want %q", protocol, what, x.Prefixes, x.Unknown, want)
				}
			}
		}
		do := func(args ...any) {
			t.Helper()
			if err := c.Do(ctx, args...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		expect("none")
		do("FT.CREATE", "two", "ON", "HASH", "PREFIX", 2, "b:", "a:", "SCHEMA", "t", "TEXT")
		expect("two prefixes", "a:", "b:")
		do("FT.CREATE", "json", "ON", "JSON", "PREFIX", 1, "j:", "SCHEMA", "$.t", "AS", "t", "TEXT")
		do("FT.CREATE", "again", "PREFIX", 1, "a:", "FILTER", "@t!='x'", "SCHEMA", "t", "TEXT")
		expect("one over JSON, one prefix twice", "a:", "b:")
		do("FT.CREATE", "star", "ON", "HASH", "PREFIX", 1, "*", "SCHEMA", "t", "TEXT")
		expect("all keys, by *", "", "a:", "b:")
		do("FT.DROPINDEX", "star")
		do("FT.DROPINDEX", "two")
		do("FT.CREATE", "all", "SCHEMA", "t", "TEXT")
		expect("all keys", "", "a:")
		do("FLUSHALL")
		expect("none after FLUSHALL")
	}
}

// Without the module Refresh needs no rights. With it, hashes count as indexed if the user lacks the rights.
func TestIndexesWithoutRights(t *testing.T) {
	for _, module := range []bool{false, true} {
		server := testenv.Redis(t)
		if module {
			server = testenv.RedisStack(t)
		}
		admin := goredis.NewClient(&goredis.Options{Addr: server.Addr, Protocol: 2, DisableIdentity: true})
		defer admin.Close()
		if err := admin.Do(t.Context(), "ACL", "SETUSER", "u", "on", ">p", "+ping").Err(); err != nil {
			t.Fatal(err)
		}
		c := goredis.NewClient(&goredis.Options{Addr: server.Addr, Username: "u", Password: "p", Protocol: 2, DisableIdentity: true})
		defer c.Close()
		var look IndexTracker
		x := look.Refresh(t.Context(), func(ctx context.Context, args ...any) (any, error) { return c.Do(ctx, args...).Result() }, true)
		if (x.Unknown != nil) != module || x.Covers([]byte("k")) != module {
			t.Errorf("module %v: %v", module, x.Unknown)
		}
	}
}

func TestIndexesCover(t *testing.T) {
	for _, test := range []struct {
		x    *Indexes
		key  string
		want bool
	}{
		{nil, "a", false},
		{&Indexes{}, "a", false},
		{&Indexes{Unknown: errors.New("no")}, "a", true},
		{&Indexes{Prefixes: []string{""}}, "", true},
		{&Indexes{Prefixes: []string{"a:", "c"}}, "a:", true},
		{&Indexes{Prefixes: []string{"a:", "c"}}, "a", false},
		{&Indexes{Prefixes: []string{"a:", "c"}}, "b", false},
		{&Indexes{Prefixes: []string{"a:", "c"}}, "cc", true},
	} {
		if got := test.x.Covers([]byte(test.key)); got != test.want {
			t.Errorf("%v, %q: %v", test.x, test.key, got)
		}
	}
}

// After a malformed reply every hash counts as indexed.
func TestIndexesOfOddReplies(t *testing.T) {
	for _, reply := range []any{nil, "text", int64(1), []any{"index_definition"}, []any{"index_definition", "x"}, map[any]any{}, map[any]any{"index_definition": nil}} {
		var look IndexTracker
		x := look.Refresh(t.Context(), func(_ context.Context, args ...any) (any, error) {
			switch args[0] {
			case "COMMAND":
				return nil, errors.New("no")
			case "FT._LIST":
				return []any{"i"}, nil
			}
			return reply, nil
		}, false)
		if !x.Covers([]byte("k")) {
			t.Errorf("%v: hashes are taken for not indexed", reply)
		}
	}
}
