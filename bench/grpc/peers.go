package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/s2"
	_ "github.com/mostynb/go-grpc-compression/lz4"
	_ "github.com/mostynb/go-grpc-compression/zstd"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/codec/libzstd"
)

// contender is one row of the table. Contenders are measured through grpc-go's own steps, except those with
// whole, which are measured as the gateway uses them.
type contender struct {
	name       string
	compressor encoding.Compressor
	whole      *wholeMessages
}

// wholeMessages compresses and decompresses whole messages by appending.
type wholeMessages struct {
	set  *grpccodec.Set
	name string
}

const reference = "S2 (Mimir)"

func contenders() ([]contender, error) {
	all := []contender{
		{name: reference, compressor: newMimirS2()},
		{name: "gzip (grpc-go)", compressor: encoding.GetCompressor("gzip")},
		{name: "snappy (dskit)", compressor: newDskitSnappy()},
		{name: "lz4 (go-grpc-compression)", compressor: encoding.GetCompressor("lz4")},
		{name: "zstd (go-grpc-compression)", compressor: encoding.GetCompressor("zstd")},
	}
	set := grpccodec.NewSet(grpccodec.Options{})
	for _, name := range []string{"snappy", "s2", "minlz", "minlz-2", "lz4", "zstd", "zstd-3", "gzip", "gzip-1"} {
		c, err := set.Compressor(name)
		if err != nil {
			return nil, err
		}
		all = append(all, contender{name: "cinch " + name, compressor: c})
	}
	if lib, ok := libzstd.New(); ok {
		set := grpccodec.NewSet(grpccodec.Options{Zstd: lib})
		for _, level := range []string{"zstd-1", "zstd-2", "zstd-3"} {
			all = append(all, contender{name: "cinch " + level + ", libzstd", whole: &wholeMessages{set, level}})
		}
	}
	return all, nil
}

func matching(all []contender, pattern string) ([]contender, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	var out []contender
	for _, c := range all {
		if re.MatchString(c.name) || c.name == reference {
			out = append(out, c)
		}
	}
	return out, nil
}

func named(name string) (contender, error) {
	all, err := contenders()
	for _, c := range all {
		if c.name == name {
			return c, nil
		}
	}
	return contender{}, errors.Join(err, fmt.Errorf("unknown contender %q", name))
}

// pooled does what dskit's snappy and Mimir's s2 do: it has a sync.Pool of writers that are returned on
// Close, and one of readers that are returned at EOF.
type pooled struct {
	name      string
	newWriter func() resetWriter
	newReader func() resetReader
	writers   sync.Pool
	readers   sync.Pool
}

type resetWriter interface {
	io.WriteCloser
	Reset(io.Writer)
}

type resetReader interface {
	io.Reader
	Reset(io.Reader)
}

// newDskitSnappy returns golang/snappy's framing format in blocks of 64 KiB.
func newDskitSnappy() *pooled {
	return &pooled{
		name:      "snappy",
		newWriter: func() resetWriter { return snappy.NewBufferedWriter(nil) },
		newReader: func() resetReader { return snappy.NewReader(nil) },
	}
}

// newMimirS2 returns s2 with its default blocks of 1 MB, without concurrency.
func newMimirS2() *pooled {
	return &pooled{
		name:      "s2",
		newWriter: func() resetWriter { return s2.NewWriter(nil, s2.WriterConcurrency(1)) },
		newReader: func() resetReader { return s2.NewReader(nil) },
	}
}

func (p *pooled) Name() string { return p.name }

type pooledWriter struct {
	resetWriter
	pool *sync.Pool
}

func (w *pooledWriter) Close() error {
	err := w.resetWriter.Close()
	w.pool.Put(w)
	return err
}

func (p *pooled) Compress(to io.Writer) (io.WriteCloser, error) {
	w, ok := p.writers.Get().(*pooledWriter)
	if !ok {
		w = &pooledWriter{p.newWriter(), &p.writers}
	}
	w.Reset(to)
	return w, nil
}

type pooledReader struct {
	resetReader
	pool *sync.Pool
}

func (r *pooledReader) Read(b []byte) (int, error) {
	n, err := r.resetReader.Read(b)
	if err == io.EOF {
		r.pool.Put(r)
	}
	return n, err
}

func (p *pooled) Decompress(from io.Reader) (io.Reader, error) {
	r, ok := p.readers.Get().(*pooledReader)
	if !ok {
		r = &pooledReader{p.newReader(), &p.readers}
	}
	r.Reset(from)
	return r, nil
}
