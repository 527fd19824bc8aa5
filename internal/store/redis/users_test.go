package redis

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// SoleWriter ignores the store's own user, and a default user that is off. Users who can't be listed count as
// several.
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
		if login, one := s.SoleWriter(t.Context()); login != step.login || one != step.one {
			t.Errorf("after %v, as %q: %q, %v; want %q, %v", step.change, step.as, login, one, step.login, step.one)
		}
		s.Close()
	}
}
