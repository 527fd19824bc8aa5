package proto

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// FuzzRoundTrip checks that any message is restored byte for byte, and that its encoded form is hardly
// longer.
func FuzzRoundTrip(f *testing.F) {
	f.Add(records(3, 1))
	f.Add(records(40, 2))
	f.Add(deep(30))
	f.Add(manyShapes(70))
	f.Add([]byte("text"))
	for seed := range uint64(8) {
		f.Add(anything(rand.New(rand.NewPCG(seed, 3)), 3))
	}
	e, d := NewEncoder(Options{}), NewDecoder(Options{})
	f.Fuzz(func(t *testing.T, message []byte) {
		if sealed := roundTrip(t, e, d, message); len(sealed) > len(message)+8 {
			t.Fatalf("%d bytes became %d", len(message), len(sealed))
		}
		// Messages that are sent plain are tested as columns too.
		if !e.run(message) {
			return
		}
		e.assemble()
		out, err := d.run(nil, e.columns, len(message))
		if err != nil || !bytes.Equal(out, message) {
			t.Fatalf("columns: %v, %d bytes of %d", err, len(out), len(message))
		}
	})
}

// FuzzColumns checks that any columns are decoded to the declared length.
func FuzzColumns(f *testing.F) {
	e := NewEncoder(Options{})
	for seed := range uint64(12) {
		message := records(int(seed)*5, seed)
		if seed >= 6 {
			message = anything(rand.New(rand.NewPCG(seed, 4)), 3)
		}
		if e.run(message) {
			e.assemble()
			f.Add(bytes.Clone(e.columns), len(message))
		}
	}
	var d columnDecoder
	f.Fuzz(func(t *testing.T, columns []byte, raw int) {
		if raw < 0 || raw > 1<<20 {
			return
		}
		out, err := d.run([]byte("x"), columns, raw)
		if err != nil {
			if string(out) != "x" {
				t.Fatal("an error and bytes")
			}
			return
		}
		if len(out) != 1+raw {
			t.Fatalf("%d bytes instead of %d", len(out)-1, raw)
		}
		// The result is a message; its columns may have been another encoding of it.
		roundTrip(t, e, NewDecoder(Options{Engine: e.options.Engine}), out[1:])
	})
}

// FuzzOpen checks that hostile messages are refused, or decoded to no more than the limit.
func FuzzOpen(f *testing.F) {
	e := NewEncoder(Options{})
	for _, m := range [][]byte{nil, []byte("short"), records(5, 1), records(50, 2)} {
		f.Add(e.Append(nil, m))
	}
	d := NewDecoder(Options{})
	f.Fuzz(func(t *testing.T, sealed []byte) {
		const limit = 1 << 20
		out, err := d.Append(nil, sealed, limit)
		if err == nil && len(out) > limit || err != nil && out != nil {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
	})
}
