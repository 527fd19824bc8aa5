package envelope

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
)

// countingSealer returns a Sealer with the dictionaries, and a count of its decoder's calls.
func countingSealer(dicts Dictionaries) (s *Sealer, decoded *atomic.Int64) {
	zstd := &codectest.CountingZstd{ZstdCoder: codec.NewGoZstd()}
	return NewSealer(SealerOptions{Engine: codec.New(codec.Options{Zstd: zstd}), Dicts: dicts}), &zstd.Decoded
}

// The decoder is never called for an envelope that names a dictionary if any of its bytes was changed, or if its tag
// was made without that dictionary.
func TestForgedIsNeverDecoded(t *testing.T) {
	set := newDictSet(t, orders(4<<10), orders(9 << 10)[5<<10:])
	s, decoded := countingSealer(set)
	var sealed [][]byte
	for number := range set {
		sealed = append(sealed, s.Seal(nil, order(1), codec.Setting{Codec: codec.Zstd, Dict: number}, always))
	}
	for i, stored := range sealed {
		if got, err := s.Open(nil, stored); err != nil || !bytes.Equal(got, order(1)) || decoded.Load() != int64(i+1) {
			t.Fatalf("%d bytes, %v, %d calls of the decoder", len(got), err, decoded.Load())
		}
	}
	decoded.Store(0)
	good := sealed[0]
	for bit := 8 * len(Magic); bit < 8*len(good); bit++ {
		forged := bytes.Clone(good)
		forged[bit/8] ^= 1 << (bit % 8)
		_, err := s.Open(nil, forged)
		if err == nil {
			t.Fatalf("bit %d: opened", bit)
		}
		h, _ := ParseHeader(forged)
		if plain := h.Len > 0 && !h.HasDict; decoded.Load() > 0 && !plain { // without the flag no dictionary is named
			t.Fatalf("bit %d: decoded, %v", bit, err)
		}
		decoded.Store(0)
	}
	h, _ := ParseHeader(good)
	other, _ := ParseHeader(sealed[1])
	for name, tag := range map[string][TagLen]byte{
		"zero": {}, "of another envelope": other.Tag, "by the other dictionary": h.tag(set[other.Dict], good),
	} {
		forged := bytes.Clone(good)
		copy(forged[h.tagAt():], tag[:])
		if _, err := s.Open(nil, forged); !errors.Is(err, ErrTag) || !errors.Is(err, ErrDamaged) || decoded.Load() != 0 {
			t.Errorf("tag %s: %v, decoded %d times", name, err, decoded.Load())
		}
	}
}

// The attack that the tag prevents: a planted envelope that would copy pieces of the dictionary.
func TestCopyingFromADictionaryTakesItsTag(t *testing.T) {
	secret := []byte("card 4111 1111 1111 1111, and nobody else knows")
	set := newDictSet(t, secret)
	s, decoded := countingSealer(set)
	for number, d := range set {
		// One raw block would not need the dictionary; this frame copies from it.
		frame, err := codec.New(codec.Options{}).Compress(nil, secret[5:24], codec.Setting{Codec: codec.Zstd, Dict: number}, d)
		if err != nil {
			t.Fatal(err)
		}
		h := Header{Version: Version, Codec: codec.Zstd, RawLen: 19, HasDict: true, Dict: number}
		planted := append(h.Append(nil), frame...)
		if got, err := s.Open(nil, planted); err == nil || decoded.Load() != 0 {
			t.Errorf("%q, %v, decoded %d times", got, err, decoded.Load())
		}
		putTag(d, planted)
		if got, err := s.Open(nil, planted); err != nil || !bytes.Equal(got, secret[5:24]) {
			t.Errorf("with the dictionary: %q, %v", got, err)
		}
	}
}

// Several sealers use one dictionary concurrently.
func TestTagsAtOnce(t *testing.T) {
	s, dict := testSealer(t)
	st := codec.Setting{Codec: codec.Zstd, Dict: dict}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 50 {
				if got, err := s.Open(nil, s.Seal(nil, order(i), st, always)); err != nil || !bytes.Equal(got, order(i)) {
					t.Errorf("order %d: %q, %v", i, got, err)
				}
			}
		})
	}
	wg.Wait()
}

// FuzzTag: an envelope that names a dictionary opens only with the correct tag, and is then decoded exactly
// once. Any other is never decoded.
func FuzzTag(f *testing.F) {
	set := newDictSet(f, orders(4<<10))
	s, decoded := countingSealer(set)
	for number := range set {
		st := codec.Setting{Codec: codec.Zstd, Dict: number}
		f.Add(s.Seal(nil, order(1), st, always), true)
		f.Add(s.Seal(nil, orders(2000), st, always), false)
		f.Add(Header{Version: Version, Codec: 10, HasDict: true, Dict: number, RawLen: 3}.Append(nil), true)
	}
	f.Fuzz(func(t *testing.T, stored []byte, tagged bool) {
		h, err := ParseHeader(stored)
		if err != nil || set[h.Dict] == nil {
			return
		}
		stored = bytes.Clone(stored)
		if tagged {
			putTag(set[h.Dict], stored)
			h, _ = ParseHeader(stored)
		}
		decoded.Store(0)
		got, err := s.Open(nil, stored)
		right := h.tag(set[h.Dict], stored) == h.Tag && h.RawLen <= s.MaxOpen() && h.Codec.Known()
		if right != (decoded.Load() == 1) || decoded.Load() > 1 {
			t.Fatalf("tag right: %v, decoded %d times, %v", right, decoded.Load(), err)
		}
		if !right && err == nil || err == nil && len(got) != h.RawLen {
			t.Fatalf("%d bytes of %d, %v", len(got), h.RawLen, err)
		}
	})
}

func BenchmarkTag(b *testing.B) {
	s, dict := testSealer(b)
	for name, value := range map[string][]byte{"order": order(1), "10k": orders(10_000)} {
		for way, st := range map[string]codec.Setting{"dictionary": {Codec: codec.Zstd, Dict: dict}, "none": {Codec: codec.Zstd}} {
			sealed := s.Seal(nil, value, st, always)
			b.Run("Seal/"+name+"/"+way, func(b *testing.B) {
				b.ReportAllocs()
				dst := make([]byte, 0, 2*len(value)+1024)
				for b.Loop() {
					dst = s.Seal(dst[:0], value, st, always)
				}
			})
			b.Run("Open/"+name+"/"+way, func(b *testing.B) {
				b.ReportAllocs()
				dst := make([]byte, 0, 2*len(value)+1024)
				for b.Loop() {
					dst, _ = s.Open(dst[:0], sealed)
				}
			})
		}
		for d := range newDictSet(b, orders(4<<10)) {
			dict := s.dicts.(dictSet)[d]
			b.Run("Tag/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					_ = dict.Tag(value[:5], value[13:])
				}
			})
		}
	}
}
