package dict

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/huff0"
)

func randomBytes(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestCountsRoundTrip(t *testing.T) {
	for log := 5; log <= 9; log++ {
		for seed := range uint64(200) {
			counts := randomCounts(1<<log, seed)
			b := appendCounts([]byte("x"), counts, log)
			got, gotLog, n, err := readCounts(append(b, 0xff, 0xff)[1:], len(counts))
			if err != nil || gotLog != log || n != len(b)-1 || !slices.Equal(got, counts) {
				t.Fatalf("log %d, seed %d: %v became %v, %d of %d bytes, %v", log, seed, counts, got, n, len(b)-1, err)
			}
		}
	}
}

// randomCounts add up to size, with -1 standing for less than one.
func randomCounts(size int, seed uint64) (counts []int) {
	for _, b := range randomBytes(size, seed) {
		c := min(1+int(b)%(1+size/4), size)
		if c == 1 && b&1 == 0 {
			c = -1
		}
		counts = append(counts, c)
		if size -= max(c, -c); size == 0 {
			break
		}
	}
	return counts
}

func TestReadCountsRefuses(t *testing.T) {
	for seed := range uint64(2000) { // no panic, whatever it says
		_, _, _, _ = readCounts(randomBytes(int(seed%20), seed), 36)
	}
	if _, _, _, err := readCounts(nil, 36); err == nil {
		t.Error("nothing read as a table")
	}
}

// TestTablesAreComplete: libzstd trusts tables in which every symbol has a place.
func TestTablesAreComplete(t *testing.T) {
	var samples [][]byte
	for i, b := range randomBytes(300, 1) {
		samples = append(samples, fmt.Appendf(nil, `{"id":%d,"name":"customer %x","balance":%d.50,"active":true}`, i*7919, b, int(b)*i))
	}
	content := bytes.Join(samples[:20], nil)
	d, err := withTables(content, samples, 3)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, err := huff0.ReadTable(d[dictHeaderLen:], nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, symbols := range []int{18, 53, 36} { // offsets up to 128 KiB and the content: 2^17 and more
		counts, _, n, err := readCounts(rest, symbols)
		if err != nil || slices.Contains(counts, 0) {
			t.Errorf("%d symbols: %v, %v", symbols, counts, err)
		}
		rest = rest[n:]
	}
	if !bytes.HasSuffix(rest, content) || len(rest) != offsetsLen+len(content) {
		t.Errorf("%d bytes after the tables", len(rest))
	}
}
