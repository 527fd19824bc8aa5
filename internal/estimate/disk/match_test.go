package disk

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Sequences reproduce the data, and follow the rules.
func TestSequences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	inputs := [][]byte{nil, {1}, bytes.Repeat([]byte{7}, 12), bytes.Repeat([]byte{7}, 13), bytes.Repeat([]byte{7}, 14), bytes.Repeat([]byte("ab"), 40000), make([]byte, 128<<10)}
	for _, n := range []int{14, 100, 4096, 65536 + 10, 65536 + 11, 65536 + 12, 128 << 10, 1 << 20} {
		inputs = append(inputs, prose(r, n), append(noise(r, n/2), prose(r, n-n/2)...), append(prose(r, n/2), prose(r, n-n/2)...))
	}
	for _, in := range inputs {
		for _, rules := range []matchRules{lz4Rules(len(in)), lzoRules} {
			sequencesHold(t, in, rules)
		}
	}
	if _, ok := lz4Record(&matcher{}, noise(r, 8192), 8192*7/8); ok {
		t.Error("noise got smaller")
	}
}

func sequencesHold(t *testing.T, in []byte, rules matchRules) {
	t.Helper()
	var back []byte
	m, done := &matcher{}, false
	m.run(in, rules, func(s sequence) bool {
		at := len(back)
		if done || s.literals < 0 || s.literals > len(in)-at {
			t.Fatalf("%d bytes: %+v at %d", len(in), s, at)
		}
		back = append(back, in[at:at+s.literals]...)
		at += s.literals
		if done = s.length == 0; done {
			return true
		}
		if s.length < leastMatch || s.distance < 1 || s.distance > min(at, rules.farthest) || at > len(in)-rules.unmatched || at+s.length > len(in)-min(rules.literals, rules.unmatched-leastMatch) {
			t.Fatalf("%d bytes: %+v at %d", len(in), s, at)
		}
		for range s.length {
			back = append(back, back[len(back)-s.distance])
		}
		return true
	})
	if !done || !bytes.Equal(back, in) {
		t.Errorf("%d bytes come back as %d", len(in), len(back))
	}
}

func FuzzSequences(f *testing.F) {
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbb"), 3)
	f.Fuzz(func(t *testing.T, in []byte, times int) {
		in = bytes.Repeat(in, 1+max(times, -times)%2000)
		if len(in) > 1<<20 {
			return
		}
		sequencesHold(t, in, lz4Rules(len(in)))
		sequencesHold(t, in, lzoRules)
	})
}

// Lengths are computed according to LZ4's block format.
func TestLZ4(t *testing.T) {
	random := noise(rand.New(rand.NewPCG(5, 5)), 4096)
	for _, c := range []struct {
		name string
		data []byte
		want int
	}{
		{"nothing", nil, 1},
		{"14 literals", random[:14], 1 + 14},
		{"15", random[:15], 2 + 15},
		{"269", random[:269], 2 + 269},
		{"270", random[:270], 3 + 270},
		{"zeros", make([]byte, 100), 1 + 1 + 2 + 1 + 1 + 5},
		{"a match of 4", append(append(append([]byte{}, random[:20]...), random[4:8]...), random[100:160]...), 2 + 20 + 2 + 2 + 60},
		{"of 18", append(append(append([]byte{}, random[:20]...), random[1:19]...), random[100:160]...), 2 + 20 + 2 + 2 + 60},
		{"of 19", append(append(append([]byte{}, random[:20]...), random[:19]...), random[100:160]...), 2 + 20 + 3 + 2 + 60},
	} {
		if got, _ := lz4Record(&matcher{}, c.data, 1<<20); got != lz4Header+c.want {
			t.Errorf("%s: %d, want %d", c.name, got-lz4Header, c.want)
		}
	}
}
