package grpc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// events are small messages as services send them: the same fields, other values.
type events struct{ random *rand.Rand }

func newEvents(seed uint64) *events { return &events{rand.New(rand.NewPCG(seed, 7))} }

func (e *events) next() []byte {
	r := e.random
	regions := []string{"eu-central-1", "us-east-1", "ap-southeast-2", "sa-east-1"}
	states := []string{"ACCEPTED", "IN_DELIVERY", "DELIVERED", "RETURNED_TO_SENDER"}
	names := []string{"Ada", "Grace", "Edsger", "Barbara", "Donald", "Leslie", "Tony", "Frances"}
	return fmt.Appendf(nil, "\n\x24%08x-%04x-4%03x\x12\x0a%s\x1a{\"order_id\":%d,\"customer\":{\"name\":\"%s\",\"tier\":\"gold\",\"locale\":\"de-DE\"},"+
		"\"state\":\"%s\",\"warehouse\":\"wh-%s-%d\",\"amount_cents\":%d,\"currency\":\"EUR\",\"updated_at\":\"2026-11-%02dT%02d:%02d:%02d.%03dZ\",\"carrier\":\"north-freight\"}",
		r.Uint32(), r.IntN(65536), r.IntN(4096), regions[r.IntN(4)], r.IntN(1e9), names[r.IntN(8)], states[r.IntN(4)],
		regions[r.IntN(4)], r.IntN(40), r.IntN(1e6), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1000))
}

// training makes dictionaries fast enough for a test.
func training() *dictionary.Messages {
	t := dictionary.NewTrainer(dictionary.TrainerOptions{
		NewEngine: func() *codec.Engine { return codec.New(codec.Options{}) }, Share: 1,
	})
	return dictionary.NewMessages(dictionary.MessagesOptions{
		Trainer: t, MaxDict: 4 << 10, MinSamples: 150, Interval: time.Minute, Poll: 20 * time.Millisecond,
	})
}

func asPeer(c *Config) {
	c.Peers, c.Kinds = true, training()
}

func withTraining(c *Config) { c.Kinds = training() }

func autoRule(t testing.TB) policy.MessageRule {
	return policy.MessageRule{Name: "auto", Setting: set(t, "zstd-3"), MinSize: 64, MinGain: 0.1, AutoDict: true}
}

// converse sends n messages through a stream that echoes them, each checked.
func converse(t testing.TB, c *grpc.ClientConn, e *events, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hangs := time.AfterFunc(2*time.Minute, cancel)
	defer hangs.Stop()
	s := stream(ctx, t, c, "Both")
	for range n {
		hangs.Reset(2 * time.Minute) // for each message: trainings may have the machine meanwhile
		in, out := e.next(), []byte(nil)
		if err := s.SendMsg(&in); err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(&out); err != nil || !bytes.Equal(in, out) {
			t.Fatalf("%d bytes came back as %d: %v", len(in), len(out), err)
		}
	}
	_ = s.CloseSend()
}

// untilPaired makes calls, unary ones and streams, until messages of both go with
// dictionaries both ways.
func untilPaired(t testing.TB, c *grpc.ClientConn, near, far rig, e *events) {
	t.Helper()
	paired := func(talk func()) bool {
		before := [2]uint64{near.pairs.Messages.Compressed.Load(), far.pairs.Messages.Compressed.Load()}
		talk()
		return near.pairs.Messages.Compressed.Load() > before[0] && far.pairs.Messages.Compressed.Load() > before[1]
	}
	testenv.Eventually(t, "messages go with dictionaries", func() bool {
		streams := paired(func() { converse(t, c, e, 100) })
		unary := paired(func() {
			for range 100 {
				mustEcho(t, c, e.next())
			}
		})
		return streams && unary
	})
}

func between(far rig) gateway.Traffic { return far.stats.Snapshot().Wire.Client }

