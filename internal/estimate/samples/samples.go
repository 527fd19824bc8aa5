// Package samples reads example values from files, for training dictionaries. A directory yields every
// regular file below it, a .jsonl or .ndjson file every line that isn't empty, any other file itself.
package samples

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
)

// Limits on what is read, in bytes and numbers: a trainer holds all samples in memory.
const (
	MaxSampleBytes = 8 << 20
	MaxTotalBytes  = 512 << 20
	MaxSamples     = 1 << 20
)

// Load reads the samples at paths, in the order given. Empty files, and files and lines over MaxSampleBytes, are
// skipped and counted; reading stops with an error when the totals pass the limits. No samples at all is an error.
func Load(paths []string) (all [][]byte, skipped int, err error) {
	l := loader{lineReader: bufio.NewReaderSize(nil, MaxSampleBytes+1)} // a line and its end
	for _, p := range paths {
		if err := l.path(p); err != nil {
			return nil, l.skipped, err
		}
	}
	if len(l.all) == 0 {
		return nil, l.skipped, fmt.Errorf("no samples in %s", strings.Join(paths, ", "))
	}
	return l.all, l.skipped, nil
}

type loader struct {
	all        [][]byte
	bytes      int
	skipped    int
	lineReader *bufio.Reader
}

func (l *loader) path(p string) error {
	info, err := os.Stat(p)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return l.file(p)
	}
	return filepath.WalkDir(p, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		return l.file(name)
	})
}

func (l *loader) file(name string) error {
	switch filepath.Ext(name) {
	case ".jsonl", ".ndjson":
		return l.lines(name)
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.Size() == 0 || info.Size() > MaxSampleBytes {
		l.skipped++
		return nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return l.add(b)
}

func (l *loader) lines(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	r := l.lineReader
	r.Reset(f)
	for {
		line, tooLong, err := r.ReadLine()
		if tooLong {
			l.skipped++
			for tooLong && err == nil {
				_, tooLong, err = r.ReadLine()
			}
			line = nil
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := l.add(bytes.Clone(line)); err != nil {
			return err
		}
	}
}

func (l *loader) add(sample []byte) error {
	l.all, l.bytes = append(l.all, sample), l.bytes+len(sample)
	if len(l.all) > MaxSamples || l.bytes > MaxTotalBytes {
		return fmt.Errorf("more than %d samples or %d MiB: give a part of them", MaxSamples, MaxTotalBytes>>20)
	}
	return nil
}

// Shuffle reorders samples, in the same way for the same number of them, so that results are reproducible.
// Without it, a trainer that holds out every nth sample would be misled by samples that alternate, or by
// similar neighbours.
func Shuffle(samples [][]byte) {
	r := rand.New(rand.NewPCG(0x63696e63, uint64(len(samples))))
	r.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
}

// Bytes returns the samples' total length.
func Bytes(samples [][]byte) int {
	n := 0
	for _, s := range samples {
		n += len(s)
	}
	return n
}

// Stored returns the size of the values compressed with a setting and a dictionary, or uncompressed where
// that is smaller. Without a dictionary d is nil.
func Stored(engine *codec.Engine, st codec.Setting, d *codec.Dict, values [][]byte) int {
	var local dict.Set
	if d != nil {
		_ = local.Add(d) // a single dictionary can't collide
		st.Dict = d.Number()
	}
	s, n := envelope.NewSealer(envelope.SealerOptions{Engine: engine, Dicts: store.MemoryDicts(&local)}), 0
	var buf []byte
	for _, v := range values {
		buf = s.Seal(buf[:0], v, st, nil)
		n += len(buf)
	}
	return n
}
