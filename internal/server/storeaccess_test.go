package server

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A gateway whose rules name a dictionary requests it before it exists. Once another gateway has stored it,
// values that name it are readable at once.
func TestAwaitedDictionaryOpensAtOnce(t *testing.T) {
	t.Parallel()
	dial := func(server *miniredis.Miniredis) func(context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", server.Addr())
		}
	}
	newClient := func(dial func(context.Context) (net.Conn, error)) *redis.Client {
		c := redis.NewClient(&redis.Options{Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	log := (&testenv.Log{}).Logger()
	for name, open := range map[string]func(*miniredis.Miniredis) (redisDicts, envelope.Dictionaries){
		"server": func(server *miniredis.Miniredis) (redisDicts, envelope.Dictionaries) {
			d := storeredis.NewDicts(storeredis.DictsOptions{Client: newClient(dial(server)), Log: log})
			return d, d
		},
		"cluster": func(server *miniredis.Miniredis) (redisDicts, envelope.Dictionaries) {
			d := storeredis.NewClusterDicts(storeredis.ClusterDictsOptions{NewClient: newClient, Log: log})
			t.Cleanup(d.Close)
			node := d.Join("first", dial(miniredis.RunT(t)))
			d.Join("second", dial(server))
			d.Lead([]string{"first", "second"})
			return d, node
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := miniredis.RunT(t)
			awaited, err := codec.NewDict(bytes.Repeat([]byte("made by another gateway "+name), 20))
			if err != nil {
				t.Fatal(err)
			}
			dicts, readers := open(server)
			s := &redisStore{access: newStoreAccess(log), dicts: dicts}
			numbers := []uint32{awaited.Number()}
			s.awaitNodes(t.Context(), numbers)
			told := map[uint32]string{}
			if s.has(t.Context(), awaited.Number(), told) || told[awaited.Number()] != envelope.ErrDictMissing.Error() {
				t.Fatalf("before it is there: %v", told)
			}

			other := storeredis.NewDicts(storeredis.DictsOptions{Client: newClient(dial(server)), Log: log})
			if err := other.Publish(t.Context(), awaited); err != nil {
				t.Fatal(err)
			}
			if got, err := readers.Dictionary(awaited.Number()); err != nil || got.Hash() != awaited.Hash() {
				t.Errorf("as soon as it is there: %v", err)
			}
			if !s.has(t.Context(), awaited.Number(), told) {
				t.Errorf("rules don't get it: %v", told)
			}
			if _, err := readers.Dictionary(awaited.Number() + 1); !errors.Is(err, envelope.ErrDictMissing) {
				t.Errorf("another one: %v", err)
			}
		})
	}
}
