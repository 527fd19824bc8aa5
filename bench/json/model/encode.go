package model

import (
	"bytes"
	"math/bits"
)

func leadingZeros(v uint64) int { return bits.LeadingZeros64(v) }

const maxDepth = 64

// Encoder splits documents. It is not safe for concurrent use.
type Encoder struct {
	m       *Model
	ops     []uint32
	charOps []uint32
	rest    []byte
	slots   [][2]int32
	stack   [maxDepth]container
	run     int
	runAt   int
}

type container struct {
	node int32
	list bool
}

// NewEncoder returns an encoder.
func NewEncoder(m *Model) *Encoder { return &Encoder{m: m, slots: make([][2]int32, m.slots)} }

// Split returns the coded symbols of a document, appended to dst, and its rest, which the next call overwrites.
func (e *Encoder) Split(dst, src []byte) (symbols, rest []byte) {
	e.parse(src)
	return e.m.appendOps(dst, e.ops, nil), e.rest
}

func (e *Encoder) put(t *table, i int32) {
	if t.sure < 0 {
		e.ops = append(e.ops, t.base+uint32(i))
		return
	}
	if i == t.sure {
		e.run++
		return
	}
	e.endRun()
	e.ops = append(e.ops, t.base+uint32(i))
	e.beginRun()
}

// beginRun makes room for a run, which is known later.
func (e *Encoder) beginRun() {
	e.runAt, e.run = len(e.ops), 0
	e.ops = append(e.ops, e.m.runs+lastRun, bitsOp)
}

func (e *Encoder) endRun() {
	b, bits := runBucket(e.run)
	e.ops[e.runAt] = e.m.runs + uint32(b)
	e.ops[e.runAt+1] = bitsOp | uint32(bits)<<16 | uint32(e.run&(1<<bits-1))
}

func (e *Encoder) bits(v uint64, n int) {
	for ; n > 16; n -= 16 {
		e.ops = append(e.ops, bitsOp|16<<16|uint32(v&0xffff))
		v >>= 16
	}
	if n > 0 {
		e.ops = append(e.ops, bitsOp|uint32(n)<<16|uint32(v))
	}
}

