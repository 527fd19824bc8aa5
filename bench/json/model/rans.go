package model

// rANS with a state of 32 bits and words of 16, after Duda, https://arxiv.org/abs/1311.2540. The encoder begins with
// the state 0 instead of the lower bound, so that nothing is spent on it: the decoder knows how many symbols there are.

const (
	scaleBits = 12
	scale     = 1 << scaleBits
	lower     = 1 << 16
)

// sym is a symbol's frequency, of scale, and the sum of those before it in its table.
type sym struct{ cum, freq uint16 }

// An op is a symbol's number, or bits: 1<<31 | how many, up to 16, << 16 | their value.
const bitsOp = 1 << 31

// appendOps appends the ops, those of before first, as the state's bytes and words.
func (m *Model) appendOps(dst []byte, ops, before []uint32) []byte {
	at := len(dst)
	x := uint32(0)
	dst, x = m.putOps(dst, x, ops)
	dst, x = m.putOps(dst, x, before)
	for ; x > 0; x >>= 8 {
		dst = append(dst, byte(x))
	}
	// Reverse: the decoder reads forward. The first bytes are the state, highest byte first.
	for i, j := at, len(dst)-1; i < j; i, j = i+1, j-1 {
		dst[i], dst[j] = dst[j], dst[i]
	}
	return dst
}

func (m *Model) putOps(dst []byte, x uint32, ops []uint32) ([]byte, uint32) {
	for i := len(ops) - 1; i >= 0; i-- {
		op := ops[i]
		if op&bitsOp != 0 {
			k := op >> 16 & 31
			if k == 0 {
				continue
			}
			if x >= 1<<(32-k) {
				dst = append(dst, byte(x), byte(x>>8))
				x >>= 16
			}
			x = x<<k | op&0xffff
			continue
		}
		s := m.syms[op]
		f := uint32(s.freq)
		if uint64(x) >= uint64(f)<<(32-scaleBits) {
			dst = append(dst, byte(x), byte(x>>8))
			x >>= 16
		}
		q := x / f
		x = q<<scaleBits + (x - q*f) + uint32(s.cum)
	}
	return dst, x
}

// reader decodes a stream.
type reader struct {
	x  uint32
	in []byte
}

func (r *reader) begin(in []byte) {
	n := 4
	if len(in) < 4 {
		n = len(in)
	} else if len(in)&1 != 0 {
		n = 3
	}
	r.x = 0
	for _, b := range in[:n] {
		r.x = r.x<<8 | uint32(b)
	}
	r.in = in[n:]
}

func (r *reader) fill() {
	if r.x < lower && len(r.in) >= 2 {
		r.x = r.x<<16 | uint32(r.in[0])<<8 | uint32(r.in[1])
		r.in = r.in[2:]
	}
}

func (r *reader) bits(k uint32) uint32 {
	v := r.x & (1<<k - 1)
	r.x >>= k
	r.fill()
	return v
}

// symbol decodes a symbol of the table of n symbols at base, and returns its place in the table.
func (r *reader) symbol(m *Model, base, n int32) int32 {
	t := m.syms[base : base+n]
	slot := r.x & (scale - 1)
	i := int32(0)
	s := t[0]
	if slot >= uint32(s.freq) {
		if n > 4 {
			i = int32(m.index[m.indexOf[base]+int32(slot>>indexShift)])
		}
		for s = t[i]; slot >= uint32(s.cum)+uint32(s.freq); s = t[i] {
			i++
		}
	}
	x := uint32(s.freq)*(r.x>>scaleBits) + slot - uint32(s.cum)
	if x < lower && len(r.in) >= 2 {
		x = x<<16 | uint32(r.in[0])<<8 | uint32(r.in[1])
		r.in = r.in[2:]
	}
	r.x = x
	return i
}

const (
	indexSize  = 128
	indexShift = 5
)
