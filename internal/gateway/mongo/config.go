package mongo

import (
	"crypto/tls"
	"log/slog"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/trace"
)

// Config is what a gateway needs. Everything but Upstream and Engine may be left zero.
type Config struct {
	Name     string
	Upstream gateway.Upstream
	Behind   string // URL of the server or servers without credentials, for Cinch's commands; "": not told
	// Members are those of a replica set for whose primary the gateway is a load balancer,
	// in place of Upstream; none: it is not.
	Members  []gateway.Upstream
	TLS      *tls.Config      // for clients; nil: plain
	Policy   *policy.Messages // nil: compresses nothing, opens everything
	Engine   *codec.Engine
	MaxConns int

	// GuardLoopback refuses clients of other machines as gateway.LoopbackGuard says.
	GuardLoopback bool

	// Advertise is the host:port by which clients reach the gateway, where that is not the
	// listener's own address.
	Advertise string
	// Standby makes the gateway one that only tells drivers of the others of its process, as an
	// arbiter would, and has those name standbys of other processes: these addresses. Members are
	// asked for what it tells. See standby.go.
	Standby  []string
	Topology *Topology // shared by the gateways of a process; nil: one of its own

	Peers  bool               // clients may be gateways, and then get and give dictionaries
	Sample bool               // all messages are measured
	Kinds  *autodict.Messages // what is measured, and dictionaries for rules; nil: one that trains nothing

	// Requests and Replies bound the bytes of large messages in flight, one budget a
	// direction so that neither waits for the other; nil: no bound.
	Requests, Replies *gateway.Budget
	// Stall is how long a peer may hold bytes of a budget that others wait for and move less
	// than gateway.MinPace, before it is disconnected; 0: gateway.DefaultStall.
	Stall time.Duration
	// Grace is how long a drain waits for clients that only wait themselves.
	Grace time.Duration
	// Begin is how long a client that has just come has for its first request in a drain; 0: gateway.BeginPatience.
	Begin time.Duration

	Effort *gateway.Effort // what compressing may take; nil: no limits
	Tracer *trace.Tracer   // nil: no command is traced

	Stats *gateway.Stats
	Log   *slog.Logger
}

// complete sets what may be left zero.
func (c *Config) complete() {
	if c.Stall <= 0 {
		c.Stall = gateway.DefaultStall
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Topology == nil {
		c.Topology = &Topology{}
	}
	if c.Kinds == nil {
		c.Kinds = autodict.NewMessages(autodict.MessagesOptions{})
	}
}

// isStandby reports that the gateway answers as an arbiter, and names those of others.
func (c *Config) isStandby() bool { return len(c.Standby) > 0 }

// upstreams are what the gateway leads to.
func (c *Config) upstreams() []gateway.Upstream {
	if len(c.Members) > 0 {
		return c.Members
	}
	return []gateway.Upstream{c.Upstream}
}

// leadsTo names them, for the log.
func (c *Config) leadsTo() string {
	var names []string
	for _, up := range c.upstreams() {
		names = append(names, up.String())
	}
	return strings.Join(names, ",")
}
