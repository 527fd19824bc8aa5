package grpc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/cinch-layer/cinch/test/testenv"
)

// authority is what clients ask for, whatever address they connect to, so that transcripts
// of different routes can be the same.
const authority = "scenario.test"

// route is how clients reach a server: through no gateway, one, or several in a row. The
// client and the server are plain: only gateways may compress between themselves.
type route struct {
	name     string
	gateways int
	link     bool // between the first two gateways, with columns on it
}

var routes = []route{{"direct", 0, false}, {"one gateway", 1, false}, {"two gateways", 2, false}, {"a link", 2, true}}

// What makes a link of the connections between two gateways.
const (
	linkNear  = "link: {history: client}"
	linkFar   = "peers: true"
	linkRules = "- {min_size: 64, setting: cinch-proto}"
)

// start puts the route's gateways in front of upstream and returns them, nearest first.
// With c they and the upstream speak TLS.
func (r route) start(t testing.TB, upstream string, c *certificates) []*testenv.GatewayServer {
	t.Helper()
	chain := make([]*testenv.GatewayServer, r.gateways)
	for i := r.gateways - 1; i >= 0; i-- {
		cfg := gatewayConfig(upstream, c)
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
	cfg := testenv.GatewayConfig{Protocol: "grpc", Upstream: upstream, Race: raceEnabled}
	if c != nil {
		cfg.Upstream = "grpcs://" + upstream
		cfg.Settings = fmt.Sprintf("tls: {cert: %q, key: %q}\nupstream_tls: {ca: %q, server_name: %s}",
			c.cert, c.key, c.ca, authority)
	}
	return cfg
}

// certificates are PEM files of an authority and of a server that it vouches for.
type certificates struct {
	ca, cert, key string
	pool          *x509.CertPool
	server        tls.Certificate
}

func newCertificates(t testing.TB) *certificates {
	t.Helper()
	dir := t.TempDir()
	c := &certificates{
		ca: filepath.Join(dir, "ca.pem"), cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"),
		pool: x509.NewCertPool(),
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: authority},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		DNSNames: []string{authority, "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	rootKey, leafKey := newKey(t), newKey(t)
	rootDER := sign(t, root, root, &rootKey.PublicKey, rootKey)
	leafDER := sign(t, leaf, root, &leafKey.PublicKey, rootKey)
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, c.ca, "CERTIFICATE", rootDER)
	writePEM(t, c.cert, "CERTIFICATE", leafDER)
	writePEM(t, c.key, "PRIVATE KEY", keyDER)
	parsed, err := x509.ParseCertificate(rootDER)
	if err != nil {
		t.Fatal(err)
	}
	c.pool.AddCert(parsed)
	c.server = tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: leafKey}
	return c
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, cert, parent *x509.Certificate, public *ecdsa.PublicKey, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, public, by)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serverOptions are those of a server that speaks TLS when c is there.
func (c *certificates) serverOptions() []grpc.ServerOption {
	if c == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{c.server}}))}
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
