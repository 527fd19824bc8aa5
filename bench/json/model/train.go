package model

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

// least is the number of documents that must have a text before a model holds it.
const least = 3

const (
	maxTexts     = 1024 // of a table
	maxTemplates = 8    // of a table
	lookBack     = 64   // scalars that a template may refer to

	templateShare = .1 // of a node's values, that a template must have: each costs a comparison for all others
)

type trainer struct {
	walker
	m    *Model
	docs [][]byte
	toks [][]token
	gen  []*gathered           // by node
	free map[occurrence][]byte // what the templates leave free
}

// order returns the nodes by where they are in documents, so that templates refer to nodes that have theirs.
func (t *trainer) order() (nodes []int32) {
	sum := make([]float64, len(t.gen))
	for n, g := range t.gen {
		nodes = append(nodes, int32(n))
		for _, o := range g.occurs {
			sum[n] += float64(o.tok)
		}
		sum[n] /= float64(max(1, len(g.occurs)))
	}
	slices.SortStableFunc(nodes, func(a, b int32) int { return cmp.Compare(sum[a], sum[b]) })
	return nodes
}

// gathered holds the tokens of all documents at a node.
type gathered struct {
	docs    int
	lastDoc int
	texts   map[string]*seen // scalars
	opens   map[string]*seen
	afters  map[string]*seen
	occurs  []occurrence
	at      child
}

type seen struct {
	tok     token
	docs    int
	lastDoc int
	count   int
}

type occurrence struct{ doc, tok int }

// Train returns a model of documents.
func Train(docs [][]byte) *Model {
	t := &trainer{m: &Model{child: map[child]int32{}}}
	t.keyID = map[string]int32{}
	t.key([]byte("[]"))
	t.key([]byte("\x00"))
	for _, d := range docs {
		if toks, ok := t.walk(d); ok {
			t.docs, t.toks = append(t.docs, d), append(t.toks, toks)
		}
	}
	t.makeNodes()
	t.gather()
	t.free = map[occurrence][]byte{}
	for _, n := range t.order() {
		t.makeTables(n)
	}
	t.m.finish()
	for range 2 {
		t.count()
	}
	t.m.prune()
	t.m.finish()
	t.count()
	t.m.chooseSure()
	t.m.compile()
	t.countRuns()
	t.trainChars()
	t.m.indexSymbols()
	return t.m
}

// makeNodes makes a node for each context that enough documents have, and for each key.
func (t *trainer) makeNodes() {
	docs, last := map[child]int{}, map[child]int{}
	ctxs := map[int32]map[int32]bool{}
	see := func(doc int, c child) {
		for _, c := range []child{c, {anyKey, c.key}} {
			if last[c] != doc+1 {
				last[c] = doc + 1
				docs[c]++
			}
		}
		if ctxs[c.key] == nil {
			ctxs[c.key] = map[int32]bool{}
		}
		ctxs[c.key][c.ctx] = true
	}
	for i, toks := range t.toks {
		for _, tok := range toks {
			if tok.kind == vOpen || tok.kind == aNext {
				see(i, tok.next)
			}
		}
	}
	m := t.m
	m.nodes = []node{{ctx: rootKey, slot: -1, free: -1}, {ctx: anyKey, slot: -1, free: -1}}
	t.gen = []*gathered{newGathered(child{rootKey, rootKey}), newGathered(child{anyKey, anyKey})}
	m.child[child{rootKey, rootKey}] = rootNode
	all := slices.SortedFunc(maps.Keys(docs), func(a, b child) int {
		return cmp.Or(cmp.Compare(a.ctx, b.ctx), cmp.Compare(a.key, b.key))
	})
	for _, c := range all {
		if docs[c] < least || c.ctx == anyKey && len(ctxs[c.key]) < 2 {
			continue
		}
		n := node{ctx: c.inner(), slot: -1, free: -1}
		if c == (child{anyKey, elements}) {
			n.ctx = anyKey
		}
		m.child[c] = int32(len(m.nodes))
		m.nodes = append(m.nodes, n)
		t.gen = append(t.gen, newGathered(c))
	}
	// A key of a single context is found in every context.
	for _, c := range all {
		if c.ctx != anyKey && len(ctxs[c.key]) == 1 {
			if n, ok := m.child[c]; ok {
				m.child[child{anyKey, c.key}] = n
			}
		}
	}
	t.renumber()
	m.indexChildren()
}

