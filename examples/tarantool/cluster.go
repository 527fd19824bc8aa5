package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/tarantool"
	"github.com/cinch-layer/cinch/test/rig/tarantool/load"
	"github.com/cinch-layer/cinch/test/rig/tarantool/telecom"
)

// cluster holds the running processes:
//
//	clients -> router (cinch serve) -> master -> replica
//	                     packer (cinch pack) -^       ^- router, for reads
type cluster struct {
	o    options
	work string
	out  interface{ Write([]byte) (int, error) }

	master, replica *tarantool.Tarantool
	gateway         *tarantool.Process
	router, reader  string // its addresses that lead to the master and to the replica
	dict, config    string // files; dict "": no dictionary
	documents       load.Source
}

const (
	space     = "docs"
	makeSpace = `local s = box.schema.space.create('docs', {if_not_exists = true, format = {{'id', 'unsigned'}, {'body', 'string'}}})
    s:create_index('pk', {if_not_exists = true})`
	memtxBytes = 1 << 30
	seed       = 1
	samples    = 2000 // number of training documents, of operators other than the load's
)

func (c *cluster) say(format string, args ...any) {
	if !c.o.json {
		fmt.Fprintf(c.out, format+"\n", args...)
	}
}

// start starts everything, in the order of docs/TARANTOOL.md.
func (c *cluster) start(ctx context.Context) (err error) {
	c.prepareDocuments()
	if c.master, err = tarantool.Start(ctx, tarantool.Options{Dir: filepath.Join(c.work, "master"), Lua: makeSpace, Memory: memtxBytes, Core: -1}); err != nil {
		return err
	}
	if c.replica, err = tarantool.Start(ctx, tarantool.Options{Dir: filepath.Join(c.work, "replica"), Master: c.master.Addr, Memory: memtxBytes, Core: -1}); err != nil {
		return err
	}
	c.say("master %s and replica %s run; %d documents are written before the router starts", c.master.Addr, c.replica.Addr, c.o.before)
	if _, err := c.load(ctx, c.master.Addr, 0, c.o.before, false); err != nil {
		return err
	}
	if _, err := c.cinch(ctx, "tarantool", "init", c.url(c.master)); err != nil {
		return err
	}
	if !c.o.noDict {
		if err := c.train(ctx); err != nil {
			return err
		}
	}
	return c.startRouter(ctx)
}

// prepareDocuments generates all documents before the test, so that this takes no time during it.
func (c *cluster) prepareDocuments() {
	g := telecom.NewGenerator(seed)
	all := make([]string, c.o.before+c.o.writes)
	for n := range all {
		all[n] = string(g.Append(nil, telecom.Measured(n), n))
	}
	c.documents = func(n int) string { return all[n] }
}

// train makes a dictionary from documents of operators that are not in the load. The gateway stores it in the
// master.
func (c *cluster) train(ctx context.Context) error {
	var lines strings.Builder
	g := telecom.NewGenerator(seed)
	for n := range samples {
		lines.Write(g.Append(nil, telecom.Trained(n), n))
		lines.WriteByte('\n')
	}
	file, dict := filepath.Join(c.work, "samples.jsonl"), filepath.Join(c.work, "subscribers.dict")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		return err
	}
	if _, err := c.cinch(ctx, "dict", "train", "--out", dict, "--size", "16KiB", "--setting", c.o.setting, file); err != nil {
		return err
	}
	c.dict = dict
	return nil
}

// startRouter starts one gateway process with a listener to the master and one to the replica.
func (c *cluster) startRouter(ctx context.Context) (err error) {
	if c.router, err = rig.FreeAddr(); err != nil {
		return err
	}
	if c.reader, err = rig.FreeAddr(); err != nil {
		return err
	}
	text, rule := "admin: {listen: off}\n", fmt.Sprintf("name: body, space: %s, field: body, setting: %s", space, c.o.setting)
	if c.dict != "" {
		text += fmt.Sprintf("dictionaries: [{name: subscribers, file: %q}]\n", c.dict)
		rule += ", dictionary: subscribers"
	}
	text += "gateways:\n"
	for _, g := range [][3]string{{"master", c.router, c.url(c.master)}, {"replica", c.reader, c.url(c.replica)}} {
		text += fmt.Sprintf("  - {name: %s, protocol: tarantool, listen: %q, upstream: %q, rules: [{%s}]}\n", g[0], g[1], g[2], rule)
	}
	c.config = filepath.Join(c.work, "cinch.yaml")
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		return err
	}
	if c.gateway, err = tarantool.Launch(ctx, c.router, -1, c.o.cinch, "serve", "--config", c.config); err != nil || c.dict == "" {
		return err
	}
	return c.awaitDictionary(ctx)
}

// awaitDictionary waits until both gateways have found the dictionary in their server: what they write before
// is compressed without it.
func (c *cluster) awaitDictionary(ctx context.Context) error {
	for range 3000 {
		if strings.Count(c.gateway.Output(), "the dictionaries that rules name are in the server") == 2 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("the dictionary is not in the servers:\n%s", c.gateway.Output())
}

func (c *cluster) url(t *tarantool.Tarantool) string { return "tarantool://" + t.Addr }

// cinch runs a command and returns its output.
func (c *cluster) cinch(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.o.cinch, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cinch %s: %w\n%s%s", strings.Join(args, " "), err, out, errs.String())
	}
	return string(out), nil
}

func (c *cluster) load(ctx context.Context, addr string, first, n int, read bool) (load.Result, error) {
	return load.Run(ctx, load.Plan{
		Addr: addr, Space: space, Users: c.o.users, First: first, Count: n, Limit: c.o.duration, Read: read, Source: c.documents,
	})
}

func (c *cluster) stop() {
	c.gateway.Stop()
	for _, t := range []*tarantool.Tarantool{c.replica, c.master} {
		if t != nil {
			t.Stop()
		}
	}
}
