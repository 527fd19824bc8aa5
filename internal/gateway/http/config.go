package http

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// Defaults of what a Config leaves at zero.
const (
	DefaultMaxStreams = 1000
	DefaultMaxHeader  = 64 << 10 // bytes
)

const (
	headerTimeout = 10 * time.Second // from the first byte of a connection or request to the end of its headers
	idleTimeout   = 3 * time.Minute  // of a client's connection between requests
	bodyTimeout   = 3 * time.Minute  // without a byte of a request's body, until the reply begins; up to a quarter more
)

// Config is what a gateway is made of. It is not changed after NewGateway.
type Config struct {
	Name     string
	Upstream gateway.Upstream
	H2C      bool        // the upstream speaks HTTP/2 without TLS
	OwnHost  bool        // the upstream is told its own name as Host, not what the client wrote
	TLS      *tls.Config // that clients meet; nil: plain

	MaxConns    int // clients at a time
	MaxStreams  int // exchanges at a time on one client's HTTP/2 connection
	MaxHeader   int // bytes of the headers of a request or reply
	MaxCompress int // bodies that are longer, and say so, stay as they are
	MaxOpen     int // nothing longer comes out of a compressed body

	Grace time.Duration // after the beginning of a drain, for connections between two requests

	Peers      bool    // clients are gateways, which may have histories
	Link       Sharing // with the upstream, should it turn out to be a gateway
	LinkLevel  int     // of zstd, for what we send; 0: 3
	LinkWindow int     // log2 of what a history remembers at most, in bytes; 0: 8 MiB
	LinkMemory int64   // bytes, for all histories; 0: 256 MiB

	Sample            bool     // the bodies of requests are measured
	UpstreamReads     []string // content codings that the upstream is known to read in requests
	Codecs            *grpccodec.Set
	Engine            *codec.Engine   // nil: in pure Go
	Requests, Replies *gateway.Budget // of the bytes of bodies held
	Effort            *gateway.Effort // what compressing may take; nil: no limits
	Stats             *gateway.Stats
	Log               *slog.Logger
}

// Sharing says whose bodies share a history: see docs/HTTP.md.
type Sharing uint8

// What a Sharing may be.
const (
	NoHistory Sharing = iota
	PerClient         // each client's connection has histories of its own
	Shared            // clients have them together
)

const (
	defaultLinkLevel  = 3
	defaultLinkMemory = 256 << 20
)

func (c *Config) setDefaults() {
	if c.LinkLevel <= 0 {
		c.LinkLevel = defaultLinkLevel
	}
	if c.LinkWindow <= 0 {
		c.LinkWindow = mostWindow
	}
	if c.LinkMemory <= 0 {
		c.LinkMemory = defaultLinkMemory
	}
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