// renumber leaves the keys of nodes only.
func (t *trainer) renumber() {
	m := t.m
	number, keys := map[int32]int32{anyKey: anyKey, elements: elements, rootKey: rootKey}, t.keys[:2:2]
	used := func(old int32) int32 {
		id, ok := number[old]
		if !ok {
			id = int32(len(keys))
			number[old] = id
			keys = append(keys, t.keys[old])
		}
		return id
	}
	known := map[int32]bool{}
	for c := range m.child {
		known[c.key] = true
	}
	for old := range int32(len(t.keys)) {
		if known[old] {
			used(old)
		}
	}
	// Contexts are keys too; others than those of nodes count as unknown.
	of := func(old, otherwise int32) int32 {
		if id, ok := number[old]; ok {
			return id
		}
		return otherwise
	}
	renumbered := func(c child, otherwise int32) child { return child{of(c.ctx, anyKey), of(c.key, otherwise)} }
	all := m.child
	m.child = map[child]int32{}
	for c, n := range all {
		m.child[renumbered(c, anyKey)] = n
	}
	for i := range m.nodes {
		m.nodes[i].ctx = of(m.nodes[i].ctx, anyKey)
		t.gen[i].at = renumbered(t.gen[i].at, anyKey)
	}
	for _, toks := range t.toks {
		for i := range toks {
			toks[i].at = renumbered(toks[i].at, unknownKey)
			toks[i].next = renumbered(toks[i].next, unknownKey)
		}
	}
	m.keys = keys
}

const unknownKey = -2 // of tokens

func newGathered(at child) *gathered {
	return &gathered{texts: map[string]*seen{}, opens: map[string]*seen{}, afters: map[string]*seen{}, at: at}
}

func (t *trainer) gather() {
	for i, toks := range t.toks {
		for j, tok := range toks {
			into := []int32{}
			if n, ok := t.m.child[tok.at]; ok {
				into = append(into, n)
			}
			if n, ok := t.m.child[child{anyKey, tok.at.key}]; ok && !slices.Contains(into, n) {
				into = append(into, n)
			}
			for _, n := range into {
				g := t.gen[n]
				if g.lastDoc != i+1 {
					g.lastDoc = i + 1
					g.docs++
				}
				where := g.afters
				switch tok.kind {
				case vText:
					where = g.texts
					g.occurs = append(g.occurs, occurrence{i, j})
				case vOpen:
					where = g.opens
				case aEnd:
					continue
				}
				s := where[string(tok.text)]
				if s == nil {
					s = &seen{tok: tok}
					where[string(tok.text)] = s
				}
				s.count++
				if s.lastDoc != i+1 {
					s.lastDoc = i + 1
					s.docs++
				}
			}
		}
	}
}

func sortedSeen(m map[string]*seen) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b].count, m[a].count), strings.Compare(a, b))
	})
}

// next returns the node that follows an alternative of node n, or -1 if that depends on the context.
func (t *trainer) next(n int32, tok token) int32 {
	if tok.kind == vOpen {
		return t.m.resolve(t.m.nodes[n].ctx, tok.next.key)
	}
	if t.gen[n].at.ctx == anyKey && n != rootNode {
		return -1
	}
	return t.m.resolve(tok.next.ctx, tok.next.key)
}

func (t *trainer) makeTables(n int32) {
	g, nd := t.gen[n], &t.m.nodes[n]
	v, a := &nd.values, &nd.after
	left := 0
	for i, text := range sortedSeen(g.texts) {
		if s := g.texts[text]; s.docs >= least && i < maxTexts {
			v.add(alt{kind: vText, text: text}, float64(s.count))
		} else {
			left += s.count
		}
	}
	for _, text := range sortedSeen(g.opens) {
		if s := g.opens[text]; s.docs >= least && s.tok.next.key >= 0 && len(v.alts) < maxTexts+64 {
			v.add(alt{kind: vOpen, text: text, key: s.tok.next.key, node: t.next(n, s.tok)}, float64(s.count))
		}
	}
	if left > 0 {
		t.makeTemplates(n)
		t.makeNumbers(n)
	}
	for kind := uint8(vString); kind <= vRest; kind++ {
		v.add(alt{kind: kind}, .1)
	}
	for _, text := range sortedSeen(g.afters) {
		s := g.afters[text]
		if s.docs < least || len(a.alts) > maxTexts || s.tok.kind == aNext && s.tok.next.key < 0 {
			continue
		}
		x := alt{kind: s.tok.kind, text: text}
		switch s.tok.kind {
		case aNext:
			x.key, x.node = s.tok.next.key, t.next(n, s.tok)
		case aElement:
			x.key, x.node = elements, t.next(n, s.tok)
		}
		a.add(x, float64(s.count))
	}
	for kind := uint8(aNextKey); kind <= aRest; kind++ {
		a.add(alt{kind: kind}, .1)
	}
}

