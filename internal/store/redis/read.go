package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
)

// Reading limits the bytes of each round trip, whatever the values' sizes:
//
//	GETRANGE 0 headBytes-1    of every key: all of a short string, WRONGTYPE elsewhere
//	STRLEN, then GET          of longer ones, as many as fit into batchBytes
//	TYPE                      of the rest
//	HLEN, MEMORY USAGE        of hashes: HGETALL of small ones, HSCAN in steps of about
//	                          batchBytes of the others
//	XRANGE                    of streams, when they are wanted, in such steps too
const (
	headBytes  = 4 << 10
	batchBytes = 4 << 20
	firstStep  = 16  // fields, elements or entries in a step of a key, whose sizes are unknown at first
	maxStep    = 512 // in later steps
)

// nextStep returns how many elements to request after a step whose reply had size bytes: as many as batchBytes
// hold if the next ones are as long, but not many more than before, since they may be longer.
func nextStep(step, size int64) int64 {
	return max(1, min(step*batchBytes/max(size, 1), 8*step, maxStep))
}

func totalLen(elements []string) (n int64) {
	for _, e := range elements {
		n += int64(len(e))
	}
	return n
}

// Read reads the values of the keys and calls emit with each of them, or with the reason why it was left out. The
// caller owns the values. An error of emit ends it. Expiries are unchanged, and from Redis 7.2 on so are idle times.
func (s *Space) Read(ctx context.Context, keys [][]byte, o store.ReadOptions, emit func(*store.Value) error) error {
	r := reader{s: s, ctx: ctx, o: o, emit: emit}
	var err error
	if o.IdleBelow > 0 || o.FreqAbove > 0 {
		if keys, err = r.dropHot(keys); err != nil {
			return err
		}
	}
	if o.Types&store.String != 0 {
		if keys, err = r.strings(keys); err != nil {
			return err
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return r.others(keys)
}

type reader struct {
	s    *Space
	ctx  context.Context
	o    store.ReadOptions
	emit func(*store.Value) error
}

func (r *reader) skip(key []byte, why store.Reason) error {
	return r.emit(&store.Value{Key: key, Skip: why})
}

// pipe sends one command for each key in one round trip, and returns when all are answered. Error answers are in the
// commands, but one that isTransient is returned as the error.
func pipe[K ~string | ~[]byte, C goredis.Cmder](ctx context.Context, c goredis.Cmdable, keys []K, ask func(p goredis.Pipeliner, key string) C) ([]C, error) {
	cmds := make([]C, len(keys))
	_, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for i, k := range keys {
			cmds[i] = ask(p, string(k))
		}
		return nil
	})
	for _, cmd := range cmds {
		if e := cmd.Err(); e != nil && (!isAnswer(e) || isTransient(e)) {
			return nil, e
		}
	}
	if err != nil && !isAnswer(err) {
		return nil, err
	}
	return cmds, nil
}

