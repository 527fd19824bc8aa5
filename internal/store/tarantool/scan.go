package tarantool

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	tnt "github.com/tarantool/go-tarantool/v2"
	"github.com/tinylib/msgp/msgp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

const (
	// pageBytes limits the tuples of a step; a single one may be longer. 4 MiB, which internal/store/pack relies
	// on.
	pageBytes = 4 << 20
	// keptKeys is the number of keys kept of a page in a hash index, since a scan can continue only from a
	// tuple that still exists.
	keptKeys = 16
)

var errTuple = errors.New("the server's answer is not a tuple")

// ref finds a value again.
type ref struct {
	key    msgpack.RawMessage // the primary key
	field  int                // from 0
	binary bool               // a binary, not a string
	tuple  []byte             // the whole tuple, as MessagePack
}

// place is a position of a walk. As text it is the number of tuples before it, the process that defines the
// order, and the keys to continue from, last one first, in base64 of MessagePack.
type place struct {
	behind  int64
	process string
	keys    []msgpack.RawMessage
}

func (p place) String() string {
	keys, _ := msgpack.Marshal(p.keys) // raw messages always marshal
	return fmt.Sprintf("%d %s %s", p.behind, p.process, base64.RawStdEncoding.EncodeToString(keys))
}

func parsePlace(cursor string) (p place, err error) {
	if cursor == "" {
		return p, nil
	}
	parts := strings.Split(cursor, " ")
	if len(parts) != 3 {
		return p, fmt.Errorf("invalid cursor %q", cursor)
	}
	if p.behind, err = strconv.ParseInt(parts[0], 10, 64); err != nil {
		return p, fmt.Errorf("invalid cursor: %w", err)
	}
	p.process = parts[1]
	keys, err := base64.RawStdEncoding.DecodeString(parts[2])
	if err == nil {
		err = msgpack.Unmarshal(keys, &p.keys)
	}
	if err == nil && len(p.keys) == 0 {
		err = errTuple
	}
	if err != nil {
		return p, fmt.Errorf("invalid cursor: %w", err)
	}
	return p, nil
}

// Share estimates the share from the number of tuples passed and the current number of tuples.
func (t *TupleSpace) Share(cursor string) float64 {
	p, err := parsePlace(cursor)
	if err != nil || p.behind == 0 {
		return 0
	}
	return min(float64(p.behind)/float64(max(t.keys.Load(), 1)), 1)
}

// Page takes a step of a scan in the order of the primary index. A tuple that exists throughout is found at
// least once. In a hash index one may be missed if others are deleted meanwhile.
func (t *TupleSpace) Page(ctx context.Context, cursor string, o store.ScanOptions) (store.Page, error) {
	at, err := parsePlace(cursor)
	if err != nil {
		return store.Page{}, err
	}
	var found scanResult
	for {
		found = scanResult{}
		args := []any{t.space.ID, at.keys, o.Count, pageBytes, at.process}
		if len(at.keys) == 0 {
			args[1] = nil
		}
		if err := t.store.conn.call(ctx, scanFunction, args, &found); err != nil {
			return store.Page{}, err
		}
		if !found.lost {
			break
		}
		at = place{} // restart: the caller skips what is done already
	}
	page := store.Page{Values: []*store.Value{}}
	size := 0
	for i, tuple := range found.tuples {
		text, err := keyText(found.keys[i])
		if err != nil {
			return store.Page{}, err
		}
		page.Keys = append(page.Keys, text)
		if page.Values, err = t.values(page.Values, text, found.keys[i], tuple, o.Read.MaxBytes); err != nil {
			return store.Page{}, err
		}
		size += len(tuple)
	}
	// A step that is shorter than the server's limits is the last. The server counts bytes in its own way, so
	// in doubt there is one more step.
	if n := len(found.keys); n > 0 && (n >= o.Count || size >= pageBytes/2) {
		page.Next = t.next(at, &found).String()
	}
	return page, nil
}

func (t *TupleSpace) next(at place, found *scanResult) place {
	n := len(found.keys)
	next := place{behind: at.behind + int64(n), process: found.process}
	keep := 1
	if strings.EqualFold(t.space.Primary().Type, "hash") {
		keep = keptKeys
	}
	for i := range min(keep, n) {
		next.keys = append(next.keys, found.keys[n-1-i])
	}
	return next
}

