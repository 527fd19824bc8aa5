package codec

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Content can be read up to its current end with other libraries, and ends where they expect its end.
func TestContentWriter(t *testing.T) {
	e := New(Options{})
	for setting, open := range map[string]func(io.Reader) (io.Reader, error){
		"zstd-3": func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r, zstd.WithDecoderMaxWindow(8<<20)) },
		"gzip-6": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		"gzip":   func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		"zstd":   func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) },
	} {
		for _, pieces := range [][]string{nil, {""}, {"a"}, {strings.Repeat("hello ", 1000), "and", strings.Repeat("hello ", 100_000)}} {
			checkContent(t, e, setting, pieces, open)
		}
	}
}

func checkContent(t *testing.T, e *Engine, setting string, pieces []string, open func(io.Reader) (io.Reader, error)) {
	t.Helper()
	s, err := ParseSetting(setting)
	if err != nil {
		t.Fatal(err)
	}
	w, err := e.ContentWriter(s)
	if err != nil {
		t.Fatal(setting, err)
	}
	defer w.Close()
	var out []byte
	for _, p := range pieces {
		if out, err = w.Append(out, []byte(p)); err != nil {
			t.Fatal(setting, err)
		}
		mayBeCut(t, setting, out, p, open)
	}
	if out, err = w.End(out); err != nil {
		t.Fatal(setting, err)
	}
	r, err := open(bytes.NewReader(out))
	if err != nil {
		t.Fatal(setting, err)
	}
	if back, err := io.ReadAll(r); err != nil || string(back) != strings.Join(pieces, "") {
		t.Errorf("%s: %d bytes of %d, %v", setting, len(back), len(strings.Join(pieces, "")), err)
	}
}

// mayBeCut checks that the output can be read up to its last piece, although the content continues.
func mayBeCut(t *testing.T, setting string, out []byte, last string, open func(io.Reader) (io.Reader, error)) {
	t.Helper()
	if last == "" {
		return
	}
	r, err := open(bytes.NewReader(out))
	if err != nil {
		t.Fatal(setting, err)
	}
	back, err := io.ReadAll(r)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasSuffix(string(back), last) {
		t.Errorf("%s: %d bytes, %v", setting, len(back), err)
	}
}

func TestContentWriterRefuses(t *testing.T) {
	if _, err := New(Options{}).ContentWriter(Setting{Codec: LZ4}); !errors.Is(err, ErrSetting) {
		t.Error(err)
	}
}
