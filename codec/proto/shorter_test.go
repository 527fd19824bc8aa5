package proto

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// Columns are sent only if they are hardly longer than the message by the general codec alone, in whatever
// way the message repeats itself.
func TestNeverMuchLonger(t *testing.T) {
	e := NewEncoder(Options{})
	check := func(name string, seed uint64, message []byte) {
		t.Helper()
		got, plain := len(e.Append(nil, message)), len(e.appendPlain(nil, message))
		if got > plain+plain/100+4 {
			t.Errorf("%s %d: %d bytes become %d, with zstd alone %d", name, seed, len(message), got, plain)
		}
	}
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 5))
		message := anything(rng, 3)
		check("anything", seed, message)
		check("repeated", seed, bytes.Repeat(message, 20))
		check("templates", seed, templates(rng))
		if seed%10 == 0 {
			check("records", seed, records(int(seed)/10, seed))
			check("repeated records", seed, bytes.Repeat(records(1+int(seed)/30, seed), 10))
		}
	}
}

// zstd alone is not tried on messages of many similar records, even if a node's values are no longer looked
// up.
func TestSurelyShorter(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	var message []byte
	for range 2000 {
		var m []byte
		for k := range 6 {
			pair := bytesField(nil, 1, fmt.Sprint("name", k))
			m = bytesField(m, 1, bytesField(pair, 2, fmt.Sprintf("%x", rng.Uint64()>>rng.IntN(32))))
		}
		message = bytesField(message, 1, m)
	}
	e := NewEncoder(Options{})
	n := len(e.Append(nil, message))
	stopped := 0
	for i := range e.nodes {
		if e.nodes[i].off {
			stopped++
		}
	}
	if !e.modelIsSure() || !e.partIsLonger(message, n) || stopped < 2 {
		t.Errorf("%d named, %d new, %d nodes stopped", e.named, e.new, stopped)
	}
	for i := range 3 * tryEvery {
		e.whole = e.whole[:0]
		e.Append(nil, message)
		if tried := len(e.whole) > len(message)/4; tried != ((i+1)%tryEvery == 0) {
			t.Fatalf("message %d was tried: %v", i+1, tried)
		}
	}
}

// For these messages the general codec's output is much smaller than columns, although the model's counts favour
// columns: new values are nearly the same as earlier ones, or occurred earlier in a node whose lookups have stopped.
// Compressing a part of the message reveals that; after the first message for which it does not, all are compressed
// whole.
func TestNotSurelyShorter(t *testing.T) {
	for name, generate := range nearlyAlike {
		e := NewEncoder(Options{})
		rng := rand.New(rand.NewPCG(1, 1))
		for range 3 {
			message := generate(rng)
			got, plain := len(e.Append(nil, message)), len(e.appendPlain(nil, message))
			if got > plain+plain/100+4 {
				t.Errorf("%s: %d bytes become %d, with zstd alone %d", name, len(message), got, plain)
			}
		}
		message := generate(rng)
		columns, _ := e.appendColumns(nil, message)
		misled := name == "nodes that have stopped" || name == "a byte of each value" // a part contains too little of what recurs
		if !e.modelIsSure() || e.partIsLonger(message, len(columns)) != misled {
			t.Errorf("%s: sure by the model %v, by a part %v", name, e.modelIsSure(), e.partIsLonger(message, len(columns)))
		}
	}
}

var nearlyAlike = map[string]func(rng *rand.Rand) []byte{
	"counter": func(*rand.Rand) (b []byte) {
		for i := range 5000 {
			b = bytesField(b, 1, bytesField(nil, 1, fmt.Sprintf("%04d", i)))
		}
		return b
	},
	"two counters": func(*rand.Rand) (b []byte) {
		for i := range 1000 {
			m := bytesField(nil, 1, fmt.Sprintf("id-%06d", i))
			b = bytesField(b, 1, bytesField(m, 2, fmt.Sprintf("id-%06d", 7*i)))
		}
		return b
	},
	"a byte of each value": func(rng *rand.Rand) (b []byte) {
		words := make([]string, 80)
		for i := range words {
			words[i] = word(rng, 30)
		}
		for range 1000 {
			var m []byte
			k := 4 * rng.IntN(20)
			for i, w := range words[k : k+4] {
				other := []byte(w)
				other[rng.IntN(30)] = 'a' + byte(rng.IntN(26))
				m = bytesField(m, 1+i, other)
			}
			b = bytesField(b, 1, m)
		}
		return b
	},
	"nodes that have stopped": func(rng *rand.Rand) (b []byte) {
		record := func() (m []byte) {
			for i := range 8 {
				m = bytesField(m, 1+i, word(rng, 1+rng.IntN(24)))
			}
			return m
		}
		for range 200 {
			b = bytesField(b, 1, record())
		}
		again := make([][]byte, 50)
		for i := range again {
			again[i] = record()
		}
		for range 5000 {
			b = bytesField(b, 1, again[rng.IntN(len(again))])
		}
		return b
	},
	"more values than are kept": func(rng *rand.Rand) (b []byte) {
		for i := range 33_000 {
			b = bytesField(b, 1, bytesField(bytesField(nil, 1, fmt.Sprintf("%05x", i)), 2, fmt.Sprintf("%05x", i*7919%1000003)))
		}
		again := make([][]byte, 100)
		for i := range again {
			again[i] = bytesField(bytesField(nil, 1, word(rng, 8)), 2, word(rng, 8))
		}
		for range 40_000 {
			b = bytesField(b, 1, again[rng.IntN(len(again))])
		}
		return b
	},
}

func word(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[rng.IntN(36)]
	}
	return string(b)
}

// templates repeats some messages in random order, each with a counter.
func templates(rng *rand.Rand) (b []byte) {
	words := make([]string, 1+rng.IntN(60))
	for i := range words {
		words[i] = fmt.Sprintf("%0*d", 1+rng.IntN(20), rng.Uint32()>>rng.IntN(32))
	}
	all := make([][]byte, 1+rng.IntN(100))
	numbers := rng.IntN(4)
	for i := range all {
		for range rng.IntN(12) {
			all[i] = bytesField(all[i], 2, words[rng.IntN(len(words))])
		}
		for range numbers * rng.IntN(4) {
			all[i] = varintField(all[i], 3+rng.IntN(2), rng.Uint64()>>rng.IntN(64))
		}
		if rng.IntN(5) == 0 {
			all[i] = bytesField(all[i], 5, bytesField(bytesField(nil, 1, words[0]), 2, randomBytes(rng, rng.IntN(30))))
		}
	}
	inOrder := rng.IntN(2) == 0
	for i := range rng.IntN(600) {
		k := rng.IntN(len(all))
		if inOrder {
			k = i % len(all)
		}
		b = bytesField(b, 1, varintField(bytes.Clone(all[k]), 6, uint64(i)))
	}
	return b
}
