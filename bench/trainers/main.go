// Command trainers compares what `dictionary: auto` chooses with five dictionaries that a careful user would train
// by hand, with zstd's own command, on ten corpora of different kinds. All are judged by the same values, from sources that none
// has learned from. It writes to bench/results/corpora.md, which tells what is measured.
//
//	go run ./bench/trainers [--busy N] [--only NAME] [--cache DIR]
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/bench/corpora"
	"github.com/cinch-layer/cinch/bench/rig"
)

type options struct {
	cache, results, only string
	busy                 int

	work string // temporary
}

func main() {
	var o options
	flag.StringVar(&o.cache, "cache", corpora.DefaultCache(), "where the packages are kept")
	flag.StringVar(&o.results, "results", "bench/results", "where results are written")
	flag.StringVar(&o.only, "only", "", "the one corpus to measure; writes nothing")
	flag.IntVar(&o.busy, "busy", 0, "how many loops keep the processors busy meanwhile; only auto is measured again")
	flag.Parse()
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "bench/trainers:", err)
		os.Exit(1)
	}
}

func run(o *options) (err error) {
	if o.work, err = os.MkdirTemp("", "cinch-trainers-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.work)
	if err := fetch(o.cache); err != nil {
		return err
	}
	stop, err := busy(o.busy)
	if err != nil {
		return err
	}
	defer stop()
	var table rig.Table
	head(&table)
	for i := range kinds {
		if o.only != "" && kinds[i].name != o.only {
			continue
		}
		c, err := load(o.cache, &kinds[i])
		if err == nil {
			err = o.measure(&table, c)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", kinds[i].name, err)
		}
	}
	if o.only != "" {
		return nil
	}
	part := "idle"
	if o.busy > 0 {
		part = "busy"
	}
	return rig.ReplacePart(filepath.Join(o.results, "corpora.md"), part, table.String())
}

func fetch(cache string) error {
	if err := corpora.Fetch(cache); err != nil {
		return err
	}
	more := exec.Command("bench/trainers/fetch", cache)
	more.Stderr = os.Stderr
	if err := more.Run(); err != nil {
		return fmt.Errorf("bench/trainers/fetch: %w", err)
	}
	return nil
}

// busy starts processes that do nothing but take the processors' time.
func busy(n int) (stop func(), err error) {
	var loops []*exec.Cmd
	stop = func() {
		for _, c := range loops {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	for range n {
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			stop()
			return nil, err
		}
		loops = append(loops, c)
	}
	return stop, nil
}

func head(t *rig.Table) {
	cells := []string{"corpus", "what, by which source", "learned from", "measured", "bytes a value", "zstd-3"}
	for _, h := range byHand {
		cells = append(cells, h.name)
	}
	cells = append(cells, "auto", "its dictionary KB", "seconds", "**auto / best by hand**")
	t.Row(cells...)
	t.Rule(len(cells))
}

func (o *options) measure(t *rig.Table, c *corpus) error {
	raw, plain, err := sealedBytes(nil, 0, c.measure)
	if err != nil {
		return err
	}
	times := func(n int) string { return fmt.Sprintf("%.2fx", float64(raw)/float64(n)) }
	cells := []string{c.name, c.about, strconv.Itoa(len(c.learn)), strconv.Itoa(len(c.measure)), strconv.Itoa(raw / len(c.measure)), times(plain)}
	best := plain
	trained, err := o.trainByHand(c)
	if err != nil {
		return err
	}
	for _, d := range trained {
		if d == nil {
			cells = append(cells, "none")
			continue
		}
		_, n, err := sealedBytes(d, 0, c.measure)
		if err != nil {
			return err
		}
		best = min(best, n)
		cells = append(cells, times(n))
	}
	begin := time.Now()
	d, level, err := auto(c)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	n, kb := plain, 0
	if d != nil {
		kb = len(d.Content()) >> 10
		if _, n, err = sealedBytes(d, level, c.measure); err != nil {
			return err
		}
	}
	cells = append(cells, times(n), strconv.Itoa(kb), fmt.Sprintf("%.0f", took.Seconds()), fmt.Sprintf("**%.3f**", float64(n)/float64(best)))
	fmt.Println(strings.Join(append(cells[:1:1], cells[2:]...), "\t"))
	t.Row(cells...)
	return nil
}
