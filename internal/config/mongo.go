package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// MongoPort is the default port of MongoDB servers.
const MongoPort = "27017"

// MongoGateway returns a gateway for MongoDB with defaults for everything but its addresses and its rules.
func MongoGateway(name, listen, upstream string, rules []Rule) Gateway {
	g := RedisGateway(name, listen, upstream, rules)
	g.Protocol = Mongo
	return g
}

// MongoGateways is MongoGateway for a URI that may name several members of a replica set. It returns a
// gateway for each, on consecutive ports.
func MongoGateways(name, listen, uri string, rules []Rule) ([]Gateway, error) {
	uri, o := cutCinchOptions(uri)
	list, err := MongoGateway(name, listen, uri, rules).perMember()
	for i := range list {
		o.applyPeers(&list[i])
	}
	if err != nil || len(o.standbys) == 0 {
		return list, err
	}
	return addStandby(list, name, uri, rules, o.standbys)
}

// cinchOptions are the options of a URI that are for Cinch.
type cinchOptions struct {
	peers    bool     // peers=true: clients may be gateways
	history  string   // history=client, shared or none: Link.History
	standbys []string // standby=HOST:PORT,…: the standbys of other gateways
}

// applyPeers sets Peers and Link according to the options.
func (o cinchOptions) applyPeers(g *Gateway) {
	g.Peers = o.peers
	if o.history != "" {
		g.Link = &Link{History: o.history}
	}
}

// cutCinchOptions removes Cinch's options from a URI.
func cutCinchOptions(uri string) (rest string, c cinchOptions) {
	rest, options, _ := strings.Cut(uri, "?")
	var kept []string
	found := false
	for o := range strings.SplitSeq(options, "&") {
		switch key, value, _ := strings.Cut(o, "="); {
		case key == "standby":
			c.standbys, found = strings.Split(value, ","), true
		case o == "peers=true":
			c.peers, found = true, true
		case key == "history":
			c.history, found = value, true
		case o != "":
			kept = append(kept, o)
		}
	}
	if !found {
		return uri, c
	}
	if len(kept) > 0 {
		rest += "?" + strings.Join(kept, "&")
	}
	return rest, c
}

// addStandby adds a standby on the port after the gateways'.
func addStandby(list []Gateway, name, uri string, rules []Rule, others []string) ([]Gateway, error) {
	if list[0].isLoadBalanced() {
		return nil, errStandbyBalanced
	}
	host, port, err := net.SplitHostPort(list[len(list)-1].Listen)
	last, noNumber := strconv.Atoi(port)
	if err != nil || noNumber != nil || last == 0 {
		return nil, errors.New("with standby= the listener is host:port, with a port that is not 0")
	}
	g := MongoGateway(name+"-standby", net.JoinHostPort(host, strconv.Itoa(last+1)), uri, rules)
	g.Standby = others
	return append(list, g), nil
}

var errStandbyBalanced = errors.New("standby is not for loadBalanced=true: drivers must know the gateway of each member")

func (g *Gateway) isLoadBalanced() bool {
	_, options, err := splitMongoURI(g.Upstream)
	return err == nil && hasLoadBalanced(options)
}

// perMember returns a gateway for each member of a replica set that the upstream names, on consecutive ports. It
// returns the gateway itself if the upstream is one server, or if the gateway balances the load of all members.
func (g Gateway) perMember() ([]Gateway, error) {
	if g.Protocol != Mongo || len(g.Standby) > 0 {
		return []Gateway{g}, nil
	}
	hosts, options, err := splitMongoURI(g.Upstream)
	if err != nil {
		return nil, err
	}
	if len(hosts) == 1 || hasLoadBalanced(options) {
		return []Gateway{g}, nil
	}
	var list []Gateway
	for i, member := range hosts {
		one := g.clone()
		one.Upstream = "mongodb://" + member
		if options != "" {
			one.Upstream += "/?" + options
		}
		if i > 0 {
			one.Name = fmt.Sprintf("%s-%d", g.Name, i+1)
		}
		if one.Listen, err = nthPort(g.Listen, i); err != nil {
			return nil, errMembersPort
		}
		if g.Advertise != "" {
			if one.Advertise, err = nthPort(g.Advertise, i); err != nil {
				return nil, errMembersPort
			}
		}
		list = append(list, one)
	}
	return list, nil
}

var errMembersPort = errors.New("listen must be host:port when the URI names several members: each member gets a gateway, on consecutive ports")

// nthPort returns an address n ports higher. Port 0 stays 0: the system chooses one for each.
func nthPort(address string, n int) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	first, err := strconv.Atoi(port)
	if err != nil || first == 0 {
		return address, err
	}
	return net.JoinHostPort(host, strconv.Itoa(first+n)), nil
}

// DefaultMongoRule returns the rule of MongoDB gateways that no file describes: all messages that zstd level
// 3 makes smaller by a twentieth, together with their replies.
func DefaultMongoRule() Rule {
	r := DefaultRule()
	r.MinGain = gainUnset
	r.setGain(Mongo)
	r.MinSize, r.Dictionary = new(Bytes), ""
	return r
}

var errNotMongo = errors.New("not mongodb://host:port")

