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

// Config configures an endpoint. Everything but Engine may be left zero.
type Config struct {
	Name string // of the gateway, for metrics
	Rule string // what metrics of all gateways call what goes over links

	Setting codec.Setting // of what we send
	Auto    bool          // choose it from link and CPU instead
	Window  int           // log2 of the largest history's bytes; 0: 8 MiB
	History int64         // bound in bytes on what all streams remember; 0: 256 MiB
	Growth  Growth        // of histories; zero: SharedGrowth
	Latency bool          // measure how long pieces take: whose owner counts messages does that itself

	Extensions string // of our hellos, see wire/peer; "": none
	Key        []byte // that the other gateway has to prove, see key.go; nil: none

	HelloTimeout time.Duration // 0: 10 s
	IdleTimeout  time.Duration // after which a history is forgotten; 0: 1 min

	Spares func() int // links that wait for a client, for metrics; nil: none do

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

// Endpoint manages the links of one gateway. It neither listens nor connects: it is handed connections.
type Endpoint struct {
	cfg     Config
	history history
	speeds  speeds
	counts  counts
	bad     Occasional // hellos and frames

	mu    sync.Mutex
	links map[*Link]struct{} // those that were started

	tend  sync.Once
	over  sync.Once
	ended chan struct{}
}

// counts are an endpoint's own, beside those of all gateways.
type counts struct {
	begun   atomic.Uint64 // streams
	dropped atomic.Uint64
	without atomic.Uint64
}

// NewEndpoint returns an endpoint without links.
func NewEndpoint(cfg Config) *Endpoint {
	cfg.setDefaults()
	e := &Endpoint{cfg: cfg, links: map[*Link]struct{}{}, ended: make(chan struct{})}
	e.history.limit = cfg.History
	return e
}

// Close ends the care for idle histories. Links are their owners' to close.
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

// tendHistories makes links that carry nothing forget, until Close.
func (e *Endpoint) tendHistories(context.Context) {
	t := time.NewTicker(min(e.cfg.IdleTimeout, tightIdle) / 2)
	defer t.Stop()
	for {
		select {
		case <-e.ended:
			return
		case <-t.C:
		}
		idle := e.cfg.IdleTimeout
		if e.history.tight() {
			idle = min(idle, tightIdle)
		}
		e.forgetIdle(idle)
	}
}

func (e *Endpoint) forgetIdle(idle time.Duration) {
	e.mu.Lock()
	all := make([]*Link, 0, len(e.links))
	for l := range e.links {
		all = append(all, l)
	}
	e.mu.Unlock()
	for _, l := range all {
		l.out.forgetIdle(idle)
	}
}

// readerBytes returns the memory that a stream of a window takes at the side that reads it.
func (e *Endpoint) readerBytes(window byte) int64 {
	_, n := e.cfg.Engine.StreamBytes(1, int(window))
	return int64(n)
}

// HelloFailed logs and counts what came instead of a hello. An unused link is neither logged nor counted.
func (e *Endpoint) HelloFailed(c net.Conn, err error) {
	if errors.Is(err, errUnused) {
		return
	}
	// Without a class of its own it ended or fell silent.
	class, why := cmp.Or(HelloErrorClass(err), "bad_hello"), "not a gateway's hello, disconnected"
	if errors.Is(err, errKey) {
		why = "no proof of a shared key, disconnected"
	}
	e.cfg.Stats.Error(class)
	e.Disconnected(why, c, err)
}

// Disconnected logs, now and then, that a peer was disconnected for its own mistake.
func (e *Endpoint) Disconnected(why string, c net.Conn, err error) {
	if n, say := e.bad.Happens(time.Now()); say {
		e.cfg.Log.Warn(why, "remote", c.RemoteAddr().String(), "others", n, "err", err)
	}
}

func (e *Endpoint) sayBadFrame(c net.Conn, err error) {
	if n, say := e.bad.Happens(time.Now()); say {
		e.cfg.Log.Warn("the peer sent what is no valid frame, disconnected", "peer", c.RemoteAddr().String(), "others", n, "err", err)
	}
}

// Occasional lets one of many equal events through to the log.
type Occasional struct {
	mu     sync.Mutex
	said   time.Time
	unsaid int
}

const occasion = 10 * time.Second

// Happens reports whether to log the event, and how many were not since the last that was.
func (o *Occasional) Happens(now time.Time) (unsaid int, say bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.said.IsZero() && now.Sub(o.said) < occasion {
		o.unsaid++
		return 0, false
	}
	unsaid, o.unsaid = o.unsaid, 0
	o.said = now
	return unsaid, true
}
