package config

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Config is the whole configuration. A Config that Load or Parse returned is valid, has its defaults filled
// in, and is not changed afterwards.
type Config struct {
	Admin        Admin        `yaml:"admin"`
	Log          Log          `yaml:"log"`
	Memory       Memory       `yaml:"memory"`
	Zstd         string       `yaml:"zstd"` // auto, libzstd or go
	DrainDelay   Duration     `yaml:"drain_delay"`
	DrainTimeout Duration     `yaml:"drain_timeout"`
	DrainGrace   Duration     `yaml:"drain_grace"`
	Dictionaries []Dictionary `yaml:"dictionaries,omitempty"`
	Training     Training     `yaml:"training"`
	History      *History     `yaml:"history,omitempty"` // nil: in memory
	Traces       Traces       `yaml:"traces"`
	Prices       Prices       `yaml:"prices"`
	Gateways     []Gateway    `yaml:"gateways"`

	file    string            // as given; "" without one
	lines   map[string]int    // path of a key to its line in the file
	origins map[string]string // path of a key to the variable or flag that set it

	inFile     int  // number of gateways in the file; the rest come from flags
	hasSecrets bool // the file has passwords
}

// Admin is the page for operators, which also serves /metrics.
type Admin struct {
	Listen    string   `yaml:"listen"`               // host:port, unix:/path or "off"
	TokenFile string   `yaml:"token_file,omitempty"` // file with the token that readers need where the listener is not on loopback
	Hosts     []string `yaml:"hosts,omitempty,flow"` // accepted host names besides localhost, on loopback
	TLS       *TLS     `yaml:"tls,omitempty"`        // client certificates are requested but optional: probes have none
	Ready     string   `yaml:"ready"`                // how many gateways have to be ready for /readyz: all or any
}

// Log configures the log on standard error.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn or error
	Format string `yaml:"format"` // text or json
}

// Memory limits the process's memory.
type Memory struct {
	Budget Bytes `yaml:"budget"` // bytes of values in flight
}

// History configures where samples of the counters are kept; see internal/observe/history.
type History struct {
	Path    string `yaml:"path,omitempty"`     // directory; "": in memory
	MaxSize Bytes  `yaml:"max_size,omitempty"` // 0: the default
}

// Traces configures which requests get OpenTelemetry spans, and where these are sent; see internal/gateway/trace.
type Traces struct {
	Endpoint     string `yaml:"endpoint,omitempty"` // URL of an OTLP/HTTP receiver; "": tracing is off
	Ratio        Ratio  `yaml:"ratio"`              // of requests whose client makes no sampling decision
	MaxPerSecond int    `yaml:"max_per_second"`     // requests
	Service      string `yaml:"service"`            // service name of the spans
}

// Prices configures how the page prices savings; see internal/config/price.
type Prices struct {
	Cloud string `yaml:"cloud"`          // aws, azure or gcp
	File  string `yaml:"file,omitempty"` // overrides prices; relative to the config file's directory
	Zones int    `yaml:"zones"`          // number of zones of clients and servers

	CrossZone *Ratio `yaml:"cross_zone,omitempty"` // share of the traffic that crosses zones; nil: as Zones says
}

// Dictionary names a dictionary's file for use in rules.
type Dictionary struct {
	Name string `yaml:"name"`
	File string `yaml:"file"` // relative to the config file's directory
}

// Training configures how dictionaries are trained for rules with "dictionary: auto"; see internal/dictionary.
type Training struct {
	SampleMemory Bytes    `yaml:"sample_memory"` // bytes of sampled values, in the whole process
	RuleMemory   Bytes    `yaml:"rule_memory"`   // limit for one rule
	MaxSample    Bytes    `yaml:"max_sample"`    // longer values are not sampled
	MinSamples   int      `yaml:"min_samples"`   // values
	MinSaving    Percent  `yaml:"min_saving"`    // relative to what is stored now
	Drift        Percent  `yaml:"drift"`         // how much larger stored values are than promised
	Interval     Duration `yaml:"interval"`      // between trainings for one rule
	Poll         Duration `yaml:"poll"`          // between checks of what other gateways announced
	CPU          Percent  `yaml:"cpu"`           // of one core, while training
}

