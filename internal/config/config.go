package config

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/price"
)

// Config is the whole file. A Config that Load or Parse returned is valid and
// has its defaults filled in; it is not changed afterwards.
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

	file  string            // as given; "" without one
	lines map[string]int    // path of a key to its line in the file
	from  map[string]string // path of a key to the variable or flag that set it

	inFile int  // how many gateways the file has; the others are of flags
	secret bool // the file has passwords
}

// Admin is the page for operators, which also serves /metrics.
type Admin struct {
	Listen    string   `yaml:"listen"`               // host:port, unix:/path or "off"
	TokenFile string   `yaml:"token_file,omitempty"` // of a secret that reading takes where the listener is not on loopback
	Hosts     []string `yaml:"hosts,omitempty,flow"` // names besides localhost, where it is
	TLS       *TLS     `yaml:"tls,omitempty"`        // client certificates are asked for and may be missing: probes have none
	Ready     string   `yaml:"ready"`                // how many gateways have to be ready for /readyz: all or any
}

// Log says what goes to standard error.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn or error
	Format string `yaml:"format"` // text or json
}

// Memory bounds the process.
type Memory struct {
	Budget Bytes `yaml:"budget"` // bytes of values in flight
}

// History says where samples of what is counted are kept; see internal/history.
type History struct {
	Path    string `yaml:"path,omitempty"`     // directory; "": in memory
	MaxSize Bytes  `yaml:"max_size,omitempty"` // 0: the default
}

// Traces say which requests get OpenTelemetry spans, and who gets those; see internal/trace.
type Traces struct {
	Endpoint     string `yaml:"endpoint,omitempty"` // URL of an OTLP/HTTP receiver; "": nothing is traced
	Ratio        Ratio  `yaml:"ratio"`              // of requests whose client says nothing of it
	MaxPerSecond int    `yaml:"max_per_second"`     // requests
	Service      string `yaml:"service"`            // name of the service that spans are of
}

// Prices say what the page takes savings to be worth; see internal/price.
type Prices struct {
	Cloud string `yaml:"cloud"`          // aws, azure or gcp
	File  string `yaml:"file,omitempty"` // with prices in place of these, relative to the config file's directory
	Zones int    `yaml:"zones"`          // that clients and servers are spread over

	CrossZone Ratio `yaml:"cross_zone,omitempty"` // share of the traffic that crosses zones; 0: as Zones says
}

// Dictionary gives a dictionary's file a name that rules use.
type Dictionary struct {
	Name string `yaml:"name"`
	File string `yaml:"file"` // relative to the config file's directory
}

// Training says how dictionaries of rules with "dictionary: auto" are made; see
// internal/autodict.
type Training struct {
	SampleMemory Bytes    `yaml:"sample_memory"` // bytes of sampled values, whole process
	RuleMemory   Bytes    `yaml:"rule_memory"`   // most of it for one rule
	MaxSample    Bytes    `yaml:"max_sample"`    // longer values are not sampled
	MinSamples   int      `yaml:"min_samples"`   // values
	MinSaving    Percent  `yaml:"min_saving"`    // of what is stored now
	Drift        Percent  `yaml:"drift"`         // more stored than was promised
	Interval     Duration `yaml:"interval"`      // between trainings for a rule
	Poll         Duration `yaml:"poll"`          // between looks at what others announced
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
	CPUBudget      Cores        `yaml:"cpu_budget,omitempty"`     // of sealing; 0: none. See effort.go
	LatencyBudget  Duration     `yaml:"latency_budget,omitempty"` // that sealing adds to 99 of 100 values; 0: none
	Pack           *Pack        `yaml:"pack,omitempty"`
	Exclude        []string     `yaml:"exclude,omitempty"`

	// AllowOpenListener serves clients of other machines from a server on this one that asks for no password.
	AllowOpenListener bool `yaml:"allow_open_listener,omitempty"`

	// Connections begin with a PROXY header, which those may send; see proxy.go.
	ProxyProtocol bool     `yaml:"proxy_protocol,omitempty"`
	ProxyFrom     []string `yaml:"proxy_from,omitempty,flow"` // addresses and networks; none: all

	// For grpc only; see grpc.go.
	MaxStreams          int      `yaml:"max_streams,omitempty"`
	UpstreamConnections int      `yaml:"upstream_connections,omitempty"`
	UpstreamEncodings   []string `yaml:"upstream_encodings,omitempty,flow"`
	Window              Bytes    `yaml:"window,omitempty"`
	MaxHeader           Bytes    `yaml:"max_header,omitempty"`
	Link                *Link    `yaml:"link,omitempty"`   // see link.go
	Peers               bool     `yaml:"peers,omitempty"`  // clients are gateways; see pair.go
	Sample              bool     `yaml:"sample,omitempty"` // all messages are measured

	// For http only; see http.go.
	UpstreamHost bool `yaml:"upstream_host,omitempty"` // the upstream is told its own name

	// For mongo, and for redis with several servers; see mongo.go and redis.go.
	Advertise string `yaml:"advertise,omitempty"`

	// For mongo only: standbys of other gateways, which make this one a standby; see mongo.go.
	Standby []string `yaml:"standby,omitempty,flow"`

	// For tarantool only; see tarantool.go.
	SQL    string   `yaml:"sql,omitempty"`         // refuse, projection or pass; "": refuse
	Shards []string `yaml:"shards,omitempty,flow"` // URLs of masters, or none; empty: the server is asked

	// For postgres only; see postgres.go.
	UsersFile string `yaml:"users_file,omitempty"` // as PgBouncer's userlist.txt
	AuthQuery string `yaml:"auth_query,omitempty"`
	StateFile string `yaml:"state_file,omitempty"` // where a move has led

	// For tunnel and tunnel-exit only, in place of rules; see tunnel.go. They have Window too.
	Setting *Setting `yaml:"setting,omitempty"`
	History Bytes    `yaml:"history,omitempty"`
	Links   *int     `yaml:"links,omitempty"` // of tunnel

	// For redis with several servers only.
	Nodes    int    `yaml:"nodes,omitempty"`    // most of them that get a listener
	Sentinel string `yaml:"sentinel,omitempty"` // address of the listener for clients of Sentinels

	Rules []Rule `yaml:"rules"`

	path string // of its keys, "gateways[2]": where the file has it; behind those are the flags'
}

