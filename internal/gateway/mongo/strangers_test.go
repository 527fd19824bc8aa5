package mongo

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// guarded runs a session whose server requires a login. Every login succeeds.
type guarded struct {
	*partsOf
	*rawClient
	budget  *memory.Budget // for requests
	lengths chan int       // length of each message that the server has received, decompressed
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	p := &guarded{partsOf: newParts(t, nil), budget: memory.NewBudget(128 << 20), lengths: make(chan int, 10)}
	p.g.requests = p.budget.Share("test")
	p.g.cfg.Peers = true
	p.g.authProbe.Ask = func(context.Context) (bool, error) { return true, nil }
	l := listen(t)
	p.rawClient = dialRaw(t, l.Addr().String())
	p.rawClient.compression = compressionBy(t, withZstd)
	client, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	upstream, err := net.Dial("tcp", accept(t, p.serve))
	if err != nil {
		t.Fatal(err)
	}
	p.session = newSession(p.g, client, upstream, 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.session.Run()
	}()
	t.Cleanup(func() {
		_ = p.conn.Close()
		<-done
	})
	return p
}

// silentKey is a field of hellos. guarded's server does not reply to hellos in which it is true.
const silentKey = "unanswered"

// serve replies to all messages with the same document, which is a valid reply to the last step of a login and to
// a hello.
func (p *guarded) serve(c net.Conn) {
	defer close(p.lengths)
	in := reader{Inbound: gateway.Inbound{Conn: c, Ctx: context.Background()}}
	defer in.Free()
	for {
		m, err := in.next()
		if err != nil {
			return
		}
		p.lengths <- m.header.Length
		if bytes.Contains(m.received, []byte(silentKey+"\x00\x01")) {
			continue
		}
		doc, _ := bson.Marshal(bson.D{{Key: "ok", Value: 1}, {Key: "done", Value: true}, {Key: "compression", Value: bson.A{"zstd", "snappy"}}})
		if _, err := c.Write(replyTo(m.header, doc)); err != nil {
			return
		}
	}
}

// sized returns a command whose message has n bytes.
func sized(n int) []byte {
	b := opMsg(1, 0, command("insert", "x", bson.E{Key: "v", Value: ""}))
	return opMsg(1, 0, command("insert", "x", bson.E{Key: "v", Value: strings.Repeat("x", n-len(b))}))
}

// Before the login messages may have at most 64 KiB decompressed, and only compressors are accepted that were
// offered.
func TestStrangersMayNotInflate(t *testing.T) {
	const most = gateway.MaxUnauthenticatedBytes
	by := func(id wire.CompressorID) func(c *guarded, b []byte) []byte {
		return func(c *guarded, b []byte) []byte { return c.rawClient.compress(id, b) }
	}
	bomb := func(c *guarded, b []byte) []byte { // declares the largest size
		b = by(wire.Zstd)(c, b)
		binary.LittleEndian.PutUint32(b[20:], wire.MaxMessage-wire.HeaderLen)
		return b
	}
	asPlain := func(_ *guarded, b []byte) []byte { return b }
	for _, c := range []struct {
		name   string
		offers []string // nil: no hello is sent
		logsIn bool
		length int
		form   func(*guarded, []byte) []byte
		class  string // "": it reaches the server
	}{
		{"plain", []string{}, false, most, asPlain, ""},
		{"plain and longer", []string{}, false, most + 1, asPlain, "unauthenticated"},
		{"compressed", []string{"zstd"}, false, most, by(wire.Zstd), ""},
		{"compressed and longer", []string{"zstd"}, false, most + 1, by(wire.Zstd), "unauthenticated"},
		{"a bomb", []string{"zstd"}, false, 1000, bomb, "unauthenticated"},
		{"without hello", nil, false, 100, by(wire.Zstd), "compressor"},
		{"without hello, long", nil, false, most + 1, by(wire.Zstd), "compressor"},
		{"none offered", []string{}, false, 100, by(wire.Zstd), "compressor"},
		{"another one offered", []string{"zstd"}, false, 100, by(wire.Snappy), "compressor"},
		{"before the answer", []string{"zstd"}, false, 100, by(wire.Zstd), "compressor"},
		{"after a login", []string{"snappy"}, true, 1 << 20, by(wire.Snappy), ""},
		{"after a login, not offered", []string{"snappy"}, true, 1 << 20, by(wire.Zstd), "compressor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newGuarded(t)
			early := c.name == "before the answer"
			if c.offers != nil {
				p.write(opMsg(1, 0, append(hello(c.offers...), bson.E{Key: silentKey, Value: early})))
				<-p.lengths
				if !early {
					p.receive()
				}
			}
			if c.logsIn {
				p.run(plain, command("saslContinue", 1))
				<-p.lengths
			}
			_, _ = p.conn.Write(c.form(p, sized(c.length))) // the session may end before it has read all
			if c.class == "" {
				if n := <-p.lengths; n != c.length {
					t.Errorf("%d bytes got to the server", n)
				}
				return
			}
			if _, err := exhausted(p.conn); err != nil {
				t.Error(err)
			}
			if n, ok := <-p.lengths; ok {
				t.Errorf("%d bytes got to the server", n)
			}
			if got := p.g.cfg.Stats.Snapshot().Errors; got[c.class] != 1 || len(got) != 1 {
				t.Errorf("counted as %v", got)
			}
			if use := p.budget.Use(); use.Peak > 0 {
				t.Errorf("took memory: %+v", use)
			}
		})
	}
}
