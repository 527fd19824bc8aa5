package grpc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	lossRounds = flag.Int("losses.rounds", 1, "how often each phase of TestNoLosses runs; above 1 in all modes")
	lossCalls  = flag.Int("losses.calls", 12, "requests in a phase, each to three receivers")
)

const (
	zones    = 3 // a request goes to one receiver per zone, as with a replication factor of three
	senders  = 8
	callTime = 2 * time.Minute
)

// receiver accepts unary requests with an empty answer, as an ingester does. It checks each request and
// counts how often it was received.
type receiver struct {
	addr    string
	options []grpc.ServerOption
	server  *grpc.Server
	zstd    zstd
	lives   int

	mu      sync.Mutex
	got     map[uint64]int
	damaged int
}

func newReceiver(t *testing.T, options ...grpc.ServerOption) *receiver {
	t.Helper()
	r := &receiver{got: map[uint64]int{}, options: options, zstd: newZstd(t)}
	l := listen(t)
	r.addr = l.Addr().String()
	r.serve(l)
	t.Cleanup(func() { r.server.Stop() })
	return r
}

func (r *receiver) serve(l net.Listener) {
	options := append(r.options, grpc.ForceServerCodecV2(rawgrpc.Codec{}), grpc.MaxRecvMsgSize(64<<20))
	if r.lives++; r.lives%2 == 0 { // the supported encodings change with each restart
		//lint:ignore SA1019 there is no other way for one server of several
		options = append(options, grpc.RPCDecompressor(r.zstd))
	}
	r.server = grpc.NewServer(options...)
	push := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var m []byte
		if err := decode(&m); err != nil {
			return nil, err
		}
		r.take(m)
		return new([]byte), nil
	}
	r.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "cortex.Ingester", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Push", Handler: push}},
	}, struct{}{})
	go func(s *grpc.Server) { _ = s.Serve(l) }(r.server)
}

// die closes all connections, and starts again at the same address.
func (r *receiver) die(t *testing.T) {
	r.server.Stop()
	testenv.Eventually(t, "the receiver's port", func() bool {
		l, err := net.Listen("tcp", r.addr)
		if err == nil {
			r.serve(l)
		}
		return err == nil
	})
}

func (r *receiver) take(m []byte) {
	id, whole := checkRequest(m)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !whole {
		r.damaged++
		return
	}
	r.got[id]++
}

// newRequest returns a request with its number, content that compresses or not, and a checksum of both.
func newRequest(id uint64, rng *rand.Rand) []byte {
	m := binary.BigEndian.AppendUint64(nil, id)
	switch id % 20 {
	case 0: // small ones are sent unchanged
	case 1, 2:
		m = append(m, scrape(rng, 300)...)
	case 3:
		m = append(m, scrape(rng, 5000)...) // more than is kept for a retry
	case 4:
		for range 30_000 {
			m = append(m, byte(rng.Uint32()))
		}
	default:
		m = append(m, scrape(rng, 20)...)
	}
	sum := sha256.Sum256(m)
	return append(m, sum[:]...)
}

func checkRequest(m []byte) (id uint64, whole bool) {
	at := len(m) - sha256.Size
	if at < 8 {
		return 0, false
	}
	sum := sha256.Sum256(m[:at])
	return binary.BigEndian.Uint64(m), bytes.Equal(sum[:], m[at:])
}

// delivery records the results that a client got for its requests to one receiver.
type delivery struct {
	mu     sync.Mutex
	ok     map[uint64]bool
	failed map[uint64]error
}

func (d *delivery) note(id uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.ok[id] = true
	} else {
		d.failed[id] = err
	}
}

// lossField is three zones, each with a gateway near the client and one near the receiver.
type lossField struct {
	mode      lossMode
	receivers [zones]*receiver
	far       [zones]*testenv.GatewayServer
	near      []*testenv.GatewayServer // one for each zone, or one for all
	addrs     [zones]string            // addresses for clients
	wires     [zones]*testenv.Relay    // between near and far gateways
	told      [zones]*delivery
	next      atomic.Uint64
}

func newLossField(t *testing.T, mode lossMode, options ...grpc.ServerOption) *lossField {
	f := &lossField{mode: mode}
	for z := range zones {
		f.receivers[z] = newReceiver(t, options...)
		f.far[z] = testenv.Gateway(t, testenv.GatewayConfig{Protocol: "grpc", Upstream: f.receivers[z].addr, Rules: mode.far, Settings: mode.farSettings, Race: testenv.RaceDetector})
		f.wires[z] = testenv.StartRelay(t, f.far[z].Addr)
		f.told[z] = &delivery{ok: map[uint64]bool{}, failed: map[uint64]error{}}
	}
	f.startNear(t)
	return f
}

