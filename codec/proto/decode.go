package proto

import (
	"encoding/binary"
	"errors"
)

// errColumns: the columns are not what an encoder writes.
var errColumns = errors.New("the columns don't fit together")

// restore is the decoder's model with the columns that are left.
type restore struct {
	model
	out  []byte
	most int // how long out may become
	defs []byte
	cols [][columns][]byte
}

// run appends the message of raw bytes that the columns hold.
func (d *restore) run(dst, in []byte, raw int) ([]byte, error) {
	d.reset(raw)
	d.out, d.most = dst, len(dst)+raw
	defer func() { d.out = nil }()
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
func (d *restore) cut(in []byte) error {
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
		if mask>>columns != 0 {
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
	d.share(lengths, in[defs:], int(nodes))
	return nil
}

// share gives each node its columns; cut has checked the lengths.
func (d *restore) share(lengths, in []byte, nodes int) {
	if cap(d.cols) < nodes {
		d.cols = make([][columns][]byte, nodes)
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
		d.cols[node][col] = in[from : from+n : from+n]
		starts[col] = from + n
	})
}

// each goes through the lengths of columns.
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
	v, n := uvarint(*b)
	*b = (*b)[n:]
	return v, n > 0
}

// get reads a varint of a column.
func (d *restore) get(n uint16, col int) (uint64, error) {
	v, ok := take(&d.cols[n][col])
	if !ok {
		return 0, errColumns
	}
	return v, nil
}

