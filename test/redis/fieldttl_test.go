package redis

import (
	"strconv"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// someday is the expiry of the fields in these tests, in Unix milliseconds.
const someday = "4102444800123"

// far are times that Lua's numbers can't represent.
var far = []string{"9007199254740993", "9223372036854775807"}

// putBack are commands that need the stored values decompressed, one for each way in which the gateway does
// that.
var putBack = []struct{ name, before, command, inside string }{
	{"script", "", "EVAL return(#redis.call('HGET',KEYS[1],'f')) 1 h", ""},
	{"script inside MULTI", "", "EVAL return(#redis.call('HGET',KEYS[1],'f')) 1 h", "MULTI"},
	{"script under WATCH", "", "EVAL return(#redis.call('HGET',KEYS[1],'f')) 1 h", "WATCH other"},
	{"script with tracking", "CLIENT TRACKING ON BCAST PREFIX none", "EVAL return(#redis.call('HGET',KEYS[1],'f')) 1 h", ""},
	{"script that reads", "", "EVAL_RO return(#redis.call('HGET',KEYS[1],'f')) 1 h", ""},
	{"function", "", "FCALL length 1 h", ""},
	{"long number", "", "HINCRBYFLOAT h n 1.5", ""},
	{"long number inside MULTI", "", "HINCRBYFLOAT h n 1.5", "MULTI"},
	{"sort", "", "SORT l BY *->f ALPHA", ""},
	{"sort that stores", "", "SORT l BY *->f ALPHA GET *->g STORE out", ""},
}

// TestFieldsKeepTheirExpiry checks that fields of a hash keep their expiry when they are decompressed in
// place. Users without permission to read expiries are served too, or refused before anything is changed.
func TestFieldsKeepTheirExpiry(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, l testenv.RedisLine) {
		s := startStack(t, l)
		if !s.knows(t, "HPEXPIREAT") {
			t.Skip("its fields don't expire")
		}
		if err := s.direct.FunctionLoad(t.Context(), "#!lua name=lib\nredis.register_function('length',function(k)return(#redis.call('HGET',k[1],'f'))end)").Err(); err != nil {
			t.Fatal(err)
		}
		for _, rights := range []string{"", "-eval", "-hpexpiretime", "-hpexpireat", "-watch", "-multi"} {
			expect(t, s.direct, "ACL SETUSER app reset on >pw ~* &* +@all "+rights, "OK")
			for _, test := range putBack {
				t.Run(test.name+rights, func(t *testing.T) {
					s.keepsExpiry(t, someday, test.before, test.command, test.inside, rights != "")
				})
			}
		}
		expect(t, s.direct, "ACL SETUSER app reset on >pw ~* &* +@all", "OK")
		for _, at := range far {
			do(t, s.direct, "DEL h")
			do(t, s.direct, "HSET h f v")
			if strings.HasPrefix(do(t, s.direct, "HPEXPIREAT h "+at+" FIELDS 1 f"), "error:") {
				continue // only Valkey accepts such times
			}
			for _, test := range putBack {
				t.Run(test.name+" "+at, func(t *testing.T) { s.keepsExpiry(t, at, test.before, test.command, test.inside, false) })
			}
		}
	})
}

func (s *stack) keepsExpiry(t *testing.T, at, before, command, inside string, mayRefuse bool) {
	number := "0." + zeros + "5"
	expect(t, s.through, "DEL h l out", do(t, s.direct, "EXISTS h l out"))
	expect(t, s.through, "HSET h f {long} g {long} n "+number, "3")
	expect(t, s.through, "RPUSH l h", "1")
	expect(t, s.through, "HPEXPIREAT h "+at+" FIELDS 2 f n", "[1 1]")
	if !isSealed(do(t, s.direct, "HGET h f")) || !isSealed(do(t, s.direct, "HGET h n")) {
		t.Fatal("nothing is sealed")
	}
	conn := connect(t, s.gateway.Addr, "app").Conn()
	defer conn.Close()
	for _, line := range []string{before, inside, command} {
		if line != "" {
			if got := do(t, conn, line); strings.HasPrefix(got, "error:") && !mayRefuse {
				t.Error(line, got)
			}
		}
	}
	if inside == "MULTI" {
		do(t, conn, "EXEC")
	}
	if got := do(t, s.direct, "HPEXPIRETIME h FIELDS 3 f n g"); got != "["+at+" "+at+" -1]" {
		t.Errorf("fields expire at %s, and f is sealed: %v", got, isSealed(do(t, s.direct, "HGET h f")))
	}
	expect(t, s.through, "HSTRLEN h f", strconv.Itoa(len(long)))
}

// zeros make a number long enough to be compressed.
var zeros = strings.Repeat("0", 200)