// Messages that no dictionary has seen take less than half of what zstd makes of them,
// on the wire between the gateways, in both directions.
func TestDictionariesBetweenGateways(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	server := startServer(t, echo, grpc.StatsHandler(seen))
	rules := rulesOf(t, autoRule(t))
	far := startGateway(t, "grpc://"+server, asPeer)
	near := startGateway(t, "grpc://"+far.addr, withTraining)
	far.SetPolicy(rulesOf(t, policy.MessageRule{
		Name: "replies", Direction: policy.Reply, Setting: set(t, "zstd-3"), MinSize: 64, AutoDict: true,
	}))
	near.SetPolicy(rules)
	c := connect(t, near.addr)
	untilPaired(t, c, near, far, newEvents(1))

	plain := autoRule(t)
	plain.AutoDict = false
	plainFar := startGateway(t, "grpc://"+server, nil)
	plainNear := startGateway(t, "grpc://"+plainFar.addr, nil)
	plainFar.SetPolicy(rulesOf(t, plain))
	plainNear.SetPolicy(rulesOf(t, plain))
	pc := connect(t, plainNear.addr)
	converse(t, pc, newEvents(2), 100)

	const n = 200
	a, b := between(far), between(plainFar)
	converse(t, c, newEvents(3), n)
	converse(t, pc, newEvents(3), n)
	a2, b2 := between(far), between(plainFar)
	dictIn, plainIn := a2.ReceivedBytes-a.ReceivedBytes, b2.ReceivedBytes-b.ReceivedBytes
	dictOut, plainOut := a2.SentBytes-a.SentBytes, b2.SentBytes-b.SentBytes
	t.Logf("%d messages of %d bytes: requests %d bytes with a dictionary and %d without, replies %d and %d",
		n, len(newEvents(3).next()), dictIn, plainIn, dictOut, plainOut)
	if dictIn*2 > plainIn || dictOut*2 > plainOut {
		t.Errorf("%d and %d bytes, without dictionaries %d and %d", dictIn, dictOut, plainIn, plainOut)
	}
	if seen.of("") == 0 || seen.of(pairEncoding) > 0 {
		t.Errorf("the server got %s", seen)
	}
	for _, g := range []rig{near, far} {
		if errors := g.stats.Snapshot().Errors; len(errors) > 0 {
			t.Error(errors)
		}
	}
}

// What gateways say of dictionaries reaches neither clients nor servers.
func TestPairStaysPrivate(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	all := metadata.MD{} // a set of values by name
	server := startServer(t, func(srv any, s grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(s.Context())
		mu.Lock()
		for name, values := range md {
			for _, v := range values {
				if !slices.Contains(all[name], v) {
					all[name] = append(all[name], v)
				}
			}
		}
		mu.Unlock()
		return echo(srv, s)
	})
	far := startGateway(t, "grpc://"+server, asPeer)
	near := startGateway(t, "grpc://"+far.addr, withTraining)
	for _, g := range []rig{near, far} {
		g.SetPolicy(rulesOf(t, autoRule(t)))
	}
	c := connect(t, near.addr)
	untilPaired(t, c, near, far, newEvents(1))
	var header, trailer metadata.MD
	in := newEvents(2).next()
	mustEcho(t, c, in, grpc.Header(&header), grpc.Trailer(&trailer), grpc.UseCompressor("zstd"))
	mu.Lock()
	defer mu.Unlock()
	all = metadata.Join(all, header, trailer)
	for name, values := range all {
		if name == "cinch-dictionaries" || name == "cinch-dictionary" || bytes.Contains(fmt.Append(nil, values), []byte(pairEncoding)) {
			t.Errorf("%s: %v", name, values)
		}
	}
}

// A far gateway that is replaced, by one that has none of the dictionaries, by one that takes
// none, by one without rules, by the server itself: no call fails but those that were on
// their way, and no byte changes.
func TestFarGatewayIsReplaced(t *testing.T) {
	t.Parallel()
	server := startServer(t, echo)
	link := newSwitch(t)
	start := func(change func(*Config), rules ...policy.MessageRule) rig {
		g := startGateway(t, "grpc://"+server, change)
		g.SetPolicy(rulesOf(t, rules...))
		return g
	}
	far := start(asPeer, autoRule(t))
	near := startGateway(t, "grpc://"+link.addr, withTraining)
	near.SetPolicy(rulesOf(t, autoRule(t)))
	link.to(far.addr)
	c := connect(t, near.addr)
	untilPaired(t, c, near, far, newEvents(1))

	plain := autoRule(t)
	plain.AutoDict = false
	again := start(asPeer, autoRule(t))
	for i, addr := range []string{again.addr, start(nil, plain).addr, start(nil).addr, server, far.addr} {
		link.to(addr)
		e := newEvents(uint64(10 + i))
		for {
			_, err := unary(within(t), c, "Unary", e.next())
			if err == nil {
				break
			}
			if status.Code(err) != codes.Unavailable { // it was on its way when the link was cut
				t.Fatal(err)
			}
		}
		for range 50 {
			mustEcho(t, c, e.next())
		}
	}
	if near.pairs.Dicts.Sent.Load() < 3 { // two to the first, and one at least to the one that took its place
		t.Errorf("%d dictionaries were sent over new connections", near.pairs.Dicts.Sent.Load())
	}
	untilPaired(t, c, near, far, newEvents(99))
}