// Gateway is one listener in front of one upstream.
type Gateway struct {
	Name           string       `yaml:"name"`
	Protocol       string       `yaml:"protocol"`
	Listen         string       `yaml:"listen"`   // host:port or unix:/path
	Upstream       string       `yaml:"upstream"` // URL; may hold the gateway's own credentials
	TLS            *TLS         `yaml:"tls,omitempty"`
	UpstreamTLS    *UpstreamTLS `yaml:"upstream_tls,omitempty"`
	Enabled        bool         `yaml:"enabled"`
	MaxSeal        Bytes        `yaml:"max_seal"`
	MaxOpen        *Bytes       `yaml:"max_open"` // nil until the defaults are filled in
	MaxConnections int          `yaml:"max_connections"`
	CPUBudget      Cores        `yaml:"cpu_budget,omitempty"`     // for compressing; 0: none. See budgets.go
	LatencyBudget  Duration     `yaml:"latency_budget,omitempty"` // added by compressing, for 99 of 100 values; 0: none
	Pack           *Pack        `yaml:"pack,omitempty"`
	Exclude        []string     `yaml:"exclude,omitempty"`

	// AllowOpenListener lets clients on other machines reach a server on this machine that requires no
	// authentication.
	AllowOpenListener bool `yaml:"allow_open_listener,omitempty"`

	// For gateways with links; see peers.go.
	PeerKeyFile   string `yaml:"peer_key_file,omitempty"`  // key that the other gateway has to prove; relative to the config file's directory
	InsecurePeers bool   `yaml:"insecure_peers,omitempty"` // any client on other machines may open links

	// Connections begin with a PROXY header, which these addresses may send; see proxyprotocol.go.
	ProxyProtocol bool     `yaml:"proxy_protocol,omitempty"`
	ProxyFrom     []string `yaml:"proxy_from,omitempty,flow"` // addresses and networks; none: all

	// UpstreamConnections is for grpc and redis.
	UpstreamConnections Connections `yaml:"upstream_connections,omitempty"`

	// For grpc only; see grpc.go.
	MaxStreams        int      `yaml:"max_streams,omitempty"`
	UpstreamEncodings []string `yaml:"upstream_encodings,omitempty,flow"`
	Window            Bytes    `yaml:"window,omitempty"`
	MaxHeader         Bytes    `yaml:"max_header,omitempty"`
	Link              *Link    `yaml:"link,omitempty"`   // see link.go
	Peers             bool     `yaml:"peers,omitempty"`  // clients may be gateways; see peers.go
	Sample            bool     `yaml:"sample,omitempty"` // all messages are measured

	// For http only; see http.go.
	UpstreamHost bool `yaml:"upstream_host,omitempty"` // sends the upstream's own name as Host

	// For mongo, and for redis with several servers; see mongo.go and redis.go.
	Advertise string `yaml:"advertise,omitempty"`

	// For mongo only: standbys of other gateways, which make this one a standby; see mongo.go.
	Standby []string `yaml:"standby,omitempty,flow"`

	// For tarantool only; see tarantool.go.
	SQL    string   `yaml:"sql,omitempty"`         // refuse, projection or pass; "": refuse
	Shards []string `yaml:"shards,omitempty,flow"` // URLs of masters, or none; empty: as the server reports

	// For postgres only; see postgres.go.
	UsersFile string `yaml:"users_file,omitempty"` // as PgBouncer's userlist.txt
	AuthQuery string `yaml:"auth_query,omitempty"`
	StateFile string `yaml:"state_file,omitempty"` // file that records the server to which clients were last moved

	// For tunnel and tunnel-exit only, in place of rules; see tunnel.go. These use Window too.
	Setting *Setting `yaml:"setting,omitempty"`
	History Bytes    `yaml:"history,omitempty"`
	Links   *int     `yaml:"links,omitempty"` // of tunnel

	// For redis with several servers only.
	Nodes    int    `yaml:"nodes,omitempty"`    // maximum number of nodes that get a listener
	Sentinel string `yaml:"sentinel,omitempty"` // address of the listener for clients of Sentinels

	Rules []Rule `yaml:"rules"`

	path string // path of the gateway's keys in the file, "gateways[2]"; gateways from flags have the next numbers
}

