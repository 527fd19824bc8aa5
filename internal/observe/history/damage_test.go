package history

import (
	"bytes"
	"os"
	"testing"
	"time"
)

// If a byte of a file is changed, or the file is truncated, a query never returns more than was recorded, and the
// next process can record.
func TestDamage(t *testing.T) {
	for name, full := range map[string]bool{"being written": false, "compressed": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			h := open(t, dir, 0)
			const samples = 12
			at := feed(h, start, samples)
			if release(h); full {
				h.Close()
			}
			file := h.fine.path(1)
			whole, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range mustGlob(t, dir, h.coarse.name+"*") {
				_ = os.Remove(f)
			}
			for i := range whole {
				cut, flipped := bytes.Clone(whole[:i]), bytes.Clone(whole)
				flipped[i] ^= 1 << (i % 8)
				for _, damaged := range [][]byte{cut, flipped} {
					for _, f := range mustGlob(t, dir, "*") {
						_ = os.Remove(f)
					}
					if err := os.WriteFile(file, damaged, 0o600); err != nil {
						t.Fatal(err)
					}
					h := Open(Options{Path: dir, Engine: engine})
					l := ask(t, h, start.Add(-time.Hour), at.Add(time.Hour), 0)
					if sum := l.Lines0(); sum > 10*(samples-1)+6+1e-6 {
						t.Fatalf("byte %d: %v", i, sum)
					}
					next := at
					for k := range int64(3) {
						h.Add(next, []Sample{counter("more", "", "", 7*k)})
						next = next.Add(Interval)
					}
					near(t, "counted afterwards", line(t, ask(t, h, start, next, 0), "more").Sum(), 14)
					release(h)
				}
			}
		})
	}
}
