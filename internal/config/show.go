package config

import (
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const redacted = "xxxxx"

// Redacted returns a copy that is safe to show: passwords in URLs are replaced. Names of key files stay;
// their contents are never in a Config.
func (c *Config) Redacted() *Config {
	shown := *c
	shown.Gateways = slices.Clone(c.Gateways)
	for i := range shown.Gateways {
		g := &shown.Gateways[i]
		g.Upstream = RedactURL(g.Upstream)
		g.Shards = slices.Clone(g.Shards)
		for n := range g.Shards {
			if !g.NoShards() {
				g.Shards[n] = RedactURL(g.Shards[n])
			}
		}
	}
	return &shown
}

// RedactURL hides the password of a URL, and a user name without one, since some clients send it as the
// password. Text that is not a URL is hidden as a whole.
func RedactURL(raw string) string {
	if scheme, rest, ok := strings.Cut(raw, "+"); ok && (scheme == Redis || scheme == Redis+"s") {
		return redactServers(scheme, rest)
	}
	text, bare := raw, !strings.Contains(raw, "://")
	if bare {
		text = "tcp://" + raw // as endpoint.ParseUpstream reads it
	}
	u, err := url.Parse(text)
	if err != nil {
		return redacted
	}
	if u.User == nil {
		return raw
	}
	if _, hasPassword := u.User.Password(); hasPassword {
		u.User = url.UserPassword(u.User.Username(), redacted)
	} else {
		u.User = url.User(redacted)
	}
	if bare {
		return strings.TrimPrefix(u.String(), "tcp://")
	}
	return u.String()
}

// redactServers is RedactURL for a list of servers, which is not a valid URL. rest begins after the scheme's
// +.
func redactServers(scheme, rest string) string {
	kind, rest, _ := strings.Cut(rest, "://")
	rest, query, parameters := strings.Cut(rest, "?")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, _, full := strings.Cut(rest[:i], ":")
		if full {
			user += ":" + redacted
		} else {
			user = redacted
		}
		rest = user + rest[i:]
	}
	if parameters {
		if values, err := url.ParseQuery(query); err != nil {
			query = redacted
		} else if values.Has("sentinel_password") {
			values.Set("sentinel_password", redacted)
			query = values.Encode()
		}
		rest += "?" + query
	}
	return scheme + "+" + kind + "://" + rest
}

// withoutStoreKeys returns the rules of a protocol other than Redis without key and type: these are defaults
// for Redis, and errors in a file for other protocols.
func withoutStoreKeys(rules []Rule) []Rule {
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Key, rules[i].Type = "", nil
	}
	return rules
}

// YAML returns the configuration as a file that means the same.
func (c *Config) YAML() ([]byte, error) {
	shown := *c
	shown.Gateways = slices.Clone(c.Gateways)
	for i := range shown.Gateways {
		if g := &shown.Gateways[i]; g.Protocol != Redis {
			g.Rules = withoutStoreKeys(g.Rules)
		}
	}
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&shown); err != nil {
		return nil, err
	}
	return []byte(b.String()), enc.Close()
}

// JSON returns the configuration of YAML as JSON.
func (c *Config) JSON() ([]byte, error) {
	text, err := c.YAML()
	if err != nil {
		return nil, err
	}
	var shown map[string]any
	if err := yaml.Unmarshal(text, &shown); err != nil {
		return nil, err
	}
	text, err = json.MarshalIndent(shown, "", "  ")
	return append(text, '\n'), err
}

// liveKeys are the keys of a gateway that a reload changes.
var liveKeys = []string{"name", "enabled", "cpu_budget", "latency_budget", "pack", "exclude", "shards", "rules"}

// Frozen returns the keys that differ between two configurations and need a restart. A reload can change
// dictionaries, prices, each gateway's rules, exclude, enabled and pack, and the log level.
func Frozen(running, wanted *Config) []string {
	var keys []string
	compare := func(path string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			keys = append(keys, path)
		}
	}
	compare("admin.listen", running.Admin.Listen, wanted.Admin.Listen)
	compare("admin.token_file", running.Admin.TokenFile, wanted.Admin.TokenFile)
	compare("admin.hosts", running.Admin.Hosts, wanted.Admin.Hosts)
	compare("admin.ready", running.Admin.Ready, wanted.Admin.Ready)
	compare("admin.tls", running.Admin.TLS, wanted.Admin.TLS)
	compare("log.format", running.Log.Format, wanted.Log.Format)
	compare("memory.budget", running.Memory.Budget, wanted.Memory.Budget)
	compare("zstd", running.Zstd, wanted.Zstd)
	compare("training", running.Training, wanted.Training)
	compare("history", running.History, wanted.History)
	compare("traces", running.Traces, wanted.Traces)
	compare("drain_delay", running.DrainDelay, wanted.DrainDelay)
	compare("drain_grace", running.DrainGrace, wanted.DrainGrace)
	compare("drain_timeout", running.DrainTimeout, wanted.DrainTimeout)
	for i := range running.Gateways {
		a := &running.Gateways[i]
		path := "gateways[" + a.Name + "]"
		b := wanted.Gateway(a.Name)
		if b == nil {
			keys = append(keys, path+" (removed)")
			continue
		}
		fields, was, is := reflect.TypeFor[Gateway](), reflect.ValueOf(*a), reflect.ValueOf(*b)
		for n := range fields.NumField() {
			if key, _, _ := strings.Cut(fields.Field(n).Tag.Get("yaml"), ","); key != "" && !slices.Contains(liveKeys, key) {
				compare(path+"."+key, was.Field(n).Interface(), is.Field(n).Interface())
			}
		}
	}
	for i := range wanted.Gateways {
		if name := wanted.Gateways[i].Name; running.Gateway(name) == nil {
			keys = append(keys, "gateways["+name+"] (added)")
		}
	}
	return keys
}