func (t *trainer) makeNumbers(n int32) {
	count := map[[2]int32]float64{}
	for _, o := range t.gen[n].occurs {
		tok := t.toks[o.doc][o.tok]
		if group, v, ok := parseNumber(tok.text); ok && t.gen[n].texts[string(tok.text)].docs < least {
			count[[2]int32{group, bucket(v)}]++
		}
	}
	keys := slices.SortedFunc(maps.Keys(count), func(a, b [2]int32) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	for _, k := range keys {
		t.m.nodes[n].values.add(alt{kind: vNumber, key: k[0], node: k[1]}, count[k])
	}
}

// bucket returns the bit length << 2 | the two bits after the first.
func bucket(v uint64) int32 {
	n := 64 - leadingZeros(v)
	top := uint64(0)
	switch {
	case n == 2:
		top = v & 1
	case n > 2:
		top = v >> (n - 3) & 3
	}
	return int32(n)<<2 | int32(top)
}

func unquoted(text []byte) []byte {
	if len(text) >= 2 && text[0] == '"' {
		return text[1 : len(text)-1]
	}
	return text
}

// reference is a template with one slot.
type reference struct {
	node           int32
	free           bool   // the slot is what its template leaves free
	prefix, suffix string // of patternOf: keys; suffix "*": anything
}

// makeTemplates finds templates for the values of a node that are not frequent texts.
func (t *trainer) makeTemplates(n int32) {
	g := t.gen[n]
	occurs := g.occurs
	if len(occurs) > 4000 {
		var some []occurrence
		for i := 0; i < len(occurs); i += (len(occurs) + 3999) / 4000 {
			some = append(some, occurs[i])
		}
		occurs = some
	}
	covered := make([]bool, len(occurs))
	refs := make([][]reference, len(occurs))
	patterns := map[string][]part{}
	keyOf := func(text []byte, digits bool) string {
		p := &pattern{parts: []part{{kind: pText, text: string(text)}}}
		if digits {
			p = patternOf(text)
		}
		k := p.key()
		patterns[k] = p.parts
		return k
	}
	for i, o := range occurs {
		toks := t.toks[o.doc]
		text := toks[o.tok].text
		if len(text) < 3 {
			covered[i] = true
			continue
		}
		passed := map[int32]bool{}
		for j, back := o.tok-1, 0; j >= 0 && back < lookBack; j-- {
			if toks[j].kind != vText {
				continue
			}
			back++
			from := t.m.resolve(toks[j].at.ctx, toks[j].at.key)
			if from == genericNode || passed[from] {
				continue
			}
			passed[from] = true // what is before is not in its slot any more
			for _, free := range []bool{false, true} {
				value := unquoted(toks[j].text)
				if free {
					value = t.free[occurrence{o.doc, j}]
				}
				if len(value) < 2 || len(value) == 2 && value[0]-'0' <= 9 {
					continue
				}
				if at := bytes.Index(text, value); at >= 0 {
					prefix, suffix := text[:at], text[at+len(value):]
					p, s := keyOf(prefix, false), keyOf(suffix, false)
					refs[i] = append(refs[i], reference{from, free, p, s})
					if pp, ss := keyOf(prefix, true), keyOf(suffix, true); text[0] == '"' && (pp != p || ss != s) {
						refs[i] = append(refs[i], reference{from, free, pp, ss})
					}
					if text[0] == '"' && string(suffix) != `"` {
						refs[i] = append(refs[i], reference{from, free, p, "*"})
					}
				}
			}
		}
	}
	minDocs := max(least, len(occurs)/50)
	templates := 0
	for templates < maxTemplates {
		docs, last := map[reference]int{}, map[reference]int{}
		for i, o := range occurs {
			if covered[i] {
				continue
			}
			for _, r := range refs[i] {
				if last[r] != o.doc+1 {
					last[r] = o.doc + 1
					docs[r]++
				}
			}
		}
		best, score := reference{}, 0.0
		for r, d := range docs {
			s := float64(d) * 8
			if r.suffix == "*" {
				s = float64(d) * 3
			} else {
				for _, p := range append(patterns[r.prefix], patterns[r.suffix]...) {
					if p.kind == pDigits || p.kind == pHex {
						s -= float64(d) * float64(p.n) * .4
					}
				}
			}
			if d >= minDocs && (s > score || s == score && (r.node > best.node || r.node == best.node && r.prefix+r.suffix < best.prefix+best.suffix)) {
				best, score = r, s
			}
		}
		if score == 0 {
			break
		}
		for i := range occurs {
			covered[i] = covered[i] || slices.Contains(refs[i], best)
		}
		target := &t.m.nodes[best.node]
		slot := &target.slot
		if best.free {
			slot = &target.free
		}
		if *slot < 0 {
			*slot = int32(t.m.slots)
			t.m.slots++
		}
		parts := append(slices.Clone(patterns[best.prefix]), part{kind: pSlot, n: *slot})
		if best.suffix == "*" {
			parts = append(parts, part{kind: pFree})
		} else {
			parts = append(parts, patterns[best.suffix]...)
		}
		t.addTemplate(n, parts, docs[best])
		templates++
	}
	t.makePatterns(n, occurs, covered)
}

func (t *trainer) addTemplate(n int32, parts []part, count int) {
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.kind == pText && p.text == "" })
	t.m.nodes[n].values.add(alt{kind: vTemplate, parts: parts}, float64(count))
}

