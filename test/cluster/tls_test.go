package cluster

import (
	"context"
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
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A cluster that speaks TLS and names its nodes by host names, of which no resolver knows: the gateways
// dial the nodes' addresses and check the names, and clients see one host, that of advertise, whose
// certificate they check.
func TestTLSAndHostNames(t *testing.T) {
	ca := newAuthority(t)
	var nodes []*testenv.RedisServer
	ports := map[string]bool{}
	first := 0
	for i := range 4 {
		names := []string{fmt.Sprintf("n%d.cluster.test", i)}
		if i == 0 {
			names = append(names, "127.0.0.1") // as the URL has it
		}
		cert, key := ca.issue(t, names...)
		port := testenv.FreePort(t)
		if i == 0 {
			first = port
		}
		ports[strconv.Itoa(port)] = true
		nodes = append(nodes, testenv.ClusterNode(t, "--tls-port", strconv.Itoa(port), "--tls-cluster", "yes", "--tls-replication", "yes",
			"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca.file, "--tls-auth-clients", "optional",
			"--cluster-announce-hostname", names[0], "--cluster-preferred-endpoint-type", "hostname"))
	}
	testenv.MakeCluster(t, nodes, 3)
	cert, key := ca.issue(t, "localhost")
	entry := testenv.FreePort(t)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{
		Upstream: fmt.Sprintf("rediss+cluster://127.0.0.1:%d", first),
		Settings: fmt.Sprintf("tls: {cert: %q, key: %q}\nupstream_tls: {ca: %q}\nadvertise: localhost:%d", cert, key, ca.file, entry),
		Rules:    `- {name: all, key: "*", setting: zstd-3}`,
		TLS:      true,
	})
	_, listens, _ := net.SplitHostPort(gateway.Addr)
	first, _ = strconv.Atoi(listens)
	dialed := ""
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: []string{fmt.Sprintf("localhost:%d", entry)}, TLSConfig: &tls.Config{RootCAs: ca.pool, ServerName: "localhost"},
		Dialer: func(ctx context.Context, _, addr string) (net.Conn, error) {
			host, port, _ := net.SplitHostPort(addr)
			if host != "localhost" || ports[port] {
				dialed += addr + " "
			}
			at, _ := strconv.Atoi(port) // the balancer of advertise
			d := tls.Dialer{Config: &tls.Config{RootCAs: ca.pool, ServerName: host}}
			return d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", at-entry+first))
		},
	})
	defer client.Close()
	testenv.Eventually(t, "all nodes have gateways", func() bool {
		shards, err := client.ClusterShards(t.Context()).Result()
		if err != nil || len(shards) != 3 {
			return false
		}
		for _, s := range shards {
			for _, n := range s.Nodes {
				if n.Endpoint != "localhost" {
					return false
				}
			}
		}
		return true
	})
	client.ReloadState(t.Context())
	for i := range 60 {
		k := fmt.Sprint("k", i)
		if err := client.Set(t.Context(), k, long, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if n, err := client.Append(t.Context(), k, "x").Result(); err != nil || n != 1051 {
			t.Fatal(n, err)
		}
		if got, err := client.Get(t.Context(), k).Result(); err != nil || got != long+"x" {
			t.Fatal(err)
		}
	}
	if dialed != "" {
		t.Errorf("the client was sent to %s", dialed)
	}
	for _, command := range []string{"SLOTS", "SHARDS", "NODES"} { // nowhere is a node's name or port left
		answer := fmt.Sprint(client.Do(t.Context(), "CLUSTER", command).Val())
		if strings.Contains(answer, "cluster.test") || !strings.Contains(answer, "localhost") {
			t.Errorf("CLUSTER %s: %s", command, answer)
		}
	}
	if gateway.Metric(t, "cinch_values_sealed_total") < 60 {
		t.Error("values were not sealed")
	}
}

// authority signs certificates and writes them to files.
type authority struct {
	file string
	pool *x509.CertPool
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
	next int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir(), pool: x509.NewCertPool(), next: 1}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var der []byte
	der, a.key = a.sign(t, a.cert, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	a.file = a.write(t, "ca.pem", "CERTIFICATE", der)
	return a
}

// issue makes a certificate for host names and addresses, and returns its files.
func (a *authority) issue(t *testing.T, names ...string) (cert, key string) {
	t.Helper()
	a.next++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: names[0]}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, private := a.sign(t, template, a.key)
	b, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return a.write(t, names[0]+".pem", "CERTIFICATE", der), a.write(t, names[0]+".key", "EC PRIVATE KEY", b)
}

// sign uses key, or the new one itself.
func (a *authority) sign(t *testing.T, template *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if key == nil {
		key = private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return der, private
}

func (a *authority) write(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
