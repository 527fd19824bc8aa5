package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// The error for an unreachable target contains its role and address. It does not say that rights are missing,
// or that it is another server.
func TestTargetsThatAreAwayAreNamed(t *testing.T) {
	t.Parallel()
	mongo := mongotest.Start(t, mongotest.Config{}).URI()
	redis, sql := testenv.Redis(t).URL(), testenv.Postgres(t).URL()
	nobody := strings.Replace(sql, "//postgres@", "//nobody@", 1)
	for _, c := range []struct {
		listeners     Listeners
		control, test string
		wants         []string
	}{
		{Listeners{Redis: "127.0.0.1:0=" + redis}, "redis://127.0.0.1:1", redis, []string{"control (tcp://127.0.0.1:1): ", "connection refused"}},
		{Listeners{Redis: "127.0.0.1:0=redis://127.0.0.1:2"}, redis, "redis://127.0.0.1:1", []string{"test (tcp://127.0.0.1:1): ", "connection refused"}},
		{Listeners{Mongo: "127.0.0.1:0=" + mongo}, "mongodb://127.0.0.1:1", mongo, []string{"control (tcp://127.0.0.1:1): ", "connection refused"}},
		{Listeners{Mongo: "127.0.0.1:0=" + mongo}, mongo, "mongodb://127.0.0.1:1", []string{"test (tcp://127.0.0.1:1): ", "connection refused"}},
		{Listeners{Postgres: "127.0.0.1:0=postgres://127.0.0.1:2"}, sql, "postgres://postgres@127.0.0.1:1/app", []string{"test (tcp://127.0.0.1:1): ", "connection refused"}},
		{Listeners{Postgres: "127.0.0.1:0=" + sql}, "postgres://postgres@127.0.0.1:1/app", sql, []string{"control (tcp://127.0.0.1:1): ", "database=app", " 127.0.0.1:1 ", "connection refused"}},
		{Listeners{Postgres: "127.0.0.1:0=" + sql}, "postgres://postgres@/app?host=/nowhere&port=7", sql, []string{"control (unix:/nowhere/.s.PGSQL.7): ", "/nowhere/.s.PGSQL.7 "}},
		{Listeners{Postgres: "127.0.0.1:0=" + sql}, nobody, sql, []string{"control (tcp://127.0.0.1:", `role "nobody" does not exist`}},
	} {
		o := Mirror{Servers: Servers{Listeners: c.listeners, Control: c.control, Test: c.test}, Memory: "1MiB"}
		o.Config = limited().Config
		err := o.Run(t.Context(), nil, &bytes.Buffer{}, &bytes.Buffer{})
		var hinted interface{ Hint() string }
		if !errors.Is(err, store.ErrUnreachable) || !errors.As(err, &hinted) || hinted.Hint() == "" {
			t.Fatalf("%s: %v", c.control, err)
		}
		for _, want := range c.wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %v", c.control, want, err)
			}
		}
		for _, other := range []string{"localhost", "5432", "allowed", "topology"} {
			if strings.Contains(err.Error(), other) {
				t.Errorf("%s: %q is in %v", c.control, other, err)
			}
		}
	}
}
