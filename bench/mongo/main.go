// Command mongo measures MongoDB operations over emulated links, for a driver alone, through one gateway and
// through a pair of gateways: bytes on the link, latency, several concurrent clients, and the CPU time of all
// processes.
//
//	go run ./bench/mongo [-part bytes,links,clients,cpu] [-short]
//
//	driver ------------------> link -------------> mongod
//	driver -> gateway -------> link -------------> mongod
//	driver -> near gateway --> link -> far gateway -> mongod
//
// Driver, gateways, link and mongod are separate processes. A part replaces its tables in
// bench/results/mongo.md and its rows in mongo.csv (bytes) or mongo-times.csv.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/link"
)

var (
	parts   = flag.String("part", "bytes,links,clients,cpu", "parts to measure, separated by commas")
	short   = flag.Bool("short", false, "smoke test: a tenth of the operations, two links, writes nothing")
	program = flag.String("cinch", "", "path of the cinch program; empty: build it from this tree")
	results = flag.String("results", "bench/results", "directory for the tables; empty: none")
)

func main() {
	link.Child()
	flag.Parse()
	if *short {
		*results = ""
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	work, err := os.MkdirTemp("", "bench-mongo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	cinch := *program
	if cinch == "" {
		cinch = filepath.Join(work, "cinch")
		if err := rig.Build(cinch, "./cmd/cinch"); err != nil {
			return err
		}
	}
	b := &bench{work: work, cinch: cinch}
	defer b.stop()
	if err := b.startMongod(); err != nil {
		return err
	}
	measure := map[string]func() error{"bytes": b.bytes, "links": b.links, "clients": b.clients, "cpu": b.cpu}
	for _, part := range strings.Split(*parts, ",") {
		f, ok := measure[part]
		if !ok {
			return fmt.Errorf("-part %s: must be bytes, links, clients or cpu", part)
		}
		began := time.Now()
		if err := f(); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		fmt.Printf("%s took %.0f s\n", part, time.Since(began).Seconds())
	}
	return nil
}

// publish prints a part's table and writes it to the results file.
func publish(part, table string) error {
	fmt.Println(table)
	if *results == "" {
		return nil
	}
	return rig.ReplacePart(filepath.Join(*results, "mongo.md"), part, table)
}

// thousands formats a number with a comma every three digits.
func thousands(n float64) string {
	text := fmt.Sprintf("%.0f", n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// record replaces a part's rows in a CSV file of results.
func record(file, part string, head []string, rows [][]string) error {
	if *results == "" {
		return nil
	}
	path := filepath.Join(*results, file)
	old, err := rig.ReadCSV(path)
	if err != nil {
		return err
	}
	all := [][]string{head}
	for _, r := range old[min(1, len(old)):] {
		if r[0] != part {
			all = append(all, r)
		}
	}
	return rig.WriteCSV(path, append(all, rows...))
}
