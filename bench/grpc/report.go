package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/test/rig"
)

type report struct {
	payloads []payload
	results  []result
	peaks    []peak
}

// write replaces the CSV, which holds only machine-independent results, and the parts of the page between its
// markers.
func (r report) write(dir string) error {
	text := r.tables()
	fmt.Print(text)
	if dir == "" {
		return nil
	}
	rows := [][]string{{"payload", "codec", "raw_bytes", "bytes"}}
	for _, x := range r.results {
		rows = append(rows, []string{x.payload, x.contender, strconv.Itoa(x.rawBytes), strconv.Itoa(x.packedBytes)})
	}
	if err := rig.WriteCSV(filepath.Join(dir, "grpc.csv"), rows); err != nil {
		return err
	}
	return rig.ReplacePart(filepath.Join(dir, "grpc.md"), "tables", text)
}

func (r report) tables() string {
	var t rig.Table
	fmt.Fprintf(&t, "%s, %d cores, %s.\n\n", cpuModel(), runtime.NumCPU(), runtime.Version())
	for _, p := range r.payloads {
		r.table(&t, p)
	}
	r.heaps(&t)
	return t.String()
}

func (r report) table(t *rig.Table, p payload) {
	var base result
	for _, x := range r.results {
		if x.payload == p.name && x.contender == reference {
			base = x
		}
	}
	fmt.Fprintf(t, "### %s: %s\n\n%d messages of %d bytes on average.\n\n", p.name, p.what, len(p.messages), p.bytes()/len(p.messages))
	t.Row("codec", "ratio", "bytes against S2", "CPU against S2 (quartiles)", "CPU for 1 MB", "allocations", "bytes allocated")
	t.Rule(7)
	for _, x := range r.results {
		if x.payload != p.name {
			continue
		}
		t.Row(x.contender,
			fmt.Sprintf("%.2f", float64(x.rawBytes)/float64(x.packedBytes)),
			fmt.Sprintf("%+.1f %%", 100*(float64(x.packedBytes)/float64(base.packedBytes)-1)),
			fmt.Sprintf("%.2f (%.2f to %.2f)", x.cpu, x.spread[0], x.spread[1]),
			fmt.Sprintf("%.2f ms", float64(x.perMB.Microseconds())/1000),
			fmt.Sprintf("%.1f", x.allocs), fmt.Sprintf("%.0f", x.allocBytes))
	}
	t.WriteString("\n")
}

func (r report) heaps(t *rig.Table) {
	if len(r.peaks) == 0 {
		return
	}
	of := make(map[string]int)
	var names []string
	for _, p := range r.peaks {
		key := p.contender + "/" + strconv.Itoa(p.procs)
		if _, ok := of[p.contender]; !ok {
			names = append(names, p.contender)
		}
		of[p.contender], of[key] = 1, p.bytes
	}
	fmt.Fprintf(t, "### Peak heap, %d streams of 1 MB\n\n", streams)
	t.Row("codec", "GOMAXPROCS 2", "against S2", "GOMAXPROCS 16", "against S2")
	t.Rule(5)
	for _, name := range names {
		cells := []string{name}
		for _, procs := range []string{"/2", "/16"} {
			cells = append(cells, fmt.Sprintf("%d MB", of[name+procs]>>20), fmt.Sprintf("%+d MB", (of[name+procs]-of[reference+procs])>>20))
		}
		t.Row(cells...)
	}
	t.WriteString("\n")
}

func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if errors.Is(err, os.ErrNotExist) {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(info)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return runtime.GOARCH
}
