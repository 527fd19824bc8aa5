package proto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// All messages are restored, and repeated structure is split into columns.
func TestRecords(t *testing.T) {
	e, d := NewEncoder(Options{}), NewDecoder(Options{})
	for _, n := range []int{1, 2, 3, 31, 32, 33, 100, 1000, 5000} {
		message := records(n, uint64(n))
		sealed := roundTrip(t, e, d, message)
		if n >= 1000 && (sealed[0] != formColumns || len(sealed)*10 > len(message)) {
			t.Errorf("%d records: %d of %d bytes, form %x", n, len(sealed), len(message), sealed[0])
		}
	}
}

// Messages that are not protobuf in its shortest form, or only nearly so, are restored.
func TestStrangeMessages(t *testing.T) {
	good := records(200, 1)
	strange := map[string][]byte{
		"nothing":            {},
		"one byte":           {0},
		"field number 0":     append(bytes.Clone(good), 0, 0),
		"a group":            append(bytes.Clone(good), 1<<3|3, 1<<3|4),
		"wire type 7":        append(bytes.Clone(good), 1<<3|7),
		"cut off":            good[:len(good)-1],
		"a long tag":         append(bytes.Clone(good), 0x88, 0x00, 1),
		"a long length":      append(bytes.Clone(good), 1<<3|2, 0x81, 0x00, 'x'),
		"a long varint":      append(bytes.Clone(good), 3<<3, 0x80, 0x00),
		"an endless varint":  append(bytes.Clone(good), 3<<3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"a large varint":     append(bytes.Clone(good), 3<<3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
		"a huge field":       fixed32Field(bytes.Clone(good), 1<<28, 1),
		"text":               []byte(strings.Repeat("no protobuf at all, but long enough to be tried. ", 100)),
		"zeros":              make([]byte, 10_000),
		"many fields":        bytes.Repeat([]byte{1 << 3, 1}, 200_000),
		"many empty values":  bytes.Repeat([]byte{1<<3 | 2, 0}, 50_000),
		"many nodes":         manyNodes(3000),
		"many shapes":        manyShapes(3000),
		"deep":               deep(60),
		"damaged in between": damaged(),
	}
	for name, message := range strange {
		t.Run(name, func(t *testing.T) {
			roundTrip(t, NewEncoder(Options{}), NewDecoder(Options{}), message)
		})
	}
}

func manyNodes(n int) (b []byte) {
	for i := range n {
		b = bytesField(b, 1+i%50, varintField(varintField(nil, 1+i%60, 5), 100+i%2000, 6))
	}
	return b
}

func manyShapes(n int) (b []byte) {
	for i := range n {
		var m []byte
		for bit := range 12 {
			if i>>bit&1 != 0 {
				m = varintField(m, 1+bit, uint64(i))
			}
		}
		b = bytesField(b, 1, m)
	}
	return b
}

func deep(n int) []byte {
	b := bytesField(nil, 1, "the innermost value")
	for range n {
		b = bytesField(bytesField(nil, 1, b), 2, "beside")
	}
	return b
}

// damaged returns records of which one in seven is not a message.
func damaged() []byte {
	var b []byte
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 200 {
		r := record(rng, i)
		if i%7 == 0 {
			r = r[:len(r)-1]
		}
		b = bytesField(b, 1, r)
	}
	return b
}

func TestRandomMessages(t *testing.T) {
	e, d := NewEncoder(Options{}), NewDecoder(Options{})
	columns := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		message := anything(rng, 3)
		if seed%5 == 0 {
			message = bytes.Repeat(message, 20)
		}
		if len(message) > 0 && seed%7 == 0 {
			message[rng.IntN(len(message))] ^= byte(rng.Uint32())
		}
		roundTrip(t, e, d, message)
		if !e.run(message) { // test the columns of messages that are shorter without, too
			continue
		}
		columns++
		e.assemble()
		if out, err := d.run(nil, e.columns, len(message)); err != nil || !bytes.Equal(out, message) {
			t.Fatalf("%d: %v, %d bytes of %d", seed, err, len(out), len(message))
		}
	}
	if columns < 1000 {
		t.Errorf("only %d of 2000 were taken apart", columns)
	}
}

// Values at the limits of what is kept, and lengths whose varint grows, are restored.
func TestLengths(t *testing.T) {
	e, d := NewEncoder(Options{}), NewDecoder(Options{})
	for _, n := range []int{0, 1, 126, 127, 128, 129, maxValueBytes - 1, maxValueBytes, maxValueBytes + 1, 16383, 16384} {
		var b []byte
		for i := range 80 {
			inner := bytesField(varintField(nil, 1, uint64(i%9)), 2, strings.Repeat("x", max(n-i%3, 0)))
			b = bytesField(b, 1, inner)
			b = bytesField(b, 2, strings.Repeat("y", n))
		}
		roundTrip(t, e, d, b)
	}
}

// The last message of a node is much shorter than the previous one, so that its length has fewer bytes.
func TestLastIsShorter(t *testing.T) {
	e, d := NewEncoder(Options{}), NewDecoder(Options{})
	for _, n := range []int{10, 100, 1000, 10_000} {
		for deep := range 4 {
			long, short := records(n, 3), []byte{7 << 3, 1}
			for range deep {
				long, short = bytesField(nil, 1, long), bytesField(nil, 1, short)
			}
			roundTrip(t, e, d, bytesField(bytesField(nil, 1, long), 1, short))
		}
	}
}

func TestNumbers(t *testing.T) {
	e, d := NewEncoder(Options{}), NewDecoder(Options{})
	special := []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 0.5, 1e-3, 123.456, 1e15, 1e15 + 2, -1e15, 1e16, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, math.SmallestNonzeroFloat64, 1.0 / 3, 999999.999999}
	var b []byte
	for i := range 400 {
		f := special[i%len(special)]
		b = fixed64Field(b, 1, math.Float64bits(f))
		b = fixed64Field(b, 2, uint64(i)*uint64(math.Float64bits(f)))
		b = fixed32Field(b, 3, uint32(i)<<(i%32))
		b = varintField(b, 4, math.MaxUint64>>(i%64))
		b = varintField(b, 5, uint64(-int64(i)))
	}
	roundTrip(t, e, d, b)
}

