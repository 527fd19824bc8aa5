package redis

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/internal/trace"
	"github.com/cinch-layer/cinch/internal/whatif"
)

// Config is what a gateway needs. Everything but Upstream may be left zero.
type Config struct {
	Name     string
	Upstream gateway.Upstream // its credentials are the gateway's own; clients bring theirs
	Behind   string           // URL of the server, or of several, without credentials, for Cinch's commands; "": not told
	// Dial connects upstream, where that is not always one address; nil: Upstream.Dial.
	Dial     func(context.Context) (net.Conn, error)
	TLS      *tls.Config    // for clients; nil: plain
	Policy   *policy.Policy // nil: seals nothing, opens everything
	Engine   *codec.Engine
	Dicts    *storeredis.NodeDicts // where dictionaries are kept upstream; nil: there are none
	Sampler  gateway.Sampler       // nil: none
	WhatIf   *whatif.Watch         // nil: none
	MaxSeal  int                   // bytes of the longest value that is sealed; 0: cinch.DefaultMaxRaw
	MaxOpen  int                   // bytes of the longest that is opened; 0: the larger of MaxSeal and cinch.DefaultMaxRaw
	MaxConns int

	// GuardLoopback refuses clients of other machines as gateway.LoopbackGuard says.
	GuardLoopback bool

	// Requests and Replies bound the bytes of large values in flight, one budget a
	// direction so that neither waits for the other; nil: no bound.
	Requests, Replies *gateway.Budget
	// Stall is how long a peer may hold bytes of a budget that others wait for and move less
	// than gateway.MinPace, before it is disconnected; 0: gateway.DefaultStall.
	Stall time.Duration
	// Grace is how long a drain waits for clients that only wait themselves.
	Grace time.Duration

	// NoCommandDocs answers COMMAND DOCS with an error, for an embedded store whose own
	// answer makes redis-cli give up.
	NoCommandDocs bool

	Effort *gateway.Effort // what sealing may take; nil: no limits
	Tracer *trace.Tracer   // nil: no command is traced

	Stats *gateway.Stats
	Log   *slog.Logger

	view topology // of other servers, of a cluster or watched by Sentinels; nil: none are known
}
