package corpora

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
)

// Sides holds the values of a corpus, split by source: a hash decides each source's side. A value that occurs
// twice counts once, so that nothing measured was learned from.
type Sides struct {
	Learn, Measure [][]byte
	Sources        [2]int // on each side
}

// Split splits the values whose size is from least to most bytes. name is the corpus's name.
func Split(name string, records []Record, least, most int) Sides {
	seen, sources := map[string]bool{}, [2]map[string]bool{{}, {}}
	var sides [2][][]byte
	for _, r := range records {
		if n := len(r.Value); n < least || n > most || seen[string(r.Value)] {
			continue
		}
		seen[string(r.Value)] = true
		side := sha256.Sum256([]byte(name + "/" + r.Source))[0] & 1
		sides[side] = append(sides[side], r.Value)
		sources[side][r.Source] = true
	}
	return Sides{sides[0], sides[1], [2]int{len(sources[0]), len(sources[1])}}
}

// SplitWithin puts half of each source's values on each side, by the values' hashes. Sources with one value
// are left out.
func SplitWithin(name string, records []Record, least, most int) Sides {
	of, seen := map[string][][]byte{}, map[string]bool{}
	for _, r := range records {
		if n := len(r.Value); n >= least && n <= most && !seen[string(r.Value)] {
			seen[string(r.Value)] = true
			of[r.Source] = append(of[r.Source], r.Value)
		}
	}
	var sides Sides
	for _, source := range slices.Sorted(maps.Keys(of)) {
		values := of[source]
		if len(values) < 2 {
			continue
		}
		hash := func(v []byte) string { h := sha256.Sum256(append([]byte(name+"/"), v...)); return string(h[:]) }
		slices.SortFunc(values, func(a, b []byte) int { return strings.Compare(hash(a), hash(b)) })
		half := (len(values) + 1) / 2
		sides.Learn, sides.Measure = append(sides.Learn, values[:half]...), append(sides.Measure, values[half:]...)
		sides.Sources[0]++
		sides.Sources[1]++
	}
	return sides
}

// Spread returns every n-th value, so that neither number nor total size exceeds the limits.
func Spread(values [][]byte, count, bytes int) (some [][]byte) {
	nth := max(1, (len(values)+count-1)/count, (TotalBytes(values)+bytes-1)/bytes)
	for i := 0; i < len(values); i += nth {
		some = append(some, values[i])
	}
	return some
}

// TotalBytes returns the total length of all values.
func TotalBytes(values [][]byte) (n int) {
	for _, v := range values {
		n += len(v)
	}
	return n
}
