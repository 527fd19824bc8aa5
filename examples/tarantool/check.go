package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	tnt "github.com/tarantool/go-tarantool/v2"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cinch-layer/cinch/envelope"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/test/rig/tarantool"
	"github.com/cinch-layer/cinch/test/rig/tarantool/load"
)

// check compares the cluster's data with what was written.
func (c *cluster) check(ctx context.Context, written int) error {
	if err := c.replica.CatchUp(ctx, c.master); err != nil {
		return err
	}
	for _, f := range []func(context.Context, int) error{c.sameTuples, c.readsThroughRouter, c.inspects, c.opensInLua} {
		if err := f(ctx, written); err != nil {
			return err
		}
	}
	return nil
}

const pageTuples = 500

// pages calls f with the tuples of the server at addr, in the order of their keys.
func pages[T any](ctx context.Context, addr string, written int, f func(first int, tuples []T) error) error {
	conn, err := tarantool.Connect(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	for first := 0; first < written; first += pageTuples {
		var tuples []T
		request := tnt.NewSelectRequest(space).Iterator(tnt.IterGe).Limit(pageTuples).Key([]any{first}).Context(ctx)
		if err := conn.Do(request).GetTyped(&tuples); err != nil {
			return err
		}
		if want := min(pageTuples, written-first); len(tuples) != want {
			return fmt.Errorf("%s: %d tuples from number %d on, want %d", addr, len(tuples), first, want)
		}
		if err := f(first, tuples); err != nil {
			return fmt.Errorf("%s: %w", addr, err)
		}
	}
	return nil
}

// sameTuples reads directly from the servers: master and replica must hold the same bytes, and each body must
// be an envelope.
func (c *cluster) sameTuples(ctx context.Context, written int) error {
	var master []msgpack.RawMessage
	err := pages(ctx, c.master.Addr, written, func(_ int, tuples []msgpack.RawMessage) error {
		master = append(master, tuples...)
		return nil
	})
	if err != nil {
		return err
	}
	err = pages(ctx, c.replica.Addr, written, func(first int, tuples []msgpack.RawMessage) error {
		for i, t := range tuples {
			if !bytes.Equal(t, master[first+i]) {
				return fmt.Errorf("tuple %d differs from the master's", first+i)
			}
			var row load.Row
			if err := msgpack.Unmarshal(t, &row); err != nil {
				return err
			}
			if !envelope.IsSealed([]byte(row.Body)) {
				return fmt.Errorf("the body of tuple %d is not compressed: %.40q", first+i, row.Body)
			}
		}
		return nil
	})
	if err == nil {
		c.say("%d tuples are byte-identical on master and replica, and all bodies are envelopes", written)
	}
	return err
}

func (c *cluster) readsThroughRouter(ctx context.Context, written int) error {
	for name, addr := range map[string]string{"master": c.router, "replica": c.reader} {
		err := pages(ctx, addr, written, func(first int, rows []load.Row) error {
			for i, r := range rows {
				if r.ID != uint64(first+i) || r.Body != c.documents(first+i) {
					return fmt.Errorf("document %d differs from what was written", first+i)
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read through the router from the %s: %w", name, err)
		}
	}
	c.say("%d documents read through the router equal what was written, from the master and from the replica", written)
	return nil
}

// looked is the number of documents that are decoded one by one, without the router.
const looked = 5

// inspects decodes envelopes with `cinch inspect`.
func (c *cluster) inspects(ctx context.Context, written int) error {
	for i := range looked {
		n := i * (written - 1) / (looked - 1)
		for _, server := range []*tarantool.Tarantool{c.master, c.replica} {
			out, err := c.cinch(ctx, "inspect", c.url(server), "--space", space, "--field", "body", fmt.Sprint(n), "--raw")
			if err != nil {
				return err
			}
			if out != c.documents(n) {
				return fmt.Errorf("cinch inspect shows different content for document %d", n)
			}
		}
	}
	c.say("cinch inspect decompresses envelopes of master and replica")
	return nil
}

// opensInLua decodes all envelopes with cinch.lua in the replica's Lua.
func (c *cluster) opensInLua(ctx context.Context, written int) error {
	const lua = `local cinch = loadstring(...)()
		local crc, n = require('digest').crc32.new(), 0
		for _, t in box.space.docs:pairs() do
			crc:update(cinch.open(t.body))
			n = n + 1
			if n % 100 == 0 then require('fiber').yield() end
		end
		return ('%08x'):format(crc:result()) .. ' ' .. n`
	got, err := tarantool.Eval[string](ctx, c.replica, lua, storetarantool.Module)
	if err != nil {
		return fmt.Errorf("cinch.lua: %w", err)
	}
	if want := c.checksum(written); got != want {
		return errors.New("cinch.lua returns different content: " + got + ", want " + want)
	}
	c.say("cinch.lua decompresses all of them in the replica's own Lua")
	return nil
}

// checksum returns the expected result of opensInLua's script.
func (c *cluster) checksum(written int) string {
	crc := uint32(0xffffffff) // CRC-32C without the final inversion, as in Tarantool
	for n := range written {
		crc = update(crc, c.documents(n))
	}
	return hex.EncodeToString([]byte{byte(crc >> 24), byte(crc >> 16), byte(crc >> 8), byte(crc)}) + " " + fmt.Sprint(written)
}
