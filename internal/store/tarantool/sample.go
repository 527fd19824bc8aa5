package tarantool

import (
	"context"
	"errors"
	"fmt"

	tnt "github.com/tarantool/go-tarantool/v2"
	"github.com/tinylib/msgp/msgp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// Sample reads some of a space's tuples, in the order of the primary key, by SELECT. It needs only the right
// to read the space, and nothing installed. It is not safe for concurrent use.
type Sample struct {
	conn  *Conn
	space *schema.Space
	last  []msgpack.RawMessage // key of the last tuple; nil at the beginning
}

// ErrKeyPath: the primary key is inside a document, so that a scan can't continue from a tuple.
var ErrKeyPath = errors.New("the primary key has a part at a path within a field")

// NewSample returns a Sample that begins with the first tuple.
func NewSample(c *Conn, s *schema.Space) (*Sample, error) {
	primary := s.Primary()
	if primary == nil || primary.Func {
		return nil, ErrKeyPath
	}
	for _, p := range primary.Parts {
		if p.Path != "" {
			return nil, ErrKeyPath
		}
	}
	return &Sample{conn: c, space: s}, nil
}

// Next skips tuples and returns up to count of those after them, as MessagePack. It returns none if there are
// no more than skip left.
func (s *Sample) Next(ctx context.Context, skip, count uint32) ([]msgpack.RawMessage, error) {
	var tuples []msgpack.RawMessage
	err := s.conn.do(ctx, func(ctx context.Context) tnt.Request {
		r := tnt.NewSelectRequest(s.space.ID).Index(uint32(0)).Offset(skip).Limit(count).Context(ctx)
		if s.last == nil {
			return r.Iterator(tnt.IterAll)
		}
		return r.Iterator(tnt.IterGt).Key(s.last)
	}, &tuples)
	if err != nil || len(tuples) == 0 {
		return nil, err
	}
	if s.last, err = s.key(tuples[len(tuples)-1]); err != nil {
		return nil, err
	}
	return tuples, nil
}

// key extracts the primary key from a tuple.
func (s *Sample) key(tuple []byte) ([]msgpack.RawMessage, error) {
	n, rest, err := msgp.ReadArrayHeaderBytes(tuple)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTuple, err)
	}
	parts := s.space.Primary().Parts
	key := make([]msgpack.RawMessage, len(parts))
	for field := range int(n) {
		after, err := msgp.Skip(rest)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errTuple, err)
		}
		for i, p := range parts {
			if p.Field == field {
				key[i] = msgpack.RawMessage(rest[:len(rest)-len(after)])
			}
		}
		rest = after
	}
	for _, k := range key {
		if k == nil {
			return nil, errTuple
		}
	}
	return key, nil
}

// EachField calls f with every field of a tuple. content is that of a string or a binary; inside is true for
// an array or a map.
func EachField(tuple []byte, f func(field int, content []byte, inside bool)) error {
	n, rest, err := msgp.ReadArrayHeaderBytes(tuple)
	if err != nil {
		return fmt.Errorf("%w: %w", errTuple, err)
	}
	for i := range int(n) {
		kind := msgp.NextType(rest)
		content, after, err := textOrBinary(rest)
		if err != nil {
			return fmt.Errorf("%w: %w", errTuple, err)
		}
		f(i, content, kind == msgp.ArrayType || kind == msgp.MapType)
		rest = after
	}
	return nil
}

// Counts returns the numbers of tuples in the spaces, nil if the user has no right to know: it needs what
// 'cinch tarantool init' installs, or the right to run Lua.
func (c *Conn) Counts(ctx context.Context, spaces []uint32) ([]int64, error) {
	st, err := status(ctx, c, spaces)
	if err == nil {
		return st.Tuples, nil
	}
	if Unavailable(err) {
		return nil, err
	}
	var counts [][]int64
	err = c.eval(ctx, `local counts = {} for i, id in ipairs(...) do counts[i] = box.space[id]:len() end return counts`, []any{spaces}, &counts)
	if Unavailable(err) {
		return nil, err
	}
	if err != nil || len(counts) != 1 || len(counts[0]) != len(spaces) {
		return nil, nil //nolint:nilerr // unknown
	}
	return counts[0], nil
}

// CPU returns the CPU time that the server's process has used, in seconds, or -1 if the user has no right to
// know: it needs the right to run Lua.
func (c *Conn) CPU(ctx context.Context) (float64, error) {
	var answer []float64
	err := c.eval(ctx, `return require('clock').proc()`, nil, &answer)
	if Unavailable(err) {
		return 0, err
	}
	if err != nil || len(answer) != 1 {
		return -1, nil //nolint:nilerr // unknown
	}
	return answer[0], nil
}

// Activity returns the server's own count of requests since it was started, zero if the user has no right to
// know: it needs the right to run Lua.
func (c *Conn) Activity(ctx context.Context) (store.Activity, error) {
	var answer []float64
	err := c.eval(ctx, `local s = box.stat() local function n(k) return s[k] and s[k].total or 0 end
		return box.info.uptime, n('SELECT'), n('INSERT') + n('REPLACE') + n('UPDATE') + n('UPSERT')`, nil, &answer)
	if Unavailable(err) {
		return store.Activity{}, err
	}
	if err != nil || len(answer) != 3 {
		return store.Activity{}, nil //nolint:nilerr // unknown
	}
	return store.Activity{Uptime: answer[0], Reads: answer[1], Writes: answer[2]}, nil
}
