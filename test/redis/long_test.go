package redis

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// TestLongValuesOfNewerCommands checks that requests larger than a connection's buffer are processed value
// by value.
func TestLongValuesOfNewerCommands(t *testing.T) {
	for _, name := range []string{"redis-8.6", "valkey-9.1"} {
		t.Run(name, func(t *testing.T) {
			server := testenv.RedisOf(t, name)
			g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: "- {name: all, type: [string, hash, stream], setting: zstd-3}"})
			s := &stack{direct: connect(t, server.Addr, ""), through: connect(t, g.Addr, "")}
			huge := strings.Repeat(long, 300)
			wrapped := envelope.Magic + huge
			ask := func(want string, sealed bool, line string) {
				t.Helper()
				if got := do(t, s.through, line); got != want {
					t.Errorf("%s: %d bytes, want %d", line, len(got), len(want))
				}
				if stored := do(t, s.direct, line); isSealed(stored) != sealed {
					t.Errorf("%s: sealed %v, want %v", line, !sealed, sealed)
				}
			}
			if err := s.through.Do(t.Context(), "HSETEX", "h", "EX", 1000, "FIELDS", 3, "f", huge, "g", "short", "m", wrapped).Err(); err != nil {
				t.Fatal(err)
			}
			ask(huge, true, "HGET h f")
			ask("short", false, "HGET h g")
			ask(wrapped, true, "HGET h m")
			if err := s.through.Do(t.Context(), "MSETEX", 2, "a", huge, "b", wrapped, "EX", 1000).Err(); err != nil {
				t.Fatal(err)
			}
			ask(huge, true, "GET a")
			ask(wrapped, true, "GET b")
			if err := s.through.Do(t.Context(), "HSETEX", "h", "BOGUS", "FIELDS", 1, "f", huge).Err(); err == nil {
				t.Error("a bogus option is taken")
			}
			if err := s.through.Do(t.Context(), "SET", "a", "now", "IFEQ", huge).Err(); err != nil {
				t.Error(err)
			}
			ask("now", false, "GET a")
			if !s.knows(t, "XCFGSET") {
				return
			}
			for _, value := range []string{huge, wrapped} {
				if err := s.through.Do(t.Context(), "XADD", "x", "IDMPAUTO", "p", "KEEPREF", "*", "f", value).Err(); err != nil {
					t.Fatal(err)
				}
			}
			entries := do(t, s.direct, "XRANGE x - +")
			// One of the envelope, one in its value.
			if strings.Count(entries, envelope.Magic) != 2 || strings.Count(entries, huge) != 2 {
				t.Error("values from which the server computes a key do not go as they are, but for what must be wrapped")
			}
			if got := do(t, s.through, "XRANGE x - +"); !strings.Contains(got, "[f "+huge+"]") || !strings.Contains(got, "[f "+wrapped+"]") {
				t.Error("entries do not come back")
			}
		})
	}
}
