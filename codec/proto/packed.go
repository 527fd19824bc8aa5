package proto

import (
	"encoding/binary"
	"math/bits"
)

// Packed fields: values of wire type 2 that consist of numbers of one wire type. They have a shape of one run
// with the field number 0, whose numbers have no tags.

// packedTrials limits the values of a node that are tried in vain.
const packedTrials = 32

// packed codes the content of a value of node n as numbers. Unless it returns true nothing has been coded.
func (e *transform) packed(n uint16, f field, depth int) bool {
	if depth >= maxDepth || e.nodes[n].unpacked >= packedTrials {
		return false
	}
	src := e.src[f.from():f.to()]
	wire, count, ok := packedAs(src)
	if !ok {
		e.nodes[n].unpacked++
		return false
	}
	nodes, children := len(e.nodes), len(e.nodes[n].children)
	c, ok := e.child(n, 0, wire, maxNodes)
	if !ok {
		return false
	}
	e.runsHere = append(e.runsHere[:0], run{c, true})
	number, isNew, ok := e.findShape(n, []uint32{uint32(count)})
	if !ok {
		e.nodes, e.nodes[n].children = e.nodes[:nodes], e.nodes[n].children[:children]
		return false
	}
	e.beginShape(n, number, isNew)
	e.put(c, colCounts, uint64(count))
	for at := 0; at < len(src); { // without e.fields: there may be millions
		var v field
		v, at = readField(src, at, wire)
		e.number(c, uint64(v))
	}
	e.nodes[n].unpacked = 0
	return true
}

// packedAs returns the wire type of the numbers that bytes consist of, and how many there are, if coding them
// as numbers is better.
func packedAs(b []byte) (wire uint8, count int, ok bool) {
	switch {
	case len(b)%8 == 0 && len(b) >= 16 && fixedPay(b, 8):
		return wire64, len(b) / 8, true
	case len(b)%4 == 0 && len(b) >= 16 && fixedPay(b, 4):
		return wire32, len(b) / 4, true
	}
	count, ok = varintsPay(b)
	return wireVarint, count, ok
}

// fixedPay reports whether numbers of a size are mostly small, decimal, or alike in their upper parts.
func fixedPay(b []byte, size int) bool {
	last, worth, all := uint64(0), 0, len(b)/size
	for i := 0; i < len(b); i += size {
		if i >= 64 && worth*4 < i/size*3 { // enough of them have been tried
			return false
		}
		var v uint64
		if size == 8 {
			v = binary.LittleEndian.Uint64(b[i:])
		} else {
			v = uint64(binary.LittleEndian.Uint32(b[i:]))
		}
		upper := uint(size) * 8 / 2
		if v>>upper == last>>upper || v>>upper == 0 || size == 8 && isDecimal(v) {
			worth++
		}
		last = v
	}
	return worth*4 >= all*3
}

func isDecimal(v uint64) bool {
	digits, _ := decimal(v)
	return digits != notDecimal
}

// varintsPay reports whether bytes are varints that are shorter as plain numbers or as differences, in bits.
func varintsPay(b []byte) (count int, ok bool) {
	const least, extra = 8, 3 // bytes, and additional bits per number
	if len(b) < least {
		return 0, false
	}
	var last uint64
	var sum int
	for at := 0; at < len(b); {
		v, size := uvarint(b[at:])
		if at += size; size == 0 {
			return 0, false
		}
		sum += extra + min(bits.Len64(v), bits.Len64(zigzag(v-last)))
		last = v
		if count++; count == 16 && sum*4 > at*8*3 {
			return 0, false
		}
	}
	return count, sum*4 <= len(b)*8*3
}