// splitMongoURI returns the hosts of a connection string and its options.
func splitMongoURI(uri string) (hosts []string, options string, err error) {
	rest, ok := strings.CutPrefix(uri, "mongodb://")
	switch {
	case strings.HasPrefix(uri, "mongodb+srv://"):
		return nil, "", errors.New("mongodb+srv is not supported: list the members from its DNS records")
	case !ok:
		return nil, "", errNotMongo
	case strings.Contains(rest, "@"):
		return nil, "", errors.New("has credentials, but clients log in with their own")
	}
	rest, options, _ = strings.Cut(rest, "?")
	list, path, _ := strings.Cut(rest, "/")
	if path != "" {
		return nil, "", errors.New("names a database, but clients name their own database")
	}
	for _, host := range strings.Split(list, ",") {
		if host == "" {
			return nil, "", errNotMongo
		}
		hosts = append(hosts, host)
	}
	return hosts, options, nil
}

// hasLoadBalanced reports whether a URI's options make the gateway a load balancer for its hosts.
func hasLoadBalanced(options string) bool {
	query, _ := url.ParseQuery(options) // parseMongoURI reports errors
	for name, values := range query {
		if strings.EqualFold(name, "loadBalanced") && values[0] == "true" {
			return true
		}
	}
	return false
}

// MongoMembers returns the members of a replica set for which g is a load balancer or a standby, with the TLS
// of up, the first of them. It returns nil for any other gateway.
func (g *Gateway) MongoMembers(up endpoint.Upstream) []endpoint.Upstream {
	hosts, options, err := splitMongoURI(g.Upstream)
	if err != nil || !hasLoadBalanced(options) && len(g.Standby) == 0 {
		return nil
	}
	var members []endpoint.Upstream
	for _, host := range hosts {
		if m, err := endpoint.ParseUpstream("tcp://"+host, MongoPort); err == nil { // can't fail: it was validated
			m.TLS = up.TLS
			members = append(members, m)
		}
	}
	return members
}

// parseMongoURI reads the upstream of a gateway: its one host, optionally with TLS, or the first of the hosts that it
// balances. Options for drivers without effect here are ignored.
func parseMongoURI(uri string, standby bool) (endpoint.Upstream, error) {
	wrap := func(err error) (endpoint.Upstream, error) {
		return endpoint.Upstream{}, fmt.Errorf("%w: %w", endpoint.ErrUpstreamURL, err)
	}
	hosts, options, err := splitMongoURI(uri)
	if err != nil {
		return wrap(err)
	}
	if len(hosts) > 1 && !hasLoadBalanced(options) && !standby {
		return wrap(errMembersPort)
	}
	if standby && hasLoadBalanced(options) {
		return wrap(errStandbyBalanced)
	}
	query, err := url.ParseQuery(options)
	if err != nil {
		return wrap(errNotMongo)
	}
	scheme := "tcp"
	for name, values := range query {
		switch strings.ToLower(name) {
		case "tls", "ssl", "loadbalanced":
			if len(values) != 1 || values[0] != "true" && values[0] != "false" {
				return wrap(fmt.Errorf("%s is neither true nor false", name))
			}
			if values[0] == "true" && !strings.EqualFold(name, "loadBalanced") {
				scheme = "tls"
			}
		case "directconnection", "replicaset":
		default:
			return wrap(fmt.Errorf("unknown option %q", name))
		}
	}
	for _, host := range hosts[1:] {
		if _, err := endpoint.ParseUpstream("tcp://"+host, MongoPort); err != nil {
			return endpoint.Upstream{}, err
		}
	}
	return endpoint.ParseUpstream(scheme+"://"+hosts[0], MongoPort)
}

// mongo checks the keys of gateways for MongoDB, and refuses them for others.
func (v *validator) mongo(g *Gateway, path string) {
	if g.Protocol != Mongo {
		v.refuseMongoKeys(g, path)
		return
	}
	if len(g.Exclude) > 0 {
		v.add(path+".exclude", "give a rule for the namespace setting: raw", "is only for stores")
	}
	for i, addr := range g.Standby {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || !isPort(port) {
			v.add(fmt.Sprintf("%s.standby[%d]", path, i), "write the host:port that clients use", "%q is not an address", addr)
		}
	}
	v.link(g, path+".link")
	for i := range g.Rules {
		v.mongoRule(&g.Rules[i], fmt.Sprintf("%s.rules[%d]", path, i))
	}
}

func (v *validator) refuseMongoKeys(g *Gateway, path string) {
	only := func(key string, given bool) {
		if given {
			v.add(path+"."+key, "", "is only for protocol: mongo")
		}
	}
	only("standby", len(g.Standby) > 0)
	servers, _ := g.RedisServers()
	if g.Advertise != "" && (g.Protocol != Redis || servers.Kind == "") {
		v.add(path+".advertise", "", "is only for protocol: mongo, and for Redis with several servers")
	}
	for i := range g.Rules {
		r := &g.Rules[i]
		only(fmt.Sprintf("rules[%d].namespace", i), r.Namespace != "")
		only(fmt.Sprintf("rules[%d].command", i), len(r.Command) > 0)
		if r.Setting != nil && r.Setting.Auto && g.Protocol != HTTP {
			v.add(fmt.Sprintf("%s.rules[%d].setting", path, i), "name a codec, as in zstd-3", "auto is only for protocol: mongo and http")
		}
	}
}

func (v *validator) mongoRule(r *Rule, path string) {
	refuseStoreKeys(v, r, path, "write namespace, command and direction")
	v.glob(path+".namespace", r.Namespace)
	for i, c := range r.Command {
		v.glob(fmt.Sprintf("%s.command[%d]", path, i), c)
	}
	if s := r.Setting; s != nil && !s.Auto {
		switch s.Codec {
		case codec.Raw, codec.Snappy, codec.Zlib, codec.Zstd:
			if s.Dict == 0 {
				return
			}
		}
		v.add(path+".setting", "write zstd-3, snappy, zlib-6, auto or raw", "MongoDB does not support %s", s)
	}
}
