package proto

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// errColumns reports columns that no encoder writes.
var errColumns = errors.New("inconsistent columns")

// columnDecoder is the decoder's model with the remaining columns.
type columnDecoder struct {
	model
	out  []byte
	most int // maximum length of out
	defs []byte
	in   []byte // the columns
	cols [][columns]column
}

// column is the unread part of a column.
type column struct{ at, end uint32 }

// slackBytes limits by how much out may exceed the message's final length while it is assembled: the reserved
// length field of each nested message may turn out to be too long.
const slackBytes = 4 * maxDepth

// run appends the message of raw bytes that the columns hold.
func (d *columnDecoder) run(dst, in []byte, raw int) ([]byte, error) {
	d.reset(raw)
	d.out, d.most = dst, len(dst)+raw
	defer func() { d.out, d.in, d.defs = nil, nil, nil }()
	if err := d.cut(in); err != nil {
		return dst, err
	}
	v, err := d.get(0, colShapes)
	if err == nil && v&1 != 0 {
		err = errColumns
	}
	if err == nil {
		_, err = d.message(0, v, 0, 0)
	}
	if err != nil {
		return dst, err
	}
	if len(d.out) != d.most || !d.usedUp() {
		return dst, errColumns
	}
	return d.out, nil
}

// cut finds the columns.
func (d *columnDecoder) cut(in []byte) error {
	nodes, ok := take(&in)
	defs, ok2 := take(&in)
	if !ok || !ok2 || nodes == 0 || nodes > maxNodes {
		return errColumns
	}
	lengths := in
	total := defs
	for range nodes {
		if len(in) == 0 {
			return errColumns
		}
		mask := in[0]
		in = in[1:]
		if mask>>colText == 3 {
			return errColumns
		}
		for ; mask != 0; mask &= mask - 1 {
			n, ok := take(&in)
			if !ok || n == 0 || n > uint64(len(in)) {
				return errColumns
			}
			total += n
		}
	}
	if total != uint64(len(in)) || defs > total {
		return errColumns
	}
	d.defs = in[:defs:defs]
	d.in = in[defs:]
	d.share(lengths, int(nodes))
	return nil
}

// share assigns the columns to the nodes; cut has checked the lengths.
func (d *columnDecoder) share(lengths []byte, nodes int) {
	if cap(d.cols) < nodes {
		d.cols = make([][columns]column, nodes)
	}
	d.cols = d.cols[:nodes]
	var starts [columns]int
	at := lengths
	each(at, nodes, func(_, col, n int) { starts[col] += n })
	sum := 0
	for col, n := range starts {
		starts[col] = sum
		sum += n
	}
	clear(d.cols)
	each(at, nodes, func(node, col, n int) {
		from := starts[col]
		d.cols[node][col] = column{uint32(from), uint32(from + n)}
		starts[col] = from + n
	})
}

// each calls f for each length in a list of columns' lengths.
func each(lengths []byte, nodes int, f func(node, col, n int)) {
	for node := range nodes {
		mask := lengths[0]
		lengths = lengths[1:]
		for col := range columns {
			if mask&(1<<col) != 0 {
				n, _ := take(&lengths)
				f(node, col, int(n))
			}
		}
	}
}

// take reads a varint from the beginning of b.
func take(b *[]byte) (uint64, bool) {
	if c := *b; len(c) > 0 && c[0] < 0x80 {
		*b = c[1:]
		return uint64(c[0]), true
	}
	v, n := pbwire.Uvarint(*b)
	*b = (*b)[n:]
	return v, n > 0
}

// get reads a varint from a column.
func (d *columnDecoder) get(n uint16, col int) (uint64, error) {
	c := &d.cols[n][col]
	if c.at < c.end && d.in[c.at] < 0x80 {
		c.at++
		return uint64(d.in[c.at-1]), nil
	}
	return d.getLong(c)
}

func (d *columnDecoder) getLong(c *column) (uint64, error) {
	v, size := pbwire.Uvarint(d.in[c.at:c.end])
	if size == 0 {
		return 0, errColumns
	}
	c.at += uint32(size)
	return v, nil
}

// bytes returns the next n bytes of a column.
func (d *columnDecoder) bytes(c *column, n uint64) ([]byte, error) {
	if n > uint64(c.end-c.at) {
		return nil, errColumns
	}
	from := c.at
	c.at += uint32(n)
	return d.in[from:c.at], nil
}

