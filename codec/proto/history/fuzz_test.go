package history

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// FuzzSession: any messages, one after another, come back byte for byte. cuts says where they are cut.
func FuzzSession(f *testing.F) {
	f.Add(bytes.Join([][]byte{scrape(1, 1), scrape(1, 2), scrape(2, 2)}, nil), uint64(1))
	f.Add(bytes.Join([][]byte{points(1), points(2), points(6), points(9)}, nil), uint64(4))
	f.Add(deep(20), uint64(2))
	f.Add(manyShapes(0, 70), uint64(3))
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 3))
		f.Add(append(anything(rng, 3), spans(rng, 9)...), seed)
	}
	f.Fuzz(func(t *testing.T, all []byte, cuts uint64) {
		var s session
		rng := rand.New(rand.NewPCG(cuts, 1))
		for len(all) > 0 {
			n := 1 + rng.IntN(len(all))
			for range 1 + rng.IntN(3) {
				s.send(t, all[:n])
			}
			all = all[n:]
		}
	})
}

// FuzzRead: hostile bytes in the middle of a session are refused, or open to no more than the limit.
func FuzzRead(f *testing.F) {
	var w Writer
	var before [][]byte
	for _, m := range [][]byte{scrape(1, 1), points(1), points(2), points(6)} {
		before = append(before, w.Append(nil, m))
	}
	f.Add(w.Append(nil, points(9)))
	f.Add(w.Append(nil, scrape(1, 2)))
	f.Add(w.Append(nil, spans(rand.New(rand.NewPCG(1, 1)), 20)))
	f.Add(w.Append(nil, deep(9)))
	f.Add(before[0])
	f.Add([]byte("\x20plain"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		const limit = 1 << 16
		var r Reader
		for _, m := range before {
			if _, err := r.Append(nil, m, limit); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			out, err := r.Append([]byte("x"), sent, limit)
			if err == nil && len(out) > 1+limit || err != nil && string(out) != "x" {
				t.Fatalf("%d bytes, %v", len(out), err)
			}
		}
	})
}

// FuzzCoded: whatever is coded, what comes out has the length that it should have, and is a message.
func FuzzCoded(f *testing.F) {
	for seed := range uint64(6) {
		var e encoder
		e.begin()
		if m := anything(rand.New(rand.NewPCG(seed, 4)), 3); e.message(m) {
			f.Add(bytes.Clone(e.end()), bytes.Clone(e.text), len(m))
		}
	}
	f.Fuzz(func(t *testing.T, coded, text []byte, raw int) {
		if raw < 0 || raw > 1<<16 {
			return
		}
		var d decoder
		d.reset()
		out, err := d.message([]byte("x"), coded, text, raw)
		if err != nil {
			return
		}
		if len(out) != 1+raw {
			t.Fatalf("%d bytes instead of %d", len(out)-1, raw)
		}
		var s session
		s.send(t, out[1:])
	})
}
