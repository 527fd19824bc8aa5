package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/tunnel"
)

var (
	errRefused = errors.New("tunnel: the exit is full or about to end")
	errUnused  = errors.New("tunnel: nothing came")
)

// link is a connection to the peer after the hellos. It ends by abort or free, or becomes a session's.
type link struct {
	g      *Gateway
	conn   net.Conn
	window byte   // that the peer keeps of our pieces without a grant
	own    byte   // that we keep of the peer's
	kept   int64  // of the gateway's history, for own
	codecs uint16 // that the peer opens
	made   time.Time
}

// firstWindow is what a connection may remember from its first piece on. It grows with the
// bytes that come.
const firstWindow = 17

// sends are the codecs of pieces. What the format has beside them compresses less at more CPU.
const sends = 1<<codec.Raw | 1<<codec.Snappy | 1<<codec.S2 | 1<<codec.MinLZ | 1<<codec.LZ4 | 1<<codec.Zstd

// ourHello grants nothing yet.
var ourHello = wire.Hello{Lowest: wire.Version, Highest: wire.Version, Codecs: sends}

// newLink sets aside what our hello is to grant, where there is memory for it.
func (g *Gateway) newLink(c net.Conn) (*link, wire.Hello) {
	l, ours := &link{g: g, conn: c, made: time.Now()}, ourHello
	window := byte(min(firstWindow, g.cfg.Window))
	if n := g.readerBytes(window); g.history.promise(n) {
		l.own, l.kept, ours.Window = window, n, window
	}
	return l, ours
}

// free gives back what no session has taken over.
func (l *link) free() {
	l.g.history.withdraw(l.kept)
	l.kept = 0
}

// abort is for links that become nobody's.
func (l *link) abort() {
	_ = gateway.Abort(l.conn)
	l.free()
}

// answer reads an entry's hello, of which ahead has been read already, and answers it.
func (g *Gateway) answer(c net.Conn, ahead []byte) (*link, error) {
	_ = c.SetDeadline(time.Now().Add(g.cfg.HelloTimeout))
	theirs, err := readHello(io.MultiReader(bytes.NewReader(ahead), c))
	if errors.Is(err, errUnused) { // a port that is looked at, by a load balancer say
		return nil, err
	}
	if errors.Is(err, wire.ErrVersion) {
		refusal := ourHello
		refusal.Status = wire.StatusVersion
		_, _ = c.Write(refusal.Append(nil))
	}
	if err != nil {
		return nil, err
	}
	l, ours := g.newLink(c)
	l.window, l.codecs = theirs.Window, theirs.Codecs
	_, err = c.Write(ours.Append(nil))
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		l.free()
		return nil, err
	}
	return l, nil
}

// readHello reads no byte beyond it. A connection that ends before its first byte gives errUnused.
func readHello(c io.Reader) (wire.Hello, error) {
	b := make([]byte, wire.HelloLen, wire.MaxHello)
	if n, err := io.ReadFull(c, b); n == 0 && err != nil {
		return wire.Hello{}, fmt.Errorf("%w: %w", errUnused, err)
	} else if err != nil {
		return wire.Hello{}, fmt.Errorf("%w: %d bytes, then %w", wire.ErrMagic, n, err)
	}
	n, err := wire.HelloSize(b)
	if err != nil {
		return wire.Hello{}, err
	}
	b = b[:n]
	if _, err := io.ReadFull(c, b[wire.HelloLen:]); err != nil {
		return wire.Hello{}, fmt.Errorf("%w: hello cut short: %w", wire.ErrMalformed, err)
	}
	return wire.ParseHello(b)
}

// answerAndWait is answer, and waits until the link gets a client: it may have been made in advance.
func (g *Gateway) answerAndWait(c net.Conn, ahead []byte, timeout time.Duration) (*link, error) {
	l, err := g.answer(c, ahead)
	if err != nil {
		return nil, err
	}
	if err := l.awaitOpen(timeout); err != nil {
		l.free()
		return nil, err
	}
	return l, nil
}

