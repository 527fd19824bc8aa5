package mongo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/mask"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// Filters decide which MongoDB traffic is recorded. Requests that targets don't get, logins among them, are
// left out. Values of collections that match a pattern are replaced by others of the same type and length.
// Make them with NewFilters.
type Filters struct {
	redact   []policy.Pattern
	key      *mask.Key
	views    views
	cursors  leftCursors
	requests atomic.Uint64
	left     shadow.Counter
}

// NewFilters asks production for its views if collections are to be redacted.
func NewFilters(ctx context.Context, production endpoint.Upstream, redact []string) (*Filters, error) {
	f := &Filters{key: mask.New()}
	if len(redact) == 0 {
		return f, nil
	}
	for _, glob := range redact {
		if !strings.Contains(glob, ".") && !strings.Contains(glob, "*") {
			return nil, fmt.Errorf("%w: %q", ErrPattern, glob)
		}
		f.hide(glob)
	}
	client, err := connect(ctx, production)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	if err := f.learnViews(ctx, client); err != nil {
		return nil, fmt.Errorf("read production's views, which may show redacted values (put a user into its URI): %w", err)
	}
	return f, nil
}

func (f *Filters) hide(glob string) { f.redact = append(f.redact, policy.Compile(glob)) }

// ErrPattern reports a pattern that no collection can match.
var ErrPattern = errors.New("a pattern must name a database and a collection, such as shop.users or shop.*")

// Filter returns the Filter of a new connection.
func (f *Filters) Filter() shadow.Filter { return &filter{all: f, pending: map[int32]plan{}} }

// Requests returns the number of requests.
func (f *Filters) Requests() uint64 { return f.requests.Load() }

// Left returns how many requests were left out, by reason.
func (f *Filters) Left() map[string]int { return f.left.All() }

func (f *Filters) leave(why string) plan {
	f.left.Add(why)
	return plan{leave: true}
}

// plan determines how a request and its reply are recorded.
type plan struct {
	leave  bool  // both are left out
	data   bool  // it reads data: getMores of its cursor are left out, too
	cursor int64 // ID of the cursor that it reads, if it is left out
	hide   bool  // redact the values in the reply
	repeat bool  // there may be several replies
}

type filter struct {
	all      *Filters
	requests frames
	replies  frames
	pending  map[int32]plan
	recorded []byte // by the last call
}

// planBytes is the size of a request that waits for its reply.
const planBytes = 64

// Held returns the number of bytes that are buffered.
func (f *filter) Held() int64 {
	return int64(cap(f.requests.in)+cap(f.replies.in)+cap(f.recorded)) + planBytes*int64(len(f.pending))
}

// Request takes bytes that the client sent, and returns the requests to record that they complete.
func (f *filter) Request(b []byte) ([]byte, error) {
	f.recorded = shadow.Emptied(f.recorded, maxKept)
	err := f.requests.take(b, f.ask)
	return f.bounded(err)
}

// Reply takes bytes that the server sent, and returns the replies to record that they complete.
func (f *filter) Reply(b []byte) ([]byte, error) {
	f.recorded = shadow.Emptied(f.recorded, maxKept)
	err := f.replies.take(b, f.answer)
	return f.bounded(err)
}

func (f *filter) bounded(err error) ([]byte, error) {
	if err == nil && f.Held() > maxHeld {
		err = shadow.ErrTooLarge
	}
	return f.recorded, err
}

func (f *filter) ask(h wire.Header, raw []byte) error {
	m, name, err := command(h, raw)
	if err != nil {
		return err
	}
	f.all.requests.Add(1)
	p, q := f.all.plan(m, name)
	p.repeat = m.mayExhaust()
	if !m.moreToCome() && (!p.leave || p.data) {
		f.pending[m.RequestID] = p
	}
	switch {
	case p.leave:
	case p.hide:
		f.recorded = m.append(f.recorded, q.body, q.sections)
	default:
		f.recorded = append(f.recorded, raw...)
	}
	return nil
}

// answer processes a reply. Replies to requests that are left out are left out.
func (f *filter) answer(h wire.Header, raw []byte) error {
	p, waits := f.pending[h.ResponseTo]
	if !waits {
		return nil
	}
	delete(f.pending, h.ResponseTo)
	if !p.leave && !p.hide && !p.repeat {
		f.recorded = append(f.recorded, raw...)
		return nil
	}
	m, err := parseReply(h, raw)
	if err != nil {
		return err
	}
	if m.moreToCome() {
		f.pending[h.RequestID] = p
	}
	switch {
	case p.leave:
		f.all.cursors.leave(p.cursor, m.body)
	case p.hide:
		f.recorded = m.append(f.recorded, f.all.reply(m.body), nil)
	default:
		f.recorded = append(f.recorded, raw...)
	}
	return nil
}

// append appends the message with other content, without compression and checksum.
func (m *message) append(dst, body []byte, sections []section) []byte {
	start := len(dst)
	dst = wire.AppendHeader(dst, wire.Header{RequestID: m.RequestID, ResponseTo: m.ResponseTo, OpCode: wire.OpMsg})
	flags := uint32(m.flags &^ wire.ChecksumPresent)
	dst = append(dst, byte(flags), byte(flags>>8), byte(flags>>16), byte(flags>>24), 0)
	dst = append(dst, body...)
	for _, s := range sections {
		dst = appendSection(dst, s.name, s.documents)
	}
	wire.PutLength(dst[start:])
	return dst
}

// leftCursors holds the cursors of queries that are left out. It is used by the recorder's goroutine only.
type leftCursors struct {
	open    map[int64]time.Time
	omitted time.Time // when there were last too many
}

// leave adds the cursor of a reply, or removes the one that was read if the reply is its last.
func (c *leftCursors) leave(read int64, reply []byte) {
	id := cursorOf(reply)
	if id == 0 {
		if document(reply, "cursor") != nil {
			delete(c.open, read)
		}
		return
	}
	if c.open == nil {
		c.open = map[int64]time.Time{}
	}
	now := time.Now()
	if _, known := c.open[id]; !known && len(c.open) >= maxCursors {
		for old, used := range c.open {
			if now.Sub(used) > cursorTime {
				delete(c.open, old)
			}
		}
		if len(c.open) >= maxCursors {
			c.omitted = now
			return
		}
	}
	c.open[id] = now
}

// has reports whether a cursor may be one of these. For cursorTime after there were too many, any cursor may
// be. An omitted cursor is added, or omitted again, when it is read; the server closes it if it is not read.
func (c *leftCursors) has(id int64) bool {
	_, left := c.open[id]
	return left || !c.omitted.IsZero() && time.Since(c.omitted) <= cursorTime
}
