package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/bench/corpora"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/test/rig"
)

// The parts of the results file. Each is a table with one line per corpus, which begins with its name.
const (
	idlePart    = "idle"
	busyPart    = "busy"
	privatePart = "private"
	storePart   = "store"
	packPart    = "pack"
)

// results is one table of the file. Lines of corpora that are not measured stay.
type results struct {
	path, part string
	heads      []string
	lines      map[string][]string // cells by corpus
}

func (o *options) newTable() (*results, error) {
	t := &results{path: filepath.Join(o.results, "corpora.md"), part: o.part(), heads: o.heads()}
	var err error
	t.lines, err = readPart(t.path, t.part, len(t.heads))
	return t, err
}

func (o *options) part() string {
	switch {
	case o.private:
		return privatePart
	case o.busy > 0:
		return busyPart
	case o.store:
		return storePart
	case o.pack:
		return packPart
	}
	return idlePart
}

const handAt = 6 // the first column of manual dictionaries, after that of zstd-3

func (o *options) heads() []string {
	switch o.part() {
	case privatePart:
		return []string{"corpus", "best by hand", "the same, by the rule", "auto", "**auto / best by hand, by the rule**"}
	case storePart:
		return storeHeads
	case packPart:
		return packHeads
	case busyPart:
		return []string{"corpus", "auto", "its dictionary KB", "seconds", "of CPU", "**auto / best by hand**"}
	}
	heads := []string{"corpus", "what, by which source", "learned from", "measured", "bytes a value", "zstd-3"}
	for _, h := range byHand {
		heads = append(heads, h.name)
	}
	return append(heads, "auto, first", "KB", "CPU, s", "auto", "KB", "CPU, s", "**auto / best by hand**")
}

// readPart reads the lines of a table that have the given number of cells, by corpus.
func readPart(path, part string, cells int) (map[string][]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(text), "<!-- begin "+part+" -->")
	rest, _, _ = strings.Cut(rest, "<!-- end "+part+" -->")
	lines := map[string][]string{}
	for line := range strings.Lines(rest) {
		line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "| "), " |")
		if c := strings.Split(line, " | "); len(c) == cells {
			lines[c[0]] = c
		}
	}
	return lines, nil
}

func (t *results) write(kinds []kind) error {
	var text rig.Table
	text.Row(t.heads...)
	text.Rule(len(t.heads))
	for i := range kinds {
		if cells := t.lines[kinds[i].name]; cells != nil {
			text.Row(cells...)
		}
	}
	return rig.ReplacePart(t.path, t.part, text.String())
}

// measure fills the line of a corpus.
func (o *options) measure(t *results, c *corpus) error {
	raw, plain, err := sealedBytes(nil, 0, c.measure)
	if err != nil {
		return err
	}
	times := func(n int) string { return fmt.Sprintf("%.2fx", float64(raw)/float64(n)) }
	hand, best, err := o.hand(c, raw, plain)
	if err != nil {
		return err
	}
	byRule := 0
	if o.private {
		if byRule, err = o.privateBest(c, plain); err != nil {
			return err
		}
	}
	begin := time.Now()
	chosen, err := auto(c, manyTimes)
	seconds := fmt.Sprintf("%.1f", time.Since(begin).Seconds())
	if err != nil {
		return err
	}
	n, err := chosen.bytes(c, plain)
	if err != nil {
		return err
	}
	share := fmt.Sprintf("**%.3f**", float64(n)/(float64(raw)/best))
	var cells []string
	switch t.part {
	case privatePart:
		cells = []string{c.name, fmt.Sprintf("%.2fx", best), times(byRule), times(n), fmt.Sprintf("**%.3f**", float64(n)/float64(byRule))}
	case busyPart:
		cells = []string{c.name, times(n), chosen.kb(), seconds, chosen.seconds(), share}
	case idlePart:
		soon, err := first(c)
		if err != nil {
			return err
		}
		early, err := soon.bytes(c, plain)
		if err != nil {
			return err
		}
		cells = slices.Concat([]string{
			c.name, c.about, strconv.Itoa(len(c.learn)), strconv.Itoa(len(c.measure)), strconv.Itoa(raw / len(c.measure)), times(plain),
		}, hand, []string{times(early), soon.kb(), soon.seconds(), times(n), chosen.kb(), chosen.seconds(), share})
	}
	fmt.Println(strings.Join(cells, "\t"))
	t.lines[c.name] = cells
	return nil
}