// makePatterns finds patterns with digits, and frequent prefixes, for the values that are not covered.
func (t *trainer) makePatterns(n int32, occurs []occurrence, covered []bool) {
	count := map[string]*pattern{}
	left := 0
	for i, o := range occurs {
		text := t.toks[o.doc][o.tok].text
		if covered[i] || text[0] != '"' || t.gen[n].texts[string(text)].docs >= least {
			covered[i] = true
			continue
		}
		left++
		p := patternOf(text)
		if p.vars == 0 {
			continue
		}
		k := p.key()
		if count[k] == nil {
			count[k] = p
		}
		if count[k].last != o.doc+1 {
			count[k].last = o.doc + 1
			count[k].docs++
		}
	}
	chosen := map[string]bool{}
	keys := slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(cmp.Compare(count[b].docs, count[a].docs), strings.Compare(a, b)) })
	for _, k := range keys {
		if p := count[k]; p.docs >= max(least, left/50) && len(chosen) < maxTemplates {
			chosen[k] = true
			t.addTemplate(n, p.parts, p.docs)
		}
	}
	// Prefixes of what is left.
	for i, o := range occurs {
		if !covered[i] && chosen[patternOf(t.toks[o.doc][o.tok].text).key()] {
			covered[i] = true
		}
	}
	for range 3 {
		docs, last := map[string]int{}, map[string]int{}
		left := 0
		for i, o := range occurs {
			if covered[i] {
				continue
			}
			left++
			text := t.toks[o.doc][o.tok].text
			for at := 3; at < min(len(text)-1, 100); at++ {
				if c := text[at-1]; c == '"' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 128 {
					continue
				}
				if p := string(text[:at]); last[p] != o.doc+1 {
					last[p] = o.doc + 1
					docs[p]++
				}
			}
		}
		best, score := "", 0
		for p, d := range docs {
			if s := d * (len(p) - 3); d >= max(least, left/10) && (s > score || s == score && p < best) {
				best, score = p, s
			}
		}
		if score == 0 {
			break
		}
		for i, o := range occurs {
			if text := t.toks[o.doc][o.tok].text; !covered[i] && bytes.HasPrefix(text, []byte(best)) {
				covered[i] = true
				t.free[o] = text[len(best) : len(text)-1]
			}
		}
		t.addTemplate(n, []part{{kind: pText, text: best}, {kind: pFree}}, docs[best])
	}
}

type pattern struct {
	parts      []part
	vars       int
	docs, last int
}

func (p *pattern) key() string {
	var b strings.Builder
	for _, x := range p.parts {
		b.WriteByte(x.kind)
		b.WriteByte(byte(x.n))
		b.WriteString(x.text)
		b.WriteByte(0)
	}
	return b.String()
}

