package envelope

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

// longest is the largest raw length that fits into a header and, on 32-bit platforms, into an int.
const longest = int(MaxHeaderRawLen & uint64(math.MaxInt))

func TestHeaderLengths(t *testing.T) {
	for _, c := range []struct{ rawLen, want int }{
		{0, 10},
		{127, 10},
		{128, 11},
		{1<<14 - 1, 11},
		{1 << 14, 12},
		{1<<21 - 1, 12},
		{1 << 21, 13},
		{1<<28 - 1, 13},
		{1 << 28, 14},
		{longest, 14},
	} {
		h := Header{Version: Version, Codec: codec.LZ4, RawLen: c.rawLen}
		if got := len(h.Append(nil)); got != c.want {
			t.Errorf("raw length %d: header of %d bytes, want %d", c.rawLen, got, c.want)
		}
		h.Codec, h.HasDict, h.Dict = codec.Zstd, true, 1
		if got := len(h.Append(nil)); got != c.want+8 {
			t.Errorf("raw length %d with dictionary: header of %d bytes, want %d", c.rawLen, got, c.want+8)
		}
	}
	h := Header{Version: Version, Codec: codec.Zstd, HasDict: true, Dict: 1, RawLen: longest, Ext: make([]byte, 60)}
	if got := len(h.Append(nil)); got != MaxHeaderLen || MaxHeaderLen != 82 {
		t.Errorf("longest header has %d bytes, want %d", got, MaxHeaderLen)
	}
}

// Every combination of fields that Append has written parses to the same fields, from the header alone and with a
// payload after it. Every proper prefix is ErrTruncated.
func TestHeaderRoundTrip(t *testing.T) {
	for _, rawLen := range []int{0, 1, 127, 128, 16383, 16384, 1<<21 - 1, 1 << 21, 1<<28 - 1, 1 << 28, longest} {
		for id := codec.ID(0); id < 16; id++ {
			for _, dict := range []uint32{0, 1, 0x80000000, 0xFFFFFFFF} {
				for _, words := range []int{0, 1, 15} {
					h := Header{Version: Version, Codec: id, HasDict: dict != 0, Dict: dict, RawLen: rawLen}
					if h.HasDict {
						h.Tag = [TagLen]byte{1, 2, 3, 4, 5, 6, 7, 8}
					} else {
						h.Checksum = 0x01020304
					}
					if h.HasDict && id != codec.Zstd && id.Known() {
						continue
					}
					if words > 0 {
						h.Ext = noise(4 * words)
					}
					checkHeader(t, h)
				}
			}
		}
	}
}

func checkHeader(t *testing.T, want Header) {
	t.Helper()
	b := want.Append(nil)
	want.Len = len(b)
	for _, in := range [][]byte{b, append(bytes.Clone(b), "payload"...)} {
		got, err := ParseHeader(in)
		if err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		ext := got.Ext
		if !bytes.Equal(ext, want.Ext) {
			t.Fatalf("extension % x, want % x", ext, want.Ext)
		}
		if got.Version != want.Version || got.Codec != want.Codec || got.Dict != want.Dict || got.HasDict != want.HasDict ||
			got.RawLen != want.RawLen || got.Checksum != want.Checksum || got.Tag != want.Tag || got.Len != want.Len {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
	for n := len(Magic); n < len(b); n++ {
		if _, err := ParseHeader(b[:n]); !errors.Is(err, ErrTruncated) {
			t.Fatalf("first %d of %d bytes: %v", n, len(b), err)
		}
	}
}

func TestParseHeaderRefuses(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     error
	}{
		{"empty", "", ErrNotSealed},
		{"two bytes of the magic", "\xC1\xDD", ErrNotSealed},
		{"another magic", "\xC1\xDD\xDD\x10\x00\x00\x00\x00\x00\x00", ErrNotSealed},
		{"magic only", Magic, ErrTruncated},
		{"version 0", Magic + "\x00\x00\x00\x00\x00\x00\x00", ErrVersion},
		{"version 2", Magic + "\x20\x00\x00\x00\x00\x00\x00", ErrVersion},
		{"version 15", Magic + "\xF0\x00\x00\x00\x00\x00\x00", ErrVersion},
		{"flag 10", Magic + "\x10\x10\x00\x00\x00\x00\x00", ErrReserved},
		{"flag 20", Magic + "\x10\x20\x00\x00\x00\x00\x00", ErrReserved},
		{"flag 40", Magic + "\x10\x40\x00\x00\x00\x00\x00", ErrReserved},
		{"overlong zero", Magic + "\x10\x00\x80\x00\x00\x00\x00\x00", ErrHeader},
		{"overlong one", Magic + "\x10\x00\x81\x80\x00\x00\x00\x00\x00", ErrHeader},
		{"six bytes of length", Magic + "\x10\x00\x80\x80\x80\x80\x80\x01\x00\x00\x00\x00", ErrHeader},
		{"dictionary 0", Magic + "\x15\x80\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00", ErrHeader},
		{"dictionary with lz4", Magic + "\x14\x80\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x01", ErrReserved},
		{"dictionary with raw", Magic + "\x10\x80\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x01", ErrReserved},
		{"cut in the tag", Magic + "\x15\x80\x00" + "\x00\x00\x00\x00", ErrTruncated},
		{"cut in the number", Magic + "\x15\x80\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00", ErrTruncated},
		{"extension missing", Magic + "\x10\x01\x00\x00\x00\x00\x00", ErrTruncated},
	} {
		h, err := ParseHeader([]byte(c.in))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if c.want != ErrNotSealed && !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v is not ErrDamaged", c.name, err)
		}
		if h.Len != 0 || h.RawLen != 0 || h.Ext != nil {
			t.Errorf("%s: a header came with the error: %+v", c.name, h)
		}
	}
}

// A parsed header marshals to the same bytes: fields have only one encoding.
func FuzzHeader(f *testing.F) {
	f.Add([]byte(Magic + "\x10\x00\x00\x00\x00\x00\x00"))
	f.Add(Header{Version: Version, Codec: codec.Zstd, HasDict: true, Dict: 5, RawLen: 1 << 30, Ext: noise(60)}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHeader(b)
		if err != nil {
			if IsSealed(b) != errors.Is(err, ErrDamaged) {
				t.Fatalf("% x: %v", b, err)
			}
			return
		}
		if out := h.Append(nil); !bytes.Equal(out, b[:h.Len]) {
			t.Fatalf("% x\nparses to %+v\nwhich is % x", b[:h.Len], h, out)
		}
		if h.Len > MaxHeaderLen {
			t.Fatalf("header of %d bytes", h.Len)
		}
		first, err := ParseHeader(b[:min(len(b), MaxHeaderLen)])
		if err != nil || first.Len != h.Len {
			t.Fatalf("the first %d bytes are not enough: %v", MaxHeaderLen, err)
		}
	})
}

func TestParseHeaderDoesNotAllocate(t *testing.T) {
	b := Header{Version: Version, Codec: codec.Zstd, HasDict: true, Dict: 5, RawLen: 1 << 30, Ext: noise(8)}.Append(nil)
	buf := make([]byte, 0, MaxHeaderLen)
	if n := testing.AllocsPerRun(100, func() {
		h, err := ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		buf = h.Append(buf[:0])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