func TestDecimal(t *testing.T) {
	for _, c := range []struct {
		f      float64
		digits int
		i      int64
	}{
		{0, 0, 0},
		{12, 0, 12},
		{-12, 0, -12},
		{1.5, 1, 15},
		{0.1, 1, 1},
		{2.25, 2, 225},
		{-1234.567, 3, -1234567},
		{0.000123, 6, 123},
		{1e15, 0, 1e15},
	} {
		digits, u := decimal(math.Float64bits(c.f))
		if digits != c.digits || int64(pbwire.Unzigzag(u)) != c.i {
			t.Errorf("%v: %d digits, %d", c.f, digits, int64(pbwire.Unzigzag(u)))
		}
		if back, ok := fromDecimal(digits, u); !ok || back != math.Float64bits(c.f) {
			t.Errorf("%v came back as %v", c.f, math.Float64frombits(back))
		}
	}
	for _, f := range []float64{math.Copysign(0, -1), 1.0 / 3, 1.1e15, -1e300, math.NaN(), math.Inf(1), 1e-7} {
		if digits, _ := decimal(math.Float64bits(f)); digits != pbwire.NotDecimal {
			t.Errorf("%v has %d digits", f, digits)
		}
	}
	if _, ok := fromDecimal(4, 1); ok {
		t.Error("a kind that there is not")
	}
}

// All general codecs can be used, also for messages that none can make shorter.
func TestCodecs(t *testing.T) {
	message := records(300, 3)
	rng := rand.New(rand.NewPCG(8, 9))
	noise := randomBytes(rng, 5000)
	for _, name := range []string{"zstd", "zstd-3", "s2", "minlz", "lz4", "snappy"} {
		s, err := codec.ParseSetting(name)
		if err != nil {
			t.Fatal(err)
		}
		e, d := NewEncoder(Options{Setting: s}), NewDecoder(Options{})
		if sealed := roundTrip(t, e, d, message); sealed[0] != formColumns || codec.ID(sealed[1]) != s.Codec {
			t.Errorf("%s: % x", name, sealed[:2])
		}
		if sealed := roundTrip(t, e, d, noise); len(sealed) > len(noise)+5 {
			t.Errorf("%s: %d bytes of noise became %d", name, len(noise), len(sealed))
		}
	}
}

// One encoder and decoder handle one message after another, with long ones in between.
func TestReuse(t *testing.T) {
	e, d := NewEncoder(Options{}), NewDecoder(Options{})
	long := records(60_000, 4)
	if len(long) <= keptBytes {
		t.Fatal(len(long))
	}
	want := e.Append(nil, records(50, 5))
	for _, m := range [][]byte{long, nil, records(700, 6), long[:1000], bytes.Repeat([]byte{9}, 100)} {
		roundTrip(t, e, d, m)
	}
	if got := e.Append(nil, records(50, 5)); !bytes.Equal(got, want) {
		t.Error("what came before made a difference")
	}
}

// Messages longer than MaxBytes are streams, which any reader of zstd can read.
func TestLongMessages(t *testing.T) {
	part := records(1000, 7)
	message := bytes.Repeat(part, 1+MaxBytes/len(part))
	e := NewEncoder(Options{})
	sealed := e.Append(nil, message)
	if sealed[0] != FormStream {
		t.Fatalf("form %x of %d bytes", sealed[0], len(message))
	}
	if _, err := NewDecoder(Options{}).Append(nil, sealed, len(message)); !errors.Is(err, ErrStream) {
		t.Error(err)
	}
	whole, err := NewEngine(0).Compress(nil, message, codec.Setting{Codec: codec.Zstd, Level: longLevel}, nil)
	if more := 1 + len(zstdframe.Magic); err != nil || len(sealed) > len(whole)+more {
		t.Errorf("%d bytes, %d of zstd alone, %v", len(sealed), len(whole), err)
	}
	for _, frame := range [][]byte{sealed[1+len(zstdframe.Magic):], zstdRaw(nil, message)} {
		opened, err := codec.New(codec.Options{}).Decompress(nil, frame, codec.Zstd, len(message), nil)
		if err != nil || !bytes.Equal(opened, message) {
			t.Errorf("%d bytes, %v", len(opened), err)
		}
	}
	for _, n := range []int{MaxBytes - 1, MaxBytes} {
		roundTrip(t, e, NewDecoder(Options{}), message[:n])
	}
}

