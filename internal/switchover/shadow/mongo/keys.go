package mongo

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// Keys are collections, and documents in them by _id. A command without an _id touches the whole collection.

// maxIDs limits the documents that an operation has keys for. With more, the operation touches the whole
// collection.
const maxIDs = 100

// tail returns the key for the end of a collection. All inserts touch it, so that documents are in the same
// order at both targets, and reads without a sort find them in the same order. If the collection has a unique
// index besides that of _id, all writes touch it.
func tail(namespace string) string { return namespace + shadow.Part }

// idKey returns the key of a document; false: equal _ids may have different bytes.
func idKey(namespace string, v bsoncore.Value) (string, bool) {
	key := tail(namespace)
	switch v.Type {
	case bsoncore.TypeInt32, bsoncore.TypeInt64, bsoncore.TypeDouble:
		n, whole := integer(v)
		if !whole {
			f, _ := v.DoubleOK()
			return key + "n" + strconv.FormatFloat(f, 'g', -1, 64), true
		}
		return key + "n" + strconv.FormatInt(n, 10), true
	case 0, bsoncore.TypeDecimal128, bsoncore.TypeRegex, bsoncore.TypeArray, bsoncore.TypeSymbol, bsoncore.TypeNull, bsoncore.TypeUndefined:
		return "", false // missing, a pattern, or equal to values with other bytes
	case bsoncore.TypeEmbeddedDocument:
		if doc := wire.Document(v); doc == nil || !plainDocument(doc) {
			return "", false
		}
	}
	return key + string(v.Type) + string(v.Data), true
}

// plainDocument reports whether a document is neither an operator nor has numbers in it, which have several
// encodings.
func plainDocument(doc []byte) bool {
	plain := true
	each(doc, func(key string, v bsoncore.Value) {
		switch v.Type {
		case bsoncore.TypeString, bsoncore.TypeObjectID, bsoncore.TypeDateTime, bsoncore.TypeBinary, bsoncore.TypeBoolean:
		default:
			plain = false
		}
		if key == "" || key[0] == '$' {
			plain = false
		}
	})
	return plain
}

// ids collects the documents that an operation touches.
type ids struct {
	namespace string
	keys      []string
	whole     bool // it also touches others
}

func (d *ids) add(v bsoncore.Value) {
	key, ok := idKey(d.namespace, v)
	if !ok || len(d.keys) == maxIDs {
		d.whole = true
		return
	}
	d.keys = append(d.keys, key)
}

// filter adds the documents that a filter can match.
func (d *ids) filter(doc []byte) {
	if doc == nil {
		d.whole = true
		return
	}
	v := value(doc, "_id")
	if v.Type != bsoncore.TypeEmbeddedDocument {
		d.add(v)
		return
	}
	inner := wire.Document(v)
	switch e, _ := wire.First(inner); string(e.Key) {
	case "$eq":
		d.add(e.Value)
	case "$in":
		each(wire.Document(e.Value), func(_ string, v bsoncore.Value) { d.add(v) })
	default:
		d.add(v)
	}
}

// touch sets the keys of a request's operation.
func (p *Protocol) touch(op *shadow.Operation, q *request) {
	if q.class == define || q.class == bulkWrite || q.class == mapReduce {
		op.TouchesAll = true
		return
	}
	if q.collection == "" {
		return
	}
	about := p.catalog.about(q.namespace())
	if about.view {
		op.TouchesAll = true
		return
	}
	d := ids{namespace: q.namespace()}
	grows := q.documentsTouched(&d)
	if d.whole || about.collation || has(q.body, "collation") {
		op.Keys = []string{d.namespace}
	} else {
		op.Keys = d.keys
		if grows || about.unique && op.Kind == shadow.Write {
			op.Keys = append(op.Keys, tail(d.namespace))
		}
	}
	for _, other := range q.others() {
		if p.catalog.about(other).view {
			op.TouchesAll = true
		}
		op.Keys = append(op.Keys, other)
	}
}

// documentsTouched adds the documents of the request's own collection, and reports whether the collection may
// grow.
func (q *request) documentsTouched(d *ids) (grows bool) {
	switch q.class {
	case insert:
		for _, doc := range q.documents("documents") {
			d.add(value(doc, "_id"))
		}
		return true
	case update:
		for _, u := range q.documents("updates") {
			d.filter(document(u, "q"))
			grows = grows || truth(u, "upsert")
		}
		return grows
	case remove:
		for _, r := range q.documents("deletes") {
			d.filter(document(r, "q"))
		}
	case find, count, distinct, findAndModify:
		d.filter(q.filter())
		return q.class == findAndModify && truth(q.body, "upsert")
	case aggregate:
		if stages := q.pipeline(); len(stages) > 0 && stage(stages[0]) == "$match" && !q.outputs() {
			d.filter(document(stages[0], "$match"))
			return false
		}
		d.whole = true
	default:
		d.whole = true
	}
	return false
}

// outputs reports whether an aggregation writes to a collection.
func (q *request) outputs() bool {
	stages := q.pipeline()
	if len(stages) == 0 {
		return false
	}
	last := stage(stages[len(stages)-1])
	return last == "$out" || last == "$merge"
}

// others returns the namespaces that an aggregation names besides its own.
func (q *request) others() []string {
	if q.class != aggregate {
		return nil
	}
	return namespacesIn(document(q.body, "pipeline"), q.db)
}

// namespacesIn returns the namespaces that a pipeline names.
func namespacesIn(pipeline []byte, db string) (out []string) {
	var look func(doc []byte, depth int)
	look = func(doc []byte, depth int) {
		if depth > maxDepth {
			return
		}
		each(doc, func(key string, v bsoncore.Value) {
			switch key {
			case "from", "coll", "into", "$out", "$unionWith", "$merge":
				if name := string(wire.Text(v)); name != "" && name[0] != '$' {
					out = append(out, db+"."+name)
				}
			}
			inner := wire.Document(v)
			if coll := text(inner, "coll"); inner != nil && coll != "" && text(inner, "db") != "" {
				out = append(out, text(inner, "db")+"."+coll)
			}
			look(inner, depth+1)
		})
	}
	look(pipeline, 0)
	return out
}
