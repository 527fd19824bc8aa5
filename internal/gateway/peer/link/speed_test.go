package link

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
)

// peerAt is a connection with a remote address.
type peerAt struct {
	net.Conn
	host string
}

func (p peerAt) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(p.host), Port: 1234}
}

// after calls choose until it makes a new choice.
func (s *speed) after() codec.Setting {
	for range chooseTurn {
		s.choose()
	}
	return s.last
}

// The choice follows the speed of the link, up and down, and returns from raw.
func TestAutoFollowsTheLink(t *testing.T) {
	s := &speed{}
	const ms, megabyte = time.Millisecond, 1 << 20
	if got, _ := s.choose(); got != rungs[unknownLink].setting {
		t.Errorf("%v before the link is known", got)
	}
	s.compressed(rungs[unknownLink].setting, megabyte, megabyte/6, 4*ms)
	for _, c := range []struct {
		nanoseconds float64 // a byte
		want        codec.Setting
	}{
		{1000, rungs[3].setting}, // 1 MB/s
		{0.1, codec.Setting{}},   // 10 GB/s
		{1000, rungs[3].setting},
		{20, rungs[1].setting}, // 50 MB/s
	} {
		s.told(uint32(c.nanoseconds * psPerNs))
		if got := s.after(); got != c.want {
			t.Errorf("%v ns a byte: %v instead of %v", c.nanoseconds, got, c.want)
		}
	}
	s.told(0)
	s.told(1<<32 - 1)
	s.after()
}

// Each of the latest peers has its own measurements, however many peers come and go.
func TestManyPeers(t *testing.T) {
	var p speeds
	first := p.to(peerAt{host: "10.9.9.9"})
	first.told(500_000)
	for i := range 4 * maxPeers {
		host := fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250)
		s := p.to(peerAt{host: host})
		s.told(1000)
		if s == first || p.to(peerAt{host: host}) != s {
			t.Fatalf("peer %d shares its speed", i)
		}
	}
	if len(p.all) > maxPeers {
		t.Errorf("%d peers are remembered", len(p.all))
	}
	if got := p.slowest(); got != 1e9 {
		t.Errorf("the slowest is %v bytes a second, that of a peer that is long gone", got)
	}
	for _, s := range p.all {
		s.heard = time.Now().Add(-2 * speedShown)
	}
	if got := p.slowest(); got != 0 {
		t.Errorf("%v bytes a second, measured hours ago", got)
	}
}
