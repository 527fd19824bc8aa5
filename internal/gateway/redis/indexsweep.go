package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// A sweep decompresses in place the compressed fields of hashes whose keys begin with a prefix, because an
// index covers them. It changes only fields that still hold the envelope that it decompressed, and keeps
// their expiry.

const (
	sweepKeys  = 500     // keys in a step of SCAN
	sweepBatch = 50      // hashes examined at once
	sweepParts = 16      // compressed fields of a hash decompressed at once
	sweepBytes = 4 << 20 // bytes of values read, or decompressed, at once; one more value may exceed them

	// Values compressed before this or another gateway knew the index may still be on their way to the
	// server.
	secondPassDelay = 3 * time.Second
	sweepRetryDelay = 10 * time.Second
)

// sweep is the state of one sweep. It is done after one pass over all keys of its prefix.
type sweep struct {
	done     chan struct{}
	err      error // valid when done is closed
	repeat   bool  // the index did not exist yet: sweep again when it does
	inflated int   // fields decompressed
	failed   int   // fields that cannot be decompressed
}

func (w *sweep) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// ensureSweep starts a sweep of an announced prefix, unless one has succeeded or is running.
func (x *indexes) ensureSweep(prefix string, as *goredis.Client) *sweep {
	x.mu.Lock()
	defer x.mu.Unlock()
	if w := x.sweeps[prefix]; w != nil && (!w.ended() || w.err == nil) {
		return w
	}
	c := x.client
	if as != nil {
		c = as
	}
	w := x.startSweep(prefix, c, false, false)
	w.repeat = true
	return w
}

// startSweep starts a sweep with c's options, slowly if gentle. If twice, a second pass follows, for values that
// arrive late. x.mu must be held.
func (x *indexes) startSweep(prefix string, c *goredis.Client, gentle, twice bool) *sweep {
	w := &sweep{done: make(chan struct{})}
	x.sweeps[prefix] = w
	if w.err = x.ctx.Err(); w.err != nil {
		close(w.done)
		return w
	}
	x.running.Go(func() { x.sweep(w, c, prefix, gentle, twice) })
	return w
}

func (x *indexes) sweep(w *sweep, c *goredis.Client, prefix string, gentle, twice bool) {
	defer gateway.CatchPanic(x.codec.log, x.codec.Stats, func() { x.removeSweep(prefix, w) })
	w.err = x.tryPass(w, c, prefix, gentle)
	x.report(w, prefix)
	close(w.done)
	if w.err == nil && twice && sleep(x.ctx, secondPassDelay) {
		late := &sweep{}
		late.err = x.pass(late, c, prefix, true)
		x.report(late, prefix)
	}
	if w.err != nil && sleep(x.ctx, sweepRetryDelay) {
		x.removeSweep(prefix, w)
	}
}

// tryPass is pass, but returns a panic as an error: clients wait for the outcome.
func (x *indexes) tryPass(w *sweep, c *goredis.Client, prefix string, gentle bool) (err error) {
	defer gateway.CatchPanic(x.codec.log, x.codec.Stats, func() { err = gateway.ErrPanicked })
	return x.pass(w, c, prefix, gentle)
}

