package tarantool

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tarantool/go-iproto"
	tnt "github.com/tarantool/go-tarantool/v2"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cinch-layer/cinch/internal/store"
)

// call runs one of Cinch's stored functions.
func (c *Conn) call(ctx context.Context, function string, args []any, result any) error {
	err := c.do(ctx, func(ctx context.Context) tnt.Request {
		return tnt.NewCall17Request(function).Args(args).Context(ctx)
	}, result)
	var answer tnt.Error
	switch {
	case !errors.As(err, &answer):
		return err
	case answer.Code == iproto.ER_NO_SUCH_PROC, answer.Code == iproto.ER_NO_SUCH_FUNCTION:
		return fmt.Errorf("%w (%s)", ErrNoInit, function)
	case answer.Code == iproto.ER_ACCESS_DENIED && strings.Contains(answer.Msg, "Execute access to function"):
		// Ordinary users also get this if no function of that name exists.
		return fmt.Errorf("%w (%s), or the user may not call them: %w", ErrNoInit, function, err)
	case answer.Code == iproto.ER_READONLY:
		return fmt.Errorf("%w: %w", store.ErrReadOnly, err)
	}
	return err
}

// serverStatus is the answer of cinch_status.
type serverStatus struct {
	Version   int     `msgpack:"version"`
	ReadOnly  bool    `msgpack:"ro"`
	Process   string  `msgpack:"process"` // changes with a restart
	Cluster   string  `msgpack:"cluster"` // the same on all replicas
	ArenaUsed int64   `msgpack:"arena_used"`
	ItemsUsed int64   `msgpack:"items_used"` // by tuples of memtx, in bytes; 0: not reported by an older version of the function
	Vinyl     int64   `msgpack:"vinyl"`      // bytes stored, compressed; -1: not reported
	QuotaUsed int64   `msgpack:"quota_used"`
	QuotaSize int64   `msgpack:"quota_size"`
	MaxTuple  int64   `msgpack:"max_tuple"`
	Bytes     []int64 `msgpack:"bytes"` // of the tuples of each space, as space:bsize() counts
	Tuples    []int64 `msgpack:"tuples"`
}

func status(ctx context.Context, c *Conn, spaces []uint32) (*serverStatus, error) {
	if spaces == nil {
		spaces = []uint32{}
	}
	var answer []serverStatus
	if err := c.call(ctx, statusFunction, []any{spaces}, &answer); err != nil {
		return nil, err
	}
	if len(answer) != 1 || len(answer[0].Bytes) != len(spaces) || len(answer[0].Tuples) != len(spaces) {
		return nil, fmt.Errorf("%w: unexpected answer from %s", ErrNoInit, statusFunction)
	}
	return &answer[0], nil
}

// scanResult is the answer of cinch_scan.
type scanResult struct {
	tuples, keys []msgpack.RawMessage
	lost         bool
	process      string
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (s *scanResult) DecodeMsgpack(d *msgpack.Decoder) error {
	n, err := d.DecodeArrayLen()
	if err != nil || n != 4 {
		return fmt.Errorf("%w: unexpected answer from %s", ErrNoInit, scanFunction)
	}
	if err := d.Decode(&s.tuples); err != nil {
		return err
	}
	if err := d.Decode(&s.keys); err != nil {
		return err
	}
	if s.lost, err = d.DecodeBool(); err != nil {
		return err
	}
	s.process, err = d.DecodeString()
	if err == nil && len(s.tuples) != len(s.keys) {
		return fmt.Errorf("%d keys for %d tuples", len(s.keys), len(s.tuples))
	}
	return err
}

// text encodes bytes as a MessagePack string.
type text []byte

// EncodeMsgpack implements msgpack.CustomEncoder.
func (s text) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeString(string(s)) }
