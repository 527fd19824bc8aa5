package mongo

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

func TestRewriterDecides(t *testing.T) {
	insert := opMsg(1, 0, command("insert", "users", manyDocuments))
	for _, c := range []struct {
		name    string
		message []byte
		taken   compressorSet
		reason  string
		smaller bool
	}{
		{"large", insert, 1 << wire.Zstd, "", true},
		{"nothing agreed on", insert, 0, "not_negotiated", false},
		{"small", opMsg(1, 0, command("ping", 1)), 1 << wire.Zstd, "small", false},
		{"large replies", opMsg(1, 0, command("find", "users")), 1 << wire.Zstd, "", false},
		{"a secret", opMsg(1, 0, command("saslContinue", 1, manyDocuments)), 1 << wire.Zstd, "", false},
	} {
		p := newParts(t, withZstd)
		p.accepted.Store(uint32(c.taken))
		r := requestOf(t, c.message)
		var x exchange
		out, pooled, _ := p.rewrite(r, &x)
		if x.reason != c.reason || (len(out) < len(c.message)) != c.smaller {
			t.Errorf("%s: %q, %d of %d bytes", c.name, x.reason, len(out), len(c.message))
		}
		memory.PutBuffer(pooled)
		b := p.compress(r.plain, r.header, wire.Zstd, 0)
		if err := p.handleRequest(message{received: b, header: r.header, compressor: wire.Zstd}); err != nil {
			t.Fatal(err)
		}
		secret := c.name == "a secret"
		if x := p.pending.list[0]; (x.rule == nil) != secret || (x.replyCompressor == plain) != secret || (x.shape == 0) != secret || x.id != 1 {
			t.Errorf("%s: waits as %+v", c.name, x)
		}
	}
}

// A request counts for the rule that covers it, even if a larger reply is expected, whose rule then chooses
// the compressor.
func TestRequestsCountForTheirRule(t *testing.T) {
	zstd := codec.Setting{Codec: codec.Zstd}
	p := newParts(t, []policy.MessageRule{
		{Name: "requests", Direction: policy.Request, Setting: zstd}, {Name: "replies", Direction: policy.Reply, Setting: zstd},
	})
	p.accepted.Store(1 << wire.Zstd)
	r := requestOf(t, opMsg(1, 0, command("find", "users", manyDocuments)))
	for range 20 {
		p.forecasts.observe(r.shape, 10*len(r.plain), 10*len(r.plain), plain)
	}
	for range 20 {
		_, pooled, _ := p.rewrite(r, &exchange{})
		memory.PutBuffer(pooled)
	}
	for _, r := range p.stats.Snapshot().Rules {
		if want := r.Rule == "requests"; (r.Sealed == 20) != want {
			t.Errorf("%s: %d", r.Rule, r.Sealed)
		}
	}
}

func TestMirror(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, withZstd)
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello("snappy"))
	last := func(doc bson.D, id wire.CompressorID) (request, reply frame, a answer) {
		t.Helper()
		tap.take()
		a = raw.run(id, doc)
		requests, replies := tap.take()
		return requests[0], replies[0], a
	}
	many := command("find", "users")
	one := command("find", "users", bson.E{Key: "filter", Value: bson.D{{Key: "_id", Value: 1}}}, bson.E{Key: "limit", Value: 1}, bson.E{Key: "projection", Value: bson.D{{Key: "active", Value: 1}}})
	request, reply, a := last(many, plain)
	if request.came != wire.Zstd || reply.came != wire.Zstd || a.came != plain {
		t.Errorf("a large find: %d %d %d", request.came, reply.came, a.came)
	}
	if _, reply, a = last(many, wire.Snappy); reply.came != wire.Zstd || a.came != wire.Snappy {
		t.Errorf("a large find, the client's compressed: %d %d", reply.came, a.came)
	}
	for range 3 { // until the gateway knows that the replies are small
		request, reply, a = last(one, wire.Snappy)
	}
	if request.came != plain || reply.came != plain || a.came != plain {
		t.Errorf("a small find: %d %d %d", request.came, reply.came, a.came)
	}
	if request, reply, _ = last(command("ping", 1), wire.Snappy); request.came != plain || reply.came != plain {
		t.Errorf("a ping: %d %d", request.came, reply.came)
	}
	if request, reply, _ = last(many, plain); request.came != wire.Zstd || reply.came != wire.Zstd {
		t.Errorf("a large find was taken for a small one")
	}
	insert := command("insert", "copies", bson.E{Key: "documents", Value: users(1000, 50)})
	if request, reply, _ = last(insert, plain); request.came != wire.Zstd || reply.came != wire.Zstd {
		t.Errorf("a large insert: %d %d", request.came, reply.came)
	}
	noise := make([]byte, 20000)
	for i := range noise {
		noise[i] = byte(uint32(i*i*2654435761) >> 13)
	}
	noise = codecNoise(noise)
	insert = command("insert", "copies", bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "v", Value: noise}}}})
	if request, _, _ = last(insert, wire.Snappy); request.came != plain {
		t.Errorf("noise was compressed, to %d bytes", len(request.bytes))
	}
}
