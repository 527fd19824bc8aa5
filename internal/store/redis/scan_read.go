package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
)

// What is asked for at once is bounded, whatever the values' sizes:
//
//	GETRANGE 0 headBytes-1    of every key: all of a short string, WRONGTYPE elsewhere
//	STRLEN, then GET          of longer ones, as many as fit into batchBytes
//	TYPE                      of the rest
//	HLEN, MEMORY USAGE        of hashes: HGETALL of small ones, HSCAN in steps of about
//	                          batchBytes of the others
//	XRANGE                    of streams, when they are wanted
const (
	headBytes  = 4 << 10
	batchBytes = 4 << 20
	maxStep    = 512 // fields or entries in a step
)

// Read reads the values of the keys and hands over each of them, or a word on why it was
// left out. The values are the caller's to keep. An error of emit ends it. Expiries
// stay as they are; the idle time of what is read too from Redis 7.2 on.
func (s *Space) Read(ctx context.Context, keys [][]byte, o store.ReadOptions, emit func(*store.Value) error) error {
	r := reader{s: s, ctx: ctx, o: o, emit: emit}
	keys, err := r.leaveHot(keys)
	if err != nil {
		return err
	}
	others := keys
	if o.Types&store.String != 0 {
		if others, err = r.strings(keys); err != nil {
			return err
		}
	}
	return r.others(others)
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

// pipe asks one question for each key, and returns when all are answered. Answers that
// are errors are in the commands.
func pipe[C goredis.Cmder](ctx context.Context, c goredis.UniversalClient, keys [][]byte, ask func(p goredis.Pipeliner, key string) C) ([]C, error) {
	cmds := make([]C, len(keys))
	if len(keys) == 0 {
		return cmds, nil
	}
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

// isTransient recognizes answers of a server that is not ready to answer.
func isTransient(err error) bool {
	for _, prefix := range []string{"LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK"} {
		if goredis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// leaveHot returns the keys that are not in use, as the options have it.
func (r *reader) leaveHot(keys [][]byte) ([][]byte, error) {
	if r.o.IdleBelow <= 0 && r.o.FreqAbove <= 0 {
		return keys, nil
	}
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

// strings reads what are strings and returns the other keys.
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
		case isWrongType(err):
			others = append(others, keys[i])
		case err != nil:
			err = r.refused(keys[i], err)
			if err != nil {
				return nil, err
			}
		case len(b) == headBytes:
			long = append(long, keys[i])
		case len(b) == 0:
			if err := r.skip(keys[i], store.Gone); err != nil {
				return nil, err
			}
		case r.o.MaxBytes > 0 && len(b) > r.o.MaxBytes:
			if err := r.skip(keys[i], store.TooLarge); err != nil {
				return nil, err
			}
		default:
			if err := r.emit(&store.Value{Key: keys[i], Type: store.String, Stored: b}); err != nil {
				return nil, err
			}
		}
	}
	return others, r.long(long)
}

// refused skips a key that the user may not read; any other answer ends the walk.
func (r *reader) refused(key []byte, err error) error {
	if goredis.HasErrorPrefix(err, "NOPERM") {
		return r.skip(key, store.Denied)
	}
	return classify(err)
}

func isWrongType(err error) bool { return goredis.HasErrorPrefix(err, "WRONGTYPE") }

// long reads strings of which one round brings no more than fits, unless a single one
// is longer than that.
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
			if err := r.whole(batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch, size = append(batch, keys[i]), size+n
	}
	return r.whole(batch)
}

func (r *reader) whole(keys [][]byte) error {
	cmds, err := pipe(r.ctx, r.s.values, keys, func(p goredis.Pipeliner, k string) *goredis.StringCmd { return p.Get(r.ctx, k) })
	if err != nil {
		return err
	}
	for i, cmd := range cmds {
		b, err := cmd.Bytes()
		switch {
		case errors.Is(err, goredis.Nil), isWrongType(err): // since a moment ago
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
	return r.hashes(hashes)
}

// stream hands over the values of all entries.
func (r *reader) stream(key []byte) error {
	from := "-"
	for {
		entries, err := r.s.values.Do(r.ctx, "xrange", key, from, "+", "count", maxStep/4).Slice()
		if isWrongType(err) {
			return r.skip(key, store.Gone)
		}
		if err != nil {
			return classify(err)
		}
		for _, e := range entries {
			if from, err = r.entry(key, e); err != nil {
				return err
			}
		}
		if len(entries) < maxStep/4 {
			return nil
		}
		from = "(" + from
	}
}

// entry hands over the values of one entry, which may name a field twice, and returns
// its ID.
func (r *reader) entry(key []byte, reply any) (string, error) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return "", fmt.Errorf("%w: an entry of stream %q", errReply, key)
	}
	id, _ := parts[0].(string)
	pairs, _ := parts[1].([]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		field, _ := pairs[i].(string)
		value, _ := pairs[i+1].(string)
		v := &store.Value{Key: key, Field: []byte(field), ID: id, Type: store.Stream, Stored: []byte(value)}
		if err := r.emit(v); err != nil {
			return "", err
		}
	}
	return id, nil
}
