package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

// The stream simulates an application that writes every document once, under a new key. When a dictionary has
// been in use for a while, all documents change their shape. Every document is measured, whichever dictionary
// compressed it, and a dictionary learned only from documents written before it existed.

type streamOptions struct {
	each int // documents of a generation that come after its dictionary
	rate int // documents a second
}

// streamTraining makes polls and trainings faster than by default, since minutes here stand for hours of an
// application. Everything else is the default.
const streamTraining = "training: {poll: 5s, interval: 30s}"

// window is the number of documents per line of the results.
const window = 10_000

type windowResult struct {
	generation, at int // at: the first document
	raw            int64
	plain, auto    holding
}

// streamer writes and measures both generations.
type streamer struct {
	*options
	words       *vocabulary
	auto, plain *site
	written     [2]int // documents of each generation
}

func (o *options) measureStream() error {
	words, err := loadVocabulary(o.cache)
	if err != nil {
		return err
	}
	s := &streamer{options: o, words: words}
	if s.auto, err = o.site(streamTraining, ruleAuto); err != nil {
		return err
	}
	defer s.auto.stop()
	if s.plain, err = o.site("", rulePlain); err != nil {
		return err
	}
	defer s.plain.stop()
	for generation := range 2 {
		if err := s.write(generation); err != nil {
			return err
		}
	}
	fmt.Print(s.auto.gateway.Output())
	dicts, err := s.auto.dictionaries()
	if err != nil {
		return err
	}
	var results []windowResult
	for generation := range 2 {
		for at := 0; at < s.written[generation]; at += window {
			w, err := s.measure(generation, at)
			if err != nil {
				return err
			}
			results = append(results, w)
			most := w.mostUsed()
			o.rows = append(o.rows, csvRow("stream", fmt.Sprintf("%d/%06d", generation+1, at), w.raw, w.plain, w.auto, most, dicts[most]))
			fmt.Printf("%d/%06d raw %d zstd %d auto %d %.3f %v\n", generation+1, at, w.raw, w.plain.stored, w.auto.stored, w.share(), w.dictionaries())
		}
	}
	return o.report("stream", o.streamTable(results, dicts))
}

func prefix(generation int) string { return strconv.Itoa(generation) }

// mostBefore limits the documents that are written before a dictionary exists.
const mostBefore = 2_000_000

// write sends the documents of a generation to both gateways, no faster than the rate, until its dictionary
// exists, and then the documents that measure the dictionary.
func (s *streamer) write(generation int) error {
	began, end := time.Now(), mostBefore
	for at := 0; at < end; at += page {
		if end == mostBefore && strings.Count(s.auto.gateway.Output(), "dictionary rolled out") > generation {
			end = (at/window + 1 + s.stream.each/window) * window
		}
		docs := s.documents(generation, at, page)
		for _, to := range []*site{s.auto, s.plain} {
			if err := to.set(prefix(generation), at, docs); err != nil {
				return err
			}
		}
		due := time.Duration(at+page) * time.Second / time.Duration(s.stream.rate)
		time.Sleep(due - time.Since(began))
		s.written[generation] = at + page
	}
	return nil
}

func (s *streamer) documents(generation, from, n int) [][]byte {
	var all [][]byte
	for i := range n {
		all = append(all, s.words.document(generation, from+i))
	}
	return all
}

// measure reads a window back through the gateway and asks both servers for its size.
func (s *streamer) measure(generation, at int) (w windowResult, err error) {
	docs := s.documents(generation, at, window)
	w = windowResult{generation: generation, at: at, raw: total(docs)}
	if err = s.auto.check(prefix(generation), at, docs); err != nil {
		return w, err
	}
	if w.auto, err = s.auto.holding(prefix(generation), at, len(docs)); err != nil {
		return w, err
	}
	w.plain, err = s.plain.holding(prefix(generation), at, len(docs))
	return w, err
}

func (w windowResult) share() float64 { return share(w.auto.stored, w.plain.stored) }

// mostUsed returns the dictionary that most values use, 0 for none.
func (w windowResult) mostUsed() (number uint32) {
	for _, n := range slices.Sorted(maps.Keys(w.auto.byDict)) {
		if w.auto.byDict[n] > w.auto.byDict[number] {
			number = n
		}
	}
	return number
}

func (w windowResult) dictionaries() string {
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(w.auto.byDict)) {
		name := "none"
		if n != 0 {
			name = fmt.Sprintf("%08x", n)
		}
		parts = append(parts, fmt.Sprintf("%s: %d", name, w.auto.byDict[n]))
	}
	return strings.Join(parts, ", ")
}

// streamTable merges consecutive windows that use the same dictionary into one row each.
func (o *options) streamTable(results []windowResult, dicts map[uint32]int) string {
	var b rig.Table
	b.Row("shape", "documents", "bytes a value", "zstd", "auto", "**auto / zstd**", "keys' memory", "values by dictionary")
	b.Rule(8)
	for _, group := range slices.Collect(groups(results)) {
		sum := windowResult{auto: holding{byDict: map[uint32]int{}}}
		for _, w := range group {
			sum.add(w)
		}
		first, last := group[0], group[len(group)-1]
		b.Row([]string{"first", "second"}[first.generation], fmt.Sprintf("%d to %d", first.at, last.at+last.auto.values), strconv.FormatInt(sum.raw/int64(sum.auto.values), 10),
			times(sum.raw, sum.plain.stored), times(sum.raw, sum.auto.stored), fmt.Sprintf("**%.3f**", sum.share()), fmt.Sprintf("%.3f", share(sum.auto.keys, sum.plain.keys)), sum.dictionaries())
	}
	b.WriteString("\nDictionaries: ")
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(dicts)) {
		parts = append(parts, fmt.Sprintf("%08x of %d bytes", n, dicts[n]))
	}
	b.WriteString(strings.Join(parts, ", ") + ".\n")
	return b.String()
}

func (w *windowResult) add(other windowResult) {
	w.raw += other.raw
	w.plain.stored, w.plain.keys = w.plain.stored+other.plain.stored, w.plain.keys+other.plain.keys
	w.auto.stored, w.auto.keys, w.auto.values = w.auto.stored+other.auto.stored, w.auto.keys+other.auto.keys, w.auto.values+other.auto.values
	for n, values := range other.auto.byDict {
		w.auto.byDict[n] += values
	}
}

// groups yields runs of windows of one shape whose values use the same dictionary, except for up to 1 % that
// it does not help.
func groups(results []windowResult) func(yield func([]windowResult) bool) {
	kind := func(w windowResult) string {
		most := w.mostUsed()
		return fmt.Sprint(w.generation, most, w.auto.byDict[most] > w.auto.values*99/100)
	}
	return func(yield func([]windowResult) bool) {
		for from := 0; from < len(results); {
			to := from + 1
			for to < len(results) && kind(results[to]) == kind(results[from]) {
				to++
			}
			if !yield(results[from:to]) {
				return
			}
			from = to
		}
	}
}
