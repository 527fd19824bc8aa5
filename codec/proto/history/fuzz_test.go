package history

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/cinch-layer/cinch/codec/codectest"
)

// FuzzSession checks that any sequence of messages is restored byte for byte. cuts determines where the input
// is cut into messages.
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

// fuzzLimits returns the limits selected by a number.
func fuzzLimits(n byte) *limits {
	return []*limits{&smallLimits, &byteLimits, &formatLimits}[n%3]
}

// FuzzWarm checks that messages of programs, which fill and exceed small tables, are restored byte for byte,
// and that the tables stay consistent.
func FuzzWarm(f *testing.F) {
	for _, p := range programs {
		f.Add(byte(0), []byte(p))
		f.Add(byte(1), []byte(p))
	}
	f.Fuzz(func(t *testing.T, n byte, data []byte) {
		s := newSession(fuzzLimits(n))
		for _, m := range programMessages(data, 1<<12) {
			s.send(t, m)
			s.w.check(t)
			s.r.check(t)
		}
	})
}

// FuzzRead checks that hostile bytes in the middle of a session are refused, or decoded to no more than the
// limit.
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

// FuzzHostile tests a session whose writer sends any bytes, with correct lengths and checksums. They must be
// refused, or decoded to no more than the limit, and the tables must stay consistent. The decoded messages
// are sent through another session.
func FuzzHostile(f *testing.F) {
	for warm := range byte(8) {
		h := newHostile(f, warm)
		for i, m := range [][]byte{points(9), spans(rand.New(rand.NewPCG(1, 1)), 20), deep(9), codectest.NestedRecords(1, 50, 4), anything(rand.New(rand.NewPCG(4, 4)), 3)} {
			if sent := h.s.send(f, m); sent[0] != formPlain {
				parts, _ := parseHead(sent[1:], len(m))
				f.Add(warm, parts.coded, parts.text, i*5)
			}
		}
	}
	f.Fuzz(func(t *testing.T, warm byte, coded, text []byte, cut int) {
		h := newHostile(t, warm)
		cut = min(max(cut, 0), len(coded))
		for _, coded := range [][]byte{coded[cut:], coded[:cut], coded} {
			if !h.send(t, coded, text) {
				return
			}
		}
	})
}

// hostile is a session whose writer sends arbitrary bytes.
type hostile struct {
	r    Reader
	twin decoder // decodes the same as r
	s    *session
}

const hostileLimit = 1 << 13

// newHostile returns a session whose ends have processed some messages, and another session that has
// processed the same.
func newHostile(t testing.TB, warm byte) *hostile {
	l := fuzzLimits(warm / 4)
	h := &hostile{s: newSession(l)}
	h.r.limits, h.twin.limits = l, l
	var all [][]byte
	switch warm % 4 {
	case 1:
		for at := range 2 {
			all = append(all, points(at))
		}
	case 2:
		all = programMessages([]byte(programs[int(warm/12)%len(programs)]), 1<<11)
	case 3:
		all = append(all, codectest.NestedRecords(1, 35, 3))
	}
	for _, m := range all {
		sent := h.s.send(t, m)
		if _, err := h.r.Append(nil, sent, len(m)); err != nil {
			t.Fatal(err)
		}
		if sent[0] == formPlain {
			continue
		}
		if sent[0] == formBegin {
			h.twin.reset()
		}
		parts, _ := parseHead(sent[1:], len(m))
		if _, err := h.twin.message(nil, parts.coded, parts.text, parts.raw); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// send makes the reader decode a message with that coded and text, as far as they are read, and reports
// whether it succeeded.
func (h *hostile) send(t testing.TB, coded, text []byte) bool {
	form := byte(formNext)
	if !h.r.begun {
		form = formBegin
		h.twin.reset()
	}
	d := &h.twin
	d.out, d.most, d.text = nil, hostileLimit, text
	d.chain, d.parts, d.bases = d.chain[:0], d.parts[:0], d.bases[:0]
	d.beginRead(coded)
	d.beginMessage()
	_, _, err := d.content(0, 0, here{}, nil)
	made := d.out
	if err == nil && !d.bad && len(made) <= hostileLimit {
		coded, text = coded[:min(d.at, len(coded))], text[:len(text)-len(d.text)]
	}
	sent := binary.AppendUvarint([]byte{form}, uint64(min(len(made), hostileLimit)))
	sent = binary.LittleEndian.AppendUint32(sent, crc32.Checksum(made, castagnoli))
	sent = append(binary.AppendUvarint(sent, uint64(len(coded))), coded...)
	out, err := h.r.Append([]byte("x"), append(sent, text...), hostileLimit)
	if err != nil {
		if string(out) != "x" {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
		return false
	}
	if !bytes.Equal(out[1:], made) {
		t.Fatalf("%d bytes, and %d for a reader without a limit", len(out)-1, len(made))
	}
	h.r.check(t)
	h.s.send(t, made)
	h.s.w.check(t)
	h.s.r.check(t)
	return true
}
