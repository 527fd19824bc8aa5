package grpc

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/cinch-layer/cinch/test/testenv"
)

// authority is the host that clients ask for, whatever address they connect to, so that transcripts of
// different routes can be equal.
const authority = "scenario.test"

// route is a path from clients to a server: through no gateway, one, or several in a row. Client and server
// do not compress; only gateways may compress between themselves.
type route struct {
	name     string
	gateways int
	link     bool   // between the first two gateways, which compress to columns
	rules    string // of gateways without a link; "": the default
}

var routes = []route{{name: "direct"}, {name: "one gateway", gateways: 1}, {name: "two gateways", gateways: 2}, {name: "a link", gateways: 2, link: true}}

// Configuration that makes the connections between two gateways a link.
const (
	linkNear  = "link: {history: client}"
	linkFar   = "peers: true"
	linkRules = "- {min_size: 64, setting: cinch-proto}"
)

// start starts the route's gateways in front of upstream and returns them, nearest first. If c is not nil,
// they and the upstream use TLS.
func (r route) start(t testing.TB, upstream string, c *certificates) []*testenv.GatewayServer {
	t.Helper()
	chain := make([]*testenv.GatewayServer, r.gateways)
	for i := r.gateways - 1; i >= 0; i-- {
		cfg := gatewayConfig(upstream, c)
		cfg.Rules = r.rules
		if r.link {
			cfg.Settings, cfg.Rules = [...]string{linkNear, linkFar}[i]+"\n"+cfg.Settings, linkRules
		}
		chain[i] = testenv.Gateway(t, cfg)
		upstream = chain[i].Addr
	}
	return chain
}

// addr starts the route and returns the address for clients.
func (r route) addr(t testing.TB, upstream string, c *certificates) string {
	t.Helper()
	if chain := r.start(t, upstream, c); len(chain) > 0 {
		return chain[0].Addr
	}
	return upstream
}

func gatewayConfig(upstream string, c *certificates) testenv.GatewayConfig {
	cfg := testenv.GatewayConfig{Protocol: "grpc", Upstream: upstream, Race: testenv.RaceDetector}
	if c != nil {
		cfg.Upstream = "grpcs://" + upstream
		cfg.Settings = fmt.Sprintf("tls: {cert: %q, key: %q}\nupstream_tls: {ca: %q, server_name: %s}",
			c.cert, c.key, c.ca, authority)
	}
	return cfg
}

// certificates holds the PEM files of an authority and of a server certificate that it signed.
type certificates struct {
	ca, cert, key string
	pool          *x509.CertPool
	server        *tls.Config
}

func newCertificates(t testing.TB) *certificates {
	t.Helper()
	a := testenv.NewAuthority(t)
	i := a.Issue(t, "server", authority, "localhost", "127.0.0.1")
	return &certificates{ca: a.File, cert: i.Cert, key: i.Key, pool: a.Pool, server: i.TLS(t)}
}

// serverOptions returns the options of a server, with TLS if c is not nil.
func (c *certificates) serverOptions() []grpc.ServerOption {
	if c == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(c.server))}
}

// dial connects a grpc-go client.
func (c *certificates) dial(t testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	creds := insecure.NewCredentials()
	if c != nil {
		creds = credentials.NewTLS(&tls.Config{RootCAs: c.pool, ServerName: authority})
	}
	conn, err := grpc.NewClient("passthrough:///"+addr, append(opts, grpc.WithTransportCredentials(creds))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve runs a grpc-go server until the test ends.
func serve(t testing.TB, s *grpc.Server) string {
	t.Helper()
	l := listen(t)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}
