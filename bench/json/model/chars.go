package model

import "slices"

// Short rests are coded in the stream of symbols, before what else is in it: each byte by a distribution that depends
// on the kind of the byte before it.

type charTable struct {
	base uint32
	to   [256]uint8   // symbol of a byte, 0 if its bits follow
	of   []byte       // byte of a symbol
	at   [scale]uint8 // symbol of a slot
}

const charKinds = 10

var charKind = func() (kinds [256]uint8) {
	for c := range 256 {
		switch {
		case c == '"':
			kinds[c] = 0
		case c >= '0' && c <= '9':
			kinds[c] = 1
		case c >= 'A' && c <= 'Z':
			kinds[c] = 2
		case c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u' || c == 'y':
			kinds[c] = 3
		case c == 'n' || c == 'r' || c == 'l' || c == 's':
			kinds[c] = 4
		case c == 't' || c == 'h' || c == 'c' || c == 'd':
			kinds[c] = 5
		case c >= 'a' && c <= 'z':
			kinds[c] = 6
		case c == ' ':
			kinds[c] = 7
		case c < 128:
			kinds[c] = 8
		default:
			kinds[c] = 9
		}
	}
	return kinds
}()

// trainChars learns the bytes of rests.
func (t *trainer) trainChars() {
	var counts [charKinds][256]float64
	e := NewEncoder(t.m)
	for _, d := range t.docs {
		e.parse(d)
		if len(e.rest) > 4*maxChars {
			continue
		}
		kind := uint8(0)
		for _, c := range e.rest {
			counts[kind][c]++
			kind = charKind[c]
		}
	}
	m := t.m
	for k := range counts {
		ct := &m.chars[k]
		ct.base, ct.of = uint32(len(m.syms)), []byte{0}
		freqs := []float64{.5}
		var seen []byte
		for c, n := range counts[k] {
			if n >= least {
				seen = append(seen, byte(c))
			} else {
				freqs[0] += n
			}
		}
		slices.SortStableFunc(seen, func(a, b byte) int { return int(counts[k][b] - counts[k][a]) })
		for _, c := range seen {
			ct.to[c] = uint8(len(ct.of))
			ct.of = append(ct.of, c)
			freqs = append(freqs, counts[k][c])
		}
		syms := make([]sym, len(freqs))
		normalise(syms, freqs)
		m.syms, m.total = append(m.syms, syms...), append(m.total, len(syms))
		for i, s := range syms {
			for j := range s.freq {
				ct.at[s.cum+j] = uint8(i)
			}
		}
	}
}

// maxChars is the length of the longest rest that is coded in the stream of symbols. For longer ones zstd is faster,
// and has what is repeated within a document.
const maxChars = 64

// SplitChars is Split for short rests: these are coded in the symbols.
func (e *Encoder) SplitChars(dst, src []byte) (symbols, rest []byte, inside bool) {
	e.parse(src)
	if len(e.rest) == 0 || len(e.rest) > maxChars {
		return e.m.appendOps(dst, e.ops, nil), e.rest, false
	}
	e.charOps = e.charOps[:0]
	kind := uint8(0)
	for _, c := range e.rest {
		ct := &e.m.chars[kind]
		s := ct.to[c]
		e.charOps = append(e.charOps, ct.base+uint32(s))
		if s == 0 {
			e.charOps = append(e.charOps, bitsOp|8<<16|uint32(c))
		}
		kind = charKind[c]
	}
	return e.m.appendOps(dst, e.ops, e.charOps), e.rest, true
}

// JoinChars is the inverse of SplitChars for a rest of n bytes in the symbols.
func (d *Decoder) JoinChars(dst, symbols []byte, n, maxLen int) ([]byte, error) {
	if n > maxChars {
		return dst, ErrCorrupt
	}
	r := &d.r
	r.begin(symbols)
	d.chars = slices.Grow(d.chars[:0], n)[:n]
	kind := uint8(0)
	for i := range d.chars {
		ct := &d.m.chars[kind]
		slot := r.x & (scale - 1)
		at := ct.at[slot]
		s := d.m.syms[ct.base+uint32(at)]
		r.x = uint32(s.freq)*(r.x>>scaleBits) + slot - uint32(s.cum)
		r.fill()
		c := ct.of[at]
		if at == 0 {
			c = byte(r.bits(8))
		}
		d.chars[i] = c
		kind = charKind[c]
	}
	return d.finish(dst, d.chars, maxLen)
}
