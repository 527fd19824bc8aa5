package redis

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// decodeBuffer holds values decompressed for the current request, under the request budget.
type decodeBuffer struct {
	codec    *valueCodec
	upstream *upstreamWriter
	stall    time.Duration

	held int64 // bytes held until the request has been handled
	owed int64 // bytes held but not taken from the budget yet, at most freeBytes
}

// openAll decompresses the envelopes that a script returned.
func (s *decodeBuffer) openAll(sealed [][]byte) ([]lua.Known, error) {
	k := make([]lua.Known, 0, len(sealed))
	for _, env := range sealed {
		if env == nil {
			return nil, fmt.Errorf("%w: more than the memory budget allows at once", envelope.ErrTooLarge)
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
func (s *decodeBuffer) open(env []byte) (lua.Known, error) {
	h, err := envelope.ParseHeader(env)
	if err == nil && h.RawLen <= s.codec.maxOpen {
		err = s.hold(len(env) + openBytes(h))
	}
	if err != nil {
		return lua.Known{}, err
	}
	value, err := s.codec.Sealer.Open(nil, env)
	return lua.Known{Sealed: env, Value: value}, err
}

// hold takes n bytes of the budget until the current request has been handled. It takes nothing until they
// add up to more than freeBytes.
func (s *decodeBuffer) hold(n int) error {
	if s.owed += int64(n); s.owed <= freeBytes {
		return nil
	}
	n64 := s.owed
	s.owed = 0
	if !s.acquire(n64, n64, reservePatience*s.stall) {
		s.codec.Stats.Error("budget")
		return errNoMemory
	}
	s.held += n64
	return nil
}

// release releases the budget held for the current request. It returns err.
func (s *decodeBuffer) release(err error) error {
	s.upstream.life.Requests.Release(s.held)
	s.held, s.owed = 0, 0
	return err
}

// acquire takes n bytes of the request budget and waits for them at most patience. claim is how many bytes will be
// needed, n included.
func (s *decodeBuffer) acquire(n, claim int64, patience time.Duration) bool {
	if s.upstream.life.Requests.TryAcquire(n) {
		return true
	}
	if s.upstream.Flush() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(s.upstream.life.Context(), patience)
	defer cancel()
	return s.upstream.life.Requests.Grow(ctx, n, claim) == nil
}
