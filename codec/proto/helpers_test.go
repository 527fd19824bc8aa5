package proto

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// roundTrip compresses and decompresses a message, and returns the compressed form.
func roundTrip(t testing.TB, e *Encoder, d *Decoder, message []byte) []byte {
	t.Helper()
	prefix := []byte("before")
	sealed := e.Append(bytes.Clone(prefix), message)
	if !bytes.HasPrefix(sealed, prefix) {
		t.Fatal("what was there before is gone")
	}
	sealed = sealed[len(prefix):]
	opened, err := d.Append(bytes.Clone(prefix), sealed, len(message))
	if err != nil {
		t.Fatalf("%d bytes: %v", len(message), err)
	}
	if !bytes.HasPrefix(opened, prefix) || !bytes.Equal(opened[len(prefix):], message) {
		t.Fatalf("%d bytes came back otherwise", len(message))
	}
	return sealed
}

// Functions that append fields.

func varintField(b []byte, n int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(n)<<3), v)
}

func fixed64Field(b []byte, n int, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.AppendUvarint(b, uint64(n)<<3|pbwire.Fixed64Type), v)
}

func fixed32Field(b []byte, n int, v uint32) []byte {
	return binary.LittleEndian.AppendUint32(binary.AppendUvarint(b, uint64(n)<<3|pbwire.Fixed32Type), v)
}

func bytesField[T string | []byte](b []byte, n int, v T) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(n)<<3|pbwire.BytesType), uint64(len(v)))
	return append(b, v...)
}

// record returns a message of a kind that services send: named attributes, numbers, times.
func record(rng *rand.Rand, i int) []byte {
	var b []byte
	b = bytesField(b, 1, fmt.Sprintf("record %d", i/3))
	for a := range 2 + rng.IntN(4) {
		pair := bytesField(nil, 1, fmt.Sprintf("attribute.%d", a))
		pair = bytesField(pair, 2, fmt.Sprintf("value %d", rng.IntN(5)))
		b = bytesField(b, 2, pair)
	}
	b = varintField(b, 3, uint64(i)*100)
	b = fixed64Field(b, 4, uint64(1_790_000_000_000_000_000+i*1_000_003))
	b = fixed64Field(b, 5, math.Float64bits(float64(rng.IntN(100_000))/100))
	b = fixed32Field(b, 6, uint32(rng.IntN(4)))
	for range rng.IntN(3) {
		b = varintField(b, 7, uint64(rng.IntN(1000)))
	}
	if rng.IntN(2) == 0 {
		b = bytesField(b, 8, "")
	}
	return b
}

// records returns a message of n records.
func records(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	var b []byte
	for i := range n {
		b = bytesField(b, 1, record(rng, i))
	}
	return b
}

// anything returns a message of random structure, up to the given depth.
func anything(rng *rand.Rand, depth int) []byte {
	var b []byte
	for range rng.IntN(12) {
		n := 1 + rng.IntN(6)
		for range 1 + rng.IntN(3)*rng.IntN(3) {
			switch rng.IntN(6) {
			case 0:
				b = varintField(b, n, rng.Uint64()>>rng.IntN(64))
			case 1:
				b = fixed64Field(b, n, rng.Uint64()>>rng.IntN(64))
			case 2:
				b = fixed32Field(b, n, uint32(rng.Uint64()>>(32+rng.IntN(32))))
			case 3:
				b = bytesField(b, n, randomBytes(rng, rng.IntN(40)))
			default:
				if depth > 0 {
					b = bytesField(b, n, anything(rng, depth-1))
				}
			}
		}
	}
	return b
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// grown returns how many bytes f allocates.
func grown(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
