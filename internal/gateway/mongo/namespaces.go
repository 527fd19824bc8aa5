package mongo

import (
	"bytes"
	"sync"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// A message may have documents of more namespaces than the one that its command names first: a pipeline with $lookup,
// $graphLookup or $unionWith, the command within explain, and bulkWrite. It is compressed only if rules cover all of them.

// Limits. Beyond them no rule covers a message.
const (
	maxNamespaces    = 256 // of a message
	maxPipelineDepth = 32  // of pipelines in pipelines
)

// addNamespace adds a further namespace of the request.
func (r *request) addNamespace(database, collection []byte) {
	switch {
	case len(collection) == 0:
	case len(r.others) == maxNamespaces:
		r.unknownNamespaces = true
	default:
		r.others = append(r.others, append(append(bytes.Clone(database), '.'), collection...))
	}
}

// addStages adds the collections that the stages of a pipeline read.
func (r *request) addStages(database []byte, pipeline bsoncore.Value, depth int) {
	if depth > maxPipelineDepth {
		r.unknownNamespaces = true
		return
	}
	_ = wire.Elements(wire.Document(pipeline), func(stage wire.Element) bool {
		_ = wire.Elements(wire.Document(stage.Value), func(e wire.Element) bool {
			switch string(e.Key) {
			case "$lookup", "$graphLookup", "$unionWith":
				r.addStage(database, e.Value, depth)
			case "$facet":
				_ = wire.Elements(wire.Document(e.Value), func(e wire.Element) bool {
					r.addStages(database, e.Value, depth+1)
					return true
				})
			}
			return true
		})
		return true
	})
}

// addStage adds the collection that a stage names, as {from: "orders", …}, {coll: "orders", …} or "orders", and those of
// its own pipeline. {from: {db: "shop", coll: "orders"}} names another database.
func (r *request) addStage(database []byte, stage bsoncore.Value, depth int) {
	r.addNamespace(database, wire.Text(stage))
	db := database
	_ = wire.Elements(wire.Document(stage), func(e wire.Element) bool {
		switch string(e.Key) {
		case "db":
			db = wire.Text(e.Value)
		case "from":
			if wire.Document(e.Value) != nil {
				r.addStage(database, e.Value, depth+1)
			}
			r.addNamespace(database, wire.Text(e.Value))
		case "coll":
			r.addNamespace(db, wire.Text(e.Value))
		case "pipeline":
			r.addStages(database, e.Value, depth+1)
		}
		return true
	})
}

// addListed adds the namespaces that a bulkWrite lists: nsInfo: [{ns: "shop.orders"}, …] in its document, or as a sequence of documents.
func (r *request) addListed(doc []byte) {
	add := func(info []byte) {
		if e, ok, _ := wire.Find(info, "ns"); ok {
			database, collection, _ := bytes.Cut(wire.Text(e.Value), []byte("."))
			r.addNamespace(database, collection)
		}
	}
	if list, ok, _ := wire.Find(doc, "nsInfo"); ok {
		_ = wire.Elements(wire.Document(list.Value), func(e wire.Element) bool {
			add(wire.Document(e.Value))
			return true
		})
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

// cursorsPerGeneration limits the cursors that uncoveredCursors holds, in each of two generations.
const cursorsPerGeneration = 8192

// uncoveredCursors holds the IDs of cursors whose first documents no rule covered, since a getMore names only the first namespace
// of its pipeline, and may come from another connection. The oldest are forgotten beyond cursorsPerGeneration.
type uncoveredCursors struct {
	mu        sync.Mutex
	now, last map[int64]struct{}
}

// add records the cursor that a reply begins or continues, if there is one.
func (u *uncoveredCursors) add(reply []byte) {
	cursor, _, _ := wire.Find(reply, "cursor")
	e, _, _ := wire.Find(wire.Document(cursor.Value), "id")
	id, ok := e.Value.AsInt64OK()
	if !ok || id == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.now == nil || len(u.now) >= cursorsPerGeneration {
		u.last, u.now = u.now, map[int64]struct{}{}
	}
	u.now[id] = struct{}{}
}

func (u *uncoveredCursors) has(id int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, now := u.now[id]
	_, last := u.last[id]
	return now || last
}
