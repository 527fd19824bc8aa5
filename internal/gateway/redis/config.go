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
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/trace"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/policy/simulate"
)

// Config configures a Gateway. Every field but Upstream may be zero.
type Config struct {
	Name        string
	Upstream    endpoint.Upstream // its credentials are the gateway's own; clients bring theirs
	UpstreamURL string            // the server's URLs without credentials, reported to Cinch's commands; "": not reported
	// Dial connects upstream if that is not always one address; nil: gateway.Dial.
	Dial     func(context.Context) (net.Conn, error)
	TLS      *tls.Config    // for clients; nil: plain
	Policy   *policy.Policy // nil: compresses nothing, decompresses everything
	Engine   *codec.Engine
	Dicts    Dicts           // the dictionaries kept upstream; nil: none
	Sampler  gateway.Sampler // nil: none
	WhatIf   *simulate.Watch // nil: none
	MaxSeal  int             // longest value in bytes that is compressed; 0: envelope.DefaultMaxRaw
	MaxOpen  int             // longest value in bytes that is decompressed; 0: max(MaxSeal, envelope.DefaultMaxRaw)
	MaxConns int

	// SharedConns is the largest number of connections that clients of one login, database and protocol version share;
	// 0: each client has one of its own.
	SharedConns int
	// UnsharedClients is the number of clients that have a connection each before others share: for few clients
	// sharing only adds a step.
	UnsharedClients int

	// GuardLoopback refuses clients from other machines, see gateway.LoopbackGuard.
	GuardLoopback bool

	// Requests and Replies limit the bytes of large values in flight. Each direction has its own budget, so
	// that neither waits for the other; nil: no limit.
	Requests, Replies *memory.Budget
	// Stall limits how long a peer that holds bytes of a budget may move less than memory.MinPace while
	// others wait for them, before it is disconnected; 0: gateway.DefaultStall.
	Stall time.Duration
	// Grace limits how long a drain waits for clients that are in a transaction or blocked in a command.
	Grace time.Duration

	// NoCommandDocs answers COMMAND DOCS with an error. It is for an embedded store whose own answer makes
	// redis-cli give up.
	NoCommandDocs bool

	Effort *gateway.Effort // budgets for compressing; nil: no limits
	Tracer *trace.Tracer   // nil: no command is traced

	Stats *gateway.Stats
	Log   *slog.Logger

	view topology // other servers, of a cluster or watched by Sentinels; nil: none are known
}

// Dicts holds the dictionaries that the server stores. Except for Dictionary its methods don't block.
type Dicts interface {
	envelope.Dictionaries
	// ReadyOn reports whether values sent on a connection may name the dictionary. dialed is a time taken before the
	// connection was dialed.
	ReadyOn(number uint32, dialed time.Time) bool
	// Dialed is called when a connection for values was opened.
	Dialed()
	// Lost is called when the server has closed a connection: it may restart with fewer dictionaries.
	Lost()
	// Kick is called after a command that may have removed dictionaries.
	Kick()
}

// Limits of memory and of waiting.

// bufferBytes is the buffer of a busy connection in each direction. Requests and replies that fit are handled
// in place; larger ones are streamed, or staged under the budget.
const bufferBytes = 32 << 10

// maxIdleArgs limits the arguments and compressed values for which an idle session keeps memory.
const maxIdleArgs = 64

// freeBytes is the largest value that needs no budget: a connection's buffers hold as much anyway.
const freeBytes = bufferBytes

// firstPiece is allocated at once for a long argument, and each further piece is growth times what has
// arrived, so that memory follows what arrives and not what is declared.
const (
	firstPiece = 64 << 10
	growth     = 4
)

// patience limits how long the request pump waits for the reply pump. After that it unblocks the reply pump, which may
// be waiting for a client that does not read.
const patience = 20 * time.Millisecond

// A request that must be collected waits for memory for at most reservePatience times Config.Stall.
const reservePatience = 5

// sealPatience limits how long a value that could also be forwarded unchanged waits for memory.
const sealPatience = 200 * time.Millisecond

// askTimeout limits each request on the second connection.
const askTimeout = 5 * time.Second

var (
	errSessionEnded = errors.New("redis: session has ended")
	errNoMemory     = errors.New("no memory is free for this command at the moment (memory.budget), try again")
	errTooLong      = errors.New("redis: request is too long to be buffered")
)

var crlf = []byte("\r\n")

func itoa(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }

func discardBytes([]byte) error { return nil }

// maxNodesBytes limits the memory for a reply that is rewritten: all of CLUSTER NODES, or one element of the
// others.
const maxNodesBytes = 16 << 20

// maxNameBytes is longer than any command name; commands with longer names are unknown.
const maxNameBytes = 32