// hand returns the cells of the five manual dictionaries for a corpus, and the best ratio among them and no
// dictionary. If only other columns are measured, it returns the values in the first table.
func (o *options) hand(c *corpus, raw, plain int) (cells []string, best float64, err error) {
	if o.auto || o.part() != idlePart {
		return o.handBefore(c)
	}
	best = float64(raw) / float64(plain)
	trained, err := trainByHand(c)
	if err != nil {
		return nil, 0, err
	}
	for _, d := range trained {
		if d == nil {
			cells = append(cells, "none")
			continue
		}
		_, n, err := sealedBytes(d, 0, c.measure)
		if err != nil {
			return nil, 0, err
		}
		got := float64(raw) / float64(n)
		cells, best = append(cells, fmt.Sprintf("%.2fx", got)), max(best, got)
	}
	return cells, best, nil
}

func (o *options) handBefore(c *corpus) (cells []string, best float64, err error) {
	first := options{results: o.results}
	lines, err := readPart(filepath.Join(o.results, "corpora.md"), idlePart, len(first.heads()))
	if err != nil || lines[c.name] == nil {
		return nil, 0, fmt.Errorf("the first table has no line for it: %w", err)
	}
	cells = lines[c.name][handAt : handAt+len(byHand)]
	for _, cell := range lines[c.name][handAt-1 : handAt+len(byHand)] {
		if got, err := strconv.ParseFloat(strings.TrimSuffix(cell, "x"), 64); err == nil {
			best = max(best, got)
		}
	}
	return cells, best, nil
}

// bytes returns the size of the measured values with the dictionary.
func (t *trained) bytes(c *corpus, plain int) (n int, err error) {
	if t.dict == nil {
		return plain, nil
	}
	_, n, err = sealedBytes(t.dict, t.level, c.measure)
	return n, err
}

// kb returns the dictionary's size in KiB, 0 for none.
func (t *trained) kb() string {
	if t.dict == nil {
		return "0"
	}
	return strconv.Itoa((len(t.dict.Content()) + 512) >> 10)
}

func (t *trained) seconds() string { return fmt.Sprintf("%.2f", t.cpu.Seconds()) }

// privateBest returns the least size that manual training achieves under the rule for automatic dictionaries:
// no string that fewer than three samples have. Such strings can be removed from the samples before training,
// or from the dictionary.
func (o *options) privateBest(c *corpus, plain int) (least int, err error) {
	least = plain
	cut := redacted(c.learn)
	for way := range byHand {
		whole, err := corpora.TrainZstd(c.learn, byHand[way].args...)
		if err != nil {
			return 0, err
		}
		for _, train := range []func([][]byte, int) ([]byte, error){
			func([][]byte, int) ([]byte, error) { return whole, nil },
			func([][]byte, int) ([]byte, error) { return corpora.TrainZstd(cut, byHand[way].args...) },
		} {
			d, err := dict.Train(c.learn, dict.TrainOptions{Size: codec.MaxDictLen, Algorithm: dict.External, External: train})
			n := plain
			if err == nil {
				_, n, err = sealedBytes(d, 0, c.measure)
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s, %s: %v\n", c.name, byHand[way].name, err)
				continue
			}
			least = min(least, n)
		}
	}
	return least, nil
}

// The limits of the rule for automatic dictionaries.
const (
	ruleBytes   = 8
	ruleSamples = 3
)

// redacted returns the samples without strings that few samples have.
func redacted(samples [][]byte) (all [][]byte) {
	last, count := map[string]int{}, map[string]int{} // by string: its last sample, from 1; its samples
	for i, s := range samples {
		for at := 0; at+ruleBytes <= len(s); at++ {
			if text := string(s[at : at+ruleBytes]); last[text] != i+1 {
				last[text], count[text] = i+1, count[text]+1
			}
		}
	}
	for _, s := range samples {
		var kept []byte
		until := 0
		for at := 0; at+ruleBytes <= len(s); at++ {
			if count[string(s[at:at+ruleBytes])] >= ruleSamples {
				kept = append(kept, s[max(at, until):at+ruleBytes]...)
				until = at + ruleBytes
			}
		}
		if len(kept) > 0 {
			all = append(all, kept)
		}
	}
	return all
}
