// Command json compares a codec that knows JSON with zstd and a dictionary, on documents of sources that nothing was
// trained on. It writes the table of bench/results/json.md.
//
//	go run ./bench/json [--only NAME,NAME] [--cache DIR] [--results DIR]
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/bench/corpora"
	"github.com/cinch-layer/cinch/bench/json/model"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/test/rig"
)

type kind struct {
	name string
	load func(cache string) ([]corpora.Record, error)
}

var kinds = []kind{
	{"films", corpora.Movies},
	{"countries", corpora.Countries},
	{"webhooks", corpora.Webhooks},
	{"earthquakes", corpora.Quakes},
	{"orders", orders},
}

// orders makes orders, each its own source.
func orders(string) (out []corpora.Record, err error) {
	r := rand.New(rand.NewPCG(41, 41))
	for i := range 6000 {
		out = append(out, corpora.Record{Source: fmt.Sprint(i), Value: corpora.Order(r)})
	}
	return out, nil
}

func main() {
	cache := flag.String("cache", corpora.DefaultCache(), "directory of the downloaded packages")
	results := flag.String("results", "bench/results", "directory for the results")
	only := flag.String("only", "", "corpora to measure; the table is printed, not written")
	flag.Parse()
	if err := run(*cache, *results, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench/json:", err)
		os.Exit(1)
	}
}

func run(cache, results, only string) error {
	if err := corpora.Fetch(cache); err != nil {
		return err
	}
	z, ok := libzstd.New()
	if !ok {
		return fmt.Errorf("libzstd is needed: build with cgo")
	}
	var table rig.Table
	heads := []string{
		"corpus", "learned from", "measured", "bytes a value", "zstd-3", "its KB", "µs to compress", "to decompress",
		"model and rest", "model KB", "dictionary KB", "µs to compress", "to decompress", "**bytes / zstd's**", "**CPU / zstd's**",
	}
	table.Row(heads...)
	table.Rule(len(heads))
	for _, k := range kinds {
		if only != "" && !slices.Contains(strings.Split(only, ","), k.name) {
			continue
		}
		cells, err := measure(z, cache, k)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		fmt.Println(strings.Join(cells, "\t"))
		table.Row(cells...)
	}
	if only != "" {
		return nil
	}
	return rig.ReplacePart(filepath.Join(results, "json.md"), "gate", table.String())
}

// measure returns the cells of a corpus.
func measure(z codec.ZstdCoder, cache string, k kind) ([]string, error) {
	records, err := k.load(cache)
	if err != nil {
		return nil, err
	}
	sides := corpora.Split(k.name, records, 64, 64<<10)
	learn, held := corpora.Spread(sides.Learn, 2500, 5<<20), corpora.Spread(sides.Measure, 1000, 5<<20)
	zstd := func(d *codec.Dict) way {
		return way{
			compress: func(dst, v []byte) []byte {
				dst, err := z.Compress(dst, v, 3, d)
				if err != nil {
					panic(err) // a valid level
				}
				return dst
			},
			decompress: func(dst, sealed []byte, rawLen int) ([]byte, error) { return z.Decompress(dst, sealed, rawLen, d) },
			dict:       d,
		}
	}
	m := model.Train(learn)
	e := model.NewEncoder(m)
	var rests [][]byte
	for _, v := range learn {
		if _, rest := e.Split(nil, v); len(rest) > 0 {
			rests = append(rests, slices.Clone(rest))
		}
	}
	ours := func(d *codec.Dict) way {
		c := newCoder(m, z, d)
		return way{c.compress, c.decompress, d}
	}
	theirs, err := best(zstd, learn, held)
	if err != nil {
		return nil, err
	}
	own, err := best(ours, rests, held)
	if err != nil {
		return nil, err
	}
	raw := corpora.TotalBytes(held)
	cpu := cpuOf(held, theirs, own)
	per := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1e6/float64(len(held))) }
	times := func(n int) string { return fmt.Sprintf("%.2fx", float64(raw)/float64(n)) }
	kb := func(n int) string { return fmt.Sprint((n + 512) >> 10) }
	return []string{
		k.name, fmt.Sprint(len(learn)), fmt.Sprint(len(held)), fmt.Sprint(raw / len(held)),
		times(theirs.bytes), kb(theirs.dictBytes()), per(cpu[0]), per(cpu[1]),
		times(own.bytes), kb(m.Size()), kb(own.dictBytes()), per(cpu[2]), per(cpu[3]),
		fmt.Sprintf("**%.3f**", float64(own.bytes)/float64(theirs.bytes)), fmt.Sprintf("**%.2f**", float64(cpu[2]+cpu[3])/float64(cpu[0]+cpu[1])),
	}, nil
}

// way compresses and decompresses values.
type way struct {
	compress   func(dst, v []byte) []byte
	decompress func(dst, sealed []byte, rawLen int) ([]byte, error)
	dict       *codec.Dict
}

type measured struct {
	way
	sealed [][]byte
	bytes  int
}

func (m *measured) dictBytes() int {
	if m.dict == nil {
		return 0
	}
	return len(m.dict.Content())
}

// best returns the way with that dictionary, trained on samples, with which the values have the fewest bytes. It checks
// that the values come back.
func best(with func(*codec.Dict) way, samples, values [][]byte) (least *measured, err error) {
	dicts, err := dictionaries(samples)
	if err != nil {
		return nil, err
	}
	for _, d := range dicts {
		m := &measured{way: with(d)}
		for _, v := range values {
			s := m.compress(nil, v)
			if got, err := m.decompress(nil, s, len(v)); err != nil || string(got) != string(v) {
				return nil, fmt.Errorf("a document does not come back: %w", err)
			}
			m.sealed, m.bytes = append(m.sealed, s), m.bytes+len(s)
		}
		if least == nil || m.bytes < least.bytes {
			least = m
		}
	}
	return least, nil
}

// cpuOf returns the CPU time of compressing and decompressing all values, in turns in two ways: the least of many
// rounds, so that what else the machine does counts little.
func cpuOf(values [][]byte, ways ...*measured) (least [4]time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var buf []byte
	for round := range 100 {
		for i, w := range ways {
			for j, f := range []func(int){
				func(k int) { buf = w.compress(buf[:0], values[k]) },
				func(k int) { buf, _ = w.decompress(buf[:0], w.sealed[k], len(values[k])) },
			} {
				begin := threadTime()
				for k := range values {
					f(k)
				}
				if took := threadTime() - begin; round == 0 || took < least[2*i+j] {
					least[2*i+j] = took
				}
			}
		}
	}
	return least
}

// threadTime returns the CPU time of the thread.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // can't fail
	return time.Duration(t.Nano())
}

// dictionaries trains with zstd's own command, in the ways that bench/trainers compares and at smaller sizes. Without
// samples, or if no training succeeds, it returns only nil.
func dictionaries(samples [][]byte) (all []*codec.Dict, err error) {
	for _, way := range []string{"--train --maxdict=2048", "--train --maxdict=4096", "--train --maxdict=8192", "--train --maxdict=16384", "--train --maxdict=32768", "--train --maxdict=65536", "--train", "--train-cover=k=256,d=8"} {
		content, err := corpora.TrainZstd(samples, strings.Fields(way)...)
		if err != nil {
			continue // too few samples
		}
		d, err := codec.NewDict(content)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		all = append(all, nil)
	}
	return all, nil
}
