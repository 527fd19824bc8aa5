package redis

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// intake reads the client's requests.
type intake struct {
	client   net.Conn
	in       *resp.Reader
	parser   resp.Parser
	rows     rows
	draining atomic.Bool
	inside   bool // a large request: a drain waits for its end
	looked   bool // draining: idle, and the last read found nothing
	frame    int  // bytes of the request at hand that are still in the buffer
	args     [][]byte
}

// newIntake returns one that calls idle before it waits. What room holds while it does has the client judged.
func newIntake(client net.Conn, table table, idle func() error, room *gateway.Account) *intake {
	n := &intake{client: client, rows: rows{table: table}}
	n.in = resp.NewReader(&source{conn: client, idle: idle, room: room, goOn: n.finishes}, bufferBytes)
	return n
}

// leave marks the end of a request that a drain has to wait for.
func (t *intake) leave() {
	t.inside = false
	if t.draining.Load() {
		_ = t.client.SetReadDeadline(time.Now().Add(drainPoll))
	}
}

// finishes reports that a read that a drain interrupted is in the middle of a request,
// which is finished first.
func (t *intake) finishes(err error) bool {
	if !t.inside || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	_ = t.client.SetReadDeadline(time.Time{})
	return true
}

// isLarge reports that the request will not fit the buffer.
func (t *intake) isLarge() bool {
	if t.in.Full() {
		return true
	}
	n, ok := t.parser.Bulk()
	return ok && t.parser.Pos()+n+2 > bufferBytes
}

// drainPoll is how often a draining session looks whether it is idle.
const drainPoll = 20 * time.Millisecond
