package endpoint

import (
	"net"
	"time"
)

// unansweredTimeout limits the time that an upstream may leave bytes, or keep-alive probes of a silent connection,
// unacknowledged before the connection counts as lost because the network or the host is down. TCP by itself goes on
// for a quarter of an hour. A slow server still acknowledges, so its connection is kept however long an answer takes.
// So is the connection of a server that doesn't read, which acknowledges the probes of its full window.
const unansweredTimeout = 30 * time.Second

// DetectLostPeer makes reads and writes of a connection to a server fail when the server can no longer be
// reached.
func DetectLostPeer(c net.Conn) { detectLostPeer(c, unansweredTimeout) }

// detectLostPeer makes reads and writes of c fail when its peer has acknowledged nothing for
// the timeout. A request that was acknowledged before is covered by the probes.
func detectLostPeer(c net.Conn, timeout time.Duration) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	probe := max(timeout/6, time.Second)
	_ = t.SetKeepAliveConfig(net.KeepAliveConfig{ // fails when the peer is gone already
		Enable: true, Idle: max(timeout/2, time.Second), Interval: probe, Count: 3,
	})
	limitUnanswered(t, timeout)
}
