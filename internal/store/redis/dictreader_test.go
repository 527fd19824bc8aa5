package redis

import (
	"errors"
	"testing"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A reader finds what Dicts has stored, with and without functions, and sees when a dictionary is retired.
func TestReader(t *testing.T) {
	for name, addr := range map[string]string{"functions": testenv.Redis(t).Addr, "keys": miniredis.RunT(t).Addr()} {
		t.Run(name, func(t *testing.T) {
			client := connect(t, goredis.Options{Addr: addr})
			dicts, r, d := NewDicts(DictsOptions{Client: client}), NewReader(client), testDict(t, name)
			if _, err := r.Dictionary(t.Context(), d.Number()); !errors.Is(err, envelope.ErrDictMissing) {
				t.Error("before:", err)
			}
			if err := dicts.dictBackends.put(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			version, err := dicts.ReplaceRecord(t.Context(), "policy", 0, "text")
			if err != nil {
				t.Fatal(err)
			}
			if text, v, err := r.Record(t.Context(), "policy"); text != "text" || v != version || err != nil {
				t.Error(text, v, err)
			}
			if found, err := r.Dictionary(t.Context(), d.Number()); err != nil || found.Hash() != d.Hash() {
				t.Error(err)
			}
			if live, err := r.Live(t.Context(), d.Number()); !live || err != nil {
				t.Error("live:", live, err)
			}
			if live, err := r.Live(t.Context(), d.Number()+1); live || err != nil {
				t.Error("another is live:", live, err)
			}
			if err := dicts.dictBackends.Retire(t.Context(), d.Number()); err != nil {
				t.Fatal(err)
			}
			if live, err := r.Live(t.Context(), d.Number()); live || err != nil {
				t.Error("live though retired:", live, err)
			}
		})
	}
}