// TLS configures TLS towards clients.
type TLS struct {
	Cert     string `yaml:"cert"`
	Key      string `yaml:"key"`
	ClientCA string `yaml:"client_ca,omitempty"`
}

// UpstreamTLS configures TLS towards the upstream (rediss://).
type UpstreamTLS struct {
	CA                 string `yaml:"ca,omitempty"`
	Cert               string `yaml:"cert,omitempty"`
	Key                string `yaml:"key,omitempty"`
	ServerName         string `yaml:"server_name,omitempty"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify,omitempty"`
}

// Rule maps addresses to a setting; see internal/policy.
type Rule struct {
	Name       string     `yaml:"name"`
	Key        string     `yaml:"key,omitempty"`
	Field      string     `yaml:"field,omitempty"`
	DB         *int       `yaml:"db,omitempty"` // nil: any
	Type       []TypeName `yaml:"type,flow,omitempty"`
	MinSize    *Bytes     `yaml:"min_size"` // nil until the defaults are filled in
	MaxSize    Bytes      `yaml:"max_size,omitempty"`
	MinGain    Percent    `yaml:"min_gain"`
	Setting    *Setting   `yaml:"setting"`
	Dictionary string     `yaml:"dictionary,omitempty"`
	Mode       string     `yaml:"mode,omitempty"`      // seal or observe; "": seal
	NoSample   []string   `yaml:"no_sample,omitempty"` // patterns of keys whose values are not used to train dictionaries
	// ShareSamples trains one dictionary on the values of all logins, instead of one per login.
	ShareSamples bool `yaml:"share_samples,omitempty"`
	// Format is the format in which the clients' library compresses values. With To set to plain, clients get
	// them decompressed.
	Format string `yaml:"format,omitempty"`
	To     string `yaml:"to,omitempty"`

	// For grpc only, in place of key, field, db and type.
	Service   string          `yaml:"service,omitempty"`
	Method    []string        `yaml:"method,omitempty,flow"`
	Direction []DirectionName `yaml:"direction,omitempty,flow"` // mongo too

	// For http only, in addition to method and direction; see http.go.
	Host        string   `yaml:"host,omitempty"`
	Path        string   `yaml:"path,omitempty"`
	ContentType []string `yaml:"content_type,omitempty,flow"`

	// For mongo only, in addition to direction.
	Namespace string   `yaml:"namespace,omitempty"`
	Command   []string `yaml:"command,omitempty,flow"`

	// For tarantool only, in place of key, db and type. These rules use field too.
	TupleSpace string `yaml:"space,omitempty"`
	Function   string `yaml:"function,omitempty"`
	Argument   string `yaml:"argument,omitempty"`
	// Unconstrained asserts that no constraint hidden from the gateway's user reads the field.
	Unconstrained bool `yaml:"unconstrained,omitempty"`
}

// Defaults for omitted keys, besides those in internal/policy.
const (
	DefaultAdmin          = "127.0.0.1:9470"
	DefaultListen         = "127.0.0.1:6380" // for the embedded store's gateway
	DefaultBudget         = 256 << 20        // bytes
	DefaultMaxSeal        = 32 << 20         // bytes
	DefaultMaxOpen        = 32 << 20         // bytes, if max_seal is not more
	DefaultMaxConnections = 10000
	DefaultDrainTimeout   = 30 * time.Second
	DefaultDrainGrace     = 2 * time.Second

	RuleSeal    = "seal"    // as a rule's mode
	RuleObserve = "observe" // compress, decompress, count, and store unchanged
	ToPlain     = "plain"   // as a rule's to

	ReadyAll = "all" // as admin.ready
	ReadyAny = "any"

	Off   = "off" // as admin.listen
	Redis = "redis"
	GRPC  = "grpc"
	HTTP  = "http"
	Mongo = "mongo"

	Tarantool  = "tarantool"
	Tunnel     = "tunnel"
	TunnelExit = "tunnel-exit"
	Postgres   = "postgres"
)

