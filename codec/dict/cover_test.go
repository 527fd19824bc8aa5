package dict

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// A sample that best skips could not have won: every choice equals that over all samples.
func TestBestSkipsOnlyWhatCannotWin(t *testing.T) {
	var samples [][]byte
	for i, b := range randomBytes(600, 1) {
		samples = append(samples, fmt.Appendf(nil, `{"id":%d,"tier":"%s","name":"customer %x","active":true}`, i*7919, []string{"gold", "silver", "bronze"}[b%3], b))
	}
	n := len(samples)
	samples = append(samples, samples...) // the first of equals wins, even if the second is examined first
	unseen := slices.Repeat([]int{math.MaxInt}, len(samples))
	for _, k := range []int{48, 400} {
		c := newCover(samples)
		counts, inWindow, most := slices.Clone(c.counts), make([]uint16, 1<<countBits), slices.Clone(unseen)
		for round := 0; ; round++ {
			epoch := [2]int{0, len(samples)}
			want := c.best(epoch, k, counts, inWindow, slices.Clone(unseen))
			most[n+want.sample%n] = math.MaxInt
			if got := c.best(epoch, k, counts, inWindow, most); got != want {
				t.Fatalf("segments of %d, round %d: %+v, want %+v", k, round, got, want)
			}
			if want.score == 0 {
				if round < 10 {
					t.Errorf("segments of %d: nothing is left after %d rounds", k, round)
				}
				break
			}
			c.useUp(want, counts)
		}
	}
}
