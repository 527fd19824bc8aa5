package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/codec/libzstd"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/tarantool"
	"github.com/cinch-layer/cinch/test/rig/tarantool/telecom"
)

// layout is one way to store documents.
type layout struct {
	name    string
	through string // how clients write: "" (directly), forward, haproxy, router
	setting string // of the router's rule, or of the packer; "": none
	dict    string // whose documents the dictionary was trained on; "": no dictionary
	trigger string // options of cinch.trigger in the server, in Lua; "": none
	lazy    bool   // written uncompressed, packed afterwards, read through a router
}

const rawSetting = "raw"

// Dictionaries: trained on other operators' documents, or on other documents of the same operators, as a
// gateway with automatic training does. No measured document was used for training.
const (
	others = "others"
	own    = "own"
)

// layouts are measured in this order. The memory of the others is compared with that of the first.
var layouts = []layout{
	{name: "raw"},
	{name: "raw forwarder", through: "forward"},
	{name: "raw HAProxy", through: "haproxy"},
	{name: "raw router", through: "router", setting: rawSetting},
	{name: "storage lz4", trigger: "{codec = 'lz4'}"},
	{name: "storage zstd-3", trigger: "{codec = 'zstd', level = 3}"},
	{name: "router lz4", through: "router", setting: "lz4"},
	{name: "router zstd-3", through: "router", setting: "zstd-3"},
	{name: "router zlib-6", through: "router", setting: "zlib-6"},
	{name: "router zstd-1 + dictionary", through: "router", setting: "zstd-1", dict: others},
	{name: "router zstd-3 + dictionary", through: "router", setting: "zstd-3", dict: others},
	{name: "router zstd-9 + dictionary", through: "router", setting: "zstd-9", dict: others},
	{name: "router zstd-3 + own dictionary", through: "router", setting: "zstd-3", dict: own},
	{name: "lazy zstd-3 + dictionary", setting: "zstd-3", dict: others, lazy: true},
}

const (
	seed       = 1
	space      = "docs"
	memtxBytes = 1 << 30
	trainOn    = 4000     // documents
	ownFrom    = 1 << 30  // number of the first own document to train on
	dictBytes  = 16 << 10 // the best of a search over 4 to 112 KiB
	makeSpace  = `local s = box.schema.space.create('docs', {if_not_exists = true, format = {{'id', 'unsigned'}, {'body', 'string'}}})
    s:create_index('pk', {if_not_exists = true})`
)

// train makes both dictionaries.
func (b *bench) train(g *telecom.Generator) error {
	b.dicts = map[string]string{}
	for whose, document := range map[string]func(n int) []byte{
		others: func(n int) []byte { return g.Append(nil, telecom.Trained(n), n) },
		own:    func(n int) []byte { return g.Append(nil, telecom.Measured(n), ownFrom+n) },
	} {
		var samples [][]byte
		for n := range trainOn {
			samples = append(samples, document(n))
		}
		o := dict.TrainOptions{Size: dictBytes, Level: 3}
		if _, ok := libzstd.New(); ok {
			o.Algorithm, o.External = dict.External, libzstd.Train
		}
		d, err := dict.Train(samples, o)
		if err != nil {
			return err
		}
		b.dicts[whose] = filepath.Join(b.work, whose+".dict")
		if err := dict.Save(b.dicts[whose], d); err != nil {
			return err
		}
	}
	return nil
}

// stage is a running layout.
type stage struct {
	layout  layout
	b       *bench
	server  *tarantool.Tarantool
	between *tarantool.Process // router or forwarder; nil: none
	target  string             // where clients write
	reads   string             // where clients read what was written; "": no reads
	config  string             // the router's file
	admin   string             // address of its admin page; "": none
}

func (b *bench) set(ctx context.Context, l layout, name string) (s *stage, err error) {
	s = &stage{layout: l, b: b}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	dir := filepath.Join(b.work, name)
	if s.server, err = tarantool.Start(ctx, tarantool.Options{Dir: dir, Lua: makeSpace, Memory: memtxBytes, Core: core(serverCore)}); err != nil {
		return s, err
	}
	s.target, s.reads = s.server.Addr, s.server.Addr
	switch {
	case l.trigger != "":
		s.reads = "" // in this layout reads need stored functions that decompress
		const lua = `local module, options = ...
			box.space.docs:before_replace(loadstring(module)().trigger({'body'}, loadstring('return ' .. options)())) return true`
		_, err = tarantool.Eval[bool](ctx, s.server, lua, storetarantool.Module, l.trigger)
	case l.through == "forward":
		err = s.startForward(ctx)
	case l.through == "haproxy":
		err = s.startHAProxy(ctx)
	case l.setting != "":
		err = s.startRouter(ctx)
	}
	return s, err
}

func (s *stage) stop() {
	s.between.Stop()
	if s.server != nil {
		s.server.Stop()
		_ = os.RemoveAll(s.server.Dir)
	}
}

func (s *stage) startForward(ctx context.Context) error {
	addr, err := rig.FreeAddr()
	if err != nil {
		return err
	}
	s.target, s.reads = addr, addr
	s.between, err = tarantool.Launch(ctx, addr, core(routerCore), s.b.forward, addr, s.server.Addr)
	return err
}

func (s *stage) startHAProxy(ctx context.Context) error {
	addr, err := rig.FreeAddr()
	if err != nil {
		return err
	}
	command, err := rig.HAProxy(s.server.Dir, addr, s.server.Addr)
	if err != nil {
		return err
	}
	s.target, s.reads = addr, addr
	s.between, err = tarantool.Launch(ctx, addr, core(routerCore), command[0], command[1:]...)
	return err
}

// startRouter starts the gateway; in the lazy layout only reads go through it.
func (s *stage) startRouter(ctx context.Context) error {
	addr, err := rig.FreeAddr()
	if err != nil {
		return err
	}
	if _, err := s.b.run(ctx, "tarantool", "init", "tarantool://"+s.server.Addr); err != nil {
		return err
	}
	admin := "off"
	if *profile != "" {
		if admin, err = rig.FreeAddr(); err != nil {
			return err
		}
		s.admin = admin
	}
	text, rule := fmt.Sprintf("admin: {listen: %q}\n", admin), fmt.Sprintf("space: %s, field: body, setting: %s", space, s.layout.setting)
	if s.layout.dict != "" {
		text += fmt.Sprintf("dictionaries: [{name: subscribers, file: %q}]\n", s.b.dicts[s.layout.dict])
		rule += ", dictionary: subscribers"
	}
	text += fmt.Sprintf("gateways: [{name: bench, protocol: tarantool, listen: %q, upstream: %q, rules: [{%s}]}]\n", addr, "tarantool://"+s.server.Addr, rule)
	s.config = filepath.Join(s.server.Dir, "cinch.yaml")
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		return err
	}
	if s.between, err = tarantool.Launch(ctx, addr, core(routerCore), s.b.cinch, "serve", "--pprof", "--config", s.config); err != nil {
		return err
	}
	if s.reads = addr; !s.layout.lazy {
		s.target = addr
	}
	return s.awaitReady()
}

// awaitReady waits until the router has read the schema and stored its dictionary in the server: what it
// writes before is not compressed, or without the dictionary.
func (s *stage) awaitReady() error {
	for range 1000 {
		out := s.between.Output()
		if strings.Contains(out, "schema was read") && (s.layout.dict == "" || strings.Contains(out, "the dictionaries that rules name are in the server")) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("the router is not ready:\n%s", s.between.Output())
}
