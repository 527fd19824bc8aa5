package tarantool

import (
	"context"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
)

var errMemoryUnknown = errors.New("cannot determine how much memory the server's tuples use")

// StoredBytes returns the bytes that the tuples of all spaces take in the memory of the server and its other shards.
func (g *ClusterDicts) StoredBytes(ctx context.Context) (bytes int64, servers int, err error) {
	l, err := g.currentLayout(ctx)
	if err != nil {
		return 0, 0, err
	}
	conns := []*Conn{g.own.conn}
	for _, m := range l.others {
		conns = append(conns, m.conn)
	}
	for _, c := range conns {
		here, err := storedBytes(ctx, c)
		if err != nil {
			return 0, 0, err
		}
		bytes += here
	}
	return bytes, len(conns), nil
}

func storedBytes(ctx context.Context, c *Conn) (int64, error) {
	st, err := status(ctx, c, nil)
	switch {
	case err != nil:
		return 0, err
	case st.ItemsUsed == 0:
		return 0, fmt.Errorf("%w: run 'cinch tarantool init' again", errMemoryUnknown)
	case st.Vinyl != 0:
		return 0, fmt.Errorf("%w: some tuples are in vinyl, on disk", errMemoryUnknown)
	}
	return st.ItemsUsed, nil
}

// The cost of a dictionary: its tuple, for which memtx has pools of sizes some percent apart, and the rule's
// record.
const (
	tupleCost  = 1.1     // bytes for each byte of the dictionary
	recordCost = 4 << 10 // bytes
)

// DictCost returns the bytes of a server's memory that d takes. It does not count the log and the snapshots on disk.
func DictCost(d *codec.Dict) float64 { return tupleCost*float64(len(d.Content())) + recordCost }

// DictCost is the function of this name.
func (d *Dicts) DictCost(x *codec.Dict) float64 { return DictCost(x) }

// DictCost is the function of this name.
func (g *ClusterDicts) DictCost(d *codec.Dict) float64 { return DictCost(d) }
