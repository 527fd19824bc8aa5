package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/mask"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// Filters decide which Redis traffic is recorded. Requests that targets don't get, logins among them, are
// left out. Values of keys that match a pattern are replaced by others of the same length. Make them with
// NewFilters.
type Filters struct {
	p        *Protocol // without commands if nothing is redacted
	redact   []policy.Pattern
	key      *mask.Key
	requests atomic.Uint64
	excluded shadow.Counter
}

// NewFilters asks production for its commands if keys are to be redacted.
func NewFilters(ctx context.Context, production endpoint.Upstream, redact []string) (*Filters, error) {
	f := &Filters{p: &Protocol{}, key: mask.New()}
	if len(redact) == 0 {
		return f, nil
	}
	for _, glob := range redact {
		f.redact = append(f.redact, policy.Compile(glob))
	}
	var err error
	f.p, err = newProtocol(ctx, &shadow.Target{Name: "production", Upstream: production})
	return f, err
}

// Filter returns the Filter of a new connection.
func (f *Filters) Filter() shadow.Filter { return &filter{filters: f} }

// Requests returns the number of requests.
func (f *Filters) Requests() uint64 { return f.requests.Load() }

// Left returns how many requests were left out, by reason.
func (f *Filters) Left() map[string]int { return f.excluded.All() }

func (f *Filters) exclude(why string) plan {
	f.excluded.Add(why)
	return plan{excluded: true}
}

// matches reports whether the values of a key are redacted.
func (f *Filters) matches(key []byte) bool {
	for i := range f.redact {
		if f.redact[i].Match(key) {
			return true
		}
	}
	return false
}

// plan determines how a request and its reply are recorded.
type plan struct {
	excluded          bool   // both are left out
	opensTx, closesTx bool   // a transaction
	redacted          []bool // by key: its values are redacted
	byKey             bool   // the reply is redacted by key, too
}

type filter struct {
	filters *Filters
	requestSplitter
	replySplitter
	pending  []plan
	queued   []plan // requests after MULTI
	inTx     bool   // inside a transaction
	recorded []byte // by the last call
}

// planBytes is the size of a request that waits for its reply.
const planBytes = 64

// keptBytes limits the buffer that is kept for the next call.
const keptBytes = 64 << 10

// Held returns the number of bytes that are buffered.
func (f *filter) Held() int64 {
	return f.requestSplitter.held() + f.replySplitter.held() + int64(cap(f.recorded)) + planBytes*int64(len(f.pending)+len(f.queued))
}

// Request takes bytes that the client sent, and returns the requests to record that they complete.
func (f *filter) Request(b []byte) ([]byte, error) {
	f.recorded = shadow.Emptied(f.recorded, keptBytes)
	err := f.requestSplitter.each(b, func(args [][]byte, raw []byte) error {
		q := request{bytes: raw, args: args}
		if err := f.filters.p.describe(&q); err != nil {
			return err
		}
		f.filters.requests.Add(1)
		p := f.filters.plan(&q)
		f.pending = append(f.pending, p)
		if !p.excluded {
			f.recorded = append(f.recorded, q.bytes...)
		}
		return nil
	})
	return f.checkHeld(err)
}

// Reply takes bytes that the server sent, and returns the replies to record that they complete.
func (f *filter) Reply(b []byte) ([]byte, error) {
	f.recorded = shadow.Emptied(f.recorded, keptBytes)
	err := f.replySplitter.each(b, func(frame []byte) error {
		if len(f.pending) == 0 {
			return errUnexpectedReply
		}
		p := f.pending[0]
		if f.pending = f.pending[1:]; len(f.pending) == 0 {
			f.pending = nil
		}
		return f.recordReply(p, frame)
	})
	return f.checkHeld(err)
}

func (f *filter) checkHeld(err error) ([]byte, error) {
	if err == nil && f.Held() > maxHeld {
		err = shadow.ErrTooLarge
	}
	return f.recorded, err
}

func (f *filter) recordReply(p plan, frame []byte) error {
	switch {
	case p.closesTx && f.inTx:
		return f.endTransaction(frame)
	case f.inTx:
		if frame[0] == resp.Simple {
			f.queued = append(f.queued, p)
		}
	case p.opensTx:
		f.inTx = frame[0] == resp.Simple
	}
	if !p.excluded {
		f.recorded = f.filters.reply(f.recorded, p, frame)
	}
	return nil
}

var errTransaction = errors.New("a transaction has different numbers of replies and requests")

// endTransaction records the reply that ends a transaction, without the replies to requests that are left
// out.
func (f *filter) endTransaction(frame []byte) error {
	queued := f.queued
	f.queued, f.inTx = nil, false
	h, body := head(frame)
	if !h.IsAggregate() || h.N <= 0 {
		f.recorded = append(f.recorded, frame...)
		return nil
	}
	replies := elements(body, 1)
	if len(replies) != len(queued) {
		return fmt.Errorf("%w: %d and %d", errTransaction, len(replies), len(queued))
	}
	kept := 0
	for _, p := range queued {
		if !p.excluded {
			kept++
		}
	}
	f.recorded = resp.AppendArray(f.recorded, kept)
	for i, p := range queued {
		if !p.excluded {
			f.recorded = f.filters.reply(f.recorded, p, replies[i])
		}
	}
	return nil
}
