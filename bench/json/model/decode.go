package model

import (
	"bytes"
	"errors"
	"slices"
)

// ErrCorrupt is the error of Join.
var ErrCorrupt = errors.New("corrupt")

// Decoder is the inverse of Encoder.
type Decoder struct {
	m     *Model
	slots [][2]int32
	stack [maxDepth]container
	depth int
	r     reader
	run   int

	chars      []byte
	dst, rest  []byte
	start, max int // in dst
}

// NewDecoder returns a decoder.
func NewDecoder(m *Model) *Decoder { return &Decoder{m: m, slots: make([][2]int32, m.slots)} }

// Join appends the document that Split made symbols and rest of, at most maxLen bytes.
func (d *Decoder) Join(dst, symbols, rest []byte, maxLen int) ([]byte, error) {
	d.r.begin(symbols)
	return d.finish(dst, rest, maxLen)
}

func (d *Decoder) finish(dst, rest []byte, maxLen int) ([]byte, error) {
	d.start = len(dst)
	d.dst, d.rest, d.max = slices.Grow(dst, maxLen), rest, len(dst)+maxLen
	err := d.join()
	out := d.dst
	d.dst, d.rest = nil, nil
	if err == nil && len(out) > d.max {
		err = ErrCorrupt
	}
	if err != nil {
		return out[:d.start], err
	}
	return out, nil
}

// pick returns the next alternative of a table.
func (d *Decoder) pick(t *table) *alt {
	if t.sure < 0 {
		return &t.alts[d.r.symbol(d.m, int32(t.base), int32(len(t.alts)))]
	}
	if d.run > 0 {
		d.run--
		return &t.alts[t.sure]
	}
	a := &t.alts[d.r.symbol(d.m, int32(t.base), int32(len(t.alts)))]
	d.readRun()
	return a
}

func (d *Decoder) readRun() {
	b := int(d.r.symbol(d.m, int32(d.m.runs), runBuckets))
	switch {
	case b < exactRuns:
		d.run = b
	case b == lastRun:
		d.run = 1 << 62
	default:
		l := (b-exactRuns)>>2 + 4
		d.run = (4|(b-exactRuns)&3)<<(l-2) | int(d.r.bits(uint32(l-2)))
	}
}

// quoted takes what is before the next quote from the rest.
func (d *Decoder) quoted() error {
	i := bytes.IndexByte(d.rest, '"')
	if i < 0 {
		return ErrCorrupt
	}
	d.dst = append(d.dst, d.rest[:i]...)
	d.rest = d.rest[i+1:]
	return nil
}

// string takes a string from the rest, its last quote included.
func (d *Decoder) string() error {
	end := stringEnd(d.rest, 0)
	if end < 0 {
		return ErrCorrupt
	}
	d.dst = append(d.dst, d.rest[:end]...)
	d.rest = d.rest[end:]
	return nil
}

