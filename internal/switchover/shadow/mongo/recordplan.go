package mongo

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// plan decides how a request is recorded, and redacts it.
func (f *Filters) plan(m message, name string) (plan, recordedRequest) {
	var none recordedRequest
	c := classOf(name)
	switch c {
	case nothing:
		return f.leave("about the server, the login or the session"), none
	case left, unknown:
		return f.leave("commands that targets do not get"), none
	}
	q := newRequest(m, name, c, time.Time{})
	if why := f.cannot(q); why != "" {
		p := f.leave(why)
		p.data = !q.writes()
		if c == getMore {
			p.cursor, _ = number(q.body, "getMore")
		}
		return p, none
	}
	if len(f.redact) == 0 || c == commit || c == abort || !f.hides(q.namespace()) {
		return plan{}, none
	}
	r := redaction{key: f.key}
	out := r.request(q, m)
	if r.failed {
		p := f.leave("other commands on redacted collections")
		p.data = !q.writes()
		return p, none
	}
	return plan{hide: true}, out
}

// cannot returns why a request is left out whatever its content; "": it is not.
func (f *Filters) cannot(q *request) string {
	switch q.class {
	case getMore:
		if id, _ := number(q.body, "getMore"); f.cursors.has(id) {
			return "cursors of commands that are left out"
		}
		fallthrough
	case killCursors:
		if q.ofServer() {
			return "of the server's own collections"
		}
	case commit, abort:
		return ""
	default:
		if why := q.excluded(); why != "" {
			return why
		}
	}
	if len(f.redact) == 0 {
		return ""
	}
	return f.cannotRedact(q)
}

// cannotRedact returns why a request may show redacted values in places that can't be found; "": it does not.
func (f *Filters) cannotRedact(q *request) string {
	own := f.hides(q.namespace())
	switch q.class {
	case bulkWrite, mapReduce:
		return "bulkWrite and mapReduce, with --redact"
	case look:
		if own || q.collection == "" {
			return "commands that describe collections, with --redact"
		}
	case define:
		if f.views.follow(q, f.hides) {
			return "views of redacted collections"
		}
		if own || f.hides(q.collection) || f.hides(text(q.body, "to")) { // renameCollection has full names
			return cannotDefine(q)
		}
	}
	if f.views.has(q.namespace()) || slices.ContainsFunc(q.others(), func(n string) bool { return f.hides(n) || f.views.has(n) }) {
		return "commands that read redacted collections under other names"
	}
	return ""
}

// defines holds the definitions that may be recorded. The redaction fails if they have elements without a
// treatment.
var defines = []string{"drop", "dropindexes", "deleteindexes", "createindexes", "create", "reindex", "dropdatabase"}

func cannotDefine(q *request) string {
	if slices.Contains(defines, strings.ToLower(q.name)) &&
		!slices.ContainsFunc(q.documents("indexes"), func(index []byte) bool { return has(index, "partialFilterExpression") }) {
		return ""
	}
	return "definitions of redacted collections that contain values or other names"
}

// hides reports whether the values of a collection are redacted.
func (f *Filters) hides(namespace string) bool {
	for i := range f.redact {
		if f.redact[i].Match([]byte(namespace)) {
			return true
		}
	}
	return false
}

// learnViews asks a server for its views.
func (f *Filters) learnViews(ctx context.Context, client *mongo.Client) error {
	databases, err := client.ListDatabaseNames(ctx, bson.D{})
	if err != nil {
		return err
	}
	known := map[string][]string{} // the collections that views read
	for _, name := range databases {
		list, err := client.Database(name).ListCollectionSpecifications(ctx, bson.D{{Key: "type", Value: "view"}})
		if err != nil {
			return err
		}
		for _, spec := range list {
			known[name+"."+spec.Name] = viewReads(spec.Options, name)
		}
	}
	for range known { // a view may read another one
		for view, reads := range known {
			f.views.note(view, reads, f.hides)
		}
	}
	return nil
}

// viewReads returns the collections that a view reads, given its options.
func viewReads(options []byte, db string) []string {
	return append(namespacesIn(document(options, "pipeline"), db), db+"."+text(options, "viewOn"))
}

// views holds the views that read redacted collections. It is used by the recorder's goroutine only.
type views map[string]bool

func (v views) has(namespace string) bool { return v[namespace] }

// note records what a view reads, and reports whether that is redacted.
func (v *views) note(view string, reads []string, hides func(string) bool) bool {
	hidden := slices.ContainsFunc(reads, func(n string) bool { return hides(n) || (*v)[n] })
	if hidden {
		if *v == nil {
			*v = views{}
		}
		(*v)[view] = true
	}
	return hidden
}

// follow processes a command of class define, and reports whether it creates a view of redacted collections.
func (v *views) follow(q *request, hides func(string) bool) bool {
	if !has(q.body, "viewOn") {
		return false
	}
	return v.note(q.namespace(), viewReads(q.body, q.db), hides)
}

// reply returns a reply with its values redacted.
func (f *Filters) reply(body []byte) []byte {
	r := redaction{key: f.key}
	made := rebuild(body, func(key string, v bsoncore.Value) (bsoncore.Value, bool) {
		switch key {
		case "cursor", "lastErrorObject":
			return r.some(v, r.ofReply), true
		case "value", "values":
			return r.value(v), true
		case "upserted", "writeErrors":
			return r.within(v, func(_ string, v bsoncore.Value) bsoncore.Value { return r.some(v, r.ofReply) }), true
		}
		return v, slices.Contains(ofReplies, key) // an error's text and details may contain values
	})
	if r.failed {
		return fine
	}
	return made
}

// ofReplies lists the elements of replies that contain no values.
var ofReplies = []string{
	"ok", "n", "nModified", "code", "codeName", "errorLabels", "operationTime", "$clusterTime", "electionId", "opTime", "writeConcernError", "retriedStmtIds",
	"id", "ns", "partialResultsReturned", "updatedExisting", "index", "numIndexesBefore", "numIndexesAfter", "note", "nIndexesWas", "createdCollectionAutomatically",
}

// ofReply redacts an element of a document within a reply.
func (r *redaction) ofReply(key string, v bsoncore.Value) (bsoncore.Value, bool) {
	switch key {
	case "firstBatch", "nextBatch", "_id", "upserted":
		return r.value(v), true
	}
	return v, slices.Contains(ofReplies, key)
}
