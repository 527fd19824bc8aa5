package mongo

import (
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// Dictionaries of replies hold pieces of documents. So another gateway gets the dictionary of
// a namespace over a connection on which the server has let somebody read that namespace: it
// knows about privileges, and we don't. A connection has one user, and another gateway opens one
// for each of its clients'.

// noCollection stands for the collection where a command names none.
const noCollection = "$cmd"

// readingStages may begin a pipeline that only who may read the collection's documents may
// run. For $collStats, $indexStats and the like servers ask for other privileges.
var readingStages = map[string]bool{
	"$addFields": true, "$changeStream": true, "$count": true, "$geoNear": true, "$group": true, "$limit": true,
	"$lookup": true, "$match": true, "$project": true, "$sample": true, "$set": true, "$skip": true,
	"$sort": true, "$unset": true, "$unwind": true,
}

// beginsWithDocuments reports whether the first stage of a pipeline sees documents.
func beginsWithDocuments(pipeline bsoncore.Value) bool {
	list := wire.Document(pipeline)
	if list == nil {
		return false
	}
	stage, ok := wire.First(list)
	if !ok { // an empty one passes them all
		return len(list) == emptyDocument
	}
	doc := wire.Document(stage.Value)
	if doc == nil {
		return false
	}
	first, ok := wire.First(doc)
	return ok && readingStages[string(first.Key)]
}

// endsInWrite reports whether a pipeline writes what it finds.
func endsInWrite(pipeline bsoncore.Value) bool {
	var last wire.Element
	_ = wire.Elements(wire.Document(pipeline), func(e wire.Element) bool {
		last = e
		return true
	})
	doc := wire.Document(last.Value)
	first, ok := wire.First(doc)
	return ok && (string(first.Key) == "$out" || string(first.Key) == "$merge")
}

// emptyDocument is the length of a document without elements.
const emptyDocument = 5

// saysOK reports whether the document of a reply says that the command succeeded.
func saysOK(doc []byte) bool {
	e, ok, err := wire.Find(doc, "ok")
	if !ok || err != nil {
		return false
	}
	n, isNumber := e.Value.AsFloat64OK()
	return isNumber && n == 1
}

// loggedIn reports whether the document of a reply says that a login has succeeded.
func loggedIn(doc []byte) bool {
	done := true // authenticate has one step
	_ = wire.Elements(doc, func(e wire.Element) bool {
		if string(e.Key) == "done" {
			done, _ = e.Value.BooleanOK()
		}
		return true
	})
	return done && saysOK(doc)
}
