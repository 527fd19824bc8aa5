package config

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/url"
	"os"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/config/price"
)

// LoadDictionaries reads the files that the configuration names, and returns the dictionaries by name. Errors are an
// *Error.
func (c *Config) LoadDictionaries() (map[string]*codec.Dict, error) {
	ps := problems{c: c}
	byName := map[string]*codec.Dict{}
	byNumber := map[uint32]*codec.Dict{}
	for i, d := range c.Dictionaries {
		path := fmt.Sprintf("dictionaries[%d].file", i)
		loaded, err := dict.Load(c.path(d.File))
		if err != nil {
			ps.add(path, "", "%v", err)
			continue
		}
		byName[d.Name] = loaded
		other := byNumber[loaded.Number()]
		if other != nil && other.Hash() != loaded.Hash() {
			ps.add(path, "train it again with other samples", "its number %08x belongs to another dictionary", loaded.Number())
		}
		byNumber[loaded.Number()] = loaded
	}
	return byName, ps.err()
}

// LoadPrices returns the prices for savings, with entries replaced by those of the prices file. Errors are an *Error.
func (c *Config) LoadPrices() (r price.Rates, err error) {
	ps := problems{c: c}
	p := &c.Prices
	r = price.Rates{Cloud: p.Cloud, Zones: p.Zones, Assumed: true}
	for _, key := range []string{"prices.cloud", "prices.zones", "prices.cross_zone", "prices.file"} {
		if _, written := c.lines[key]; written {
			r.Assumed = false
		}
	}
	if p.CrossZone != nil {
		r.CrossZone = new(float64(*p.CrossZone))
	}
	if r.Table, err = price.For(p.Cloud); err != nil {
		ps.add("prices.cloud", "", "%v", err)
		return r, ps.err()
	}
	if p.File == "" {
		return r, nil
	}
	text, err := os.ReadFile(c.path(p.File))
	if err == nil {
		r.Table, err = r.Table.With(text)
	}
	if err != nil {
		ps.add("prices.file", "docs/METRICS.md#money has an example of such a file", "%v", err)
	}
	return r, ps.err()
}

// Numbers returns the dictionaries' numbers by name, for Gateway.Policy.
func Numbers(dicts map[string]*codec.Dict) map[string]uint32 {
	numbers := make(map[string]uint32, len(dicts))
	for name, d := range dicts {
		numbers[name] = d.Number()
	}
	return numbers
}

// ServerTLS returns the TLS configuration for clients of g, or nil for plain connections. The files are read
// now, and again when they change.
func (c *Config) ServerTLS(g *Gateway, log *slog.Logger) (*tls.Config, error) {
	if g.TLS == nil {
		return nil, nil
	}
	files := endpoint.TLSFiles{
		Cert: c.path(g.TLS.Cert), Key: c.path(g.TLS.Key), ClientCA: c.path(g.TLS.ClientCA), Log: log,
	}
	cfg, err := files.ServerConfig()
	return cfg, c.InvalidGateway(g, "tls", err)
}

// AdminTLS returns the TLS configuration of the admin page, or nil for plain connections. Client certificates
// are optional, and verified if given.
func (c *Config) AdminTLS(log *slog.Logger) (*tls.Config, error) {
	t := c.Admin.TLS
	if t == nil {
		return nil, nil
	}
	files := endpoint.TLSFiles{Cert: c.path(t.Cert), Key: c.path(t.Key), ClientCA: c.path(t.ClientCA), Log: log}
	cfg, err := files.ServerConfig()
	if err != nil {
		return nil, c.Invalid("admin.tls", err)
	}
	required := cfg.GetConfigForClient
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		current, err := required(hello)
		if err != nil || current.ClientAuth == tls.NoClientCert {
			return current, err
		}
		current = current.Clone()
		current.ClientAuth = tls.VerifyClientCertIfGiven
		return current, nil
	}
	return cfg, nil
}

// Certificate is a file with certificates that Cinch presents.
type Certificate struct {
	Gateway string // "": the admin page's
	Use     string // server, admin, or client: shown to upstreams
	File    string
}

// Certificates returns the files of certificates that the configuration names.
func (c *Config) Certificates() (list []Certificate) {
	if t := c.Admin.TLS; t != nil {
		list = append(list, Certificate{Use: "admin", File: c.path(t.Cert)})
	}
	for i := range c.Gateways {
		g := &c.Gateways[i]
		if g.TLS != nil {
			list = append(list, Certificate{g.Name, "server", c.path(g.TLS.Cert)})
		}
		if g.UpstreamTLS != nil && g.UpstreamTLS.Cert != "" {
			list = append(list, Certificate{g.Name, "client", c.path(g.UpstreamTLS.Cert)})
		}
	}
	return list
}

// HistoryPath returns the directory of samples, or "" if they are held in memory.
func (c *Config) HistoryPath() string {
	if c.History == nil {
		return ""
	}
	return c.path(c.History.Path)
}

// HistorySize returns the limit of the samples in bytes; 0 is the default.
func (c *Config) HistorySize() int64 {
	if c.History == nil {
		return 0
	}
	return int64(c.History.MaxSize)
}

// TracesURL returns the URL to send spans to. Without a path in Endpoint it gets the standard path of
// receivers.
func (t *Traces) TracesURL() string {
	u, err := url.Parse(t.Endpoint)
	if err != nil { // can't happen: it was validated
		return t.Endpoint
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u.String()
}

// AdminToken returns the path of the token's file, or "" if there is none.
func (c *Config) AdminToken() string { return c.path(c.Admin.TokenFile) }
