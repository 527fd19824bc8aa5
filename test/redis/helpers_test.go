package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// stack is a server of one version, a gateway with default rules in front of it, and a client of each.
type stack struct {
	server          *testenv.RedisServer
	gateway         *testenv.GatewayServer
	direct, through *goredis.Client
}

func startStack(t *testing.T, l testenv.RedisLine, args ...string) *stack {
	t.Helper()
	s := &stack{server: l.Start(t, args...)}
	s.gateway = testenv.Gateway(t, testenv.GatewayConfig{Upstream: s.server.Addr})
	s.direct, s.through = connect(t, s.server.Addr, ""), connect(t, s.gateway.Addr, "")
	return s
}

// patience is the clients' timeout on a busy machine.
const patience = time.Minute

// connect returns a client with one connection and without retries.
func connect(t *testing.T, addr, user string) *goredis.Client {
	t.Helper()
	o := &goredis.Options{Addr: addr, Protocol: 2, PoolSize: 1, MaxRetries: -1, ReadTimeout: patience, DisableIdentity: true}
	if user != "" {
		o.Username, o.Password = user, "pw"
	}
	c := goredis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// knows reports whether the server has a command.
func (s *stack) knows(t *testing.T, command string) bool {
	t.Helper()
	list, err := s.direct.Do(t.Context(), "COMMAND", "INFO", command).Slice()
	if err != nil {
		t.Fatal(err)
	}
	return len(list) == 1 && list[0] != nil
}

type doer interface {
	Do(context.Context, ...any) *goredis.Cmd
}

// do runs a command given as words; {long} and others stand for values, see words.
func do(t *testing.T, c doer, line string) string {
	t.Helper()
	v, err := c.Do(t.Context(), words(line)...).Result()
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprint(v)
}

// long is a value that the default rules compress.
var long = strings.Repeat("a value that is sealed, since it says the same again and again; ", 8)

func words(line string) (args []any) {
	replacer := strings.NewReplacer("{long}", long, "{other}", strings.ToUpper(long), "{magic}", envelope.Magic+" is no envelope")
	for w := range strings.FieldsSeq(line) {
		args = append(args, replacer.Replace(w))
	}
	return args
}

// expect runs a command and compares its answer.
func expect(t *testing.T, c doer, line, want string) {
	t.Helper()
	if got := do(t, c, line); got != strings.NewReplacer("{long}", long, "{other}", strings.ToUpper(long)).Replace(want) {
		t.Errorf("%s: %.200q, want %.200q", line, got, want)
	}
}

func isSealed(value string) bool { return envelope.IsSealed([]byte(value)) }
