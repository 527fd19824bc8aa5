package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Lowering max_seal never makes a stored value unreadable; lowering max_open does, with an error that says
// so.
func TestServeOpensWhatWasSealedUnderALargerLimit(t *testing.T) {
	server := testenv.Redis(t)
	store := connectTo(t, server.Addr)
	value := strings.Repeat("a long value, ", 200_000) // 2.8 MB
	path, file := socket(t), filepath.Join(t.TempDir(), "cinch.yaml")
	under := func(limits string, use func(c *client)) {
		t.Helper()
		text := fmt.Sprintf("admin: {listen: off}\ngateways:\n  - {name: a, protocol: redis, listen: \"unix:%s\", upstream: \"%s\", %s, rules: [{setting: lz4}]}\n",
			path, server.URL(), limits)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := startServe(t, serveOptions{configFile: file})
		s.logged("gateway listens")
		use(dial(t, path))
		s.stop(os.Interrupt)
	}
	under("max_seal: 32MiB", func(c *client) {
		c.do("SET", "k", value)
		mustBeSealed(t, store, "k", true)
	})
	under("max_seal: 1MiB", func(c *client) {
		if got := c.do("GET", "k"); got != value {
			t.Errorf("GET: %.80q", got)
		}
		if got := c.do("STRLEN", "k"); got != fmt.Sprintf(":%d", len(value)) {
			t.Errorf("STRLEN: %s", got)
		}
		if got := c.do("GETRANGE", "k", "0", "5"); got != "a long" {
			t.Errorf("GETRANGE: %s", got)
		}
		if got := c.do("APPEND", "k", "!"); got != fmt.Sprintf(":%d", len(value)+1) { // decompressed and stored again
			t.Errorf("APPEND: %s", got)
		}
		c.do("SET", "longer", value)
		mustBeSealed(t, store, "longer", false)
	})
	under("max_seal: 32MiB", func(c *client) { c.do("SET", "k", value) })
	under("max_seal: 1MiB, max_open: 1MiB", func(c *client) {
		if got := c.do("GET", "k"); !strings.HasPrefix(got, "-ERR") || !strings.Contains(got, "over the limit") {
			t.Errorf("GET: %.80q", got)
		}
		if got := c.do("GET", "longer"); got != value {
			t.Errorf("GET of a plain value: %.80q", got)
		}
	})
}

func mustBeSealed(t *testing.T, store *goredis.Client, key string, want bool) {
	t.Helper()
	stored, err := store.Get(t.Context(), key).Bytes()
	if err != nil || envelope.IsSealed(stored) != want {
		t.Fatalf("%s: %d bytes, %v", key, len(stored), err)
	}
}
