package cluster

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// ports assigns the ports that follow the entry's port. Each is identified by its distance from that port.
type ports struct {
	open      func(address string) (net.Listener, error)
	advertise string           // host:port at which clients reach the entry; "": its address
	entry     net.Addr         // nil until it is serving
	proxied   *gateway.Proxied // the entry's listener, if connections begin with PROXY headers
	reserved  int              // distances up to this are reserved for seeds
	most      int
	taken     map[int]bool
}

var errNoPort = errors.New("no port is free for another node: increase nodes")

// begin records the entry's listener.
func (p *ports) begin(l net.Listener) {
	p.entry = l.Addr()
	p.proxied, _ = l.(*gateway.Proxied)
}

// listen opens the port of a seed, counted from one, or the first free port after those of all seeds. seed is 0 for
// other nodes.
func (p *ports) listen(seed int) (l net.Listener, distance int, err error) {
	host, port, err := net.SplitHostPort(p.entry.String())
	first, noNumber := strconv.Atoi(port)
	if err != nil || noNumber != nil {
		return nil, 0, fmt.Errorf("listen behind %s: not host:port", p.entry)
	}
	err = errNoPort
	for _, d := range p.distances(seed) {
		if l, err = p.open(net.JoinHostPort(host, strconv.Itoa(first+d))); err == nil {
			p.taken[d] = true
			return p.proxied.Wrap(l), d, nil
		}
	}
	return nil, 0, err
}

// distances returns the free distances for a node, best first: its seed's, then those of no seed.
func (p *ports) distances(seed int) (free []int) {
	if seed > 0 && !p.taken[seed] {
		free = append(free, seed)
	}
	for d := p.reserved + 1; d <= p.most; d++ {
		if !p.taken[d] {
			free = append(free, d)
		}
	}
	return free
}

func (p *ports) free(distance int) { delete(p.taken, distance) }

// at returns the port at a distance.
func (p *ports) at(distance int) int {
	_, port, _ := net.SplitHostPort(p.entry.String())
	first, _ := strconv.Atoi(port)
	return first + distance
}

// advertisedAt returns the address at which clients reach the listener at a distance.
func (p *ports) advertisedAt(distance int) gateway.Advertised {
	a, _ := gateway.ParseAdvertised(p.advertise, p.entry)
	if p.proxied != nil && p.advertise == "" {
		a.Host = "" // clients connect to the balancer, whose address the PROXY headers name
	}
	if port, err := strconv.Atoi(a.Port); err == nil {
		a.Port = strconv.Itoa(port + distance)
	}
	return a
}