func (d *restore) usedUp() bool {
	if len(d.defs) > 0 || len(d.cols) != len(d.nodes) {
		return false
	}
	for i := range d.cols {
		for _, c := range d.cols[i] {
			if len(c) > 0 {
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

// message appends a message of node n, whose shape is v, and returns the value that it begins
// with. If known is not 0 it is that.
func (d *restore) message(n uint16, v uint64, depth int, known uint32) (key uint32, err error) {
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

func (d *restore) define(n uint16) error {
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

func (d *restore) runOf(r run, depth int, last, known uint32) (first, _ uint32, err error) {
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
	tag := uint64(x.field)<<3 | uint64(x.wire)
	if x.wire == wireBytes {
		return d.valuesOf(r.node, tag, int(count), depth, last, known)
	}
	if known != 0 {
		return 0, 0, errColumns
	}
	for range count {
		if len(d.out) >= d.most {
			return 0, 0, errColumns
		}
		d.out = appendUvarint(d.out, tag)
		if err := d.number(r.node); err != nil {
			return 0, 0, err
		}
	}
	return 0, last, nil
}

func appendUvarint(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	return binary.AppendUvarint(b, v)
}

func (d *restore) valuesOf(n uint16, tag uint64, count, depth int, last, known uint32) (first, _ uint32, err error) {
	a, b := d.nodes[n].first, last
	if known != 0 && d.spans[known].node != n {
		return 0, 0, errColumns
	}
	for i := range count {
		if len(d.out) >= d.most {
			return 0, 0, errColumns
		}
		d.out = appendUvarint(d.out, tag)
		v := known
		switch {
		case known != 0:
			d.copy(known)
		case d.nodes[n].off:
			if _, err := d.inFull(n, depth, 0); err != nil {
				return 0, 0, err
			}
			continue
		default:
			guessed := false
			if v, guessed, err = d.value(n, depth, a, b); err != nil {
				return 0, 0, err
			}
			if !guessed {
				b = v
			}
		}
		if i == 0 {
			d.nodes[n].first, first = v, v
		}
		if v != 0 {
			last = v
		}
		a, known = v, 0
	}
	return first, last, nil
}

// copy appends a value that was there before, with its length.
func (d *restore) copy(id uint32) {
	s := d.spans[id]
	d.out = appendUvarint(d.out, uint64(s.len))
	d.out = append(d.out, d.out[s.off:s.off+uint32(s.len)]...)
}

// value appends a value, and returns it if it may be named from now on.
func (d *restore) value(n uint16, depth int, a, b uint32) (id uint32, guessed bool, err error) {
	guess := d.guess(n, *d.entry(n, a, b), a)
	x := &d.nodes[n]
	if !x.pending && len(d.cols[n][colOps]) > 0 {
		v, err := d.get(n, colOps)
		if err != nil || v>>opBits > uint64(d.most) {
			return 0, false, errColumns
		}
		x.left, x.op, x.pending = uint32(v>>opBits), uint8(v&(1<<opBits-1)), true
	}
	if !x.pending || x.left > 0 {
		if guess == 0 {
			return 0, false, errColumns
		}
		if x.pending {
			x.left--
		}
		d.copy(guess)
		x.tried(true)
		return guess, true, nil
	}
	x.pending = false
	switch x.op {
	case opNamed:
		id, err = d.named(n, d.bonds[guess].key)
	case opNamedOtherwise:
		id, err = d.namedOtherwise(n)
	default:
		id, err = d.fresh(n, depth, guess)
	}
	if err != nil {
		return 0, false, err
	}
	d.learn(n, id, a, b, d.nodes[n].op >= opNamed)
	return id, false, nil
}

// named appends a value from a list.
func (d *restore) named(n uint16, key uint32) (uint32, error) {
	at, err := d.get(n, colRefs)
	list := d.listOf(n, key)
	if err != nil || at >= uint64(len(list)) || d.spans[list[at]].node != n {
		return 0, errColumns
	}
	d.copy(list[at])
	return list[at], nil
}

func (d *restore) namedOtherwise(n uint16) (uint32, error) {
	r, err := d.get(n, colRefs)
	if err != nil || r == 0 {
		if err == nil {
			return d.named(n, 0)
		}
		return 0, err
	}
	if r == 1 {
		return d.alike(n)
	}
	if len(d.nodes[n].children) == 0 {
		return 0, errColumns
	}
	keys := d.listOf(d.nodes[n].children[0], 0)
	if r-2 >= uint64(len(keys)) || d.bonds[keys[r-2]].list == 0 {
		return 0, errColumns
	}
	return d.named(n, keys[r-2])
}

// alike appends a value that has the bytes of another node's.
func (d *restore) alike(n uint16) (uint32, error) {
	back, err := d.get(n, colRefs)
	if err != nil || back == 0 || back >= uint64(len(d.spans)) {
		return 0, errColumns
	}
	other := uint32(uint64(len(d.spans)) - back)
	d.copy(other)
	size := int(d.spans[other].len)
	return d.keep(n, len(d.out)-size, size, 0), nil
}

func (d *restore) fresh(n uint16, depth int, guess uint32) (uint32, error) {
	known := uint32(0)
	if d.nodes[n].op == opNewKeyKnown {
		if known = d.bonds[guess].key; known == 0 {
			return 0, errColumns
		}
	}
	whole, err := d.inFull(n, depth, known)
	if err != nil {
		return 0, err
	}
	return d.keep(n, whole.off, len(d.out)-whole.off, whole.key), nil
}

// content is where a value given in full begins, and its key.
type content struct {
	off int
	key uint32
}

// inFull appends a value that is given in full, with its length.
func (d *restore) inFull(n uint16, depth int, known uint32) (c content, err error) {
	v, err := d.get(n, colShapes)
	if err != nil {
		return c, err
	}
	if v&1 != 0 {
		text := &d.cols[n][colText]
		if v >>= 1; v > uint64(len(*text)) {
			return c, errColumns
		}
		d.out = appendUvarint(d.out, v)
		c.off = len(d.out)
		d.out = append(d.out, (*text)[:v]...)
		*text = (*text)[v:]
		return c, nil
	}
	return d.nested(n, v, depth, known)
}

// nested appends a message with its length, for which it leaves as much room as the last one
// here took.
func (d *restore) nested(n uint16, v uint64, depth int, known uint32) (c content, err error) {
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
	if need := sizeOf(length); need != size {
		d.move(at+size, need-size, values)
		d.nodes[n].size = uint8(need)
		size = need
	}
	binary.PutUvarint(d.out[at:at+size], uint64(length))
	c.off = at + size
	return c, nil
}

// sizeOf is how long a varint is.
func sizeOf(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// move shifts what was appended since a place, and the values in it.
func (d *restore) move(from, by, values int) {
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
func (d *restore) number(n uint16) error {
	x := &d.nodes[n]
	var v uint64
	var err error
	switch x.way() {
	case wayPlain:
		v, err = d.plainNumber(n)
	case wayDecimal:
		v, err = d.decimal(n)
	default:
		if v, err = d.get(n, colNumbers); err == nil {
			v, err = d.difference(x, v)
		}
	}
	if err != nil {
		return err
	}
	d.count(x, v)
	switch x.wire {
	case wire64:
		d.out = binary.LittleEndian.AppendUint64(d.out, v)
	case wire32:
		d.out = binary.LittleEndian.AppendUint32(d.out, uint32(v))
	default:
		d.out = appendUvarint(d.out, v)
	}
	return nil
}

func (d *restore) difference(x *node, u uint64) (uint64, error) {
	switch {
	case x.way() == wayLast:
		return d.last[x.wire] + unzigzag(u), nil
	case x.wire != wire32:
		return x.prev + unzigzag(u), nil
	case u > 1<<32-1:
		return 0, errColumns
	}
	return uint64(uint32(x.prev) + unzigzag32(uint32(u))), nil
}

func (d *restore) plainNumber(n uint16) (v uint64, err error) {
	switch d.nodes[n].wire {
	case wire64:
		return d.fixed(n, colNumbers, 8)
	case wire32:
		return d.fixed(n, colNumbers, 4)
	}
	return d.get(n, colNumbers)
}

func (d *restore) fixed(n uint16, col, size int) (uint64, error) {
	c := &d.cols[n][col]
	if len(*c) < size {
		return 0, errColumns
	}
	var b [8]byte
	copy(b[:], (*c)[:size])
	*c = (*c)[size:]
	return binary.LittleEndian.Uint64(b[:]), nil
}

func (d *restore) decimal(n uint16) (uint64, error) {
	digits, err := d.fixed(n, colKinds, 1)
	if err != nil {
		return 0, err
	}
	if digits == notDecimal {
		return d.fixed(n, colText, 8)
	}
	u, err := d.get(n, colNumbers)
	if err != nil {
		return 0, err
	}
	v, ok := fromDecimal(int(digits), u)
	if !ok {
		return 0, errColumns
	}
	return v, nil
}