// keyText returns a key in JSON, as in messages and arguments.
func keyText(key []byte) ([]byte, error) {
	var b bytes.Buffer
	if rest, err := msgp.UnmarshalAsJSON(&b, key); err != nil || len(rest) != 0 {
		return nil, fmt.Errorf("%w: its key is %x", errTuple, key)
	}
	return b.Bytes(), nil
}

// values appends the wanted strings and binaries of a tuple.
func (t *TupleSpace) values(dst []*store.Value, text []byte, key msgpack.RawMessage, tuple []byte, limit int) ([]*store.Value, error) {
	count, rest, err := msgp.ReadArrayHeaderBytes(tuple)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", errTuple, err)
	}
	for i := range int(count) {
		value, after, err := textOrBinary(rest)
		if err != nil {
			return dst, fmt.Errorf("%w: %w", errTuple, err)
		}
		if value != nil && (t.all || t.fields[i]) {
			v := &store.Value{
				Key: text, Field: []byte(t.space.FieldName(i)), Type: policy.Tuple, Stored: value,
				Ref: &ref{key: key, field: i, binary: msgp.NextType(rest) == msgp.BinType, tuple: tuple},
			}
			switch {
			case len(value) == 0:
				v.Stored, v.Skip = nil, store.Gone
			case limit > 0 && len(value) > limit:
				v.Stored, v.Skip = nil, store.TooLarge
			}
			dst = append(dst, v)
		}
		rest = after
	}
	return dst, nil
}

// textOrBinary returns the content of the first object in b if it is a string or a binary, otherwise nil, and the
// bytes after it.
func textOrBinary(b []byte) (value, rest []byte, err error) {
	switch msgp.NextType(b) {
	case msgp.StrType:
		value, rest, err = msgp.ReadStringZC(b)
	case msgp.BinType:
		value, rest, err = msgp.ReadBytesZC(b)
	default:
		rest, err = msgp.Skip(b)
		return nil, rest, err
	}
	if value == nil {
		value = []byte{}
	}
	return value, rest, err
}

// Reread implements store.Space.
func (t *TupleSpace) Reread(ctx context.Context, values []*store.Value) ([]*store.Value, error) {
	if len(values) == 0 {
		return nil, nil
	}
	var keys []msgpack.RawMessage
	for _, v := range values {
		keys = append(keys, v.Ref.(*ref).key)
	}
	var answer [][]msgpack.RawMessage
	if err := t.store.conn.call(ctx, getFunction, []any{t.space.ID, keys}, &answer); err != nil {
		return nil, err
	}
	if len(answer) != 1 || len(answer[0]) != len(keys) {
		return nil, errTuple
	}
	var again []*store.Value
	for i, tuple := range answer[0] {
		if len(tuple) == 0 || tuple[0] == msgpackNil {
			continue // gone
		}
		all, err := t.values(nil, values[i].Key, keys[i], tuple, 0)
		if err != nil {
			return nil, err
		}
		for _, v := range all {
			if v.Ref.(*ref).field == values[i].Ref.(*ref).field && v.Skip == "" {
				again = append(again, v)
			}
		}
	}
	return again, nil
}

const msgpackNil = 0xc0

// Read is not supported: scans return the values.
func (t *TupleSpace) Read(context.Context, [][]byte, store.ReadOptions, func(*store.Value) error) error {
	return errors.ErrUnsupported
}

// Field reads one field of the tuple with the given primary key, whose parts are as tupleKey returns them.
func (t *TupleSpace) Field(ctx context.Context, key []any, field int) ([]byte, error) {
	raw, err := msgpack.Marshal(key)
	if err != nil {
		return nil, err
	}
	values, err := t.Reread(ctx, []*store.Value{{Ref: &ref{key: raw, field: field}}})
	if err != nil || len(values) == 0 {
		return nil, err
	}
	return values[0].Stored, nil
}

// Fetch reads the tuple under a key. It returns nil if there is none, and if the server refuses the key itself, but
// not if the user lacks a right. Key and tuple are MessagePack.
func Fetch(ctx context.Context, c *Conn, space, index uint32, key []byte) ([]byte, error) {
	var tuples []msgpack.RawMessage
	err := c.do(ctx, func(ctx context.Context) tnt.Request {
		return tnt.NewSelectRequest(space).Index(index).Key(msgpack.RawMessage(key)).Limit(1).Context(ctx)
	}, &tuples)
	var answer tnt.Error
	if errors.As(err, &answer) && !errors.Is(err, ErrDenied) {
		return nil, nil
	}
	if err != nil || len(tuples) == 0 {
		return nil, err
	}
	return tuples[0], nil
}
