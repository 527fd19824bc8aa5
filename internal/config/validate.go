package config

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

const (
	maxBytes       = 512 << 20 // Redis's own limit of a value
	maxConnections = 1 << 20
	minHistory     = 1 << 20 // bytes
	maxZones       = 100
)

func (c *Config) validate() error {
	v := validator{problems{c: c}}
	v.process()
	v.dictionaries()
	v.training()
	if len(c.Gateways) == 0 {
		v.add("gateways", "list at least one, or run without a configuration to try Cinch", "there are no gateways")
	}
	v.listeners()
	names := map[string]bool{}
	states := map[string]string{}
	for i := range c.Gateways {
		g := &c.Gateways[i]
		v.pack(g, g.path, states)
		v.gateway(g, g.path, names)
	}
	return v.err()
}

func (v *validator) process() {
	c := v.c
	if c.Admin.Listen != Off {
		v.address("admin.listen", c.Admin.Listen)
	}
	v.serverTLS(c.Admin.TLS, "admin")
	v.oneOf("admin.ready", c.Admin.Ready, ReadyAll, ReadyAny)
	v.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	v.oneOf("log.format", c.Log.Format, "text", "json")
	v.oneOf("zstd", c.Zstd, "auto", "libzstd", "go")
	if c.DrainDelay < 0 {
		v.add("drain_delay", "", "is negative")
	}
	if c.DrainGrace < 0 {
		v.add("drain_grace", "", "is negative")
	}
	if c.DrainTimeout < 0 {
		v.add("drain_timeout", "", "is negative")
	}
	if h := c.History; h != nil && h.MaxSize != 0 && h.MaxSize < minHistory {
		v.add("history.max_size", "the default is 64MiB", "%s is below %s", h.MaxSize, Bytes(minHistory))
	}
	v.traces()
	v.prices()
	if c.Memory.Budget < 1<<20 {
		v.add("memory.budget", "write at least 1MiB, better 256MiB", "%s is too small", c.Memory.Budget)
	}
}

func (v *validator) traces() {
	t := v.c.Traces
	if t.Endpoint == "" {
		return
	}
	u, err := url.Parse(t.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		v.add("traces.endpoint", "write http://collector:4318; put headers with secrets into OTEL_EXPORTER_OTLP_HEADERS", "%q is not the URL of an OTLP/HTTP receiver", t.Endpoint)
	}
	if t.MaxPerSecond < 1 {
		v.add("traces.max_per_second", "leave traces out to trace nothing", "is below 1")
	}
}

func (v *validator) prices() {
	p := v.c.Prices
	v.oneOf("prices.cloud", p.Cloud, price.Clouds...)
	if p.Zones < 1 || p.Zones > maxZones {
		v.add("prices.zones", "write how many zones clients and servers are spread over; 1 if no traffic crosses zones", "%d is not between 1 and %d", p.Zones, maxZones)
	}
}

func (v *validator) dictionaries() {
	seen := map[string]bool{}
	for i, d := range v.c.Dictionaries {
		path := fmt.Sprintf("dictionaries[%d]", i)
		if v.name(path+".name", d.Name, seen) && d.Name == autoDictionary {
			v.add(path+".name", "choose another name", "%q is reserved", d.Name)
		}
		if d.File == "" {
			v.add(path+".file", "name a file that 'cinch dict train' wrote", "is missing")
		}
	}
}

// minSampleMemory is in bytes. Less is too little to train on.
const minSampleMemory = 64 << 10

func (v *validator) training() {
	t := &v.c.Training
	memory := func(path string, b Bytes) {
		if b < minSampleMemory {
			v.add(path, "the defaults are 64MiB for all rules and 8MiB for one", "%s is below %s", b, Bytes(minSampleMemory))
		}
	}
	memory("training.sample_memory", t.SampleMemory)
	memory("training.rule_memory", t.RuleMemory)
	if t.MaxSample < 64 {
		v.add("training.max_sample", "", "%s is below 64", t.MaxSample)
	}
	if t.MinSamples < 64 {
		v.add("training.min_samples", "a hundred or more make good dictionaries", "%d is below 64", t.MinSamples)
	}
	if t.CPU < 1 {
		v.add("training.cpu", "", "is below 1%%")
	}
	if t.Interval <= 0 {
		v.add("training.interval", "", "is not above 0s")
	}
	if t.Poll < Duration(10*time.Millisecond) {
		v.add("training.poll", "", "is below 10ms")
	}
}

