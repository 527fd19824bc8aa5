package mongo

import (
	"bytes"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// A message may have documents of more namespaces than the one that its command names first: a pipeline with $lookup,
// $graphLookup, $unionWith, $merge or $out, the command within explain, and bulkWrite. It is compressed only if rules
// cover all of them.

// Limits. Beyond them no rule covers a message.
const (
	maxNamespaces     = 256 // of a message
	maxNamespaceBytes = 255 // of a name, as in MongoDB
	maxPipelineDepth  = 32  // of pipelines in pipelines
)

// addNamespace adds a further namespace of the request.
func (r *request) addNamespace(database, collection []byte) {
	switch {
	case len(collection) == 0:
	case len(r.others) == maxNamespaces || len(database)+1+len(collection) > maxNamespaceBytes:
		r.unknownNamespaces = true
	default:
		r.others = append(r.others, append(append(bytes.Clone(database), '.'), collection...))
	}
}

// addStages adds the collections that the stages of a pipeline name.
func (r *request) addStages(database []byte, pipeline bsoncore.Value, depth int) {
	if depth > maxPipelineDepth {
		r.unknownNamespaces = true
		return
	}
	eachElement(pipeline, func(stage wire.Element) {
		eachElement(stage.Value, func(e wire.Element) {
			switch string(e.Key) {
			case "$lookup", "$graphLookup", "$unionWith", "$merge", "$out":
				r.addStage(database, e.Value, depth)
			case "$currentOp", "$listSampledQueries": // of all clients
				r.unknownNamespaces = true
			case "$facet":
				eachElement(e.Value, func(e wire.Element) { r.addStages(database, e.Value, depth+1) })
			}
		})
	})
}

// eachElement calls f for the elements of a document or an array; other values have none.
func eachElement(v bsoncore.Value, f func(e wire.Element)) {
	if doc := wire.Document(v); doc != nil {
		_ = wire.Elements(doc, func(e wire.Element) bool { f(e); return true })
	}
}

// addStage adds the collection that a stage names, and those of its own pipeline.
func (r *request) addStage(database []byte, stage bsoncore.Value, depth int) {
	r.addCollection(database, stage)
	eachElement(stage, func(e wire.Element) {
		switch string(e.Key) {
		case "from", "into":
			r.addCollection(database, e.Value)
		case "pipeline":
			r.addStages(database, e.Value, depth+1)
		}
	})
}

// addCollection adds a collection that is named as "orders", {coll: "orders"} or {db: "shop", coll: "orders"}.
func (r *request) addCollection(database []byte, named bsoncore.Value) {
	collection, db := wire.Text(named), []byte(nil)
	eachElement(named, func(e wire.Element) {
		switch string(e.Key) {
		case "db":
			db = wire.Text(e.Value)
		case "coll":
			collection = wire.Text(e.Value)
		}
	})
	if db != nil {
		database = db
	}
	r.addNamespace(database, collection)
}

// addListed adds the namespaces that a bulkWrite lists: nsInfo: [{ns: "shop.orders"}, …] in its document, or as a
// sequence of documents.
func (r *request) addListed(doc []byte) {
	add := func(info []byte) {
		if e, ok, _ := wire.Find(info, "ns"); ok {
			database, collection, _ := bytes.Cut(wire.Text(e.Value), []byte("."))
			r.addNamespace(database, collection)
		}
	}
	if list, ok, _ := wire.Find(doc, "nsInfo"); ok {
		eachElement(list.Value, func(e wire.Element) { add(wire.Document(e.Value)) })
	}
	for _, s := range r.msg.Sequences {
		if string(s.Identifier.Of(r.plain)) != "nsInfo" {
			continue
		}
		for rest := s.Documents.Of(r.plain); len(rest) > 0; {
			info, after, ok := bsoncore.ReadDocument(rest)
			if !ok {
				return
			}
			add(info)
			rest = after
		}
	}
}

// Limits of openCursors.
const (
	cursorsPerGeneration = 8192
	maxCursorNames       = 1 << 10          // bytes of further namespaces that are kept for a cursor
	serverCursorTimeout  = 10 * time.Minute // after which a server closes an idle cursor by default
)

// openCursors holds the cursors of commands that name more than one namespace, since a getMore names only the first,
// and may come from another connection. It keeps two generations, and forgets the older one when the newer one is full.
// From then on unknown cursors count as covered by no rule for serverCursorTimeout, until the server has closed the
// forgotten ones.
type openCursors struct {
	mu        sync.Mutex
	now, last map[int64][][]byte // further namespaces, by cursor ID; nil: no rule covers its documents
	forgot    time.Time
}

// add records the cursor that a reply begins or continues, if there is one.
func (o *openCursors) add(reply []byte, others [][]byte) {
	cursor, _, _ := wire.Find(reply, "cursor")
	e, _, _ := wire.Find(wire.Document(cursor.Value), "id")
	id, ok := e.Value.AsInt64OK()
	if !ok || id == 0 {
		return
	}
	names := 0
	for _, other := range others {
		names += len(other)
	}
	if names > maxCursorNames {
		others = nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now == nil || len(o.now) >= cursorsPerGeneration {
		if len(o.last) > 0 {
			o.forgot = time.Now()
		}
		o.last, o.now = o.now, map[int64][][]byte{}
	}
	o.now[id] = others
}

// find returns the further namespaces of a cursor. uncovered means that no rule covers its documents.
func (o *openCursors) find(id int64) (others [][]byte, uncovered bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	others, known := o.now[id]
	if !known {
		others, known = o.last[id]
	}
	if !known {
		return nil, !o.forgot.IsZero() && time.Since(o.forgot) < serverCursorTimeout
	}
	return others, others == nil
}
