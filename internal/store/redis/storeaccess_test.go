package redis

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
)

// The hint suggests --field only for a hash.
func TestValueOfAnotherType(t *testing.T) {
	server := miniredis.RunT(t)
	c := goredis.NewClient(&goredis.Options{Addr: server.Addr(), Protocol: 2, DisableIdentity: true})
	defer c.Close()
	server.HSet("h", "f", "v")
	if _, err := server.ZAdd("z", 1, "m"); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"h": "name a field", "z": "holds a zset; only strings and hashes"} {
		_, err := readValue(t.Context(), c, "s", store.Address{Key: key})
		e, ok := err.(*store.HintedError)
		if !ok || !strings.Contains(e.Error()+": "+e.Help, want) || strings.Contains(e.Help, "--field") != (key == "h") {
			t.Errorf("%s: %v, %+v", key, err, e)
		}
	}
}
