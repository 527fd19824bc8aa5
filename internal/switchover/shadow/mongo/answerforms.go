package mongo

import (
	"bytes"
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// Forms in which answers are compared.
const (
	counters uint8 = iota // all elements but those that differ by nature
	sequence              // the documents in their order
	set                   // the documents in any order
	many                  // only the number of documents
)

// setComparison determines how the answers to a request are compared. complete: production's answer contains all
// results.
func (q *request) setComparison(op *shadow.Operation, complete bool) {
	op.Form = counters
	switch q.class {
	case find:
		op.Form = q.formOfFind(complete)
		if truth(q.body, "showRecordId") {
			op.Check = shadow.Success
		}
	case aggregate:
		op.Form, op.Check = q.formOfAggregate(complete)
	case distinct:
		op.Form = set
	case look, killCursors, bulkWrite, mapReduce:
		op.Check = shadow.Success
	}
	if q.class != insert && q.volatile() && (q.class == findAndModify || !q.class.writes()) {
		op.Check = shadow.Success
	}
}

// formOfFind returns the form for a find: two targets find the same documents, but only a sort that includes
// _id determines which come first.
func (q *request) formOfFind(complete bool) uint8 {
	limit, _ := number(q.body, "limit")
	skip, _ := number(q.body, "skip")
	switch {
	case has(document(q.body, "sort"), "_id"):
		return sequence
	case complete && limit == 0 && skip == 0 && !truth(q.body, "singleBatch"), has(document(q.body, "filter"), "_id") && complete:
		return set
	}
	return many
}

// Stages and accumulators that result in the same documents whatever the order of their input, and stages
// that show statistics.
var (
	plainStages       = []string{"$match", "$project", "$addFields", "$set", "$unset", "$unwind", "$replaceRoot", "$replaceWith", "$sort", "$count", "$redact", "$group", "$sortByCount", "$bucket"}
	plainAccumulators = []string{"$sum", "$avg", "$min", "$max", "$count"}
	statistics        = []string{"$collStats", "$indexStats", "$planCacheStats", "$currentOp", "$listSessions", "$listLocalSessions", "$searchMeta", "$sample"}
)

func (q *request) formOfAggregate(complete bool) (uint8, shadow.Check) {
	plain, ordered := complete, false
	for _, s := range q.pipeline() {
		name := stage(s)
		switch {
		case slices.Contains(statistics, name):
			return many, shadow.Success
		case name == "$sort":
			ordered = has(document(s, "$sort"), "_id")
		case (name == "$limit" || name == "$skip") && ordered:
		case name == "$group" && !plainGroup(document(s, "$group")), !slices.Contains(plainStages, name):
			plain = false
		case name == "$group" || name == "$unwind" || name == "$sortByCount" || name == "$bucket":
			ordered = false
		}
	}
	if plain {
		return set, shadow.Exact
	}
	return many, shadow.Exact
}

// plainGroup reports whether the groups don't depend on the order of the documents.
func plainGroup(doc []byte) bool {
	plain := true
	each(doc, func(key string, v bsoncore.Value) {
		if key == "_id" {
			return
		}
		inner, ok := v.DocumentOK()
		plain = plain && ok && slices.ContainsFunc(plainAccumulators, func(a string) bool { return has(inner, a) })
	})
	return plain
}

// volatiles lists the operators whose result depends on time or chance.
var volatiles = [][]byte{
	[]byte("$currentDate"), []byte("$$NOW"), []byte("$$CLUSTER_TIME"), []byte("$rand"), []byte("$sampleRate"), []byte("$function"), []byte("$accumulator"), []byte("$where"),
}

// volatile reports whether a request contains one of volatiles, or a text that looks like one.
func (q *request) volatile() bool {
	for _, op := range volatiles {
		if bytes.Contains(q.body, op) || slices.ContainsFunc(q.sections, func(s section) bool { return bytes.Contains(s.documents, op) }) {
			return true
		}
	}
	return false
}
