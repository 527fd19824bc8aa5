package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/rig"
)

// clientCounts are the numbers of clients that --part clients compares.
var clientCounts = []int{1, 10, 50, 1000, 9000, 10_000}

// clientWays are the ways that it compares, and for how many clients they have files: a hop that does not share
// connections needs two for each client, and this machine allows a process 20,000.
var clientWays = map[string]int{"direct": 10_000, "HAProxy": 9000, "nutcracker": 10_000, "rules off": 9000, "rules off, shared": 10_000}

// clientRow is a way's result with a number of clients that each wait for their reply.
type clientRow struct {
	clients int
	way     string
	runs    []rate
	server  []float64 // CPU of the server in each run, in µs per operation
	conns   int       // most connections of the server
	memory  int64     // most bytes for them, by its own account
}

// measureClients compares the ways with few and many clients: GET of 16 bytes without pipelining.
func (o *options) measureClients() error {
	var rows []*clientRow
	for _, n := range clientCounts {
		for _, w := range allWays {
			if clientWays[w.name] < n {
				continue
			}
			row := &clientRow{clients: n, way: w.name}
			rows = append(rows, row)
			if err := o.measureClientsOf(row, w); err != nil {
				return fmt.Errorf("%s, %d clients: %w", w.name, n, err)
			}
			fmt.Printf("clients: %d, %s\n", n, w.name)
		}
	}
	cells := clientCells(rows)
	if err := rig.WriteCSV(filepath.Join(o.results, "redis-clients.csv"), cells); err != nil {
		return err
	}
	var b rig.Table
	for i, row := range cells {
		if b.Row(row...); i == 0 {
			b.Rule(len(row))
		}
	}
	return o.report("clients", b.String())
}

func (o *options) measureClientsOf(row *clientRow, w way) error {
	l, err := o.startLane(w)
	if err != nil {
		return err
	}
	defer l.stop()
	load := load{16, 1, max(50_000, 10*row.clients)}
	if row.clients < 10 {
		load.requests = 20_000
	}
	client := l.server.Client()
	defer client.Close()
	for range o.runs {
		stop := make(chan struct{})
		done := make(chan error, 1)
		go func() { done <- row.watch(client, stop) }()
		before, err := cpuMicros(l.server)
		if err != nil {
			return err
		}
		r, err := hopTest(load, row.clients, "GET", l.target(), l.hop)
		close(stop)
		if watchErr := <-done; err == nil {
			err = watchErr
		}
		if err != nil {
			return err
		}
		after, err := cpuMicros(l.server)
		if err != nil {
			return err
		}
		row.runs = append(row.runs, r)
		row.server = append(row.server, (after-before)/float64(load.requests))
	}
	return nil
}

// watch records the server's connections and their memory until stop is closed.
func (row *clientRow) watch(client *redis.Client, stop <-chan struct{}) error {
	for {
		info := client.InfoMap(context.Background(), "clients", "memory")
		if info.Err() != nil {
			return info.Err()
		}
		conns, _ := strconv.Atoi(info.Item("Clients", "connected_clients"))
		memory, _ := strconv.ParseInt(info.Item("Memory", "mem_clients_normal"), 10, 64)
		row.conns, row.memory = max(row.conns, conns-1), max(row.memory, memory)
		select {
		case <-stop:
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func clientCells(rows []*clientRow) [][]string {
	cells := [][]string{{"clients", "way", "operations/s", "to direct", "p50 ms", "p99 ms", "hop CPU us/op", "server CPU us/op", "server's connections", "their memory KiB"}}
	var direct rate
	for _, row := range rows {
		r := middle(row.runs)
		if row.way == "direct" {
			direct = r
		}
		cells = append(cells, []string{
			strconv.Itoa(row.clients), row.way, fmt.Sprintf("%.0f", r.perSecond), fmt.Sprintf("%.2f", r.perSecond/direct.perSecond),
			fmt.Sprintf("%.2f", r.p50), fmt.Sprintf("%.2f", r.p99), fmt.Sprintf("%.1f", r.hopCPU), fmt.Sprintf("%.1f", rig.Median(row.server)),
			strconv.Itoa(row.conns), strconv.FormatInt(row.memory>>10, 10),
		})
	}
	return cells
}