// isTransient reports whether the server answered that it is not ready, or that the key's slot is moving or has moved.
func isTransient(err error) bool {
	for _, prefix := range []string{"LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK"} {
		if goredis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// dropHot skips the keys that are in use by IdleBelow or FreqAbove, one of which is set, and returns the others.
func (r *reader) dropHot(keys [][]byte) ([][]byte, error) {
	what := "idletime"
	if r.o.FreqAbove > 0 {
		what = "freq"
	}
	cmds, err := pipe(r.ctx, r.s.values, keys, func(p goredis.Pipeliner, k string) *goredis.Cmd {
		return p.Do(r.ctx, "object", what, k)
	})
	if err != nil {
		return nil, err
	}
	cold := keys[:0:0]
	for i, cmd := range cmds {
		n, err := cmd.Int64()
		switch {
		case errors.Is(err, goredis.Nil):
			err = r.skip(keys[i], store.Gone)
		case err != nil:
			return nil, classify(err)
		case r.o.FreqAbove > 0 && n > int64(r.o.FreqAbove), r.o.IdleBelow > 0 && time.Duration(n)*time.Second < r.o.IdleBelow:
			err = r.skip(keys[i], store.Hot)
		default:
			cold = append(cold, keys[i])
		}
		if err != nil {
			return nil, err
		}
	}
	return cold, nil
}

// strings reads the keys that hold strings and returns the others.
func (r *reader) strings(keys [][]byte) (others [][]byte, err error) {
	cmds, err := pipe(r.ctx, r.s.values, keys, func(p goredis.Pipeliner, k string) *goredis.StringCmd {
		return p.GetRange(r.ctx, k, 0, headBytes-1)
	})
	if err != nil {
		return nil, err
	}
	var long [][]byte
	for i, cmd := range cmds {
		b, err := cmd.Bytes()
		switch {
		case err == nil && len(b) == headBytes:
			long = append(long, keys[i])
		case err == nil && len(b) == 0:
			err = r.skip(keys[i], store.Gone)
		case err == nil && r.o.MaxBytes > 0 && len(b) > r.o.MaxBytes:
			err = r.skip(keys[i], store.TooLarge)
		case err == nil:
			err = r.emit(&store.Value{Key: keys[i], Type: store.String, Stored: b})
		case isWrongType(err):
			others, err = append(others, keys[i]), nil
		default:
			err = r.refused(keys[i], err)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(long) > 0 {
		err = r.long(long)
	}
	return others, err
}

// refused skips a key that the user may not read; any other answer ends the walk.
func (r *reader) refused(key []byte, err error) error {
	if goredis.HasErrorPrefix(err, "NOPERM") {
		return r.skip(key, store.Denied)
	}
	return classify(err)
}

func isWrongType(err error) bool { return goredis.HasErrorPrefix(err, "WRONGTYPE") }

// long reads long strings, as many in a round trip as fit into batchBytes, or a single one that is longer.
func (r *reader) long(keys [][]byte) error {
	cmds, err := pipe(r.ctx, r.s.values, keys, func(p goredis.Pipeliner, k string) *goredis.IntCmd { return p.StrLen(r.ctx, k) })
	if err != nil {
		return err
	}
	var batch [][]byte
	size := 0
	for i, cmd := range cmds {
		n := int(cmd.Val())
		if r.o.MaxBytes > 0 && n > r.o.MaxBytes {
			if err := r.skip(keys[i], store.TooLarge); err != nil {
				return err
			}
			continue
		}
		if size+n > batchBytes && len(batch) > 0 {
			if err := r.get(batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch, size = append(batch, keys[i]), size+n
	}
	return r.get(batch)
}

// get reads whole strings, which had at least headBytes when their beginnings were read.
func (r *reader) get(keys [][]byte) error {
	cmds, err := pipe(r.ctx, r.s.values, keys, func(p goredis.Pipeliner, k string) *goredis.StringCmd { return p.Get(r.ctx, k) })
	if err != nil {
		return err
	}
	for i, cmd := range cmds {
		b, err := cmd.Bytes()
		switch {
		case errors.Is(err, goredis.Nil), isWrongType(err): // changed since STRLEN
			err = r.skip(keys[i], store.Gone)
		case err != nil:
			err = r.refused(keys[i], err)
		case r.o.MaxBytes > 0 && len(b) > r.o.MaxBytes:
			err = r.skip(keys[i], store.TooLarge)
		default:
			err = r.emit(&store.Value{Key: keys[i], Type: store.String, Stored: b})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// others reads keys that are not known to be strings.
func (r *reader) others(keys [][]byte) error {
	cmds, err := pipe(r.ctx, r.s.values, keys, func(p goredis.Pipeliner, k string) *goredis.StatusCmd { return p.Type(r.ctx, k) })
	if err != nil {
		return err
	}
	var hashes [][]byte
	for i, cmd := range cmds {
		var err error
		switch kind := cmd.Val(); {
		case cmd.Err() != nil:
			err = r.refused(keys[i], cmd.Err())
		case kind == "none":
			err = r.skip(keys[i], store.Gone)
		case kind == "hash" && r.o.Types&store.Hash != 0:
			hashes = append(hashes, keys[i])
		case kind == "stream" && r.o.Types&store.Stream != 0:
			err = r.stream(keys[i])
		case kind == "stream":
			err = r.skip(keys[i], store.Immutable)
		default:
			err = r.skip(keys[i], store.OtherType)
		}
		if err != nil {
			return err
		}
	}
	if len(hashes) == 0 {
		return nil
	}
	return r.hashes(hashes)
}

// stream emits the values of all entries.
func (r *reader) stream(key []byte) error {
	from, step := "-", int64(firstStep)
	for {
		entries, err := r.s.values.Do(r.ctx, "xrange", key, from, "+", "count", step).Slice()
		if isWrongType(err) {
			return r.skip(key, store.Gone)
		}
		if err != nil {
			return classify(err)
		}
		size := int64(0)
		for _, e := range entries {
			id, n, err := r.entry(key, e)
			if err != nil {
				return err
			}
			from, size = id, size+n
		}
		if int64(len(entries)) < step {
			return nil
		}
		from, step = "("+from, nextStep(step, size)
	}
}

// entry emits the values of one entry, which may contain a field twice, and returns its ID and size.
func (r *reader) entry(key []byte, reply any) (id string, size int64, err error) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return "", 0, fmt.Errorf("%w: an entry of stream %q", errReply, key)
	}
	id, _ = parts[0].(string)
	pairs, _ := parts[1].([]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		field, _ := pairs[i].(string)
		value, _ := pairs[i+1].(string)
		v := &store.Value{Key: key, Field: []byte(field), ID: id, Type: store.Stream, Stored: []byte(value)}
		if err := r.emit(v); err != nil {
			return "", 0, err
		}
		size += int64(len(field) + len(value))
	}
	return id, size, nil
}

// hashes reads hashes, small ones in batches.
func (r *reader) hashes(keys [][]byte) error {
	usage, err := r.s.usage(r.ctx, keys, maxStep) // exact for hashes of up to maxStep fields, which may be read at once
	if err != nil {
		return err
	}
	lengths, err := pipe(r.ctx, r.s.values, keys, func(p goredis.Pipeliner, k string) *goredis.IntCmd { return p.HLen(r.ctx, k) })
	if err != nil {
		return err
	}
	var batch [][]byte
	size := int64(0)
	for i, key := range keys {
		n := lengths[i].Val()
		if usage[i] > batchBytes || n > maxStep || usage[i] == 0 && n > 1 {
			if err := r.stepThrough(key, usage[i], n); err != nil {
				return err
			}
			continue
		}
		if size+usage[i] > batchBytes {
			if err := r.small(batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch, size = append(batch, key), size+usage[i]
	}
	return r.small(batch)
}

func (r *reader) small(keys [][]byte) error {
	cmds, err := pipe(r.ctx, r.s.values, keys, func(p goredis.Pipeliner, k string) *goredis.MapStringStringCmd {
		return p.HGetAll(r.ctx, k)
	})
	if err != nil {
		return err
	}
	for i, cmd := range cmds {
		fields, err := cmd.Result()
		switch {
		case isWrongType(err), err == nil && len(fields) == 0:
			err = r.skip(keys[i], store.Gone)
		case err != nil:
			err = r.refused(keys[i], err)
		}
		if err != nil {
			return err
		}
		for _, field := range slices.Sorted(maps.Keys(fields)) { // a fixed order, for samples
			if err := r.field(keys[i], field, fields[field]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) field(key []byte, field, value string) error {
	v := &store.Value{Key: key, Field: []byte(field), Type: store.Hash, Stored: []byte(value)}
	if r.o.MaxBytes > 0 && len(value) > r.o.MaxBytes {
		v.Stored, v.Skip = nil, store.TooLarge
	}
	return r.emit(v)
}

// stepThrough reads, in steps, a hash that may exceed a batch. The first step is sized by the average size of
// its fields, and small if the server reports no sizes.
func (r *reader) stepThrough(key []byte, usage, fields int64) error {
	step := int64(firstStep)
	if usage > 0 && fields > 0 {
		step = min(max(batchBytes/max(usage/fields, 1), 1), maxStep)
	}
	cursor := uint64(0)
	for {
		pairs, next, err := r.s.values.HScan(r.ctx, string(key), cursor, "", step).Result()
		if isWrongType(err) {
			return r.skip(key, store.Gone)
		}
		if err != nil {
			return classify(err)
		}
		for pair := range slices.Chunk(pairs, 2) {
			if err := r.field(key, pair[0], pair[1]); err != nil {
				return err
			}
		}
		if next == 0 {
			return nil
		}
		cursor, step = next, nextStep(step, totalLen(pairs))
	}
}

// Usage returns how many bytes the server reports for each key (MEMORY USAGE, which samples nested values); 0
// if it reports none.
func (s *Space) Usage(ctx context.Context, keys [][]byte) ([]int64, error) { return s.usage(ctx, keys) }

// usage is Usage with the number of nested values to sample, if given, instead of the server's default.
func (s *Space) usage(ctx context.Context, keys [][]byte, samples ...int) ([]int64, error) {
	cmds, err := pipe(ctx, s.values, keys, func(p goredis.Pipeliner, k string) *goredis.IntCmd {
		return p.MemoryUsage(ctx, k, samples...)
	})
	if err != nil {
		return nil, err
	}
	usage := make([]int64, len(keys))
	for i, cmd := range cmds {
		usage[i] = cmd.Val()
	}
	return usage, nil
}

// Reread reads values again that a client has changed since they were read. It leaves out keys that are gone or have
// another type now.
func (s *Space) Reread(ctx context.Context, values []*store.Value) ([]*store.Value, error) {
	keys := make([][]byte, len(values))
	for i, v := range values {
		keys[i] = v.Key
	}
	next := -1
	cmds, err := pipe(ctx, s.values, keys, func(p goredis.Pipeliner, k string) *goredis.StringCmd {
		if next++; values[next].Type == store.Hash {
			return p.HGet(ctx, k, string(values[next].Field))
		}
		return p.Get(ctx, k)
	})
	if err != nil {
		return nil, err
	}
	var found []*store.Value
	for i, cmd := range cmds {
		b, err := cmd.Bytes()
		switch {
		case errors.Is(err, goredis.Nil), isWrongType(err):
			continue
		case err != nil:
			return nil, classify(err)
		}
		v := *values[i]
		v.Stored = b
		found = append(found, &v)
	}
	return found, nil
}
