package mongo

import (
	"bytes"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// request is one request of the client. Its bytes live until it has been handled.
type request struct {
	wire    []byte            // as it came
	message []byte            // the same without compression; wire itself if it came plain
	header  wire.Header       // of message
	came    wire.CompressorID // how it came

	msg      wire.Msg  // of an OP_MSG
	document wire.Span // of the command
	outer    wire.Span // of what is around it in old queries; empty: nothing
	name     []byte    // of the command; nil for legacy operations
	traits   traits
	space    []byte // "database.collection"; its memory is kept for the next request
	shape    uint64 // requests of the same shape have similar replies
	answered bool   // a reply will come
	reads    bool   // and shows, if it says ok, that the client may read the collection
	writes   bool   // its pipeline does
	awaits   bool   // it says how long the server may wait for a cursor's next documents
	topic    *topic // for a command that may be compressed; nil for others
}

var (
	errReplyFromClient = fmt.Errorf("%w: a reply from the client", wire.ErrMalformed)
	errNoCommand       = fmt.Errorf("%w: no command in it", wire.ErrMalformed)
)

// parse looks at r.message, whose header is r.header.
func (r *request) parse() error {
	r.name, r.traits, r.shape, r.answered, r.topic, r.reads, r.writes, r.awaits = nil, 0, 0, true, nil, false, false, false
	r.space, r.document, r.outer = r.space[:0], wire.Span{}, wire.Span{}
	switch r.header.OpCode {
	case wire.OpMsg:
		if err := r.msg.Parse(r.message); err != nil {
			return err
		}
		r.document = r.msg.Body
		r.answered = r.msg.Flags&wire.MoreToCome == 0
		return r.command(r.document.Of(r.message))
	case wire.OpQuery:
		return r.query()
	case wire.OpGetMore:
		return nil
	case wire.OpReply:
		return errReplyFromClient
	}
	r.answered = false
	return nil
}

func (r *request) query() error {
	q, err := wire.ParseQuery(r.message)
	if err != nil || !q.IsCommand(r.message) {
		return err
	}
	r.document = q.Document
	doc := r.document.Of(r.message)
	if first, ok := wire.First(doc); ok && (string(first.Key) == "$query" || string(first.Key) == "query") {
		if inner := wire.Document(first.Value); inner != nil { // read preferences are around it
			doc, r.outer = inner, r.document
			r.document = wire.Span{Off: r.outer.Off + first.End() - len(inner), Len: len(inner)}
		}
	}
	if err := r.command(doc); err != nil {
		return err
	}
	database, _, _ := bytes.Cut(q.Collection.Of(r.message), []byte(".$cmd"))
	r.space, r.reads = append(append(r.space[:0], database...), ".$cmd"...), false
	return nil
}

// command reads the document of a command: its name is the first key.
func (r *request) command(doc []byte) error {
	first, ok := wire.First(doc)
	if !ok {
		return errNoCommand
	}
	r.name, r.traits = first.Key, traitsOf(first.Key)
	var database, collection []byte
	fromDocuments, twice := false, false
	h := newHash(r.name)
	err := wire.Elements(doc, func(e wire.Element) bool {
		switch string(e.Key) {
		case "$db":
			twice = database != nil // servers may take either
			database = wire.Text(e.Value)
		case "collection":
			if r.traits&continues != 0 {
				collection = wire.Text(e.Value)
			}
		case "maxTimeMS":
			r.awaits = r.traits&continues != 0
		case "pipeline":
			fromDocuments = beginsWithDocuments(e.Value)
			r.writes = endsInWrite(e.Value)
		}
		h.element(e)
		return true
	})
	if err != nil {
		return err
	}
	if r.traits&namesCollection != 0 {
		collection = wire.Text(first.Value)
	}
	if collection == nil {
		collection = []byte(noCollection)
	} else if !twice {
		r.reads = r.traits&readsDocuments != 0 || r.traits&pipelineReads != 0 && fromDocuments
	}
	r.space = append(append(append(r.space[:0], database...), '.'), collection...)
	h.bytes(r.space)
	r.shape = uint64(h)
	return nil
}

// replaced returns the request with another document, in a buffer of the pool's.
func (r *request) replaced(doc []byte) []byte {
	hasChecksum := r.header.OpCode == wire.OpMsg && r.msg.Flags&wire.ChecksumPresent != 0
	out := wire.Replace(gateway.GetBuffer(len(r.message)-r.document.Len+len(doc)), r.message, r.document, doc, hasChecksum)
	if r.outer.Len != 0 {
		wire.PutLength(out[r.outer.Off : r.outer.End()+len(doc)-r.document.Len])
	}
	return out
}

// hash makes a number of a request's shape: which fields it has, how many documents it asks
// for, but no values.
type hash uint64

func newHash(name []byte) hash {
	h := hash(14695981039346656037) // FNV-1a
	h.bytes(name)
	return h
}

func (h *hash) bytes(b []byte) {
	for _, c := range b {
		*h = (*h ^ hash(c)) * 1099511628211
	}
	*h = (*h ^ 0xff) * 1099511628211
}

// maxShapeElements bounds how much of a filter or pipeline counts.
const maxShapeElements = 32

func (h *hash) element(e wire.Element) {
	switch string(e.Key) {
	case "lsid", "txnNumber", "autocommit", "startTransaction", "comment", "readConcern", "writeConcern":
		return
	case "limit", "batchSize", "singleBatch", "maxTimeMS":
		h.bytes(e.Value.Data)
	case "filter", "query", "projection", "pipeline":
		h.keys(wire.Document(e.Value), e.Value.Type == bsoncore.TypeArray)
	}
	if e.Key != nil && (len(e.Key) == 0 || e.Key[0] != '$') {
		h.bytes(e.Key)
	}
}

// keys adds the keys of a document, or of the documents in an array.
func (h *hash) keys(doc []byte, array bool) {
	n := 0
	_ = wire.Elements(doc, func(e wire.Element) bool {
		if n++; n > maxShapeElements {
			return false
		}
		if stage := wire.Document(e.Value); array && stage != nil {
			h.keys(stage, false)
			return true
		}
		h.bytes(e.Key)
		if string(e.Key) == "$limit" {
			h.bytes(e.Value.Data)
		}
		return true
	})
}
