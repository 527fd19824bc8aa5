package history

import (
	"encoding/binary"

	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// element appends an element of a run.
func (d *decoder) element(r run, depth int, h here) (pure bool, err error) {
	if !mayBeRecord(r, depth) {
		_, pure, err = d.inFull(r.node, depth, h, nil)
		return pure, err
	}
	if done, err := d.byRecord(r.node, h.base, depth); done || err != nil {
		return false, err
	}
	at, bases := len(d.out), len(d.bases)
	if _, pure, err = d.inFull(r.node, depth, h, nil); err != nil {
		return pure, err
	}
	if !pure {
		makeRecord(&d.model, r.node, d.contentAt(at), h.base, bases)
	}
	d.bases = d.bases[:bases]
	return pure, nil
}

// contentAt returns the content of the field at an offset of out.
func (d *decoder) contentAt(at int) []byte {
	_, tag := pbwire.Uvarint(d.out[at:])
	_, size := pbwire.Uvarint(d.out[at+tag:])
	return d.out[at+tag+size:]
}

// byRecord appends a message given by a record. It returns false if it is not given by one.
func (d *decoder) byRecord(n uint16, base uint32, depth int) (bool, error) {
	a := &d.nodes[n].records
	if !a.made {
		return false, nil
	}
	g := d.recs.guess(a, n, base)
	guessed := g != 0 && d.flag(&a.hits[a.was], false)
	if !guessed {
		if !d.flag(&a.named[a.was], false) {
			return false, nil
		}
		g = uint32(min(uint64(a.last)+pbwire.Unzigzag(d.number(sizesOf(&a.places), 0, 0)), uint64(d.limits.records)))
		if !d.recs.isOf(g, n, base) {
			return false, errCoded
		}
	}
	if depth >= maxDepth {
		return false, errCoded
	}
	d.recs.cameAgain(a, g, guessed)
	d.out = pbwire.AppendUvarint(d.out, d.nodes[n].tag)
	return true, d.fill(g, depth)
}

// room is the space for a length that isn't known yet: as many bytes as the previous length here took, which is *size.
// Nothing nested in a node changes the node's own size.
type room struct {
	at   int
	size *uint8
}

func (d *decoder) leaveRoom(size *uint8) room {
	at := len(d.out)
	for range *size {
		d.out = append(d.out, 0)
	}
	return room{at, size}
}

func (d *decoder) setLength(r room) {
	length := len(d.out) - r.at - int(*r.size)
	if need := uint8(pbwire.UvarintLen(uint64(length))); need != *r.size {
		d.move(r.at+int(*r.size), int(need)-int(*r.size))
		*r.size = need
	}
	binary.PutUvarint(d.out[r.at:], uint64(length))
}

// fill appends a record's length and its content. The record is pinned meanwhile: its runs may make other
// records. It stays pinned after an error, after which the reader is unusable.
func (d *decoder) fill(id uint32, depth int) error {
	r := d.recs.pin(id)
	steps, slots, literals := r.steps, r.slots, r.literals
	var rooms [maxRecordDepth + 2]room
	rooms[0] = d.leaveRoom(&d.nodes[r.node].lengthSize)
	inner := 1
	for i := range steps {
		s := &steps[i]
		d.out = appendShort(d.out, literals[:s.literal])
		literals = literals[s.literal:]
		switch s.kind {
		case stepNumber:
			d.put(s.wire, d.codeKnown(s.node, &slots[0], 0))
			slots = slots[1:]
		case stepRun:
			if err := d.fillRun(s, &slots[0], depth); err != nil {
				return err
			}
			slots = slots[1:]
		case stepOpen:
			rooms[inner] = d.leaveRoom(&s.size)
			inner++
		default:
			inner--
			d.setLength(rooms[inner])
		}
	}
	d.recs.unpin(id)
	if d.full() {
		return errCoded
	}
	return nil
}

// appendShort appends b, which mostly has a few bytes.
func appendShort(out, b []byte) []byte {
	n, at := len(b), len(out)
	if n > 8 || cap(b) < 8 || cap(out)-at < 8 {
		return append(out, b...)
	}
	binary.LittleEndian.PutUint64(out[at:at+8], binary.LittleEndian.Uint64(b[:8]))
	return out[:at+n]
}

func (d *decoder) fillRun(s *step, count *seen, depth int) error {
	for i := range d.fieldCount(sizesOf(&d.nodes[s.node].counts), count, 0) {
		if d.full() {
			return errCoded
		}
		if _, err := d.element(run{s.node, true}, depth+1, here{base: s.base, hash: join(s.base, uint32(i))}); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) put(wire uint8, v uint64) {
	switch wire {
	case pbwire.Fixed64Type:
		d.out = binary.LittleEndian.AppendUint64(d.out, v)
	case pbwire.Fixed32Type:
		d.out = binary.LittleEndian.AppendUint32(d.out, uint32(v))
	default:
		d.out = pbwire.AppendUvarint(d.out, v)
	}
}
