package tarantool

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Clients over TLS are served like others: pipelines that are written before any reply is read, values of many
// megabytes that are requested faster than they are read, steps, half-closes and drains. A client without TLS is not
// served.
func TestClientsOverTLS(t *testing.T) {
	t.Parallel()
	ca := testenv.NewAuthority(t)
	b := newBed(t, policy.Options{Rules: rules()}, func(c *Config) {
		c.TLS = ca.Issue(t, "server").TLS(t)
	})
	b.install()
	b.direct().must(wire.Eval, 0x27, "box.cfg{memtx_max_tuple_size = 64 * 1024 * 1024}", 0x21, []any{})
	overTLS := func() *raw {
		c, err := tls.Dial("tcp", b.addr, &tls.Config{RootCAs: ca.Pool})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
		r := &raw{t: t, c: c}
		if _, err := io.ReadFull(c, make([]byte, wire.GreetingLen)); err != nil {
			t.Fatal(err)
		}
		return r
	}
	c := overTLS()
	b.put(c, 1, document(1))
	b.check(c, 1, document(1), true)
	c.must(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{":", "doc", 0, 1, "X"}})
	b.check(c, 1, "X"+document(1)[1:], true)

	huge := strings.Repeat(document(2), (8<<20)/len(document(2)))
	c.must(wire.Replace, 0x10, docs, 0x21, []any{2, "tag", huge})
	const n = 4
	for range n {
		c.send(wire.Select, 0x10, docs, 0x11, 0, 0x12, 1, 0x13, 0, 0x14, 0, 0x20, []any{2})
	}
	for range n {
		if got := firstDoc(c.read().data); got != huge {
			t.Fatalf("%d bytes, want %d", len(got), len(huge))
		}
	}

	plainly, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer plainly.Close()
	_, _ = plainly.Write(encode(t, wire.Ping, 1, nil, nil))
	if got, _ := io.ReadAll(plainly); bytes.Contains(got, []byte("Tarantool")) {
		t.Errorf("a client without TLS gets %q", got)
	}
	half := overTLS()
	b.put(half, 3, document(3))
	if err := half.c.(*tls.Conn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := half.tryRead(); !errors.Is(err, io.EOF) { // as with the server, the connection ends at once
		t.Errorf("after a half-close: %v", err)
	}
	busy := overTLS()
	sync := busy.send(wire.Call, 0x22, "slow", 0x21, []any{})
	b.asleep()
	ended := make(chan error, 1)
	go func() { ended <- b.g.Shutdown(t.Context()) }()
	if _, err := c.tryRead(); err == nil {
		t.Error("an idle client is answered")
	}
	b.wake()
	if a := busy.read(); a.sync != sync || !reflect.DeepEqual(a.data, []any{"slept"}) {
		t.Errorf("while it drains: %#x %v", a.code, a.data)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
