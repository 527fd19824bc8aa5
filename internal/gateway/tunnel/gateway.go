package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/tunnel"
)

// Config is what a gateway needs. Everything but Upstream and Engine may be left zero.
type Config struct {
	Name     string
	Upstream gateway.Upstream // of an entry the exit, of an exit the server
	Exit     bool
	TLS      *tls.Config // for clients, of an exit for entries; nil: plain
	MaxConns int

	Setting codec.Setting // of what we send
	Auto    bool          // choose it from link and CPU instead
	Window  int           // log2 of the largest history's bytes; 0: 8 MiB
	History int64         // bound in bytes on what all streams remember; 0: 256 MiB
	Links   int           // that an entry makes in advance; 0: none

	HelloTimeout time.Duration // 0: 10 s
	OpenTimeout  time.Duration // for a link to be used; 0: 2 min
	IdleTimeout  time.Duration // after which a history is forgotten; 0: 1 min

	Engine *codec.Engine
	Stats  *gateway.Stats
	Log    *slog.Logger
}

const (
	defaultWindow       = codec.MaxStreamWindow
	defaultHistory      = 256 << 20
	defaultHelloTimeout = 10 * time.Second
	defaultOpenTimeout  = 2 * time.Minute
	defaultIdleTimeout  = time.Minute
)

// Gateway is one end of tunnels.
type Gateway struct {
	cfg     Config
	rule    string // of everything, for metrics
	growth  growth
	server  gateway.Server
	history history
	speeds  speeds
	reach   gateway.Reach
	bad     occasional // hellos and frames
	refused occasional // connections that the peer refused
	spares  spares
	counts  counts

	mu       sync.Mutex
	sessions map[*session]struct{}

	ctx    context.Context // ends with Shutdown
	cancel context.CancelFunc
	tend   sync.Once
}

// NewGateway returns a gateway that serves nothing yet.
func NewGateway(cfg Config) *Gateway {
	cfg.setDefaults()
	g := &Gateway{cfg: cfg, rule: "tunnel", growth: tunnelGrowth, sessions: map[*session]struct{}{}}
	g.history.limit = cfg.History
	g.spares.most = cfg.Links
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.server = gateway.Server{
		Name: cfg.Name, NewSession: g.newEntrySession, TLS: cfg.TLS, MaxConns: cfg.MaxConns,
		Log: cfg.Log, Stats: cfg.Stats,
	}
	g.reach.Trouble = "no link to the exit"
	if cfg.Exit {
		g.reach.Trouble = ""
		g.server.NewSession = g.newExitSession
		g.server.Refusal = wire.Hello{Lowest: wire.Version, Highest: wire.Version, Status: wire.StatusRefused, Codecs: 1}.Append(nil)
		g.server.HandshakeFailed = g.sayBadTLS
	}
	return g
}

func (c *Config) setDefaults() {
	if c.Window == 0 {
		c.Window = defaultWindow
	}
	if c.History == 0 {
		c.History = defaultHistory
	}
	if c.HelloTimeout == 0 {
		c.HelloTimeout = defaultHelloTimeout
	}
	if c.OpenTimeout == 0 {
		c.OpenTimeout = defaultOpenTimeout
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = defaultIdleTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Serve accepts connections on l until Shutdown.
func (g *Gateway) Serve(l net.Listener) error {
	g.tend.Do(func() { go g.tendHistories() })
	return g.server.Serve(l)
}

// Shutdown stops accepting and waits for the connections to end by themselves: nobody can
// tell where a protocol that we don't know may be interrupted. When ctx ends they are reset.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.cancel()
	g.spares.close()
	return g.server.Shutdown(ctx)
}

// newEntrySession finds a link for a client. A client for whom there is none is reset.
func (g *Gateway) newEntrySession(client net.Conn) gateway.Session {
	gateway.ResetWhenCut(client, true)
	l, err := g.link()
	if err != nil {
		g.reach.Failed(g.cfg.Log, g.cfg.Stats, linkErrorClass(err), g.cfg.Upstream.String(), err)
		_ = gateway.Abort(client)
		return nil
	}
	g.reach.Answered(g.cfg.Log, g.cfg.Upstream.String())
	return g.newSession(client, l)
}

func linkErrorClass(err error) string {
	switch {
	case errors.Is(err, wire.ErrVersion):
		return "version"
	case errors.Is(err, wire.ErrMagic), errors.Is(err, wire.ErrMalformed):
		return "bad_hello"
	case errors.Is(err, errRefused):
		return "refused"
	}
	return "upstream_unreachable"
}

// newExitSession answers an entry's hello and connects upstream when the link is opened.
func (g *Gateway) newExitSession(c net.Conn) gateway.Session {
	l, err := g.answerAndWait(c, nil, g.cfg.OpenTimeout)
	if err != nil {
		g.sayBad(c, err)
		return nil
	}
	upstream, err := g.cfg.Upstream.Dial(g.ctx)
	if err != nil {
		l.free()
		g.reach.Failed(g.cfg.Log, g.cfg.Stats, "", g.cfg.Upstream.String(), err)
		_, _ = c.Write(wire.AppendPlain(nil, wire.Frame{Kind: wire.Reset, Reason: wire.ReasonUnreachable}))
		return nil
	}
	g.reach.Answered(g.cfg.Log, g.cfg.Upstream.String())
	gateway.ResetWhenCut(upstream, true)
	return g.newSession(upstream, l)
}

// sayBad logs and counts what came instead of a hello. A link that nobody used is neither.
func (g *Gateway) sayBad(c net.Conn, err error) {
	if errors.Is(err, errUnused) {
		return
	}
	class := linkErrorClass(err)
	if class == "upstream_unreachable" {
		class = "bad_hello" // it ended or fell silent
	}
	g.cfg.Stats.Error(class)
	if n, say := g.bad.happens(time.Now()); say {
		g.cfg.Log.Warn("not an entry's hello, disconnected", "remote", c.RemoteAddr().String(), "others", n, "err", err)
	}
}

func (g *Gateway) sayBadTLS(c net.Conn, err error) {
	if errors.Is(err, io.EOF) {
		return // a look at the port
	}
	if n, say := g.bad.happens(time.Now()); say {
		g.cfg.Log.Warn("no entry that we trust, disconnected", "remote", c.RemoteAddr().String(), "others", n, "err", err)
	}
}

func (g *Gateway) newSession(local net.Conn, l *link) gateway.Session {
	s := &session{g: g, local: local, link: l.conn}
	g.enroll(s, l)
	return s
}

func (g *Gateway) enroll(s *session, l *link) {
	s.in.init(s, l)
	s.out.init(s, l)
	g.mu.Lock()
	g.sessions[s] = struct{}{}
	g.mu.Unlock()
}

func (g *Gateway) forget(s *session) {
	g.mu.Lock()
	delete(g.sessions, s)
	g.mu.Unlock()
}

// occasional lets one of many equal events through to the log.
type occasional struct {
	mu     sync.Mutex
	said   time.Time
	unsaid int
}

const occasion = 10 * time.Second

// happens reports whether to log the event, and how many were not since the last that was.
func (o *occasional) happens(now time.Time) (unsaid int, say bool) {
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
