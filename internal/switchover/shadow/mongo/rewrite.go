package mongo

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// Choices of the server are replaced by production's: which document a findAndModify found, and the _id that
// an upsert created. An _id that production's answer does not tell is chosen here, the same for both targets.

// settle rewrites a request according to production's answer.
func (p *Protocol) settle(q *request, reply []byte) {
	switch q.class {
	case insert:
		p.giveIDs(q)
	case update:
		q.chooseUpserted(reply)
	case findAndModify:
		q.choose(reply)
	}
}

// giveIDs adds an _id to documents that have none.
func (p *Protocol) giveIDs(q *request) {
	documents := q.documents("documents")
	given := false
	for i, doc := range documents {
		if has(doc, "_id") {
			continue
		}
		given = true
		fresh := bsoncore.AppendObjectIDElement([]byte{0, 0, 0, 0}, "_id", bson.NewObjectID())
		documents[i] = wire.FinishDocument(append(fresh, doc[4:len(doc)-1]...), 0)
	}
	if given {
		q.replace("documents", documents)
		p.catalog.differs(q.namespace(), "documents without _id: equal at both targets, different in production", false)
	}
}

// chooseUpserted has upserts use the _id that production's upsert created. If production found a document
// instead, which a target may lack, the _id is chosen here.
func (q *request) chooseUpserted(reply []byte) {
	given := map[int64]bsoncore.Value{}
	each(document(reply, "upserted"), func(_ string, v bsoncore.Value) {
		if one := wire.Document(v); one != nil {
			i, _ := number(one, "index")
			given[i] = value(one, "_id")
		}
	})
	updates := q.documents("updates")
	changed := false
	for i, u := range updates {
		if filter := document(u, "q"); truth(u, "upsert") && filter != nil && !namesID(filter) {
			updates[i] = upsertAs(u, "q", "u", given[int64(i)])
			changed = true
		}
	}
	if changed {
		q.replace("updates", updates)
	}
}

// upsertAs sets the _id of the document that an upsert may create. filter and change name the upsert's
// fields. given has type zero if production created none.
func upsertAs(u []byte, filter, change string, given bsoncore.Value) []byte {
	operators := value(u, change)
	doc, ok := operators.DocumentOK()
	if first, _ := wire.First(doc); ok && len(first.Key) > 0 && first.Key[0] == '$' {
		if given.Type == 0 {
			id := bson.NewObjectID()
			given = bsoncore.Value{Type: bsoncore.TypeObjectID, Data: id[:]}
		}
		return with(without(u, change), bsoncore.AppendDocumentElement(nil, change, onInsert(doc, given)))
	}
	if given.Type == 0 {
		return u
	}
	return with(without(u, filter), bsoncore.AppendDocumentElement(nil, filter, withID(document(u, filter), given)))
}

// onInsert returns operators that also set the _id of a document that they create.
func onInsert(operators []byte, id bsoncore.Value) []byte {
	set := document(operators, "$setOnInsert")
	if set == nil {
		set = []byte{5, 0, 0, 0, 0}
	}
	chosen := false // the client sets the _id
	each(operators, func(_ string, v bsoncore.Value) { chosen = chosen || has(wire.Document(v), "_id") })
	if chosen {
		return operators
	}
	set = with(set, bsoncore.AppendValueElement(nil, "_id", id))
	return with(without(operators, "$setOnInsert"), bsoncore.AppendDocumentElement(nil, "$setOnInsert", set))
}

// choose makes a findAndModify match only the document that production's found or created.
func (q *request) choose(reply []byte) {
	filter := document(q.body, "query")
	if filter == nil {
		filter = []byte{5, 0, 0, 0, 0}
	}
	if namesID(filter) {
		return
	}
	id := value(document(reply, "value"), "_id")
	if made := value(document(reply, "lastErrorObject"), "upserted"); made.Type != 0 {
		id = made
	}
	if id.Type != 0 {
		q.body = with(without(q.body, "query"), bsoncore.AppendDocumentElement(nil, "query", withID(filter, id)))
	} else if truth(q.body, "upsert") {
		q.body = upsertAs(q.body, "query", "update", id)
	}
}

// withID returns a filter that matches only the document with that _id.
func withID(filter []byte, id bsoncore.Value) []byte {
	return with(filter, bsoncore.AppendValueElement(nil, "_id", id))
}

// namesID reports whether a filter has an _id at any depth. A second one would make an upsert fail.
func namesID(filter []byte) bool { return namesIDWithin(filter, 0) }

func namesIDWithin(filter []byte, depth int) (named bool) {
	if depth > maxDepth {
		return true
	}
	each(filter, func(key string, v bsoncore.Value) {
		named = named || key == "_id" || namesIDWithin(wire.Document(v), depth+1)
	})
	return named
}
