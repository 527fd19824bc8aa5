package proto

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// packedOf returns the content of a packed field.
func packedOf(wire uint8, numbers ...uint64) (b []byte) {
	for _, v := range numbers {
		switch wire {
		case pbwire.Fixed64Type:
			b = binary.LittleEndian.AppendUint64(b, v)
		case pbwire.Fixed32Type:
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		default:
			b = binary.AppendUvarint(b, v)
		}
	}
	return b
}

// Packed numbers are coded as numbers: they take less than as bytes.
func TestPacked(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	numbers := func(n int, f func(i int) uint64) (all []uint64) {
		for i := range n {
			all = append(all, f(i))
		}
		return all
	}
	e, d := NewEncoder(Options{}), NewDecoder(Options{})
	for _, c := range []struct {
		name string
		wire uint8
		of   func(i int) uint64
		most float64 // maximum length, as a fraction of zstd's
	}{
		{"counts", pbwire.Fixed64Type, func(int) uint64 { return uint64(rng.ExpFloat64() * 300) }, 0.85},
		{"decimals", pbwire.Fixed64Type, func(int) uint64 { return math.Float64bits(float64(rng.IntN(20_000)) / 100) }, 0.7},
		{"times", pbwire.Fixed64Type, func(i int) uint64 { return 1_790_000_000_000_000_000 + uint64(i)*1e9 + uint64(rng.IntN(1e6)) }, 0.9},
		{"small ones", pbwire.Fixed32Type, func(int) uint64 { return uint64(rng.IntN(5000)) }, 0.9},
		{"growing", pbwire.VarintType, func(i int) uint64 { return 1_000_000_000 + uint64(i)*1000 + uint64(rng.IntN(100)) }, 0.6},
		{"random", pbwire.Fixed64Type, func(int) uint64 { return rng.Uint64() }, 1.01},
	} {
		var message []byte
		for i := range 60 {
			m := varintField(nil, 1, uint64(i))
			m = bytesField(m, 2, packedOf(c.wire, numbers(10+rng.IntN(10), c.of)...))
			message = bytesField(message, 1, m)
		}
		got, plain := len(roundTrip(t, e, d, message)), len(e.appendPlain(nil, message))
		if most := int(float64(plain) * c.most); got > most+4 {
			t.Errorf("%s: %d bytes of %d, more than %d; with zstd alone %d", c.name, got, len(message), most, plain)
		}
	}
}

func TestPackedAs(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, s := range []string{
		"", "text", "a longer text that means nothing", "Ünïcödé ist überall möglich, größer",
		string(randomBytes(rng, 8)), string(randomBytes(rng, 16)), string(randomBytes(rng, 400)),
	} {
		if wire, _, ok := pbwire.PackedAs([]byte(s)); ok {
			t.Errorf("%q is taken for numbers of type %d", s, wire)
		}
	}
}

// Values that look packed at first, or happen to be a valid message too, and values of one node that are packed in
// several ways, are restored.
func TestPackedMixed(t *testing.T) {
	e, d := NewEncoder(Options{Stored: true}), NewDecoder(Options{})
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var message []byte
		for i := range 40 {
			var content []byte
			switch rng.IntN(6) {
			case 0:
				content = packedOf(pbwire.Fixed64Type, uint64(i), 2, 3, uint64(rng.IntN(9)))
			case 1:
				content = packedOf(pbwire.Fixed32Type, uint64(i), 2, 3, 4, 5)
			case 2:
				content = packedOf(pbwire.VarintType, 1<<40, 1<<40+uint64(i), 1<<40+3, 0)
			case 3:
				content = append(packedOf(pbwire.Fixed64Type, make([]uint64, 20)...), randomBytes(rng, rng.IntN(9))...)
			case 4:
				content = varintField(bytesField(nil, 1, fmt.Sprint(i)), 2, 5)
			case 5:
				content = bytes.Repeat([]byte{byte(i)}, rng.IntN(40))
			}
			message = bytesField(message, 1+rng.IntN(2), content)
		}
		roundTrip(t, e, d, bytesField(nil, 1, message))
		roundTrip(t, e, d, message)
	}
}
