package operate

import (
	"strings"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/ui"
)

// Servers are what flags say of them.
type Servers struct {
	Redis    string // LISTEN=URL
	Mongo    string // LISTEN=URI
	Postgres string // LISTEN=URL
	Tape     string // the protocol of a recording, in place of these
	Control  string
	Test     string // URL, or cinch=URL
}

// Protocol returns what is to be mirrored, where clients connect, and what production is.
func (s Servers) Protocol() (p Protocol, listen, production string, err error) {
	if s.Tape != "" && s.Control != "" && s.Test != "" {
		return Redis, "", "", nil // record knows no other
	}
	var both string
	for _, one := range []struct {
		protocol Protocol
		both     string
	}{{Redis, s.Redis}, {Mongo, s.Mongo}, {Postgres, s.Postgres}} {
		if one.both == "" {
			continue
		}
		if both != "" {
			return p, "", "", usage("%s and %s exclude each other: a run mirrors one server", p.Flag, one.protocol.Flag)
		}
		p, both = one.protocol, one.both
	}
	listen, production, ok := strings.Cut(both, "=")
	if !ok || s.Control == "" || s.Test == "" {
		return p, "", "", ui.WithHint(usage("production and two targets are needed"),
			"write --redis 127.0.0.1:6390=redis://production --control redis://a --test redis://b")
	}
	return p, listen, production, nil
}

// Read puts the servers into a configuration. Through is the test target without what stands before its URL.
func (s Servers) Read(cfg *shadow.Config, p Protocol, production, through string) (err error) {
	for _, one := range []struct {
		flag, url string
		to        *gateway.Upstream
	}{{p.Flag, production, &cfg.Production}, {"--control", s.Control, &cfg.Control}, {"--test", through, &cfg.Test}} {
		if s.Tape != "" && one.flag == p.Flag {
			continue
		}
		if *one.to, err = p.Parse(one.url); err != nil {
			return usage("%s: %w", one.flag, err)
		}
	}
	return nil
}
