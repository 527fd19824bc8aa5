// Command tunnel compares a pair of gateways with a direct connection, with today's alternatives (ssh -C,
// stunnel) and with compression by message: bytes on the link, CPU time of both ends, latency.
//
//	go run ./bench/tunnel [-short] [-part messages|queries]
//
// It writes bench/results/tunnel.md. Ways whose programs are not installed are skipped with a log line.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/link"
)

var (
	short = flag.Bool("short", false, "smoke test: little data, short runs, writes nothing")
	part  = flag.String("part", "", "part to run: messages or queries; empty: both")
)

const results = "bench/results/tunnel.md"

func main() {
	link.Child()
	log.SetFlags(0)
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// bench is one run. dir holds its programs and files.
type bench struct {
	dir    string
	missed map[string]bool // ways whose programs are not installed
}

func run() error {
	dir, err := os.MkdirTemp("", "cinch-bench-tunnel")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir, map[string]bool{}}
	if err := rig.Build(filepath.Join(dir, "cinch"), "./cmd/cinch"); err != nil {
		return err
	}
	parts := map[string]func() (string, error){"messages": b.messages, "queries": b.queries}
	if *part != "" && parts[*part] == nil {
		return errors.New("-part must be messages or queries")
	}
	for _, name := range []string{"messages", "queries"} {
		if *part != "" && *part != name {
			continue
		}
		began := time.Now()
		text, err := parts[name]()
		if err != nil {
			return err
		}
		fmt.Print(text)
		log.Printf("%s took %v", name, time.Since(began).Round(time.Second))
		if *short {
			continue
		}
		if err := rig.ReplacePart(results, name, text); err != nil {
			return err
		}
	}
	return nil
}
