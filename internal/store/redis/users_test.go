package redis

import (
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

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
