package dict

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
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

// randomCounts returns counts with the sum size, in which -1 stands for less than one.
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
	for seed := range uint64(2000) { // no panic for any input
		_, _, _, _ = readCounts(randomBytes(int(seed%20), seed), 36)
	}
	if _, _, _, err := readCounts(nil, 36); err == nil {
		t.Error("nothing read as a table")
	}
}

// TestTablesAreComplete checks that every symbol has an entry: libzstd trusts only such tables.
func TestTablesAreComplete(t *testing.T) {
	var samples [][]byte
	for i, b := range randomBytes(300, 1) {
		samples = append(samples, fmt.Appendf(nil, `{"id":%d,"name":"customer %x","balance":%d.50,"active":true}`, i*7919, b, int(b)*i))
	}
	content := bytes.Join(samples[:20], nil)
	d, err := withTables(content, samples)
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

// The sizes of a dictionary's parts.
const (
	dictHeaderLen = 8
	offsetsLen    = 12
)

// readCounts reads an FSE table description (section 4.1.1) of up to that many symbols, and returns their
// counts, the accuracy and the bytes read.
func readCounts(b []byte, symbols int) (counts []int, log, n int, err error) {
	r := bitReader{bytes: b}
	log = int(r.read(4)) + 5
	counts = make([]int, symbols)
	remaining := 1<<log + 1
	for symbol := 0; remaining > 1; symbol++ {
		if symbol >= symbols {
			return nil, 0, 0, errors.New("table with too many symbols")
		}
		width := bits.Len(uint(remaining)) // of values up to remaining
		short := 1<<width - 1 - remaining  // smaller values take a bit less
		v := int(r.peek(width - 1))
		if v < short {
			r.read(width - 1)
		} else if v = int(r.read(width)); v >= 1<<(width-1) {
			v -= short
		}
		counts[symbol] = v - 1
		remaining -= max(v-1, 1-v)
		for v == 1 { // zero, followed by the number of further zeros
			zeros := int(r.read(2))
			symbol += zeros
			if zeros < 3 {
				break
			}
		}
	}
	if remaining != 1 || r.at > 8*len(b) {
		return nil, 0, 0, errors.New("damaged table")
	}
	return counts, log, (r.at + 7) / 8, nil
}

// bitReader reads from the lowest bit up. After the end it reads zeros.
type bitReader struct {
	bytes []byte
	at    int
}

func (r *bitReader) peek(n int) uint64 {
	var word [8]byte
	if r.at/8 < len(r.bytes) {
		copy(word[:], r.bytes[r.at/8:])
	}
	return binary.LittleEndian.Uint64(word[:]) >> (r.at % 8) & (1<<n - 1)
}

func (r *bitReader) read(n int) uint64 {
	v := r.peek(n)
	r.at += n
	return v
}
