package dict

import (
	"encoding/binary"
	"math/bits"

	"github.com/klauspost/compress/huff0"

	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
)

// A trained dictionary (RFC 8878, section 5) consists of:
//
//	magic(4) ID(4) | Huffman table | FSE tables: offsets, match lengths,
//	literal lengths | repeat offsets(12) | content
//
// libzstd trusts a table only if it has all symbols (and up to 1.5.5 rejects the dictionary otherwise), and
// with tables that it trusts it makes small values a third smaller. So each symbol has an entry in each
// table, and tables are as accurate as the format allows: in coarse ones, rare symbols would take a large
// part of the entries.

// firstRepeats are the initial repeat offsets of a value, as without a dictionary.
var firstRepeats = [3]int{1, 4, 8}

// withTables returns a trained dictionary for content: entropy tables for the samples compressed with it,
// then the content.
func withTables(content []byte, samples [][]byte) ([]byte, error) {
	counts := countCodes(content, samples)
	literals, err := literalTable(&counts.literals)
	if err != nil {
		return nil, err
	}
	const maxBlock = 128 << 10
	offsetCodes := bits.Len(uint(len(content) + maxBlock)) // up to the code of the farthest offset
	out := append(binary.LittleEndian.AppendUint32([]byte(zstdframe.DictMagic), zstdID(content)), literals...)
	for _, t := range []struct {
		counts []int
		log    int
	}{{counts.offsets[:offsetCodes], 8}, {counts.matches[:], 9}, {counts.literalLengths[:], 9}} {
		out = appendCounts(out, normalized(t.counts, t.log), t.log)
	}
	for _, offset := range firstRepeats {
		out = binary.LittleEndian.AppendUint32(out, uint32(offset))
	}
	return append(out, content...), nil
}

// literalTable returns a Huffman table with an entry for every byte.
func literalTable(counts *[256]int) ([]byte, error) {
	if table, err := huffman(counts); err == nil {
		return table, nil
	}
	var text [256]int // all counts are equal: any table will do, as encoders don't use it
	for b := ' '; b <= '~'; b++ {
		text[b] = 1
	}
	return huffman(&text)
}

func huffman(counts *[256]int) ([]byte, error) {
	total := 0
	for _, n := range counts {
		total += n
	}
	var bytes []byte
	for b, n := range counts {
		for range 1 + n*literalBytes/max(total, 1) {
			bytes = append(bytes, byte(b))
		}
	}
	s := &huff0.Scratch{TableLog: 11}
	_, _, err := huff0.Compress1X(bytes, s)
	return s.OutTable, err
}

// literalBytes is the number of literals that a table is made from.
const literalBytes = 64 << 10

// normalized scales counts to a sum of 1<<log, with an entry for every symbol: -1 means less than one entry
// in the table, and takes one.
func normalized(counts []int, log int) []int {
	total := len(counts)
	for _, n := range counts {
		total += n
	}
	scaled, left, most := make([]int, len(counts)), 1<<log, 0
	for i, n := range counts {
		scaled[i] = ((n+1)<<log + total/2) / total
		if scaled[i] == 0 {
			scaled[i] = -1
		}
		left -= max(scaled[i], 1)
		if scaled[i] > scaled[most] {
			most = i
		}
	}
	for ; left < 0; left++ { // more symbols than remaining entries
		for i, n := range scaled {
			if n > scaled[most] {
				most = i
			}
		}
		scaled[most]--
	}
	scaled[most] += left
	return scaled
}

// appendCounts appends a description of counts that have no zeros.
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
