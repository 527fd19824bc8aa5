package redis

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// TestUsersWhoOnlyWrite checks users that may write keys but not read them. They change plain values as
// they would directly, and compressed ones if the gateway's own user can read them. They learn nothing that
// the server would not tell them.
func TestUsersWhoOnlyWrite(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, l testenv.RedisLine) {
		s := startStack(t, l)
		expect(t, s.direct, "ACL SETUSER app on >pw %W~* %RW~rw:* &* +@all", "OK")
		for _, line := range []string{
			"APPEND p x", "APPEND new x", "SETRANGE p 1 y", "SETRANGE p 0 long", "SETBIT p 1 1", "INCRBYFLOAT p 1", "HINCRBYFLOAT h f 1",
			"BITOP NOT p p", "GETRANGE p 0 1", "BITFIELD p GET u8 0", "LCS p p", "SET p z GET", "APPEND rw:k x", "APPEND h x",
		} {
			want, stored := s.afterCommand(t, s.server.Addr, "plain", line)
			got, now := s.afterCommand(t, s.gateway.Addr, "plain", line)
			if withoutReason(got) != withoutReason(want) || now != stored {
				t.Errorf("%s: %q, then %q; direct %q, then %q", line, got, now, want, stored)
			}
		}
		// The gateway could not escape the resulting values.
		for _, line := range []string{"APPEND new {magic}", "SETRANGE p 0 {magic}"} {
			if got, now := s.afterCommand(t, s.gateway.Addr, "plain", line); !strings.Contains(got, "error") || now != "plain" {
				t.Errorf("%s: %q, then %q", line, got, now)
			}
		}
		for line, want := range map[string]string{"APPEND p x": long + "x", "SETRANGE p 0 b": "b" + long[1:]} {
			if _, now := s.afterCommand(t, s.gateway.Addr, "{long}", line); now != want {
				t.Errorf("%s on a sealed value leaves %.80q", line, now)
			}
		}
	})
}

// withoutReason reduces an error to its kind, since server and gateway word the reason differently.
func withoutReason(answer string) string {
	if strings.HasPrefix(answer, "error: NOPERM") {
		return "error: NOPERM"
	}
	return answer
}

// afterCommand runs a command as the user, and returns its answer and the resulting value of p.
func (s *stack) afterCommand(t *testing.T, addr, value, line string) (answer, p string) {
	t.Helper()
	do(t, s.direct, "DEL p h new rw:k")
	expect(t, s.through, "SET p "+value, "OK")
	expect(t, s.through, "HSET h f 1", "1")
	conn := connect(t, addr, "app").Conn()
	defer conn.Close()
	answer = do(t, conn, line)
	return answer, do(t, s.through, "GET p")
}
