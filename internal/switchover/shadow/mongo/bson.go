package mongo

import (
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// maxDepth is more than the depth of documents that servers accept. Clients may send more.
const maxDepth = 220

// value returns the value of an element; one of type zero if there is none.
func value(doc []byte, key string) bsoncore.Value {
	if doc == nil {
		return bsoncore.Value{}
	}
	e, _, err := wire.Find(doc, key)
	if err != nil {
		return bsoncore.Value{}
	}
	return e.Value
}

// document returns an embedded document or array; nil if there is none.
func document(doc []byte, key string) []byte { return wire.Document(value(doc, key)) }

func text(doc []byte, key string) string { return string(wire.Text(value(doc, key))) }

// number returns the value of an element with a number of any type.
func number(doc []byte, key string) (int64, bool) { return integer(value(doc, key)) }

func integer(v bsoncore.Value) (int64, bool) {
	if f, ok := v.DoubleOK(); ok {
		return int64(f), float64(int64(f)) == f
	}
	return v.AsInt64OK()
}

// truth reports whether an element is true as servers read flags: it is the boolean true, or a number other
// than 0.
func truth(doc []byte, key string) bool {
	v := value(doc, key)
	if b, ok := v.BooleanOK(); ok {
		return b
	}
	n, ok := integer(v)
	return ok && n != 0
}

// each calls yield for the elements of a document or array.
func each(doc []byte, yield func(key string, v bsoncore.Value)) {
	if doc == nil {
		return
	}
	_ = wire.Elements(doc, func(e wire.Element) bool { // malformed elements are left for the server to refuse
		yield(string(e.Key), e.Value)
		return true
	})
}

func has(doc []byte, key string) bool { return value(doc, key).Type != 0 }

// with returns a document with additional encoded elements.
func with(doc []byte, elements ...[]byte) []byte {
	out := append(make([]byte, 0, len(doc)+64), doc[:len(doc)-1]...)
	for _, e := range elements {
		out = append(out, e...)
	}
	return wire.FinishDocument(out, 0)
}

// without returns a document without an element.
func without(doc []byte, key string) []byte {
	e, ok, err := wire.Find(doc, key)
	if !ok || err != nil {
		return doc
	}
	out := append(make([]byte, 0, len(doc)), doc[:e.Off]...)
	out = append(out, doc[e.End():len(doc)-1]...)
	return wire.FinishDocument(out, 0)
}

// cut splits concatenated documents.
func cut(documents []byte) (out [][]byte) {
	for len(documents) >= 4 {
		n := int(binary.LittleEndian.Uint32(documents))
		if n < 5 || n > len(documents) {
			return out
		}
		out, documents = append(out, documents[:n:n]), documents[n:]
	}
	return out
}