func h2c() *http.Transport {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: p, DisableCompression: true}
}

// balancer deals the calls of a connection out to several gateways, and what gateways tell
// each other to the first only.
func balancer(t testing.TB, addrs ...string) string {
	t.Helper()
	var n atomic.Int64
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			to := addrs[0]
			if !strings.HasPrefix(r.In.URL.Path, pairPaths) {
				to = addrs[int(n.Add(1))%len(addrs)]
			}
			r.SetURL(&url.URL{Scheme: "http", Host: to})
			r.Out.Header["Te"] = r.In.Header["Te"]
		},
		Transport:     h2c(),
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	return startRaw(t, proxy.ServeHTTP)
}

// A balancer between the gateways gives calls to far gateways that were told nothing: they
// are sent again, no client notices, and after a while no dictionaries are used.
func TestBalancerBetweenGateways(t *testing.T) {
	server := startServer(t, echo)
	far := [2]rig{startGateway(t, "grpc://"+server, asPeer), startGateway(t, "grpc://"+server, asPeer)}
	near := startGateway(t, "grpc://"+balancer(t, far[0].addr, far[1].addr), func(c *Config) {
		withTraining(c)
		c.UpstreamConns = 1
	})
	for _, g := range []rig{near, far[0], far[1]} {
		g.SetPolicy(rulesOf(t, autoRule(t)))
	}
	c := connect(t, near.addr)
	e := newEvents(1)
	testenv.Eventually(t, "dictionaries were missing", func() bool {
		for range 100 {
			mustEcho(t, c, e.next())
			if near.pairs.Dicts.Missing.Load() >= maxMissing {
				return true
			}
		}
		return false
	})
	for range 100 {
		mustEcho(t, c, e.next())
	}
	mustEcho(t, c, payload(100_000))
	if got := near.pairs.Dicts.Missing.Load(); got != maxMissing || near.pairs.Messages.Compressed.Load() == 0 {
		t.Errorf("%d times a dictionary was missing, %d messages had one", got, near.pairs.Messages.Compressed.Load())
	}
}

// A dictionary of a file is used at once, and messages with too little gain go plain.
func TestNamedDictionary(t *testing.T) {
	var samples [][]byte
	for e := newEvents(1); len(samples) < 1000; {
		samples = append(samples, e.next())
	}
	d, err := dict.Train(samples, dict.TrainOptions{Size: 8 << 10, Segment: 128})
	if err != nil {
		t.Fatal(err)
	}
	server := startServer(t, echo)
	rule := policy.MessageRule{Name: "named", Setting: set(t, "zstd-1"), MinSize: 64, MinGain: 0.1, Dict: d}
	far := startGateway(t, "grpc://"+server, asPeer)
	near := startGateway(t, "grpc://"+far.addr, nil)
	for _, g := range []rig{near, far} {
		g.SetPolicy(rulesOf(t, rule))
	}
	c := connect(t, near.addr)
	untilPaired(t, c, near, far, newEvents(2))
	noise := make([]byte, 1000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	before := between(far).ReceivedBytes
	mustEcho(t, c, noise)
	if got := between(far).ReceivedBytes - before; got > 1200 {
		t.Errorf("%d bytes for a message of 1000 that can't be compressed", got)
	}
	for _, n := range []int{0, 1, 63, 64, 300, dictionary.MaxMessageSample, dictionary.MaxMessageSample + 1, 200_000} {
		mustEcho(t, c, payload(n))
		mustEcho(t, c, payload(n), grpc.UseCompressor("gzip"))
	}
	if near.kinds.Status() != nil && len(near.kinds.Status()) > 0 {
		t.Errorf("messages were sampled: %+v", near.kinds.Status())
	}
}

// Three gateways in a row, of which the middle one is both.
func TestChainOfPairs(t *testing.T) {
	t.Parallel()
	server := startServer(t, echo)
	far := startGateway(t, "grpc://"+server, asPeer)
	middle := startGateway(t, "grpc://"+far.addr, asPeer)
	near := startGateway(t, "grpc://"+middle.addr, withTraining)
	for _, g := range []rig{near, middle, far} {
		g.SetPolicy(rulesOf(t, autoRule(t)))
	}
	c := connect(t, near.addr)
	untilPaired(t, c, near, middle, newEvents(1))
	untilPaired(t, c, middle, far, newEvents(2))
	converse(t, c, newEvents(3), 200)
	for _, g := range []rig{near, middle, far} {
		if errors := g.stats.Snapshot().Errors; len(errors) > 0 {
			t.Error(errors)
		}
	}
}

// Only what is asked for is sampled, and of what is sampled nothing but numbers is shown.
func TestMessagesAreMeasured(t *testing.T) {
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.Sample = true })
	quiet := startGateway(t, "grpc://"+server, nil)
	c := connect(t, g.addr)
	for range 50 {
		mustEcho(t, c, payload(1000))
		mustEcho(t, connect(t, quiet.addr), payload(1000))
	}
	mustEcho(t, c, payload(1000), grpc.UseCompressor("gzip"))
	mustEcho(t, c, payload(100_000))
	status := g.kinds.Status()
	if len(status) != 2 || len(quiet.kinds.Status()) != 0 {
		t.Fatalf("%+v, %+v", status, quiet.kinds.Status())
	}
	for _, s := range status {
		if s.Method != "/test.Echo/Unary" || s.Messages != 51 || s.Bytes != 150_000 || s.Compressed != 1 || s.SampleMessages != 50 {
			t.Errorf("%+v", s)
		}
		estimates := g.kinds.Estimates(s, []string{"s2", "zstd-1"}, g.cfg.Codecs.AppendCompress)
		if len(estimates) != 2 || estimates[0].Ratio < 2 || estimates[1].Ratio < estimates[0].Ratio {
			t.Errorf("%+v", estimates)
		}
	}
}

