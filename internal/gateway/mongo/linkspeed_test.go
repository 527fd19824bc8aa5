package mongo

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/mongotest"
	riglink "github.com/cinch-layer/cinch/test/rig/link"
	"github.com/cinch-layer/cinch/test/testenv"
)

// TestAutoFollowsTheLink gives the chooser links of known speed: messages stay plain on fast ones, and get
// the best codec on slow ones; small messages are never compressed.
func TestAutoFollowsTheLink(t *testing.T) {
	var both compressorSet
	both.add(wire.Snappy)
	both.add(wire.Zstd)
	rule := &policy.MessageRule{Auto: true}
	large := estimate{requestRule: rule, replyRule: rule, requestBytes: 170, expected: forecast{bytes: 35000}, hasReply: true}
	small := estimate{requestRule: rule, replyRule: rule, requestBytes: 86, expected: forecast{bytes: 60}, hasReply: true}
	for _, c := range []struct {
		mbit float64
		want wire.CompressorID
	}{{100_000, plain}, {10_000, plain}, {450, wire.Snappy}, {50, wire.Zstd}, {5, wire.Zstd}} {
		var l linkSpeed
		for range 100 {
			l.observeReply(35000, 30000, time.Duration(30000*8/c.mbit*1000), 0)
		}
		if id, _, reason := l.fastest(&large, both); id != c.want {
			t.Errorf("%v Mbit/s: %d (%s), want %d", c.mbit, id, reason, c.want)
		}
		if id, _, _ := l.fastest(&small, both); id != plain {
			t.Errorf("%v Mbit/s: a ping is compressed", c.mbit)
		}
		explored := 0
		for range 2 * exploreEvery {
			if id, _, _ := l.fastest(&large, both); id != c.want {
				explored++
			}
		}
		if want := map[bool]int{true: 0, false: 4}[c.want == plain]; explored != want {
			t.Errorf("%v Mbit/s: %d explored, want %d", c.mbit, explored, want)
		}
	}
	var unknown linkSpeed
	if id, _, _ := unknown.fastest(&large, both); id == plain {
		t.Error("an unknown link counts as fast")
	}
	var none linkSpeed
	if id, _, _ := none.fastest(&large, 1<<wire.Zlib); id != plain {
		t.Error("zlib was chosen")
	}
}

// With TLS too, the gateway measures the speed of the network, although TLS returns up to 16 KiB at once. So auto
// compresses on a link of 50 Mbit/s. A busy machine makes the link look slower, never faster.
func TestLinkSpeedBelowTLS(t *testing.T) {
	const bytesPerSecond = 50e6 / 8
	file, pool := testenv.Certificate(t)
	server := mongotest.Start(t, mongotest.Config{Args: []string{"--tlsMode", "allowTLS", "--tlsCertificateKeyFile", file, "--tlsAllowInvalidCertificates", "--tlsAllowConnectionsWithoutCertificates", "--tlsCAFile", file}})
	for name, secure := range map[string]*tls.Config{"plain": nil, "tls": {RootCAs: pool}} {
		t.Run(name, func(t *testing.T) {
			links, err := riglink.Start(time.Millisecond, 50, "127.0.0.1:0="+server.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer links.Stop()
			s := serve(t, links.Addrs[0], withAuto, func(c *Config) { c.Upstream.TLS = secure })
			raw := dialRaw(t, s.addr)
			text := strings.Repeat("the quick brown fox ", 700) // 14 KB: less than a TLS record
			raw.run(plain, command("insert", "texts", bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "text", Value: text}}}}))
			for range 30 { // no compression is negotiated, so they come plain
				if a := raw.run(plain, command("find", "texts", bson.E{Key: "limit", Value: 1})); !a.ok() {
					t.Fatal(a.doc)
				}
			}
			s.link.mu.Lock()
			speed := 1e9 / max(s.link.perByte, fastestPerByte)
			s.link.mu.Unlock()
			t.Logf("%.1f MB/s", speed/1e6)
			if speed > 2*bytesPerSecond {
				t.Errorf("the link of %.2f MB/s is taken for one of %.1f", bytesPerSecond/1e6, speed/1e6)
			}
			again := dialRaw(t, s.addr)
			again.run(plain, hello())
			again.run(plain, command("find", "texts", bson.E{Key: "limit", Value: 1}))
			if !strings.Contains(choices(s.Gateway), "link_scarce") {
				t.Errorf("auto chose %s", choices(s.Gateway))
			}
		})
	}
}

// choices returns the counts of automatic choices as text.
func choices(g *Gateway) string {
	g.link.mu.Lock()
	defer g.link.mu.Unlock()
	var list []string
	for c := range g.link.choices {
		list = append(list, c.compressor+" "+c.reason)
	}
	return strings.Join(list, ", ")
}

// The gateway's own time for a request is not part of the round trip to the server.
func TestRoundTripsBeginWhenRequestsAreSent(t *testing.T) {
	p := newParts(t, withZstd)
	p.accepted.Store(1 << wire.Zstd)
	b := opMsg(1, 0, command("insert", "users", manyDocuments))
	h, _ := wire.ParseHeader(b)
	before := time.Now()
	if err := p.handleRequest(message{received: b, header: h, compressor: plain}); err != nil {
		t.Fatal(err)
	}
	if x := p.pending.list[0]; x.spent <= 0 || x.sent.Add(-x.spent).Before(before) {
		t.Errorf("sent %v after it came, of which %v were spent here", x.sent.Sub(before), x.spent)
	}
}
