package history

import "math"

const (
	notDecimal   = 7
	maxDecimal   = 1e15 // whole numbers below are exact
	negativeZero = 1 << 63
)

var (
	tens         = [...]float64{1, 10, 100, 1000, 0, 0, 1e6, 0}
	decimalKinds = [...]int{0, 1, 2, 3, 6}
)

// decimal returns how many digits a double has after its point, and the number without the point.
func decimal(v uint64) (digits int, whole uint64) {
	f := math.Float64frombits(v)
	if !mayBeDecimal(f) {
		return notDecimal, v
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
	return notDecimal, v
}

// mayBeDecimal rules out most doubles that are not decimals: one with fewer digits has six as well, unless it
// is too large.
func mayBeDecimal(f float64) bool {
	const most = 1e6
	scaled := f * most
	return math.Abs(scaled) > maxDecimal || math.RoundToEven(scaled)/most == f
}

// fromDecimal is the inverse of decimal.
func fromDecimal(digits int, whole int64) uint64 {
	return math.Float64bits(float64(whole) / tens[digits])
}

// scaled returns a double without its point, rounded to the given digits; 0 for one that is too large.
func scaled(v uint64, digits int) uint64 {
	f := math.Float64frombits(v) * tens[digits]
	if !(math.Abs(f) <= maxDecimal) {
		return 0
	}
	return uint64(int64(math.RoundToEven(f)))
}
