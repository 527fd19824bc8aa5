package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// sparseBurst warnings or errors of one kind are logged in a period. Further ones are counted, and the last of
	// them is logged with the count when the period ends.
	sparseBurst  = 10
	sparsePeriod = 10 * time.Second

	// maxSparseKinds limits the kinds that are distinguished, as a safeguard against mistakes: messages and
	// classes are constants in the code.
	maxSparseKinds = 1024
)

// SparseLog returns a handler that passes records on to next, but only some of many warnings or errors of the same
// kind in a short time: one client, or one broken value that is read repeatedly, must not fill a disk or hide other
// messages. Records with the same message, gateway and class (attributes of those names) are of one kind. None is
// lost in the count: the last line of a period says how many records it stands for (attribute repeated).
func SparseLog(next slog.Handler) slog.Handler {
	return sparseHandler{next: next, kinds: &sparseKinds{active: map[sparseKind]*sparsePending{}}}
}

type sparseKind struct{ message, gateway, class string }

// sparseHandler implements SparseLog, with the attributes that With has added.
type sparseHandler struct {
	next    slog.Handler
	kinds   *sparseKinds
	gateway string
}

// sparseKinds holds the kinds with a running period. The first record of a kind begins its period.
type sparseKinds struct {
	mu     sync.Mutex
	active map[sparseKind]*sparsePending
}

// sparsePending counts the records of one kind in its period.
type sparsePending struct {
	logged     int
	suppressed int
	last       slog.Record  // the last of the suppressed records
	handler    slog.Handler // the handler for last
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

// admit reports whether to log r at once; if not, it counts r.
func (s *sparseKinds) admit(kind sparseKind, r slog.Record, to slog.Handler) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.active[kind]
	if p == nil {
		if len(s.active) >= maxSparseKinds {
			return true
		}
		p = &sparsePending{}
		s.active[kind] = p
		time.AfterFunc(sparsePeriod, func() { s.end(kind) })
	}
	if p.logged < sparseBurst {
		p.logged++
		return true
	}
	p.suppressed++
	p.last, p.handler = r.Clone(), to
	return false
}

// end ends a period. If records were suppressed, it logs the last one and begins another period without a burst, so
// that a lasting problem is logged once a period.
func (s *sparseKinds) end(kind sparseKind) {
	s.mu.Lock()
	p := s.active[kind]
	if p.suppressed == 0 {
		delete(s.active, kind)
		s.mu.Unlock()
		return
	}
	s.active[kind] = &sparsePending{logged: sparseBurst}
	s.mu.Unlock()
	time.AfterFunc(sparsePeriod, func() { s.end(kind) })
	p.last.AddAttrs(slog.Int("repeated", p.suppressed))
	_ = p.handler.Handle(context.Background(), p.last)
}
