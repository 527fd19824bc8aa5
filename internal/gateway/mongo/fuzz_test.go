package mongo

import (
	"bytes"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// FuzzHello rewrites hellos and replies: all fields except the gateway's stay byte for byte.
func FuzzHello(f *testing.F) {
	for _, d := range []bson.D{
		hello("zstd", "snappy"),
		{{Key: "ok", Value: 1.0}, {Key: "hosts", Value: bson.A{"a:1", "b:2"}}, {Key: "me", Value: "a:1"}, {Key: "compression", Value: bson.A{"zlib"}}},
		{{Key: "ok", Value: 0}, {Key: "primary", Value: 3}, {Key: "passives", Value: bson.D{}}},
	} {
		b, _ := bson.Marshal(d)
		f.Add(b)
	}
	rename := func(b []byte) (string, bool) { return "gateway:1", string(b) == "a:1" }
	ours := []string{"compression", "me", "primary", "hosts", "passives", "arbiters", speculativeKey, supportedKey}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if len(doc) < 5 || len(doc) > 1<<16 {
			return
		}
		for _, edit := range []func() ([]byte, error){
			func() ([]byte, error) {
				out, g, err := rewriteHello(nil, doc, helloEdit{offer: []wire.CompressorID{wire.Zstd}, inject: true, logins: &loginFilter{}})
				if len(g.offered) > len(algorithms) {
					t.Errorf("offered %v", g.offered)
				}
				return out, err
			},
			func() ([]byte, error) {
				d, err := parseHelloReply(doc)
				if err != nil {
					return nil, err
				}
				out, err := rewriteHelloReply(nil, doc, d, &handshake{clientCompressors: []wire.CompressorID{wire.Zlib}, logins: &loginFilter{}}, rename)
				return out, err
			},
		} {
			out, err := edit()
			if err != nil {
				continue
			}
			if want, got := others(t, doc, ours), others(t, out, ours); !bytes.Equal(want, got) {
				t.Errorf("other fields were\n%x and became\n%x", want, got)
			}
		}
	})
}

// others joins the elements whose keys are not in ours.
func others(t *testing.T, doc []byte, ours []string) (all []byte) {
	t.Helper()
	err := wire.Elements(doc, func(e wire.Element) bool {
		if !slices.Contains(ours, string(e.Key)) {
			all = append(all, e.Of(doc)...)
		}
		return true
	})
	if err != nil {
		t.Errorf("can't be read again: %v", err)
	}
	return all
}

// FuzzOpen decompresses arbitrary messages: the result has the declared size, and is the same after
// compressing and decompressing it with every compressor.
func FuzzOpen(f *testing.F) {
	c := compressionBy(f, nil)
	ping := opMsg(1, 0, command("ping", 1))
	h, _ := wire.ParseHeader(ping)
	for _, a := range algorithms {
		f.Add(c.compress(ping, h, a.id, 0))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < wire.CompressedHeaderLen {
			return
		}
		outer, err := wire.ParseHeader(b)
		if err != nil || outer.OpCode != wire.OpCompressed || outer.Length != len(b) {
			return
		}
		held, err := wire.ParseCompressed(outer, b)
		if err != nil || held.Length > 1<<20 {
			return
		}
		opened, err := c.decompress(&message{received: b, header: held.Header, compressor: held.Compressor})
		if err != nil {
			return
		}
		if len(opened) != held.Length {
			t.Fatalf("%d bytes, not %d", len(opened), held.Length)
		}
		for _, a := range algorithms {
			compressed := c.compress(opened, held.Header, a.id, 0)
			back, err := c.decompress(&message{received: compressed, header: held.Header, compressor: a.id})
			if err != nil || !bytes.Equal(back, opened) {
				t.Errorf("%s: %v", a.name, err)
			}
		}
	})
}

// FuzzRequest parses anything as a request.
func FuzzRequest(f *testing.F) {
	f.Add(opMsg(1, 0, command("find", "users", bson.E{Key: "filter", Value: bson.D{{Key: "a", Value: 1}}})))
	f.Add(opMsg(1, 0, command("aggregate", "users", bson.E{Key: "pipeline", Value: bson.A{bson.D{{Key: "$limit", Value: 1}}}})))
	f.Add(opQuery(1, bson.D{{Key: "$query", Value: bson.D{{Key: "isMaster", Value: 1}}}}))
	var r request
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < wire.HeaderLen {
			return
		}
		h, err := wire.ParseHeader(b)
		if err != nil || h.Length != len(b) {
			return
		}
		r.plain, r.header = b, h
		if r.parse() != nil || r.traits&isHello == 0 {
			return
		}
		doc, _, err := rewriteHello(nil, r.document.Of(b), helloEdit{offer: []wire.CompressorID{wire.Zstd}, inject: true, balancer: true, logins: &loginFilter{}})
		if err != nil {
			return
		}
		again := request{plain: r.withDocument(doc)}
		if again.header, err = wire.ParseHeader(again.plain); err != nil || again.header.Length != len(again.plain) {
			t.Fatalf("a rewritten hello has header %+v: %v", again.header, err)
		}
		if err := again.parse(); err != nil || again.traits&isHello == 0 {
			t.Errorf("a rewritten hello is none: %v", err)
		}
	})
}