// Messages that each make something else long leave no more memory behind than a single one.
func TestKeptMemory(t *testing.T) {
	e, d := NewEncoder(Options{}), NewDecoder(Options{})
	for i := range 40 {
		var b []byte
		for n := range 40 {
			for range 20 {
				b = bytesField(b, 1+n, strings.Repeat("x", 40+n))
			}
		}
		for j := range 40_000 {
			b = bytesField(b, 1+i, fmt.Sprint(j/2))
		}
		b = bytesField(b, 50+i, bytes.Repeat([]byte{1}, 3<<20))
		roundTrip(t, e, d, b)
	}
	e.emptyColumns()
	columns := 0
	for i := range e.cols {
		for _, c := range e.cols[i] {
			columns += cap(c)
		}
	}
	e.reset(0)
	d.reset(0)
	if columns > 2*keptBytes || e.room > keptRoom || d.room > keptRoom {
		t.Errorf("columns keep %d bytes, lists room for %d and %d values", columns, e.room, d.room)
	}
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	e, d := NewEncoder(Options{}), NewDecoder(Options{})
	message := records(2000, 8)
	sealed := e.Append(nil, message)
	dst := make([]byte, 0, len(message)+1024)
	d.Append(dst, sealed, len(message))
	if n := testing.AllocsPerRun(20, func() { e.Append(dst, message) }); n > 4 {
		t.Errorf("compressing allocates %v times", n)
	}
	if n := testing.AllocsPerRun(20, func() { d.Append(dst, sealed, len(message)) }); n > 4 {
		t.Errorf("opening allocates %v times", n)
	}
}

func TestLimits(t *testing.T) {
	d := NewDecoder(Options{})
	message := records(100, 9)
	sealed := NewEncoder(Options{}).Append(nil, message)
	for _, c := range []struct {
		name string
		src  []byte
		max  int
		want error
	}{
		{"nothing", nil, 10, ErrCorrupt},
		{"one byte", []byte{formPlain}, 10, ErrCorrupt},
		{"another version", append([]byte{0x20}, sealed[1:]...), 1 << 20, ErrCorrupt},
		{"a stream", []byte{FormStream, 1}, 10, ErrStream},
		{"an unknown codec", append([]byte{formPlain, 6}, sealed[2:]...), 1 << 20, ErrCorrupt},
		{"one too long", sealed, len(message) - 1, ErrTooLarge},
		{"a huge length", []byte{formColumns, 5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, 1 << 40, ErrTooLarge},
		{"a negative limit", sealed, -1, ErrTooLarge},
		{"longer than messages may be", binary.AppendUvarint([]byte{formColumns, 5}, MaxBytes+1), math.MaxInt, ErrCorrupt},
		{"something after it", append(bytes.Clone(sealed), 0), 1 << 20, ErrCorrupt},
		{"cut off", sealed[:len(sealed)-1], 1 << 20, ErrCorrupt},
	} {
		if out, err := d.Append([]byte("x"), c.src, c.max); !errors.Is(err, c.want) || string(out) != "x" {
			t.Errorf("%s: %v, %d bytes", c.name, err, len(out))
		}
	}
}

// Damage is detected at any position.
func TestDamage(t *testing.T) {
	message := records(60, 10)
	sealed := NewEncoder(Options{}).Append(nil, message)
	d := NewDecoder(Options{})
	for i := range sealed {
		for _, bit := range []byte{1, 0x80} {
			bad := bytes.Clone(sealed)
			bad[i] ^= bit
			if out, err := d.Append(nil, bad, 2*len(message)); err == nil && !bytes.Equal(out, message) {
				t.Fatalf("byte %d: %d bytes that are not the message", i, len(out))
			}
		}
	}
}

// Hostile columns cannot request more memory than the declared and allowed length.
func TestHostileMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	message := records(20_000, 11)
	e := NewEncoder(Options{})
	if !e.run(message) {
		t.Fatal("no protobuf")
	}
	e.assemble()
	rng := rand.New(rand.NewPCG(12, 13))
	for i := range 60 {
		columns := bytes.Clone(e.columns)
		for range 1 + rng.IntN(20) {
			columns[rng.IntN(len(columns))] = byte(rng.Uint32())
		}
		const raw = 1 << 20
		grew := grown(func() {
			var d columnDecoder
			if out, err := d.run(nil, columns, raw); err == nil && len(out) != raw {
				t.Error("another length")
			}
		})
		if most := uint64(4*raw + 12<<20); grew > most {
			t.Errorf("%d: %d bytes for a message of %d", i, grew, raw)
		}
	}
}
