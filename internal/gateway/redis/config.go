package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strconv"
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

// What is held, and how long is waited.

// bufferBytes is what a busy connection holds in each direction. Requests and replies
// that fit are handled in place; larger ones are streamed, or staged under the budget.
const bufferBytes = 32 << 10

// maxIdleArgs is for how many arguments of a request, and sealed values of it, an idle session keeps memory.
const maxIdleArgs = 64

// freeBytes is up to where a value needs no budget: it is what a connection's buffers hold
// anyway.
const freeBytes = bufferBytes

// firstPiece of a long argument has room at once, and each further piece growth times as much as
// has come: so memory follows what comes, and not what is declared.
const (
	firstPiece = 64 << 10
	growth     = 4
)

// patience is how long the request pump waits before it sees to it that the reply pump
// can move.
const patience = 20 * time.Millisecond

// reservePatience is how many times Stall a request that must be collected waits.
const reservePatience = 5

// sealPatience is how long a value waits that could also go as it is.
const sealPatience = 200 * time.Millisecond

// askTimeout bounds every question on the second connection.
const askTimeout = 5 * time.Second

var (
	errGone    = errors.New("redis: session has ended")
	errNoRoom  = errors.New("no memory is free for this command at the moment (memory.budget), try again")
	errTooLong = errors.New("redis: request is too long to be collected")
)

var crlf = []byte("\r\n")

func itoa(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }

func swallow([]byte) error { return nil }

// maxNodesBytes bounds what is held of a reply that is rewritten: all of CLUSTER NODES, or
// one element of the others.
const maxNodesBytes = 16 << 20

// maxNameBytes is more than the longest command name; longer ones are unknown.
const maxNameBytes = 32