func (d *columnDecoder) usedUp() bool {
	if len(d.defs) > 0 || len(d.cols) != len(d.nodes) {
		return false
	}
	for i := range d.cols {
		for _, c := range d.cols[i] {
			if c.at < c.end {
				return false
			}
		}
	}
	for i := range d.nodes {
		if d.nodes[i].pending {
			return false
		}
	}
	return true
}

// message appends a message of node n whose shape is coded as v, and returns its first value, which is its key. If
// known is not 0, it is the number of that value.
func (d *columnDecoder) message(n uint16, v uint64, depth int, known uint32) (key uint32, err error) {
	if depth >= maxDepth {
		return 0, errColumns
	}
	number := v>>1 - 1
	if v == 0 {
		number = uint64(len(d.nodes[n].shapes))
		if err := d.define(n); err != nil {
			return 0, err
		}
	}
	if number >= uint64(len(d.nodes[n].shapes)) {
		return 0, errColumns
	}
	s := d.shapes[d.nodes[n].shapes[number]]
	var last, first uint32
	for i := s.from; i < s.to; i++ {
		first, last, err = d.runOf(d.runs[i], depth, last, known)
		if err != nil {
			return 0, err
		}
		if i == s.from {
			key = first
		}
		known = 0
	}
	return key, nil
}

func (d *columnDecoder) define(n uint16) error {
	count, ok := take(&d.defs)
	if !ok || len(d.shapes) >= maxShapes || count > maxRuns || len(d.runs)+int(count) > maxRuns {
		return errColumns
	}
	from := len(d.runs)
	for range count {
		v, ok := take(&d.defs)
		if !ok {
			return errColumns
		}
		c, ok := d.child(n, v>>4, uint8(v>>1&7), len(d.cols))
		if !ok {
			return errColumns
		}
		d.runs = append(d.runs, run{c, v&1 != 0})
	}
	d.addShape(n, from, 0)
	return nil
}

func (d *columnDecoder) runOf(r run, depth int, last, known uint32) (first, _ uint32, err error) {
	count := uint64(1)
	if r.many {
		if count, err = d.get(r.node, colCounts); err != nil {
			return 0, 0, err
		}
		if count == 0 || count > uint64(d.most) {
			return 0, 0, errColumns
		}
	}
	x := &d.nodes[r.node]
	if x.wire == pbwire.BytesType {
		return d.valuesOf(r.node, int(count), depth, last, known)
	}
	if known != 0 {
		return 0, 0, errColumns
	}
	for range count {
		if len(d.out) >= d.most+slackBytes {
			return 0, 0, errColumns
		}
		if x.field != 0 {
			d.out = pbwire.AppendUvarint(d.out, x.tag)
		}
		if err := d.number(r.node); err != nil {
			return 0, 0, err
		}
	}
	return 0, last, nil
}

func (d *columnDecoder) valuesOf(n uint16, count, depth int, last, known uint32) (first, _ uint32, err error) {
	a, b := d.nodes[n].first, last
	i := 0
	if known != 0 {
		if d.spans[known].node != n {
			return 0, 0, errColumns
		}
		d.copy(n, known)
		d.nodes[n].first, first, last, a = known, known, known, known
		i++
	}
	for ; i < count && !d.nodes[n].off; i++ {
		if len(d.out) >= d.most+slackBytes {
			return 0, 0, errColumns
		}
		x := &d.nodes[n]
		slot := d.slot(n, a, b)
		v := uint32(d.table[slot])
		if d.spans[v].node != n {
			v = d.guess(n, a, b, i == 0)
		}
		if x.left == 0 && !x.pending {
			if err := d.operation(n); err != nil {
				return 0, 0, err
			}
		}
		if x.left > 0 {
			if v == 0 {
				return 0, 0, errColumns
			}
			x.left--
			x.credit += metCredit
			d.copy(n, v)
		} else {
			if v, err = d.value(n, depth, v); err != nil {
				return 0, 0, err
			}
			d.learn(n, slot, v, a, b, i == 0)
			b = v
		}
		if i == 0 {
			d.nodes[n].first, first = v, v
		}
		if v != 0 {
			last = v
		}
		a = v
	}
	for ; i < count; i++ {
		if len(d.out) >= d.most+slackBytes {
			return 0, 0, errColumns
		}
		if _, err := d.inFull(n, depth, 0); err != nil {
			return 0, 0, err
		}
	}
	return first, last, nil
}

