// Package model is a trial of a codec for JSON: structure, enumerations, patterns and numbers are coded with a learnt
// model, and the rest of the text is left for another codec.
//
// A model is an automaton. Its nodes are contexts of values, such as "the member login of an object that is the member
// user". A node has two tables of alternatives: what a value in this context may be (a text, a pattern, a number, any
// string, the opening of an object or array), and what may come after it (the next member's key, a comma, a closing
// bracket). Each step is one symbol of a static distribution; symbols and the digits of patterns make one rANS stream.
// Texts that no alternative names are appended to a second stream, the rest.
//
// All alternatives are texts, white space included, which the decoder concatenates, so that what is decoded is what was
// encoded, whether it is JSON or not.
package model

import (
	"encoding/binary"
	"math/bits"
)

// Kinds of alternatives of values.
const (
	vText     = iota // a whole scalar, or an empty object or array
	vOpen            // the opening of an object, up to its first value, or of an array
	vTemplate        // parts
	vNumber          // a number of a bucket
	vString          // any string: what is behind its first quote is in the rest
	vEscaped         // the same, whose \u escapes are UTF-8 there
	vOpenKey         // an object whose first key is in the rest
	vKnownKey        // an object whose first key's number follows
	vOpenList        // "["
	vRaw             // a scalar in the rest, with a quote behind
	vSpace           // white space in the rest, with a quote behind; the value follows
	vRest            // all that follows is in the rest
	aNext            // the next member up to its value
	aElement         // what separates elements
	aClose           // the end of an object or array
	aNextKey         // the next member, whose key is in the rest
	aKnownKey        // the next member, whose key's number follows
	aComma           // ","
	aBrace           // "}"
	aBracket         // "]"
	aSpace           // white space in the rest, with a quote behind
	aEnd             // the end of the document
	aRest            // all that follows is in the rest
)

// Kinds of parts of templates.
const (
	pText   = iota
	pSlot   // the last value of another node
	pDigits // n digits
	pHex    // n lower-case hex digits
	pFree   // anything, in the rest with a quote behind
)

type part struct {
	text   string
	digits []digits // of pDigits
	n      int32    // digits, or the slot
	kind   uint8
}

// digits are up to three digits of a number of a fixed length.
type digits struct {
	base int32 // first symbol of a table of 10 or 100; -1 for plain digits
	n    int32
}

type alt struct {
	text  string
	parts []part
	key   int32 // of vOpen and aNext; of vNumber the digits after the point << 1 | the sign
	node  int32 // the node that follows, -1 if it depends on the context; of vNumber the bucket
	kind  uint8
	list  bool // of vOpen, aElement and aClose: of an array
	free  bool // of vTemplate: it costs more than its symbol
}

type table struct {
	base  uint32 // its first symbol
	alts  []alt
	count []float64 // uses of the alternatives in training
	sure  int32     // the alternative that is nearly always taken, -1 for none; see runs
	texts lookup    // vText
	first []int32   // alternatives whose text is tried in turn
	temps []int32   // templates
	nums  []numbers
	fixed [aRest + 1]int16 // alternatives without a text, by kind; -1 for none
}

// numbers has the buckets of numbers of a sign and number of digits after the point.
type numbers struct {
	group int32
	alts  [64 << 2]int16 // -1 for none
}

type node struct {
	ctx    int32 // key that the children's contexts are named by, -1 if unknown
	slot   int32 // -1 unless a template refers to it
	free   int32 // slot of what its templates leave free
	values table
	after  table
}

const anyKey = -1

type child struct{ ctx, key int32 }

// Model holds the nodes, their tables and the frequencies of symbols. It is immutable and safe for concurrent use.
type Model struct {
	chars   [charKinds]charTable
	index   []uint16 // see symbol
	indexOf []int32  // by base

	keys    []string
	nodes   []node
	child   map[child]int32
	slots   int
	syms    []sym  // of all tables
	total   []int  // symbols of each table, in the order of their bases, to normalise
	runs    uint32 // base of the table of runs
	links   []link // by state
	keyBits int    // of a key's number

	keyTexts lookup       // of texts
	texts    []alt        // keys, for the lookup
	children []childEntry // hash table of child
}

const (
	rootNode    = 0
	genericNode = 1
	elements    = 0 // the key of arrays' elements
	rootKey     = 1
)

type childEntry struct {
	child
	node int32
}

