package tarantool

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// fronts puts a front before each server that a suite starts, while the server runs, at the address on
// which the suite told the server to listen. A front is two relays, one after the other, with nothing
// ("forward") or a gateway ("gateway") between them.
type fronts struct {
	t        *testing.T
	way      string
	events   string // written by the servers, see shim.lua
	listener net.Listener

	mu      sync.Mutex
	behind  []*testenv.Relay // relays whose connections the servers see
	own     []*testenv.Relay // relays used by init
	sealed  float64          // values, as counted by the gateways
	opened  float64
	servers int
}

// everything makes a gateway compress all that it may, in every space.
const everything = `- {name: all, space: "*", setting: zstd-3, min_size: 0, min_gain: 0%}`

func startFronts(t *testing.T, way string) *fronts {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fronts{t: t, way: way, events: filepath.Join(t.TempDir(), "events"), listener: l}
	if err := os.WriteFile(f.events, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
	return f
}

// serve executes the commands of one server's shim until the server ends.
func (f *fronts) serve(c net.Conn) {
	defer c.Close()
	var last front
	defer func() { last.end() }()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		answer := "ok"
		switch words := strings.Fields(lines.Text()); {
		case len(words) == 4 && words[0] == "front":
			last.end()
			var err error
			if last, err = f.put(words[1], words[2], words[3]); err != nil {
				answer = err.Error()
				f.t.Errorf("%q: %v", lines.Text(), err)
			}
		case len(words) == 1 && words[0] == "ready":
			last.open() // a gateway that starts now can connect to the server
		case len(words) == 1 && words[0] == "end":
			last.end()
			last = front{}
		case len(words) == 2 && words[0] == "init":
			f.init(words[1])
		default:
			answer = "not understood"
		}
		if _, err := fmt.Fprintln(c, answer); err != nil {
			return
		}
	}
}

// front is the front of one server. Its zero value is no front.
type front struct {
	open, take func() // open lets clients in; take removes the front
}

func (f front) end() {
	if f.take != nil {
		f.take()
	}
}

// put puts a front before a server. Clients wait until it is opened.
func (f *fronts) put(behind, network, addr string) (front, error) {
	r := testenv.StartRelay(f.t, behind)
	to := r.Addr
	f.mu.Lock()
	f.behind, f.servers = append(f.behind, r), f.servers+1
	f.mu.Unlock()
	ready := make(chan struct{})
	outer, err := listenSoon(network, addr, to, ready)
	if err != nil {
		return front{open: func() { close(ready) }, take: r.Close}, err
	}
	var gateway *testenv.GatewayServer
	var opened sync.Once
	open := func() {
		opened.Do(func() {
			defer close(ready)
			if f.way == "gateway" {
				gateway = f.gateway(to)
				outer.Point(gateway.Addr)
			}
		})
	}
	take := func() {
		outer.Close()
		opened.Do(func() { close(ready) }) // waiting clients then find no server
		r.Close()
		if gateway != nil {
			f.count(gateway)
		}
	}
	return front{open, take}, nil
}

func (f *fronts) gateway(upstream string) *testenv.GatewayServer {
	return testenv.Gateway(f.t, testenv.GatewayConfig{
		Protocol: "tarantool", Upstream: "tarantool://cinch_gateway:secret@" + upstream,
		Rules: everything, Settings: "sql: pass", Force: true, Args: []string{"--log-level", "warn"},
	})
}

// init prepares a server as its administrator would, in each way. A test may stop the server meanwhile.
func (f *fronts) init(server string) {
	r := testenv.StartRelay(f.t, server)
	f.mu.Lock()
	f.own = append(f.own, r)
	f.mu.Unlock()
	cmd := exec.CommandContext(f.t.Context(), testenv.Cinch(f.t), "tarantool", "init", "tarantool://cinch_gateway:secret@"+r.Addr, "--user", "cinch_gateway")
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Logf("cinch tarantool init: %v\n%s", err, out)
	}
}

// listenSoon waits until the address is free: the front of a server that was restarted may still be
// closing. Like a server, it replaces a socket file.
func listenSoon(network, addr, behind string, ready <-chan struct{}) (r *testenv.Relay, err error) {
	for range 100 {
		if network == "unix" {
			_ = os.Remove(addr)
		}
		if r, err = testenv.RelayOn(network, addr, behind, ready); err == nil {
			return r, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, err
}

// count adds the gateway's counters before it ends.
func (f *fronts) count(g *testenv.GatewayServer) {
	sealed, opened := g.Metric(f.t, "cinch_values_sealed_total"), g.Metric(f.t, "cinch_values_opened_total")
	g.Kill()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sealed += sealed
	f.opened += opened
	if log := g.Output(); strings.Contains(log, "panic") {
		f.t.Errorf("the gateway's log:\n%s", log)
	}
}

// check reads the servers' events: no connection may have bypassed the front, and with gateways envelopes
// must have been stored.
func (f *fronts) check() {
	text, err := os.ReadFile(f.events)
	if err != nil {
		f.t.Fatal(err)
	}
	through, envelopes := 0, map[string]int{}
	for line := range strings.Lines(string(text)) {
		switch words := strings.Fields(line); {
		case len(words) == 2 && words[0] == "peer" && f.came(f.behind, words[1]):
			through++
		case len(words) == 2 && words[0] == "peer" && f.came(f.own, words[1]):
		case len(words) == 4 && words[0] == "sealed":
			n, err := strconv.Atoi(words[3])
			if err != nil {
				f.t.Fatalf("%q: %v", line, err)
			}
			envelopes[words[1]+" "+words[2]] = n
		default:
			f.t.Errorf("past what stands in front, or not understood: %q", line)
		}
	}
	stored := 0
	for _, n := range envelopes {
		stored += n
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.t.Logf("%s: %d servers, %d connections, at least %d envelopes stored in %d spaces; gateways sealed %.0f values and opened %.0f",
		f.way, f.servers, through, stored, len(envelopes), f.sealed, f.opened)
	if (stored > 0) != (f.way == "gateway") {
		f.t.Errorf("%d envelopes were stored", stored)
	}
	if through == 0 {
		f.t.Error("nobody connected")
	}
}

func (f *fronts) came(relays []*testenv.Relay, addr string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(relays, func(r *testenv.Relay) bool { return r.Came(addr) })
}