// startNear starts a process for each zone. If the mode has no near rules, it starts one process for all
// zones, whose gateways compress the copies of a request once.
func (f *lossField) startNear(t *testing.T) {
	if f.mode.near == "" {
		var args []string
		f.addrs[0] = net.JoinHostPort("127.0.0.1", fmt.Sprint(testenv.FreePort(t)))
		for z := 1; z < zones; z++ {
			f.addrs[z] = net.JoinHostPort("127.0.0.1", fmt.Sprint(testenv.FreePort(t)))
			args = append(args, "--grpc", f.addrs[z]+"=grpc://"+f.wires[z].Addr)
		}
		g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "grpc", Listen: f.addrs[0], Upstream: f.wires[0].Addr, Args: args, Race: testenv.RaceDetector})
		f.near = append(f.near, g)
		return
	}
	for z, wire := range f.wires {
		g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "grpc", Upstream: wire.Addr, Rules: f.mode.near, Settings: f.mode.nearSettings, Race: testenv.RaceDetector})
		f.near, f.addrs[z] = append(f.near, g), g.Addr
	}
}

// send makes n requests from several senders. If fresh, each request uses new connections.
func (f *lossField) send(t *testing.T, n int, fresh bool) {
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n))
	for range senders {
		all.Go(func() {
			conns := f.dial(t)
			for left.Add(-1) >= 0 {
				if fresh {
					closeAll(conns)
					conns = f.dial(t)
				}
				f.sendOne(t, conns)
			}
			closeAll(conns)
		})
	}
	all.Wait()
}

func (f *lossField) dial(t *testing.T) (conns [zones]*grpc.ClientConn) {
	for z := range zones {
		conns[z] = (*certificates)(nil).dial(t, f.addrs[z], rawCalls, soonAgain)
	}
	return conns
}

// soonAgain sets a short reconnect backoff: by default clients wait ever longer before they reconnect, in
// the end longer than the timeout of a call.
var soonAgain = grpc.WithConnectParams(grpc.ConnectParams{
	Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second}, MinConnectTimeout: callTime,
})

func closeAll(conns [zones]*grpc.ClientConn) {
	for _, c := range conns {
		_ = c.Close()
	}
}

// sendOne sends the same request to all zones at once.
func (f *lossField) sendOne(t *testing.T, conns [zones]*grpc.ClientConn) {
	id := f.next.Add(1)
	m := newRequest(id, rand.New(rand.NewPCG(1, id)))
	var all sync.WaitGroup
	for z, conn := range conns {
		all.Go(func() {
			timeout := callTime
			if isHasty(id, z) {
				timeout = time.Duration(id%29) * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			in := bytes.Clone(m)
			err := conn.Invoke(ctx, "/cortex.Ingester/Push", &in, new([]byte), grpc.WaitForReady(true))
			f.told[z].note(id, err)
		})
	}
	all.Wait()
}

// isHasty reports whether the deadline in this zone is so short that the call may end anywhere on its path,
// while others wait for its copy.
func isHasty(id uint64, z int) bool { return id%7 == 0 && int(id%zones) == z }

// check compares the results that clients got with the received requests so far. No request may arrive
// twice, damaged or unsent. It returns the number of failed calls.
func (f *lossField) check(t *testing.T) (failed int) {
	t.Helper()
	for z, r := range f.receivers {
		r.mu.Lock()
		d := f.told[z]
		d.mu.Lock()
		lost, twice, strange := 0, 0, 0
		for id := range d.ok {
			if r.got[id] == 0 {
				lost++
			}
		}
		for id, n := range r.got {
			if n > 1 {
				twice++
			}
			if !d.ok[id] && d.failed[id] == nil {
				strange++
			}
		}
		if lost+twice+strange+r.damaged > 0 {
			t.Errorf("zone %d: of %d calls that went well %d are lost; %d came twice, %d damaged, %d nobody sent", z, len(d.ok), lost, twice, r.damaged, strange)
		}
		for id, err := range d.failed {
			switch c := status.Code(err); {
			case isHasty(id, z) && c == codes.DeadlineExceeded:
				continue
			case c != codes.Unavailable && c != codes.Internal:
				t.Errorf("zone %d, request %d: %v", z, id, err)
			}
			failed++
		}
		d.mu.Unlock()
		r.mu.Unlock()
	}
	return failed
}

// lossModes are configurations of the two gateways of a zone.
type lossMode struct{ name, near, nearSettings, far, farSettings string }

var lossModes = []lossMode{
	{name: "one near process"},
	{"link", linkRules, linkNear, "- {direction: reply, min_size: 64, setting: cinch-proto}", linkFar},
	{"plain pair", "- {min_size: 64, setting: zstd}", "", "- {min_size: 64, setting: zstd}", ""},
	{"shared link", linkRules, "link: {history: shared}", "- {direction: reply, min_size: 64, setting: cinch-proto}", linkFar},
	{"columns", "- {min_size: 64, setting: cinch-proto}", "", "- {min_size: 64, setting: zstd}", ""},
	{"link by default", "- {setting: zstd-3}", "", "- {direction: reply, setting: zstd-3}", "peers: true"},
	{"one is enough for the server", "- {min_size: 64, setting: zstd}", "", "- {min_size: 64, setting: gzip-1}", ""},
}

// TestNoLosses counts requests at three receivers behind pairs of gateways: a request whose call succeeded
// has arrived exactly once and unchanged, and none arrives twice. While no process dies no call fails.
func TestNoLosses(t *testing.T) {
	t.Parallel()
	testenv.NeedsPrograms(t)
	modes := lossModes[1:2]
	if testenv.IsFull() {
		modes = lossModes[:2]
	}
	if *lossRounds > 1 {
		modes = lossModes
	}
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			age := grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 500 * time.Millisecond, MaxConnectionAgeGrace: time.Minute})
			f := newLossField(t, mode, age)
			for round := range *lossRounds {
				f.phases(t, round)
			}
		})
	}
}

