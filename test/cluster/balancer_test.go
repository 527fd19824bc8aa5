package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

const balancerHost = "127.0.0.3"

// balance starts HAProxy in front of a pair of gateways, with the same ports on another host. It chooses by
// /readyz, and sends PROXY headers: version 1 to the first gateway, 2 to the second.
func balance(t *testing.T, p *pair, ports int) {
	t.Helper()
	program := testenv.Program(t, "haproxy")
	var b strings.Builder
	b.WriteString("global\n  nbthread 1\ndefaults\n  mode tcp\n  balance leastconn\n  retries 2\n  option redispatch\n  option httpchk GET /readyz\n" +
		"  timeout connect 2s\n  timeout client 30s\n  timeout server 30s\n  timeout check 2s\n" +
		"  default-server inter 300ms fall 2 rise 1 on-marked-down shutdown-sessions\n")
	for port := p.first; port < p.first+ports; port++ {
		fmt.Fprintf(&b, "listen port%d\n  bind %s:%[1]d\n", port, balancerHost)
		for i, g := range p.gateways {
			host, admin, _ := net.SplitHostPort(g.Admin)
			header := [...]string{"send-proxy", "send-proxy-v2"}[i]
			fmt.Fprintf(&b, "  server %c %s:%d %s check addr %s port %s\n", 'a'+i, p.hosts[i], port, header, host, admin)
		}
	}
	path := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	testenv.Serves(t, net.JoinHostPort(balancerHost, strconv.Itoa(p.first)), program, "-db", "-f", path)
}

// Two gateways are behind HAProxy, and clients know only its address. One gateway is killed, the other
// drains until HAProxy has noticed, and no acknowledged write is lost.
func TestBehindBalancer(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	nodes := testenv.Cluster(t, 3, 0)
	p := &pair{hosts: [2]string{"127.0.0.1", "127.0.0.2"}}
	p.first = testenv.FreePorts(t, 4, append(p.hosts[:], balancerHost)...)
	cfg := testenv.GatewayConfig{
		Upstream: upstreamOf(nodes), Race: true, Unready: true, Rules: `- {name: all, key: "*", setting: zstd-3}`, Process: "drain_delay: 2s",
		Settings: "proxy_protocol: true\nproxy_from: [127.0.0.0/8]\nnodes: 3",
	}
	for i := range p.gateways {
		p.start(t, i, cfg)
		becomes(t, p.gateways[i], 200, "!degraded")
	}
	balance(t, p, 4)
	address := net.JoinHostPort(balancerHost, strconv.Itoa(p.first))
	entry := connect(t, address, 2)
	testenv.Eventually(t, "HAProxy serves", func() bool { return entry.Ping(t.Context()).Err() == nil })
	// Replies name the address that the client has connected to.
	for _, command := range []string{"CLUSTER SLOTS", "CLUSTER NODES", "CLUSTER SHARDS"} {
		answer := do(t, entry, command)
		if n := strings.Count(answer, balancerHost); n < 3 || strings.Contains(answer, "127.0.0.1") || strings.Contains(answer, "127.0.0.2") {
			t.Errorf("%s: %s", command, answer)
		}
	}
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: []string{address}, MaxRedirects: 16, MaxRetries: -1, DisableIdentity: true, ReadTimeout: 10 * time.Second, NewClient: onlyTo(t, nodes),
	})
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var turn sync.RWMutex
	work := startWorkers(ctx, t, client, &turn, true)
	time.Sleep(time.Second)
	for i, g := range p.gateways {
		if n := g.Metric(t, "cinch_values_sealed_total"); n == 0 {
			t.Errorf("gateway %d has nothing to do", i)
		}
	}
	p.gateways[0].Kill()
	time.Sleep(time.Second)
	if err := p.gateways[0].Restart(); err != nil {
		t.Fatal(err)
	}
	becomes(t, p.gateways[0], 200)
	time.Sleep(time.Second) // HAProxy must notice it
	if err := p.gateways[1].Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.gateways[1].Wait(); err != nil {
		t.Error(err)
	}
	time.Sleep(500 * time.Millisecond)
	cancel()
	done, unknown := work.wait()
	t.Logf("%d operations, %d of unknown fate", done, unknown)
	if done < 200 || p.gateways[0].Metric(t, "cinch_values_sealed_total") == 0 {
		t.Error("too little happened")
	}
	if strings.Contains(p.gateways[0].Output(), "level=ERROR") {
		t.Error(p.gateways[0].Output())
	}
	if p.gateways[0].Metric(t, "cinch_errors_total") > 0 {
		t.Error("HAProxy's questions, or clients, count as errors")
	}
}

// A client that connects without the balancer, and so without a PROXY header, is not served.
func TestNoProxyHeader(t *testing.T) {
	server := testenv.Redis(t)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Unready: true, Settings: "proxy_protocol: true"})
	if err := connect(t, gateway.Addr, 2).Ping(t.Context()).Err(); err == nil {
		t.Error("it was served")
	}
	if gateway.Metric(t, "cinch_errors_total") == 0 {
		t.Error("it was not counted")
	}
}