// operation reads the node's next operation and the number of right guesses before it. At the end of the column all
// further guesses are right.
func (d *columnDecoder) operation(n uint16) error {
	x := &d.nodes[n]
	if c := &d.cols[n][colOps]; c.at == c.end {
		x.left = allLeft
		return nil
	}
	v, err := d.get(n, colOps)
	if err != nil || v>>opBits > uint64(d.most) {
		return errColumns
	}
	x.left, x.op, x.pending = uint32(v>>opBits), uint8(v&(1<<opBits-1)), true
	return nil
}

// allLeft exceeds the number of values of any message.
const allLeft = 1 << 31

// block is the size in bytes of one copy step: most values are shorter.
const block = 64

// copy appends a field with an earlier value of this node.
func (d *columnDecoder) copy(n uint16, id uint32) {
	s := d.spans[id]
	head := uint32(d.nodes[n].tagSize) + 1
	if s.len >= 0x80 {
		head++
	}
	from, size := int(s.off-head), int(uint32(s.len)+head)
	at := len(d.out)
	if size <= block && cap(d.out)-at >= block {
		out := d.out[:at+block]
		b := [block]byte(out[from:])
		*(*[block]byte)(out[at:]) = b
		d.out = out[:at+size]
		return
	}
	d.out = append(d.out, d.out[from:from+size]...)
}

// value appends a field whose value was not guessed, and returns the value's number, or 0 if it can't be named later.
func (d *columnDecoder) value(n uint16, depth int, guess uint32) (id uint32, err error) {
	x := &d.nodes[n]
	x.pending = false
	switch x.op {
	case opNamed:
		x.credit += metCredit
		return d.named(n, d.listOf(n, uint32(d.bonds[guess].key)))
	case opNamedOtherwise:
		x.credit += metCredit
		return d.namedOtherwise(n)
	}
	known := uint32(0)
	if x.op == opNewKeyKnown {
		if known = uint32(d.bonds[guess].key); known == 0 {
			return 0, errColumns
		}
	}
	whole, err := d.inFull(n, depth, known)
	if err != nil {
		return 0, err
	}
	d.nodes[n].missed(len(d.out) - whole.off)
	return d.keep(n, whole.off, len(d.out)-whole.off, whole.key), nil
}

// named appends a value from one of the node's lists.
func (d *columnDecoder) named(n uint16, list []uint32) (uint32, error) {
	at, err := d.get(n, colRefs)
	if err != nil || at >= uint64(len(list)) || d.spans[list[at]].node != n {
		return 0, errColumns
	}
	d.copy(n, list[at])
	return list[at], nil
}

func (d *columnDecoder) namedOtherwise(n uint16) (uint32, error) {
	r, err := d.get(n, colRefs)
	switch {
	case err != nil:
		return 0, err
	case r == refOwn:
		return d.named(n, d.listOf(n, 0))
	case r < refKeys:
		return d.across(n, r)
	case len(d.nodes[n].children) == 0:
		return 0, errColumns
	}
	keys := d.listOf(d.nodes[n].children[0], 0)
	if r -= refKeys; r >= uint64(len(keys)) || d.bonds[keys[r]].list == 0 {
		return 0, errColumns
	}
	return d.named(n, d.listOf(n, keys[r]))
}

// across appends a value with the bytes of another node's value.
func (d *columnDecoder) across(n uint16, r uint64) (uint32, error) {
	back, err := d.get(n, colRefs)
	if err != nil || back == 0 {
		return 0, errColumns
	}
	list := d.lists[d.nodes[d.nodes[n].other].list]
	count := uint64(len(list))
	if r == refAny {
		count = uint64(len(d.spans))
	}
	if back > count {
		return 0, errColumns
	}
	id := uint32(count - back)
	if r == refOther {
		id = list[id]
	}
	s := d.spans[id]
	if id == 0 || s.node == n {
		return 0, errColumns
	}
	d.out = pbwire.AppendUvarint(d.out, d.nodes[n].tag)
	d.out = pbwire.AppendUvarint(d.out, uint64(s.len))
	d.out = append(d.out, d.out[s.off:s.off+uint32(s.len)]...)
	d.crossed(n, s.node)
	return d.keep(n, len(d.out)-int(s.len), int(s.len), 0), nil
}

// content is the offset of a value given in full, and its key.
type content struct {
	off int
	key uint32
}

