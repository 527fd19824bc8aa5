package envelope

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

// checkBijection seals and opens, after bytes that must not change.
func checkBijection(t *testing.T, s *Sealer, value []byte, st codec.Setting, worth func(int, int) bool) []byte {
	t.Helper()
	before := bytes.Clone(value)
	out := s.Seal([]byte("front"), value, st, worth)
	stored, ok := bytes.CutPrefix(out, []byte("front"))
	if !ok || !bytes.Equal(value, before) {
		t.Fatalf("%s, %d bytes: seal changed what it was given", st, len(value))
	}
	got, err := s.Open([]byte("front"), stored)
	if err != nil {
		t.Fatalf("%s, %d bytes: %v", st, len(value), err)
	}
	if !bytes.Equal(got, append([]byte("front"), value...)) {
		t.Fatalf("%s, %d bytes: another value came back", st, len(value))
	}
	if IsSealed(value) && !IsSealed(stored) {
		t.Fatalf("%s, %d bytes: a value with the magic was stored bare", st, len(value))
	}
	return stored
}

func TestSealOpenBoundaries(t *testing.T) {
	s, dict := testSealer(t)
	lengths := []int{
		0, 1, 2, 3, 4, 5, 9, 10, 11, 15, 16, 17, 63, 64, 65, 126, 127, 128, 129, 255, 256, 257, 4095, 4096, 4097,
		1<<14 - 1, 1 << 14, 1<<14 + 1, 1<<16 - 1, 1 << 16, 1<<16 + 1, 1<<21 - 1, 1 << 21, 1<<21 + 1,
	}
	text, junk := orders(1<<21+1), noise(1<<21+1)
	for _, st := range settings(dict) {
		t.Run(st.String(), func(t *testing.T) {
			for _, n := range lengths {
				for _, value := range [][]byte{text[:n], junk[:n], make([]byte, n), append([]byte(Magic), text[:n]...)} {
					checkBijection(t, s, value, st, nil)
					if n < 1<<17 {
						checkBijection(t, s, value, st, always)
					}
				}
			}
		})
	}
}

// Every proper prefix and extension of the magic, and envelopes themselves, are values like any other.
func TestSealEscapesTheMagic(t *testing.T) {
	s, dict := testSealer(t)
	values := []string{"\xC1", "\xC1\xDD", Magic, Magic + "\x10", Magic + "plain text that is not an envelope", Magic + string(orders(500)), Magic + string(noise(500))}
	values = append(values, string(s.Escape(nil, []byte("escaped"))), string(s.Seal(nil, orders(500), codec.Setting{Codec: codec.LZ4}, nil)))
	never := func(int, int) bool { return false }
	for _, v := range values {
		for _, st := range settings(dict) {
			for _, worth := range []func(int, int) bool{nil, never, always} {
				once := checkBijection(t, s, []byte(v), st, worth)
				checkBijection(t, s, once, st, worth)
			}
		}
	}
	if got := s.Seal(nil, []byte(Magic), codec.Setting{}, nil); len(got) != 10+len(Magic) {
		t.Errorf("the escaped magic takes %d bytes", len(got))
	}
}

func TestSealChoosesWhatIsWorth(t *testing.T) {
	s, dict := testSealer(t)
	text, lz4 := orders(1000), codec.Setting{Codec: codec.LZ4}
	var gotRaw, gotSealed int
	sealed := s.Seal(nil, text, lz4, func(raw, sealed int) bool { gotRaw, gotSealed = raw, sealed; return true })
	if h, err := ParseHeader(sealed); err != nil || h.Codec != codec.LZ4 || h.RawLen != len(text) {
		t.Errorf("%+v, %v", h, err)
	}
	if gotRaw != len(text) || gotSealed != len(sealed) {
		t.Errorf("worth was asked for %d and %d bytes, they are %d and %d", gotRaw, gotSealed, len(text), len(sealed))
	}
	for _, c := range []struct {
		name  string
		value []byte
		st    codec.Setting
		worth func(int, int) bool
	}{
		{"declined", text, lz4, func(int, int) bool { return false }},
		{"raw does not call worth", text, codec.Setting{}, always},
		{"noise gains nothing", noise(1000), lz4, nil},
		{"three bytes gain nothing", []byte("abc"), lz4, nil},
		{"unknown codec", text, codec.Setting{Codec: 12}, nil},
		{"no such level", text, codec.Setting{Codec: codec.Zstd, Level: 99}, nil},
		{"dictionary is missing", text, codec.Setting{Codec: codec.Zstd, Dict: dict + 1}, nil},
		{"dictionary with lz4", text, codec.Setting{Codec: codec.LZ4, Dict: dict}, nil},
	} {
		if got := s.Seal(nil, c.value, c.st, c.worth); !bytes.Equal(got, c.value) {
			t.Errorf("%s: sealed %d bytes into %d", c.name, len(c.value), len(got))
		}
	}
	if h, err := ParseHeader(s.Seal(nil, noise(1000), lz4, always)); err != nil || h.Codec != codec.Raw && h.Codec != codec.LZ4 {
		t.Errorf("forced sealing gives %+v, %v", h, err)
	}
	with := len(s.Seal(nil, order(7), codec.Setting{Codec: codec.Zstd, Dict: dict}, nil))
	without := len(s.Seal(nil, order(7), codec.Setting{Codec: codec.Zstd}, nil))
	if with >= without {
		t.Errorf("%d bytes with the dictionary, %d without", with, without)
	}
}

