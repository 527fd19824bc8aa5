package history

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// Series that are scraped again take few bytes.
func TestSeriesAgain(t *testing.T) {
	var s session
	var last int
	for at := range 20 {
		for instance := range 3 {
			last = len(s.send(t, scrape(instance, at)))
		}
	}
	if raw := len(scrape(2, 19)); last*20 > raw {
		t.Errorf("%d bytes of %d", last, raw)
	}
}

func TestKindsOfMessages(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var s session
	for i := range 300 {
		switch i % 7 {
		case 0:
			s.send(t, anything(rng, 3))
		case 1:
			s.send(t, spans(rng, rng.IntN(50)))
		case 2:
			s.send(t, deep(rng.IntN(30)))
		case 3:
			s.send(t, manyShapes(rng.IntN(200), rng.IntN(90)))
		case 4:
			s.send(t, randomBytes(rng, rng.IntN(2000)))
		case 5:
			s.send(t, scrape(rng.IntN(4), i))
		default:
			s.send(t, bytesField(nil, 1, bytes.Repeat([]byte("text "), rng.IntN(900))))
		}
	}
}

// Doubles of all kinds, one after the other, are restored.
func TestDoubles(t *testing.T) {
	odd := []float64{math.Copysign(0, -1), 0, 2.5, 1e15, 1e15 + 1, math.NaN(), math.Inf(-1), -0.001, 1e-300, math.MaxFloat64, 123456.789}
	var s session
	for i := range 50 {
		var b []byte
		for j := range 60 {
			b = fixed64Field(b, 1, math.Float64bits(odd[(i*j*j+j)%len(odd)]))
			b = fixed64Field(b, 2, math.Float64bits(float64(i*j)/1000))
		}
		s.send(t, b)
	}
}

// Unused values, lists and records are forgotten by both sides, and the limits hold.
func TestForgetting(t *testing.T) {
	var s session
	for i := range 60 {
		s.send(t, listsAndRecords(i, i))
		if i > 2 {
			s.send(t, listsAndRecords(i-2, -i))
		}
		m := &s.w.model
		if len(m.values) > m.limits.values || m.bytes > m.limits.valueBytes || len(m.lists) > m.limits.lists || m.members > m.limits.members {
			t.Fatalf("%d values of %d bytes, %d lists of %d", len(m.values), m.bytes, len(m.lists), m.members)
		}
		if len(m.recs.all) > m.limits.records || m.recs.bytes > m.limits.recordBytes {
			t.Fatalf("%d records of %d bytes", len(m.recs.all), m.recs.bytes)
		}
	}
	if m := &s.w.model; m.ofValues.hand == 0 || m.ofLists.hand == 0 || m.recs.hand == 0 {
		t.Error("nothing was forgotten")
	}
}

// listsAndRecords returns a message of recurring lists, of other text, and of records.
func listsAndRecords(of, at int) (b []byte) {
	for j := range 1500 {
		m := bytesField(nil, 1, label("id", fmt.Sprint("value ", of, " ", j)))
		m = bytesField(m, 1, label("kind", fmt.Sprint(j%10)))
		b = bytesField(b, 1, bytesField(m, 2, fmt.Sprint("text ", at, " ", j)))
	}
	for j := range 300 {
		m := bytesField(nil, 1, label("id", fmt.Sprint("record ", of, " ", j, strings.Repeat("long ", 200+j%100))))
		b = bytesField(b, 2, varintField(m, 2, uint64(at*j)))
	}
	return b
}

// An endless variety of structure stays within the limits, and the writer resets the model in time.
func TestStructureWithoutEnd(t *testing.T) {
	var s session
	begun := 0
	for i := range 2*restartAfter + 10 {
		var b []byte
		for j := range 3 {
			b = bytesField(b, 1+i%60, varintField(nil, 1+(i/60+j)%maxFieldNo, 1))
			b = bytesField(b, 1+i%60, varintField(nil, 1+(i*7+j)%maxFieldNo, 1))
		}
		if s.send(t, b)[0] == formBegin {
			begun++
		}
	}
	if begun != 3 {
		t.Errorf("it began %d times", begun)
	}
	if n := len(s.w.nodes); n > formatLimits.nodes {
		t.Errorf("%d nodes", n)
	}
}

func TestPlain(t *testing.T) {
	var s session
	for _, b := range [][]byte{nil, []byte("short"), []byte("this is no message of protobuf, not at all"), make([]byte, MaxBytes+1)} {
		if sent := s.send(t, b); sent[0] != formPlain || len(sent) != len(b)+1 {
			t.Errorf("form %x, %d bytes of %d", sent[0], len(sent), len(b))
		}
	}
	if s.send(t, scrape(1, 1))[0] != formBegin || s.send(t, []byte("short"))[0] != formPlain || s.send(t, scrape(1, 2))[0] != formNext {
		t.Error("forms")
	}
}

// Incompressible data gets hardly longer.
func TestNoGain(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var s session
	raw, sent := 0, 0
	for range 60 {
		var b []byte
		for range 200 {
			b = fixed64Field(b, 1, rng.Uint64())
			b = varintField(b, 2, rng.Uint64()>>rng.IntN(64))
			b = bytesField(b, 3, randomBytes(rng, rng.IntN(30)))
		}
		raw += len(b)
		sent += len(s.send(t, b))
	}
	if sent > raw {
		t.Errorf("%d bytes of %d", sent, raw)
	}
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var s session
	var all, sent [][]byte
	for at := range 140 {
		all = append(all, scrape(at%2, at))
		sent = append(sent, s.send(t, all[at]))
	}
	var w Writer
	var r Reader
	var buf, out []byte
	at := 0
	one := func() {
		buf = w.Append(buf[:0], all[at])
		var err error
		if out, err = r.Append(out[:0], sent[at], len(all[at])); err != nil || !bytes.Equal(out, all[at]) || !bytes.Equal(buf, sent[at]) {
			t.Fatal(at, err)
		}
		at++
	}
	for at < 100 {
		one()
	}
	// The few values that are tried with each message are kept, which allocates.
	if n := testing.AllocsPerRun(30, one); n > 6 {
		t.Errorf("%.1f allocations a message", n)
	}
}
