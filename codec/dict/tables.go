package dict

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/huff0"
	"github.com/klauspost/compress/zstd"
)

// A trained dictionary (RFC 8878, section 5):
//
//	magic(4) ID(4) | Huffman table | FSE tables: offsets, match lengths,
//	literal lengths | repeat offsets(12) | content
//
// Pure Go counts the statistics, but its tables leave out symbols that the
// samples did not need. libzstd trusts a table only when it has all symbols
// (and up to 1.5.5 refuses the dictionary otherwise), and with tables that it
// trusts it makes small values a third smaller. So literals get a sample with
// every byte, and the FSE tables are completed here.

const (
	dictHeaderLen = 8
	offsetsLen    = 12
)

// fseTable is one of the three tables: its symbols and the accuracy it gets.
type fseTable struct {
	symbols int
	log     int
}

// withTables makes a trained dictionary of content: entropy tables for the
// samples compressed with it, then the content.
func withTables(content []byte, samples [][]byte, level int) ([]byte, error) {
	d, err := zstd.BuildDict(zstd.BuildDictOptions{
		ID:       zstdID(content),
		Contents: append(slices.Clip(samples), allBytes()),
		History:  content,
		Offsets:  [3]int{1, 4, 8},
		Level:    tableLevel(level),
	})
	if err != nil {
		return nil, err
	}
	return completeTables(d, len(content))
}

// allBytes has each byte once, in an order that no value has.
func allBytes() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i*167 + 13)
	}
	return all
}

// completeTables gives every symbol a place in the FSE tables.
func completeTables(d []byte, contentLen int) ([]byte, error) {
	_, rest, err := huff0.ReadTable(d[dictHeaderLen:], nil)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(d[:len(d)-len(rest)])
	const maxBlock = 128 << 10
	offsetSymbols := bits.Len(uint(contentLen + maxBlock)) // codes up to that of the farthest offset
	for _, t := range []fseTable{{offsetSymbols, 8}, {53, 9}, {36, 9}} {
		counts, log, n, err := readCounts(rest, t.symbols)
		if err != nil {
			return nil, err
		}
		if err := t.complete(counts, log); err != nil {
			return nil, err
		}
		out = appendCounts(out, counts, t.log)
		rest = rest[n:]
	}
	if len(rest) != offsetsLen+contentLen {
		return nil, errors.New("dictionary of an unknown form")
	}
	return append(out, rest...), nil
}

// complete scales counts that add up to 1<<log to the table's accuracy, and
// takes the places of symbols that had none from the most frequent ones.
func (t fseTable) complete(counts []int, log int) error {
	if log > t.log {
		return fmt.Errorf("table with an accuracy of %d bits", log)
	}
	missing := 0
	for i, c := range counts {
		counts[i] = max(c, -c) << (t.log - log)
		if c == 0 {
			counts[i] = -1 // less than one place in the table, and takes one
			missing++
		}
	}
	for range missing {
		most := 0
		for i, c := range counts {
			if c > counts[most] {
				most = i
			}
		}
		counts[most]--
	}
	return nil
}

// readCounts reads an FSE table description (section 4.1.1) of up to so many
// symbols, and returns their counts, the accuracy and the bytes it took.
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
		short := 1<<width - 1 - remaining  // values below take a bit less
		v := int(r.peek(width - 1))
		if v < short {
			r.read(width - 1)
		} else if v = int(r.read(width)); v >= 1<<(width-1) {
			v -= short
		}
		counts[symbol] = v - 1
		remaining -= max(v-1, 1-v)
		for v == 1 { // zero, and how many zeros follow
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

// appendCounts writes a description of counts that have no zeros.
func appendCounts(dst []byte, counts []int, log int) []byte {
	w := bitWriter{bytes: dst}
	w.write(uint64(log-5), 4)
	remaining := 1<<log + 1
	for _, c := range counts {
		width := bits.Len(uint(remaining))
		short := 1<<width - 1 - remaining
		v := c + 1
		switch {
		case v < short:
			w.write(uint64(v), width-1)
		case v >= 1<<(width-1):
			w.write(uint64(v+short), width)
		default:
			w.write(uint64(v), width)
		}
		remaining -= max(c, -c)
	}
	return w.flush()
}

// bitReader reads from the lowest bit up. Beyond the end it reads zeros.
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

type bitWriter struct {
	bytes []byte
	bits  uint64
	n     int
}

func (w *bitWriter) write(v uint64, n int) {
	w.bits |= v << w.n
	for w.n += n; w.n >= 8; w.n -= 8 {
		w.bytes = append(w.bytes, byte(w.bits))
		w.bits >>= 8
	}
}

func (w *bitWriter) flush() []byte {
	if w.n > 0 {
		w.bytes = append(w.bytes, byte(w.bits))
	}
	return w.bytes
}
