package codectest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

// maxFuzzLen limits the raw length that a fuzzed payload may claim, in bytes.
const maxFuzzLen = 1 << 20

// FuzzDecompress feeds arbitrary bytes, with any claimed length and algorithm, to an engine: it must not
// panic, and must return exactly that length or an error.
func FuzzDecompress(f *testing.F, z codec.ZstdCoder) {
	e := codec.New(codec.Options{Zstd: z})
	dicts := Dicts(f)
	chosen := []*codec.Dict{nil, dicts["raw content"], dicts["trained by go"]}
	seedPayloads(f, e, chosen)
	f.Fuzz(func(t *testing.T, id, dict uint8, rawLen uint32, payload []byte) {
		d := chosen[int(dict)%len(chosen)]
		n := int(rawLen % maxFuzzLen)
		dst := append(make([]byte, 0, 4+n), "kept"...)
		out, err := e.Decompress(dst, payload, codec.ID(id), n, d)
		if !bytes.HasPrefix(out, []byte("kept")) {
			t.Fatal("what was in dst is gone")
		}
		if err == nil && len(out) != 4+n || err != nil && len(out) != 4 {
			t.Fatalf("%d bytes for %d, %v", len(out)-4, n, err)
		}
		if err != nil && !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, codec.ErrUnknownCodec) && !errors.Is(err, codec.ErrDictionary) {
			t.Fatalf("an error without a class: %v", err)
		}
	})
}

func seedPayloads(f *testing.F, e *codec.Engine, dicts []*codec.Dict) {
	for id := codec.Raw; id.Known(); id++ {
		for i, d := range dicts {
			s := codec.Setting{Codec: id}
			if d != nil {
				if id != codec.Zstd {
					continue
				}
				s.Dict = d.Number()
			}
			for _, n := range []int{0, 20, 700, 140_000} {
				payload, err := e.Compress(nil, Mixed(n, 0), s, d)
				if err != nil {
					f.Fatal(err)
				}
				if len(payload) < 20_000 {
					f.Add(uint8(id), uint8(i), uint32(n), payload)
				}
			}
		}
	}
}

// FuzzRoundTrip compresses arbitrary bytes by any algorithm and decompresses them again.
func FuzzRoundTrip(f *testing.F, z codec.ZstdCoder) {
	e := codec.New(codec.Options{Zstd: z})
	dicts := Dicts(f)
	chosen := []*codec.Dict{nil, dicts["raw content"], dicts["trained by go"]}
	known := uint8(0)
	for codec.ID(known).Known() {
		f.Add(known, known, uint8(0), JSON(500, uint64(known)))
		known++
	}
	f.Fuzz(func(t *testing.T, id, level, dict uint8, value []byte) {
		s := codec.Setting{Codec: codec.ID(id % known)}
		s.Level = int(level) % (min(s.Codec.MaxLevel(), 9) + 1)
		var d *codec.Dict
		if s.Codec == codec.Zstd {
			if d = chosen[int(dict)%len(chosen)]; d != nil {
				s.Dict = d.Number()
			}
		}
		payload, err := e.Compress(nil, value, s, d)
		if err != nil {
			t.Fatal(err)
		}
		out, err := e.Decompress(nil, payload, s.Codec, len(value), d)
		if err != nil || !bytes.Equal(out, value) {
			t.Fatalf("%s: came back wrong: %v", s, err)
		}
	})
}