func (l *link) awaitOpen(timeout time.Duration) error {
	_ = l.conn.SetReadDeadline(time.Now().Add(timeout))
	var b [1]byte
	if _, err := io.ReadFull(l.conn, b[:]); err != nil {
		return fmt.Errorf("%w: %w", errUnused, err)
	}
	if wire.Kind(b[0]) != wire.Open {
		return fmt.Errorf("%w: %02x before the link is open", wire.ErrMalformed, b[0])
	}
	return l.conn.SetReadDeadline(time.Time{})
}

// connect makes a link to the exit.
func (g *Gateway) connect(ctx context.Context) (*link, error) {
	c, err := g.cfg.Upstream.Dial(ctx)
	if err != nil {
		return nil, err
	}
	l, err := g.greet(c)
	if err != nil {
		_ = gateway.Abort(c)
		return nil, err
	}
	return l, nil
}

// greet says hello. An error leaves c to the caller.
func (g *Gateway) greet(c net.Conn) (*link, error) {
	_ = c.SetDeadline(time.Now().Add(g.cfg.HelloTimeout))
	l, ours := g.newLink(c)
	theirs, err := exchangeHellos(c, ours)
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		l.free()
		return nil, err
	}
	l.window, l.codecs = theirs.Window, theirs.Codecs
	return l, nil
}

func exchangeHellos(c net.Conn, ours wire.Hello) (theirs wire.Hello, err error) {
	if _, err := c.Write(ours.Append(nil)); err != nil {
		return theirs, fmt.Errorf("hello: %w", err)
	}
	if theirs, err = readHello(c); err != nil {
		return theirs, fmt.Errorf("hello: %w", err)
	}
	switch theirs.Status {
	case wire.StatusOK:
		return theirs, nil
	case wire.StatusVersion:
		return theirs, fmt.Errorf("%w, says the exit", wire.ErrVersion)
	default:
		return theirs, errRefused
	}
}

// link returns an open link, made in advance if there is one.
func (g *Gateway) link() (*link, error) {
	for {
		l := g.spares.take()
		spare := l != nil
		if !spare {
			var err error
			if l, err = g.connect(g.ctx); err != nil {
				return nil, err
			}
		}
		_, err := l.conn.Write([]byte{byte(wire.Open)})
		if err == nil {
			g.refill()
			return l, nil
		}
		l.abort()
		if !spare {
			return nil, err
		}
	}
}

// refill makes links in advance, as many as are missing, without waiting for them. A failure
// is left to the next client to find out.
func (g *Gateway) refill() {
	for g.spares.wants() {
		go func() {
			l, err := g.connect(g.ctx)
			if err != nil {
				l = nil
			}
			g.spares.put(l)
		}()
	}
}

// spares are links that wait for a client. They save it the handshakes.
type spares struct {
	most int

	mu     sync.Mutex
	links  []*link // oldest first
	coming int     // being made
	closed bool
}

// maxSpareAge is well below the time after which an exit closes what isn't used.
const maxSpareAge = time.Minute

// wants reports whether one more is to be made, which put has to follow.
func (p *spares) wants() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.links)+p.coming >= p.most {
		return false
	}
	p.coming++
	return true
}

// put takes what became of a wanted link, nil if nothing.
func (p *spares) put(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.coming--
	switch {
	case l == nil:
	case p.closed:
		l.abort()
	default:
		p.links = append(p.links, l)
	}
}

// take returns the newest link that is good, or nil.
func (p *spares) take() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.links) > 0 {
		l := p.links[len(p.links)-1]
		p.links = p.links[:len(p.links)-1]
		if time.Since(l.made) < maxSpareAge && !gateway.PeerClosed(l.conn) {
			return l
		}
		l.abort()
	}
	return nil
}

// expire closes links that have become too old.
func (p *spares) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.links) > 0 && time.Since(p.links[0].made) >= maxSpareAge {
		p.links[0].abort()
		p.links = p.links[1:]
	}
}

func (p *spares) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, l := range p.links {
		l.abort()
	}
	p.links = nil
}

func (p *spares) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}
