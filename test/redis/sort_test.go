package redis

import (
	"fmt"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// sorted are values whose order differs between bytes and locales: NULs, capitals, accents, signs.
var sorted = []string{"b\x00z", "b\x00a", "b", "B", "a", "é", "e", "z", "Z", "ä", "a-b", "ab", "a b", "", "\xff", "10", "9"}

// sorts are run alone and inside a transaction.
var sorts = []string{
	"SORT l BY w* ALPHA",
	"SORT l BY w* ALPHA DESC STORE out",
	"SORT l BY w* ALPHA GET p* STORE out",
	"SORT l BY w* ALPHA GET # GET p* LIMIT 2 5 STORE out",
	"SORT l BY h*->f ALPHA GET h*->g GET # STORE out",
	"SORT l BY w* ALPHA LIMIT 3 4 GET p*",
	"SORT l ALPHA GET p* STORE out",
	"SORT l GET p* STORE out",
	"SORT l BY n* GET p* STORE w3",
	"SORT l BY n* ALPHA GET n* GET p* STORE n5",
	"SORT l BY nosort GET p* GET none* STORE out",
	"SORT l BY p* GET p* STORE out",
	"SORT none BY w* GET p* STORE out",
	"SORT w1 BY w*",
	"SORT l BY w* ALPHA GET p* LIMIT x 1 STORE out",
	"SORT l BY w* GET p* NOSUCH",
}

// TestSortIsTheServers checks that SORT answers and stores the same bytes as without a gateway, with
// default rules and with everything compressed, alone and in a transaction, for users with different
// permissions.
func TestSortIsTheServers(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, l testenv.RedisLine) {
		t.Setenv("LC_ALL", "C.UTF-8")
		for _, force := range []bool{false, true} {
			direct, server := l.Start(t), l.Start(t)
			gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Force: force})
			for _, rights := range []string{"+@all", "+@all -eval -eval_ro -evalsha -script", "+@all -sort", "+@all -multi -exec"} {
				for _, inside := range []bool{false, true} {
					t.Run(fmt.Sprintf("force %v %s inside %v", force, rights, inside), func(t *testing.T) {
						sortAlike(t, direct.Addr, server.Addr, gateway.Addr, rights, inside, force)
					})
				}
			}
		}
	})
}

func sortAlike(t *testing.T, direct, server, gateway, rights string, inside, force bool) {
	one, other := connect(t, direct, ""), connect(t, gateway, "")
	for _, c := range []doer{one, other} {
		args := []any{"ACL", "SETUSER", "app", "reset", "on", ">pw", "~*", "&*"}
		for _, right := range strings.Fields(rights) {
			args = append(args, right)
		}
		if err := c.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	a, b := connect(t, direct, "app").Conn(), connect(t, gateway, "app").Conn()
	defer a.Close()
	defer b.Close()
	for _, command := range sorts {
		for _, c := range []*goredis.Client{one, other} {
			fill(t, c)
		}
		said := [2][]string{}
		for i, c := range []doer{a, b} {
			lines := []string{command}
			if inside {
				lines = []string{"MULTI", "RPUSH l 0", command, "EXEC"}
			}
			for _, line := range lines {
				said[i] = append(said[i], do(t, c, line))
			}
			if inside {
				do(t, c, "DISCARD") // needed if EXEC was not allowed
			}
		}
		for _, look := range []string{"LRANGE out 0 -1", "TYPE w3", "LRANGE n5 0 -1", "MGET w1 w2 w3 p1 p2 p3 n1", "HGETALL h4"} {
			said[0], said[1] = append(said[0], do(t, one, look)), append(said[1], do(t, other, look))
		}
		got, want := fmt.Sprintf("%q", said[1]), fmt.Sprintf("%q", said[0])
		if got == want {
			continue
		}
		refused := strings.Contains(got, "the right to run EVAL") && strings.Contains(rights, "-eval")
		// Values of h*->g are long enough for the default rule.
		if !refused || !force && !strings.Contains(command, "->g") {
			t.Errorf("%s\ngateway %s\ndirect  %s", command, got, want)
		}
	}
}

// fill stores a list, with weights and values for its elements.
func fill(t *testing.T, c *goredis.Client) {
	t.Helper()
	all := [][]any{{"FLUSHALL"}}
	for i, v := range sorted {
		all = append(all,
			[]any{"RPUSH", "l", i}, []any{"SET", fmt.Sprint("w", i), v}, []any{"SET", fmt.Sprint("p", i), "value of " + v},
			[]any{"SET", fmt.Sprint("n", i), (i * 7) % 11}, []any{"HSET", fmt.Sprint("h", i), "f", v, "g", strings.Repeat(v, 40)})
	}
	if _, err := c.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
		for _, args := range all {
			p.Do(t.Context(), args...)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestMalformedIsTheServers checks that malformed commands get the server's own error.
func TestMalformedIsTheServers(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, l testenv.RedisLine) {
		s := startStack(t, l)
		for _, line := range []string{
			"MSETEX", "MSETEX 1", "MSETEX 1 k", "MSETEX 1 k v NOSUCH", "MSETEX 1 k {magic} NOSUCH", "MSETEX x k v", "MSETEX 5 k v", "MSETEX 0 k v", "MSETEX -1 k v", "MSETEX 2 k v k",
			"MSETEX 1 k v EX", "MSETEX 1 k v EX x", "MSETEX 1 k v EX 1 PX 1", "MSETEX 1 k v EX 1 KEEPTTL", "MSETEX 1 k v NX XX", "MSETEX 99999999999999999999 k v", "MSETEX 1 k v k", "MSETEX k v", "MSETEX k v EX 5",
			"SET k v NOSUCH", "SET k {magic} NOSUCH", "SET k v EX", "HSETEX h FIELDS 2 f v", "HSETEX h NOSUCH FIELDS 1 f {magic}", "HSETEX h FIELDS x f v",
		} {
			// A value that begins like an envelope must not be stored with an option that the gateway does
			// not know.
			escaped := strings.Contains(line, "{magic}") && strings.Contains(line, "NOSUCH")
			got, want := do(t, s.through, line), do(t, s.direct, line)
			if got != want && !(escaped && strings.Contains(got, "is malformed, or has options that the gateway does not know")) {
				t.Errorf("%s\ngateway %s\ndirect  %s", line, got, want)
			}
		}
	})
}
