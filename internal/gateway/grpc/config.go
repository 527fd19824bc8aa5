package grpc

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/link"
	"github.com/cinch-layer/cinch/internal/trace"
)

// Defaults of what a Config leaves at zero.
const (
	DefaultMaxStreams    = 1000
	DefaultUpstreamConns = 8
	DefaultWindow        = 128 << 10 // bytes
	DefaultMaxHeader     = 64 << 10  // bytes
)

// replayBudget bounds what a gateway keeps of requests, in bytes. It is apart from the
// budget of messages: a call that holds some of one never waits for the other.
const replayBudget = 32 << 20

// Config is what a gateway is made of. It is not changed after NewGateway.
type Config struct {
	Name     string
	Upstream gateway.Upstream
	TLS      *tls.Config // that clients meet; nil: plain

	MaxConns      int // clients at a time
	MaxStreams    int // calls at a time on one client's connection
	UpstreamConns int // connections to the upstream
	Window        int // bytes that a stream's sender may be ahead of its reader, on either side
	MaxHeader     int // bytes of a header list, as HTTP/2 counts them
	MaxCompress   int // longer messages are not compressed
	MaxOpen       int // nothing longer comes out of a compressed message

	Codecs            *grpccodec.Set
	Engine            *codec.Engine      // for messages with a dictionary; nil: in pure Go
	Cache             *Cache             // shared by the gateways of a process; nil: one of its own
	Peers             bool               // clients are gateways, and may have dictionaries and links
	Links             *link.Config       // of connections with other gateways: codec, memory and times; nil: there are none
	Link              LinkMode           // with the upstream, should it turn out to be a gateway
	Sample            bool               // all messages are measured
	Kinds             *autodict.Messages // what is measured, and dictionaries for rules; nil: one that trains nothing
	UpstreamReads     []string           // encodings that the upstream is known to read
	Requests, Replies *gateway.Budget    // of the bytes of messages held
	Grace             time.Duration      // how long a drain waits for streams that are quiet
	Effort            *gateway.Effort    // what compressing messages may take; nil: no limits
	Tracer            *trace.Tracer      // nil: no call is traced
	Stats             *gateway.Stats
	Log               *slog.Logger

	// Of tests.
	linker  linker // in place of an endpoint
	noLanes bool   // links have no lanes, as those of older versions
}

func (c *Config) setDefaults() {
	orDefault(&c.MaxStreams, DefaultMaxStreams)
	orDefault(&c.UpstreamConns, DefaultUpstreamConns)
	orDefault(&c.Window, DefaultWindow)
	orDefault(&c.MaxHeader, DefaultMaxHeader)
	if c.Codecs == nil {
		c.Codecs = grpccodec.NewSet(grpccodec.Options{})
	}
	if c.Engine == nil {
		c.Engine = codec.New(codec.Options{})
	}
	if c.Kinds == nil {
		c.Kinds = autodict.NewMessages(autodict.MessagesOptions{})
	}
	if c.Cache == nil {
		c.Cache = NewCache(c.Codecs)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func orDefault(v *int, d int) {
	if *v <= 0 {
		*v = d
	}
}
