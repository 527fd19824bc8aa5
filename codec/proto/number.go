package proto

import (
	"math/bits"

	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// The ways to code a number.
const (
	wayOwn     = iota // difference to the node's last one
	wayLast           // difference to the last one of the wire type
	wayPlain          // unchanged
	wayDecimal        // a double without its point
	ways
)

// Costs, in bits.
const (
	costNoDecimal = 63
	costNever     = 1 << 20
	costNoLast    = 40
	// costWide is the cost of a way whose numbers have 12 bits; from there on they are coded in two parts.
	costWide = 12 << 7
)

// way returns how the node's next number is coded, and whether in two parts.
func (x *node) way() (best int, wide bool) {
	for i := 1; i < ways; i++ {
		if x.costs[i] < x.costs[best] {
			best = i
		}
	}
	return best, x.costs[best] >= costWide
}

// lowBytes returns how many bytes of a number are coded separately from its highest one.
func lowBytes(u uint64) int { return max(bits.Len64(u)-1, 0) >> 3 }

func (x *node) cost(way, bits int) { x.costs[way] += uint32(bits)<<4 - x.costs[way]>>3 }

// count records the number v at the moment when both sides know it. decimal is its cost in bits as a decimal, which
// matters for wire type 1 only.
func (m *model) count(x *node, v uint64, decimal int) {
	switch x.wire {
	case pbwire.Fixed32Type:
		x.cost(wayOwn, bits.Len32(zigzag32(uint32(v)-uint32(x.prev))))
		x.cost(wayLast, costNoLast)
	default:
		x.cost(wayOwn, bits.Len64(pbwire.Zigzag(v-x.prev)))
		x.cost(wayLast, bits.Len64(pbwire.Zigzag(v-m.last[x.wire])))
	}
	x.cost(wayPlain, bits.Len64(v))
	if x.wire == pbwire.Fixed64Type {
		x.cost(wayDecimal, decimal)
	} else {
		x.costs[wayDecimal] = costNever
	}
	x.prev, m.last[x.wire] = v, v
}

// decimalBits returns the cost of a result of decimal.
func decimalBits(digits int, u uint64) int {
	if digits == pbwire.NotDecimal {
		return costNoDecimal
	}
	return bits.Len64(u) + 1
}

func zigzag32(d uint32) uint32   { return d<<1 ^ uint32(int32(d)>>31) }
func unzigzag32(u uint32) uint32 { return u>>1 ^ -(u & 1) }

// kindBits is the number of bits of a kind for its digits; the number of low bytes is above them.
const kindBits = 3

// decimal is pbwire.Decimal with the number in zigzag.
func decimal(v uint64) (digits int, u uint64) {
	digits, u = pbwire.Decimal(v)
	return digits, pbwire.Zigzag(u)
}

// fromDecimal is the inverse of decimal. It returns false for an unknown kind.
func fromDecimal(digits int, u uint64) (uint64, bool) {
	if !pbwire.IsDecimalKind(digits) {
		return 0, false
	}
	return pbwire.FromDecimal(digits, int64(pbwire.Unzigzag(u))), true
}
