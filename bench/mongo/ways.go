package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/test/rig/link"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// bench holds what all parts share.
type bench struct {
	work   string // a temporary directory
	cinch  string // the path of the program
	mongod *server
	pair   gatePair
	used   int // inserted users, not counting the stored ones
}

func (b *bench) stop() {
	for _, s := range []*server{b.pair.near, b.pair.far, b.mongod} {
		if s != nil {
			s.stop()
		}
	}
}

// way is one way to reach the server.
type way struct {
	name    string
	driver  string // its compressor; "": none
	gateway string // its rule's setting; "": no gateway
	proxy   string // forward or haproxy, which pass TCP on; "": neither
	pair    bool   // the link is between two gateways
}

var (
	plainWay = way{name: "plain"}
	byteWays = []way{
		plainWay,
		{name: "driver snappy", driver: "snappy"},
		{name: "driver zstd", driver: "zstd"},
		{name: "driver zlib", driver: "zlib"},
		{name: "gateway off", gateway: "raw"},
		{name: "gateway snappy", gateway: "snappy"},
		{name: "gateway zstd", gateway: "zstd-3"},
		{name: "gateway zlib", gateway: "zlib-6"},
		{name: "gateway auto", gateway: "auto"},
		{name: "pair", pair: true},
	}
	timeWays = without(byteWays, "driver zlib", "gateway zlib")
	loadWays = without(timeWays, "driver snappy", "gateway snappy")
	cpuWays  = append([]way{
		plainWay,
		{name: "io.Copy", proxy: "forward"},
		{name: "HAProxy", proxy: "haproxy"},
	}, without(loadWays, plainWay.name)...)
)

func without(ways []way, names ...string) (rest []way) {
next:
	for _, w := range ways {
		for _, n := range names {
			if w.name == n {
				continue next
			}
		}
		rest = append(rest, w)
	}
	return rest
}

// route is a way over a link, with its connected client.
type route struct {
	way
	client   *mongo.Client
	gateways []*server // from the driver's side
	unread   unread
}

// stage is a link with routes over it.
type stage struct {
	links  *link.Links
	routes []*route
}

// setUp starts the ways over a link.
func (b *bench) setUp(roundTrip time.Duration, mbit float64, ways []way) (s *stage, err error) {
	s = &stage{}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if err = b.startPair(); err != nil {
		return s, err
	}
	if s.links, err = link.Start(roundTrip, mbit, "127.0.0.1:0="+b.mongod.addr, b.pair.between+"="+b.pair.far.addr); err != nil {
		return s, err
	}
	if err = b.startNear(); err != nil {
		return s, err
	}
	for _, w := range ways {
		r, err := b.startRoute(s, w)
		if err != nil {
			return s, fmt.Errorf("%s: %w", w.name, err)
		}
		s.routes = append(s.routes, r)
	}
	return s, nil
}

func (b *bench) startRoute(s *stage, w way) (r *route, err error) {
	r = &route{way: w, unread: unread{first: stored / 2}}
	addr := s.links.Addrs[0]
	switch {
	case w.pair:
		addr, r.gateways = b.pair.near.addr, []*server{b.pair.near, b.pair.far}
	case w.gateway != "":
		settings := fmt.Sprintf("rules: [{name: all, setting: %s, min_size: 64, min_gain: 5%%}]", w.gateway)
		g, err := b.startGateway(addr, "", settings)
		if err != nil {
			return nil, err
		}
		addr, r.gateways = g.addr, []*server{g}
	case w.proxy != "":
		p, err := b.startProxy(w.proxy, addr)
		if err != nil {
			return nil, err
		}
		addr, r.gateways = p.addr, []*server{p}
	}
	r.client, err = connect(addr, w.driver)
	return r, err
}

// connect returns a client that sends nothing in the background.
func connect(addr, compressor string) (*mongo.Client, error) {
	o := options.Client().ApplyURI("mongodb://" + addr + "/?directConnection=true").SetHeartbeatInterval(time.Hour)
	if compressor != "" {
		o.SetCompressors([]string{compressor})
	}
	return mongo.Connect(o)
}

func (s *stage) stop() {
	for _, r := range s.routes {
		_ = r.client.Disconnect(context.Background())
		if !r.pair {
			for _, g := range r.gateways {
				g.stop()
			}
		}
	}
	if s.links != nil {
		s.links.Stop()
	}
}

// bytes runs an operation n times and returns the mean bytes per operation on the link.
func (s *stage) bytes(op operation, n int) (up, down float64, err error) {
	up0, down0, err := s.links.Bytes()
	if err != nil {
		return 0, 0, err
	}
	if err := op.repeat(n); err != nil {
		return 0, 0, err
	}
	time.Sleep(20 * time.Millisecond) // for data sent after the last reply
	up1, down1, err := s.links.Bytes()
	return float64(up1-up0) / float64(n), float64(down1-down0) / float64(n), err
}
