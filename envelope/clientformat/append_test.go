package clientformat

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	native "github.com/cinch-layer/cinch/codec/libzstd"
)

const lastFormat = XZ

// engines returns engines by the name of their zstd: pure Go, and libzstd with cgo.
func engines() map[string]*codec.Engine {
	all := map[string]*codec.Engine{"go": codec.New(codec.Options{})}
	if z, ok := native.New(); ok {
		all[z.Name()] = codec.New(codec.Options{Zstd: z})
	}
	return all
}

// enginesOf returns the engines that matter for a format: libzstd only for those with zstd.
func enginesOf(f Format) map[string]*codec.Engine {
	all := engines()
	if f != Zstd && f != GlideZstd && f != RedissonZstd {
		delete(all, libzstd)
	}
	return all
}

// contents returns contents of lengths at and around the formats' boundaries.
func contents(t testing.TB) map[string][]byte {
	all := map[string][]byte{"value.json": read(t, "value.json"), "text": []byte("héllo"), "zeros": make([]byte, 1<<20)}
	for _, n := range []int{0, 1, 2, 3, 4, 13, 32, 33, 255, 256, 300, 64<<10 - 1, 64 << 10, 64<<10 + 1, 128 << 10, 128<<10 + 1, 1 << 20} {
		all[fmt.Sprintf("json of %d", n)] = codectest.JSON(n, 1)
		all[fmt.Sprintf("noise of %d", n)] = codectest.Random(n, 1)
	}
	all["mixed"] = codectest.Mixed(600_000, 1)
	return all
}

// contentOf returns content in a form that the format can hold: for Rails an entry, here of a string of
// bytes.
func contentOf(f Format, content []byte) []byte {
	switch f {
	case Rails70:
		return append(marshalled(len(content)), content...)
	case Rails71:
		head := "\x00\x11\x03\x00\x00\x00\x00\x00\x00\xf0\xbf\xff\xff\xff\xff"
		return append([]byte(head), content...)
	}
	return content
}

// marshalled returns what Ruby's Marshal writes before the n bytes of a string in an array, after the entry's
// mark.
func marshalled(n int) []byte {
	head := []byte("\x00\x04\x08[\x06\"")
	switch {
	case n == 0:
		return append(head, 0)
	case n < 123:
		return append(head, byte(n+5))
	case n < 1<<8:
		return append(head, 1, byte(n))
	case n < 1<<16:
		return append(head, 2, byte(n), byte(n>>8))
	}
	return append(head, 3, byte(n), byte(n>>8), byte(n>>16))
}