// inFull appends a value that is given in full, with its length.
func (d *columnDecoder) inFull(n uint16, depth int, known uint32) (c content, err error) {
	v, err := d.get(n, colShapes)
	if err != nil {
		return c, err
	}
	d.out = pbwire.AppendUvarint(d.out, d.nodes[n].tag)
	if v&1 == 0 {
		return d.nested(n, v, depth, known)
	}
	text := &d.cols[n][colText]
	if text.at == text.end {
		text = &d.cols[n][colNoise]
	}
	b, err := d.bytes(text, v>>1)
	if err != nil {
		return c, err
	}
	d.out = pbwire.AppendUvarint(d.out, v>>1)
	c.off = len(d.out)
	d.out = append(d.out, b...)
	return c, nil
}

// nested appends a message with its length. It reserves as many bytes for the length as that of the node's previous
// message took.
func (d *columnDecoder) nested(n uint16, v uint64, depth int, known uint32) (c content, err error) {
	size := int(d.nodes[n].size)
	at := len(d.out)
	for range size {
		d.out = append(d.out, 0)
	}
	values := len(d.spans)
	if c.key, err = d.message(n, v, depth+1, known); err != nil {
		return c, err
	}
	length := len(d.out) - at - size
	if need := pbwire.UvarintLen(uint64(length)); need != size {
		d.move(at+size, need-size, values)
		d.nodes[n].size = uint8(need)
		size = need
	}
	binary.PutUvarint(d.out[at:at+size], uint64(length))
	c.off = at + size
	return c, nil
}

// move shifts the output from an offset on by a number of bytes, and with it the values that are numbered from values
// on.
func (d *columnDecoder) move(from, by, values int) {
	end := len(d.out)
	for range by {
		d.out = append(d.out, 0)
	}
	copy(d.out[from+by:], d.out[from:end])
	d.out = d.out[:end+by]
	for i := values; i < len(d.spans); i++ {
		d.spans[i].off += uint32(by)
	}
}

// number appends a number of node n.
func (d *columnDecoder) number(n uint16) error {
	x := &d.nodes[n]
	way, wide := x.way()
	u, kind, err := d.parts(n, way == wayDecimal, wide)
	if err != nil {
		return err
	}
	v, err := d.decodeNumber(x, way, u, kind)
	if err != nil {
		return err
	}
	switch x.wire {
	case pbwire.Fixed64Type:
		digits, whole := int(kind), u
		if way != wayDecimal {
			digits, whole = decimal(v)
		}
		d.count(x, v, decimalBits(digits, whole))
		d.out = binary.LittleEndian.AppendUint64(d.out, v)
	case pbwire.Fixed32Type:
		d.count(x, v, 0)
		d.out = binary.LittleEndian.AppendUint32(d.out, uint32(v))
	default:
		d.count(x, v, 0)
		d.out = pbwire.AppendUvarint(d.out, v)
	}
	return nil
}

// parts assembles a number from the columns.
func (d *columnDecoder) parts(n uint16, decimal, wide bool) (u uint64, kind byte, err error) {
	c := &d.cols[n]
	if wide || decimal {
		b, err := d.bytes(&c[colKinds], 1)
		if err != nil {
			return 0, 0, err
		}
		kind = b[0]
	}
	if !wide && kind&(1<<kindBits-1) != pbwire.NotDecimal {
		u, err = d.get(n, colNumbers)
		return u, kind, err
	}
	if kind>>kindBits > 7 {
		return 0, 0, errColumns
	}
	top, err := d.bytes(&c[colNumbers], 1)
	if err != nil {
		return 0, 0, err
	}
	low, err := d.bytes(&c[colNoise], uint64(kind>>kindBits))
	if err != nil {
		return 0, 0, err
	}
	u = uint64(top[0])
	for i := len(low) - 1; i >= 0; i-- {
		u = u<<8 | uint64(low[i])
	}
	return u, kind & (1<<kindBits - 1), nil
}

// decodeNumber returns the number that u stands for in this way of coding.
func (d *columnDecoder) decodeNumber(x *node, way int, u uint64, kind byte) (uint64, error) {
	switch {
	case way == wayDecimal:
		if kind == pbwire.NotDecimal {
			return u, nil
		}
		v, ok := fromDecimal(int(kind), u)
		if !ok {
			return 0, errColumns
		}
		return v, nil
	case x.wire == pbwire.Fixed32Type && u > math.MaxUint32:
		return 0, errColumns
	case way == wayPlain:
		return u, nil
	case way == wayLast:
		return d.last[x.wire] + pbwire.Unzigzag(u), nil
	case x.wire == pbwire.Fixed32Type:
		return uint64(uint32(x.prev) + unzigzag32(uint32(u))), nil
	}
	return x.prev + pbwire.Unzigzag(u), nil
}
