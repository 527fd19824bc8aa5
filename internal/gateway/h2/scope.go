package h2

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Scope is a context that is ended by who began it, or with the one around it. It costs less than those of package context: it lies in
// what it belongs to, and has no channel while nobody asks for one. Its zero value has nothing around it.
type Scope struct {
	around  context.Context // nil: nothing
	secrets *secrets        // of the exchange; nil: the scope is not that of a Server's request

	mu    sync.Mutex
	err   error
	done  chan struct{} // nil: nobody has asked
	told  []ender
	first [2]ender    // room for told
	leave func() bool // the context around it, if that is no Scope
}

// ender is told once that a scope has ended, by who ended it, which must not have to wait.
type ender interface{ end(why error) }

// Begin puts an unused scope into another context.
func (s *Scope) Begin(in context.Context) {
	s.around = in
	if leave := afterEnd(in, s); leave != nil {
		s.mu.Lock()
		s.leave = leave // unless it has ended by now: then nobody asks
		s.mu.Unlock()
	}
}

// afterEnd lets e be told of a context's end, or tells it now. noMore takes that back; it needs stop, which may be nil.
func afterEnd(ctx context.Context, e ender) (stop func() bool) {
	s, ok := ctx.(*Scope)
	if !ok {
		return context.AfterFunc(ctx, func() { e.end(ctx.Err()) })
	}
	s.mu.Lock()
	err := s.err
	if err == nil {
		if s.told == nil {
			s.told = s.first[:0]
		}
		s.told = append(s.told, e)
	}
	s.mu.Unlock()
	if err != nil {
		e.end(err)
	}
	return nil
}

// noMore takes back what afterEnd did, which has returned stop. It reports whether e will not be told.
func noMore(ctx context.Context, e ender, stop func() bool) bool {
	s, ok := ctx.(*Scope)
	if !ok {
		return stop != nil && stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.told, e)
	if i >= 0 {
		s.told = slices.Delete(s.told, i, i+1)
	}
	return i >= 0
}

// End ends the scope.
func (s *Scope) End() { s.end(context.Canceled) }

func (s *Scope) end(why error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = why
	if s.done != nil {
		close(s.done)
	}
	told, leave := s.told, s.leave
	s.told = nil
	s.mu.Unlock()
	for _, e := range told {
		e.end(why)
	}
	if s.around != nil {
		noMore(s.around, s, leave)
	}
}

// Deadline is that of the context around it.
func (s *Scope) Deadline() (at time.Time, ok bool) {
	if s.around != nil {
		return s.around.Deadline()
	}
	return at, false
}

// Done is closed when the scope has ended.
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

// Err says how the scope has ended.
func (s *Scope) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Value returns the secrets for secretsKey, and else the value in the context around the scope.
func (s *Scope) Value(key any) any {
	if s.secrets != nil && key == (secretsKey{}) {
		return s.secrets
	}
	if s.around != nil {
		return s.around.Value(key)
	}
	return nil
}

// AfterFunc is what package context asks for when it makes a context in this one: it needs no goroutine to follow it then.
func (s *Scope) AfterFunc(f func()) (stop func() bool) {
	e := &later{f}
	afterEnd(s, e)
	return func() bool { return noMore(s, e, nil) }
}

type later struct{ f func() }

func (l *later) end(error) { go l.f() }
