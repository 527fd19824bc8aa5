package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/test/rig/proc"
	"github.com/cinch-layer/cinch/test/rig/tarantool"
	"github.com/cinch-layer/cinch/test/rig/tarantool/load"
)

// measured holds the results of a layout. Sizes are in bytes.
type measured struct {
	raw         int64 // of the documents
	bsize       int64 // space:bsize()
	slabs       int64 // box.slab.info().items_used, less that of an empty server
	wal, snap   int64
	replication float64 // per document
	packed      time.Duration
	rounds      []timed
}

// timed holds the results of one round.
type timed struct {
	write, read    load.Result
	server, router time.Duration // CPU time of the processes during the writes
	client         time.Duration
	readRouter     time.Duration // CPU time during the reads
}

const (
	warmUp     = 1000
	readBack   = 100_000 // documents
	replicated = 3000    // documents written to measure replication
)

func (b *bench) measure(ctx context.Context, l layout, round int, m *measured) error {
	s, err := b.set(ctx, l, fmt.Sprintf("%s-%d", strings.ReplaceAll(l.name, " ", "-"), round))
	if err != nil {
		return err
	}
	defer s.stop()
	empty, err := s.slabs(ctx)
	if err != nil {
		return err
	}
	n := *writes
	if round > 0 {
		n = min(*again, n)
	}
	if _, err := s.load(ctx, 0, min(warmUp, n), false); err != nil {
		return err
	}
	logged, err := s.files("*.xlog")
	if err != nil {
		return err
	}
	t, err := s.timed(ctx, n, round == 0)
	if err != nil {
		return err
	}
	if l.lazy {
		began := time.Now()
		if _, err := b.run(ctx, "pack", "--config", s.config); err != nil {
			return err
		}
		m.packed = time.Since(began)
	}
	if s.reads != "" {
		if err := s.timedReads(ctx, &t, min(readBack, n), round == 0); err != nil {
			return fmt.Errorf("read back: %w", err)
		}
	}
	if m.rounds = append(m.rounds, t); round > 0 {
		return nil
	}
	if err := s.sizes(ctx, m, n, empty, logged); err != nil {
		return err
	}
	m.replication, err = s.replication(ctx, n)
	return err
}

// load writes documents, or reads and compares them.
func (s *stage) load(ctx context.Context, first, n int, read bool) (load.Result, error) {
	p := load.Plan{
		Addr: s.target, Space: space, Users: *users, First: first, Count: n, Limit: *limit, Read: read,
		Source: func(n int) string { return s.b.documents[n] },
	}
	if read {
		p.Addr = s.reads
	}
	r, err := load.Run(ctx, p)
	if err == nil && r.Done < n {
		err = fmt.Errorf("%d of %d documents within %s", r.Done, n, *limit)
	}
	if err != nil && s.between != nil {
		err = fmt.Errorf("%w\n%s", err, s.between.Output())
	}
	return r, err
}

// timed writes n documents.
func (s *stage) timed(ctx context.Context, n int, profile bool) (t timed, err error) {
	before, err := s.cpu()
	if err != nil {
		return t, err
	}
	profiled := s.profiled(ctx, "writes", profile)
	if t.write, err = s.load(ctx, 0, n, false); err != nil {
		return t, err
	}
	if err := <-profiled; err != nil {
		return t, err
	}
	after, err := s.cpu()
	t.server, t.router, t.client = after[0]-before[0], after[1]-before[1], after[2]-before[2]
	return t, err
}

// timedReads reads n documents.
func (s *stage) timedReads(ctx context.Context, t *timed, n int, profile bool) error {
	before, err := s.cpu()
	if err != nil {
		return err
	}
	profiled := s.profiled(ctx, "reads", profile)
	if t.read, err = s.load(ctx, 0, n, true); err != nil {
		return err
	}
	if err := <-profiled; err != nil {
		return err
	}
	after, err := s.cpu()
	t.readRouter = after[1] - before[1]
	return err
}

// cpu returns the CPU time that server, router and this process have used.
func (s *stage) cpu() (used [3]time.Duration, err error) {
	if used[0], err = s.server.CPU(); err != nil {
		return used, err
	}
	if s.between != nil {
		if used[1], err = s.between.CPU(); err != nil {
			return used, err
		}
	}
	used[2], err = proc.CPU(pid)
	return used, err
}

