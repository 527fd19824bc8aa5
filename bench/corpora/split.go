package corpora

import "crypto/sha256"

// Sides are the values of a corpus, each source on one side by its hash. A value that occurs twice counts once, so
// nothing that is measured was ever learned from.
type Sides struct {
	Learn, Measure [][]byte
	Sources        [2]int // on each side
}

// Split takes the values of these sizes, in bytes. name is that of the corpus.
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

// Spread takes every n-th value, so that neither count nor bytes pass the limits.
func Spread(values [][]byte, count, bytes int) (some [][]byte) {
	nth := max(1, (len(values)+count-1)/count, (TotalBytes(values)+bytes-1)/bytes)
	for i := 0; i < len(values); i += nth {
		some = append(some, values[i])
	}
	return some
}

// TotalBytes is the length of all values.
func TotalBytes(values [][]byte) (n int) {
	for _, v := range values {
		n += len(v)
	}
	return n
}
