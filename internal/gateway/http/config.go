package http

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
)

// Defaults of fields that a Config leaves at zero.
const (
	DefaultMaxStreams = 1000
	DefaultMaxHeader  = 64 << 10 // bytes
)

const (
	headerTimeout = 10 * time.Second // from the start of a connection or request to the end of its headers
	idleTimeout   = 3 * time.Minute  // of a client's connection between requests
	bodyTimeout   = 3 * time.Minute  // limit for a pause in a request's body, until the reply begins; enforced up to a quarter later
)

// Config configures a gateway. It must not be changed after NewGateway.
type Config struct {
	Name     string
	Upstream endpoint.Upstream
	H2C      bool        // the upstream speaks HTTP/2 without TLS
	OwnHost  bool        // send the upstream's own address as Host, instead of the client's
	TLS      *tls.Config // for clients; nil: plain

	MaxConns    int // clients at a time
	MaxStreams  int // exchanges at a time on one client's HTTP/2 connection
	MaxHeader   int // bytes of the headers of a request or reply
	MaxCompress int // bytes; bodies with a larger Content-Length stay unchanged
	MaxOpen     int // bytes; limit on a decompressed body

	Grace time.Duration // time from the beginning of a drain to the end of idle connections

	Peers bool         // clients may be gateways, whose links are accepted
	Links *link.Config // links to and from other gateways; nil: no links
	Link  Sharing      // links to an upstream that turns out to be a gateway

	Sample            bool     // sample the bodies of requests to measure them
	UpstreamReads     []string // content codings that the upstream reads in requests
	Codecs            *grpccodec.Set
	Engine            *codec.Engine   // nil: pure Go
	Requests, Replies *memory.Budget  // limit the bytes of bodies in memory
	Effort            *gateway.Effort // limits the effort of compression; nil: no limits
	Stats             *gateway.Stats
	Log               *slog.Logger
}

// Sharing selects the clients whose bodies share links, and so histories: see docs/PEER.md.
type Sharing uint8

// Values of Sharing.
const (
	NoHistory Sharing = iota
	PerClient         // each client's connection has links of its own
	Shared            // all clients share links
	Default           // PerClient, but an upstream that accepts no links is not logged
)

func (c *Config) setDefaults() {
	if c.MaxStreams <= 0 {
		c.MaxStreams = DefaultMaxStreams
	}
	if c.MaxHeader <= 0 {
		c.MaxHeader = DefaultMaxHeader
	}
	if c.Codecs == nil {
		c.Codecs = grpccodec.NewSet(grpccodec.Options{})
	}
	if c.Engine == nil {
		c.Engine = codec.New(codec.Options{})
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}