func (e *Encoder) parse(src []byte) {
	m := e.m
	e.ops, e.rest = e.ops[:0], e.rest[:0]
	clear(e.slots)
	e.beginRun()
	n, depth, p := int32(rootNode), 0, 0
	skip := false // chains, for one step
	for {
		// The value at p of node n.
		nd := &m.nodes[n]
		t := &nd.values
		if p >= len(src) {
			e.put(t, int32(t.fixed[vRest]))
			return
		}
		end := -1 // of a scalar or an empty object or array; without it, the rest is left as it is
		if t.sure >= 0 {
			if !skip && m.links[3*n].valid {
				state, at := e.follow(src, 3*n, p, &depth)
				p = at
				n = state / 3
				switch {
				case state%3 == 1:
					goto after
				default:
					skip = true
					continue
				}
			}
			if a := &t.alts[t.sure]; a.kind == vText || a.kind == vTemplate {
				end := 0
				if a.kind == vText {
					if len(a.text) <= len(src)-p && string(src[p:p+len(a.text)]) == a.text {
						end = p + len(a.text)
					}
				} else {
					end = e.matches(a.parts, src, p)
				}
				if end > 0 && (src[end-1] == '"' || end < len(src) && !isScalar(src[end])) {
					e.run++
					if a.free {
						e.parts(nd, a.parts, src, p, end)
					}
					if nd.slot >= 0 {
						e.slots[nd.slot] = slotOf(src, p, end)
					}
					p = end
					skip = false
					goto after
				}
			}
		}
		skip = false
		switch c := src[p]; c {
		case '"':
			end = stringEnd(src, p+1)
		case '{', '[':
			found := false
			if depth < maxDepth {
				for _, i := range t.first {
					a := &t.alts[i]
					if len(a.text) <= len(src)-p && string(src[p:p+len(a.text)]) == a.text {
						// The opening of an array is no prefix of an empty one.
						if end := p + len(a.text); a.key != elements || end < len(src) && src[end] != ']' {
							e.put(t, i)
							e.stack[depth] = container{n, a.list}
							depth++
							if n = a.node; n < 0 {
								n = m.resolve(nd.ctx, a.key)
							}
							p, found = end, true
							break
						}
					}
				}
			}
			if found {
				continue
			}
			if close := spaceEnd(src, p+1); close < len(src) && src[close] == c+2 { // empty
				end = close + 1
				break
			}
			if c == '[' && depth < maxDepth {
				e.put(t, int32(t.fixed[vOpenList]))
				e.stack[depth] = container{n, true}
				depth++
				n = m.resolve(nd.ctx, elements)
				p++
				continue
			}
			if end := keyEnd(src, p+1); end > 0 && depth < maxDepth {
				key := m.keyOf(src[p+2 : end-2])
				if key < 0 {
					e.put(t, int32(t.fixed[vOpenKey]))
					e.rest = append(e.rest, src[p+2:end-1]...)
				} else {
					e.put(t, int32(t.fixed[vKnownKey]))
					e.bits(uint64(key), m.keyBits)
				}
				e.stack[depth] = container{n, false}
				depth++
				n = m.resolve(nd.ctx, key)
				p = end
				continue
			}
		case ' ', '\n', '\t', '\r':
			end := spaceEnd(src, p)
			e.put(t, int32(t.fixed[vSpace]))
			e.rest = append(append(e.rest, src[p:end]...), '"')
			p = end
			continue
		default:
			if end = scalarEnd(src, p); end == p {
				end = -1
			}
		}
		if end < 0 {
			e.put(t, int32(t.fixed[vRest]))
			e.rest = append(e.rest, src[p:]...)
			return
		}
		e.scalar(nd, src, p, end)
		if nd.slot >= 0 {
			e.slots[nd.slot] = slotOf(src, p, end)
		}
		p = end
	after:
		for {
			t := &m.nodes[n].after
			if !skip && m.links[3*n+1].valid {
				state, at := e.follow(src, 3*n+1, p, &depth)
				p = at
				n = state / 3
				skip = true
				if state%3 == 0 {
					break after
				}
				continue
			}
			skip = false
			if depth == 0 && p == len(src) {
				e.put(t, int32(t.fixed[aEnd]))
				return
			}
			for _, i := range t.first {
				a := &t.alts[i]
				if len(a.text) > len(src)-p || string(src[p:p+len(a.text)]) != a.text {
					continue
				}
				if depth == 0 || e.stack[depth-1].list != a.list {
					continue
				}
				e.put(t, i)
				p += len(a.text)
				if a.kind == aClose {
					depth--
					n = e.stack[depth].node
					continue after
				}
				if n = a.node; n < 0 {
					n = m.resolve(m.nodes[e.stack[depth-1].node].ctx, a.key)
				}
				break after
			}
			kind, key, keyTo := aRest, int32(-1), 0
			switch {
			case p >= len(src) || depth == 0:
			case src[p] == ',' && e.stack[depth-1].list:
				kind = aComma
			case src[p] == ',':
				if keyTo = keyEnd(src, p+1); keyTo > 0 {
					kind = aNextKey
					if key = m.keyOf(src[p+2 : keyTo-2]); key >= 0 {
						kind = aKnownKey
					}
				}
			case src[p] == '}' && !e.stack[depth-1].list:
				kind = aBrace
			case src[p] == ']' && e.stack[depth-1].list:
				kind = aBracket
			}
			if kind == aRest && spaceEnd(src, p) > p {
				kind = aSpace
			}
			e.put(t, int32(t.fixed[kind]))
			switch kind {
			case aRest:
				e.rest = append(e.rest, src[p:]...)
				return
			case aSpace:
				end := spaceEnd(src, p)
				e.rest = append(append(e.rest, src[p:end]...), '"')
				p = end
			case aComma:
				p++
				n = m.resolve(m.nodes[e.stack[depth-1].node].ctx, elements)
				break after
			case aNextKey, aKnownKey:
				end := keyTo
				if kind == aNextKey {
					e.rest = append(e.rest, src[p+2:end-1]...)
				} else {
					e.bits(uint64(key), m.keyBits)
				}
				n = m.resolve(m.nodes[e.stack[depth-1].node].ctx, key)
				p = end
				break after
			default:
				p++
				depth--
				n = e.stack[depth].node
			}
		}
	}
}

// keyEnd returns the index behind a key at p and its colon, without white space between them, or -1.
func keyEnd(src []byte, p int) int {
	if p >= len(src) || src[p] != '"' {
		return -1
	}
	q := stringEnd(src, p+1)
	if q < 0 || q >= len(src) || src[q] != ':' {
		return -1
	}
	return q + 1
}

// scalar codes the value src[p:end].
func (e *Encoder) scalar(nd *node, src []byte, p, end int) {
	t, text := &nd.values, src[p:end]
	at := t.texts.find(t.alts, text)
	for _, i := range t.temps {
		a := &t.alts[i]
		if at >= 0 && (at < i || a.free) {
			break
		}
		if e.matches(a.parts, src, p) == end {
			e.put(t, i)
			if a.free {
				e.parts(nd, a.parts, src, p, end)
			}
			return
		}
	}
	if at >= 0 {
		e.put(t, at)
		return
	}
	if text[0] == '"' {
		if at := len(e.rest); bytes.IndexByte(text, '\\') >= 0 && bytes.Contains(text, []byte(`\u`)) {
			var ok bool
			if e.rest, ok = appendUnescaped(e.rest, text[1:]); ok {
				e.put(t, int32(t.fixed[vEscaped]))
				return
			}
			e.rest = e.rest[:at]
		}
		e.put(t, int32(t.fixed[vString]))
		e.rest = append(e.rest, text[1:]...)
		return
	}
	if group, v, ok := parseNumber(text); ok {
		if nums := t.number(group, false); nums != nil {
			b := bucket(v)
			if i := nums.alts[b]; i >= 0 {
				e.put(t, int32(i))
				if n := int(b>>2) - 3; n > 0 {
					e.bits(v&(1<<n-1), n)
				}
				return
			}
		}
	}
	e.put(t, int32(t.fixed[vRaw]))
	e.rest = append(append(e.rest, text...), '"')
}

