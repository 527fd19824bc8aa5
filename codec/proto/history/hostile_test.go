package history

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// A reader is unusable after an error.
func TestErrorsStay(t *testing.T) {
	var w Writer
	var r Reader
	first, second := w.Append(nil, scrape(1, 1)), w.Append(nil, scrape(1, 2))
	if _, err := new(Reader).Append(nil, second, 1<<20); !errors.Is(err, ErrCorrupt) {
		t.Errorf("without the first one: %v", err)
	}
	if _, err := new(Reader).Append(nil, first, 10); !errors.Is(err, ErrTooLarge) {
		t.Errorf("with a limit of 10: %v", err)
	}
	broken := bytes.Clone(first)
	broken[len(broken)/2] ^= 1
	if out, err := r.Append([]byte("x"), broken, 1<<20); !errors.Is(err, ErrCorrupt) || string(out) != "x" {
		t.Errorf("damaged: %v", err)
	}
	if _, err := r.Append(nil, first, 1<<20); !errors.Is(err, ErrCorrupt) {
		t.Errorf("after an error: %v", err)
	}
	for _, bad := range [][]byte{{}, {0x10, 0, 0}, {0x11}, {0x12}, {0x23}, {formBegin}, {formBegin, 5}, {formBegin, 5, 0, 0, 0, 0, 9}} {
		if _, err := new(Reader).Append(nil, bad, 1<<20); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%x: %v", bad, err)
		}
	}
}

// A missing or repeated message is detected.
func TestOrder(t *testing.T) {
	var w Writer
	var sent [][]byte
	for at := range 8 {
		sent = append(sent, w.Append(nil, scrape(1, at)))
	}
	for _, order := range [][]int{{0, 2}, {0, 1, 1}, {0, 1, 3}} {
		var r Reader
		var err error
		for _, i := range order {
			_, err = r.Append(nil, sent[i], 1<<20)
		}
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%v: %v", order, err)
		}
	}
}

// Random bytes as coded data: decoding ends, with memory in proportion to the stated length.
func TestRandomCoded(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const raw = 1 << 20
	for range 300 {
		var d decoder
		d.reset()
		grew := grown(func() {
			for range 3 {
				coded := randomBytes(rng, rng.IntN(4000))
				if rng.IntN(3) == 0 {
					coded = bytes.Repeat(coded[:min(len(coded), 9)], 300)
				}
				if _, err := d.message(nil, coded, randomBytes(rng, rng.IntN(4000)), raw); err == nil {
					t.Fatal("random bytes are a message")
				}
			}
		})
		if !raceEnabled && grew > 200<<20 {
			t.Fatalf("%d bytes", grew)
		}
	}
}

// A record with many runs that are empty now: the work is in proportion to the length, not to the maximum
// size of a record.
func TestEmptyRuns(t *testing.T) {
	run := func(n, of int) (b []byte) {
		for i := range of {
			b = bytesField(b, n, varintField(nil, 1, uint64(i+1)))
		}
		return b
	}
	var s session
	for i := range 30 {
		var b []byte
		for range 40 {
			m := varintField(run(2, 3), 1, uint64(i))
			for n := range 12 {
				m = append(m, run(3+n, 2)...)
			}
			b = bytesField(b, 1, m)
		}
		s.send(t, b)
	}
	for id, r := range s.w.recs.all {
		runs := 0
		for _, x := range r.steps {
			if x.kind == stepRun {
				runs++
			}
		}
		if runs > maxRecordRuns {
			t.Errorf("record %d has %d runs", id, runs)
		}
	}
}
