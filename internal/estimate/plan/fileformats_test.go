package plan

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A part of a long file represents all of it, within the printed interval.
func TestStretches(t *testing.T) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 1))
	var lines strings.Builder
	n := 0
	for lines.Len() < 12<<20 {
		lines.WriteString(order(r) + "\n")
		n++
	}
	file := write(t, dir, "orders.jsonl", []byte(lines.String()))
	o := options(t)
	o.Candidates = o.Candidates[:1]
	rep := planFiles(t, o, FileOptions{MaxBytes: 4 << 20}, file)
	if g := rep.Groups[0]; rep.LookedAt.Bytes > 4<<20 || math.Abs(g.Values-float64(n)) > 0.01*float64(n) || rep.LookedAt.Whole {
		t.Errorf("%v of %d values, %+v", g.Values, n, rep.LookedAt)
	}
}

func TestSplitter(t *testing.T) {
	for in, want := range map[string][]string{
		`[{"a":1},{"a":[2,{"b":"]}"}]} , 3, "x,\"y"]`: {`{"a":1}`, `{"a":[2,{"b":"]}"}]}`, "3", `"x,\"y"`},
		`{"a":1}{"b":2} {"c":3}`:                      {`{"a":1}`, `{"b":2}`, `{"c":3}`},
		"{\n \"a\": 1\n}":                             {"{\n \"a\": 1\n}"},
		`[]`:                                          nil,
		`[{"a":`:                                      nil,
		`]}{"a":1}`:                                   {"}", `{"a":1}`},
		`["` + strings.Repeat("x", 200) + `",1]`:      {"1"},
	} {
		var got []string
		long := 0
		s := splitter{most: 100, emit: func(doc []byte) { got = append(got, string(doc)) }, long: func() { long++ }}
		s.write([]byte(in))
		s.end()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func FuzzDocuments(f *testing.F) {
	f.Add([]byte(`[{"a":1},{"b":"x"}]`), ".json")
	f.Add([]byte("{\"a\":1}\n\n{\"a\":2}"), ".jsonl")
	f.Add([]byte("a,b\n1,\"x\n"), ".csv")
	f.Fuzz(func(t *testing.T, content []byte, ext string) {
		if !slices.Contains([]string{".json", ".jsonl", ".csv", ".bin"}, ext) || len(content) == 0 {
			return
		}
		file := write(t, t.TempDir(), "f"+ext, content)
		c := NewCollector(CollectOptions{SampleBytes: 1 << 10})
		if _, err := Files(context.Background(), c, []string{file}, FileOptions{MaxValue: 64}); err != nil {
			t.Error(err)
		}
		for _, found := range c.found() {
			for _, v := range found.sample.values {
				if len(v) > 64 && found.kind == kindDocument {
					t.Errorf("a document of %d bytes", len(v))
				}
			}
		}
	})
}

// A file that ends within a value is reported.
func TestCutOffFile(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]float64{`[{"a":1},{"a":`: 1, `[{"a":1},{"a":"`: 1, `[{"a":1},{"a":2}`: 0, `{"a":1} `: 0} {
		r := planFiles(t, options(t), FileOptions{}, write(t, dir, "cut.json", []byte(text)))
		if got := r.Left["cut off by the end of the file"]; got != want {
			t.Errorf("%.30s: %v", text, r.Left)
		}
	}
}
