package pbwire

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// PackedTrials limits the values of a node that are tried in vain as packed fields.
const PackedTrials = 32

// PackedAs returns the wire type of the numbers that bytes consist of, and how many there are, if coding them
// as numbers is better.
func PackedAs(b []byte) (wire uint8, count int, ok bool) {
	switch {
	case len(b)%8 == 0 && len(b) >= 16 && fixedPay(b, 8):
		return Fixed64Type, len(b) / 8, true
	case len(b)%4 == 0 && len(b) >= 16 && fixedPay(b, 4):
		return Fixed32Type, len(b) / 4, true
	}
	count, ok = varintsPay(b)
	return VarintType, count, ok
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
	digits, _ := Decimal(v)
	return digits != NotDecimal
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
		v, size := Uvarint(b[at:])
		if at += size; size == 0 {
			return 0, false
		}
		sum += extra + min(bits.Len64(v), bits.Len64(Zigzag(v-last)))
		last = v
		if count++; count == 16 && sum*4 > at*8*3 {
			return 0, false
		}
	}
	return count, sum*4 <= len(b)*8*3
}

// Zigzag codes a difference so that small negative ones are small too.
func Zigzag(d uint64) uint64 { return d<<1 ^ uint64(int64(d)>>63) }

// Unzigzag is the inverse of Zigzag.
func Unzigzag(u uint64) uint64 { return u>>1 ^ -(u & 1) }

// NotDecimal is the kind of doubles that are coded unchanged.
const NotDecimal = 7

const (
	maxDecimal   = 1e15 // whole numbers below are exact
	negativeZero = 1 << 63
)

var (
	tens         = [...]float64{1, 10, 100, 1000, 0, 0, 1e6, 0}
	decimalKinds = [...]int{0, 1, 2, 3, 6}
)

// mayBeDecimal rules out most doubles that are not decimals: one with fewer digits has six as well, unless it
// is too large.
func mayBeDecimal(f float64) bool {
	const most = 1e6
	scaled := f * most
	return math.Abs(scaled) > maxDecimal || math.RoundToEven(scaled)/most == f
}

// Decimal returns how many digits a double has after its point, and the number without the point. For other
// doubles it returns NotDecimal and v.
func Decimal(v uint64) (digits int, whole uint64) {
	f := math.Float64frombits(v)
	if !mayBeDecimal(f) {
		return NotDecimal, v
	}
	for _, k := range decimalKinds {
		scaled := f * tens[k]
		if !(math.Abs(f) <= maxDecimal && math.Abs(scaled) <= maxDecimal) {
			break
		}
		i := math.RoundToEven(scaled)
		if math.Float64bits(i/tens[k]) == v && v != negativeZero {
			return k, uint64(int64(i))
		}
	}
	return NotDecimal, v
}

// IsDecimalKind reports whether Decimal may return a number of digits.
func IsDecimalKind(digits int) bool { return digits < len(tens) && tens[digits] != 0 }

// FromDecimal is the inverse of Decimal.
func FromDecimal(digits int, whole int64) uint64 {
	return math.Float64bits(float64(whole) / tens[digits])
}

// Scaled returns a double without its point, rounded to the given digits; 0 for one that is too large.
func Scaled(v uint64, digits int) uint64 {
	f := math.Float64frombits(v) * tens[digits]
	if !(math.Abs(f) <= maxDecimal) {
		return 0
	}
	return uint64(int64(math.RoundToEven(f)))
}
