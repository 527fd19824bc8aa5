package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// limited is a connection of a ConnLimit without a network.
type limited struct {
	name   string
	stage  ConnStage
	active time.Time
	by     *[]string // list to which Displace appends the name
}

func (l *limited) Stage() ConnStage      { return l.stage }
func (l *limited) LastActive() time.Time { return l.active }
func (l *limited) Displace()             { *l.by = append(*l.by, l.name) }

// limitTest admits connections whose names begin with their addresses.
type limitTest struct {
	t         *testing.T
	limit     *ConnLimit
	displaced []string
	clock     time.Time
}

func newLimitTest(t *testing.T, most int) *limitTest {
	return &limitTest{t: t, limit: &ConnLimit{Max: most}, clock: time.Unix(1000, 0)}
}

func (l *limitTest) admit(address string, stage ConnStage, short bool) *ConnSlot {
	l.clock = l.clock.Add(time.Second)
	from := net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 1))
	c := &limited{name: fmt.Sprintf("%s at %d", address, l.clock.Unix()), stage: stage, active: l.clock, by: &l.displaced}
	slot := l.limit.Admit(from, c, short)
	l.t.Cleanup(slot.Leave)
	return slot
}

func (l *limitTest) expect(want ...string) {
	l.t.Helper()
	if !slices.Equal(l.displaced, want) {
		l.t.Errorf("displaced %q, want %q", l.displaced, want)
	}
}

// A single address may take all connections. Other addresses displace its connections until all have the same number.
func TestConnLimitShares(t *testing.T) {
	l := newLimitTest(t, 6)
	for range 6 {
		if l.admit("192.0.2.1", StageServed, false) == nil {
			t.Fatal("refused below the limit")
		}
	}
	if l.admit("192.0.2.1", StageServed, false) != nil {
		t.Error("the address that holds all displaces itself")
	}
	for i, want := range []bool{true, true, true, false} {
		if got := l.admit("192.0.2.2", StageServed, false) != nil; got != want {
			t.Errorf("connection %d of the second address: admitted %v", i, got)
		}
	}
	for i, want := range []bool{true, true, false} {
		if got := l.admit("192.0.2.3", StageServed, false) != nil; got != want {
			t.Errorf("connection %d of the third address: admitted %v", i, got)
		}
	}
	if l.admit("192.0.2.1", StageServed, false) != nil {
		t.Error("with equal shares one displaces another")
	}
	if l.limit.open != 6 {
		t.Errorf("%d open, want 6", l.limit.open)
	}
}

func TestConnLimitDisplacesTheIdlest(t *testing.T) {
	l := newLimitTest(t, 5)
	l.admit("192.0.2.1", StageServed, false)
	l.admit("192.0.2.1", StageServed, false)
	l.admit("192.0.2.1", StageUnauthenticated, false)
	l.admit("192.0.2.1", StageHandshake, false)
	l.admit("192.0.2.1", StageHandshake, false)
	l.admit("192.0.2.2", StageServed, false)
	l.expect("192.0.2.1 at 1004")
	l.admit("192.0.2.3", StageServed, false)
	l.expect("192.0.2.1 at 1004", "192.0.2.1 at 1005")
	l.admit("192.0.2.4", StageServed, false)
	l.expect("192.0.2.1 at 1004", "192.0.2.1 at 1005", "192.0.2.1 at 1003")
	if l.admit("192.0.2.1", StageServed, false) != nil {
		t.Error("the client that holds more was admitted")
	}
}

// All addresses of a /64 count as one.
func TestConnLimitOfIPv6(t *testing.T) {
	l := newLimitTest(t, 3)
	for i := range 3 {
		l.admit(fmt.Sprintf("2001:db8:0:1::%d", i+1), StageServed, false)
	}
	if l.admit("2001:db8:0:1::9", StageServed, false) != nil {
		t.Error("another host of the same network displaces one")
	}
	if l.admit("2001:db8:0:2::1", StageServed, false) == nil {
		t.Error("another network is refused")
	}
	l.expect("2001:db8:0:1::1 at 1001")
}

// When file descriptors are short, addresses share them, even without a limit and across listeners.
func TestConnLimitWhenDescriptorsAreShort(t *testing.T) {
	testenv.Eventually(t, "the end of the connections of other tests, which share descriptors with these", func() bool {
		limitedConns.mu.Lock()
		defer limitedConns.mu.Unlock()
		return len(limitedConns.limits) == 0
	})
	one, two := newLimitTest(t, 0), newLimitTest(t, 0)
	for range 3 {
		one.admit("192.0.2.1", StageServed, false)
	}
	two.clock = one.clock
	two.admit("192.0.2.1", StageServed, false)
	if one.admit("192.0.2.1", StageServed, true) != nil {
		t.Error("the address that holds most takes another descriptor")
	}
	if two.admit("192.0.2.2", StageServed, true) == nil {
		t.Error("refused, though another address holds four")
	}
	one.expect("192.0.2.1 at 1001")
	two.expect()
}

