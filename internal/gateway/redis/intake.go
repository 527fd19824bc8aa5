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
	talk   *conversation
	from   source
	in     *resp.Reader
	parser resp.Parser
	rows   rows
	later  bool // it waits for the client only when all replies have come
	inside bool // a large request: a drain waits for its end
	frame  int  // bytes of the request at hand that are still in the buffer
	args   [][]byte
}

// init has what talk has gathered flushed before the intake waits.
func (t *intake) init(talk *conversation, table table) {
	t.talk, t.rows.table = talk, table
	t.from = source{conn: talk.life.Client, idle: &talk.up, intake: t}
	t.in = resp.NewReader(&t.from, bufferBytes)
}

// await has the client judged for what its requests hold. One with a transaction may be waiting itself, for +QUEUED:
// between requests it is judged from the last reply on.
func (t *intake) await() {
	if t == nil {
		return
	}
	t.later = !t.inside && t.talk.tx.open && t.talk.tx.answersAtOnce() && len(t.in.Buffered()) == 0
	if t.later {
		t.talk.queue.awaitBehind(t.talk.life.Requests)
		return
	}
	t.talk.life.Requests.Await(gateway.FromClient)
}

func (t *intake) awaited() {
	if t == nil {
		return
	}
	if t.later {
		t.talk.queue.awaitNone()
	}
	t.talk.life.Requests.Awaited(gateway.FromClient)
}

// enter marks the beginning of a request that a drain has to wait for.
func (t *intake) enter() {
	t.inside = true
	t.talk.life.Requested()
}

// leave marks the end of one.
func (t *intake) leave() {
	t.inside = false
	t.talk.life.BeforeRequest()
}

// finishes reports that a read that a drain interrupted is in the middle of a request,
// which is finished first.
func (t *intake) finishes(err error) bool {
	if t == nil || !t.inside || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	_ = t.talk.life.Client.SetReadDeadline(time.Time{})
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