func (v *validator) gateway(g *Gateway, path string, names map[string]bool) {
	v.name(path+".name", g.Name, names)
	v.oneOf(path+".protocol", g.Protocol, Protocols()...)
	v.address(path+".listen", g.Listen)
	v.upstream(g, path)
	v.tls(g, path)
	v.limits(g, path)
	v.budgets(g, path)
	v.grpc(g, path)
	checkHTTP(v, g, path)
	v.peers(g, path)
	v.mongo(g, path)
	v.tunnel(g, path)
	v.postgres(g, path)
	v.tarantool(g, path)
	v.redis(g, path)
	v.proxy(g, path)
	for i, glob := range g.Exclude {
		v.glob(fmt.Sprintf("%s.exclude[%d]", path, i), glob)
		if glob == "" {
			v.add(fmt.Sprintf("%s.exclude[%d]", path, i), "", "is empty")
		}
	}
	rules := map[string]bool{}
	for i := range g.Rules {
		v.rule(&g.Rules[i], fmt.Sprintf("%s.rules[%d]", path, i), rules)
	}
	checkToPlain(v, g.Rules, path)
}

func (v *validator) limits(g *Gateway, path string) {
	if g.MaxSeal < 1 || g.MaxSeal > maxBytes {
		v.add(path+".max_seal", "", "%s is not between 1 and %s", g.MaxSeal, Bytes(maxBytes))
	}
	switch {
	case g.MaxOpen == nil:
	case *g.MaxOpen < 1 || *g.MaxOpen > maxBytes:
		v.add(path+".max_open", "", "%s is not between 1 and %s", *g.MaxOpen, Bytes(maxBytes))
	case *g.MaxOpen < g.MaxSeal:
		v.add(path+".max_open", "values up to max_seal are compressed, and must fit max_open to be read again", "%s is below max_seal, %s", *g.MaxOpen, g.MaxSeal)
	}
	if g.MaxConnections < 1 || g.MaxConnections > maxConnections {
		v.add(path+".max_connections", "", "%d is not between 1 and %d", g.MaxConnections, maxConnections)
	}
}

func (v *validator) upstream(g *Gateway, path string) {
	path += ".upstream"
	hint := cmp.Or(upstreamHints[g.Protocol], upstreamHints[Redis])
	if g.Upstream == "" {
		v.add(path, hint, "is missing")
		return
	}
	up, err := g.parseUpstream()
	if err == nil {
		err = g.checkScheme()
	}
	if err != nil {
		v.add(path, hint, "%v", err)
		return
	}
	if g.Protocol == GRPC || g.Protocol == HTTP {
		v.grpcUpstream(up, path, hint)
	} else if g.Protocol != Postgres && up.Database != "" && up.Database != "0" {
		v.add(path, "leave it out of the URL", "names a database, but clients select their own database")
	}
	if up.Network == "tcp" && up.Address == g.Listen {
		v.add(path, "", "is the gateway's own address")
	}
	if g.UpstreamTLS != nil && up.TLS == nil {
		v.add(path[:len(path)-len(".upstream")]+".upstream_tls", "write the upstream as rediss://…, grpcs://…, mongodb://…/?tls=true or postgres://…/?sslmode=require", "the upstream URL does not use TLS")
	}
}

func (v *validator) serverTLS(t *TLS, path string) {
	if t == nil {
		return
	}
	if t.Cert == "" {
		v.add(path+".tls.cert", "name a PEM file", "is missing")
	}
	if t.Key == "" {
		v.add(path+".tls.key", "name a PEM file", "is missing")
	}
}

