package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/clients/go/cinchredis"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/test/rig/client"
)

// clientRole is the first argument when this program runs as a client, as package client describes it. This
// client has one more step:
//
//	time N    N values are read, likewise      {"ns":[duration of each]}
const clientRole = "client"

// The client's compression modes.
const (
	modePlain   = "plain"
	modeHook    = "hook"
	modeLibzstd = "hook-libzstd"
)

// goClient is a client that uses go-redis.
type goClient struct {
	rdb    *redis.Client
	keys   []string
	values [][]byte
	sets   int // number of SETs, beyond the first of all values
	gets   int
}

func runClient(args []string) error {
	if len(args) != 3 {
		return errors.New("client PORT MODE FILE")
	}
	values, err := client.ReadValues(args[2])
	if err != nil {
		return err
	}
	c := &goClient{rdb: redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + args[0]}), values: values}
	defer c.rdb.Close()
	for i := range values {
		c.keys = append(c.keys, fmt.Sprintf("record:%d", i))
	}
	if err := attach(c.rdb, args[1]); err != nil {
		return err
	}
	return c.serve()
}

func attach(rdb *redis.Client, mode string) error {
	var o cinchredis.Options
	switch mode {
	case modePlain:
		return nil
	case modeLibzstd:
		z, ok := libzstd.New()
		if !ok {
			return libzstd.ErrUnavailable
		}
		o.Engine = codec.New(codec.Options{Zstd: z})
	}
	return cinchredis.Attach(context.Background(), rdb, o)
}

// serve writes and reads all values once, and then executes steps.
func (c *goClient) serve() error {
	for _, step := range []func(int) error{c.set, c.get} {
		if err := each(0, len(c.values), step); err != nil {
			return err
		}
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]bool{"ready": true}); err != nil {
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var name string
		var n int
		if _, err := fmt.Sscan(in.Text(), &name, &n); err != nil {
			return err
		}
		answer, err := c.step(name, n)
		if err != nil {
			return err
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

func (c *goClient) step(name string, n int) (answer any, err error) {
	took := make([]time.Duration, 0, n)
	switch name {
	case "set":
		err = each(c.sets, n, c.set)
		c.sets += n
	case "get":
		err = each(c.gets, n, c.get)
		c.gets += n
	case "time":
		err = each(c.gets, n, func(i int) error {
			began := time.Now()
			err := c.get(i)
			took = append(took, time.Since(began))
			return err
		})
		c.gets += n
	default:
		err = fmt.Errorf("unknown step %q", name)
	}
	return map[string]any{"ns": took}, err
}

func each(first, n int, do func(i int) error) error {
	for i := first; i < first+n; i++ {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

func (c *goClient) set(i int) error {
	i %= len(c.values)
	return c.rdb.Set(context.Background(), c.keys[i], c.values[i], 0).Err()
}

func (c *goClient) get(i int) error {
	i %= len(c.values)
	got, err := c.rdb.Get(context.Background(), c.keys[i]).Bytes()
	if err == nil && !bytes.Equal(got, c.values[i]) {
		err = fmt.Errorf("%s was read back different", c.keys[i])
	}
	return err
}
