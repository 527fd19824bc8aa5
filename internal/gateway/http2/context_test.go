package http2

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A scope behaves like the contexts of package context, whatever its parent and its children are.
func TestScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outer, inner, other Scope
		inner.Begin(&outer)
		other.Begin(&outer)
		ctx, cancel := context.WithTimeout(&inner, time.Hour)
		defer cancel()
		called := false
		context.AfterFunc(&inner, func() { called = true })
		stop := context.AfterFunc(&inner, func() { t.Error("was stopped") })
		if !stop() || stop() {
			t.Error("stop does not say whether it has stopped anything")
		}
		done := inner.Done()
		if other.End(); outer.Err() != nil || inner.Err() != nil || !errors.Is(other.Err(), context.Canceled) || len(outer.children) != 1 {
			t.Errorf("%v, %v, %v; %d wait", outer.Err(), inner.Err(), other.Err(), len(outer.children))
		}
		outer.End()
		<-done
		<-ctx.Done()
		<-outer.Done()
		if synctest.Wait(); !called || inner.Err() != context.Canceled || ctx.Err() != context.Canceled {
			t.Errorf("%v, %v, %v", called, inner.Err(), ctx.Err())
		}
		var late Scope
		if late.Begin(&outer); late.Err() != context.Canceled {
			t.Error("lives in one that has ended")
		}
	})
}

// Contexts may end while others begin in them.
func TestScopeEndsWhileAnotherBegins(t *testing.T) {
	for range 1000 {
		var outer, inner, foreign Scope
		ctx, cancel := context.WithCancel(t.Context())
		go outer.End()
		go cancel()
		inner.Begin(&outer)
		foreign.Begin(ctx)
		<-inner.Done()
		<-foreign.Done()
	}
}

func TestScopeInOtherContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, 1), time.Second)
		defer cancel()
		var s Scope
		s.Begin(ctx)
		at, ok := s.Deadline()
		if want, _ := ctx.Deadline(); !ok || !at.Equal(want) || s.Value(key{}) != 1 {
			t.Error(at, ok, s.Value(key{}))
		}
		if <-s.Done(); s.Err() != context.DeadlineExceeded {
			t.Error(s.Err())
		}
	})
}

// A server's context keeps no reference to requests that failed, in whatever way.
func TestScopesOfRequests(t *testing.T) {
	var outer Scope
	addr := serveWith(t, false, echo, func(c *ServerConfig) { c.Context = &outer })
	r := rawClient(t, addr)
	r.headers(1, true, get...)
	r.headers(3, true, with("host", "b")...)
	r.headers(5, true, ":method", "GET")
	r.headers(7, true, with("content-length", "1")...)
	r.headers(9, true, with("long", strings.Repeat("x", testHeader))...)
	for range 5 {
		_ = r.verdict()
	}
	testenv.Eventually(t, "the scopes have ended", func() bool {
		outer.mu.Lock()
		defer outer.mu.Unlock()
		return len(outer.children) == 0
	})
}