func (d *Decoder) join() error {
	m, start := d.m, d.start
	clear(d.slots)
	d.readRun()
	n := int32(rootNode)
	d.depth = 0
	for {
		if d.run > 0 && m.links[3*n].valid && d.run >= int(m.links[3*n].need) {
			state, err := d.follow(3 * n)
			if err != nil {
				return err
			}
			n = state / 3
			if state%3 == 1 {
				goto after
			}
		}
		{
			nd := &m.nodes[n]
			t := &nd.values
			at := len(d.dst)
			if at > d.max {
				return ErrCorrupt
			}
			a := d.pick(t)
			switch a.kind {
			case vText:
				d.dst = append(d.dst, a.text...)
			case vString:
				d.dst = append(d.dst, '"')
				if err := d.string(); err != nil {
					return err
				}
			case vEscaped:
				end := stringEnd(d.rest, 0)
				if end < 0 {
					return ErrCorrupt
				}
				d.dst = appendEscaped(append(d.dst, '"'), d.rest[:end])
				d.rest = d.rest[end:]
			case vNumber:
				v := uint64(0)
				bits := uint32(a.node >> 2)
				switch {
				case bits == 1:
					v = 1
				case bits == 2:
					v = 2 | uint64(a.node&1)
				case bits > 2:
					v = 4 | uint64(a.node&3)
					k := bits - 3
					v = v<<k | d.r.long(k)
				}
				d.dst = appendNumber(d.dst, a.key, v)
			case vTemplate:
				if err := d.parts(nd, a.parts); err != nil {
					return err
				}
			case vOpen:
				if d.depth == maxDepth {
					return ErrCorrupt
				}
				d.dst = append(d.dst, a.text...)
				d.push(n, a.list)
				n = a.node
				continue
			case vOpenList:
				if d.depth == maxDepth {
					return ErrCorrupt
				}
				d.dst = append(d.dst, '[')
				d.push(n, true)
				n = m.resolve(nd.ctx, elements)
				continue
			case vOpenKey, vKnownKey:
				if d.depth == maxDepth {
					return ErrCorrupt
				}
				d.dst = append(d.dst, `{"`...)
				key, err := d.key(a.kind == vKnownKey)
				if err != nil {
					return err
				}
				d.push(n, false)
				n = m.resolve(nd.ctx, key)
				continue
			case vRaw:
				if err := d.quoted(); err != nil {
					return err
				}
			case vSpace:
				if err := d.quoted(); err != nil {
					return err
				}
				continue
			case vRest:
				d.dst = append(d.dst, d.rest...)
				return nil
			}
			if nd.slot >= 0 {
				if len(d.dst) == at {
					return ErrCorrupt
				}
				d.slots[nd.slot] = slotOf(d.dst[start:], at-start, len(d.dst)-start)
			}
		}
	after:
		for {
			if d.run > 0 && m.links[3*n+1].valid && d.run >= int(m.links[3*n+1].need) {
				state, err := d.follow(3*n + 1)
				if err != nil {
					return err
				}
				n = state / 3
				if state%3 == 0 {
					break after
				}
			}
			if len(d.dst) > d.max {
				return ErrCorrupt
			}
			t := &m.nodes[n].after
			a := d.pick(t)
			if d.depth == 0 && a.kind != aEnd && a.kind != aRest && a.kind != aSpace {
				return ErrCorrupt
			}
			switch a.kind {
			case aClose:
				d.dst = append(d.dst, a.text...)
				d.depth--
				n = d.stack[d.depth].node
			case aBrace:
				d.dst = append(d.dst, '}')
				d.depth--
				n = d.stack[d.depth].node
			case aBracket:
				d.dst = append(d.dst, ']')
				d.depth--
				n = d.stack[d.depth].node
			case aNext, aElement:
				d.dst = append(d.dst, a.text...)
				if n = a.node; n < 0 {
					n = m.resolve(m.nodes[d.stack[d.depth-1].node].ctx, a.key)
				}
				break after
			case aComma:
				d.dst = append(d.dst, ',')
				n = m.resolve(m.nodes[d.stack[d.depth-1].node].ctx, elements)
				break after
			case aNextKey, aKnownKey:
				d.dst = append(d.dst, `,"`...)
				key, err := d.key(a.kind == aKnownKey)
				if err != nil {
					return err
				}
				n = m.resolve(m.nodes[d.stack[d.depth-1].node].ctx, key)
				break after
			case aSpace:
				if err := d.quoted(); err != nil {
					return err
				}
			case aRest:
				d.dst = append(d.dst, d.rest...)
				return nil
			case aEnd:
				return nil
			}
		}
	}
}

func (d *Decoder) push(n int32, list bool) {
	d.stack[d.depth] = container{n, list}
	d.depth++
}