// phases runs the phases of one round. The receivers keep sending GOAWAY in all of them.
func (f *lossField) phases(t *testing.T, round int) {
	n := *lossCalls
	f.send(t, senders*2, true) // cold: no connection or state is known yet, and all senders start at once
	f.send(t, n, false)
	f.send(t, n/2, true)
	f.changeRules(t, n)
	if failed := f.check(t); failed > 0 && round == 0 {
		t.Errorf("%d calls failed though nothing died: %v", failed, f.failures())
	}
	before := f.check(t)
	rng := rand.New(rand.NewPCG(2, uint64(round)))
	for name, kill := range map[string]func(z int){
		"receiver": func(z int) { f.receivers[z].die(t) },
		"far":      func(z int) { f.restart(t, f.far[z]) },
		"near":     func(z int) { f.restart(t, f.near[z%len(f.near)]) },
		"wire":     func(z int) { f.wires[z].Point(f.far[z].Addr) },
	} {
		done := make(chan struct{})
		go func() { defer close(done); f.send(t, n, round%2 == 1) }()
		for z, alive := 0, true; alive; z++ {
			kill(z % zones)
			select {
			case <-done:
				alive = false
			case <-time.After(time.Duration(20+rng.IntN(200)) * time.Millisecond):
			}
		}
		after := f.check(t)
		t.Logf("round %d, %s dies: %d of %d calls failed", round, name, after-before, zones*n)
		before = after
	}
	f.send(t, n/2, false)
	if after := f.check(t); after > before {
		t.Errorf("%d calls failed when all was well again", after-before)
	}
}

// changeRules reloads the near gateways with other rules repeatedly while requests are sent.
func (f *lossField) changeRules(t *testing.T, n int) {
	if f.mode.near == "" {
		return
	}
	done := make(chan struct{})
	go func() { defer close(done); f.send(t, n, false) }()
	rules := []string{"- {min_size: 64, setting: minlz}", "- {min_size: 64, setting: raw}", "- {min_size: 64, setting: zstd}", f.mode.near}
	for i, alive := 0, true; alive || i%len(rules) != 0; i++ {
		for _, g := range f.near {
			g.Configure(t, f.mode.nearSettings, rules[i%len(rules)])
			if err := g.Signal(syscall.SIGHUP); err != nil {
				t.Error(err)
			}
		}
		select {
		case <-done:
			alive = false
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (f *lossField) restart(t *testing.T, g *testenv.GatewayServer) {
	g.Kill()
	if err := g.Restart(); err != nil {
		t.Error(err)
	}
}

func (f *lossField) failures() (texts []string) {
	for _, d := range f.told {
		for id, err := range d.failed {
			texts = append(texts, fmt.Sprint(id, ": ", err))
		}
	}
	return texts
}
