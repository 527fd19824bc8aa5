package history

import "github.com/cinch-layer/cinch/codec/proto/internal/pbwire"

// Operations of values that were not guessed.
const (
	opNew            = iota
	opNewKeyKnown    // it begins like the guess
	opNamed          // in the guess's block
	opNamedElsewhere // in another block of the node
	opAcross         // it has the bytes of another node's value
)

func (m *model) codeOp(x *forms, op int, guess uint32) int {
	if !m.flag(&x.op[0], op > opNewKeyKnown) {
		if guess != 0 && m.keyOf(guess) != 0 && m.flag(&x.op[1], op == opNewKeyKnown) {
			return opNewKeyKnown
		}
		return opNew
	}
	if guess != 0 && m.flag(&x.op[2], op == opNamed) {
		return opNamed
	}
	if m.flag(&x.op[3], op == opAcross) {
		return opAcross
	}
	return opNamedElsewhere
}

// prefix is a value's first field, and its content.
type prefix struct {
	field, content []byte
	id             uint32 // of the content, if it is known
}

// prefixOf returns the beginning of a value with a key.
func (m *store) prefixOf(id uint32) prefix {
	data := m.values[id].data
	_, tag := pbwire.Uvarint(data)
	n, size := pbwire.Uvarint(data[tag:])
	end := tag + size + int(n)
	return prefix{data[:end], data[tag+size : end], m.blocks[m.values[id].block].keyID}
}
