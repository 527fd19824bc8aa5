package envelope

import (
	"bytes"
	"errors"
	"math/bits"
	"runtime"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

// openable returns envelopes of one value with every codec, with and without extension words.
func openable(t testing.TB, s *Sealer, dict uint32, value []byte) [][]byte {
	t.Helper()
	var all [][]byte
	for _, st := range settings(dict) {
		stored := s.Escape(nil, value)
		if st.Codec != codec.Raw {
			stored = s.Seal(nil, value, st, always)
		}
		h, err := ParseHeader(stored)
		if err != nil || h.Codec != st.Codec {
			t.Fatalf("%s: %+v, %v", st, h, err)
		}
		payload := stored[h.Len:]
		h.Ext = []byte("\x01ext\x02wrd")
		all = append(all, stored, append(h.Append(nil), payload...))
	}
	return all
}

// Damage anywhere but in the magic gives an error or the right value, never other bytes. (Damage in the magic
// makes it a plain value, docs/FORMAT.md, 8.)
func TestOpenBitFlips(t *testing.T) {
	s, dict := testSealer(t)
	for _, value := range [][]byte{orders(700), []byte("short"), {}} {
		if len(value) == 0 {
			checkFlips(t, s, s.Escape(nil, value), value)
			continue
		}
		for _, stored := range openable(t, s, dict, value) {
			for _, engine := range engines() {
				checkFlips(t, NewSealer(SealerOptions{Engine: engine, Dicts: s.dicts}), stored, value)
			}
		}
	}
}

func checkFlips(t *testing.T, s *Sealer, stored, value []byte) {
	t.Helper()
	for bit := 8 * len(Magic); bit < 8*len(stored); bit++ {
		damaged := bytes.Clone(stored)
		damaged[bit/8] ^= 1 << (bit % 8)
		got, err := s.Open([]byte("front"), damaged)
		if err != nil {
			if string(got) != "front" {
				t.Fatalf("bit %d: %v, but dst changed", bit, err)
			}
			switch class(err) {
			case "truncated", "version", "reserved", "header", "payload", "checksum", "tag", "unknown codec", "dictionary missing", "too large":
			default:
				t.Fatalf("bit %d: an error without a class: %v", bit, err)
			}
		} else if !bytes.Equal(got, append([]byte("front"), value...)) {
			t.Fatalf("bit %d of % x: other bytes came out", bit, stored[:min(len(stored), 20)])
		}
	}
}

// An envelope that is cut off, or followed by bytes, does not open.
func TestOpenTruncatedAndExtended(t *testing.T) {
	goSealer, dict := testSealer(t)
	for _, stored := range openable(t, goSealer, dict, orders(700)) {
		for _, engine := range engines() {
			checkCutAndExtended(t, NewSealer(SealerOptions{Engine: engine, Dicts: goSealer.dicts}), stored)
		}
	}
}

func checkCutAndExtended(t *testing.T, s *Sealer, stored []byte) {
	t.Helper()
	for n := len(Magic); n < len(stored); n++ {
		if _, err := s.Open(nil, stored[:n]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("% x: first %d of %d bytes: %v", stored[:5], n, len(stored), err)
		}
	}
	for _, more := range []string{"\x00", "\xff", "more", string(stored)} {
		if _, err := s.Open(nil, append(bytes.Clone(stored), more...)); !errors.Is(err, ErrDamaged) {
			t.Errorf("% x and %d bytes behind it: %v", stored[:5], len(more), err)
		}
	}
}

func TestOpenDictionaryErrors(t *testing.T) {
	s, dict := testSealer(t)
	stored := s.Seal(nil, order(3), codec.Setting{Codec: codec.Zstd, Dict: dict}, always)
	none := NewSealer(SealerOptions{})
	if _, err := none.Open(nil, stored); !errors.Is(err, ErrDictMissing) || errors.Is(err, ErrDamaged) {
		t.Errorf("no dictionaries at all: %v", err)
	}
	other := newDictSet(t, noise(1000))
	for _, d := range other {
		wrong := NewSealer(SealerOptions{Dicts: dictSet{dict: d}})
		if _, err := wrong.Open(nil, stored); !errors.Is(err, ErrDictMissing) {
			t.Errorf("another dictionary under the number: %v", err)
		}
	}
	down := errors.New("connection refused")
	if _, err := NewSealer(SealerOptions{Dicts: failing{down}}).Open(nil, stored); !errors.Is(err, down) || errors.Is(err, ErrDictMissing) {
		t.Errorf("a store that is down: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Dictionary(uint32) (*codec.Dict, error) { return nil, f.err }

// A hostile envelope of twenty bytes causes no large allocation. If it declares more than the limit, nothing is
// allocated; if it declares less, the declared length is allocated at most once.
func TestOpenAllocatesWithinTheLimit(t *testing.T) {
	const limit = 1 << 20
	for name, engine := range engines() {
		t.Run(name, func(t *testing.T) {
			checkAllocations(t, NewSealer(SealerOptions{Engine: engine, MaxOpen: limit}), limit)
		})
	}
}

func checkAllocations(t *testing.T, s *Sealer, limit int) {
	for id := codec.Raw; id.Known(); id++ {
		for _, declared := range []int{limit, limit + 1, 1 << 30, longest} {
			h := Header{Version: Version, Codec: id, RawLen: declared}
			stored := append(h.Append(nil), "\x00\x80\x80\x80\x80\x7f"...)
			_, _ = s.Open(nil, stored) // fills the pools
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			const runs = 8
			for range runs {
				if _, err := s.Open(nil, stored); err == nil {
					t.Fatal("opened")
				}
			}
			runtime.ReadMemStats(&after)
			if got := (after.TotalAlloc - before.TotalAlloc) / runs; got > uint64(limit+limit/2) {
				t.Errorf("%s, %d bytes declared: %d bytes allocated", id, declared, got)
			}
		}
	}
}

// FuzzOpen checks that Open never panics, never returns more than was declared, and that both zstds agree on
// what opens. With tagged, envelopes that name the dictionary get the right tag, so that decoders see damage
// there too.
func FuzzOpen(f *testing.F) {
	s, dict := testSealer(f)
	for _, stored := range openable(f, s, dict, orders(300)) {
		f.Add(stored, false)
		f.Add(stored, true)
	}
	small := NewSealer(SealerOptions{Dicts: s.dicts, MaxOpen: 1 << 16})
	var others []*Sealer
	for _, engine := range engines() {
		others = append(others, NewSealer(SealerOptions{Engine: engine, Dicts: s.dicts, MaxOpen: 1 << 16}))
	}
	f.Fuzz(func(t *testing.T, stored []byte, tagged bool) {
		if d, err := s.dictionary(dict); tagged && err == nil && mayTag(stored, dict) {
			stored = bytes.Clone(stored)
			putTag(d, stored)
		}
		got, err := small.Open([]byte("front"), stored)
		for _, other := range others {
			if got2, err2 := other.Open([]byte("front"), stored); (err == nil) != (err2 == nil) || !bytes.Equal(got, got2) {
				t.Fatalf("go: %v, another: %v", err, err2)
			}
		}
		if !bytes.HasPrefix(got, []byte("front")) {
			t.Fatal("dst changed")
		}
		if err != nil {
			if len(got) != len("front") || !IsSealed(stored) {
				t.Fatalf("%v with %d bytes", err, len(got))
			}
			return
		}
		if IsSealed(stored) {
			h, _ := ParseHeader(stored)
			if len(got)-len("front") != h.RawLen {
				t.Fatalf("%d bytes, %d declared", len(got)-len("front"), h.RawLen)
			}
		}
		again := small.Seal(nil, got[len("front"):], codec.Setting{Codec: codec.S2}, nil)
		if back, err := small.Open(nil, again); err != nil || !bytes.Equal(back, got[len("front"):]) {
			t.Fatalf("does not survive another turn: %v", err)
		}
	})
}

func mayTag(stored []byte, dict uint32) bool {
	h, err := ParseHeader(stored)
	return err == nil && h.Dict == dict
}

func TestMaxHeaderRawLenFitsTheVarint(t *testing.T) {
	if bits.Len64(MaxHeaderRawLen) != 35 {
		t.Fatal(bits.Len64(MaxHeaderRawLen))
	}
}
