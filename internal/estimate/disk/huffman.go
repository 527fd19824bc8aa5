package disk

import (
	"math/bits"
	"slices"
)

// block counts the symbols of one block, as in section 3.2.5 of RFC 1951.
type block struct {
	literals  [286]int // 256: end of block; from 257 on: match lengths
	distances [30]int
	symbols   int
	bytes     int // of input
	extra     int // extra bits after symbols
}

const endOfBlock = 256

type match struct{ length, distance int }

const ( // bytes of a match
	shortest = 3
	longest  = 258
)

func (b *block) literal(c byte) {
	b.literals[c]++
	b.symbols++
	b.bytes++
}

func (b *block) repeat(m match) {
	n, more := lengthSymbol(m.length)
	b.literals[n]++
	b.extra += more
	n, more = distanceSymbol(m.distance)
	b.distances[n]++
	b.extra += more
	b.symbols++
	b.bytes += m.length
}

// lengthSymbol returns the symbol of a length and the number of its extra bits: four symbols per doubling
// from 8 on, and one for the longest.
func lengthSymbol(n int) (symbol, extra int) {
	n -= shortest
	switch {
	case n == longest-shortest:
		return 285, 0
	case n < 8:
		return 257 + n, 0
	}
	extra = bits.Len(uint(n)) - 3
	return 257 + 4*extra + n>>extra, extra
}

// distanceSymbol does the same for a distance, with two symbols per doubling.
func distanceSymbol(n int) (symbol, extra int) {
	if n--; n < 4 {
		return n, 0
	}
	extra = bits.Len(uint(n)) - 2
	return 2*extra + n>>extra, extra
}

// end returns the number of bits of the block in the smallest of its three forms, if it follows the first behind bits
// of the stream. It starts another block.
func (b *block) end(behind int) int {
	b.literals[endOfBlock]++
	least := 3 + b.extra + min(b.fixed(), b.dynamic())
	if stored := roundUp(behind+3, 8) - behind + 32 + 8*b.bytes; stored <= least {
		least = stored
	}
	*b = block{}
	return least
}

// fixed returns the size with the codes of section 3.2.6.
func (b *block) fixed() (sum int) {
	for symbol, n := range b.literals {
		switch {
		case symbol < 144, symbol >= 280:
			sum += 8 * n
		case symbol < 256:
			sum += 9 * n
		default:
			sum += 7 * n
		}
	}
	for _, n := range b.distances {
		sum += 5 * n
	}
	return sum
}

// dynamic returns the size with codes of its own, including their description (section 3.2.7).
func (b *block) dynamic() int {
	literals, distances := codeLengths(b.literals[:], 15), codeLengths(b.distances[:], 15)
	var runs [19]int
	extra := countRuns(&runs, used(literals)) + countRuns(&runs, used(distances))
	codes := codeLengths(runs[:], 7)
	sent := len(codes)
	for sent > 4 && codes[order[sent-1]] == 0 {
		sent--
	}
	return 14 + 3*sent + extra + product(runs[:], codes) + product(b.literals[:], literals) + product(b.distances[:], distances)
}

// order is the order in which the lengths of code length codes are sent.
var order = [19]int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

func used(lengths []int) []int {
	n := len(lengths)
	for n > 1 && lengths[n-1] == 0 {
		n--
	}
	return lengths[:n]
}

func product(counts, lengths []int) (sum int) {
	for i, n := range counts {
		sum += n * lengths[i]
	}
	return sum
}

// countRuns counts the symbols that describe lengths: 16 repeats the previous one, 17 and 18 are zeros. It
// returns the number of their extra bits.
func countRuns(counts *[19]int, lengths []int) (extra int) {
	for at := 0; at < len(lengths); {
		n := 1
		for at+n < len(lengths) && lengths[at+n] == lengths[at] {
			n++
		}
		value := lengths[at]
		at += n
		if value > 0 {
			counts[value]++
			n--
		}
		for n > 0 {
			switch {
			case n < 3:
				counts[value] += n
				n = 0
			case value > 0:
				counts[16]++
				extra += 2
				n -= min(n, 6)
			case n < 11:
				counts[17]++
				extra += 3
				n = 0
			default:
				counts[18]++
				extra += 7
				n -= min(n, 138)
			}
		}
	}
	return extra
}

// codeLengths returns the lengths of Huffman codes. If a code gets too long, it makes the counts more
// similar.
func codeLengths(counts []int, most int) []int {
	for flat := 0; ; flat++ {
		if lengths := huffman(counts, flat); slices.Max(lengths) <= most {
			return lengths
		}
	}
}

// node is a node of a tree: a symbol, or two nodes.
type node struct{ count, left, right int }

// leaves returns the leaves of the used symbols, and at least two.
func leaves(counts []int, flat int) (list []node) {
	for symbol, n := range counts {
		if n > 0 {
			list = append(list, node{count: n>>flat + flat, left: symbol})
		}
	}
	for symbol := 0; len(list) < 2; symbol++ {
		if counts[symbol] == 0 {
			list = append(list, node{left: symbol})
		}
	}
	slices.SortStableFunc(list, func(a, b node) int { return a.count - b.count })
	return list
}

// huffman joins the two nodes with the smallest counts until one is left. Both the leaves and the new nodes
// are in ascending order.
func huffman(counts []int, flat int) (lengths []int) {
	nodes := leaves(counts, flat)
	n := len(nodes)
	leaf, inner := 0, n
	smallest := func() int {
		if leaf < n && (inner == len(nodes) || nodes[leaf].count <= nodes[inner].count) {
			leaf++
			return leaf - 1
		}
		inner++
		return inner - 1
	}
	for range n - 1 {
		a, b := smallest(), smallest()
		nodes = append(nodes, node{nodes[a].count + nodes[b].count, a, b})
	}
	depths := make([]int, len(nodes))
	for i := len(nodes) - 1; i >= n; i-- {
		depths[nodes[i].left], depths[nodes[i].right] = depths[i]+1, depths[i]+1
	}
	lengths = make([]int, len(counts))
	for i, leaf := range nodes[:n] {
		lengths[leaf.left] = depths[i]
	}
	return lengths
}
