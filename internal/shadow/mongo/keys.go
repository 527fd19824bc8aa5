package mongo

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/shadow"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// Keys are collections, and documents of them by _id. What tells no _id touches the whole collection.

// mostIDs of an operation are told apart. One with more touches the collection.
const mostIDs = 100

// tail is the place where a collection grows. All that insert touch it, so that documents have the same order at
// both targets, and with it what finds them without an order of its own; and all that write where an index is unique besides
// that of _id.
func tail(namespace string) string { return namespace + shadow.Part }

// idKey is the key of a document; false: its _id can't be told from others by its bytes.
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
		return "", false // equal to others, or a pattern
	case bsoncore.TypeEmbeddedDocument:
		if doc := wire.Document(v); doc == nil || !plainDocument(doc) {
			return "", false
		}
	}
	return key + string(v.Type) + string(v.Data), true
}

// plainDocument reports that a document is neither an operator nor has numbers in it, which may be written in several ways.
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
	whole     bool // it touches others besides
}

func (d *ids) add(v bsoncore.Value) {
	key, ok := idKey(d.namespace, v)
	if !ok || len(d.keys) == mostIDs {
		d.whole = true
		return
	}
	d.keys = append(d.keys, key)
}

// filter adds what a filter finds at most.
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

// touch says which keys an operation of a request touches.
func (p *Protocol) touch(op *shadow.Operation, q *request) {
	if q.class == define || q.class == bulkWrite || q.class == mapReduce {
		op.Whole = true
		return
	}
	if q.collection == "" {
		return
	}
	about := p.catalog.about(q.namespace())
	if about.view {
		op.Whole = true
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
			op.Whole = true
		}
		op.Keys = append(op.Keys, other)
	}
}

// documentsTouched adds those of the request's own collection, and reports whether it may grow.
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

// outputs reports whether an aggregation writes a collection.
func (q *request) outputs() bool {
	stages := q.pipeline()
	if len(stages) == 0 {
		return false
	}
	last := stage(stages[len(stages)-1])
	return last == "$out" || last == "$merge"
}

// others are the namespaces that an aggregation names besides its own.
func (q *request) others() []string {
	if q.class != aggregate {
		return nil
	}
	return namespacesIn(document(q.body, "pipeline"), q.db)
}

// namespacesIn are those that a pipeline names.
func namespacesIn(pipeline []byte, db string) (out []string) {
	var look func(doc []byte, depth int)
	look = func(doc []byte, depth int) {
		if depth > mostDepth {
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
