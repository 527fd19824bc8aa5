package envelope

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope/clientformat"
)

// sealForeign seals content as a value of a format, with and without a dictionary.
func sealForeign(t testing.TB, s *Sealer, dict uint32, of Foreign, content []byte) (all [][]byte) {
	t.Helper()
	for _, st := range []codec.Setting{{Codec: codec.Zstd, Level: 3}, {Codec: codec.LZ4, Level: 1}, {Codec: codec.Zstd, Dict: dict}} {
		sealed, did := s.SealContent([]byte("front"), content, of, len(content), st, always)
		if !did.Sealed || !bytes.HasPrefix(sealed, []byte("front")) {
			t.Fatalf("%s: %v, %d bytes", st, did, len(sealed))
		}
		all = append(all, sealed[len("front"):])
	}
	return all
}

// contentOf returns content that the format can hold: for Rails it begins with a header.
func contentOf(t testing.TB, f clientformat.Format, usual []byte) []byte {
	t.Helper()
	if f != clientformat.Rails70 && f != clientformat.Rails71 {
		return usual
	}
	content, err := os.ReadFile(filepath.Join("clientformat", "testdata", f.String(), "content"))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestForeignOpens(t *testing.T) {
	s, dict := testSealer(t)
	for f := clientformat.GlideZstd; f.Known(); f++ {
		content := contentOf(t, f, orders(3000))
		of := Foreign{Format: uint8(f), Level: 1}
		for _, sealed := range sealForeign(t, s, dict, of, content) {
			h, err := ParseHeader(sealed)
			if err != nil || h.Foreign != of || h.RawLen != len(content) || h.Ext != nil {
				t.Fatalf("%v: %+v, %v", f, h, err)
			}
			if again := append(h.Append(nil), sealed[h.Len:]...); !bytes.Equal(again, sealed) {
				t.Fatalf("%v: its header is % x", f, again[:h.Len])
			}
			value, err := s.Open([]byte("front"), sealed)
			if err != nil || !bytes.HasPrefix(value, []byte("front")) || len(value)-len("front") > h.MaxValueLen() {
				t.Fatalf("%v: %v, %d bytes", f, err, len(value))
			}
			if got, err := clientformat.Open(nil, f, value[len("front"):], len(content)); err != nil || !bytes.Equal(got, content) {
				t.Fatalf("%v: its library finds %d bytes, %v", f, len(got), err)
			}
			if got, err := s.OpenContent([]byte("front"), sealed); err != nil || string(got) != "front"+string(content) {
				t.Fatalf("%v: the content has %d bytes, %v", f, len(got), err)
			}
		}
	}
}

// A flipped bit gives an error or the right content, never other bytes. A bit of the level, which only says
// how fast or small the value is made, is also covered by the tag or checksum.
func TestForeignBitFlips(t *testing.T) {
	s, dict := testSealer(t)
	content := orders(500)
	for _, sealed := range sealForeign(t, s, dict, Foreign{Format: uint8(clientformat.Zlib)}, content) {
		for bit := 8 * len(Magic); bit < 8*len(sealed); bit++ {
			damaged := bytes.Clone(sealed)
			damaged[bit/8] ^= 1 << (bit % 8)
			for name, open := range map[string]func(dst, stored []byte) ([]byte, error){"Open": s.Open, "OpenContent": s.OpenContent} {
				got, err := open(nil, damaged)
				if err == nil && name == "Open" {
					got, err = clientformat.Open(nil, clientformat.Zlib, got, len(content))
				}
				if err == nil && !bytes.Equal(got, content) {
					t.Fatalf("%s: bit %d gives other bytes", name, bit)
				}
			}
		}
	}
}

func TestForeignRefusals(t *testing.T) {
	s, dict := testSealer(t)
	sealed := sealForeign(t, s, dict, Foreign{Format: uint8(clientformat.Zlib)}, orders(500))[0]
	h, err := ParseHeader(sealed)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		word string
		want error
	}{
		"no format": {"\x01\x00\x00\x00", ErrReserved}, "other type": {"\x02\x03\x00\x00", ErrReserved},
		"reserved byte": {"\x01\x03\x00\x01", ErrReserved}, "unknown format": {"\x01\xff\x00\x00", ErrUnknownCodec},
	} {
		changed := bytes.Clone(sealed)
		copy(changed[h.Len-extWordLen:], c.word)
		if c.want == ErrUnknownCodec { // as if a newer version, which knows the format, had written it
			h := h
			h.Foreign.Format = 0xff
			h.Checksum = checksum(orders(500), h.Foreign)
			changed = append(h.Append(nil), sealed[h.Len:]...)
		}
		if got, err := s.Open([]byte("front"), changed); !errors.Is(err, c.want) || string(got) != "front" {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	sealed[4] &^= maskExtWords
	if _, err := ParseHeader(sealed); !errors.Is(err, ErrReserved) {
		t.Errorf("without its word: %v", err)
	}
	if out, did := s.SealContent([]byte("front"), noise(500), Foreign{Format: 1}, 500, codec.Setting{Codec: codec.Zstd}, nil); did.Sealed || string(out) != "front" {
		t.Errorf("noise gains: %d bytes", len(out))
	}
}

// foreignVector is an entry of testdata/vectors/foreign.json.
type foreignVector struct {
	Name       string `json:"name"`
	Stored     string `json:"stored"`
	Content    string `json:"content"`
	Format     string `json:"format"`
	Level      int    `json:"level,omitempty"`
	Dictionary string `json:"dictionary,omitempty"`
}

func readForeignIndex(t *testing.T) (all []foreignVector) {
	t.Helper()
	if err := json.Unmarshal(readVectorFile(t, "foreign.json"), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestForeignVectors(t *testing.T) {
	if *update {
		writeForeignVectors(t)
	}
	seen := map[string]bool{}
	for _, v := range readForeignIndex(t) {
		seen[v.Format] = true
		f, err := clientformat.Parse(v.Format)
		if err != nil {
			t.Fatal(err)
		}
		o := SealerOptions{}
		if v.Dictionary != "" {
			o.Dicts = newDictSet(t, readVectorFile(t, v.Dictionary))
		}
		s, stored, content := NewSealer(o), readVectorFile(t, v.Stored), readVectorFile(t, v.Content)
		value, err := s.Open(nil, stored)
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		if got, err := clientformat.Open(nil, f, value, len(content)); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: its library finds %d bytes, %v", v.Name, len(got), err)
		}
		if got, err := s.OpenContent(nil, stored); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: the content has %d bytes, %v", v.Name, len(got), err)
		}
	}
	for f := clientformat.GlideZstd; f.Known(); f++ {
		if !seen[f.String()] {
			t.Errorf("no vector of %v: go test -run TestForeignVectors -update .", f)
		}
	}
}

// writeForeignVectors adds missing vectors.
func writeForeignVectors(t *testing.T) {
	t.Helper()
	var lines []string
	dict := readVectorFile(t, "dictionaries/raw.dict")
	s := NewSealer(SealerOptions{Dicts: newDictSet(t, dict)})
	for number := range newDictSet(t, dict) {
		for f := clientformat.GlideZstd; f.Known(); f++ {
			content := "values/orders"
			if f == clientformat.Rails70 || f == clientformat.Rails71 {
				content = "values/" + f.String()
				writeNew(t, content, contentOf(t, f, nil))
			}
			for i, sealed := range sealForeign(t, s, number, Foreign{Format: uint8(f), Level: 1}, readVectorFile(t, content)) {
				name := fmt.Sprintf("foreign-%v-%s", f, []string{"zstd", "lz4", "dictionary"}[i])
				v := foreignVector{Name: name, Stored: "stored/" + name, Content: content, Format: f.String(), Level: 1}
				if i == 2 {
					v.Dictionary = "dictionaries/raw.dict"
				}
				if existingVectorFile(v.Stored) == nil {
					writeNew(t, v.Stored, sealed)
				}
				b, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				lines = append(lines, "  "+string(b))
			}
		}
	}
	text := fmt.Sprintf("[\n%s\n]\n", strings.Join(lines, ",\n"))
	if err := os.WriteFile(filepath.Join(vectorDir, "foreign.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A level that no writer of Cinch uses, in a planted envelope, costs a reader no more than the default.
func TestForeignLevelIsBounded(t *testing.T) {
	content := bytes.Repeat([]byte("a value of some length, "), 400)
	s := NewSealer(SealerOptions{})
	for f := clientformat.GlideZstd; f.Known(); f++ {
		if f == clientformat.Rails70 || f == clientformat.Rails71 {
			continue // they can't hold this content
		}
		byDefault := openedAt(t, s, f, 0, content)
		for level := range 256 {
			got := openedAt(t, s, f, uint8(level), content)
			if bytes.Equal(got, byDefault) {
				continue
			}
			if found, exact := clientformat.LevelOf(f, got, content, s.Engine()); !exact {
				t.Errorf("%v: a value is made at level %d, which writers find to be %d, %v", f, level, found, exact)
			}
		}
	}
}

func openedAt(t *testing.T, s *Sealer, f clientformat.Format, level uint8, content []byte) []byte {
	t.Helper()
	envelope, did := s.SealContent(nil, content, Foreign{Format: uint8(f), Level: level}, len(content), codec.Setting{Codec: codec.Zstd, Level: 1}, nil)
	if !did.Sealed {
		t.Fatal("not sealed")
	}
	value, err := s.Open(nil, envelope)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
