package history

import (
	"errors"
	"math/bits"

	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

var errCoded = errors.New("the coded data is not a message")

// decoder is the reader's model with the message being made.
type decoder struct {
	model
	out     []byte
	most    int // maximum length of out
	text    []byte
	parts   []int // for the messages being read: the ends of their runs
	scratch []byte
}

// slackBytes limits by how much out may exceed the message's final length while it is made: the reserved
// length field of each nested message may turn out to be too long. A record may contain more of them.
const slackBytes = 4 * maxDepth * (maxRecordDepth + 1)

// message appends the message of raw bytes that coded and text hold.
func (d *decoder) message(dst, coded, text []byte, raw int) ([]byte, error) {
	d.out, d.most, d.text = dst, len(dst)+raw, text
	d.chain, d.parts, d.bases = d.chain[:0], d.parts[:0], d.bases[:0]
	defer func() { d.out, d.text, d.in = nil, nil, nil }()
	d.beginRead(coded)
	d.beginMessage()
	if _, _, err := d.content(0, 0, here{}, nil); err != nil {
		return dst, err
	}
	if d.bad || len(d.out) != d.most || len(d.text) > 0 || d.at < len(d.in) {
		return dst, errCoded
	}
	return d.out, nil
}

// full reports whether out is longer than allowed.
func (d *decoder) full() bool { return len(d.out) > d.most+slackBytes || d.bad }

// shape reads the shape of the following fields.
func (d *decoder) shape(n uint16) (s shape, err error) {
	number, shapes := d.codeShape(n, 0), d.nodes[n].shapes
	if number == len(shapes) {
		if err := d.define(n); err != nil {
			return s, err
		}
		shapes = d.nodes[n].shapes
	}
	if number >= len(shapes) {
		return s, errCoded
	}
	return d.shapes[shapes[number]], nil
}

func (d *decoder) define(n uint16) error {
	count := d.number(d.defs, 0, 0)
	if len(d.shapes) >= d.limits.shapes || count > uint64(d.limits.runs-len(d.runs)) {
		return errCoded
	}
	from := len(d.runs)
	for range count {
		v := d.number(d.defs, 1, 0)
		c, ok := d.child(n, v>>4, uint8(v>>1&7))
		if !ok {
			return errCoded
		}
		d.runs = append(d.runs, run{c, v&1 != 0})
	}
	d.addShape(n, from, 0)
	return nil
}

// content appends the fields of a message of node n. known is its first field if the reader knows that already, or nil.
// content returns the message's first value as a key, and whether it contains no new numbers.
func (d *decoder) content(n uint16, depth int, h here, known *prefix) (key uint32, pure bool, err error) {
	s, err := d.shape(n)
	if err != nil {
		return 0, false, err
	}
	runs := d.runs[s.from:s.to]
	if known != nil && (len(runs) == 0 || !known.of(&d.nodes[runs[0].node])) {
		return 0, false, errCoded
	}
	start, parts := len(d.out), len(d.parts)
	named, key, pure, err := d.namedRuns(runs, depth, &h, known)
	if err != nil {
		return 0, false, err
	}
	p, err := d.otherRuns(runs, named, depth, &h)
	if err != nil {
		return 0, false, err
	}
	d.sort(start, named, d.parts[parts:])
	d.parts = d.parts[:parts]
	return key, pure && p, nil
}

// namedRuns appends the runs whose values may be named, and returns which ones these are, as bits by index.
func (d *decoder) namedRuns(runs []run, depth int, h *here, known *prefix) (named uint64, key uint32, pure bool, err error) {
	pure = true
	last := uint32(0)
	for i, r := range runs {
		if !d.mayBeNamed(r, i, known) {
			continue
		}
		named |= 1 << i
		first, end, p, err := d.valuesOf(r, depth, last, h, known)
		if err != nil {
			return 0, 0, false, err
		}
		if i == 0 {
			key = first
		}
		last, pure, known = end, pure && p, nil
		d.parts = append(d.parts, len(d.out))
	}
	return named, key, pure, nil
}

// otherRuns appends the other runs.
func (d *decoder) otherRuns(runs []run, named uint64, depth int, h *here) (pure bool, err error) {
	pure = true
	for i, r := range runs {
		if i < maxNamedRuns && named>>i&1 != 0 {
			continue
		}
		p, err := d.others(r, depth, h)
		if err != nil {
			return false, err
		}
		pure = pure && p
		d.parts = append(d.parts, len(d.out))
	}
	return pure, nil
}

// of reports whether a prefix is a field of a node.
func (p *prefix) of(x *node) bool {
	tag, _ := pbwire.Uvarint(p.field)
	return x.tag == tag
}

// sort restores the order of a message's runs, which were appended with the named ones first. ends holds their ends in
// out.
func (d *decoder) sort(start int, named uint64, ends []int) {
	if named&(named+1) == 0 {
		return
	}
	d.scratch = append(d.scratch[:0], d.out[start:]...)
	out, from := d.out[:start], [2]int{0, bits.OnesCount64(named)}
	for i := range ends {
		of := 1
		if i < maxNamedRuns && named>>i&1 != 0 {
			of = 0
		}
		begin := start
		if from[of] > 0 {
			begin = ends[from[of]-1]
		}
		out = append(out, d.scratch[begin-start:ends[from[of]]-start]...)
		from[of]++
	}
}

// count reads how many fields a run has.
func (d *decoder) count(r run) (int, error) {
	if !r.many {
		return 1, nil
	}
	n := d.codeCount(r.node, 0)
	if n == 0 || n > uint64(d.most) {
		return 0, errCoded
	}
	return int(n), nil
}

// others appends a run of numbers, or of values that are not named.
func (d *decoder) others(r run, depth int, h *here) (pure bool, err error) {
	series := join(h.hash, uint32(r.node))
	count, err := d.count(r)
	if err != nil {
		return false, err
	}
	x := &d.nodes[r.node]
	if x.wire != pbwire.BytesType {
		return false, d.numbers(r.node, series, count)
	}
	pure = true
	d.bases = append(d.bases, runBase{join(h.hash, uint32(r.node)), r.node})
	for i := range count {
		p, err := d.element(r, depth, inside(h.hash, r.node, i))
		if err != nil {
			return false, err
		}
		pure = pure && p
	}
	return pure, nil
}

func (d *decoder) numbers(n uint16, series uint32, count int) error {
	tag, wire := d.nodes[n].tag, d.nodes[n].wire
	for i := range count {
		if d.full() {
			return errCoded
		}
		if tag >= 8 { // not in a packed field
			d.out = pbwire.AppendUvarint(d.out, tag)
		}
		v := d.codeNumber(n, seriesAt(series, i), 0)
		d.put(wire, v)
	}
	return nil
}

// copy appends a field.
func (d *decoder) copy(n uint16, data []byte) {
	d.out = pbwire.AppendUvarint(d.out, d.nodes[n].tag)
	d.out = pbwire.AppendUvarint(d.out, uint64(len(data)))
	d.out = append(d.out, data...)
}

// valuesOf appends a run of values that may be named. known is the first one if the reader knows it already, or nil.
// valuesOf returns the first one as a key, the last one, and whether all are pure.
func (d *decoder) valuesOf(r run, depth int, last uint32, h *here, known *prefix) (key, _ uint32, pure bool, err error) {
	if r.many && known == nil {
		if l := d.codeList(r.node, h.hash, nil); l != 0 {
			return d.list(l, r.node, h)
		}
	}
	count, err := d.count(r)
	if err != nil {
		return 0, 0, false, err
	}
	c := d.beginChain(r.node, h.hash, count, last)
	if known != nil {
		d.copy(r.node, known.content)
		c.known(known)
	}
	if pure, err = d.chained(&c, count, depth); err != nil {
		return 0, 0, false, err
	}
	if c.left = count - c.count; c.left > 0 {
		d.bases = append(d.bases, runBase{join(c.here, uint32(r.node)), r.node})
	}
	for ; c.count < count; c.count++ {
		if _, err := d.element(r, depth, inside(c.here, r.node, c.count)); err != nil {
			return 0, 0, false, err
		}
	}
	d.endChain(&c, r, h, pure)
	return c.key, c.last, pure && c.left == 0, nil
}

// list appends the values of a guessed list.
func (d *decoder) list(l uint32, n uint16, h *here) (key, last uint32, pure bool, err error) {
	for _, id := range d.lists[l].members {
		d.copy(n, d.values[id].data)
	}
	if d.full() {
		return 0, 0, false, errCoded
	}
	key, last = d.takeList(l, h)
	return key, last, true, nil
}

// chained appends the values of a run, as long as they are looked up.
func (d *decoder) chained(c *chain, count, depth int) (pure bool, err error) {
	pure = true
	for x := d.nodes[c.n].forms; c.count < count && x.credit > 0; {
		s := c.spot()
		guessed := d.codeGuess(&s, nil)
		v := s.guess
		if guessed {
			d.copy(c.n, d.values[v].data)
		} else {
			var p bool
			if v, p, err = d.value(&s, depth, inside(c.here, c.n, c.count)); err != nil {
				return false, err
			}
			pure = pure && p
			d.learn(&s, v)
		}
		if d.full() {
			return false, errCoded
		}
		c.add(v, guessed)
	}
	return pure, nil
}

// value appends a value that was not guessed.
func (d *decoder) value(s *spot, depth int, h here) (id uint32, pure bool, err error) {
	x, g := d.nodes[s.n].forms, s.guess
	op := d.codeOp(x, 0, g)
	if op > opNewKeyKnown {
		x.met()
		id, err = d.named(s, x, op, g)
		if err == nil {
			d.copy(s.n, d.values[id].data)
		}
		return id, true, err
	}
	var known *prefix
	if op == opNewKeyKnown {
		p := d.prefixOf(g)
		known = &p
	}
	at := len(d.out)
	key, pure, err := d.inFull(s.n, depth, h, known)
	if err != nil {
		return 0, false, err
	}
	data := d.contentAt(at)
	x.missed(pure)
	if len(data) > maxValueBytes {
		return 0, pure, nil
	}
	return d.keep(s.n, data, hashOf(data), key), pure, nil
}

// named returns the known value that op names.
func (d *decoder) named(s *spot, x *forms, op int, g uint32) (uint32, error) {
	if op == opAcross {
		return d.namedAcross(s, x)
	}
	if op == opNamed {
		return d.oneOf(&d.blocks[d.values[g].block])
	}
	b, err := d.blockOfNode(x, s.n, 0)
	if err != nil {
		return 0, err
	}
	return d.oneOf(b)
}

func (d *decoder) oneOf(b *block) (uint32, error) {
	return d.placed(b, uint64(d.below(0, uint32(len(b.members)))))
}

// namedAcross returns a value of another node, as kept for this one.
func (d *decoder) namedAcross(s *spot, x *forms) (uint32, error) {
	other := d.codeOther(x, 0)
	if other >= uint64(len(d.nodes)) || other == uint64(s.n) || d.nodes[other].forms == nil {
		return 0, errCoded
	}
	b, err := d.blockOfNode(x, uint16(other), 1)
	if err != nil {
		return 0, err
	}
	last := uint64(len(b.members) - 1)
	id, err := d.placed(b, last-d.number(sizesOf(&x.places), 0, 0))
	if err != nil {
		return 0, err
	}
	return d.across(s.n, id), nil
}

// blockOfNode reads the number of one of a node's blocks.
func (d *decoder) blockOfNode(x *forms, of uint16, context int) (*block, error) {
	at, blocks := d.number(sizesOf(&x.blockPlaces), context, 0), d.nodes[of].blocks
	if at >= uint64(len(blocks)) {
		return nil, errCoded
	}
	return &d.blocks[blocks[at]], nil
}

// placed returns the value at a position in a block.
func (d *decoder) placed(b *block, at uint64) (uint32, error) {
	if at >= uint64(len(b.members)) || b.members[at] == 0 {
		return 0, errCoded
	}
	id := b.members[at]
	d.values[id].used = true
	return id, nil
}

// inFull appends a field that is given in full.
func (d *decoder) inFull(n uint16, depth int, h here, known *prefix) (key uint32, pure bool, err error) {
	if d.full() {
		return 0, false, errCoded
	}
	x := d.nodes[n].forms
	d.out = pbwire.AppendUvarint(d.out, d.nodes[n].tag)
	if d.codeText(x, false) {
		size := d.number(sizesOf(&x.lengths), 0, 0)
		if size > uint64(len(d.text)) {
			return 0, false, errCoded
		}
		d.out = pbwire.AppendUvarint(d.out, size)
		d.out = append(d.out, d.text[:size]...)
		d.text = d.text[size:]
		return 0, true, nil
	}
	return d.nested(n, x, depth+1, h, known)
}

// nested appends a message with its length. It reserves as many bytes for the length as that of the node's previous
// message took.
func (d *decoder) nested(n uint16, x *forms, depth int, h here, known *prefix) (key uint32, pure bool, err error) {
	if depth >= maxDepth {
		return 0, false, errCoded
	}
	length := d.leaveRoom(&x.lengthSize)
	if key, pure, err = d.content(n, depth, h, known); err != nil {
		return 0, false, err
	}
	d.setLength(length)
	return key, pure, nil
}

// move shifts the output from an offset on by a number of bytes, which may be negative.
func (d *decoder) move(from, by int) {
	end := len(d.out)
	for range by {
		d.out = append(d.out, 0)
	}
	copy(d.out[from+by:], d.out[from:end])
	d.out = d.out[:end+by]
}
