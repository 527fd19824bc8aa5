package policy

import (
	"fmt"
	"testing"
)

// BenchmarkLookup looks up a key that only the last of many rules covers.
func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		var rules []Rule
		for i := range n {
			rules = append(rules, Rule{Key: fmt.Sprintf("app:%d:*", n-1-i), Setting: zstd3})
		}
		p := mustNew(b, Options{Rules: rules, Exclude: []string{"bull:*"}})
		a := Address{Space: "0", Key: []byte("app:0:user:12345"), Type: String, Size: 500}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p.Lookup(a) == nil {
					b.Fatal("not covered")
				}
			}
		})
	}
}
