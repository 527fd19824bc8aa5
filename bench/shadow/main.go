// Command shadow measures how cinch shadow affects production: latencies of Redis's GET and SET of 200 bytes,
// and of PostgreSQL's reads and writes of a row. Clients connect directly, through the simplest proxy
// (bench/forward), and through the mirror while its targets answer, are frozen, are killed, are slow, or have
// full disks. Clients must see no error, and the mirror must stay within its memory. Then it records loads of
// Redis and MongoDB and replays them for the verdict "direct against through Cinch", and reports the savings
// that rules in observe mode predict. It writes all results into bench/results/shadow.md.
//
//	go run ./bench/shadow [--runs N] [--nice N] [--production redis,postgres] [--recorded TIME]
//		[--mongo TIME] [--observe=false] [--results DIR]
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

type bench struct {
	work, cinch, forward string
	nice                 int
}

func main() {
	runs := flag.Int("runs", 5, "repetitions of each path to production, alternating; the median is reported; 0: none")
	sides := flag.String("production", "redis,postgres", "production databases to measure, one after the other")
	nice := flag.Int("nice", 19, "nice value of the mirror's targets: 19 is the lowest priority, as with separate cores; 0 is production's")
	recorded := flag.Duration("recorded", 45*time.Second, "recording time of each Redis load; 0: skip")
	mongo := flag.Duration("mongo", time.Minute, "recording time of the MongoDB load; 0: skip")
	observe := flag.Bool("observe", true, "measure rules with mode: observe")
	results := flag.String("results", "bench/results", "directory for the results")
	flag.Parse()
	if err := run(*runs, *nice, strings.Split(*sides, ","), *recorded, *mongo, *observe, filepath.Join(*results, "shadow.md")); err != nil {
		fmt.Fprintln(os.Stderr, "bench/shadow:", err)
		os.Exit(1)
	}
}

func run(runs, nice int, sides []string, recorded, mongo time.Duration, observe bool, results string) error {
	b, err := newBench()
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.work)
	b.nice = nice
	if runs > 0 {
		if err := b.measure(runs, sides, results); err != nil {
			return err
		}
	}
	if recorded > 0 {
		trials, err := b.judge(recorded)
		if err != nil {
			return err
		}
		if err := rig.ReplacePart(results, "verdicts", verdictTable(trials, recorded)); err != nil {
			return err
		}
	}
	if mongo > 0 {
		table, err := b.judgeMongo(mongo)
		if err != nil {
			return fmt.Errorf("MongoDB: %w", err)
		}
		if err := rig.ReplacePart(results, "mongo", table); err != nil {
			return err
		}
	}
	if !observe {
		return nil
	}
	table, err := b.observe()
	if err != nil {
		return fmt.Errorf("mode: observe: %w", err)
	}
	return rig.ReplacePart(results, "observe", table)
}

func newBench() (b *bench, err error) {
	b = &bench{}
	if b.work, err = os.MkdirTemp("", "cinch-bench-"); err != nil {
		return b, err
	}
	b.cinch, b.forward = filepath.Join(b.work, "cinch"), filepath.Join(b.work, "forward")
	if err := rig.Build(b.cinch, "./cmd/cinch"); err != nil {
		return b, err
	}
	return b, rig.Build(b.forward, "./bench/forward")
}

// measure measures production's latencies, for each named database.
func (b *bench) measure(runs int, names []string, results string) error {
	for _, s := range sides() {
		if !slices.Contains(names, s.name) {
			continue
		}
		table, err := b.production(s, runs)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if err := rig.ReplacePart(results, "production "+s.name, table); err != nil {
			return err
		}
	}
	return nil
}
