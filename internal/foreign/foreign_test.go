package foreign

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/pierrec/lz4/v4"
)

// vectors are what libraries wrote, by file: testdata/README.md says which.
var vectors = map[string]Format{
	"glide-zstd": GlideZstd, "glide-lz4": GlideLZ4, "zlib": Zlib, "gzip": Gzip, "zstd": Zstd, "lz4": LZ4,
	"phpredis-lz4": PHPRedisLZ4, "phpredis-zstd": Zstd, "lzf": LZF,
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
	want := read(t, "value.json")
	for name, f := range vectors {
		stored := read(t, name+".bin")
		got, err := Open([]byte("before "), f, stored, len(want))
		if err != nil || string(got) != "before "+string(want) {
			t.Errorf("%s: %v, %d bytes", name, err, len(got))
		}
		if _, err := Open(nil, f, stored, len(want)-1); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v with a limit one byte too low", name, err)
		}
	}
}

func TestVectorsAreRecognised(t *testing.T) {
	for name, f := range vectors {
		got, ok := Recognise(read(t, name+".bin"))
		if f == LZF {
			f = 0 // has no header
		}
		if got != f || ok != (f != 0) {
			t.Errorf("%s is taken for %v", name, got)
		}
	}
	for _, plain := range []string{"", "x", `{"id":1}`, "\x00\x01\x02\x00\x03 of nobody", "x\x9d no zlib"} {
		if f, ok := Recognise([]byte(plain)); ok {
			t.Errorf("%q is taken for %v", plain, f)
		}
	}
}

// What is cut off anywhere, or has bytes behind it, is no value. LZF's has no end of its own, so only its length tells.
func TestDamagedVectors(t *testing.T) {
	want := read(t, "value.json")
	for name, f := range vectors {
		stored := read(t, name+".bin")
		for n := range stored {
			got, err := Open(nil, f, stored[:n], len(want))
			if err == nil && (f != LZF || len(got) >= len(want)) {
				t.Errorf("%s: opens when it is cut after %d of %d bytes", name, n, len(stored))
			}
		}
		if _, err := Open(nil, f, append(bytes.Clone(stored), 0), len(want)); err == nil {
			t.Errorf("%s: opens with a byte behind it", name)
		}
	}
}

// bombs are short and open to a lot.
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
	for name, e := range engines() {
		for _, f := range []Format{GlideZstd, Zlib, Gzip, Zstd, LZ4, GlideLZ4, PHPRedisLZ4} {
			stored, err := Append(nil, f, 3, make([]byte, 16<<20), e)
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

// A reader of LZ4 frames takes two of their blocks, which are of 4 MiB at most. Nothing else takes as much.
func TestBombsAreRefused(t *testing.T) {
	for name, c := range bombs(t) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(nil, c.f, c.stored, 64<<10)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 9<<20 {
			t.Errorf("%s: took %d KiB", name, took>>10)
		}
	}
}

func TestNamesParse(t *testing.T) {
	for f := GlideZstd; f <= LZF; f++ {
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

func FuzzOpen(f *testing.F) {
	for name, format := range vectors {
		f.Add(uint8(format), read(f, name+".bin"))
	}
	f.Fuzz(func(t *testing.T, format uint8, stored []byte) {
		const most = 64 << 10
		Recognise(stored)
		out, err := Open(nil, Format(format), stored, most)
		if len(out) > most || err != nil && out != nil {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
	})
}