// resolve returns the node of a key in a context.
func (m *Model) resolve(ctx, key int32) int32 {
	if key < 0 {
		return genericNode
	}
	mask := uint32(len(m.children) - 1)
	for {
		for i := (uint32(ctx)*0x9e3779b1 + uint32(key)*0x85ebca6b) >> 12; ; i++ {
			e := &m.children[i&mask]
			if e.node == 0 {
				break
			}
			if e.ctx == ctx && e.key == key {
				return e.node
			}
		}
		if ctx == anyKey {
			return genericNode
		}
		ctx = anyKey
	}
}

// indexChildren builds what resolve and keyOf look up.
func (m *Model) indexChildren() {
	size := 64
	for size < 2*len(m.child) {
		size *= 2
	}
	m.children = make([]childEntry, size)
	for c, n := range m.child {
		if n == rootNode {
			continue
		}
		i := (uint32(c.ctx)*0x9e3779b1 + uint32(c.key)*0x85ebca6b) >> 12
		for m.children[i&uint32(size-1)].node != 0 {
			i++
		}
		m.children[i&uint32(size-1)] = childEntry{c, n}
	}
	m.texts = nil
	for _, k := range m.keys {
		m.texts = append(m.texts, alt{text: k, kind: vText})
	}
	m.texts[0].kind, m.texts[1].kind = vOpen, vOpen
	m.keyTexts.build(m.texts)
	m.keyBits = bits.Len(uint(len(m.keys)))
}

// keyOf returns the number of a key, or -1.
func (m *Model) keyOf(text []byte) int32 { return m.keyTexts.find(m.texts, text) }

// A run is the number of tables in a row whose sure alternative was taken. Runs are coded where they begin, so that
// such tables cost no symbol: first one of runBuckets, then the bits below it.
const (
	exactRuns  = 16
	runBuckets = exactRuns + 4*12 + 1
	lastRun    = runBuckets - 1 // until the end
)

// runBucket returns the bucket of a run, and the number of bits below it.
func runBucket(n int) (b, bits int) {
	if n < exactRuns {
		return n, 0
	}
	l := 63 - leadingZeros(uint64(n))
	return min(exactRuns+(l-4)<<2+n>>(l-2)&3, lastRun-1), l - 2
}

// lookup finds texts by their hash.
type lookup struct {
	slots []int16 // alternative + 1
	shift uint
}

func hash(text []byte) uint64 {
	n := len(text)
	var a, b uint64
	switch {
	case n >= 8:
		a, b = binary.LittleEndian.Uint64(text), binary.LittleEndian.Uint64(text[n-8:])
	case n >= 4:
		a, b = uint64(binary.LittleEndian.Uint32(text)), uint64(binary.LittleEndian.Uint32(text[n-4:]))
	case n > 0:
		a, b = uint64(text[0])|uint64(text[n>>1])<<8, uint64(text[n-1])
	}
	h := (a ^ uint64(n)<<56) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32 ^ b) * 0xd6e8feb86659fd93
	return h
}

func (l *lookup) find(alts []alt, text []byte) int32 {
	if l.slots == nil {
		return -1
	}
	mask := len(l.slots) - 1
	for i := int(hash(text) >> l.shift); ; i = (i + 1) & mask {
		at := l.slots[i]
		if at == 0 {
			return -1
		}
		if alts[at-1].text == string(text) {
			return int32(at - 1)
		}
	}
}

func (l *lookup) build(alts []alt) {
	n := 0
	for i := range alts {
		if alts[i].kind == vText {
			n++
		}
	}
	*l = lookup{}
	if n == 0 {
		return
	}
	log := uint(bits.Len(uint(n*2 - 1)))
	l.slots, l.shift = make([]int16, 1<<log), 64-log
	for i := range alts {
		if alts[i].kind != vText {
			continue
		}
		at := int(hash([]byte(alts[i].text)) >> l.shift)
		for l.slots[at] != 0 {
			at = (at + 1) & (1<<log - 1)
		}
		l.slots[at] = int16(i + 1)
	}
}

// Size returns about how many bytes a stored model would take.
func (m *Model) Size() (n int) {
	m.eachTable(func(t *table) {
		for i := range t.alts {
			a := &t.alts[i]
			n += 2 // frequency and kind
			if a.kind == aNext || a.kind == vOpen {
				n += 2 // the key's number
			} else {
				n += len(a.text)
			}
			for _, p := range a.parts {
				n += len(p.text) + 2
				for _, g := range p.digits {
					if g.base >= 0 {
						n += [3]int{0, 10, 100}[g.n]
					}
				}
			}
		}
	})
	for _, k := range m.keys {
		n += len(k) + 1
	}
	for i := range m.chars {
		n += 2 * len(m.chars[i].of)
	}
	return n
}
