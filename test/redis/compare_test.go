package redis

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// TestComparisonsOfAnyUser checks that comparisons with a compressed value are right for users with any
// permissions, and leave it compressed if they fail.
func TestComparisonsOfAnyUser(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, l testenv.RedisLine) {
		s := startStack(t, l)
		if expect(t, s.direct, "SET k v", "OK"); strings.HasPrefix(do(t, s.direct, "SET k v IFEQ x"), "error: ERR syntax") {
			t.Skip("it compares nothing")
		}
		deletes := "DELIFEQ k "
		if s.knows(t, "DELEX") {
			deletes = "DELEX k IFEQ "
		}
		for _, rights := range []string{"", "-eval -eval_ro", "-multi", "-watch", "-getrange", "-getrange -get"} {
			expect(t, s.direct, "ACL SETUSER app reset on >pw ~* &* +@all "+rights, "OK")
			for _, before := range []string{"", "CLIENT TRACKING ON BCAST PREFIX none", "WATCH other"} {
				for _, stored := range []string{"{long}", "{magic}"} {
					t.Run(rights+" "+before+" "+stored, func(t *testing.T) { s.compares(t, before, stored, deletes, rights != "") })
				}
			}
		}
	})
}

func (s *stack) compares(t *testing.T, before, stored, deletes string, mayRefuse bool) {
	expect(t, s.through, "SET k "+stored+" EX 1000", "OK")
	conn := connect(t, s.gateway.Addr, "app").Conn()
	defer conn.Close()
	if before != "" {
		do(t, conn, before) // fails for a user without WATCH
	}
	is := func(line, want string) {
		t.Helper()
		if got := do(t, conn, line); got != want && (!mayRefuse || !strings.HasPrefix(got, "error: ")) {
			t.Errorf("%s: %.100q, want %.100q", line, got, want)
		}
	}
	is("SET k {other} IFEQ nothing", "error: redis: nil")
	is("SET k {other} IFEQ nothing GET", words(stored)[0].(string))
	if s.knows(t, "DELEX") || s.knows(t, "DELIFEQ") {
		is(deletes+"{other}", "0")
	}
	expect(t, s.through, "GET k", words(stored)[0].(string))
	if got := do(t, s.direct, "TTL k"); got == "-1" {
		t.Error("the key's time is gone")
	}
	if now := do(t, s.direct, "GET k"); before == "" && !mayRefuse && !isSealed(now) {
		t.Errorf("stored as %.40q after comparisons that failed", now)
	}
	is("SET k {other} IFEQ "+stored, "OK")
	if now := do(t, s.through, "GET k"); now != words("{other}")[0] && (!mayRefuse || now != words(stored)[0]) {
		t.Errorf("k is %.40q", now)
	}
}

// TestLongComparison checks that a value too long to be buffered can't be compared with, and changes
// nothing.
func TestLongComparison(t *testing.T) {
	s := &stack{server: testenv.RedisOf(t, "redis-8.6")}
	s.gateway = testenv.Gateway(t, testenv.GatewayConfig{Upstream: s.server.Addr, Rules: "- {name: all, setting: zstd-3}", Settings: "max_seal: 64KiB"})
	s.through = connect(t, s.gateway.Addr, "")
	huge := strings.Repeat("x", 200_000)
	expect(t, s.through, "SET k {long}", "OK")
	if got := do(t, s.through, "SET k "+huge+" IFEQ {other}"); !strings.HasPrefix(got, "error:") {
		t.Errorf("%.80q", got)
	}
	// The request was incomplete upstream, so its connection had to be closed.
	s.through = connect(t, s.gateway.Addr, "")
	expect(t, s.through, "GET k", "{long}")
	expect(t, s.through, "SET k "+huge+" XX EX 1000", "OK")
	expect(t, s.through, "STRLEN k", "200000")
}