func (v *validator) tls(g *Gateway, path string) {
	v.serverTLS(g.TLS, path)
	if t := g.UpstreamTLS; t != nil {
		if (t.Cert == "") != (t.Key == "") {
			v.add(path+".upstream_tls", "", "cert and key must be given together")
		}
		if t.InsecureSkipVerify && (t.CA != "" || t.ServerName != "") {
			v.add(path+".upstream_tls.insecure_skip_verify", "drop one of them", "can't be combined with ca and server_name")
		}
	}
}

func (v *validator) rule(r *Rule, path string, names map[string]bool) {
	if r.Name != "" {
		v.name(path+".name", r.Name, names)
	}
	v.glob(path+".key", r.Key)
	v.glob(path+".field", r.Field)
	if r.DB != nil && *r.DB < 0 {
		v.add(path+".db", "", "%d is negative", *r.DB)
	}
	switch {
	case len(r.Type) == 0:
		v.add(path+".type", "leave it out for string and hash", "is empty")
	case r.Field != "" && !slices.ContainsFunc(r.Type, func(t TypeName) bool { return t != "string" }):
		v.add(path+".field", "strings have no fields", "only makes sense for type hash or stream")
	}
	if minSize := r.minSize(); r.MaxSize != 0 && r.MaxSize < minSize {
		v.add(path+".max_size", "", "%s is below min_size, %s", r.MaxSize, minSize)
	}
	v.setting(r, path)
	v.mode(r, path)
	checkClientFormat(v, r, path)
	for i, glob := range r.NoSample {
		v.glob(fmt.Sprintf("%s.no_sample[%d]", path, i), glob)
	}
	if r.ShareSamples && r.Dictionary != autoDictionary {
		v.add(path+".share_samples", "it is only for dictionary: auto", "this rule takes no samples")
	}
	if len(r.NoSample) > 0 && r.Dictionary != autoDictionary {
		v.add(path+".no_sample", "it is only for dictionary: auto", "this rule takes no samples")
	}
}

// mode checks the mode of a rule. Observing has no effect beyond the gateway's memory, so it trains no
// dictionary either.
func (v *validator) mode(r *Rule, path string) {
	if r.Mode == "" {
		return
	}
	v.oneOf(path+".mode", r.Mode, RuleSeal, RuleObserve)
	if r.Mode != RuleObserve {
		return
	}
	if r.Dictionary == autoDictionary {
		v.add(path+".dictionary", "name a dictionary from a file; cinch plan estimates what one would save", "auto stores dictionaries in the upstream, and a rule with mode: observe stores nothing")
	}
	if r.Setting != nil && r.Setting.Codec == codec.Raw && !r.Setting.Auto {
		v.add(path+".setting", "for example zstd-3", "raw has nothing to observe")
	}
}

func (v *validator) setting(r *Rule, path string) {
	if r.Setting == nil {
		v.add(path+".setting", "for example zstd-3, lz4, or raw to leave values uncompressed", "is missing")
		return
	}
	if r.Setting.Dict != 0 && r.Dictionary != "" {
		v.add(path+".dictionary", "drop one of them", "the setting %s already names one by its number", r.Setting)
	}
	if r.Dictionary == "" {
		return
	}
	path += ".dictionary"
	known := func(d Dictionary) bool { return d.Name == r.Dictionary }
	switch {
	case r.Dictionary != autoDictionary && !slices.ContainsFunc(v.c.Dictionaries, known):
		v.add(path, v.dictionaryHint(r.Dictionary), "unknown dictionary %q", r.Dictionary)
	case r.Setting.Codec != codec.Zstd && !r.Setting.Auto:
		v.add(path, "write setting: zstd-3", "%s does not support dictionaries", r.Setting.Codec)
	}
}

func (v *validator) dictionaryHint(name string) string {
	var names []string
	for _, d := range v.c.Dictionaries {
		names = append(names, d.Name)
	}
	if near := terminal.Nearest(name, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "list it under dictionaries"
}