// key appends a key, its last quote and a colon.
func (d *Decoder) key(known bool) (int32, error) {
	if known {
		k := d.r.bits(uint32(d.m.keyBits))
		if int(k) >= len(d.m.keys) {
			return 0, ErrCorrupt
		}
		d.dst = append(append(d.dst, d.m.keys[k]...), `":`...)
		return int32(k), nil
	}
	at := len(d.dst)
	if err := d.string(); err != nil {
		return 0, err
	}
	k := d.m.keyOf(d.dst[at : len(d.dst)-1])
	d.dst = append(d.dst, ':')
	return k, nil
}

func (d *Decoder) parts(nd *node, parts []part) error {
	for i := range parts {
		x := &parts[i]
		switch x.kind {
		case pText:
			d.dst = append(d.dst, x.text...)
		case pSlot:
			s := d.slots[x.n]
			d.dst = append(d.dst, d.dst[d.start+int(s[0]):d.start+int(s[1])]...)
		case pDigits:
			for _, g := range x.digits {
				var v int32
				if g.base >= 0 {
					v = d.r.symbol(d.m, g.base, [3]int32{0, 10, 100}[g.n])
				} else {
					v = int32(d.r.bits(uint32(digitBits[g.n])))
				}
				if g.n == 3 {
					d.dst = append(d.dst, byte('0'+v/100%10))
				}
				if g.n >= 2 {
					d.dst = append(d.dst, byte('0'+v/10%10))
				}
				d.dst = append(d.dst, byte('0'+v%10))
			}
		case pHex:
			for left := int(x.n); left > 0; {
				k := min(left, 4)
				v := d.r.bits(uint32(4 * k))
				for i := k - 1; i >= 0; i-- {
					d.dst = append(d.dst, "0123456789abcdef"[v>>(4*i)&15])
				}
				left -= k
			}
		case pFree:
			at := len(d.dst) - d.start
			if err := d.string(); err != nil {
				return err
			}
			if nd.free >= 0 {
				d.slots[nd.free] = [2]int32{int32(at), int32(len(d.dst) - d.start - 1)}
			}
		}
	}
	return nil
}

// follow decodes the chain at a state as far as the run reaches. It returns the state behind it.
func (d *Decoder) follow(state int32) (int32, error) {
	m := d.m
	for {
		l := &m.links[state]
		if !l.valid {
			return state, nil
		}
		if d.run < int(l.need) {
			if state%3 == 2 { // its template has begun
				d.dst = append(d.dst, l.tail...)
				d.run--
				return state - 1, nil
			}
			return state, nil
		}
		if len(d.dst)+len(l.text) > d.max {
			return 0, ErrCorrupt
		}
		d.dst = append(d.dst, l.text...)
		d.run -= int(l.steps)
		state = l.next
		switch l.op {
		case opSlot:
			s := d.slots[l.arg]
			d.dst = append(d.dst, d.dst[d.start+int(s[0]):d.start+int(s[1])]...)
		case opString:
			at := len(d.dst) - d.start
			if err := d.string(); err != nil {
				return 0, err
			}
			if l.arg >= 0 {
				d.slots[l.arg] = [2]int32{int32(at), int32(len(d.dst) - d.start - 1)}
			}
		case opPush:
			if d.depth == maxDepth {
				return 0, ErrCorrupt
			}
			d.push(l.arg, l.list)
		case opPop:
			if d.depth == 0 {
				return 0, ErrCorrupt
			}
			d.depth--
			state = 3*d.stack[d.depth].node + 1
		case opKey:
			if d.depth == 0 {
				return 0, ErrCorrupt
			}
			state = 3 * m.resolve(m.nodes[d.stack[d.depth-1].node].ctx, l.arg)
		case opCut:
			return state, nil
		}
	}
}

// long reads up to 64 bits, as they are written: 16 at a time, the lowest first.
func (r *reader) long(n uint32) (v uint64) {
	at := uint32(0)
	for ; n-at > 16; at += 16 {
		v |= uint64(r.bits(16)) << at
	}
	return v | uint64(r.bits(n-at))<<at
}
