package history

import (
	"encoding/binary"
	"strconv"
	"testing"
)

// program makes messages from a few bytes, so that a fuzzer reaches long runs of similar messages. It is a
// list of fields; loops repeat the fields in them, with counters that determine numbers and texts.
//
//	| number, kind | argument |
//
// The number of the field is in the low three bits, the kind in the next three.
type program struct {
	code     []byte
	counters [4]uint64 // of the loops, the inner ones last
	loops    int
	message  uint64
	steps    int // remaining
	most     int // maximum bytes of a message
}

const (
	opVarint = iota
	opFixed64
	opFixed32
	opText
	opPacked
	opMessage
	opLoop
	opEnd
)

// run appends the fields from a position in the code on, up to the end of the block that begins there, which
// it returns.
func (p *program) run(b []byte, at, depth int) (_ []byte, end int) {
	for at < len(p.code) {
		if p.steps--; p.steps < 0 {
			return b, len(p.code)
		}
		op := p.code[at]
		n, arg := 1+int(op&7), byte(0)
		if at++; at < len(p.code) {
			arg = p.code[at]
		}
		at++
		switch op >> 3 & 7 {
		case opVarint:
			b = varintField(b, n, p.value(arg))
		case opFixed64:
			b = fixed64Field(b, n, p.value(arg))
		case opFixed32:
			b = fixed32Field(b, n, uint32(p.value(arg)))
		case opText:
			b = bytesField(b, n, p.text(arg))
		case opPacked:
			b = bytesField(b, n, p.packed(arg))
		case opMessage:
			if depth >= 30 {
				return b, at
			}
			var m []byte
			m, at = p.run(nil, at-1, depth+1)
			b = bytesField(b, n, m)
		case opLoop:
			b, at = p.loop(b, at, depth, int(arg))
		case opEnd:
			return b, at - 1
		}
		if len(b) > p.most {
			return b, len(p.code)
		}
	}
	return b, at
}

func (p *program) loop(b []byte, at, depth, count int) (_ []byte, end int) {
	if p.loops == len(p.counters) || depth >= 30 {
		return b, at
	}
	p.loops++
	end = len(p.code)
	for i := range 1 + count {
		p.counters[p.loops-1] = uint64(i)
		if b, end = p.run(b, at, depth+1); len(b) > p.most || p.steps < 0 {
			break
		}
	}
	p.loops--
	p.counters[p.loops] = 0
	return b, end
}

// value derives a number from an argument: the counter of a loop, scaled and shifted.
func (p *program) value(arg byte) uint64 {
	c := p.counters[arg&3] + p.message*uint64(arg>>2&1)
	switch arg >> 3 & 7 {
	case 0:
		return uint64(arg >> 6)
	case 1:
		return c
	case 2:
		return c * c << (arg >> 6 * 9)
	case 3:
		return 1<<40 + c*1000
	case 4:
		return -c
	case 5:
		return c * 0x9E3779B97F4A7C15
	case 6:
		return c % 3
	}
	return 0x4059000000000000 + c<<44 // doubles from 100 on
}

// text derives a text from an argument, up to somewhat longer than values that are kept.
func (p *program) text(arg byte) []byte {
	b := strconv.AppendUint(nil, p.value(arg&0x3f|8), 36)
	for range int(arg>>6) * int(arg>>6) * int(arg&0x3f) {
		b = append(b, " some text"[len(b)%10])
	}
	return b
}

func (p *program) packed(arg byte) (b []byte) {
	for i := range 8 + uint64(arg>>2) {
		switch arg & 3 {
		case 0:
			b = binary.LittleEndian.AppendUint64(b, p.value(8)+i)
		case 1:
			b = binary.LittleEndian.AppendUint32(b, uint32(p.value(16)+i))
		default:
			b = binary.AppendUvarint(b, p.value(8)%100+i)
		}
	}
	return b
}

// programMessages returns the messages that data makes: a byte is the length of the program of a message, and
// the next one how often to run it.
func programMessages(data []byte, most int) (all [][]byte) {
	for left := 12 * most; len(data) > 2 && left > 0 && len(all) < 64; {
		n, times := 1+int(data[0]), 1+int(data[1]&7)
		data = data[2:]
		n = min(n, len(data))
		for i := range times {
			p := program{code: data[:n], most: most, steps: most, message: uint64(len(all)) * uint64(i+1)}
			b, _ := p.run(nil, 0, 0)
			all = append(all, b)
			left -= len(b) + 1
		}
		data = data[n:]
	}
	return all
}

// programs holds examples, which are seeds for fuzzers.
var programs = func() []string {
	op := func(kind, n int) byte { return byte(kind<<3 | n - 1) }
	end := op(opEnd, 1)
	make := func(times byte, code ...byte) string {
		return string(append([]byte{byte(len(code) - 1), times - 1}, code...))
	}
	// Records with runs of records, each of which is new.
	laps := make(4, op(opLoop, 1), 40,
		op(opMessage, 1), op(opVarint, 1), 0x15,
		op(opLoop, 1), 30, op(opMessage, 2), op(opText, 1), 0x0d, op(opVarint, 2), 0x10, op(opFixed64, 3), 0x38, end, end,
		op(opVarint, 3), 0x08, op(opVarint, 3), 0x30, op(opVarint, 3), 0x30, end, end)
	// Messages with keys, lists of labels and values that recur later.
	keys := make(6, op(opLoop, 1), 60,
		op(opMessage, 1),
		op(opMessage, 1), op(opText, 1), 0x30, op(opText, 2), 0x0c, end,
		op(opMessage, 1), op(opText, 1), 0x08, op(opText, 2), 0x31, end,
		op(opText, 2), 0x14, op(opVarint, 4), 0x19, end, end)
	// Long values, packed numbers, and deeply nested messages.
	deep := make(5, op(opLoop, 1), 20,
		op(opMessage, 1), op(opText, 1), 0xa8, op(opPacked, 2), 0x10, op(opPacked, 3), 0x0a,
		op(opMessage, 4), op(opMessage, 4), op(opVarint, 1), 0x28, op(opLoop, 1), 3, op(opMessage, 4), op(opVarint, 1), 0x09, op(opText, 2), 0x28, end, end, end, end, end, end)
	// Records of many numbers.
	wide := make(8, op(opLoop, 1), 10, op(opMessage, 1), op(opVarint, 1), 0x14,
		op(opLoop, 1), 30, op(opMessage, 2), op(opText, 1), 0x0d, op(opLoop, 1), 60, op(opVarint, 2), 0x30, end, op(opFixed64, 3), 0x0c, end, end,
		op(opLoop, 1), 60, op(opVarint, 2), 0x08, end, end, end)
	return []string{laps, keys, deep, wide, laps + keys + deep, keys + laps + keys}
}()

// Sessions of programs exceed each of the small tables.
func TestPrograms(t *testing.T) {
	for _, l := range []*limits{&smallLimits, &byteLimits} {
		var values, lists, records uint32
		for _, p := range programs {
			s := newSession(l)
			for _, m := range programMessages([]byte(p), 1<<14) {
				s.send(t, m)
				s.w.check(t)
				s.r.check(t)
			}
			values, lists, records = values|s.w.ofValues.hand, lists|s.w.ofLists.hand, records|s.w.recs.hand
		}
		if values == 0 || lists == 0 || records == 0 {
			t.Errorf("hands are at %d, %d and %d", values, lists, records)
		}
	}
}
