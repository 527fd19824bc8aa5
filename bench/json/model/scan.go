package model

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// stringEnd returns the index behind the quote that ends the string whose text begins at p, or -1.
func stringEnd(src []byte, p int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for p+8 <= len(src) {
		w := binary.LittleEndian.Uint64(src[p:])
		q, b := w^'"'*ones, w^'\\'*ones
		found := ((q-ones)&^q | (b-ones)&^b) & highs // its lowest bit is right
		if found == 0 {
			p += 8
			continue
		}
		p += bits.TrailingZeros64(found) >> 3
		if src[p] == '"' {
			return p + 1
		}
		p += 2 // an escape
	}
	for p < len(src) {
		switch src[p] {
		case '"':
			return p + 1
		case '\\':
			p++
		}
		p++
	}
	return -1
}

// appendUnescaped appends the text of a string with UTF-8 instead of its \u escapes. It is not ok unless
// appendEscaped makes the same text of it.
func appendUnescaped(dst, text []byte) ([]byte, bool) {
	for i := 0; i < len(text); {
		c := text[i]
		if c >= 0x80 {
			return dst, false
		}
		if c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		if i+1 == len(text) || text[i+1] >= 0x80 {
			return dst, false
		}
		if text[i+1] != 'u' {
			dst = append(dst, c, text[i+1])
			i += 2
			continue
		}
		r, ok := unit(text[i:])
		if !ok || r < 0x80 {
			return dst, false
		}
		i += 6
		if utf16.IsSurrogate(r) {
			low, ok := unit(text[i:])
			if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
				return dst, false
			}
			i += 6
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst, true
}

// unit returns the code unit of a \u escape with lower-case digits at the begin of text.
func unit(text []byte) (r rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	a, b, c, d := hexValue[text[2]], hexValue[text[3]], hexValue[text[4]], hexValue[text[5]]
	return rune(a)<<12 | rune(b)<<8 | rune(c)<<4 | rune(d), a|b|c|d < 16
}

// hexValue has the values of lower-case hex digits, 255 for other bytes.
var hexValue = func() (v [256]uint8) {
	for c := range v {
		v[c] = 255
	}
	for i, c := range "0123456789abcdef" {
		v[c] = uint8(i)
	}
	return v
}()

// appendEscaped is the inverse of appendUnescaped.
func appendEscaped(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		if text[i] < 0x80 {
			dst = append(dst, text[i])
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		i += n
		if r >= 0x10000 {
			high, low := utf16.EncodeRune(r)
			dst = appendUnit(dst, high)
			r = low
		}
		dst = appendUnit(dst, r)
	}
	return dst
}

func appendUnit(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

// spaceEnd returns the index behind white space at p.
func spaceEnd(src []byte, p int) int {
	for p < len(src) && (src[p] == ' ' || src[p] == '\n' || src[p] == '\t' || src[p] == '\r') {
		p++
	}
	return p
}

// scalarEnd returns the index behind a number or name at p.
func scalarEnd(src []byte, p int) int {
	for p < len(src) {
		if !isScalar(src[p]) {
			return p
		}
		p++
	}
	return p
}

func isScalar(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '.' || c == '+' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// parseNumber returns a number's group (digits after the point << 1 | sign) and its digits as an integer. It is not ok
// unless formatNumber makes the same text of them.
func parseNumber(text []byte) (group int32, v uint64, ok bool) {
	p := 0
	if p < len(text) && text[p] == '-' {
		group, p = 1, 1
	}
	digits := 0
	if p < len(text) && text[p] == '0' {
		digits, p = 1, p+1
	} else {
		for p < len(text) && text[p]-'0' <= 9 {
			v = v*10 + uint64(text[p]-'0')
			digits, p = digits+1, p+1
		}
	}
	if digits == 0 {
		return 0, 0, false
	}
	if p < len(text) && text[p] == '.' {
		p++
		at := p
		for p < len(text) && text[p]-'0' <= 9 {
			v = v*10 + uint64(text[p]-'0')
			p++
		}
		if p == at {
			return 0, 0, false
		}
		digits += p - at
		group |= int32(p-at) << 1
	}
	return group, v, p == len(text) && digits <= 18
}

// appendNumber is the inverse of parseNumber.
func appendNumber(dst []byte, group int32, v uint64) []byte {
	if group&1 != 0 {
		dst = append(dst, '-')
	}
	var buf [24]byte
	i, fraction := len(buf), int(group>>1)
	for n := 0; v > 0 || n <= fraction; n++ {
		if n == fraction && n > 0 {
			i--
			buf[i] = '.'
		}
		i--
		buf[i] = byte('0' + v%10)
		v /= 10
	}
	return append(dst, buf[i:]...)
}

// A token of a document that training reads.
type token struct {
	kind uint8 // vText for scalars, vOpen, aNext, aElement, aClose or aEnd
	at   child // the value that it is of
	next child // of vOpen, aNext and aElement: the value that follows
	text []byte
}

// walker reads documents for training.
type walker struct {
	keys  []string
	keyID map[string]int32
}

func (w *walker) key(text []byte) int32 {
	id, ok := w.keyID[string(text)]
	if !ok {
		id = int32(len(w.keys))
		w.keys = append(w.keys, string(text))
		w.keyID[string(text)] = id
	}
	return id
}

// open is an object or array that has not ended.
type open struct {
	child
	list bool
}

// walk returns a document's tokens, or false if it isn't JSON.
func (w *walker) walk(src []byte) (out []token, ok bool) {
	var stack []open
	at := child{rootKey, rootKey}
	p := spaceEnd(src, 0)
	for {
		if p >= len(src) || len(stack) > 60 {
			return nil, false
		}
		// The value.
		begin := p
		opened := false
		switch src[p] {
		case '"':
			if p = stringEnd(src, p+1); p < 0 {
				return nil, false
			}
		case '{':
			p = spaceEnd(src, p+1)
			if p < len(src) && src[p] == '}' {
				p++
				break
			}
			key, end := w.member(src, p)
			if end < 0 {
				return nil, false
			}
			ctx := at.inner()
			out = append(out, token{vOpen, at, child{ctx, key}, src[begin:end]})
			stack = append(stack, open{at, false})
			at, p, opened = child{ctx, key}, end, true
		case '[':
			p = spaceEnd(src, p+1)
			if p < len(src) && src[p] == ']' {
				p++
				break
			}
			ctx := at.inner()
			out = append(out, token{vOpen, at, child{ctx, elements}, src[begin:p]})
			stack = append(stack, open{at, true})
			at, opened = child{ctx, elements}, true
		default:
			if p = scalarEnd(src, p); p == begin {
				return nil, false
			}
		}
		if opened {
			continue
		}
		out = append(out, token{vText, at, child{}, src[begin:p]})
		// What is after it.
		for {
			begin = p
			p = spaceEnd(src, p)
			if len(stack) == 0 {
				out = append(out, token{aEnd, at, child{}, nil})
				return out, p == len(src)
			}
			if p >= len(src) {
				return nil, false
			}
			top := stack[len(stack)-1]
			if src[p] == ',' {
				p = spaceEnd(src, p+1)
				if top.list {
					out = append(out, token{aElement, at, child{top.inner(), elements}, src[begin:p]})
					at = child{top.inner(), elements}
					break
				}
				key, end := w.member(src, p)
				if end < 0 {
					return nil, false
				}
				next := child{top.inner(), key}
				out = append(out, token{aNext, at, next, src[begin:end]})
				at, p = next, end
				break
			}
			if src[p] != '}' && src[p] != ']' {
				return nil, false
			}
			p++
			out = append(out, token{aClose, at, child{}, src[begin:p]})
			stack = stack[:len(stack)-1]
			at = top.child
		}
	}
}

// inner returns the context of members and elements of a value.
func (c child) inner() int32 {
	if c.key == elements {
		return c.ctx
	}
	return c.key
}

// member returns the key at p, and the index of its value, or -1.
func (w *walker) member(src []byte, p int) (key int32, end int) {
	if p >= len(src) || src[p] != '"' {
		return 0, -1
	}
	q := stringEnd(src, p+1)
	if q < 0 {
		return 0, -1
	}
	end = spaceEnd(src, q)
	if end >= len(src) || src[end] != ':' {
		return 0, -1
	}
	return w.key(src[p+1 : q-1]), spaceEnd(src, end+1)
}