// cutter is a listener's address whose connections go where it says, and are cut when
// that changes.
type cutter struct {
	addr string
	t    testing.TB
	next chan string
	cut  chan struct{} // all connections have been
}

func newSwitch(t testing.TB) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{addr: l.Addr().String(), t: t, next: make(chan string), cut: make(chan struct{})}
	t.Cleanup(func() { _ = l.Close() })
	go c.run(l)
	return c
}

// to cuts all connections and leads new ones to addr; with none they are closed at once. When it returns no
// call can be answered over an old one.
func (c *cutter) to(addr string) {
	c.next <- addr
	<-c.cut
}

func (c *cutter) run(l net.Listener) {
	accepted := make(chan net.Conn)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn
		}
	}()
	target := ""
	var open []net.Conn
	for {
		select {
		case target = <-c.next:
			for _, conn := range open {
				_ = conn.Close()
			}
			open = nil
			c.cut <- struct{}{}
		case in, ok := <-accepted:
			if !ok {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				_ = in.Close()
				continue
			}
			open = append(open, in, out)
			go pump(in, out)
			go pump(out, in)
		}
	}
}

func pump(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			_ = to.Close()
			return
		}
	}
}

// More dictionaries than there are places: the first ones stay, the rest go without.
func TestMoreDictionariesThanPlaces(t *testing.T) {
	server := startServer(t, echo)
	far := startGateway(t, "grpc://"+server, asPeer)
	near := startGateway(t, "grpc://"+far.addr, nil)
	var rules []policy.MessageRule
	const n = maxSent + 4
	for i := range n {
		rules = append(rules, policy.MessageRule{
			Space: fmt.Sprintf("s%d", i), Direction: policy.Request, Setting: set(t, "zstd-1"), MinSize: 64, Dict: someDict(t, i),
		})
	}
	near.SetPolicy(rulesOf(t, rules...))
	far.SetPolicy(rulesOf(t, rules...))
	c := connect(t, near.addr)
	in := payload(300)
	testenv.Eventually(t, "all places are taken", func() bool {
		for i := range n {
			var out []byte
			_ = c.Invoke(within(t), fmt.Sprintf("/s%d/Unary", i), &in, &out) // the server knows no such method
		}
		return near.pairs.Dicts.Sent.Load() >= maxSent
	})
	for i := range 5 * n {
		var out []byte
		_ = c.Invoke(within(t), fmt.Sprintf("/s%d/Unary", i%n), &in, &out)
	}
	if sent, missing := near.pairs.Dicts.Sent.Load(), near.pairs.Dicts.Missing.Load(); sent != maxSent || missing != 0 || near.pairs.Dicts.Failed.Load() != 0 {
		t.Errorf("%d dictionaries were sent, %d were missing", sent, missing)
	}
}
