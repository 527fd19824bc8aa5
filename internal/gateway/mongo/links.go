package mongo

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/wire/peer"
)

// Links are connections between two gateways that compress with the earlier messages as context (docs/PEER.md). All
// connections of a client share them: a link carries HTTP/2, with a stream for each connection, opened by CONNECT. A
// stream carries MongoDB's messages without compression.
//
// A far gateway announces in its replies to hellos that it accepts links, if the hello lists pairName among the
// compressors. The near gateway asks before clients connect (discover), and each client's hello asks again.

const (
	maxLinks      = 4 // to one server, for the clients that share them
	linkIdle      = 5 * time.Minute
	linkWait      = 5 * time.Second // longest time that a new client waits for a link
	linkLinger    = time.Second     // time limit for closing a link
	discoverEvery = 4 * time.Minute // an announcement is valid for 10 minutes
	discoverWait  = time.Second     // longest time that a client waits for the server's first answer

	linkAuthority = "mongodb" // in CONNECT requests and in links' hellos; a constant, since the far gateway has only one server
	linkHeader    = 16 << 10  // bytes of a header list

	// Flow-control windows for replies, in bytes that the near gateway has not read yet: the initial window of a
	// stream, the maximum for a client that reads as fast as replies come, the limit on all growth beyond nearWindow
	// together, and the window of a link. The last is so large that a client that reads slowly never stops the others.
	nearWindow     = 256 << 10
	maxNearWindow  = 4 << 20
	sumNearWindows = 64 << 20
	nearConnWindow = 1 << 30
	// The same for requests that the far gateway has not read yet. farConnWindow grows while memory allows if the
	// sessions of several clients don't read: otherwise they would stop all others.
	farWindow     = 1 << 20
	farConnWindow = 4 << 20
	// maxStreams limits the streams of a link. It is so high that the far gateway's max_connections applies first.
	maxStreams = 1 << 20
)

// nearLinks holds the links to far gateways.
type nearLinks struct {
	cfg      *Config
	endpoint *link.Endpoint
	far      []*link.FarGateway // by the member's index

	widened atomic.Int64 // sum over all streams of the bytes by which their windows exceed nearWindow

	mu    sync.Mutex
	pools map[linkUsers]*linkPool
}

// linkUsers identifies the clients that share links: those of one member at one address, or at all addresses.
type linkUsers struct {
	member  int
	address string // "": all addresses
}

type linkPool struct {
	*http2.Pool[*linkConn]
	users int // number of open streams
}

// linkConn is a link to a far gateway, with HTTP/2 inside.
type linkConn struct{ http2.Pooled }

func newNearLinks(cfg *Config, e *link.Endpoint) *nearLinks {
	l := &nearLinks{cfg: cfg, endpoint: e, pools: map[linkUsers]*linkPool{}}
	for _, up := range cfg.upstreams() {
		l.far = append(l.far, &link.FarGateway{Upstream: up, Endpoint: e, Benefit: "messages are", Ask: func(ctx context.Context) (bool, error) {
			d, err := askIdentity(ctx, up)
			return d.acceptsLinks, err
		}})
	}
	return l
}

// heard records a reply of a member to a hello that offered links.
func (l *nearLinks) heard(member int, d helloReply) {
	switch {
	case l == nil || !d.ok:
	case d.acceptsLinks:
		l.far[member].Announced()
	case l.cfg.Link != Default || l.far[member].WasAnnounced():
		l.far[member].Unannounced()
	}
}

// dial opens a stream to a member for a client. It returns nil without an error if there is no link: the caller then
// connects directly. An error means that the member is unreachable.
func (l *nearLinks) dial(ctx context.Context, member int, client net.Conn) (net.Conn, error) {
	if l == nil || !l.far[member].Accepts() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, linkWait)
	defer cancel()
	users := linkUsers{member: member}
	if l.cfg.Link != Shared {
		users.address = memory.AddressOf(gateway.BudgetAddress(client))
	}
	s := &nearStream{links: l, users: users, pool: l.join(users)}
	var err error
	for range 2 { // a second attempt, in case the link has just ended
		var h *linkConn
		if h, err = s.pool.Take(ctx, &s.slot); err != nil {
			break
		}
		if s.StreamConn, err = h.Conn.Connect(ctx, linkAuthority, s.widen); err == nil {
			return gateway.NewConn(s), nil
		}
		s.pool.Release(&s.slot)
		if err != http2.ErrUnusable {
			break
		}
	}
	l.leave(users)
	if errors.Is(err, endpoint.ErrUnreachable) {
		return nil, err
	}
	return nil, nil
}

