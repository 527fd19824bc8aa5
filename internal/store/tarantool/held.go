package tarantool

import (
	"context"
	"errors"
	"fmt"
)

var errUntold = errors.New("it can't be known how much the server holds")

// Held is what the tuples of all spaces take in the memory of the server, and of the shards that it belongs with.
func (g *Group) Held(ctx context.Context) (bytes int64, servers int, err error) {
	l, err := g.known(ctx)
	if err != nil {
		return 0, 0, err
	}
	conns := []*Conn{g.own.conn}
	for _, m := range l.others {
		conns = append(conns, m.conn)
	}
	for _, c := range conns {
		here, err := held(ctx, c)
		if err != nil {
			return 0, 0, err
		}
		bytes += here
	}
	return bytes, len(conns), nil
}

func held(ctx context.Context, c *Conn) (int64, error) {
	st, err := status(ctx, c, nil)
	switch {
	case err != nil:
		return 0, err
	case st.ItemsUsed == 0:
		return 0, fmt.Errorf("%w: run 'cinch tarantool init' again", errUntold)
	case st.Vinyl != 0:
		return 0, fmt.Errorf("%w: some of it is in vinyl, on disk", errUntold)
	}
	return st.ItemsUsed, nil
}

// What a dictionary costs: its tuple, for which memtx has pools of sizes some percent apart, and the rule's record.
const (
	tupleCost  = 1.1     // by bytes of the dictionary
	recordCost = 4 << 10 // bytes
)

// DictCost is what a dictionary of so many bytes takes of a server's memory. On disk it is in the log and in each snapshot.
func (g *Group) DictCost(bytes int) float64 { return tupleCost*float64(bytes) + recordCost }