// follow encodes the chain at a state as far as the document follows it. It returns the state behind it, which isn't
// the middle of a template, and the position.
func (e *Encoder) follow(src []byte, state int32, p int, depth *int) (int32, int) {
	m, mark := e.m, 0
	for {
		l := &m.links[state]
		if !l.valid {
			return state, p
		}
		end := p + len(l.text)
		if end > len(src) || string(src[p:end]) != l.text {
			break
		}
		switch l.op {
		case opSlot:
			s := e.slots[l.arg]
			n := int(s[1] - s[0])
			if n == 0 || n > len(src)-end || string(src[end:end+n]) != string(src[s[0]:s[1]]) {
				goto broken
			}
			mark = p + int(l.mark)
			end += n
		case opString:
			q := stringEnd(src, end)
			if q < 0 {
				goto broken
			}
			if bytes.IndexByte(src[end:q], '\\') >= 0 {
				goto broken
			}
			e.rest = append(e.rest, src[end:q]...)
			if l.arg >= 0 {
				e.slots[l.arg] = [2]int32{int32(end), int32(q - 1)}
			}
			end = q
		case opPush:
			if *depth == maxDepth || l.list && (end >= len(src) || src[end] == ']') {
				goto broken
			}
			e.stack[*depth] = container{l.arg, l.list}
			*depth++
		case opPop:
			*depth--
			p, state = end, 3*e.stack[*depth].node+1
			e.run += int(l.steps)
			continue
		case opKey:
			e.run += int(l.steps)
			p, state = end, 3*m.resolve(m.nodes[e.stack[*depth-1].node].ctx, l.arg)
			continue
		case opCut:
			e.run += int(l.steps)
			return l.next, end
		}
		e.run += int(l.steps)
		p, state = end, l.next
	}
broken:
	if state%3 == 2 {
		return state - 2, mark
	}
	return state, p
}

// slotOf returns where the text of a scalar is. Empty objects and arrays have none.
func slotOf(src []byte, p, end int) [2]int32 {
	switch src[p] {
	case '"':
		return [2]int32{int32(p + 1), int32(end - 1)}
	case '{', '[':
		return [2]int32{}
	}
	return [2]int32{int32(p), int32(end)}
}

// matches returns the index behind what a template matches at p, or -1.
func (e *Encoder) matches(parts []part, src []byte, p int) int {
	for i := range parts {
		x := &parts[i]
		switch x.kind {
		case pText:
			if len(x.text) > len(src)-p || src[p] != x.text[0] || string(src[p:p+len(x.text)]) != x.text {
				return -1
			}
			p += len(x.text)
		case pSlot:
			s := e.slots[x.n]
			n := int(s[1] - s[0])
			if n == 0 || n > len(src)-p || src[p] != src[s[0]] || string(src[p:p+n]) != string(src[s[0]:s[1]]) {
				return -1
			}
			p += n
		case pDigits:
			n := int(x.n)
			if n > len(src)-p {
				return -1
			}
			for _, c := range src[p : p+n] {
				if c-'0' > 9 {
					return -1
				}
			}
			p += n
		case pHex:
			n := int(x.n)
			if n > len(src)-p {
				return -1
			}
			for _, c := range src[p : p+n] {
				if !isHex(c) {
					return -1
				}
			}
			p += n
		case pFree: // up to the next quote
			end := bytes.IndexByte(src[p:], '"')
			if end < 0 || end > 0 && src[p+end-1] == '\\' {
				return -1
			}
			return p + end + 1
		}
	}
	return p
}

// parts codes what the parts of a template leave open.
func (e *Encoder) parts(nd *node, parts []part, src []byte, p, end int) {
	for i := range parts {
		x := &parts[i]
		switch x.kind {
		case pText:
			p += len(x.text)
		case pSlot:
			s := e.slots[x.n]
			p += int(s[1] - s[0])
		case pDigits:
			for _, g := range x.digits {
				v := int32(0)
				for _, c := range src[p : p+int(g.n)] {
					v = v*10 + int32(c-'0')
				}
				p += int(g.n)
				if g.base >= 0 {
					e.ops = append(e.ops, uint32(g.base+v))
				} else {
					e.bits(uint64(v), digitBits[g.n])
				}
			}
		case pHex:
			for n := int(x.n); n > 0; {
				v, k := uint64(0), min(n, 4)
				for _, c := range src[p : p+k] {
					if c >= 'a' {
						c -= 'a' - '0' - 10
					}
					v = v<<4 | uint64(c-'0')
				}
				e.bits(v, 4*k)
				p, n = p+k, n-k
			}
		case pFree:
			e.rest = append(e.rest, src[p:end]...)
			if nd.free >= 0 {
				e.slots[nd.free] = [2]int32{int32(p), int32(end - 1)}
			}
			return
		}
	}
}

var digitBits = [4]int{0, 4, 7, 10}
