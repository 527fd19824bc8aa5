package endpoint

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	defaultDialTimeout = 5 * time.Second
	maxPort            = 65535
)

// Errors of ParseUpstream and Dial.
var (
	// ErrUpstreamURL is wrapped by the errors of ParseUpstream.
	ErrUpstreamURL = errors.New("bad upstream")
	// ErrUnescaped is returned for URLs for which SplitsPassword reports true.
	ErrUnescaped = errors.New("an @ follows a /, ? or #: write these as %2F, %3F and %23 in a user name or password")
	// ErrUnreachable is wrapped by the errors of Dial: no connection, or no TLS.
	ErrUnreachable = errors.New("upstream unreachable")
)

// Upstream is a server that Cinch connects to. The exported fields may be changed before the first Dial. Copies are
// independent.
type Upstream struct {
	Network  string // "tcp" or "unix"
	Address  string // "host:port" or a path
	Host     string // without the port, as TLS checks it; empty for unix
	User     string // decoded; the gateway's own user, clients have theirs
	Password string // decoded
	Database string // path or ?db= of the URL, without the slash

	TLS     *tls.Config   // nil: plain. An empty ServerName means Host
	Timeout time.Duration // to connect, TLS included; 0: 5 s
	Silence time.Duration // without any acknowledgement until the connection counts as lost; 0: 30 s
}

// secureSchemes lists the known URL schemes; true: with TLS.
var secureSchemes = map[string]bool{
	"tcp": false, "tls": true,
	"redis": false, "rediss": true,
	"grpc": false, "grpcs": true,
	"tarantool": false, "tarantools": true,
	"http": false, "https": true, "h2c": false,
	"unix": false,
}

// SplitsPassword reports whether an @ follows the first /, ? or # after a URL's host. These may be characters of the
// password that should have been escaped, so no part of such a URL may be shown.
func SplitsPassword(raw string) bool {
	if _, rest, found := strings.Cut(raw, "://"); found {
		raw = rest
	}
	end := strings.IndexAny(raw, "/?#")
	return end > 0 && strings.Contains(raw[end:], "@")
}

