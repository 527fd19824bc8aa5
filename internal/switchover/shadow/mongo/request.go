package mongo

import (
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// request is a mirrored command that has no answer yet. The fields of production's session are removed from
// its body.
type request struct {
	class
	name       string
	db         string
	collection string // "": none
	at         time.Time
	body       []byte
	sections   []section

	session       string // "": none
	transaction   int64  // number of the transaction or of the retryable write; 0: none
	inTransaction bool
	starts        bool // the transaction
	size          int64
}

// newRequest parses a command. It copies its bytes.
func newRequest(m message, name string, c class, at time.Time) *request {
	m = m.own()
	q := &request{class: c, name: name, at: at, sections: m.sections, size: int64(len(m.body))}
	for _, s := range m.sections {
		q.size += int64(len(s.documents))
	}
	first := true
	kept := make([]byte, 4, len(m.body))
	_ = wire.Elements(m.body, func(e wire.Element) bool { // the server reports malformed ones
		key := string(e.Key)
		if first {
			q.collection = string(wire.Text(e.Value))
		}
		if first || !q.note(key, e.Value) {
			kept = append(kept, e.Of(m.body)...)
		}
		first = false
		return true
	})
	q.body = wire.FinishDocument(kept, 0)
	if c == getMore {
		q.collection = text(q.body, "collection")
	}
	return q
}

// ofSession lists the elements about the session, the topology or the time limits of production's client.
var ofSession = []string{
	"$clusterTime", "$readPreference", "readConcern", "stmtId", "stmtIds", "maxTimeMS", "$client", "$configTime", "$topologyTime",
	"$configServerState", "$audit", "recoveryToken", "coordinator", "databaseVersion", "shardVersion", "clientOperationKey",
}

// note records an element, and reports whether targets don't get it.
func (q *request) note(key string, v bsoncore.Value) (ofProduction bool) {
	switch key {
	case "$db":
		q.db = string(wire.Text(v))
		return false
	case "lsid":
		q.session = string(value(wire.Document(v), "id").Data)
	case "txnNumber":
		q.transaction, _ = integer(v)
		q.transaction++ // so that 0 means none: drivers begin with 1, the protocol allows 0
	case "autocommit":
		on, ok := v.BooleanOK()
		q.inTransaction = ok && !on
	case "startTransaction":
		q.starts, _ = v.BooleanOK()
	case "writeConcern":
		return !keepsConcern(wire.Document(v))
	default:
		return slices.Contains(ofSession, key)
	}
	return true
}

// keepsConcern reports whether a write concern works on a target that may be a single server.
func keepsConcern(doc []byte) bool {
	if !has(doc, "w") {
		return true
	}
	n, isNumber := number(doc, "w")
	return text(doc, "w") == "majority" || isNumber && n == 1
}

// namespace returns the collection's full name.
func (q *request) namespace() string { return q.db + "." + q.collection }

// ofServer reports whether the collection is the server's own, not users' data.
func (q *request) ofServer() bool {
	return q.db == "local" || q.db == "config" || q.db == "admin" || strings.HasPrefix(q.collection, "system.") && q.collection != "system.js"
}

// documents returns the documents of a field, from the body or from sections.
func (q *request) documents(field string) (out [][]byte) {
	for _, s := range q.sections {
		if s.name == field {
			out = append(out, cut(s.documents)...)
		}
	}
	each(document(q.body, field), func(_ string, v bsoncore.Value) {
		if d := wire.Document(v); d != nil {
			out = append(out, d)
		}
	})
	return out
}

func (q *request) replace(field string, documents [][]byte) {
	q.body = without(q.body, field)
	q.sections = slices.DeleteFunc(slices.Clone(q.sections), func(s section) bool { return s.name == field })
	q.sections = append(q.sections, section{field, slices.Concat(documents...)})
}

// filter returns the filter of a read or a findAndModify.
func (q *request) filter() []byte {
	switch q.class {
	case find:
		return document(q.body, "filter")
	case count, distinct, findAndModify:
		return document(q.body, "query")
	}
	return nil
}

// pipeline returns the stages of an aggregation.
func (q *request) pipeline() (stages [][]byte) {
	each(document(q.body, "pipeline"), func(_ string, v bsoncore.Value) {
		if d := wire.Document(v); d != nil {
			stages = append(stages, d)
		}
	})
	return stages
}

func stage(doc []byte) string {
	e, _ := wire.First(doc)
	return string(e.Key)
}