// Protocols returns the protocols of gateways.
func Protocols() []string {
	return []string{Redis, GRPC, HTTP, Mongo, Tarantool, Postgres, Tunnel, TunnelExit}
}

// Default returns the configuration of an empty file.
func Default() *Config {
	return &Config{
		Admin:        Admin{Listen: DefaultAdmin, Ready: ReadyAll},
		Log:          Log{Level: "info", Format: "text"},
		Traces:       Traces{MaxPerSecond: 100, Service: "cinch"},
		Prices:       Prices{Cloud: "aws", Zones: price.DefaultZones},
		Memory:       Memory{Budget: DefaultBudget},
		Zstd:         "auto",
		DrainTimeout: Duration(DefaultDrainTimeout),
		DrainGrace:   Duration(DefaultDrainGrace),
		Training:     defaultTraining,
		lines:        map[string]int{},
		origins:      map[string]string{},
	}
}

var defaultTraining = Training{
	SampleMemory: 64 << 20,
	RuleMemory:   8 << 20,
	MaxSample:    128 << 10,
	MinSamples:   100,
	MinSaving:    10,
	Drift:        15,
	Interval:     Duration(10 * time.Minute),
	Poll:         Duration(15 * time.Second),
	CPU:          50,
}

func (g *Gateway) setDefaults() {
	g.Enabled = true
	g.MaxSeal = DefaultMaxSeal
	g.MaxConnections = DefaultMaxConnections
}

func (r *Rule) setDefaults() {
	r.Key = "*"
	r.Type = []TypeName{"string", "hash"}
	r.MinGain = gainUnset
}

// gainUnset marks a rule without min_gain until its protocol, which determines the default, is known.
const gainUnset Percent = -1

// setGain sets the default of a rule without min_gain. For MongoDB it is a twentieth: a tenth would leave out
// inserts of one document, which gain just that.
func (r *Rule) setGain(protocol string) {
	switch {
	case r.MinGain != gainUnset:
	case protocol == Mongo:
		r.MinGain = 5
	default:
		r.MinGain = 10
	}
}

// DefaultRule returns the rule of Redis gateways that no file describes: all strings and hashes from 64 bytes
// on, zstd level 3, with automatically trained dictionaries.
func DefaultRule() Rule {
	var r Rule
	r.setDefaults()
	r.setGain(Redis)
	r.Name = "default"
	r.Dictionary = autoDictionary
	r.Setting = &Setting{Setting: codec.Setting{Codec: codec.Zstd, Level: 3}}
	return r
}

// RedisGateway returns a gateway with defaults for everything but its addresses and its rules.
func RedisGateway(name, listen, upstream string, rules []Rule) Gateway {
	g := Gateway{}
	g.setDefaults()
	g.Name, g.Protocol, g.Listen, g.Upstream, g.Rules = name, Redis, listen, upstream, rules
	return g
}

// File returns the name under which the configuration was loaded, or "" without a file.
func (c *Config) File() string { return c.file }

// path resolves a file's name against the directory of the config file.
func (c *Config) path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(c.file), name)
}

// minSize returns the rule's minimum, or the default. For a rule that leaves values alone the default is 0.
func (r *Rule) minSize() Bytes {
	switch {
	case r.MinSize != nil:
		return *r.MinSize
	case r.Setting != nil && r.Setting.Codec == codec.Raw && !r.Setting.Auto:
		return 0
	}
	return policy.DefaultMinSize
}

const autoDictionary = "auto"

// Gateway returns the gateway of that name, or nil.
func (c *Config) Gateway(name string) *Gateway {
	for i := range c.Gateways {
		if c.Gateways[i].Name == name {
			return &c.Gateways[i]
		}
	}
	return nil
}

// clone copies everything that finish changes.
func (g Gateway) clone() Gateway {
	g.Rules = slices.Clone(g.Rules)
	return g
}

// HasStore reports whether the gateway's rules are for values in a store, not for messages.
func (g *Gateway) HasStore() bool { return g.Protocol == Redis || g.Protocol == Tarantool }
