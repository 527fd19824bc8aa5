package redis

import (
	"context"
	"errors"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
)

// Ensure makes sure that the server at the other end of a new connection holds dictionaries of the local set,
// unless they are retired there, before any value is sent that names them. It is for OpenOptions.OnConnect:
// while a packer runs, servers are restored from older backups, and slots move to new nodes. On servers
// without functions it does nothing; Run covers those.
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
	case errors.Is(err, errReadOnly): // not an answer (%v): another connection may lead to the primary
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
