package config

import (
	"encoding/json"
	"net/url"
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

// RedactURL hides the passwords of a URL, and a user name without one, since some clients send it as the password. Text
// that is not a URL is hidden as a whole, and so is a URL for which SplitsPassword reports true.
func RedactURL(raw string) string {
	if SplitsPassword(raw) {
		return redacted
	}
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
	query := redactQuery(u.RawQuery)
	if u.User == nil && query == u.RawQuery {
		return raw
	}
	u.RawQuery = query
	if _, hasPassword := u.User.Password(); hasPassword {
		u.User = url.UserPassword(u.User.Username(), redacted)
	} else if u.User != nil {
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
		rest += "?" + redactQuery(query)
	}
	return scheme + "+" + kind + "://" + rest
}

// redactQuery hides the passwords in a URL's parameters: sentinel_password, and password and sslpassword of PostgreSQL.
func redactQuery(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return redacted
	}
	found := false
	for name := range values {
		if strings.HasSuffix(name, "password") {
			values.Set(name, redacted)
			found = true
		}
	}
	if !found {
		return query
	}
	return values.Encode()
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
