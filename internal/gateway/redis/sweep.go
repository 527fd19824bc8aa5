package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
)

// A sweep puts back what is sealed in the hashes whose keys begin with a prefix, because an index
// covers them. It changes only fields that still hold what it has opened, and keeps when they expire.

const (
	sweepKeys  = 500     // of a step of SCAN
	sweepBatch = 50      // hashes are looked at in one go
	sweepParts = 16      // sealed fields of a hash are put back in one go
	sweepBytes = 4 << 20 // of their values

	// What was sealed before this gateway, or another one, heard of the index may be on its way still.
	sweepAgain = 3 * time.Second
	sweepRetry = 10 * time.Second
)

// sweep is one for a prefix, which is done when it has passed over all keys once.
type sweep struct {
	done  chan struct{}
	err   error // when it is done
	again bool  // it was for an index that did not exist yet
	put   int   // fields
	bad   int   // that don't open
}

func (w *sweep) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// begin starts a sweep as the user of c, gently or as fast as it goes, and twice if there may be
// stragglers. x.mu is held.
func (x *indexes) begin(prefix string, c *goredis.Client, gentle, twice bool) *sweep {
	w := &sweep{done: make(chan struct{})}
	x.sweeps[prefix] = w
	if w.err = x.ctx.Err(); w.err != nil {
		close(w.done)
		return w
	}
	x.ends.Go(func() { x.sweep(w, c, prefix, gentle, twice) })
	return w
}

func (x *indexes) sweep(w *sweep, c *goredis.Client, prefix string, gentle, twice bool) {
	defer gateway.CatchPanic(x.vault.log, x.vault.Stats, func() { x.forget(prefix, w) })
	w.err = x.tryPass(w, c, prefix, gentle)
	x.report(w, prefix)
	close(w.done)
	if w.err == nil && twice && waited(x.ctx, sweepAgain) {
		late := &sweep{}
		late.err = x.pass(late, c, prefix, true)
		x.report(late, prefix)
	}
	if w.err != nil && waited(x.ctx, sweepRetry) {
		x.forget(prefix, w)
	}
}

// tryPass makes an error of a panic: clients wait for the outcome.
func (x *indexes) tryPass(w *sweep, c *goredis.Client, prefix string, gentle bool) (err error) {
	defer gateway.CatchPanic(x.vault.log, x.vault.Stats, func() { err = gateway.ErrPanicked })
	return x.pass(w, c, prefix, gentle)
}

// forget has the next look begin a sweep that failed again.
func (x *indexes) forget(prefix string, w *sweep) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sweeps[prefix] == w {
		delete(x.sweeps, prefix)
	}
}