// patternOf returns the pattern of a text: runs of digits, or of hex digits where these are long or all that there is.
func patternOf(text []byte) *pattern {
	p := &pattern{}
	add := func(kind uint8, s []byte) {
		if kind == pText {
			if n := len(p.parts); n > 0 && p.parts[n-1].kind == pText {
				p.parts[n-1].text += string(s)
				return
			}
			p.parts = append(p.parts, part{kind: pText, text: string(s)})
			return
		}
		p.vars++
		p.parts = append(p.parts, part{kind: kind, n: int32(len(s))})
	}
	inner := unquoted(text)
	allHex := len(inner) >= 8 && !slices.ContainsFunc(inner, func(c byte) bool { return !isHex(c) && c != '-' }) &&
		slices.ContainsFunc(inner, func(c byte) bool { return c >= 'a' && c <= 'f' })
	for i := 0; i < len(text); {
		j := i
		for j < len(text) && isHex(text[j]) {
			j++
		}
		letters := slices.ContainsFunc(text[i:j], func(c byte) bool { return c >= 'a' })
		if letters && (allHex || j-i >= 12) {
			add(pHex, text[i:j])
			i = j
			continue
		}
		for j = i; j < len(text) && text[j]-'0' <= 9; j++ {
		}
		if j > i {
			add(pDigits, text[i:j])
			i = j
			continue
		}
		add(pText, text[i:i+1])
		i++
	}
	return p
}

func isHex(c byte) bool { return c-'0' <= 9 || c >= 'a' && c <= 'f' }

// count replaces the counts of alternatives by how often the encoder uses them.
func (t *trainer) count() {
	m := t.m
	counts := make([]float64, len(m.syms))
	e := NewEncoder(m)
	for _, d := range t.docs {
		e.parse(d)
		for _, op := range e.ops {
			if op&bitsOp == 0 {
				counts[op]++
			}
		}
	}
	m.eachTable(func(tb *table) {
		for i := range tb.alts {
			tb.count[i] = counts[tb.base+uint32(i)]
		}
	})
	m.setFrequencies(counts)
}

// chooseSure makes alternatives sure that are nearly always taken.
func (m *Model) chooseSure() {
	counts := make([]float64, len(m.syms))
	m.eachTable(func(tb *table) {
		sum, best := 0.0, 0
		for i := range tb.alts {
			sum += tb.count[i]
			if tb.count[i] > tb.count[best] {
				best = i
			}
			counts[tb.base+uint32(i)] = tb.count[i]
		}
		if kind := tb.alts[best].kind; sum >= sureUses && tb.count[best] >= sureShare*sum && kind != vNumber && kind != vSpace && kind != aSpace && kind != vRest && kind != aRest {
			tb.sure = int32(best)
			counts[tb.base+uint32(best)] = 0
		}
	})
	at := 0
	m.eachTable(func(tb *table) { // others keep their digits' frequencies
		n := len(tb.alts)
		normalise(m.syms[at:at+n], counts[at:at+n])
		at += n
	})
}

// A sure alternative has this share of the uses of its table, which are at least so many.
const (
	sureShare = .9
	sureUses  = 5
)

// countRuns sets the frequencies of runs.
func (t *trainer) countRuns() {
	counts := make([]float64, runBuckets)
	e := NewEncoder(t.m)
	for _, d := range t.docs {
		e.parse(d)
		for _, op := range e.ops {
			if op&bitsOp == 0 && op >= t.m.runs && op < t.m.runs+runBuckets {
				counts[op-t.m.runs]++
			}
		}
	}
	normalise(t.m.syms[t.m.runs:t.m.runs+runBuckets], counts)
}

// prune removes alternatives that are rarely used.
func (m *Model) prune() {
	m.eachTable(func(tb *table) {
		sum := 0.0
		for _, c := range tb.count {
			sum += c
		}
		alts, count := tb.alts, tb.count
		tb.alts, tb.count = nil, nil
		for i, a := range alts {
			switch {
			case a.kind == vText && count[i] < least:
			case a.kind == vTemplate && count[i] < max(least, templateShare*sum): // every other value is compared with it
			default:
				tb.add(a, count[i])
			}
		}
	})
}

func (tb *table) add(a alt, count float64) {
	tb.alts, tb.count = append(tb.alts, a), append(tb.count, count)
}

// sort brings the most frequent alternatives to the front.
func (tb *table) sort() {
	order := make([]int, len(tb.alts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(tb.count[b], tb.count[a]) })
	alts, count := tb.alts, tb.count
	tb.alts, tb.count = nil, nil
	for _, i := range order {
		tb.add(alts[i], count[i])
	}
}

func (m *Model) eachTable(f func(*table)) {
	for i := range m.nodes {
		f(&m.nodes[i].values)
		f(&m.nodes[i].after)
	}
}

