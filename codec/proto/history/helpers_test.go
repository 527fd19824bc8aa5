package history

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

// session is both ends of a link.
type session struct {
	w Writer
	r Reader
}

// send sends a message through the session, and returns its encoded form.
func (s *session) send(t testing.TB, message []byte) []byte {
	t.Helper()
	prefix := []byte("before")
	sent := s.w.Append(bytes.Clone(prefix), message)
	if !bytes.HasPrefix(sent, prefix) {
		t.Fatal("what was there before is gone")
	}
	sent = sent[len(prefix):]
	got, err := s.r.Append(bytes.Clone(prefix), sent, len(message))
	if err != nil {
		t.Fatalf("%d bytes: %v", len(message), err)
	}
	if !bytes.HasPrefix(got, prefix) || !bytes.Equal(got[len(prefix):], message) {
		t.Fatalf("%d bytes came back otherwise", len(message))
	}
	return sent
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

func label(name, value string) []byte { return bytesField(bytesField(nil, 1, name), 2, value) }

// scrape returns a message of the series of one instance at a time: with numbers before labels, like OTLP,
// and after them, like remote write.
func scrape(instance, at int) (b []byte) {
	rng := rand.New(rand.NewPCG(uint64(instance), uint64(at)))
	for metric := range 12 {
		m := bytesField(nil, 1, fmt.Sprintf("metric.number.%d", metric))
		for cpu := range 4 {
			p := fixed64Field(nil, 2, 1_790_000_000_000_000_000)
			p = fixed64Field(p, 3, 1_790_000_000_000_000_000+uint64(at)*15_000_000_000)
			if metric%2 == 0 {
				p = fixed64Field(p, 4, math.Float64bits(float64(at*(cpu+1)*100+rng.IntN(100))/100))
			} else {
				p = varintField(p, 6, uint64(at*cpu*1000))
			}
			p = bytesField(p, 7, label("instance", fmt.Sprintf("10.0.0.%d:9100", instance)))
			p = bytesField(p, 7, label("cpu", fmt.Sprint(cpu)))
			p = fixed32Field(p, 8, 0)
			m = bytesField(m, 7, p)
		}
		m = bytesField(m, 9, packedOf(pbwire.Fixed64Type, uint64(at), uint64(at+metric), 7, 0))
		b = bytesField(b, 2, m)
	}
	return b
}

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

// spans returns messages whose ids name each other across fields.
func spans(rng *rand.Rand, n int) (b []byte) {
	parent := randomBytes(rng, 8)
	for range n {
		id := randomBytes(rng, 8)
		m := bytesField(bytesField(bytesField(nil, 1, id), 2, parent), 3, []string{"get", "put", "list"}[rng.IntN(3)])
		m = fixed64Field(m, 4, 1_790_000_000_000_000_000+rng.Uint64N(1e12))
		m = bytesField(m, 5, label("key", fmt.Sprint(rng.IntN(30))))
		b = bytesField(b, 1, m)
		if rng.IntN(3) == 0 {
			parent = id
		}
	}
	return b
}

// deep returns n nested messages.
func deep(n int) []byte {
	b := varintField(nil, 1, 7)
	for range n {
		b = bytesField(b[:0:0], 2, append(bytes.Clone(b), "\x10\x01"...))
	}
	return b
}

// manyShapes returns a message of messages with different fields each, from the given one on.
func manyShapes(from, n int) (b []byte) {
	for i := range n {
		m := varintField(nil, 1, uint64(i))
		for bit := range 16 {
			if (from+i)>>bit&1 != 0 {
				m = varintField(m, 2+bit, 1)
			}
		}
		b = bytesField(b, 1, m)
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
