package proto

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// Columns are sent only where they are hardly longer than what the general codec alone makes of a message,
// however it repeats itself.
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

// zstd alone is not tried on messages of many alike records, also where a node's values are not looked for any more.
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
	e.Append(nil, message)
	stopped := 0
	for i := range e.nodes {
		if e.nodes[i].off {
			stopped++
		}
	}
	if !e.surelyShorter() || stopped < 2 {
		t.Errorf("%d named, %d new, %d nodes stopped", e.named, e.new, stopped)
	}
}

// templates repeats some messages in random order, with a number that counts in each.
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
