package endpoint

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/internal/system/panics"
)

// Linux ends a connection whose bytes stay unacknowledged if TCP_USER_TIMEOUT is set (RFC 5482). But it also counts the
// time in which the peer's window is full, although RFC 9293 (3.8.6.1) wants a connection kept as long as the peer
// answers the window probes: see tcp(7), and tcp_probe_timer in net/ipv4/tcp_timer.c. So the option ends connections to
// a server that doesn't read for a while, such as one that waits for a lock while pipelined requests arrive, or a
// tunnel's end under back pressure. It even ends those to a server that reads little by little: while each new window
// is smaller than the next packet, the kernel counts from the first time that the window was full.
//
// Without the option the kernel distinguishes a full window from a lost peer, but takes a quarter of an hour to give
// up. Keep-alive probes don't help, as the kernel sends none while there are bytes to send. So the gateway checks the
// connection several times within the timeout, and sets the option only while the peer does not answer. A peer that is
// lost with bytes on their way is noticed when the timeout is over. One that is lost with a full window is noticed
// within five minutes, as the kernel doubles the time between two probes up to two minutes.

// checksPerTimeout is the number of checks of a connection within its timeout. After the first retransmission
// the kernel doubles the time to the next one, so a few checks are enough to set the option well before the
// last retransmission within the timeout. The connection then ends exactly when the timeout is over.
const checksPerTimeout = 3

// limitUnanswered lets c fail with ETIMEDOUT when its peer leaves bytes unacknowledged for the timeout, or,
// if the peer's window is full, two successive probes.
func limitUnanswered(c *net.TCPConn, timeout time.Duration) {
	if raw, err := c.SyscallConn(); err == nil { // else it has been closed
		(&unansweredLimit{raw: raw, timeout: timeout}).scheduleCheck()
	}
}

// unansweredLimit sets TCP_USER_TIMEOUT of a connection while its peer does not answer.
type unansweredLimit struct {
	raw     syscall.RawConn
	timeout time.Duration
	set     bool
}

func (l *unansweredLimit) scheduleCheck() { time.AfterFunc(l.timeout/checksPerTimeout, l.check) }

// check sets or clears the option, and schedules the next check unless the connection has been closed.
func (l *unansweredLimit) check() {
	defer panics.Catch(nil, nil, nil)
	err := l.raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		missing := isUnanswered(info, l.timeout)
		if missing == l.set {
			return
		}
		ms := 0
		if missing {
			ms = int(l.timeout.Milliseconds())
		}
		l.set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, ms) == nil && missing
	})
	if err == nil {
		l.scheduleCheck()
	}
}

// isUnanswered reports whether a peer has not answered what was sent to it last: bytes that were sent again already,
// or a probe of its full window if nothing else came from it within the timeout either. A peer that answers but
// accepts no bytes, because it has shrunk the window that it had announced, counts as having answered.
func isUnanswered(i *unix.TCPInfo, timeout time.Duration) bool {
	if i.Unacked > 0 {
		return i.Retransmits > 0 && i.Last_ack_recv > i.Last_data_sent
	}
	return i.Probes > 0 && int64(i.Last_ack_recv) >= timeout.Milliseconds()
}
