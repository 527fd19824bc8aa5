package clientformat

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/pierrec/lz4/v4"

	"github.com/cinch-layer/cinch/codec"
)

// files maps files with value.json, as libraries wrote it, to formats; see testdata/README.md.
var files = map[string]Format{
	"glide-zstd": GlideZstd, "glide-lz4": GlideLZ4, "zlib": Zlib, "gzip": Gzip, "zstd": Zstd, "lz4": LZ4,
	"phpredis-lz4": PHPRedisLZ4, "phpredis-zstd": Zstd, "lzf": LZF,
	"redisson-lz4": RedissonLZ4, "redisson-lz4v2": RedissonLZ4, "redisson-zstd": RedissonZstd, "snappy": Snappy,
	"lettuce-gzip": Gzip, "lettuce-zlib": Zlib, "deflate": Deflate, "xz": XZ,
}

// folders lists directories of testdata. Each has a file "content", and files named by a format, in which a library
// has stored that content.
var folders = []string{"igbinary", "kryo5", "rails-7.0", "rails-7.0-object", "rails-7.1", "rails-7.1-object"}

type vector struct {
	f               Format
	stored, content []byte
}

func vectors(t testing.TB) map[string]vector {
	t.Helper()
	all := map[string]vector{}
	content := read(t, "value.json")
	for name, f := range files {
		all[name] = vector{f, read(t, name+".bin"), content}
	}
	for _, folder := range folders {
		content := read(t, folder+"/content")
		in, err := os.ReadDir(filepath.Join("testdata", folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range in {
			if f, err := Parse(file.Name()); err == nil {
				all[folder+"/"+file.Name()] = vector{f, read(t, folder+"/"+file.Name()), content}
			}
		}
	}
	if len(all) != len(files)+10 {
		t.Fatalf("%d vectors", len(all))
	}
	return all
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestVectorsOpen(t *testing.T) {
	for name, v := range vectors(t) {
		got, err := Open([]byte("before "), v.f, v.stored, len(v.content))
		if err != nil || string(got) != "before "+string(v.content) {
			t.Errorf("%s: %v, %d bytes", name, err, len(got))
		}
		if _, err := Open(nil, v.f, v.stored, len(v.content)-1); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v with a limit one byte too low", name, err)
		}
	}
}

// phpredis-lz4's header has a checksum of the length. The samples are named by their lengths.
func TestPHPRedisLZ4OfManyLengths(t *testing.T) {
	value := read(t, "value.json")
	in, err := os.ReadDir("testdata/phpredis-lz4")
	if err != nil || len(in) != 10 {
		t.Fatal(len(in), err)
	}
	for _, file := range in {
		n, err := strconv.Atoi(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		stored, want := read(t, "phpredis-lz4/"+file.Name()), bytes.Repeat(value, n/len(value)+1)[:n]
		if got, f, err := OpenAny(nil, families["phpredis"], stored, n); f != PHPRedisLZ4 || err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %v, %v, %d bytes", n, f, err, len(got))
		}
		ours, err := Append(nil, PHPRedisLZ4, 0, want, codec.New(codec.Options{}))
		if err != nil || !bytes.Equal(ours[:phpHeader], stored[:phpHeader]) {
			t.Errorf("%d bytes: our header is %x, %v", n, ours[:phpHeader], err)
		}
	}
}

func TestVectorsAreRecognised(t *testing.T) {
	for name, v := range vectors(t) {
		got, ok := Recognise(v.stored)
		if want := v.f; want.HasHeader() && (got != want || !ok) || !want.HasHeader() && ok {
			t.Errorf("%s is taken for %v", name, got)
		}
	}
	for _, plain := range []string{"", "x", `{"id":1}`, "\x00\x01\x02\x00\x03 of nobody", "x\x9d no zlib", "\x00\x11\x81", "\x01x"} {
		if f, ok := Recognise([]byte(plain)); ok {
			t.Errorf("%q is taken for %v", plain, f)
		}
	}
}

// A value that is cut off anywhere, or followed by bytes, does not open. LZF has no end of its own, so only
// the length shows it.
func TestDamagedVectors(t *testing.T) {
	for name, v := range vectors(t) {
		for n := range v.stored {
			got, err := Open(nil, v.f, v.stored[:n], len(v.content))
			if err == nil && (v.f != LZF || len(got) >= len(v.content)) {
				t.Errorf("%s: opens when it is cut after %d of %d bytes", name, n, len(v.stored))
			}
		}
		if _, err := Open(nil, v.f, append(bytes.Clone(v.stored), 0), len(v.content)); err == nil {
			t.Errorf("%s: opens with a byte behind it", name)
		}
	}
}

// bombs returns short values that open to many bytes.
func bombs(t *testing.T) map[string]bomb {
	all := map[string]bomb{
		"a claim": {GlideLZ4, append(binary.LittleEndian.AppendUint32([]byte{0, 1, 2, 0, 2}, 1<<31), 0)},
		"lzf":     {LZF, append([]byte{0, 0}, bytes.Repeat([]byte{0xe0, 255, 0}, 1000)...)},
	}
	var b bytes.Buffer
	w := lz4.NewWriter(&b)
	w.Apply(lz4.BlockSizeOption(lz4.Block4Mb), lz4.ConcurrencyOption(1))
	w.Write(make([]byte, 16<<20))
	w.Close()
	all["lz4 in blocks of 4 MiB"] = bomb{LZ4, b.Bytes()}
	for f := GlideZstd; f <= lastFormat; f++ {
		for name, e := range enginesOf(f) {
			stored, err := Append(nil, f, 3, contentOf(f, make([]byte, 16<<20-1)), e) // zeros are quick for xz too
			if err != nil {
				t.Fatal(err)
			}
			all[name+" "+f.String()] = bomb{f, stored}
		}
	}
	return all
}

type bomb struct {
	f      Format
	stored []byte
}

// A reader of LZ4 frames allocates two of their blocks, of 4 MiB at most. No other reader allocates as much.
func TestBombsAreRefused(t *testing.T) {
	for name, c := range bombs(t) {
		took := allocated(func() {
			if _, err := Open(nil, c.f, c.stored, 64<<10); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: %v", name, err)
			}
		})
		if took > 9<<20 {
			t.Errorf("%s: took %d KiB", name, took>>10)
		}
	}
}

// Envelopes contain these numbers.
func TestNumbersAreFrozen(t *testing.T) {
	want := []string{
		1: "glide-zstd", 2: "glide-lz4", 3: "zlib", 4: "gzip", 5: "zstd", 6: "lz4", 7: "phpredis-lz4", 8: "lzf",
		9: "redisson-lz4", 10: "redisson-zstd", 11: "snappy", 12: "rails-7.0", 13: "rails-7.1", 14: "deflate", 15: "xz",
	}
	for n, name := range want {
		if n > 0 && Format(n).String() != name {
			t.Errorf("%d is %v, not %s", n, Format(n), name)
		}
	}
	if len(names) != len(want) {
		t.Errorf("%d names", len(names))
	}
}

func TestNamesParse(t *testing.T) {
	for f := GlideZstd; f <= lastFormat; f++ {
		if got, err := Parse(f.String()); got != f || err != nil {
			t.Errorf("%v parses as %v: %v", f, got, err)
		}
	}
	for _, name := range []string{"", "foreign format 0", "igbinary"} {
		if _, err := Parse(name); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Content that Open has returned can be appended in the same format again, since a gateway has to return such a value
// to its clients.
func FuzzOpen(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(uint8(v.f), v.stored)
	}
	e := codec.New(codec.Options{})
	f.Fuzz(func(t *testing.T, format uint8, stored []byte) {
		const most = 64 << 10
		for _, formats := range families {
			OpenAny(nil, formats, stored, most)
		}
		out, err := Open(nil, Format(format), stored, most)
		if len(out) > most || err != nil && out != nil {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
		if err != nil {
			return
		}
		again, err := Append(nil, Format(format), 0, out, e)
		if err != nil {
			t.Fatalf("%q is not made again: %v", out, err)
		}
		if got, err := Open(nil, Format(format), again, most); err != nil || !bytes.Equal(got, out) {
			t.Fatalf("%q becomes %q, %v", out, got, err)
		}
	})
}

// A short frame that declares blocks of 4 MiB, as most tools do, opens without allocating that much.
func TestLZ4FramesTakeLittle(t *testing.T) {
	want := []byte("a short value, a short value, a short value")
	var b bytes.Buffer
	w := lz4.NewWriter(&b)
	if err := w.Apply(lz4.BlockSizeOption(lz4.Block4Mb)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(want); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	stored := bytes.Clone(b.Bytes())
	cut := stored[:len(stored)-5]
	const runs = 100
	took := allocated(func() {
		for range runs {
			if got, err := Open(nil, LZ4, stored, 1<<20); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%q, %v", got, err)
			}
			if _, err := Open(nil, LZ4, cut, 1<<20); err == nil {
				t.Fatal("opens when it is cut")
			}
		}
	})
	if took > runs*512<<10 {
		t.Errorf("%d bytes are allocated each time", took/runs)
	}
}
