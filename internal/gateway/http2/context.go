package http2

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Scope is a context that ends with End, or with its parent context. It costs less than those of package
// context: it is embedded in the request it belongs to, and has no channel until Done is called. Its zero
// value has no parent.
type Scope struct {
	parent  context.Context // nil: none
	secrets *secrets        // of the exchange; nil: the scope does not belong to a Server's request

	mu       sync.Mutex
	err      error
	done     chan struct{} // nil: Done was not called
	children []ender
	childBuf [2]ender    // storage for children
	stop     func() bool // deregisters from a parent that is no Scope
}

// ender is notified once that a scope has ended, by the goroutine that ended it. end must not block.
type ender interface{ end(why error) }

// Begin sets the parent of an unused scope.
func (s *Scope) Begin(parent context.Context) {
	s.parent = parent
	if stop := afterEnd(parent, s); stop != nil {
		s.mu.Lock()
		s.stop = stop // not needed if the scope has ended meanwhile
		s.mu.Unlock()
	}
}

// afterEnd lets e.end be called when a context ends, or calls it now if it has ended. unregister undoes that,
// and needs stop, which may be nil.
func afterEnd(ctx context.Context, e ender) (stop func() bool) {
	s, ok := ctx.(*Scope)
	if !ok {
		return context.AfterFunc(ctx, func() { e.end(ctx.Err()) })
	}
	s.mu.Lock()
	err := s.err
	if err == nil {
		if s.children == nil {
			s.children = s.childBuf[:0]
		}
		s.children = append(s.children, e)
	}
	s.mu.Unlock()
	if err != nil {
		e.end(err)
	}
	return nil
}

// unregister undoes afterEnd, which returned stop. It reports whether e will not be notified.
func unregister(ctx context.Context, e ender, stop func() bool) bool {
	s, ok := ctx.(*Scope)
	if !ok {
		return stop != nil && stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.children, e)
	if i >= 0 {
		s.children = slices.Delete(s.children, i, i+1)
	}
	return i >= 0
}

// End ends the scope. It reports whether the scope may be reused: false if something else has ended it, or if its
// parent ends at the same time and may still call it.
func (s *Scope) End() (unused bool) { return s.close(context.Canceled) }

func (s *Scope) end(why error) { s.close(why) }

func (s *Scope) close(why error) (unused bool) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return false
	}
	s.err = why
	if s.done != nil {
		close(s.done)
	}
	children, stop := s.children, s.stop
	s.children = nil
	s.mu.Unlock()
	for _, e := range children {
		e.end(why)
	}
	return s.parent == nil || unregister(s.parent, s, stop)
}

// Deadline returns the deadline of the parent.
func (s *Scope) Deadline() (at time.Time, ok bool) {
	if s.parent != nil {
		return s.parent.Deadline()
	}
	return at, false
}

// Done returns a channel that is closed when the scope ends.
func (s *Scope) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.err != nil {
			close(s.done)
		}
	}
	return s.done
}

// Err returns why the scope has ended, or nil.
func (s *Scope) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Value returns the secrets for secretsKey, and otherwise the parent's value.
func (s *Scope) Value(key any) any {
	if s.secrets != nil && key == (secretsKey{}) {
		return s.secrets
	}
	if s.parent != nil {
		return s.parent.Value(key)
	}
	return nil
}

// AfterFunc lets package context derive contexts from this one without a goroutine.
func (s *Scope) AfterFunc(f func()) (stop func() bool) {
	e := &asyncFunc{f}
	afterEnd(s, e)
	return func() bool { return unregister(s, e, nil) }
}

type asyncFunc struct{ f func() }

func (l *asyncFunc) end(error) { go l.f() }
