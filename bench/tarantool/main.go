// Command tarantool compares layouts of field compression in Tarantool on the same documents: memory, writes
// and reads per second, latency, CPU, replication, log and snapshot.
//
//	go run ./bench/tarantool [-short] [-pin=false]
//
//	clients ----------------------> server          raw, storage, lazy
//	clients -> forward -----------> server          raw through a plain forwarder (io.Copy), or HAProxy
//	clients -> router (cinch serve) -> server       router
//
// Server, router, forwarder and replica are separate processes. With -pin, the default, server and clients
// (this process) share core 0, and the process between them has core 1 for itself; without it, all share both
// cores. The tables in bench/results/tarantool.md are replaced, and with -pin also tarantool.csv.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/tarantool/telecom"
)

var (
	writes  = flag.Int("writes", 100_000, "documents to write in the first round")
	again   = flag.Int("again", 40_000, "documents to write in each further round, which only measures time")
	rounds  = flag.Int("rounds", 3, "measurements of each layout; times are medians")
	users   = flag.Int("users", 10, "virtual users")
	limit   = flag.Duration("limit", 30*time.Second, "time limit for writing with one layout")
	only    = flag.String("layouts", "", "layouts to measure, separated by commas; empty: all")
	pin     = flag.Bool("pin", true, "pin to cores, with taskset")
	pinned  = flag.Bool("pinned", false, "internal: this process is pinned")
	short   = flag.Bool("short", false, "smoke test: few documents, one round, writes nothing")
	results = flag.String("results", "bench/results", "directory for the tables; empty: none")
	profile = flag.String("profile", "", "`DIR` for CPU profiles of the router in the first round, two seconds of each layout")
	program = flag.String("cinch", "", "path of the cinch program; empty: build it from this tree")
)

func main() {
	flag.Parse()
	if *short {
		*writes, *rounds, *results = 3000, 1, ""
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *pin && !*pinned {
		err = runPinned(ctx)
	} else {
		err = run(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// The cores that processes are pinned to with -pin.
const (
	serverCore = 0 // server, replica, and clients
	routerCore = 1 // router or forwarder
)

// runPinned starts this program again on the clients' core. Programs that it starts inherit the core.
func runPinned(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", fmt.Sprint(serverCore), self, "-pinned"}, os.Args[1:]...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it can stop its servers
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("on core %d: %w", serverCore, err)
	}
	return nil
}

func core(n int) int {
	if *pinned {
		return n
	}
	return -1
}

// bench holds what all layouts share.
type bench struct {
	work, cinch, forward string
	dicts                map[string]string // files, by whose documents they were trained on
	documents            []string
}

func run(ctx context.Context) (err error) {
	b := &bench{cinch: *program}
	if b.work, err = os.MkdirTemp("", "bench-tarantool-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.work)
	if b.cinch == "" {
		b.cinch = filepath.Join(b.work, "cinch")
		if err := rig.Build(b.cinch, "./cmd/cinch"); err != nil {
			return err
		}
	}
	b.forward = filepath.Join(b.work, "forward")
	if err := rig.Build(b.forward, "./bench/forward"); err != nil {
		return err
	}
	g := telecom.NewGenerator(seed)
	for n := range *writes + replicated {
		b.documents = append(b.documents, string(g.Append(nil, telecom.Measured(n), n)))
	}
	if err := b.train(g); err != nil {
		return err
	}
	chosen, err := chosenLayouts()
	if err != nil {
		return err
	}
	all := make([]measured, len(chosen))
	for round := range *rounds {
		for i, l := range chosen {
			if err := b.measure(ctx, l, round, &all[i]); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			fmt.Fprintf(os.Stderr, "round %d, %s: %.0f writes/s\n", round+1, l.name, all[i].rounds[round].write.PerSec)
		}
	}
	return b.publish(chosen, all)
}

func chosenLayouts() ([]layout, error) {
	if *only == "" {
		return layouts, nil
	}
	var chosen []layout
	for _, name := range strings.Split(*only, ",") {
		for _, l := range layouts {
			if l.name == name {
				chosen = append(chosen, l)
			}
		}
	}
	if len(chosen) == 0 {
		return nil, errors.New("-layouts matches no layout")
	}
	return chosen, nil
}
