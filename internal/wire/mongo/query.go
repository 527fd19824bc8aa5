package mongo

import "bytes"

// Query is a parsed OP_QUERY, which drivers still use for the first hello.
type Query struct {
	Collection Span
	Document   Span
}

// ParseQuery parses an OP_QUERY. message must be complete, with its header.
func ParseQuery(message []byte) (q Query, err error) {
	const nameAt = HeaderLen + 4
	if len(message) < nameAt {
		return q, malformed("truncated query")
	}
	n := bytes.IndexByte(message[nameAt:], 0)
	if n < 0 {
		return q, malformed("query without a collection")
	}
	q.Collection = Span{nameAt, n}
	at := q.Collection.End() + 1 + 8 // skip and number to return
	if at > len(message) {
		return q, malformed("truncated query")
	}
	if q.Document, err = documentAt(message, at, len(message)); err != nil {
		return q, err
	}
	at = q.Document.End()
	if at == len(message) {
		return q, nil
	}
	fields, err := documentAt(message, at, len(message))
	if err == nil && fields.End() != len(message) {
		err = malformed("%d bytes behind a query", len(message)-fields.End())
	}
	return q, err
}

// IsCommand reports whether the query runs a command: its collection is "$cmd".
func (q Query) IsCommand(message []byte) bool {
	return bytes.HasSuffix(q.Collection.Of(message), []byte(".$cmd"))
}

// ParseReply returns the span of the first document of an OP_REPLY; empty if it has none.
func ParseReply(message []byte) (first Span, err error) {
	const documentsAt = HeaderLen + 20
	if len(message) < documentsAt {
		return first, malformed("truncated reply")
	}
	n := int(int32At(message, documentsAt-4))
	if n < 0 || n > (len(message)-documentsAt)/minDocument {
		return first, malformed("reply of %d documents", n)
	}
	for at := documentsAt; n > 0; n-- {
		doc, err := documentAt(message, at, len(message))
		if err != nil {
			return first, err
		}
		if first.Len == 0 {
			first = doc
		}
		at = doc.End()
	}
	return first, nil
}