func waited(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (x *indexes) report(w *sweep, prefix string) {
	log := x.vault.log
	switch {
	case errors.Is(w.err, context.Canceled), errors.Is(w.err, goredis.ErrClosed), errors.Is(w.err, errReplica):
	case w.err != nil:
		log.Warn("sealed fields under a search index can't be put back, so that it answers wrongly; run cinch unpack --key for its prefix",
			"prefix", prefix, "err", w.err)
	case w.bad > 0:
		log.Warn("sealed fields under a search index don't open", "prefix", prefix, "fields", w.bad, "put_back", w.put)
	case w.put > 0:
		log.Info("sealed fields under a search index were put back", "prefix", prefix, "fields", w.put)
	}
}

var errReplica = errors.New("the server is a replica")

// pass goes over all hashes of the prefix once.
func (x *indexes) pass(w *sweep, c *goredis.Client, prefix string, gentle bool) error {
	if gentle { // one at a time
		x.sweeping.Lock()
		defer x.sweeping.Unlock()
	}
	pattern, cursor := storeredis.PrefixPattern(prefix), uint64(0)
	for {
		began := time.Now()
		keys, next, err := c.ScanType(x.ctx, cursor, pattern, sweepKeys, "hash").Result()
		for len(keys) > 0 && err == nil {
			n := min(len(keys), sweepBatch)
			err = x.putBackAll(x.ctx, w, c, keys[:n])
			keys = keys[n:]
		}
		if err != nil || next == 0 {
			return err
		}
		cursor = next
		if gentle && !waited(x.ctx, 4*time.Since(began)) {
			return x.ctx.Err()
		}
	}
}

// putBackAll puts back the sealed fields of some hashes.
func (x *indexes) putBackAll(ctx context.Context, w *sweep, c *goredis.Client, keys []string) error {
	pipe := c.Pipeline()
	looks := make([]*goredis.Cmd, len(keys))
	for i, k := range keys {
		looks[i] = askSealed(ctx, pipe, k, sweepParts)
	}
	if _, err := pipe.Exec(ctx); err != nil && !isDenial(err) {
		return err
	}
	for i, k := range keys {
		if err := x.putBackHash(ctx, w, c, k, looks[i]); err != nil {
			return err
		}
	}
	return nil
}

// putBackHash puts back the sealed fields of one hash, given the first of them.
func (x *indexes) putBackHash(ctx context.Context, w *sweep, c *goredis.Client, key string, look *goredis.Cmd) error {
	for most := sweepParts; ; look = askSealed(ctx, c, key, most) {
		list, err := look.Result()
		pairs := asStrings(list)
		if err == nil && len(pairs) == 0 || err != nil && isWrongType(err.Error()) {
			return nil
		}
		var done, bad int
		if err == nil {
			done, bad, err = x.putBack(ctx, c, key, pairs)
		}
		switch {
		case err != nil:
			return refusalOfSweep(err)
		case done == 0 && len(pairs) <= 2*most:
			w.bad += bad
			return nil
		case done == 0: // what does not open hides the others
			most *= 8
		}
		w.put += done
	}
}

func askSealed(ctx context.Context, c interface {
	Eval(context.Context, string, []string, ...any) *goredis.Cmd
}, key string, most int,
) *goredis.Cmd {
	return c.Eval(ctx, lua.SealedFields, []string{key}, cinch.Magic, 2*most)
}

// putBack puts back some sealed fields of one hash; pairs are fields and envelopes. It says how many, and
// how many of those that it tried don't open or have to stay wrapped.
func (x *indexes) putBack(ctx context.Context, c *goredis.Client, key string, pairs []string) (done, bad int, err error) {
	pairs, size := x.affordable(pairs)
	account := x.share.Account(nil, nil)
	defer account.Close()
	if err := account.Acquire(ctx, size); err != nil {
		return 0, 0, err
	}
	args := []any{0}
	for i := 1; i < len(pairs); i += 2 {
		value, err := x.vault.Sealer.Open(nil, []byte(pairs[i]))
		if _, own := cinch.ParseHeader(value); err != nil || own == nil {
			bad++
			continue
		}
		args = append(args, pairs[i], value)
	}
	if len(args) > 1 {
		err = c.Eval(ctx, lua.Inflate, []string{key}, args...).Err()
	}
	return len(args) / 2, bad, err
}

// affordable are the first of the pairs, one at least, whose values take little memory together.
func (x *indexes) affordable(pairs []string) (first []string, size int64) {
	for i := 1; i < len(pairs); i += 2 {
		n := int64(len(pairs[i]))
		if h, err := cinch.ParseHeader([]byte(pairs[i])); err == nil && h.RawLen <= x.vault.maxOpen {
			n += int64(openBytes(h))
		}
		if size > 0 && size+n > sweepBytes {
			return pairs[:i-1], size
		}
		size += n
	}
	return pairs, size
}

// refusalOfSweep is an error as the log and clients read it.
func refusalOfSweep(err error) error {
	if strings.Contains(err.Error(), "READONLY") {
		return errReplica
	}
	return fmt.Errorf("putting back: %w", err)
}