func (s *stage) slabs(ctx context.Context) (int64, error) {
	// Otherwise tuples that Lua still refers to would count.
	return tarantool.Eval[int64](ctx, s.server, "collectgarbage('collect') collectgarbage('collect') return box.slab.info().items_used")
}

func (s *stage) files(pattern string) (size int64, err error) {
	return fileBytes(s.server.Dir, pattern)
}

func (s *stage) sizes(ctx context.Context, m *measured, n int, empty, logged int64) (err error) {
	for _, d := range s.b.documents[:n] {
		m.raw += int64(len(d))
	}
	if m.bsize, err = tarantool.Eval[int64](ctx, s.server, "return box.space.docs:bsize()"); err != nil {
		return err
	}
	if m.slabs, err = s.slabs(ctx); err != nil {
		return err
	}
	if m.wal, err = s.files("*.xlog"); err != nil {
		return err
	}
	m.slabs, m.wal = m.slabs-empty, m.wal-logged
	before, err := s.files("*.snap")
	if err != nil {
		return err
	}
	if _, err := tarantool.Eval[string](ctx, s.server, "return box.snapshot()"); err != nil {
		return err
	}
	after, err := s.files("*.snap")
	m.snap = after - before
	return err
}

// replication lets a replica join, and counts the bytes per document that it receives for documents written
// afterwards.
func (s *stage) replication(ctx context.Context, n int) (perDocument float64, err error) {
	hop, err := startHop(s.server.Addr)
	if err != nil {
		return 0, err
	}
	defer hop.close()
	replica, err := tarantool.Start(ctx, tarantool.Options{
		Dir: filepath.Join(s.server.Dir, "replica"), Master: hop.listener.Addr().String(), Memory: memtxBytes, Core: core(serverCore),
	})
	if err != nil {
		return 0, err
	}
	defer replica.Stop()
	if err := replica.CatchUp(ctx, s.server); err != nil {
		return 0, err
	}
	before := hop.bytes.Load()
	if _, err := s.load(ctx, n, replicated, false); err != nil {
		return 0, err
	}
	if s.layout.lazy {
		if _, err := s.b.run(ctx, "pack", "--config", s.config); err != nil {
			return 0, err
		}
	}
	if err := replica.CatchUp(ctx, s.server); err != nil {
		return 0, err
	}
	return float64(hop.bytes.Load()-before) / replicated, s.sameAs(ctx, replica)
}

// sameAs checks that master and replica have the same tuples.
func (s *stage) sameAs(ctx context.Context, replica *tarantool.Tarantool) error {
	const lua = `local crc, msgpack, n = require('digest').crc32.new(), require('msgpack'), 0
		for _, t in box.space.docs:pairs() do
			crc:update(msgpack.encode(t))
			n = n + 1
			if n % 100 == 0 then require('fiber').yield() end
		end
		return crc:result() .. ' ' .. n`
	var sums [2]string
	for i, t := range []*tarantool.Tarantool{s.server, replica} {
		var err error
		if sums[i], err = tarantool.Eval[string](ctx, t, lua); err != nil {
			return err
		}
	}
	if sums[0] != sums[1] {
		return errors.New("master and replica differ: " + sums[0] + ", " + sums[1])
	}
	return nil
}

// run runs a cinch command on the router's core.
func (b *bench) run(ctx context.Context, args ...string) (string, error) {
	name, all := b.cinch, args
	if n := core(routerCore); n >= 0 {
		name, all = "taskset", append([]string{"-c", strconv.Itoa(n), b.cinch}, args...)
	}
	out, err := exec.CommandContext(ctx, name, all...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cinch %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// hop forwards between a replica and its master, and counts the master's bytes.
type hop struct {
	listener net.Listener
	to       string
	bytes    atomic.Int64
	all      sync.WaitGroup
}

func startHop(to string) (*hop, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &hop{listener: l, to: to}
	h.all.Go(h.serve)
	return h, nil
}

func (h *hop) serve() {
	for {
		c, err := h.listener.Accept()
		if err != nil {
			return
		}
		h.all.Go(func() { h.pass(c) })
	}
}

func (h *hop) pass(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("tcp", h.to)
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(up, c)
		_ = up.Close()
	}()
	_, _ = io.Copy(io.MultiWriter(c, counter{&h.bytes}), up)
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// close must be called after the replica has ended.
func (h *hop) close() { _ = h.listener.Close() }