// finish numbers the symbols and builds what the encoder looks up.
func (m *Model) finish() {
	m.links = make([]link, 3*len(m.nodes))
	m.syms, m.total = m.syms[:0], m.total[:0]
	add := func(n int) uint32 {
		base := len(m.syms)
		for range n {
			m.syms = append(m.syms, sym{})
		}
		m.total = append(m.total, n)
		return uint32(base)
	}
	m.eachTable(func(tb *table) {
		tb.sort()
		tb.base = add(len(tb.alts))
		tb.first, tb.temps, tb.nums, tb.sure = nil, nil, nil, -1
		tb.texts.build(tb.alts)
		for i := range tb.fixed {
			tb.fixed[i] = -1
		}
		for i := range tb.alts {
			a := &tb.alts[i]
			switch a.kind {
			case vText:
			case vOpen, aNext, aElement, aClose:
				tb.first = append(tb.first, int32(i))
				a.list = a.kind == aElement || a.kind == aClose && strings.HasSuffix(a.text, "]") || a.kind == vOpen && a.key == elements
			case vTemplate:
				tb.temps = append(tb.temps, int32(i))
				a.free = slices.ContainsFunc(a.parts, func(p part) bool { return p.kind > pSlot })
			case vNumber:
				tb.number(a.key, true).alts[a.node] = int16(i)
			default:
				tb.fixed[a.kind] = int16(i)
			}
		}
	})
	m.runs = add(runBuckets)
	m.eachTable(func(tb *table) {
		for i := range tb.alts {
			for j := range tb.alts[i].parts {
				p := &tb.alts[i].parts[j]
				if p.kind != pDigits {
					continue
				}
				p.digits = nil
				n := p.n
				if n&1 == 1 && n < 6 {
					p.digits = append(p.digits, digits{int32(add(10)), 1})
					n--
				}
				for k := 0; n > 0; k++ {
					if k >= 2 || n == 1 {
						w := min(n, 3)
						p.digits = append(p.digits, digits{-1, w})
						n -= w
						continue
					}
					p.digits = append(p.digits, digits{int32(add(100)), 2})
					n -= 2
				}
			}
		}
	})
	counts := make([]float64, len(m.syms))
	m.eachTable(func(tb *table) {
		for i := range tb.alts {
			counts[tb.base+uint32(i)] = tb.count[i]
		}
	})
	m.setFrequencies(counts)
}

func (tb *table) number(group int32, add bool) *numbers {
	for i := range tb.nums {
		if tb.nums[i].group == group {
			return &tb.nums[i]
		}
	}
	if !add {
		return nil
	}
	n := numbers{group: group}
	for i := range n.alts {
		n.alts[i] = -1
	}
	tb.nums = append(tb.nums, n)
	return &tb.nums[len(tb.nums)-1]
}

// setFrequencies makes frequencies of the sum scale for each table. Every symbol has one.
func (m *Model) setFrequencies(counts []float64) {
	m.index = nil
	at := 0
	for _, n := range m.total {
		normalise(m.syms[at:at+n], counts[at:at+n])
		at += n
	}
}

func normalise(syms []sym, counts []float64) {
	sum := 0.0
	for _, c := range counts {
		sum += c + .4
	}
	left, largest := scale, 0
	for i, c := range counts {
		f := max(1, int(math.Floor((c+.4)/sum*float64(scale-len(syms)))+.5))
		syms[i].freq = uint16(f)
		left -= f
		if f > int(syms[largest].freq) {
			largest = i
		}
	}
	for left < 0 { // rounding up of many
		i := 0
		for j := range syms {
			if syms[j].freq > syms[i].freq {
				i = j
			}
		}
		d := min(-left, int(syms[i].freq)/2)
		syms[i].freq -= uint16(d)
		left += d
	}
	syms[largest].freq += uint16(left)
	cum := 0
	for i := range syms {
		syms[i].cum = uint16(cum)
		cum += int(syms[i].freq)
	}
}

// indexSymbols builds what symbol looks up.
func (m *Model) indexSymbols() {
	m.index, m.indexOf = nil, make([]int32, len(m.syms))
	at := 0
	for _, n := range m.total {
		m.indexOf[at] = -1
		if n > 4 {
			m.indexOf[at] = int32(len(m.index))
			for i, j := 0, 0; i < indexSize; i++ {
				for int(m.syms[at+j].cum)+int(m.syms[at+j].freq) <= i<<indexShift {
					j++
				}
				m.index = append(m.index, uint16(j))
			}
		}
		at += n
	}
}
