package mongo

import (
	"crypto/tls"
	"log/slog"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/gateway/trace"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Config configures a gateway. All fields except Upstream and Engine may be zero.
type Config struct {
	Name        string
	Upstream    endpoint.Upstream
	UpstreamURL string // URL of the server or servers without credentials, told to Cinch's commands; "": not told
	// Members are the members of a replica set. If there are any, the gateway is a load balancer for their
	// primary, and Upstream is not used.
	Members  []endpoint.Upstream
	TLS      *tls.Config      // for clients; nil: plain
	Policy   *policy.Messages // nil: compresses nothing, decompresses everything
	Engine   *codec.Engine
	MaxConns int

	// GuardLoopback enables gateway.LoopbackGuard, which refuses clients on other machines.
	GuardLoopback bool

	// Advertise is the host:port by which clients reach the gateway, if that is not the listener's address.
	Advertise string
	// Standby lists the addresses of standbys of other processes. If there are any, this gateway is a standby: it only
	// tells drivers the addresses of the other gateways of its process, as an arbiter would, and makes those gateways
	// name the addresses in Standby. It asks Members for the replica set's description. See arbiter.go.
	Standby  []string
	Topology *Topology // shared by the gateways of a process; nil: not shared

	Peers  bool              // accept links from clients that are gateways
	Link   Sharing           // which clients share a link, if the upstream is a gateway
	Links  *link.Config      // for links in both directions; nil: no links
	Sample bool              // measure all messages
	Kinds  *sampled.Messages // holds the measurements

	// Requests and Replies limit the bytes of large messages in flight. Each direction has its own budget so
	// that neither waits for the other; nil: no limit.
	Requests, Replies *memory.Budget
	// Stall limits the time that a peer may move less than gateway.MinPace while it holds bytes of a budget
	// that others wait for. Then it is disconnected. 0: gateway.DefaultStall.
	Stall time.Duration
	// Grace limits the time that a drain waits for clients whose requests only wait for a cursor's next
	// documents, which may never come.
	Grace time.Duration
	// MonitorLead is the time for which a drain lets other sessions go on after it has ended those of drivers'
	// monitors; 0: 2 s.
	MonitorLead time.Duration
	// Begin limits the time that a drain gives a new client for its first request; 0: gateway.BeginPatience.
	Begin time.Duration

	Effort *gateway.Effort // limits on the cost of compressing; nil: none
	Tracer *trace.Tracer   // nil: no command is traced

	Stats *gateway.Stats
	Log   *slog.Logger
}

// Sharing selects which clients share a link, and with it the link's history.
type Sharing int

// The values of Sharing.
const (
	Default    Sharing = iota // like PerAddress; nothing is logged if the server accepts no links
	PerAddress                // clients at the same address share a link
	Shared                    // all clients share a link
	NoHistory                 // no links
)

// complete sets the defaults of zero fields.
func (c *Config) complete() {
	if c.Stall <= 0 {
		c.Stall = gateway.DefaultStall
	}
	if c.MonitorLead == 0 {
		c.MonitorLead = defaultMonitorLead
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Topology == nil {
		c.Topology = &Topology{}
	}
	if c.Kinds == nil {
		c.Kinds = sampled.NewMessages(0)
	}
}

// isStandby reports whether the gateway is a standby, which answers as an arbiter.
func (c *Config) isStandby() bool { return len(c.Standby) > 0 }

// upstreams returns the servers that the gateway connects to.
func (c *Config) upstreams() []endpoint.Upstream {
	if len(c.Members) > 0 {
		return c.Members
	}
	return []endpoint.Upstream{c.Upstream}
}

// upstreamNames returns the upstreams as text, for the log.
func (c *Config) upstreamNames() string {
	var names []string
	for _, up := range c.upstreams() {
		names = append(names, up.String())
	}
	return strings.Join(names, ",")
}
