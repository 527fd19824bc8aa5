package redis

import (
	"context"
	"errors"
	"maps"
	"slices"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
)

// hashes reads hashes, the small ones together.
func (r *reader) hashes(keys [][]byte) error {
	usage, err := r.s.Usage(r.ctx, keys)
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
		for _, field := range slices.Sorted(maps.Keys(fields)) { // always the same, for who samples
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

// stepThrough reads a hash of which not everything may fit, by the average size of its
// fields. Where the server doesn't tell sizes the steps are small.
func (r *reader) stepThrough(key []byte, usage, fields int64) error {
	step := int64(16)
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
		cursor = next
	}
}

// Usage is what the server says that it holds for each key, in bytes (MEMORY USAGE, by
// its samples of nested values); 0 where it doesn't say.
func (s *Space) Usage(ctx context.Context, keys [][]byte) ([]int64, error) {
	cmds, err := pipe(ctx, s.values, keys, func(p goredis.Pipeliner, k string) *goredis.IntCmd { return p.MemoryUsage(ctx, k) })
	if err != nil {
		return nil, err
	}
	usage := make([]int64, len(keys))
	for i, cmd := range cmds {
		usage[i] = cmd.Val()
	}
	return usage, nil
}

// Again reads values once more, after somebody changed them. What is gone, or of another
// type by now, is left out.
func (s *Space) Again(ctx context.Context, values []*store.Value) ([]*store.Value, error) {
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
