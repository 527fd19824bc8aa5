package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// The cluster uses TLS and names its nodes by host names that no resolver knows. The gateways dial the
// nodes' addresses and check the names. Clients see one host, that of advertise, and check its certificate.
func TestTLSAndHostNames(t *testing.T) {
	ca := testenv.NewAuthority(t)
	ports := namedNodes(t, ca)
	own := ca.Issue(t, "localhost", "localhost")
	entry := testenv.FreePort(t)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{
		Upstream: fmt.Sprintf("rediss+cluster://127.0.0.1:%d", ports[0]),
		Settings: fmt.Sprintf("tls: {cert: %q, key: %q}\nupstream_tls: {ca: %q}\nadvertise: localhost:%d", own.Cert, own.Key, ca.File, entry),
		Rules:    `- {name: all, key: "*", setting: zstd-3}`,
		TLS:      true,
	})
	_, text, _ := net.SplitHostPort(gateway.Addr)
	listens, _ := strconv.Atoi(text)
	astray := "" // wrong addresses that the client has dialed
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: []string{fmt.Sprintf("localhost:%d", entry)}, TLSConfig: &tls.Config{RootCAs: ca.Pool, ServerName: "localhost"},
		Dialer: func(ctx context.Context, _, addr string) (net.Conn, error) {
			host, text, _ := net.SplitHostPort(addr)
			port, _ := strconv.Atoi(text)
			if host != "localhost" || slices.Contains(ports, port) {
				astray += addr + " "
			}
			// It also does the port mapping of the balancer that advertise names.
			d := tls.Dialer{Config: &tls.Config{RootCAs: ca.Pool, ServerName: host}}
			return d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port-entry+listens))
		},
	})
	defer client.Close()
	testenv.Eventually(t, "all nodes have gateways", func() bool { return endpointsAre(t, client, "localhost") })
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
	if astray != "" {
		t.Errorf("the client was sent to %s", astray)
	}
	for _, command := range []string{"SLOTS", "SHARDS", "NODES"} { // no reply contains a node's name or port
		answer := fmt.Sprint(client.Do(t.Context(), "CLUSTER", command).Val())
		if strings.Contains(answer, "cluster.test") || !strings.Contains(answer, "localhost") {
			t.Errorf("CLUSTER %s: %s", command, answer)
		}
	}
	if gateway.Metric(t, "cinch_values_sealed_total") < 60 {
		t.Error("values were not sealed")
	}
}

// namedNodes starts a cluster whose nodes have names and certificates for them. The first has a certificate
// for its address too, which the URL uses. It returns the nodes' TLS ports.
func namedNodes(t *testing.T, ca *testenv.Authority) (ports []int) {
	t.Helper()
	var nodes []*testenv.RedisServer
	for i := range 4 {
		names := []string{fmt.Sprintf("n%d.cluster.test", i)}
		if i == 0 {
			names = append(names, "127.0.0.1")
		}
		its := ca.Issue(t, names[0], names...)
		ports = append(ports, testenv.FreePort(t))
		nodes = append(nodes, testenv.ClusterNode(t, "--tls-port", strconv.Itoa(ports[i]), "--tls-cluster", "yes", "--tls-replication", "yes",
			"--tls-cert-file", its.Cert, "--tls-key-file", its.Key, "--tls-ca-cert-file", ca.File, "--tls-auth-clients", "optional",
			"--cluster-announce-hostname", names[0], "--cluster-preferred-endpoint-type", "hostname"))
	}
	testenv.MakeCluster(t, nodes, 3)
	return ports
}

// endpointsAre reports whether clients are told of three shards, all at one host.
func endpointsAre(t *testing.T, client *goredis.ClusterClient, host string) bool {
	shards, err := client.ClusterShards(t.Context()).Result()
	if err != nil || len(shards) != 3 {
		return false
	}
	for _, s := range shards {
		if slices.ContainsFunc(s.Nodes, func(n goredis.Node) bool { return n.Endpoint != host }) {
			return false
		}
	}
	return true
}
