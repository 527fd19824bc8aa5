package tarantool

import (
	"context"
	"errors"
	"fmt"

	tnt "github.com/tarantool/go-tarantool/v2"
	"github.com/tinylib/msgp/msgp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// Sample reads some of a space's tuples, in the order of the primary key, by SELECT. It needs only the right
// to read the space, and nothing installed. It is not safe for concurrent use.
type Sample struct {
	conn  *Conn
	space *schema.Space
	last  []msgpack.RawMessage // key of the last tuple; nil at the beginning
}

var errKeyPath = errors.New("its primary key is inside a document")

// NewSample returns a Sample that begins with the first tuple. It returns an error if the primary key is at a path
// inside a document, since a scan can't continue from such a tuple.
func NewSample(c *Conn, s *schema.Space) (*Sample, error) {
	primary := s.Primary()
	if primary == nil || primary.Func {
		return nil, errKeyPath
	}
	for _, p := range primary.Parts {
		if p.Path != "" {
			return nil, errKeyPath
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

// EachField calls f with every field of a tuple. content is the content of a string or a binary, nil for other types;
// inside is true for an array or a map.
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
