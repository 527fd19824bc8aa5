package history

// A range coder for bits as in LZMA, with probabilities of 16 bits that adapt faster at first.

// prob is the probability of a bit to be 0, in units of 1/65,536, and the number of bits seen.
type prob struct{ p, n uint16 }

const (
	evenProb = 1 << 15
	mostSeen = 30
	topValue = 1 << 24
)

// rates holds the adaptation rate of a probability, in units of 1/65,536, by the number of bits seen: 1/1.5,
// 1/2.5 and so on.
var rates = func() (r [32]uint32) {
	for i := range r {
		r[i] = uint32(65536 * 2 / (2*i + 3))
	}
	return r
}()

func even(all ...[]prob) {
	for _, p := range all {
		for i := range p {
			p[i] = prob{p: evenProb}
		}
	}
}

// coder is a range coder for both directions. Its methods take the value to code, which a reader's coder ignores, and
// return it: so both sides run through the same steps, mostly of the same functions.
type coder struct {
	reads bool
	rng   uint32

	low     uint64 // of a writer
	cache   byte
	pending int // bytes that a carry may still change, all 0xff but the first
	out     []byte

	code uint32 // of a reader
	in   []byte
	at   int
}

func (c *coder) beginWrite() { *c = coder{rng: 1<<32 - 1, out: c.out[:0], pending: 1} }

func (c *coder) beginRead(in []byte) {
	*c = coder{reads: true, rng: 1<<32 - 1, in: in}
	for range 4 {
		c.code = c.code<<8 | c.next()
	}
}

// next returns the next byte, or zeros after the last one.
func (c *coder) next() uint32 {
	c.at++
	if c.at <= len(c.in) {
		return uint32(c.in[c.at-1])
	}
	return 0
}

// bit codes a bit. For a reader, b is ignored.
func (c *coder) bit(p *prob, b uint32) uint32 {
	bound := (c.rng >> 16) * uint32(p.p)
	if c.reads {
		b = 0
		if c.code >= bound {
			b = 1
		}
	}
	rate := rates[p.n&31]
	if b == 0 {
		c.rng = bound
		p.p += uint16((65536 - uint32(p.p)) * rate >> 16)
	} else {
		c.rng -= bound
		if c.reads {
			c.code -= bound
		} else {
			c.low += uint64(bound)
		}
		p.p -= uint16(uint32(p.p) * rate >> 16)
	}
	if p.n < mostSeen {
		p.n++
	}
	if c.rng < topValue {
		c.normalize()
	}
	return b
}

func (c *coder) flag(p *prob, b bool) bool {
	v := uint32(0)
	if b {
		v = 1
	}
	return c.bit(p, v) != 0
}

// plain codes n bits, at most 16, with equal probabilities.
func (c *coder) plain(v uint32, n uint) uint32 { return c.uniform(v, 1<<n, c.rng>>n) }

// below codes a number below n, which is less than 1<<20, with equal probabilities.
func (c *coder) below(v, n uint32) uint32 { return c.uniform(v, n, c.rng/n) }

// uniform codes a number below n. Each number has an equal part of the range.
func (c *coder) uniform(v, n, each uint32) uint32 {
	c.rng = each
	if c.reads {
		v = min(c.code/each, n-1)
		c.code -= v * each
	} else {
		c.low += uint64(v) * uint64(each)
	}
	c.normalize()
	return v
}

// tree codes a symbol of n bits, the highest first, each in the context of the previous ones. It returns 1<<n
// | symbol. Its bits are less predictable for a CPU than flags are, so it avoids branches on them.
func (c *coder) tree(p []prob, v uint32, n uint) uint32 {
	if c.reads {
		return c.readTree(p, n)
	}
	at, rng, low := uint32(1), c.rng, c.low
	for n > 0 {
		n--
		ones := -(v >> n & 1) // all ones if the bit is 1
		x := &p[at]
		bound := (rng >> 16) * uint32(x.p)
		low += uint64(bound & ones)
		rng = bound + (rng-2*bound)&ones
		x.move(ones)
		at = at<<1 - ones
		if rng < topValue {
			c.rng, c.low = rng, low
			c.normalize()
			rng, low = c.rng, c.low
		}
	}
	c.rng, c.low = rng, low
	return at
}

func (c *coder) readTree(p []prob, n uint) uint32 {
	at, rng, code := uint32(1), c.rng, c.code
	for ; n > 0; n-- {
		x := &p[at]
		bound := (rng >> 16) * uint32(x.p)
		ones := ^uint32((int64(code) - int64(bound)) >> 63)
		code -= bound & ones
		rng = bound + (rng-2*bound)&ones
		x.move(ones)
		at = at<<1 - ones
		if rng < topValue {
			c.rng, c.code = rng, code
			c.normalize()
			rng, code = c.rng, c.code
		}
	}
	c.rng, c.code = rng, code
	return at
}

// move updates a probability after a bit: ones is ^0 if the bit was 1, and 0 if it was 0.
func (x *prob) move(ones uint32) {
	p := uint32(x.p)
	far := p&ones | (65536-p)&^ones
	by := far * rates[x.n&31] >> 16
	x.p = uint16(p + (by ^ ones) - ones)
	if x.n < mostSeen {
		x.n++
	}
}

func (c *coder) normalize() {
	for c.rng < topValue {
		c.rng <<= 8
		if c.reads {
			c.code = c.code<<8 | c.next()
		} else {
			c.shift()
		}
	}
}

// shift writes the highest byte of low, as soon as no carry can change it.
func (c *coder) shift() {
	if uint32(c.low) < 0xff000000 || c.low>>32 != 0 {
		carry := byte(c.low >> 32)
		for b := c.cache; c.pending > 0; c.pending-- {
			c.out = append(c.out, b+carry)
			b = 0xff
		}
		c.cache = byte(c.low >> 24)
	}
	c.pending++
	c.low = uint64(uint32(c.low) << 8)
}

// end returns the output, without trailing bytes that a reader, which reads zeros after the end, does not
// need.
func (c *coder) end() []byte {
	for k := 32; k > 0; k -= 8 {
		low := uint64(1)<<k - 1
		if v := (c.low + low) &^ low; v < c.low+uint64(c.rng) {
			c.low = v
			break
		}
	}
	for range 5 {
		c.shift()
	}
	out := c.out[1:] // the first byte is always 0
	for len(out) > 0 && out[len(out)-1] == 0 {
		out = out[:len(out)-1]
	}
	return out
}
