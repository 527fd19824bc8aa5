package redis

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// stash holds values decompressed for the current request, under the request budget.
type stash struct {
	vault *vault
	talk  *conversation
	stall time.Duration

	holds int64 // bytes held until the request has been handled
	owes  int64 // bytes held without budget so far
}

// openAll decompresses the envelopes that a script returned.
func (s *stash) openAll(sealed [][]byte) ([]lua.Known, error) {
	k := make([]lua.Known, 0, len(sealed))
	for _, env := range sealed {
		if env == nil {
			return nil, fmt.Errorf("%w: more than the memory budget allows at once", cinch.ErrTooLarge)
		}
		if slices.ContainsFunc(k, func(o lua.Known) bool { return bytes.Equal(o.Sealed, env) }) {
			continue
		}
		kv, err := s.open(env)
		if err != nil {
			return nil, err
		}
		k = append(k, kv)
	}
	return k, nil
}

// open decompresses an envelope. Both stay in memory until the request has been handled.
func (s *stash) open(env []byte) (lua.Known, error) {
	h, err := cinch.ParseHeader(env)
	if err == nil && h.RawLen <= s.vault.maxOpen {
		err = s.hold(len(env) + openBytes(h))
	}
	if err != nil {
		return lua.Known{}, err
	}
	value, err := s.vault.Sealer.Open(nil, env)
	return lua.Known{Sealed: env, Value: value}, err
}

// hold takes n bytes of the budget until the current request has been handled. It takes nothing until they
// add up to more than freeBytes.
func (s *stash) hold(n int) error {
	if s.owes += int64(n); s.owes <= freeBytes {
		return nil
	}
	n64 := s.owes
	s.owes = 0
	if !s.acquire(n64, n64, reservePatience*s.stall) {
		s.vault.Stats.Error("budget")
		return errNoRoom
	}
	s.holds += n64
	return nil
}

// release releases what was held for a request. It returns err.
func (s *stash) release(err error) error {
	s.talk.life.Requests.Release(s.holds)
	s.holds, s.owes = 0, 0
	return err
}

// acquire takes n bytes of the request budget, of claim that will be needed, and waits at most patience.
func (s *stash) acquire(n, claim int64, patience time.Duration) bool {
	if s.talk.life.Requests.TryAcquire(n) {
		return true
	}
	if s.talk.up.Flush() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(s.talk.life.Context(), patience)
	defer cancel()
	return s.talk.life.Requests.Grow(ctx, n, claim) == nil
}
