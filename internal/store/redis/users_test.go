package redis

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Writers leaves out the store's own user, a default user that is off, and users who only read. Where users can't be
// listed, no writer is known.
func TestWriter(t *testing.T) {
	server := testenv.Redis(t)
	admin := goredis.NewClient(&goredis.Options{Addr: server.Addr, PoolSize: 1, DisableIdentity: true})
	defer admin.Close()
	for _, step := range []struct {
		change []any // ACL
		as     string
		login  string
		one    bool
	}{
		{nil, "", "", true},
		{[]any{"SETUSER", "cinch", "on", ">pw", "~*", "+@all"}, "cinch", "", true},
		{nil, "", "", false}, // clients may log in as cinch too
		{[]any{"SETUSER", "app", "on", ">pw", "~*", "+@all"}, "cinch", "", false},
		{[]any{"SETUSER", "default", "off"}, "cinch", "app", true},
		{[]any{"SETUSER", "cinch", "-acl|list"}, "cinch", "", false},
		{[]any{"SETUSER", "cinch", "+@all"}, "cinch", "app", true},
		{[]any{"SETUSER", "tenant", "on", ">pw", "~*", "+@all"}, "cinch", "", false},
		{[]any{"SETUSER", "tenant", "resetkeys", "%R~*", "%W~other:*"}, "cinch", "app", true},
		{[]any{"SETUSER", "tenant", "(~ke* +set)"}, "cinch", "", false},
		{[]any{"SETUSER", "tenant", "clearselectors", "~*", "-@all", "+@read"}, "cinch", "app", true},
		{[]any{"DELUSER", "tenant", "app"}, "cinch", "cinch", true},
		{[]any{"SETUSER", "cinch", "-acl|users"}, "cinch", "", false},
	} {
		if step.change != nil {
			must(t, admin.Do(t.Context(), append([]any{"ACL"}, step.change...)...).Err())
		}
		o := goredis.Options{Addr: server.Addr, Username: step.as, DisableIdentity: true}
		if step.as != "" {
			o.Password = "pw"
		}
		s, err := Open(t.Context(), OpenOptions{Client: o, ReadOnly: true})
		must(t, err)
		if login, one := s.Writers(t.Context()).Of("0", []byte("key")); login != step.login || one != step.one {
			t.Errorf("after %v, as %q: %q, %v; want %q, %v", step.change, step.as, login, one, step.login, step.one)
		}
		s.Close()
	}
}

// parseUser errs on the side of a user who may write.
func TestParseUser(t *testing.T) {
	for line, want := range map[string]string{ // the keys that may be written, of a:1, b:1 and c)
		"user u on #12 ~a:* resetchannels -@all +@all":         "a:1",
		"user u off ~a:* -@all +set":                           "a:1",
		"user u on ~a:* -@all +get +info":                      "a:1", // GET is not in the short list
		"user u on ~a:* -@all +@read +info":                    "",
		"user u on -@all +@all":                                "",
		"user u on ~* &* +@all":                                "a:1 b:1 c)",
		"user u on allkeys allchannels allcommands":            "a:1 b:1 c)",
		"user u on %R~* %W~b:* +@all":                          "b:1",
		"user u on %RW~b:* +@all":                              "b:1",
		"user u on ~a:* -@all +@read (%R~* -@all +@read)":      "",
		"user u on ~a:* -@all +@read (~b:* +set) (%W~c* +set)": "a:1 b:1 c)",
		"user u on ~c) +@all":                                  "a:1 b:1 c)",
		"user u on -@all (~c) +set)":                           "a:1 b:1 c)",
		"something else":                                       "a:1 b:1 c)",
	} {
		_, _, w := parseUser(line)
		var may []string
		for _, key := range []string{"a:1", "b:1", "c)"} {
			if w != nil && (w.MayWrite == nil || w.MayWrite("", []byte(key))) {
				may = append(may, key)
			}
		}
		if got := strings.Join(may, " "); got != want {
			t.Errorf("%s: may write %q, want %q", line, got, want)
		}
	}
}

// Whatever a server lets a user write, parseUser says so, whatever bytes are in patterns and names.
func TestParsedRightsAgainstServer(t *testing.T) {
	server := testenv.Redis(t)
	c := goredis.NewClient(&goredis.Options{Addr: server.Addr, PoolSize: 1, DisableIdentity: true})
	defer c.Close()
	random := rand.New(rand.NewPCG(1, 2))
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	glob := func() (text string) {
		for range 1 + random.IntN(4) {
			text += one("a", "b", "*", "?", "[ab]", "[^a]", "[a-", "[b-a]", "\\*", "\\", "[", "]", "(", ")", "~", "%", "\u00a0", "\u3000", "\x85", "\xff")
		}
		return text
	}
	rights := func() string {
		return one("~", "%R~", "%W~", "%RW~", "&") + glob() + " " + one("~", "%W~") + glob() + " " + one("+set", "+@read", "+@all", "-set", "+@string")
	}
	for i := range codectest.Amount(300, 1000, 10_000) {
		name := "u" + one("", "\u00a0", "(", "\u3000on")
		args := []any{"ACL", "SETUSER", name, "reset", "on", "nopass"}
		for _, word := range strings.Split(rights(), " ") {
			args = append(args, word)
		}
		for range random.IntN(3) {
			args = append(args, "("+rights()+")")
		}
		if c.Do(t.Context(), args...).Err() != nil {
			continue // not a valid pattern or selector
		}
		lines, err := c.Do(t.Context(), "ACL", "LIST").StringSlice()
		must(t, err)
		line := lines[slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "user "+name+" ") })]
		got, _, w := parseUser(line)
		if got != name {
			t.Errorf("%q is called %q", name, got)
		}
		for _, key := range []string{"a", "b", "ab", "", "*", "[", "\\", "(a", "a)", "a\u00a0", "a\u3000", glob(), glob()} {
			answer, err := c.Do(t.Context(), "ACL", "DRYRUN", name, "SET", key, "v").Text()
			must(t, err)
			if may := w != nil && (w.MayWrite == nil || w.MayWrite("0", []byte(key))); answer == "OK" && !may {
				t.Errorf("%d: %q may write %q", i, line, key)
			}
		}
		must(t, c.Do(t.Context(), "ACL", "DELUSER", name).Err())
	}
}