// TLS is what clients meet.
type TLS struct {
	Cert     string `yaml:"cert"`
	Key      string `yaml:"key"`
	ClientCA string `yaml:"client_ca,omitempty"`
}

// UpstreamTLS is how the gateway meets its upstream (rediss://).
type UpstreamTLS struct {
	CA                 string `yaml:"ca,omitempty"`
	Cert               string `yaml:"cert,omitempty"`
	Key                string `yaml:"key,omitempty"`
	ServerName         string `yaml:"server_name,omitempty"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify,omitempty"`
}

// Rule leads from addresses to a setting; see internal/policy.
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
	NoSample   []string   `yaml:"no_sample,omitempty"` // patterns of keys whose values no dictionary is made of
	// ShareSamples makes one dictionary of the values of all logins, in place of one a login.
	ShareSamples bool `yaml:"share_samples,omitempty"`
	// Format is that in which the clients' own library compresses values, and To, if it is plain, has clients get them without.
	Format string `yaml:"format,omitempty"`
	To     string `yaml:"to,omitempty"`

	// For grpc only, where they take the place of key, field, db and type.
	Service   string          `yaml:"service,omitempty"`
	Method    []string        `yaml:"method,omitempty,flow"`
	Direction []DirectionName `yaml:"direction,omitempty,flow"` // mongo too

	// For http only, beside method and direction; see http.go.
	Host        string   `yaml:"host,omitempty"`
	Path        string   `yaml:"path,omitempty"`
	ContentType []string `yaml:"content_type,omitempty,flow"`

	// For mongo only, likewise.
	Namespace string   `yaml:"namespace,omitempty"`
	Command   []string `yaml:"command,omitempty,flow"`

	// For tarantool only, in place of key, db and type; field is theirs too.
	TupleSpace string `yaml:"space,omitempty"`
	Function   string `yaml:"function,omitempty"`
	Argument   string `yaml:"argument,omitempty"`
	// No constraint that the gateway's user may not see reads the field.
	Unconstrained bool `yaml:"unconstrained,omitempty"`
}

// Defaults of what a file leaves out, beside those in internal/policy.
const (
	DefaultAdmin          = "127.0.0.1:9470"
	DefaultListen         = "127.0.0.1:6380" // of the embedded store's gateway
	DefaultBudget         = 256 << 20        // bytes
	DefaultMaxSeal        = 32 << 20         // bytes
	DefaultMaxOpen        = 32 << 20         // bytes, if max_seal is not more
	DefaultMaxConnections = 10000
	DefaultDrainTimeout   = 30 * time.Second
	DefaultDrainGrace     = 2 * time.Second

	RuleSeal    = "seal"    // as a rule's mode
	RuleObserve = "observe" // seal, open, count, and store as it came
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

// Protocols are what gateways speak.
func Protocols() []string {
	return []string{Redis, GRPC, HTTP, Mongo, Tarantool, Postgres, Tunnel, TunnelExit}
}

// Default is what an empty file means.
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
		from:         map[string]string{},
	}
}

var defaultTraining = Training{
	SampleMemory: 64 << 20,
	RuleMemory:   8 << 20,
	MaxSample:    128 << 10,
	MinSamples:   1000,
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
	r.MinGain = gainNotGiven
}

// gainNotGiven is a rule's MinGain until the protocol is known whose default it gets.
const gainNotGiven Percent = -1

// setGain fills in the least gain of a rule that gives none: in MongoDB's messages a tenth would
// leave out inserts of one document, which gain just that.
func (r *Rule) setGain(protocol string) {
	switch {
	case r.MinGain != gainNotGiven:
	case protocol == Mongo:
		r.MinGain = 5
	default:
		r.MinGain = 10
	}
}

// DefaultRule is what gateways get that no file describes: all strings and
// hashes from 64 bytes on, zstd level 3, with dictionaries trained from what passes.
func DefaultRule() Rule {
	var r Rule
	r.setDefaults()
	r.setGain(Redis)
	r.Name = "default"
	r.Dictionary = autoDictionary
	r.Setting = &Setting{Setting: codec.Setting{Codec: codec.Zstd, Level: 3}}
	return r
}

// RedisGateway is a gateway with the defaults of everything but its addresses
// and its rules.
func RedisGateway(name, listen, upstream string, rules []Rule) Gateway {
	g := Gateway{}
	g.setDefaults()
	g.Name, g.Protocol, g.Listen, g.Upstream, g.Rules = name, Redis, listen, upstream, rules
	return g
}

// File is the name under which the configuration was loaded, "" without one.
func (c *Config) File() string { return c.file }

// path resolves a file's name against the directory of the config file.
func (c *Config) path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(c.file), name)
}

// minSize is the rule's minimum, or the default. A rule that leaves values
// alone does so with small ones too.
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

// clone copies as deep as finish changes things.
func (g Gateway) clone() Gateway {
	g.Rules = slices.Clone(g.Rules)
	return g
}

// HasStore reports that the gateway's rules are for values in a store, not for messages.
func (g *Gateway) HasStore() bool { return g.Protocol == Redis || g.Protocol == Tarantool }
