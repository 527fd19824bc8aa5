package cli

import (
	"net"
	"strings"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// Listeners are the flags that name the clients' address and production, as LISTEN=URL. One of them is set.
type Listeners struct{ Redis, Mongo, Postgres string }

// selected returns the flag that is set, and its protocol; "": none is.
func (l Listeners) selected() (p Protocol, both string, err error) {
	for i, given := range []string{l.Redis, l.Mongo, l.Postgres} {
		switch {
		case given == "":
		case both != "":
			return p, "", usage("give only one of %s and %s: a run mirrors one server", p.Flag, protocols[i].Flag)
		default:
			p, both = protocols[i], given
		}
	}
	return p, both, nil
}

// Servers are the flags that name the servers of a run.
type Servers struct {
	Listeners
	RecordedProtocol string // the protocol of a recording, instead of clients and production
	Control          string
	Test             string // URL, or cinch=URL
}

// Protocol returns the protocol, the address that clients connect to, and production's URL.
func (s Servers) Protocol() (p Protocol, listen, production string, err error) {
	if s.RecordedProtocol != "" {
		if p, err = protocolOf(s.RecordedProtocol); err == nil {
			err = s.checkTargets(p)
		}
		return p, "", "", err
	}
	p, both, err := s.selected()
	if err != nil {
		return p, "", "", err
	}
	if both == "" {
		return p, "", "", terminal.WithHint(usage("production is missing: give production and two targets"), "write %s", Redis.example(true))
	}
	if listen, production, err = p.splitFlag(both); err == nil {
		err = s.checkTargets(p)
	}
	return p, listen, production, err
}

func (s Servers) checkTargets(p Protocol) error {
	for _, one := range []struct{ flag, what, url string }{{"--control", "control", s.Control}, {"--test", "test", s.Test}} {
		if one.url == "" {
			return terminal.WithHint(usage("%s: the %s target is missing", one.flag, one.what), "write %s", p.example(s.RecordedProtocol == ""))
		}
	}
	if strings.HasPrefix(s.Control, "cinch=") {
		return terminal.WithHint(usage("--control: cinch= is only for --test"), "write --control URL --test cinch=URL")
	}
	return nil
}

// splitFlag parses LISTEN=URL. An invalid value is not shown in errors, since it may contain a password.
func (p Protocol) splitFlag(both string) (listen, url string, err error) {
	listen, url, _ = strings.Cut(both, "=")
	if strings.Contains(listen, "://") && !strings.HasPrefix(listen, "unix:") {
		listen, url = "", both
	}
	switch {
	case listen == "":
		err = usage("%s: the address for clients is missing before production's URL", p.Flag)
	case url == "":
		err = usage("%s: production's URL is missing after the address for clients", p.Flag)
	default:
		err = checkListen(p.Flag, listen)
	}
	return listen, url, terminal.WithHint(err, "write %s 127.0.0.1:%s=%s", p.Flag, p.examplePort, p.exampleURL)
}

// checkListen fails for addresses that clients can't connect to.
func checkListen(flag, listen string) error {
	if strings.HasPrefix(listen, "unix:") {
		return nil
	}
	_, port, err := net.SplitHostPort(listen)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return usage("%s: invalid address for clients %q: expected HOST:PORT or unix:/PATH", flag, listen)
	}
	return nil
}

// Parse parses the servers' URLs into a configuration. through is the test target's URL without cinch=.
func (s Servers) Parse(cfg *shadow.Config, p Protocol, production, through string) (err error) {
	cfg.ProtocolName = p.Name()
	for _, one := range []struct {
		flag, url string
		to        *endpoint.Upstream
	}{{p.Flag, production, &cfg.Production}, {"--control", s.Control, &cfg.Control}, {"--test", through, &cfg.Test}} {
		if s.RecordedProtocol != "" && one.flag == p.Flag {
			continue
		}
		if *one.to, err = p.parseUpstream(one.flag, one.url); err != nil {
			return err
		}
	}
	return nil
}

func (p Protocol) parseUpstream(flag, url string) (endpoint.Upstream, error) {
	up, err := p.Parse(url)
	if err != nil {
		return up, terminal.WithHint(usage("%s: %w", flag, err), "a server is written as %s", p.urlFormat)
	}
	return up, nil
}
