package tarantool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
)

// ErrShards: it is unknown to which other servers this one's values may move.
var ErrShards = errors.New("the other shards of the server's cluster are not known")

// Shard is one replica set of a cluster whose tuples move between shards, with values but without
// dictionaries.
type Shard struct {
	ID        string   // of the replica set, or another ID that is the same for all gateways
	Own       bool     // the server that was asked belongs to it
	Addresses []string // host:port or unix:/path, the master's first
}

// QueryShards returns the shards that vshard lists on a server: none if the server is not part of such a cluster.
// The error wraps ErrShards if it is part of one but can't list the shards yet.
func QueryShards(ctx context.Context, c *Conn) ([]Shard, error) {
	var answer shardList
	if err := c.call(ctx, shardsFunction, []any{}, &answer); err != nil {
		return nil, err
	}
	if answer.unknown {
		return nil, fmt.Errorf("%w: the server has buckets of vshard, which is not configured there yet", ErrShards)
	}
	slices.SortFunc(answer.shards, func(a, b Shard) int { return cmp.Compare(a.ID, b.ID) })
	return answer.shards, nil
}

// shardList is the answer of cinch_shards: false, or a list.
type shardList struct {
	unknown bool
	shards  []Shard
}

// maxShards is larger than any cluster.
const maxShards = 1 << 16

// DecodeMsgpack implements msgpack.CustomDecoder.
func (l *shardList) DecodeMsgpack(d *msgpack.Decoder) error {
	if n, err := d.DecodeArrayLen(); err != nil || n != 1 {
		return fmt.Errorf("%w: unexpected answer from %s", ErrNoInit, shardsFunction)
	}
	var raw msgpack.RawMessage
	if err := d.Decode(&raw); err != nil {
		return err
	}
	if err := msgpack.Unmarshal(raw, &l.unknown); err == nil {
		l.unknown = !l.unknown
		return nil
	}
	var list []struct {
		//lint:ignore U1000 its tag makes msgpack encode a list
		_msgpack  struct{} `msgpack:",as_array"`
		ID        string
		Own       bool
		Addresses []string
	}
	if err := msgpack.Unmarshal(raw, &list); err != nil || len(list) > maxShards {
		return fmt.Errorf("%w: unexpected answer from %s", ErrNoInit, shardsFunction)
	}
	for _, s := range list {
		l.shards = append(l.shards, Shard{s.ID, s.Own, s.Addresses})
	}
	return nil
}
