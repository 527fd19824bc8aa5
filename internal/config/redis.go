package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// The kinds of groups of Redis servers, given after a + in the scheme of their URL.
const (
	Cluster  = "cluster"
	Sentinel = "sentinel"

	sentinelPort = "26379"

	sentinelUser     = "sentinel_user" // parameters of a URL
	sentinelPassword = "sentinel_password"
)

// RedisServers holds the servers of a Redis gateway's upstream.
type RedisServers struct {
	Kind  string              // "": one server; Cluster: Hosts are nodes; Sentinel: Hosts are Sentinels
	Hosts []endpoint.Upstream // at least one

	// With Sentinel: the master's name, and the credentials for the Sentinels themselves. Those of Hosts are
	// for the servers.
	Master           string
	SentinelUser     string
	SentinelPassword string
}

// RedisServers reads the upstream of a gateway for Redis.
func (g *Gateway) RedisServers() (s RedisServers, err error) {
	scheme, rest, _ := strings.Cut(g.Upstream, "://")
	base, kind, several := strings.Cut(scheme, "+")
	if !several {
		up, err := endpoint.ParseUpstream(g.Upstream, RedisPort)
		return RedisServers{Hosts: []endpoint.Upstream{up}}, err
	}
	s.Kind = kind
	if (kind != Cluster && kind != Sentinel) || (base != Redis && base != Redis+"s") {
		return s, fmt.Errorf("%w: unknown scheme %q", endpoint.ErrUpstreamURL, scheme)
	}
	if SplitsPassword(g.Upstream) {
		return s, fmt.Errorf("%w: %w", endpoint.ErrUpstreamURL, endpoint.ErrUnescaped)
	}
	rest, query, _ := strings.Cut(rest, "?")
	if err := s.readQuery(query); err != nil {
		return s, fmt.Errorf("%w: %w", endpoint.ErrUpstreamURL, err)
	}
	list, path, _ := strings.Cut(rest, "/")
	if s.Master, err = s.masterOf(path); err != nil {
		return s, fmt.Errorf("%w: %w", endpoint.ErrUpstreamURL, err)
	}
	return s, s.readHosts(base, list)
}

// SplitsPassword is like endpoint.SplitsPassword, and also accepts URLs of several Redis servers. In these it checks
// only the text after the first ?, where the credentials for Sentinels may contain an @.
func SplitsPassword(raw string) bool {
	base, rest, several := strings.Cut(raw, "+")
	if !several || base != Redis && base != Redis+"s" {
		return endpoint.SplitsPassword(raw)
	}
	_, query, _ := strings.Cut(rest, "?")
	if !strings.Contains(query, "@") {
		return false
	}
	for parameter := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(parameter, "="); name != sentinelUser && name != sentinelPassword {
			return true
		}
	}
	return false
}

func (s *RedisServers) readQuery(text string) error {
	query, err := url.ParseQuery(text)
	if err != nil {
		return errors.New("the text after the ? is not a list of parameters")
	}
	for name, values := range query {
		switch {
		case s.Kind == Sentinel && name == sentinelUser && len(values) == 1:
			s.SentinelUser = values[0]
		case s.Kind == Sentinel && name == sentinelPassword && len(values) == 1:
			s.SentinelPassword = values[0]
		default:
			return fmt.Errorf("unknown parameter %q", name)
		}
	}
	return nil
}

func (s *RedisServers) masterOf(path string) (string, error) {
	switch {
	case s.Kind == Cluster && path != "":
		return "", errors.New("names a database, but a cluster has only one")
	case s.Kind == Sentinel && (path == "" || strings.Contains(path, "/")):
		return "", errors.New("lacks the name of the primary: write the name that the Sentinels have for it after the hosts, as in /mymaster")
	}
	name, err := url.PathUnescape(path)
	if err != nil {
		return "", errors.New("the name of the primary has an invalid escape")
	}
	return name, nil
}

func (s *RedisServers) readHosts(scheme, list string) error {
	user := ""
	if i := strings.LastIndexByte(list, '@'); i >= 0 {
		user, list = list[:i+1], list[i+1:]
	}
	port := RedisPort
	if s.Kind == Sentinel {
		port = sentinelPort
	}
	for host := range strings.SplitSeq(list, ",") {
		up, err := endpoint.ParseUpstream(scheme+"://"+user+host, port)
		if err != nil {
			return err
		}
		s.Hosts = append(s.Hosts, up)
	}
	return nil
}

// What upstream_connections: auto means for Redis.
const (
	// AutoSharedConnections is the number of connections for the clients of one login, database and protocol version.
	AutoSharedConnections = 64
	// AutoUnsharedClients is the number of clients that have a connection each before others share.
	AutoUnsharedClients = 4
)

// SharedConnections returns how many connections the clients of one login, database and protocol version may share, 0
// if each client has one of its own; and how many clients have one each before others share.
func (g *Gateway) SharedConnections() (most, unshared int) {
	switch g.UpstreamConnections {
	case NoConnections:
		return 0, 0
	case 0, AutoConnections:
		return AutoSharedConnections, AutoUnsharedClients
	}
	return int(g.UpstreamConnections), 0
}

// redis checks the keys that are about one or several Redis servers.
func (v *validator) redis(g *Gateway, path string) {
	s, err := g.RedisServers()
	several := g.Protocol == Redis && err == nil && s.Kind != ""
	if g.Nodes != 0 {
		if !several {
			v.add(path+".nodes", "write the upstream as redis+cluster://…", "is only for several servers")
		}
		checkRange(v, path+".nodes", g.Nodes, 1, 1000)
	}
	if g.Sentinel != "" {
		v.address(path+".sentinel", g.Sentinel)
		if !several || s.Kind != Sentinel {
			v.add(path+".sentinel", "write the upstream as redis+sentinel://…", "is only for servers that Sentinels watch")
		}
	}
	if g.Advertise != "" && (several || g.Protocol == Mongo) {
		v.address(path+".advertise", g.Advertise)
	}
	if !several {
		return
	}
	if g.UpstreamConnections > 0 {
		v.add(path+".upstream_connections", "leave it out", "clients of a cluster and of Sentinels share no connections")
	}
	if _, _, err := net.SplitHostPort(g.Listen); err != nil || strings.HasPrefix(g.Listen, "unix:") {
		v.add(path+".listen", "write host:port: the servers get this port and the next ones", "must be host:port for several servers")
	}
}