// ParseUpstream parses "scheme://[user[:password]@]host[:port][/database]" with the schemes redis, grpc,
// http, h2c and tarantool, rediss, grpcs, https and tarantools (TLS), tcp and tls, or
// "unix://[user:password@]/path", or a bare "host:port". The database may also be given as ?db=. An IPv6 host
// stands in brackets. Errors wrap ErrUpstreamURL and never show a password.
func ParseUpstream(raw, defaultPort string) (Upstream, error) {
	if !strings.Contains(raw, "://") {
		raw = "tcp://" + raw
	}
	if SplitsPassword(raw) && !strings.HasPrefix(raw, "unix://") { // the path of a socket may have an @
		return Upstream{}, fmt.Errorf("%w: %w", ErrUpstreamURL, ErrUnescaped)
	}
	u, err := url.Parse(raw)
	if err != nil {
		var ue *url.Error // its text repeats the URL, password included
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return Upstream{}, fmt.Errorf("%w: %w", ErrUpstreamURL, withoutQuotes(err))
	}
	up := Upstream{User: u.User.Username()}
	up.Password, _ = u.User.Password()
	if err := up.setQuery(u); err != nil {
		return Upstream{}, err
	}
	secure, known := secureSchemes[u.Scheme]
	if !known {
		return Upstream{}, fmt.Errorf("%w: unknown scheme %q", ErrUpstreamURL, u.Scheme)
	}
	if secure {
		up.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if u.Scheme == "unix" {
		return up.withPath(u)
	}
	return up.withHost(u, defaultPort)
}

// withoutQuotes cuts off quoted parts of the URL, and the text after them, in parse errors.
func withoutQuotes(err error) error {
	text, _, quoted := strings.Cut(err.Error(), `"`)
	if !quoted {
		return err
	}
	return errors.New(strings.TrimSpace(text))
}

func (up *Upstream) setQuery(u *url.URL) error {
	for name, values := range u.Query() {
		if strings.Contains(u.RawQuery, "@") { // after a unix:// URL whose password has a ?
			return fmt.Errorf("%w: %w", ErrUpstreamURL, ErrUnescaped)
		}
		if name != "db" || len(values) != 1 {
			return fmt.Errorf("%w: unknown parameter %q", ErrUpstreamURL, name)
		}
		up.Database = values[0]
	}
	return nil
}

func (up Upstream) withPath(u *url.URL) (Upstream, error) {
	if u.Host != "" || u.Path == "" {
		return Upstream{}, fmt.Errorf("%w: write a unix socket as unix:///path", ErrUpstreamURL)
	}
	up.Network, up.Address = "unix", u.Path
	return up, nil
}

func (up Upstream) withHost(u *url.URL, defaultPort string) (Upstream, error) {
	up.Host = u.Hostname()
	if up.Host == "" {
		return Upstream{}, fmt.Errorf("%w: no host", ErrUpstreamURL)
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	if port == "" {
		return Upstream{}, fmt.Errorf("%w: no port", ErrUpstreamURL)
	}
	if n, err := strconv.Atoi(port); err != nil || n > maxPort {
		return Upstream{}, fmt.Errorf("%w: port %s is above %d", ErrUpstreamURL, port, maxPort)
	}
	up.Network, up.Address = "tcp", net.JoinHostPort(up.Host, port)
	if path := strings.Trim(u.Path, "/"); path != "" {
		up.Database = path
	}
	return up, nil
}

// String returns the address for logs and pages, without credentials.
func (up Upstream) String() string {
	switch {
	case up.Network == "unix":
		return "unix:" + up.Address
	case up.TLS != nil:
		return "tls://" + up.Address
	default:
		return "tcp://" + up.Address
	}
}

// Dial connects, and completes the TLS handshake where there is one. The caller closes the connection. Errors
// wrap ErrUnreachable, and also ErrDescriptors if this process is out of file descriptors.
func (up Upstream) Dial(ctx context.Context) (net.Conn, error) {
	return up.DialWith(ctx, func(raw net.Conn) (net.Conn, error) { return raw, nil })
}

// DialWith is like Dial, and passes the new connection to wrap before the TLS handshake. If wrap fails, DialWith closes
// the connection and returns an error that wraps wrap's error and ErrUnreachable.
func (up Upstream) DialWith(ctx context.Context, wrap func(raw net.Conn) (net.Conn, error)) (net.Conn, error) {
	timeout := up.Timeout
	if timeout <= 0 {
		timeout = defaultDialTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d := net.Dialer{KeepAlive: -1} // detectLostPeer configures it
	raw, err := d.DialContext(ctx, up.Network, up.Address)
	if short := DescriptorShortage(raw, ReservedDescriptors, err); short != nil {
		if err == nil {
			_ = raw.Close()
		}
		return nil, descriptorError{short}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	c, err := wrap(raw)
	if err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("%w: %s: %w", ErrUnreachable, up.Address, err)
	}
	detectLostPeer(raw, cmp.Or(up.Silence, unansweredTimeout))
	if up.TLS == nil {
		return c, nil
	}
	tc := tls.Client(c, up.tlsConfig())
	if err := tc.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("%w: %s: tls: %w", ErrUnreachable, up.Address, err)
	}
	return tc, nil
}

// descriptorError wraps a shortage of file descriptors that prevented a dial. Its text doesn't call the upstream
// unreachable, since the upstream is not at fault, but errors.Is reports ErrUnreachable.
type descriptorError struct{ error }

func (u descriptorError) Is(target error) bool { return target == ErrUnreachable }

func (u descriptorError) Unwrap() error { return u.error }

// WithConn calls talk with a connection made by dial, with ctx's deadline set, and closes the connection.
func WithConn(ctx context.Context, dial func(context.Context) (net.Conn, error), talk func(net.Conn) error) error {
	c, err := dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if at, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(at)
	}
	return talk(c)
}

// WithConn calls talk with a connection made by up.Dial, as the function WithConn does.
func (up Upstream) WithConn(ctx context.Context, talk func(net.Conn) error) error {
	return WithConn(ctx, up.Dial, talk)
}

func (up Upstream) tlsConfig() *tls.Config {
	if up.TLS.ServerName != "" || up.TLS.InsecureSkipVerify {
		return up.TLS
	}
	cfg := up.TLS.Clone()
	cfg.ServerName = up.Host
	return cfg
}

// OnLoopback reports whether an address in a configuration, "host:port" or "unix:/path", can be reached from
// this machine only. It does not look up names.
func OnLoopback(addr string) bool {
	if strings.HasPrefix(addr, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// OnLoopback reports whether the upstream's address shows that it is on this machine.
func (up Upstream) OnLoopback() bool { return up.Network == "unix" || OnLoopback(up.Address) }
