package link

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

// Config configures an endpoint. All fields but Engine and Stats may be zero.
type Config struct {
	Name string // of the gateway, for metrics
	Rule string // label "rule" of the bytes sent; "": link

	Setting codec.Setting // for the bytes sent
	Auto    bool          // choose the setting by the speeds of link and CPU instead
	Window  int           // log2 of the largest history in bytes; 0: 23 (8 MiB)
	History int64         // limit on the memory of all histories, in bytes; 0: 256 MiB
	Growth  Growth        // of histories; zero: SharedGrowth
	Latency bool          // count the latency of pieces; false if the owner counts that of messages

	Extensions string // of the hellos sent, see wire/peer; "": none
	Key        []byte // shared key, see key.go; nil: none

	HelloTimeout time.Duration // 0: 10 s
	IdleTimeout  time.Duration // time without use after which a history is dropped; 0: 1 min

	Spares func() int // returns the number of links without a client, for metrics; nil: 0

	Engine *codec.Engine
	Stats  *gateway.Stats
	Log    *slog.Logger
}

const (
	defaultWindow       = codec.MaxStreamWindow
	defaultHistory      = 256 << 20
	defaultHelloTimeout = 10 * time.Second
	defaultIdleTimeout  = time.Minute
)

func (c *Config) setDefaults() {
	if c.Rule == "" {
		c.Rule = "link"
	}
	if c.Window == 0 {
		c.Window = defaultWindow
	}
	if c.History == 0 {
		c.History = defaultHistory
	}
	if c.Growth == (Growth{}) {
		c.Growth = SharedGrowth
	}
	if c.HelloTimeout == 0 {
		c.HelloTimeout = defaultHelloTimeout
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = defaultIdleTimeout
	}
	if c.Spares == nil {
		c.Spares = func() int { return 0 }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Endpoint makes connections links, and holds the state common to all links of one gateway. It neither listens nor
// connects.
type Endpoint struct {
	cfg     Config
	history history
	speeds  speeds
	counts  counts

	mu    sync.Mutex
	links map[*Link]struct{} // between Start and Leave

	tend  sync.Once
	over  sync.Once
	ended chan struct{}
}

// counts are metrics of histories.
type counts struct {
	begun   atomic.Uint64 // streams that were begun
	dropped atomic.Uint64 // streams dropped because they were idle
	without atomic.Uint64 // streams that could not begin for lack of memory
}

// NewEndpoint returns an endpoint without links.
func NewEndpoint(cfg Config) *Endpoint {
	cfg.setDefaults()
	e := &Endpoint{cfg: cfg, links: map[*Link]struct{}{}, ended: make(chan struct{})}
	e.history.limit = cfg.History
	return e
}

// Close stops dropping idle histories. It does not close the links: their owners do.
func (e *Endpoint) Close() { e.over.Do(func() { close(e.ended) }) }

func (e *Endpoint) enroll(l *Link) {
	e.tend.Do(func() { go panics.KeepRunning(context.Background(), e.cfg.Log, e.cfg.Stats, e.tendHistories) })
	e.mu.Lock()
	e.links[l] = struct{}{}
	e.mu.Unlock()
}

func (e *Endpoint) forget(l *Link) {
	e.mu.Lock()
	delete(e.links, l)
	e.mu.Unlock()
}

// tendHistories drops idle histories, until Close.
func (e *Endpoint) tendHistories(context.Context) {
	t := time.NewTicker(min(e.cfg.IdleTimeout, tightIdle) / 2)
	defer t.Stop()
	for {
		select {
		case <-e.ended:
			return
		case <-t.C:
		}
		e.forgetIdle(e.cfg.IdleTimeout)
	}
}

// forgetIdle drops histories that were unused for idle, or for tightIdle if memory is short for the link's client.
func (e *Endpoint) forgetIdle(idle time.Duration) {
	e.mu.Lock()
	all := make([]*Link, 0, len(e.links))
	for l := range e.links {
		all = append(all, l)
	}
	e.mu.Unlock()
	for _, l := range all {
		after := idle
		if l.client.tight() {
			after = min(after, tightIdle)
		}
		l.out.forgetIdle(after)
	}
}

// readerBytes returns the memory in bytes that a stream with a window takes at the receiving side.
func (e *Endpoint) readerBytes(window byte) int64 {
	_, n := e.cfg.Engine.StreamBytes(1, int(window))
	return int64(n)
}

// HelloFailed logs and counts an error of Answer, unless the connection ended before its first byte.
func (e *Endpoint) HelloFailed(c net.Conn, err error) {
	if errors.Is(err, errUnused) {
		return
	}
	// An error without a class is the end of the connection, or a deadline.
	class, why := cmp.Or(HelloErrorClass(err), "bad_hello"), "not a gateway's hello, disconnected"
	if errors.Is(err, errKey) {
		why = "no proof of a shared key, disconnected"
	}
	e.cfg.Stats.Error(class)
	e.Disconnected(why, c, err)
}

// Disconnected logs that a peer was disconnected because it broke a protocol.
func (e *Endpoint) Disconnected(why string, c net.Conn, err error) {
	e.cfg.Log.Warn(why, "remote", c.RemoteAddr().String(), "err", err)
}
