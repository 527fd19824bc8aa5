package redis

import (
	"context"
	"errors"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
)

// Ensure stores those of the dictionaries that the server at the other end of a new connection lacks, unless they
// are retired there. OpenOptions.OnConnect calls it before any value is sent: while a packer runs, a server may be
// restored from an older backup, and slots may move to new nodes. The dictionaries are from the local set. On
// servers without functions Ensure does nothing; there Run checks them.
func (d *Dicts) Ensure(ctx context.Context, c *goredis.Conn, numbers ...uint32) error {
	var all []*codec.Dict
	for _, n := range numbers {
		if x, ok := d.local.Get(n); ok {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	err := ensure(ctx, functions{c, libraryPrefix}, all)
	switch {
	case errors.Is(err, errNoFunctions):
		return nil
	case errors.Is(err, errReadOnly): // %v hides the answer, so that Unavailable allows a retry, which may reach the primary
		return fmt.Errorf("a replica lacks dictionaries that values may use: %v", err)
	}
	return err
}

func ensure(ctx context.Context, f functions, dicts []*codec.Dict) error {
	found, err := f.inventory(ctx)
	if err != nil {
		return err
	}
	for _, x := range dicts {
		sum, there := found.live[x.Number()]
		if there && sum == x.Hash() || found.isRetired(x.Number()) {
			continue
		}
		if err := ensureStored(ctx, f, x); err != nil {
			return dictError("store", x.Number(), err)
		}
	}
	return nil
}
