package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

var pid = os.Getpid()

// fileBytes returns the total size of the files in a directory that match a pattern.
func fileBytes(dir, pattern string) (size int64, err error) {
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return 0, err
		}
		size += info.Size()
	}
	return size, nil
}

func median[T float64 | time.Duration](rounds []timed, of func(timed) T) T {
	var all []T
	for _, r := range rounds {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// summary is a layout's row.
type summary struct {
	perSec, reads           float64
	p50, p99                time.Duration
	server, router, clients float64 // µs of CPU time per write
	readRouter              float64 // µs of CPU time per read
}

func (m *measured) summary() summary {
	perWrite := func(of func(timed) time.Duration) float64 {
		return median(m.rounds, func(t timed) float64 { return float64(of(t).Microseconds()) / float64(t.write.Done) })
	}
	return summary{
		perSec: median(m.rounds, func(t timed) float64 { return t.write.PerSec }),
		reads:  median(m.rounds, func(t timed) float64 { return t.read.PerSec }),
		p50:    median(m.rounds, func(t timed) time.Duration { return t.write.P50 }),
		p99:    median(m.rounds, func(t timed) time.Duration { return t.write.P99 }),
		server: perWrite(func(t timed) time.Duration { return t.server }),
		router: perWrite(func(t timed) time.Duration { return t.router }),
		readRouter: median(m.rounds, func(t timed) float64 {
			return float64(t.readRouter.Microseconds()) / float64(max(t.read.Done, 1))
		}),
		clients: perWrite(func(t timed) time.Duration { return t.client }),
	}
}

// publish prints the tables and writes them to the results.
func (b *bench) publish(chosen []layout, all []measured) error {
	memory, speed := memoryTable(chosen, all), speedTable(chosen, all)
	fmt.Printf("%s\n%s\n", memory, speed)
	for i, l := range chosen {
		if l.lazy {
			fmt.Printf("%s: the packer took %s for %d documents\n", l.name, all[i].packed.Round(10*time.Millisecond), all[i].rounds[len(all[i].rounds)-1].write.Done)
		}
	}
	if *results == "" {
		return nil
	}
	page := filepath.Join(*results, "tarantool.md")
	if !*pinned {
		return rig.ReplacePart(page, "shared", speed)
	}
	if err := rig.ReplacePart(page, "memory", memory); err != nil {
		return err
	}
	if err := rig.ReplacePart(page, "speed", speed); err != nil {
		return err
	}
	return b.writeCSV(chosen, all)
}

func saved(of, than int64) string { return fmt.Sprintf("%.1f %%", 100*(1-float64(of)/float64(than))) }

func mb(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }

func memoryTable(chosen []layout, all []measured) string {
	var t rig.Table
	t.Row("layout", "bsize, MB", "saved", "slabs, MB", "saved", "replication, bytes a document", "WAL, MB", "snapshot, MB")
	t.Rule(8)
	base := &all[0]
	for i, l := range chosen {
		m := &all[i]
		t.Row(l.name, mb(m.bsize), saved(m.bsize, base.bsize), mb(m.slabs), saved(m.slabs, base.slabs),
			fmt.Sprintf("%.0f", m.replication), mb(m.wal), mb(m.snap))
	}
	return t.String()
}

func speedTable(chosen []layout, all []measured) string {
	var t rig.Table
	t.Row("layout", "writes/s", "of raw", "of raw forwarder", "p50, ms", "p99, ms", "server, µs", "between, µs", "clients, µs", "reads/s", "of raw", "of raw forwarder", "between, µs")
	t.Rule(13)
	base, forwarded := all[0].summary(), summary{}
	for i, l := range chosen {
		if l.through == "forward" {
			forwarded = all[i].summary()
		}
	}
	ratio := func(a, b float64) string {
		if a == 0 || b == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f", a/b)
	}
	ms := func(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/1e6) }
	for i, l := range chosen {
		s := all[i].summary()
		between, reads, readBetween := "", "", ""
		if l.through != "" {
			between = fmt.Sprintf("%.0f", s.router)
		}
		if s.reads > 0 && s.readRouter > 0 {
			readBetween = fmt.Sprintf("%.0f", s.readRouter)
		}
		if s.reads > 0 {
			reads = fmt.Sprintf("%.0f", s.reads)
		}
		t.Row(l.name, fmt.Sprintf("%.0f", s.perSec), ratio(s.perSec, base.perSec), ratio(s.perSec, forwarded.perSec),
			ms(s.p50), ms(s.p99), fmt.Sprintf("%.0f", s.server), between, fmt.Sprintf("%.0f", s.clients),
			reads, ratio(s.reads, base.reads), ratio(s.reads, forwarded.reads), readBetween)
	}
	return t.String()
}

func (b *bench) writeCSV(chosen []layout, all []measured) error {
	rows := [][]string{{
		"layout", "documents", "raw_bytes", "bsize", "slabs_items_used", "replication_bytes_per_document", "wal_bytes", "snapshot_bytes",
		"writes_per_second", "p50_us", "p99_us", "server_cpu_us", "between_cpu_us", "clients_cpu_us", "reads_per_second",
	}}
	number := func(f float64) string { return fmt.Sprintf("%.0f", f) }
	for i, l := range chosen {
		m, s := &all[i], all[i].summary()
		rows = append(rows, []string{
			l.name, fmt.Sprint(*writes), fmt.Sprint(m.raw), fmt.Sprint(m.bsize), fmt.Sprint(m.slabs), number(m.replication), fmt.Sprint(m.wal), fmt.Sprint(m.snap),
			number(s.perSec), fmt.Sprint(s.p50.Microseconds()), fmt.Sprint(s.p99.Microseconds()), number(s.server), number(s.router), number(s.clients), number(s.reads),
		})
	}
	return rig.WriteCSV(filepath.Join(*results, "tarantool.csv"), rows)
}
