package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/wire/peer"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A protocol of the configuration without an implementation here is an error, and does not get a gateway for
// Redis.
func TestProtocolWithoutGateway(t *testing.T) {
	err := (&shared{}).addProtocol(nil, &config.Gateway{Name: "g", Protocol: "gopher"}, &running{}, nil)
	if err == nil || !strings.Contains(err.Error(), "gopher") {
		t.Error(err)
	}
}

// Gateways for gRPC, HTTP and MongoDB use links unless link.history is none, and accept them if peers is set. The log
// warns if clients share a history.
func TestLinksOfGateways(t *testing.T) {
	for keys, want := range map[string]struct{ links, shared int }{
		"":                                     {3, 0},
		", link: {window: 1MiB}":               {3, 0},
		", link: {history: client}":            {3, 0},
		", link: {history: shared}":            {3, 3},
		", link: {history: none}":              {0, 0},
		", link: {history: none}, peers: true": {3, 0},
		", peers: true":                        {3, 0},
	} {
		log := &testenv.Log{}
		p, err := New(Options{
			Load: func() (*config.Config, error) {
				return config.Parse("", []byte(`admin: {listen: off}
gateways:
  - {name: a, protocol: grpc, listen: "127.0.0.1:0", upstream: "grpc://127.0.0.1:1"`+keys+`}
  - {name: b, protocol: http, listen: "127.0.0.1:0", upstream: "http://127.0.0.1:1"`+keys+`}
  - {name: c, protocol: mongo, listen: "127.0.0.1:0", upstream: "mongodb://127.0.0.1:1"`+keys+`}
`), nil)
			},
			Log:  log,
			Zstd: Zstd{Engine: func(string) (*codec.Engine, error) { return codec.New(codec.Options{}), nil }},
		})
		if err != nil {
			t.Errorf("%s: %v", keys, err)
			continue
		}
		links, shared := len(p.shared.links), log.Count("link.history is shared")
		if links != want.links || shared != want.shared {
			t.Errorf("%s: %d gateways with links, and %d warnings of shared histories", keys, links, shared)
		}
		p.close()
	}
}

// peersProcess makes a process of gateways that accept links, for each protocol.
func peersProcess(listen, keys string, listener func(string) (net.Listener, error)) (*Process, *testenv.Log, error) {
	log := &testenv.Log{}
	p, err := New(Options{
		Load: func() (*config.Config, error) {
			return config.Parse("", fmt.Appendf(nil, `admin: {listen: off}
gateways:
  - {name: a, protocol: grpc, listen: %[1]q, upstream: "grpc://127.0.0.1:1", peers: true%[2]s}
  - {name: b, protocol: http, listen: %[1]q, upstream: "http://127.0.0.1:1", peers: true%[2]s}
  - {name: c, protocol: mongo, listen: %[1]q, upstream: "mongodb://127.0.0.1:1", peers: true%[2]s}
  - {name: d, protocol: tunnel-exit, listen: %[1]q, upstream: "127.0.0.1:1"%[2]s}
`, listen, keys), nil)
		},
		Log: log, listen: listener,
		Zstd: Zstd{Engine: func(string) (*codec.Engine, error) { return codec.New(codec.Options{}), nil }},
	})
	return p, log, err
}

// A gateway with a key answers a hello without it with a status of its own, in every protocol, and ends the
// connection.
func TestPeersWithoutTheKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("a key that is long enough\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, log, err := peersProcess("127.0.0.1:0", fmt.Sprintf(", peer_key_file: %q", file), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, drain := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, t.Context()) }()
	gateways, _ := p.Addresses()
	for _, a := range gateways {
		c, err := net.Dial("tcp", a.String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := c.Write(peer.Hello{Lowest: 1, Highest: 1, Codecs: 1}.Append(nil)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		if hello, wrong := peer.ParseHello(answer); err != nil || wrong != nil || hello.Status != peer.StatusKey {
			t.Errorf("%x, %v", answer, err)
		}
		_ = c.Close()
	}
	testenv.Eventually(t, "all logs say so", func() bool { return log.Count("the near one has none") == len(gateways) })
	drain()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Open peers are allowed with a warning. A listener that systemd has opened counts by its own address.
func TestOpenPeers(t *testing.T) {
	p, log, err := peersProcess("0.0.0.0:0", ", insecure_peers: true", nil)
	if err != nil {
		t.Fatal(err)
	}
	p.close()
	if n := log.Count("insecure_peers: any client"); n != 4 {
		t.Errorf("%d warnings\n%s", n, log)
	}
	if _, _, err = peersProcess("0.0.0.0:0", "", nil); !errors.Is(err, config.ErrInvalid) {
		t.Error(err)
	}
	all := func(string) (net.Listener, error) { return net.Listen("tcp", "0.0.0.0:0") }
	var invalid *ConfigError
	if _, _, err = peersProcess("127.0.0.1:0", "", all); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "could open links") {
		t.Error(err)
	}
}
