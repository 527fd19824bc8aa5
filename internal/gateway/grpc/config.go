package grpc

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
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/gateway/trace"
)

// Defaults of fields that are zero in a Config.
const (
	DefaultMaxStreams    = 1000
	DefaultUpstreamConns = 8
	DefaultWindow        = 128 << 10 // bytes
	DefaultMaxHeader     = 64 << 10  // bytes
)

// replayBudget limits the bytes of recorded requests per gateway. It is separate from the budget of messages,
// so that a call that holds bytes of one never waits for the other.
const replayBudget = 32 << 20

// Config configures a gateway. It must not change after NewGateway.
type Config struct {
	Name     string
	Upstream endpoint.Upstream
	TLS      *tls.Config // for clients; nil: plaintext

	MaxConns      int // concurrent client connections
	MaxStreams    int // concurrent calls per client connection
	UpstreamConns int // connections to the upstream
	Window        int // receive window of a stream in bytes, on either side
	MaxHeader     int // bytes of a header list, as HTTP/2 counts them
	MaxCompress   int // longer messages are not compressed, in bytes
	MaxOpen       int // limit of a decompressed message in bytes

	Codecs            *grpccodec.Set
	Engine            *codec.Engine     // codec engine of links; nil: pure Go
	Cache             *Cache            // shared by the gateways of a process; nil: a new one
	Peers             bool              // clients may be gateways, which may open links
	Links             *link.Config      // links with other gateways: codec, memory and times; nil: no links
	Link              LinkMode          // which clients share links to the upstream, if it turns out to be a gateway
	Sample            bool              // measure all messages
	Kinds             *sampled.Messages // holds the measurements
	UpstreamReads     []string          // encodings that the upstream is known to read
	Requests, Replies *memory.Budget    // budgets for the bytes of messages in memory
	Grace             time.Duration     // how long a drain waits for quiet streams
	Effort            *gateway.Effort   // CPU budget for compressing; nil: no limits
	Tracer            *trace.Tracer     // nil: no traces
	Stats             *gateway.Stats
	Log               *slog.Logger

	// For tests.
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
		c.Kinds = sampled.NewMessages(0)
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
