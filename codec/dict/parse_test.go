package dict

import (
	"fmt"
	"testing"

	"github.com/klauspost/compress/huff0"

	"github.com/cinch-layer/cinch/codec"
)

func TestLengthCodes(t *testing.T) {
	for n, want := range map[int]int{0: 0, 15: 15, 16: 16, 17: 16, 18: 17, 63: 24, 64: 25, 127: 25, 128: 26, 65535: 34, 65536: 35, 1 << 17: 35} {
		if got := literalLengthCode(n); got != want {
			t.Errorf("%d literals: code %d, want %d", n, got, want)
		}
	}
	for n, want := range map[int]int{3: 0, 34: 31, 35: 32, 36: 32, 37: 33, 98: 41, 99: 42, 130: 42, 131: 43, 65538: 51, 65539: 52, 1 << 17: 52} {
		if got := matchCode(n); got != want {
			t.Errorf("a match of %d: code %d, want %d", n, got, want)
		}
	}
}

// The sample is two literals, a match in the content, four literals, a match in the sample itself, and
// literals.
func TestCountCodes(t *testing.T) {
	content := []byte("0123456789 what values have in common")
	got := countCodes(content, [][]byte{[]byte("xx what values have YYYY what values have ZZZZ")})
	want := codeCounts{}
	for _, b := range []byte("xxYYYYZZZZ") {
		want.literals[b]++
	}
	want.literalLengths[2], want.literalLengths[4] = 1, 1
	want.matches[18-3] = 2
	want.offsets[5]++ // 29 back, as 32
	want.offsets[4]++ // 22 back, as 25
	if *got != want {
		t.Errorf("got %+v\nwant %+v", *got, want)
	}
}

// Every table has the right sum, and gives each symbol an entry, in proportion to its frequency.
func TestNormalized(t *testing.T) {
	for name, counts := range map[string][]int{
		"none":        make([]int, 53),
		"one":         append([]int{1e9}, make([]int, 35)...),
		"alike":       {100, 100, 100, 100, 100, 100, 100},
		"many, rare":  append([]int{5000, 4000, 3000}, make([]int, 50)...),
		"a long tail": {1 << 20, 1 << 18, 1 << 16, 1 << 14, 1 << 12, 1 << 10, 1 << 8, 64, 16, 4, 1, 0, 0, 0, 0, 0, 0, 0},
	} {
		const log = 9
		got, sum, total := normalized(counts, log), 0, len(counts)
		for _, n := range counts {
			total += n
		}
		for i, n := range got {
			if n == 0 {
				t.Errorf("%s: no place for symbol %d", name, i)
			}
			sum += max(n, -n)
			if share := float64(counts[i]+1) / float64(total) * (1 << log); float64(n) > share+1+0.1*(1<<log) || share > 1 && float64(n) < share-1-0.1*(1<<log) {
				t.Errorf("%s: symbol %d has %d places of %d, and %.1f are its share", name, i, n, 1<<log, share)
			}
		}
		if sum != 1<<log {
			t.Errorf("%s: %d places, want %d", name, sum, 1<<log)
		}
	}
}

// Tables are worth their size: on values that were not trained on they save more than a hundredth.
func TestTablesPay(t *testing.T) {
	var samples [][]byte
	for i, b := range randomBytes(2000, 1) {
		samples = append(samples, fmt.Appendf(nil, `{"id":%d,"name":"customer %x","balance":%d.50,"active":true}`, i*7919, b, int(b)*i))
	}
	content := newCover(samples[:1500]).shared(4<<10, 48)
	trained, err := withTables(content, samples[:1500])
	if err != nil {
		t.Fatal(err)
	}
	z := codec.NewGoZstd()
	without, err := compressedLen(z, content, samples[1500:], 3)
	if err != nil {
		t.Fatal(err)
	}
	with, err := compressedLen(z, trained, samples[1500:], 3)
	if err != nil || with > without*99/100 {
		t.Errorf("%d bytes with tables, %d without: %v", with, without, err)
	}
}

// Values without literals, or with all bytes equally frequent, have a dictionary too.
func TestLiteralTable(t *testing.T) {
	var none, alike, one [256]int
	for b := range alike {
		alike[b] = 1000
	}
	one['x'] = 1e6
	for name, counts := range map[string]*[256]int{"none": &none, "alike": &alike, "one": &one} {
		table, err := literalTable(counts)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, rest, err := huff0.ReadTable(table, nil); err != nil || len(rest) > 0 {
			t.Errorf("%s: %d bytes behind the table, %v", name, len(rest), err)
		}
	}
}