func TestAppendOpens(t *testing.T) {
	for name, content := range contents(t) {
		for f := GlideZstd; f <= lastFormat; f++ {
			for zstd, e := range enginesOf(f) {
				for _, level := range []int{0, 1, 3, 10} {
					if len(content) > 10_000 && (level == 10 || level > 0 && f == XZ) || len(content) > 200_000 && level > 1 {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%s-%d", name, zstd, f, level), func(t *testing.T) { testAppend(t, f, level, content, e) })
				}
			}
		}
	}
}

func testAppend(t *testing.T, f Format, level int, content []byte, e *codec.Engine) {
	content = contentOf(f, content)
	stored, err := Append([]byte("before "), f, level, content, e)
	if f == PHPRedisLZ4 && len(content) == 0 {
		if !errors.Is(err, ErrContent) || string(stored) != "before " {
			t.Errorf("empty: %q, %v", stored, err)
		}
		return
	}
	if err != nil || !bytes.HasPrefix(stored, []byte("before ")) {
		t.Fatalf("%v: %.20q", err, stored)
	}
	stored = stored[len("before "):]
	if most := MaxLen(f, len(content)); len(stored) > most {
		t.Errorf("%d bytes, not %d at most", len(stored), most)
	}
	if got, err := Open(nil, f, stored, len(content)); err != nil || !bytes.Equal(got, content) {
		t.Errorf("opens to %d of %d bytes: %v", len(got), len(content), err)
	}
	if again, err := Append(nil, f, level, content, e); err != nil || !bytes.Equal(again, stored) {
		t.Errorf("other bytes the second time: %v", err)
	}
	if is, ok := Recognise(stored); f.HasHeader() && (!ok || is != f) {
		t.Errorf("is taken for %v", is)
	}
}

func TestAppendLargerThanAnyWindow(t *testing.T) {
	content := codectest.Mixed(9<<20+5, 1)
	for f := GlideZstd; f <= lastFormat; f++ {
		level := 1
		if f == XZ {
			level = 0 // higher levels take long
		}
		for zstd, e := range enginesOf(f) {
			t.Run(zstd+"/"+f.String(), func(t *testing.T) { testAppend(t, f, level, content, e) })
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	e := codec.New(codec.Options{})
	for _, f := range []Format{0, lastFormat + 1, 255} {
		out, err := Append([]byte("x"), f, 0, []byte("content"), e)
		if !errors.Is(err, ErrFormat) || string(out) != "x" {
			t.Errorf("%v: %q, %v", f, out, err)
		}
		if _, exact := LevelOf(f, nil, nil, e); exact || MaxLen(f, 10) != 0 {
			t.Errorf("%v has levels or a length", f)
		}
	}
}

// LevelOf finds the level of values that Cinch's encoders made, and with libzstd the level of values that libzstd
// made.
func TestLevelOf(t *testing.T) {
	for zstd, e := range engines() {
		for name, v := range vectors(t) {
			ours, err := Append(nil, v.f, 0, v.content, e)
			if err != nil {
				t.Fatal(err)
			}
			if level, exact := LevelOf(v.f, ours, v.content, e); !exact && v.f != XZ {
				t.Errorf("%s: %s finds no level of what it made, but %d", name, zstd, level)
			}
			_, exact := LevelOf(v.f, v.stored, v.content, e)
			if wanted := zstd == libzstd && (v.f == Zstd || v.f == GlideZstd || v.f == RedissonZstd); exact != wanted {
				t.Errorf("%s: %s finds its level: %v", name, zstd, exact)
			}
		}
	}
}

// Append to a buffer with enough room allocates no more than the encoders' pools do.
func TestAppendAllocates(t *testing.T) {
	content := codectest.JSON(3000, 1)
	for zstd, e := range engines() {
		for f := GlideZstd; f <= lastFormat; f++ {
			content := contentOf(f, content)
			room := make([]byte, 0, MaxLen(f, len(content)))
			n := testing.AllocsPerRun(100, func() {
				if _, err := Append(room, f, 0, content, e); err != nil {
					t.Fatal(err)
				}
			})
			if n > 3 && f != XZ || n > 1000 {
				t.Errorf("%s, %s: %v allocations", f, zstd, n)
			}
		}
	}
}

func FuzzAppend(f *testing.F) {
	for _, content := range []string{"", "a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", `{"id":1,"id":2,"id":3}`} {
		for format := GlideZstd; format <= lastFormat; format++ {
			f.Add(uint8(format), uint8(0), []byte(content))
			f.Add(uint8(format), uint8(3), read(f, "value.json"))
		}
	}
	e := engines()
	f.Fuzz(func(t *testing.T, format, level uint8, content []byte) {
		if f := Format(format); f >= GlideZstd && f <= lastFormat {
			for _, e := range e {
				testAppend(t, f, int(level), content, e)
			}
		}
	})
}

// TestWriteForLibraries writes values for testdata/read, which opens them with the libraries.
func TestWriteForLibraries(t *testing.T) {
	dir := os.Getenv("FOREIGN_OUT")
	if dir == "" {
		t.Skip("FOREIGN_OUT is not set")
	}
	for name, content := range contents(t) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		for zstd, e := range engines() {
			for f := GlideZstd; f <= lastFormat; f++ {
				for _, level := range []int{0, 3} {
					if level > 0 && f == XZ && len(content) > 100_000 {
						continue
					}
					stored, err := Append(nil, f, level, contentOf(f, content), e)
					if errors.Is(err, ErrContent) {
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					file := fmt.Sprintf("%s.of.%s-%d.%s", name, zstd, level, f)
					if err := os.WriteFile(filepath.Join(dir, file), stored, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	content := codectest.JSON(3000, 1)
	for zstd, e := range engines() {
		for f := GlideZstd; f <= lastFormat; f++ {
			for _, level := range []int{0, 3} {
				b.Run(fmt.Sprintf("%s/%s-%d", zstd, f, level), func(b *testing.B) {
					content := contentOf(f, content)
					room := make([]byte, 0, MaxLen(f, len(content)))
					b.ReportAllocs()
					for b.Loop() {
						Append(room, f, level, content, e)
					}
				})
			}
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	for name, v := range vectors(b) {
		b.Run(name, func(b *testing.B) {
			room := make([]byte, 0, len(v.content)+1)
			b.ReportAllocs()
			for b.Loop() {
				Open(room, v.f, v.stored, len(v.content))
			}
		})
	}
}
