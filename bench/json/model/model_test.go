package model

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// documents returns made documents, always the same.
func documents(n int) (docs [][]byte) {
	r := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		docs = append(docs, fmt.Appendf(nil, `{"id":%d,"customer":"c%05d","status":"%s","total":%d.%02d,"url":"https://x.example/c%05d/list","when":"2026-11-%02dT%02d:%02d:%02dZ","name":"a %d \" b","city":"M\u00fcnchen %d","tags":[%s],"in":{"a":%d,"b":[]}}`,
			r.IntN(1e9), i, []string{"open", "paid"}[r.IntN(2)], r.IntN(900), r.IntN(100), i, 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), i, i, []string{"", "1", "1, 2", `"x","y"`}[r.IntN(4)], r.IntN(20)-10))
	}
	return docs
}

func TestRoundTrip(t *testing.T) {
	docs, r := documents(300), rand.New(rand.NewPCG(2, 2))
	m := Train(docs[:200])
	e, d := NewEncoder(m), NewDecoder(m)
	check := func(v []byte) (int, int) {
		symbols, rest := e.Split(nil, v)
		got, err := d.Join(nil, symbols, rest, len(v))
		if err != nil || string(got) != string(v) {
			t.Fatalf("%q\n%q %v", v, got, err)
		}
		return len(symbols), len(rest)
	}
	a, b, raw := 0, 0, 0
	for _, v := range docs[200:] {
		x, y := check(v)
		a, b, raw = a+x, b+y, raw+len(v)
	}
	if a+b > raw/6 {
		t.Errorf("%d of %d bytes, and %d of rests", a, raw, b)
	}
	for _, v := range docs[200:] {
		for range 50 {
			w := append([]byte(nil), v...)
			switch r.IntN(4) {
			case 0:
				w[r.IntN(len(w))] = byte(r.IntN(256))
			case 1:
				w = w[:r.IntN(len(w))]
			case 2:
				i := r.IntN(len(w))
				w = append(w[:i], append([]byte{` "\,:{}[]0-.e`[r.IntN(13)]}, w[i:]...)...)
			case 3:
				i := r.IntN(len(w))
				j := i + r.IntN(len(w)-i)
				w = append(w[:i], w[j:]...)
			}
			check(w)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, s := range []string{"0", "-0", "12", "-1.50", "0.05", "00", "01", "1.", ".5", "1e5", "123456789012345678", "1234567890123456789", "-0.0", "0.000", "10.01"} {
		g, v, ok := parseNumber([]byte(s))
		if ok && string(appendNumber(nil, g, v)) != s {
			t.Errorf("%s: %s", s, appendNumber(nil, g, v))
		}
	}
}

// Any bytes come back, and hostile symbols and rests don't crash the decoder or make it write more than it may.
func FuzzSplit(f *testing.F) {
	m := Train(documents(200))
	e, d := NewEncoder(m), NewDecoder(m)
	for _, v := range documents(4) {
		f.Add(v, []byte{1, 2, 3})
	}
	f.Add([]byte(`[{"a":"\u00e4\ud83d\ude00 \u0041\u","b":[[],{}, 1e5,-0.50]}] {}`), []byte(`"x"`))
	f.Fuzz(func(t *testing.T, v, hostile []byte) {
		symbols, rest, inside := e.SplitChars(nil, v)
		var got []byte
		var err error
		if inside {
			got, err = d.JoinChars(nil, symbols, len(rest), len(v))
		} else {
			got, err = d.Join(nil, symbols, rest, len(v))
		}
		if err != nil || string(got) != string(v) {
			t.Fatalf("%q came back as %q: %v", v, got, err)
		}
		if got, err = d.Join(nil, hostile, v, 1000); err == nil && len(got) > 1000 {
			t.Fatalf("%d bytes", len(got))
		}
		if got, err = d.JoinChars(nil, v, len(hostile), 1000); err == nil && len(got) > 1000 {
			t.Fatalf("%d bytes", len(got))
		}
	})
}
