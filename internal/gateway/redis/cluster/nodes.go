package cluster

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// node is a line of CLUSTER NODES.
//
//	<id> <ip>:<port>@<bus port>[,<hostname>[,<more>]] <flags> <primary> <ping> <pong> <epoch> <link> <slots> …
type node struct {
	id       string
	ip       string // "" if a node does not know its own
	port     string
	hostname string // "" for none
	primary  bool
	failed   bool
	myself   bool
	slots    []slotRange
}

const slotCount = 16384

// slotRange is a range of slots, both ends included.
type slotRange struct{ first, last int }

var errNotNodes = errors.New("not a reply to CLUSTER NODES")

// parseNodes parses the reply to CLUSTER NODES. It omits nodes without an address or still in the handshake.
func parseNodes(text string) ([]node, error) {
	var nodes []node
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) < 8 {
			return nil, fmt.Errorf("%w: line %.80q", errNotNodes, line)
		}
		at := splitNodeAddress(f[1])
		n := node{id: f[0], ip: at.ip, port: at.port, hostname: at.hostname}
		if p, err := strconv.Atoi(n.port); err != nil || p < 0 || p > 65535 {
			return nil, fmt.Errorf("%w: address %.80q", errNotNodes, f[1])
		}
		if n.setFlags(f[2]) || n.port == "0" {
			continue
		}
		for _, slots := range f[8:] {
			if r, ok := parseSlots(slots); ok {
				n.slots = append(n.slots, r)
			}
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// parseSlots parses 0-5460 or 5461. It ignores migrating slots ([5462->-id]), which are listed elsewhere too.
func parseSlots(text string) (r slotRange, ok bool) {
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	var err, err2 error
	r.first, err = strconv.Atoi(first)
	r.last, err2 = strconv.Atoi(last)
	return r, err == nil && err2 == nil && r.first >= 0 && r.first <= r.last && r.last < slotCount
}

// hasSlotZero reports whether the node has slot 0.
func (n *node) hasSlotZero() bool {
	return slices.ContainsFunc(n.slots, func(r slotRange) bool { return r.first == 0 })
}

func (n *node) setFlags(flags string) (skip bool) {
	for _, flag := range strings.Split(flags, ",") {
		switch flag {
		case "master":
			n.primary = true
		case "myself":
			n.myself = true
		case "fail", "fail?":
			n.failed = true
		case "noaddr", "handshake":
			skip = true
		}
	}
	return skip
}

// nodeAddress is the second field of a line of CLUSTER NODES.
type nodeAddress struct{ ip, port, bus, hostname, more string }

// splitNodeAddress splits the field. bus keeps its @ and more its comma.
func splitNodeAddress(field string) (a nodeAddress) {
	addr, names, named := strings.Cut(field, ",")
	if named {
		var rest string
		var more bool
		if a.hostname, rest, more = strings.Cut(names, ","); more {
			a.more = "," + rest
		}
		a.hostname = "," + a.hostname
	}
	if i := strings.LastIndexByte(addr, '@'); i >= 0 {
		addr, a.bus = addr[:i], addr[i:]
	}
	i := strings.LastIndexByte(addr, ':')
	a.ip, a.port = addr[:max(i, 0)], addr[i+1:]
	a.hostname = strings.TrimPrefix(a.hostname, ",")
	return a
}

// hosts returns the hosts by which replies may name the node.
func (n *node) hosts() []string {
	if n.hostname == "" {
		return []string{n.ip}
	}
	return []string{n.ip, n.hostname}
}

// dialHost returns the host to connect to, certName the name expected in its certificate.
func (n *node) dialHost() string {
	if n.ip == "" || n.ip == "?" {
		return n.hostname
	}
	return n.ip
}

func (n *node) certName() string {
	if n.hostname != "" {
		return n.hostname
	}
	return n.dialHost()
}

// Address returns the key of an address in nodeTable.byAddress.
func Address(host, port string) string {
	return net.JoinHostPort(strings.ToLower(host), port)
}
