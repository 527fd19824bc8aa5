package history

import (
	"math"
	"math/bits"

	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// A number is guessed from the previous number of its series (messages of the same node with the same values), from
// that of the node, or from that of the wire type. If the guess that is right most often is wrong, the difference to
// the guess that is usually closest is coded.

// The guesses.
const (
	wayOwn     = iota // the node's last number
	wayLast           // the last one of the wire type
	waySeen           // the last one of the series
	wayLine           // the same, extrapolated
	wayOwnLine        // the node's last one, extrapolated
	wayPlain          // 0
	ways
)

// seen is the state of a number of a series.
type seen struct {
	prev, prev2 uint64
	size        uint8
}

// numbers is the state of a node's numbers.
type numbers struct {
	seen
	worth   int      // see firstSeriesWorth
	doubles int8     // above 0: they are doubles
	best    [2]uint8 // the guess that is right most often, without and with a series
	hits    [2][ways]uint16
	costs   [2][2][ways]uint32 // as best, and by whether the number is a decimal
	exact   [2][contexts]prob
	sizes   [2]*sizes
	kinds   [8][8]prob
	kind    uint8
}

func newNumbers() *numbers {
	x := &numbers{worth: firstSeriesWorth}
	even(x.exact[0][:], x.exact[1][:])
	for i := range x.kinds {
		even(x.kinds[i][:])
	}
	return x
}

// guessNumber returns the guess of a way.
func (m *model) guessNumber(way int, x *numbers, wire uint8, s *seen) (g uint64) {
	switch way {
	case wayOwn:
		return x.prev
	case wayLast:
		return m.last[wire]
	case waySeen:
		return s.prev
	case wayLine:
		g = 2*s.prev - s.prev2
	case wayOwnLine:
		g = 2*x.prev - x.prev2
	}
	if wire == pbwire.Fixed32Type {
		g &= math.MaxUint32
	}
	return g
}

// codeNumber codes a number of node n in a series.
func (m *model) codeNumber(n uint16, series uint32, v uint64) uint64 {
	x := m.nodes[n].numbers
	if x.worth <= 0 {
		v, _ = m.codeOne(n, x, 0, &seen{size: x.size}, v)
		return v
	}
	if s := m.series.at(series); s != nil {
		x.worth = min(x.worth+hitWorth, mostWorth)
		return m.codeKnown(n, s, v)
	}
	x.worth--
	v, size := m.codeOne(n, x, 0, &seen{size: x.size}, v)
	m.series.put(series, seen{v, v, size})
	return v
}

// codeKnown codes a number of node n with known predecessors.
func (m *model) codeKnown(n uint16, s *seen, v uint64) uint64 {
	v, size := m.codeOne(n, m.nodes[n].numbers, 1, s, v)
	*s = seen{v, s.prev, size}
	return v
}

func (m *model) codeOne(n uint16, x *numbers, known int, old *seen, v uint64) (_ uint64, size uint8) {
	wire := m.nodes[n].wire
	guess := m.guessNumber(int(x.best[known]), x, wire, old)
	if m.flag(&x.exact[known][old.size], v == guess) {
		v, size = guess, 0
	} else {
		v, size = m.codeMissed(x, known, old.size, wire, v, old)
	}
	x.prev2, x.prev, x.size = x.prev, v, size
	m.last[wire] = v
	return v, size
}

// codeMissed codes a number that was not guessed exactly.
func (m *model) codeMissed(x *numbers, known int, size, wire uint8, v uint64, old *seen) (_ uint64, next uint8) {
	var guesses [ways]uint64
	for way := range ways {
		guesses[way] = m.guessNumber(way, x, wire, old)
	}
	digits, whole := pbwire.NotDecimal, v
	near := guesses
	is := 0
	if wire == pbwire.Fixed64Type && x.doubles > 0 {
		if digits, whole = m.codeKind(x, v); digits != pbwire.NotDecimal {
			is = 1
			near = scaledGuesses(guesses, digits, x, old)
		}
	}
	costs := &x.costs[known][is]
	way := cheapest(costs, known)
	s := sizesOf(&x.sizes[is])
	u := m.number(s, int(size), difference(whole, near[way], wire))
	if m.reads {
		whole = near[way] + pbwire.Unzigzag(u)
		if wire == pbwire.Fixed32Type {
			whole &= math.MaxUint32
		}
		if v = whole; is == 1 {
			v = pbwire.FromDecimal(digits, int64(whole))
		}
	}
	for way := range ways {
		n := bits.Len64(difference(whole, near[way], wire))
		costs[way] += uint32(n)<<4 - costs[way]>>3
	}
	x.learn(known, guesses, v)
	if wire == pbwire.Fixed64Type && v != 0 {
		x.learnDouble(v)
	}
	return v, sizeContext(bits.Len64(u))
}

// codeKind codes how many digits a double has after its point, and returns the number without the point too.
func (m *model) codeKind(x *numbers, v uint64) (digits int, whole uint64) {
	if !m.reads {
		digits, whole = pbwire.Decimal(v)
	}
	digits = int(m.tree(x.kinds[x.kind][:], uint32(digits), 3)) - 8
	if digits != pbwire.NotDecimal && !pbwire.IsDecimalKind(digits) {
		m.bad, digits = true, pbwire.NotDecimal
	}
	x.kind = uint8(digits)
	return digits, whole
}

func scaledGuesses(guesses [ways]uint64, digits int, x *numbers, old *seen) (near [ways]uint64) {
	for _, way := range [...]int{wayOwn, wayLast, waySeen} {
		near[way] = pbwire.Scaled(guesses[way], digits)
	}
	near[wayLine] = 2*near[waySeen] - pbwire.Scaled(old.prev2, digits)
	near[wayOwnLine] = 2*near[wayOwn] - pbwire.Scaled(x.prev2, digits)
	return near
}

// cheapest returns the way whose numbers have recently been shortest, the first of equals.
func cheapest(costs *[ways]uint32, known int) int {
	best := wayOwn
	for way := 1; way < ways; way++ {
		if costs[way] < costs[best] && (known == 1 || way != waySeen && way != wayLine) {
			best = way
		}
	}
	return best
}

// learn updates which guess is right most often.
func (x *numbers) learn(known int, guesses [ways]uint64, v uint64) {
	h, best := &x.hits[known], 0
	for way := range ways {
		h[way] -= h[way] >> 4
		if guesses[way] == v {
			h[way] += 1 << 11
		}
		if h[way] > h[best] {
			best = way
		}
	}
	x.best[known] = uint8(best)
}

// learnDouble updates whether numbers look like doubles in common use.
func (x *numbers) learnDouble(v uint64) {
	const least, most = 990, 1087 // exponents, with a bias of 1023: about 1e-10 and 1e19
	if e := v >> 52 & 0x7ff; e >= least && e <= most {
		x.doubles = min(x.doubles+1, 8)
	} else {
		x.doubles = max(x.doubles-1, -8)
	}
}

// difference returns the difference of a number to a guess.
func difference(v, guess uint64, wire uint8) uint64 {
	if wire == pbwire.Fixed32Type {
		return pbwire.Zigzag(uint64(int64(int32(uint32(v) - uint32(guess)))))
	}
	return pbwire.Zigzag(v - guess)
}