// removeSweep makes the next poll start the failed sweep again.
func (x *indexes) removeSweep(prefix string, w *sweep) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sweeps[prefix] == w {
		delete(x.sweeps, prefix)
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (x *indexes) report(w *sweep, prefix string) {
	log := x.codec.log
	switch {
	case errors.Is(w.err, context.Canceled), errors.Is(w.err, goredis.ErrClosed), errors.Is(w.err, errReplica):
	case w.err != nil:
		log.Warn("can't decompress the fields under a search index, so its answers are wrong; run cinch unpack --key for its prefix",
			"prefix", prefix, "err", w.err)
	case w.failed > 0:
		log.Warn("fields under a search index are damaged or lack their dictionary", "prefix", prefix, "fields", w.failed, "put_back", w.inflated)
	case w.inflated > 0:
		log.Info("fields under a search index were decompressed", "prefix", prefix, "fields", w.inflated)
	}
}

var errReplica = errors.New("the server is a replica")

// pass sweeps all hashes under the prefix once, on a connection of its own with c's options. If gentle, it pauses
// between steps. If the connection ends, so does the pass: SCAN's cursor means nothing to another process, to which a
// new connection may lead after a restart or a failover.
func (x *indexes) pass(w *sweep, c *goredis.Client, prefix string, gentle bool) error {
	if gentle { // only one at a time
		x.sweeping.Lock()
		defer x.sweeping.Unlock()
	}
	client := goredis.NewClient(c.Options())
	defer client.Close()
	defer context.AfterFunc(x.ctx, func() { _ = client.Close() })() // ends a command that waits for its answer
	conn := client.Conn()
	defer conn.Close()
	pattern, cursor := prefixPattern(prefix), uint64(0)
	for {
		began := time.Now()
		keys, next, err := conn.ScanType(x.ctx, cursor, pattern, sweepKeys, "hash").Result()
		for len(keys) > 0 && err == nil {
			n := min(len(keys), sweepBatch)
			err = x.inflateAll(x.ctx, w, conn, keys[:n])
			keys = keys[n:]
		}
		if err != nil || next == 0 {
			return err
		}
		cursor = next
		if gentle && !sleep(x.ctx, 4*time.Since(began)) {
			return x.ctx.Err()
		}
	}
}

// prefixPattern returns the SCAN pattern for keys that begin with a prefix.
func prefixPattern(prefix string) string {
	var b bytes.Buffer
	for _, c := range []byte(prefix) {
		if strings.IndexByte(`*?[]\^`, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String() + "*"
}

// inflateAll decompresses the compressed fields of some hashes in place.
func (x *indexes) inflateAll(ctx context.Context, w *sweep, c *goredis.Conn, keys []string) error {
	pipe := c.Pipeline()
	looks := make([]*goredis.Cmd, len(keys))
	for i, k := range keys {
		looks[i] = askSealed(ctx, pipe, k, sweepParts)
	}
	if _, err := pipe.Exec(ctx); err != nil && !isServerError(err) {
		return err
	}
	for i, k := range keys {
		if err := x.inflateHash(ctx, w, c, k, looks[i]); err != nil {
			return err
		}
	}
	return nil
}

// inflateHash decompresses the compressed fields of one hash in place. look holds the first of them.
func (x *indexes) inflateHash(ctx context.Context, w *sweep, c *goredis.Conn, key string, look *goredis.Cmd) error {
	for most := sweepParts; ; look = askSealed(ctx, c, key, most) {
		list, err := look.Result()
		pairs := asStrings(list)
		if err == nil && len(pairs) == 0 || err != nil && isWrongType(err.Error()) {
			return nil
		}
		var done, bad int
		if err == nil {
			done, bad, err = x.inflateFields(ctx, c, key, pairs)
		}
		switch {
		case err != nil:
			return refusalOfSweep(err)
		case done == 0 && len(pairs) <= 2*most && envelopeBytes(pairs) <= sweepRoom(most):
			w.failed += bad
			return nil
		case done == 0: // none of these can be decompressed, so ask for the fields behind them too
			most *= 8
		}
		w.inflated += done
	}
}

func askSealed(ctx context.Context, c interface {
	Eval(context.Context, string, []string, ...any) *goredis.Cmd
}, key string, most int,
) *goredis.Cmd {
	return c.Eval(ctx, lua.SealedFields, []string{key}, envelope.Magic, 2*most, sweepRoom(most))
}

// sweepRoom returns the number of bytes of envelopes after which a reply with up to most fields of one hash ends.
func sweepRoom(most int) int { return most * (sweepBytes / sweepBatch / sweepParts) }

func envelopeBytes(pairs []string) (n int) {
	for i := 1; i < len(pairs); i += 2 {
		n += len(pairs[i])
	}
	return n
}

// inflateFields decompresses some fields of one hash in place; pairs are fields and envelopes. done counts the fields
// decompressed, bad those that cannot be decompressed or have to stay wrapped.
func (x *indexes) inflateFields(ctx context.Context, c *goredis.Conn, key string, pairs []string) (done, bad int, err error) {
	for len(pairs) > 0 {
		some, size := x.firstBatch(pairs)
		n, err := x.inflateBatch(ctx, c, key, some, size)
		if err != nil {
			return done, bad, err
		}
		done, bad, pairs = done+n, bad+len(some)/2-n, pairs[len(some):]
	}
	return done, bad, nil
}

// inflateBatch is inflateFields for fields that need size bytes of the budget.
func (x *indexes) inflateBatch(ctx context.Context, c *goredis.Conn, key string, pairs []string, size int64) (done int, err error) {
	account := x.share.Account(nil, nil)
	defer account.Close()
	if err := account.Acquire(ctx, size); err != nil {
		return 0, err
	}
	args := []any{0}
	for i := 1; i < len(pairs); i += 2 {
		value, err := x.codec.Sealer.Open(nil, []byte(pairs[i]))
		if _, own := envelope.ParseHeader(value); err == nil && own != nil {
			args = append(args, pairs[i], value)
		}
	}
	if len(args) > 1 {
		err = c.Eval(ctx, lua.Inflate, []string{key}, args...).Err()
	}
	return len(args) / 2, err
}

// firstBatch returns the first of the pairs, at least one, whose values together take at most sweepBytes.
func (x *indexes) firstBatch(pairs []string) (first []string, size int64) {
	for i := 1; i < len(pairs); i += 2 {
		n := int64(len(pairs[i]))
		if h, err := envelope.ParseHeader([]byte(pairs[i])); err == nil && h.RawLen <= x.codec.maxOpen {
			n += int64(openBytes(h))
		}
		if size > 0 && size+n > sweepBytes {
			return pairs[:i-1], size
		}
		size += n
	}
	return pairs, size
}

// refusalOfSweep returns the error for the log and for clients.
func refusalOfSweep(err error) error {
	if strings.Contains(err.Error(), "READONLY") {
		return errReplica
	}
	return fmt.Errorf("decompress in place: %w", err)
}
