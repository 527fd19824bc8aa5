package tunnel

import (
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A link over TLS that is lost, even within a record, is not logged as a peer's error.
func TestLostTLSLink(t *testing.T) {
	ca := testenv.NewAuthority(t)
	exit := serve(t, server(t, echo), true, func(c *Config) { c.TLS = ca.Issue(t, "exit").TLS(t) })
	lossy := server(t, func(c *net.TCPConn) {
		defer c.Close()
		up, err := net.Dial("tcp", exit.addr)
		if err != nil {
			return
		}
		defer up.Close()
		go func() { _, _ = io.Copy(c, up) }()
		_, _ = io.CopyN(up, c, 30_001)
	})
	entry := serve(t, lossy, false, func(c *Config) { c.Upstream.TLS = &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"} })
	c := dial(t, entry.addr)
	go func() {
		noise := make([]byte, 1<<20)
		rng := rand.New(rand.NewPCG(4, 4))
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		_, _ = c.Write(noise)
	}()
	if _, err := io.Copy(io.Discard, c); err == nil {
		t.Error("the client saw an ordinary end")
	}
	for _, e := range []*end{entry, exit} {
		waitFor(t, func() bool { return e.stats.Snapshot().Connections.Open == 0 })
		if errs := e.stats.Snapshot().Errors; errs["truncated"] > 0 || strings.Contains(e.log.String(), "no valid frame") {
			t.Errorf("%s counted %v", e.cfg.Name, errs)
		}
	}
	if n := exit.stats.Snapshot().Errors["link_lost"]; n != 1 {
		t.Errorf("the exit lost %d links", n)
	}
}
