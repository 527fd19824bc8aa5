package tarantool

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// writers is a sampler that records the users that wrote the values.
type writers struct {
	mu   sync.Mutex
	seen []string
}

func (w *writers) Sample(_ *policy.Rule, login string, _, _ []byte, _ int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, login)
}

func (w *writers) take() (seen []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, w.seen = w.seen, nil
	return seen
}

// authBody returns the body of an AUTH by password.
func authBody(salt []byte, user, password string) keyed {
	hash := func(parts ...[]byte) []byte { h := sha1.Sum(slices.Concat(parts...)); return h[:] }
	first := hash([]byte(password))
	scramble := hash(salt, hash(first))
	for i := range scramble {
		scramble[i] ^= first[i]
	}
	return keyed{0x23, user, 0x21, []any{"chap-sha1", string(scramble)}}
}

// The user that writes a request's values is guest at first, then the user of the last AUTH that the server accepted.
// While the reply to an AUTH is outstanding the user is unknown.
func TestWritingUser(t *testing.T) {
	seen := &writers{}
	sampled := rules()
	for i := range sampled {
		sampled[i].Auto = true
	}
	b := newBed(t, policy.Options{Rules: sampled}, func(c *Config) { c.Sampler = seen })
	for _, user := range []string{"alice", "bob"} {
		b.direct().must(wire.Eval, 0x27, `local u = ... box.session.su('admin', function() box.schema.user.create(u, {password = 'pw'}) box.schema.user.grant(u, 'read,write,execute', 'universe') end)`, 0x21, []any{user})
	}
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	greeting := make([]byte, wire.GreetingLen)
	if _, err := io.ReadFull(conn, greeting); err != nil {
		t.Fatal(err)
	}
	salt, err := base64.StdEncoding.DecodeString(string(greeting[64:108]))
	if err != nil {
		t.Fatal(err)
	}
	c := &raw{t: t, c: conn}
	auth := func(user, password string) answer { return c.do(wire.Auth, authBody(salt[:20], user, password)...) }
	wrote := func(what string, want ...string) {
		t.Helper()
		b.put(c, 1, document(1))
		c.must(wire.Call, 0x22, "put", 0x21, []any{2, document(2)})
		for _, got := range seen.take() {
			if !slices.Contains(want, got) {
				t.Errorf("%s: %q wrote, not one of %q", what, got, want)
			}
		}
	}
	wrote("at first", "")
	auth("alice", "pw")
	wrote("alice has logged in", "alice")
	auth("bob", "wrong")
	wrote("a refused login", "alice")
	auth("bob", "pw")
	wrote("bob has logged in", "bob")
	auth("nobody", "pw")
	wrote("a login of an unknown user", "bob")

	c.write(append(encode(t, wire.Auth, 900, nil, authBody(salt[:20], "alice", "pw")),
		encode(t, wire.Replace, 901, nil, keyed{0x10, docs, 0x21, tuple(3, document(3))})...))
	for range 2 {
		c.read()
	}
	if got := seen.take(); slices.Contains(got, "bob") {
		t.Errorf("after an AUTH: %q", got)
	}
	wrote("after it", "alice")
}

func TestIdentity(t *testing.T) {
	keeper := &gateway.AuthProbe{Ask: func(context.Context) (bool, error) { return true, nil }}
	l := &identity{door: gateway.AuthGate{Probe: keeper}}
	l.recordLogin(1, "alice")
	l.recordLogin(2, "bob")
	if l.login() != loginPending {
		t.Error("a login without an answer is believed")
	}
	l.recordReply(wire.Auth, 2, wire.ErrorFlag)
	if !l.door.MustAuthenticate(t.Context()) {
		t.Error("a refused login counts as a login")
	}
	l.recordReply(wire.Select, 1, wire.OK)
	if l.login() != loginPending || !l.door.MustAuthenticate(t.Context()) {
		t.Error("the answer to another request is taken for the login's")
	}
	l.recordReply(wire.Auth, 1, wire.OK)
	if l.login() != "alice" || l.door.MustAuthenticate(t.Context()) {
		t.Errorf("login %q", l.login())
	}
	l.recordLogin(3, "guest")
	if l.recordReply(wire.Auth, 3, wire.OK); l.login() != "" {
		t.Errorf("guest is %q", l.login())
	}
	l = &identity{door: gateway.AuthGate{Probe: keeper}}
	if l.recordReply(wire.Insert, 1, wire.OK); l.door.MustAuthenticate(t.Context()) {
		t.Error("a guest that has written something counts as not logged in")
	}
}

// Clients log in with their own passwords, which the gateway does not know.
func TestLogin(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	b.direct().must(wire.Eval, 0x27, "box.schema.user.create('alice', {password = 'secret'})", 0x21, []any{})
	for password, ok := range map[string]bool{"secret": true, "wrong": false} {
		c, err := connectAs(t, b.addr, "alice", password)
		if (err == nil) != ok {
			t.Errorf("%s: %v", password, err)
		}
		if c != nil {
			_ = c.Close()
		}
	}
}