func TestSealRespectsMaxRaw(t *testing.T) {
	const limit = 1000
	s := NewSealer(SealerOptions{MaxRaw: limit})
	if s.MaxRaw() != limit {
		t.Fatal(s.MaxRaw())
	}
	for _, n := range []int{limit - 1, limit, limit + 1} {
		for _, st := range settings(0)[1:] {
			stored := checkBijection(t, s, orders(n), st, nil)
			if got, want := IsSealed(stored), n <= limit; got != want {
				t.Errorf("%s: %d of at most %d bytes: sealed is %v", st, n, limit, got)
			}
			magic := append([]byte(Magic), orders(n)...)
			checkBijection(t, s, magic, st, nil) // escaped if too long, which opens
		}
	}
}

func TestOpenLimits(t *testing.T) {
	big, small := NewSealer(SealerOptions{}), NewSealer(SealerOptions{MaxOpen: 999})
	for _, st := range settings(0)[1:] {
		for n, want := range map[int]error{998: nil, 999: nil, 1000: ErrTooLarge} {
			_, err := small.Open(nil, big.Seal(nil, orders(n), st, nil))
			if !errors.Is(err, want) || errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %d bytes: %v", st, n, err)
			}
		}
	}
}

func TestLimitsFollowFromEachOther(t *testing.T) {
	for _, c := range []struct{ maxRaw, maxOpen, wantRaw, wantOpen int }{
		{0, 0, DefaultMaxRaw, DefaultMaxRaw},
		{1000, 0, 1000, DefaultMaxRaw},
		{2 * DefaultMaxRaw, 0, 2 * DefaultMaxRaw, 2 * DefaultMaxRaw},
		{1000, 2000, 1000, 2000},
		{0, 2 * DefaultMaxRaw, DefaultMaxRaw, 2 * DefaultMaxRaw},
		{0, 1000, 1000, 1000}, // nothing is sealed that could not be opened
		{2000, 1000, 1000, 1000},
	} {
		s := NewSealer(SealerOptions{MaxRaw: c.maxRaw, MaxOpen: c.maxOpen})
		if s.MaxRaw() != c.wantRaw || s.MaxOpen() != c.wantOpen {
			t.Errorf("%+v: seals %d, opens %d", c, s.MaxRaw(), s.MaxOpen())
		}
	}
}

// After MaxRaw was lowered, older envelopes still open.
func TestLowerMaxRawStillOpens(t *testing.T) {
	before, after := NewSealer(SealerOptions{}), NewSealer(SealerOptions{MaxRaw: 1 << 20})
	value := bytes.Repeat(orders(1000), DefaultMaxRaw/1000)
	st := codec.Setting{Codec: codec.LZ4}
	stored := before.Seal(nil, value, st, nil)
	if !IsSealed(stored) || IsSealed(after.Seal(nil, value, st, nil)) {
		t.Fatal("the limits are not what this is about")
	}
	if got, err := after.Open(nil, stored); err != nil || !bytes.Equal(got, value) {
		t.Errorf("%d of %d bytes, %v", len(got), len(value), err)
	}
}

// With room in dst nothing is allocated, compressed or not.
func TestSealAndOpenDoNotAllocate(t *testing.T) {
	s, dict := testSealer(t)
	values := map[string][]byte{"orders": orders(2000), "noise": noise(2000), "magic": append([]byte(Magic), noise(2000)...)}
	for _, st := range []codec.Setting{{}, {Codec: codec.Snappy}, {Codec: codec.S2}, {Codec: codec.MinLZ}, {Codec: codec.LZ4}, {Codec: codec.Zstd}, {Codec: codec.Zstd, Dict: dict}} {
		for name, value := range values {
			sealed, opened := make([]byte, 0, 2*len(value)+1024), make([]byte, 0, 2*len(value)+1024)
			run := func() {
				sealed = s.Seal(sealed[:0], value, st, nil)
				var err error
				if opened, err = s.Open(opened[:0], sealed); err != nil {
					t.Fatal(err)
				}
			}
			run() // fills the pools
			if n := testing.AllocsPerRun(200, run); n >= 1 && !raceEnabled {
				t.Errorf("%s, %s: %v allocations", st, name, n)
			}
		}
	}
}

// FuzzSealOpen: a value sealed with any setting opens as itself.
func FuzzSealOpen(f *testing.F) {
	s, dict := testSealer(f)
	all := settings(dict)
	f.Add([]byte("text text text text text text"), byte(3), false)
	f.Add([]byte(Magic), byte(5), true)
	f.Fuzz(func(t *testing.T, value []byte, which byte, magic bool) {
		if magic {
			value = append([]byte(Magic), value...)
		}
		st := all[int(which)%len(all)]
		checkBijection(t, s, value, st, nil)
		checkBijection(t, s, value, st, always)
	})
}

// With MaxSealedLen bytes of room after its content, dst is never reallocated, whatever the value and its
// length.
func TestMaxSealedLen(t *testing.T) {
	s, dict := testSealer(t)
	for _, st := range settings(dict) {
		for _, n := range []int{0, 1, 95, 96, 4096, 100_000, 2_000_000} {
			halves := append(orders(n)[:n/2:n/2], noise(n-n/2)...) // half of it does not get shorter
			for name, value := range map[string][]byte{"orders": orders(n)[:n], "noise": noise(n), "halves": halves, "magic": append([]byte(Magic), halves...)} {
				for _, worth := range []func(int, int) bool{nil, always} {
					dst := append(make([]byte, 0, 3+MaxSealedLen(st, len(value))), "abc"...)
					if out := s.Seal(dst, value, st, worth); &out[0] != &dst[0] || string(out[:3]) != "abc" {
						t.Errorf("%s, %d bytes of %s: %d do not fit %d", st, len(value), name, len(out), cap(dst))
					}
				}
			}
		}
	}
}
