package pairs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/server"
	"github.com/cinch-layer/cinch/internal/wire/peer"
	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	number = flag.Int("pairs.sequences", 0, "sequences for each protocol; 0: few, but with make full")
	only   = flag.Uint64("pairs.only", 0, "the seed of the only sequence; 0: many sequences")
)

// What a pair may add to the bytes of one gateway: a share of them, and bytes per message and per link.
const (
	share      = 0.01
	perMessage = 64
	perLink    = 1 << 10 // for the hello and the settings of HTTP/2
)

// Cases in which a pair is known to send more, with the share that it may add.
const (
	// Long messages: a link cuts them into pieces, while one gateway compresses them as a whole.
	pieceBytes   = 64 << 10
	longBytes    = 2 * pieceBytes
	shareOfLongs = 0.03
	// Long messages on a new link: they repeat bytes that lie farther back than its first history reaches.
	shareOfCold = 0.6
	// Messages that clients have compressed: a link decompresses them, and its own zstd-3 may be worse if the history
	// does not help.
	shareOfCoded = 0.2
	// Messages unlike earlier ones: one gateway's cinch-proto uses another level of zstd (2 with libzstd), and does not
	// cut messages.
	shareOfProto = 0.1
)

// overLinks returns the share of the bytes that a pair may add if its gateways use links.
func overLinks(s *sequence) float64 {
	switch {
	case s.isCold():
		return shareOfCold
	case s.coding != "":
		return shareOfCoded
	case s.longest() > longBytes:
		return shareOfLongs
	}
	return share
}

// meteredWire is a relay that counts the bytes of its connections.
type meteredWire struct {
	*testenv.Relay
	up, down atomic.Int64 // bytes to the server, and from it
	plain    atomic.Int64 // bytes in either direction outside of links
	links    atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]bool // true: links
}

func startWire(t *testing.T, server string) *meteredWire {
	t.Helper()
	w := &meteredWire{Relay: testenv.StartRelay(t, server), conns: map[net.Conn]bool{}}
	w.Watch = w.count
	return w
}

func (w *meteredWire) count(c net.Conn, toServer bool, p []byte) {
	w.mu.Lock()
	isLink, known := w.conns[c]
	if !known && toServer {
		isLink = peer.BeginsHello(p)
		w.conns[c] = isLink
		if isLink {
			w.links.Add(1)
		}
	}
	w.mu.Unlock()
	n := int64(len(p))
	if toServer {
		w.up.Add(n)
	} else {
		w.down.Add(n)
	}
	if !isLink {
		w.plain.Add(n)
	}
}

// mark returns a function that returns the bytes since the call of mark, in each direction.
func (w *meteredWire) mark() (since func() (up, down int64)) {
	up, down := w.up.Load(), w.down.Load()
	return func() (int64, int64) { return w.up.Load() - up, w.down.Load() - down }
}

// untilLinked repeats an exchange of a client until all of it goes over a link.
func (w *meteredWire) untilLinked(t *testing.T, exchange func()) {
	t.Helper()
	testenv.Eventually(t, "an exchange goes over a link", func() bool {
		before := w.plain.Load()
		exchange()
		return w.links.Load() > 0 && w.plain.Load() == before
	})
}

// gateway runs `cinch serve` with one gateway in this process, and returns the gateway's address.
func gateway(t *testing.T, protocol, upstream, settings string) (addr string) {
	t.Helper()
	log := &testenv.Log{}
	text := fmt.Sprintf("admin: {listen: off}\ndrain_timeout: 1s\ngateways: [{name: a, protocol: %s, listen: '127.0.0.1:0', upstream: '%s', %s}]\n", protocol, upstream, settings)
	p, err := server.New(server.Options{
		Load: func() (*config.Config, error) { return config.Parse("", []byte(text), nil) },
		Log:  log,
		Zstd: server.Zstd{Engine: func(string) (*codec.Engine, error) { return codec.New(codec.Options{Zstd: native()}), nil }, Native: native},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, context.Background()) }()
	t.Cleanup(func() {
		stop(errors.New("the test ends"))
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if t.Failed() && log.Count("level=WARN")+log.Count("level=ERROR") > 0 {
			t.Logf("log of the gateway for %s:\n%s", upstream, log)
		}
	})
	addrs, _ := p.Addresses()
	return addrs[0].String()
}

