package mongo

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/test/mongotest"
	riglink "github.com/cinch-layer/cinch/test/rig/link"
	"github.com/cinch-layer/cinch/test/testenv"
)

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
