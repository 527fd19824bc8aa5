package mongo

import (
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Element is an element of a document; Value is encoded as in the document.
type Element struct {
	Span  // of the whole element within the document
	Key   []byte
	Value bsoncore.Value
}

// Elements calls yield for the elements of a document, in order, until it returns false. It returns an error
// at an element that can't be parsed. It does not parse embedded documents.
func Elements(doc []byte, yield func(Element) bool) error {
	if len(doc) < minDocument {
		return malformed("document of %d bytes", len(doc))
	}
	end := len(doc) - 1
	for rest := doc[4:end]; len(rest) > 0; {
		e, after, ok := bsoncore.ReadElement(rest)
		if !ok {
			return malformed("document with a bad element")
		}
		key := e.KeyBytes()
		value := bsoncore.Value{Type: bsoncore.Type(e[0]), Data: e[2+len(key):]}
		if !yield(Element{Span{end - len(rest), len(e)}, key, value}) {
			return nil
		}
		rest = after
	}
	return nil
}

// Find returns the first element with the given key.
func Find(doc []byte, key string) (found Element, ok bool, err error) {
	err = Elements(doc, func(e Element) bool {
		if string(e.Key) == key {
			found, ok = e, true
		}
		return !ok
	})
	return found, ok, err
}

// First returns the first element. In a command its key is the command's name.
func First(doc []byte) (first Element, ok bool) {
	err := Elements(doc, func(e Element) bool {
		first, ok = e, true
		return false
	})
	return first, ok && err == nil
}

// Document returns the bytes of an embedded document or array; nil for other types.
func Document(v bsoncore.Value) []byte {
	if v.Type != bsoncore.TypeEmbeddedDocument && v.Type != bsoncore.TypeArray {
		return nil
	}
	doc, err := documentAt(v.Data, 0, len(v.Data))
	if err != nil || doc.Len != len(v.Data) {
		return nil
	}
	return v.Data
}

// Text returns the bytes of a string; nil for other types.
func Text(v bsoncore.Value) []byte {
	if v.Type != bsoncore.TypeString || len(v.Data) < 5 {
		return nil
	}
	return v.Data[4 : len(v.Data)-1]
}

// Replace appends message to dst with doc in place of the document at span. It updates the length of the
// message, and its checksum if hasChecksum.
func Replace(dst, message []byte, span Span, doc []byte, hasChecksum bool) []byte {
	start := len(dst)
	dst = append(dst, message[:span.Off]...)
	dst = append(dst, doc...)
	dst = append(dst, message[span.End():]...)
	PutLength(dst[start:])
	if hasChecksum {
		PutChecksum(dst[start:])
	}
	return dst
}

// FinishDocument appends the end of the document that begins at dst[start:], and stores its length in its
// first four bytes.
func FinishDocument(dst []byte, start int) []byte {
	dst = append(dst, 0)
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst
}