// native returns libzstd, or nil without cgo.
func native() codec.ZstdCoder {
	if z, ok := libzstd.New(); ok {
		return z
	}
	return nil
}

// client runs the exchanges of one client of a sequence.
type client struct {
	prepare  func()                                // an exchange that is not counted
	exchange func(i int, x exchange)               // runs the client's i-th exchange
	stream   func(first int, exchanges []exchange) // runs them in one call, from the first-th on; nil: use exchange
	close    func()
}

// play prepares all clients, runs their warm-up, calls begin, and then runs the exchanges that are counted.
func (s *sequence) play(t *testing.T, atOnce int, begin func(), connect func(c int) client, prepare func(exchange func())) {
	t.Helper()
	var all []client
	for c := range s.clients {
		one := connect(c)
		defer one.close()
		prepare(one.prepare)
		all = append(all, one)
	}
	for c, one := range all {
		for i, x := range s.clients[c][:s.warm] {
			one.exchange(i, x)
		}
	}
	begin()
	var clients sync.WaitGroup
	for c, one := range all {
		clients.Go(func() {
			if one.stream != nil {
				one.stream(s.warm, s.clients[c][s.warm:])
				return
			}
			turns := make(chan struct{}, atOnce)
			for i, x := range s.clients[c][s.warm:] {
				turns <- struct{}{}
				clients.Go(func() {
					defer func() { <-turns }()
					one.exchange(s.warm+i, x)
				})
			}
		})
	}
	clients.Wait()
}

// playLinked runs all clients through two gateways, and returns the bytes between them.
func (s *sequence) playLinked(t *testing.T, atOnce int, between *meteredWire, connect func(c int) client) int64 {
	t.Helper()
	var since func() (up, down int64)
	s.play(t, atOnce, func() { since = between.mark() }, connect, func(exchange func()) { between.untilLinked(t, exchange) })
	up, down := since()
	return up + down
}

// once prepares a client of a single gateway, for which one exchange is enough.
func once(exchange func()) { exchange() }

// measurement runs a sequence through one gateway and through two. It returns the bytes of each on the part of the way
// that costs money, and the number of links.
type measurement func(t *testing.T, s *sequence) (one, pair, links int64)

// compareAll compares the bytes of many sequences, whose clients may use the codings. allowed returns the share of the
// bytes that a pair may add.
func compareAll(t *testing.T, run measurement, codings []string, allowed func(*sequence) float64) {
	first := testenv.Seed(t) * 1000
	n := uint64(*number)
	if n == 0 {
		n = codectest.Amount[uint64](4, 10, 400)
	}
	if *only != 0 {
		first, n = *only, 1
	}
	for seed := first; seed < first+n; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := draw(seed, codings)
			s.compare(t, run, allowed(s))
		})
	}
}

func (s *sequence) compare(t *testing.T, run measurement, allowed float64) {
	began := time.Now()
	one, pair, links := run(t, s)
	limit := one + int64(allowed*float64(one)) + perMessage*int64(s.messages()) + perLink*links
	t.Logf("%s%s: %d messages, one gateway %d bytes, a pair %d (%.3f), %v", s.style, s.options(), s.messages(), one, pair, float64(pair)/float64(max(one, 1)), time.Since(began).Round(time.Millisecond))
	if pair > limit {
		t.Errorf("a pair needs %d bytes more than %d, which is what one gateway sends and what a pair may add", pair-limit, limit)
	}
}