// join returns the links of some users, creating the pool if necessary, and counts one more stream on it.
func (l *nearLinks) join(users linkUsers) *linkPool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pools[users]
	if p == nil {
		for other, p := range l.pools { // drop pools without links; idle links close by themselves
			if p.users == 0 && len(p.Conns()) == 0 {
				p.Close()
				delete(l.pools, other)
			}
		}
		far := l.far[users.member]
		p = &linkPool{Pool: http2.NewPool(http2.PoolConfig[*linkConn]{
			MaxConns: maxLinks, Idle: linkIdle, Linger: linkLinger, OneClient: true,
			Faults:  http2.Faults{Log: l.cfg.Log, Stats: l.cfg.Stats},
			Connect: func(alive context.Context) (*linkConn, error) { return l.connect(alive, far, users.address) },
		})}
		l.pools[users] = p
	}
	p.users++
	return p
}

func (l *nearLinks) leave(users linkUsers) {
	l.mu.Lock()
	l.pools[users].users--
	l.mu.Unlock()
}

// connect opens a link for the clients at an address.
func (l *nearLinks) connect(alive context.Context, far *link.FarGateway, client string) (*linkConn, error) {
	c, err := far.Dial(alive, client, checkLink)
	if err != nil {
		return nil, err
	}
	return &linkConn{http2.Pooled{Conn: http2.NewClientConn(http2.KeepSecrets(c.(http2.SecretConn)), http2.ClientConfig{
		Window: nearWindow, ConnWindow: nearConnWindow, MaxHeader: linkHeader, MaxFrame: http2.LinkFrame, Faults: http2.Faults{Log: l.cfg.Log, Stats: l.cfg.Stats},
	})}}, nil
}

// linkExtensions are the extensions in the hellos of gateways for MongoDB. They make a hello longer than a message
// header, so that mongod, which parses it as one, closes the connection at once.
var linkExtensions = peer.AppendExtension("", peer.Streams, linkAuthority)

var errNotMongo = errors.New("the links of the other gateway don't carry connections to MongoDB: it is of another version, or for another protocol")

// checkLink returns an error if a link is not for MongoDB.
func checkLink(c net.Conn) error {
	l, ok := c.(interface {
		Extension(peer.Extension) (content string, ok bool)
	})
	if !ok {
		return errNotMongo
	}
	if name, _ := l.Extension(peer.Streams); name != linkAuthority {
		return errNotMongo
	}
	return nil
}

// close closes all links.
func (l *nearLinks) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pools {
		p.Close()
	}
}

// nearStream is a client's stream on a link, which takes the place of a connection to the server.
type nearStream struct {
	*http2.StreamConn
	links   *nearLinks
	users   linkUsers
	pool    *linkPool
	slot    http2.Slot
	closing sync.Once
	widened atomic.Int64 // bytes by which its window exceeds nearWindow
}

// Close ends the stream.
func (s *nearStream) Close() error {
	err := net.ErrClosed
	s.closing.Do(func() {
		err = s.StreamConn.Close()
		s.links.widened.Add(-s.widened.Load())
		s.pool.Release(&s.slot)
		s.links.leave(s.users)
	})
	return err
}

// widen reports whether the window of a client that reads fast may grow by n bytes. The stream calls it for reads.
func (s *nearStream) widen(n int64) bool {
	sum := &s.links.widened
	if nearWindow+s.widened.Load()+n > maxNearWindow || sum.Load()+n > sumNearWindows {
		return false
	}
	sum.Add(n)
	s.widened.Add(n)
	return true
}

// historyExcluder is implemented by connections that are streams of a link. KeepOut sets whether later writes are kept
// out of the link's history.
type historyExcluder interface{ KeepOut(bool) }

// streamOf returns the stream of a link that c is; nil if c is a connection of its own.
func streamOf(c net.Conn) historyExcluder {
	if wrapped, ok := c.(*gateway.Conn); ok {
		s, _ := wrapped.Conn.(historyExcluder)
		return s
	}
	return nil
}
