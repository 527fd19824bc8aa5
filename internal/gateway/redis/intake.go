package redis

import (
	"errors"
	"os"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// intake reads the client's requests.
type intake struct {
	life   *gateway.Life
	from   source
	in     *resp.Reader
	parser resp.Parser
	rows   rows
	inside bool // a large request: a drain waits for its end
	frame  int  // bytes of the request at hand that are still in the buffer
	args   [][]byte
}

// init has idle flushed before the intake waits. What the session's requests hold while it does has the client judged.
func (t *intake) init(life *gateway.Life, table table, idle *sink) {
	t.life, t.rows.table = life, table
	t.from = source{conn: life.Client, idle: idle, account: life.Requests, goOn: t.finishes}
	t.in = resp.NewReader(&t.from, bufferBytes)
}

// enter marks the beginning of a request that a drain has to wait for.
func (t *intake) enter() {
	t.inside = true
	t.life.Requested()
}

// leave marks the end of one.
func (t *intake) leave() {
	t.inside = false
	t.life.BeforeRequest()
}

// finishes reports that a read that a drain interrupted is in the middle of a request,
// which is finished first.
func (t *intake) finishes(err error) bool {
	if !t.inside || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	_ = t.life.Client.SetReadDeadline(time.Time{})
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
