package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// Filters decide which Redis traffic is recorded. Requests that targets don't get, logins among them, are
// left out. Values of keys that match a pattern are replaced by others of the same length. Make them with
// NewFilters.
type Filters struct {
	p        *Protocol // without commands if nothing is redacted
	redact   []policy.Pattern
	key      [32]byte // of the hash; never written anywhere
	requests atomic.Uint64

	mu   sync.Mutex
	left map[string]int
}

// NewFilters asks production for its commands if keys are to be redacted.
func NewFilters(ctx context.Context, production gateway.Upstream, redact []string) (*Filters, error) {
	f := &Filters{p: &Protocol{}, left: map[string]int{}}
	if len(redact) == 0 {
		return f, nil
	}
	if _, err := rand.Read(f.key[:]); err != nil {
		return nil, err
	}
	for _, glob := range redact {
		f.redact = append(f.redact, policy.Compile(glob))
	}
	var err error
	f.p, err = learned(ctx, &shadow.Target{Name: "production", Upstream: production})
	return f, err
}

// Filter returns the Filter of a new connection.
func (f *Filters) Filter() shadow.Filter { return &filter{all: f} }

// Requests returns the number of requests.
func (f *Filters) Requests() uint64 { return f.requests.Load() }

// Left returns how many requests were left out, by reason.
func (f *Filters) Left() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.left)
}

func (f *Filters) leave(why string) plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left[why]++
	return plan{leave: true}
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
	leave         bool   // both are left out
	opens, closes bool   // a transaction
	hidden        []bool // by key: its values are redacted
	byKey         bool   // the reply is redacted by key, too
}

type filter struct {
	all *Filters
	in
	out
	pending  []plan
	tx       []plan // requests after MULTI
	within   bool   // inside a transaction
	recorded []byte // by the last call
}

// planBytes is the size of a request that waits for its reply.
const planBytes = 64

// keptBytes limits the buffer that is kept for the next call.
const keptBytes = 64 << 10

// Held returns the number of bytes that are buffered.
func (f *filter) Held() int64 {
	return f.in.held() + f.out.held() + int64(cap(f.recorded)) + planBytes*int64(len(f.pending)+len(f.tx))
}

// begin prepares the buffer for the recorded bytes of one call.
func (f *filter) begin() {
	if cap(f.recorded) > keptBytes {
		f.recorded = nil
	}
	f.recorded = f.recorded[:0]
}

// Request takes bytes that the client sent, and returns the requests to record that they complete.
func (f *filter) Request(b []byte) ([]byte, error) {
	f.begin()
	err := f.in.each(b, func(args [][]byte, own []byte) error {
		q := request{bytes: own, args: args}
		if err := f.all.p.describe(&q); err != nil {
			return err
		}
		f.all.requests.Add(1)
		p := f.all.plan(&q)
		f.pending = append(f.pending, p)
		if !p.leave {
			f.recorded = append(f.recorded, q.bytes...)
		}
		return nil
	})
	return f.bounded(err)
}

// Reply takes bytes that the server sent, and returns the replies to record that they complete.
func (f *filter) Reply(b []byte) ([]byte, error) {
	f.begin()
	err := f.out.each(b, func(frame []byte) error {
		if len(f.pending) == 0 {
			return errUnasked
		}
		p := f.pending[0]
		if f.pending = f.pending[1:]; len(f.pending) == 0 {
			f.pending = nil
		}
		return f.answered(p, frame)
	})
	return f.bounded(err)
}

func (f *filter) bounded(err error) ([]byte, error) {
	if err == nil && f.Held() > maxHeld {
		err = shadow.ErrTooLarge
	}
	return f.recorded, err
}

func (f *filter) answered(p plan, frame []byte) error {
	switch {
	case p.closes && f.within:
		return f.closed(frame)
	case f.within:
		if frame[0] == resp.Simple {
			f.tx = append(f.tx, p)
		}
	case p.opens:
		f.within = frame[0] == resp.Simple
	}
	if !p.leave {
		f.recorded = f.all.reply(f.recorded, p, frame)
	}
	return nil
}

var errTransaction = errors.New("a transaction has different numbers of replies and requests")

// closed records the reply that ends a transaction, without the replies to requests that are left out.
func (f *filter) closed(frame []byte) error {
	queued := f.tx
	f.tx, f.within = nil, false
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
		if !p.leave {
			kept++
		}
	}
	f.recorded = resp.AppendArray(f.recorded, kept)
	for i, p := range queued {
		if !p.leave {
			f.recorded = f.all.reply(f.recorded, p, replies[i])
		}
	}
	return nil
}
