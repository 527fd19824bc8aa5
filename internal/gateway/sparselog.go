package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// Of warnings and errors that are alike this many are logged in a period. The rest is counted,
	// and the last of them logged with the count when the period ends.
	sparseBurst  = 10
	sparsePeriod = 10 * time.Second

	// maxSparseKinds bounds the kinds that are told apart; it is a net under mistakes, since messages
	// and classes are constants of our code.
	maxSparseKinds = 1024
)

// SparseLog passes records on to next, but of many warnings or errors that are alike in a short time
// only some: one client, or one broken value that is read again and again, must not fill a disk or
// hide what else happens. Alike are records with the same message, gateway and class (attributes of
// those names). None goes uncounted: the last line of such a period says how many it stands for.
func SparseLog(next slog.Handler) slog.Handler {
	return sparseHandler{next: next, kinds: &sparseKinds{open: map[sparseKind]*sparsePending{}}}
}

type sparseKind struct{ message, gateway, class string }

// sparseHandler is a slog.Handler with the attributes that With has added.
type sparseHandler struct {
	next    slog.Handler
	kinds   *sparseKinds
	gateway string
}

// sparseKinds are the kinds that were logged in the period that has begun with their first record.
type sparseKinds struct {
	mu   sync.Mutex
	open map[sparseKind]*sparsePending
}

// sparsePending is what one kind's period has brought.
type sparsePending struct {
	said   int
	unsaid int
	last   slog.Record  // of those that were not said
	to     slog.Handler // where last belongs
}

func (h sparseHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h sparseHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.next = h.next.WithAttrs(attrs)
	for _, a := range attrs {
		if a.Key == "gateway" {
			h.gateway = a.Value.String()
		}
	}
	return h
}

func (h sparseHandler) WithGroup(name string) slog.Handler {
	h.next = h.next.WithGroup(name)
	return h
}

func (h sparseHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && !h.kinds.admit(h.kindOf(r), r, h.next) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h sparseHandler) kindOf(r slog.Record) sparseKind {
	kind := sparseKind{message: r.Message, gateway: h.gateway}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "class" {
			kind.class = a.Value.String()
		}
		return true
	})
	return kind
}

// admit reports whether to log r at once; if not, it is counted.
func (s *sparseKinds) admit(kind sparseKind, r slog.Record, to slog.Handler) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.open[kind]
	if p == nil {
		if len(s.open) >= maxSparseKinds {
			return true
		}
		p = &sparsePending{}
		s.open[kind] = p
		time.AfterFunc(sparsePeriod, func() { s.end(kind) })
	}
	if p.said < sparseBurst {
		p.said++
		return true
	}
	p.unsaid++
	p.last, p.to = r.Clone(), to
	return false
}

// end closes a period, and begins another where it has left something unsaid: what goes on for
// long is a line a period then.
func (s *sparseKinds) end(kind sparseKind) {
	s.mu.Lock()
	p := s.open[kind]
	if p.unsaid == 0 {
		delete(s.open, kind)
		s.mu.Unlock()
		return
	}
	s.open[kind] = &sparsePending{said: sparseBurst}
	s.mu.Unlock()
	time.AfterFunc(sparsePeriod, func() { s.end(kind) })
	p.last.AddAttrs(slog.Int("repeated", p.unsaid))
	_ = p.to.Handle(context.Background(), p.last)
}