func TestConnLimitSlotsLeaveOnce(t *testing.T) {
	l := newLimitTest(t, 2)
	first, second := l.admit("192.0.2.1", StageServed, false), l.admit("192.0.2.1", StageServed, false)
	l.admit("192.0.2.2", StageServed, false) // displaces first
	first.Leave()
	if l.limit.open != 2 {
		t.Errorf("%d open after a displaced connection left, want 2", l.limit.open)
	}
	second.Leave()
	second.Leave()
	if l.limit.open != 1 || len(l.limit.peers) != 1 {
		t.Errorf("%d open from %d addresses, want 1 from 1", l.limit.open, len(l.limit.peers))
	}
}

// dialFrom connects from an address of the loopback network.
func (h *harness) dialFrom(t *testing.T, ip string) *testClient {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	c, err := d.Dial("tcp", h.addr)
	if err != nil {
		t.Skipf("no second loopback address on this system: %v", err)
	}
	return newTestClient(t, c)
}

// sent waits until n bytes to clients are counted, and so their connections are recorded as active: a client can have
// a reply before that.
func (h *harness) sent(t *testing.T, n int) {
	t.Helper()
	testenv.Eventually(t, "replies that are counted", func() bool { return h.Stats.Snapshot().Wire.Client.SentBytes == uint64(n) })
}

// Other addresses are served although one address holds all connections.
func TestMaxConnsIsSharedByAddress(t *testing.T) {
	h := startServer(t, &Server{MaxConns: 4, Refusal: []byte("-too many\n")})
	var greedy []*testClient
	for range 4 {
		c := h.dialFrom(t, "127.0.0.1")
		c.echo("mine")
		greedy = append(greedy, c)
		h.sent(t, len(greedy)*len("mine\n"))
	}
	greedy[0].echo("still busy") // so that the second has moved no byte for longest
	h.sent(t, 4*len("mine\n")+len("still busy\n"))
	other := h.dialFrom(t, "127.0.0.2")
	other.echo("let me in")
	greedy[1].expectEnd()
	for _, i := range []int{0, 2, 3} {
		greedy[i].echo("still there")
	}
	more := h.dialFrom(t, "127.0.0.1")
	more.expect("-too many")
	testenv.Eventually(t, "four connections", func() bool { return h.Stats.Snapshot().Connections.Open == 4 })
	if n := h.Stats.Snapshot().Errors["displaced"]; n != 1 {
		t.Errorf("%d displaced, want 1", n)
	}
}

// A client that begins TLS handshakes and does not finish them can't keep other clients out.
func TestHalfOpenHandshakesAreDisplaced(t *testing.T) {
	h := startServer(t, &Server{MaxConns: 3, TLS: newTestCA(t).serverConfig(t), HandshakeTimeout: time.Hour})
	var half []*testClient
	for range 3 {
		half = append(half, h.dialFrom(t, "127.0.0.1"))
	}
	testenv.Eventually(t, "three connections", func() bool { return h.Stats.Snapshot().Connections.Open == 3 })
	other := h.dialFrom(t, "127.0.0.2")
	secure := newTestClient(t, tls.Client(other.Conn, &tls.Config{InsecureSkipVerify: true}))
	secure.echo("let me in")
	half[0].expectEnd()
}

// Behind a balancer the connections are shared between the client addresses in its PROXY headers.
func TestMaxConnsIsSharedByAddressInProxyHeader(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	h := startServerOn(t, &Server{MaxConns: 2, Refusal: []byte("-too many\n")}, &Proxied{Listener: l, Trusted: trusted})
	dial := func(client string) *testClient {
		c := h.dial(t)
		c.send("PROXY TCP4 " + client + " 198.51.100.1 49152 6379\r")
		return c
	}
	one, two := dial("192.0.2.1"), dial("192.0.2.1")
	one.echo("a")
	h.sent(t, len("a\n"))
	two.echo("b")
	h.sent(t, len("a\nb\n"))
	if three := dial("192.0.2.1"); true {
		three.expect("-too many")
	}
	dial("192.0.2.7").echo("c")
	one.expectEnd()
	two.echo("d")
}

// ConnLimit.Listener shares connections by address too.
func TestConnLimitListener(t *testing.T) {
	inner, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limit := &ConnLimit{Max: 2}
	refused := make(chan string, 1)
	l := limit.Listener(inner, func(c net.Conn) { refused <- c.RemoteAddr().String() })
	defer l.Close()
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	h := &harness{addr: inner.Addr().String()}
	h.dialFrom(t, "127.0.0.1")
	first := <-accepted
	h.dialFrom(t, "127.0.0.1")
	second := <-accepted
	third := h.dialFrom(t, "127.0.0.1")
	if got := <-refused; got != third.LocalAddr().String() {
		t.Errorf("refused %s, want %s", got, third.LocalAddr())
	}
	third.expectEnd()
	h.dialFrom(t, "127.0.0.2")
	other := <-accepted
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
		t.Errorf("the displaced connection: %v", err)
	}
	_ = second.Close()
	_ = other.Close()
	if limit.open != 0 {
		t.Errorf("%d open after all were closed", limit.open)
	}
}
