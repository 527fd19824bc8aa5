package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// Sources of passwords that URLs leave out: every user of the machine can read command lines, and shell
// histories keep them.
const (
	PasswordVariable     = "CINCH_PASSWORD"
	PasswordFileVariable = "CINCH_PASSWORD_FILE"
)

// Passwords holds passwords for URLs that name a user but no password. Its zero value is empty.
type Passwords struct {
	entries []passwordEntry // the first match counts
	any     string          // for all others; "": none

	given map[string]string // original URLs, by the URL that Fill returned
}

type passwordEntry struct{ host, port, user, password string }

// defaultPorts holds the default port by URL scheme.
var defaultPorts = map[string]string{
	"redis": RedisPort, "rediss": RedisPort, "redis+cluster": RedisPort, "rediss+cluster": RedisPort,
	"redis+sentinel": "26379", "rediss+sentinel": "26379",
	"tarantool": TarantoolPort, "tarantools": TarantoolPort, "mongodb": MongoPort, "http": "80", "https": "443",
}

// ReadPasswords reads the one password in the environment, and the file that the environment names.
func ReadPasswords(getenv func(string) string) (*Passwords, error) {
	p := &Passwords{any: getenv(PasswordVariable)}
	file := getenv(PasswordFileVariable)
	if file == "" {
		return p, nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o007 != 0 {
		return nil, terminal.WithHint(fmt.Errorf("%s: other users may read the passwords in it", file), "chmod 600 %s", file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := p.parse(string(text)); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

var errPasswordLine = errors.New("not host:port:user:password")

// parse reads lines host:port:user:password. In these * stands for any value, and a backslash escapes a colon
// or a backslash. A single line with fewer colons is one password for all.
func (p *Passwords) parse(text string) error {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	for i, line := range lines {
		fields := splitEscaped(line)
		if len(fields) == 4 {
			p.entries = append(p.entries, passwordEntry{fields[0], fields[1], fields[2], fields[3]})
			continue
		}
		if len(lines) > 1 {
			return fmt.Errorf("entry %d: %w", i+1, errPasswordLine)
		}
		p.any = line
	}
	return nil
}

// splitEscaped splits a line at its first three unescaped colons.
func splitEscaped(line string) (fields []string) {
	var field strings.Builder
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line):
			i++
			field.WriteByte(line[i])
		case c == ':' && len(fields) < 3:
			fields = append(fields, field.String())
			field.Reset()
		default:
			field.WriteByte(c)
		}
	}
	return append(fields, field.String())
}

func (p *Passwords) find(host, port, user string) string {
	fits := func(pattern, text string) bool { return pattern == "*" || strings.EqualFold(pattern, text) }
	for _, e := range p.entries {
		if fits(e.host, host) && fits(e.port, port) && (e.user == "*" || e.user == user) {
			return e.password
		}
	}
	return p.any
}

// Fill adds a password to a URL that names a user and no password. Anything else is returned unchanged. If a URL lists
// several hosts, the password is that of the first.
func (p *Passwords) Fill(raw string) string {
	scheme, rest, found := strings.Cut(raw, "://")
	port, known := defaultPorts[scheme]
	if !found || !known && scheme != "unix" {
		return raw
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	at := strings.LastIndexByte(authority, '@')
	if at <= 0 || strings.Contains(authority[:at], ":") {
		return raw
	}
	user, err := url.PathUnescape(authority[:at])
	if err != nil {
		return raw
	}
	host, _, _ := strings.Cut(authority[at+1:], ",")
	if h, own, err := net.SplitHostPort(host); err == nil {
		host, port = h, own
	}
	password := p.find(strings.Trim(host, "[]"), port, user)
	if password == "" {
		return raw
	}
	escaped := strings.TrimPrefix(url.UserPassword("", password).String(), ":")
	filled := scheme + "://" + authority[:at] + ":" + escaped + rest[at:]
	if p.given == nil {
		p.given = map[string]string{}
	}
	p.given[filled] = raw
	return filled
}

// Given returns the URL that was passed to Fill for filled, so that files don't get the password.
func (p *Passwords) Given(filled string) string {
	if p == nil {
		return filled
	}
	return cmp.Or(p.given[filled], filled)
}

// FillArgument is Fill for an argument in which a prefix may precede the URL, as in LISTEN=URL.
func (p *Passwords) FillArgument(arg string) string {
	at := strings.Index(arg, "://")
	if at < 0 {
		return arg
	}
	start := strings.LastIndexByte(arg[:at], '=') + 1
	if listen, url, pair := strings.Cut(arg, "="); pair && strings.HasPrefix(listen, "unix://") && strings.Contains(url, "://") {
		start = len(listen) + 1 // the first :// was the listener's
	}
	return arg[:start] + p.Fill(arg[start:])
}

// FillPasswords adds passwords to the upstreams' URLs.
func (c *Config) FillPasswords(p *Passwords) {
	for i := range c.Gateways {
		g := &c.Gateways[i]
		g.Upstream = p.Fill(g.Upstream)
		for j, shard := range g.Shards {
			g.Shards[j] = p.Fill(shard)
		}
	}
}
