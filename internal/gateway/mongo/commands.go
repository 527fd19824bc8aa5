package mongo

import (
	"bytes"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// traits are the properties of a command that matter to the gateway.
type traits uint16

const (
	// neverCompressed: the protocol forbids compressing it because it contains secrets, or it may contain
	// some (setParameter).
	neverCompressed traits = 1 << iota
	// isHello: the handshake, whose reply contains the addresses of the servers.
	isHello
	// largeReply: its replies count as worth compressing until some have been measured.
	largeReply
	// namesCollection: the value of the first element names the collection.
	namesCollection
	// startsLogin: it begins a login with the mechanism that it names.
	startsLogin
	// retriedRead: drivers send it again if the connection is lost.
	retriedRead
	// endsLogin: its reply may complete a login.
	endsLogin
	// continuesCursor: it asks for a cursor's next documents; a separate element names the collection.
	continuesCursor
	// isGatewayQuery: Cinch's commands ask whether this is a gateway.
	isGatewayQuery
)

// commands maps names in lower case to traits. For other commands, compression depends on their size and on
// their measured replies.
var commands = map[string]traits{
	"hello":            isHello | neverCompressed,
	"ismaster":         isHello | neverCompressed,
	"saslstart":        neverCompressed | startsLogin | endsLogin,
	"saslcontinue":     neverCompressed | endsLogin,
	"getnonce":         neverCompressed,
	"authenticate":     neverCompressed | startsLogin | endsLogin,
	"createuser":       neverCompressed,
	"updateuser":       neverCompressed,
	"usersinfo":        neverCompressed, // its reply has credentials with showCredentials
	"copydbsaslstart":  neverCompressed,
	"copydbgetnonce":   neverCompressed,
	"copydb":           neverCompressed,
	"setparameter":     neverCompressed,
	"find":             largeReply | namesCollection | retriedRead,
	"aggregate":        largeReply | namesCollection | retriedRead,
	"getmore":          largeReply | continuesCursor,
	"distinct":         largeReply | namesCollection | retriedRead,
	"mapreduce":        largeReply | namesCollection,
	"listcollections":  largeReply | retriedRead,
	"listindexes":      largeReply | namesCollection | retriedRead,
	"listdatabases":    largeReply | retriedRead,
	"serverstatus":     largeReply,
	"explain":          largeReply,
	"currentop":        largeReply,
	"getlog":           largeReply,
	"top":              largeReply,
	"insert":           namesCollection,
	"update":           namesCollection,
	"delete":           namesCollection,
	"findandmodify":    namesCollection,
	"count":            namesCollection | retriedRead,
	"killcursors":      namesCollection,
	"create":           namesCollection,
	"createindexes":    namesCollection,
	"drop":             namesCollection,
	"dropindexes":      namesCollection,
	"collstats":        largeReply | namesCollection,
	"validate":         largeReply | namesCollection,
	"collmod":          namesCollection,
	"replsetgetstatus": largeReply,

	strings.ToLower(wire.GatewayCommand): isGatewayQuery,
}

// maxCommandName is the length in bytes of the longest name that the table can hold.
const maxCommandName = 24

// traitsOf returns the traits of a command. It ignores case and does not allocate.
func traitsOf(name []byte) traits {
	if len(name) > maxCommandName {
		return 0
	}
	var lower [maxCommandName]byte
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	return commands[string(lower[:len(name)])]
}

// request is one request of the client. Its bytes are valid until it has been handled.
type request struct {
	received   []byte            // as the client sent it
	plain      []byte            // the same decompressed; received itself if it was not compressed
	header     wire.Header       // of plain
	compressor wire.CompressorID // its compressor as received; plain: none

	msg        wire.Msg  // of an OP_MSG
	document   wire.Span // of the command
	outer      wire.Span // of the document around it in old queries; empty: none
	name       []byte    // of the command; nil for legacy operations
	traits     traits
	namespace  []byte // "database.collection"; its memory is kept for the next request
	shape      uint64 // requests of the same shape have similar replies
	hasReply   bool   // a reply will come
	writes     bool   // its pipeline ends in a write
	awaitsData bool   // it lets the server wait for a cursor's next documents
}

var (
	errReplyFromClient = fmt.Errorf("%w: the client sent a reply", wire.ErrMalformed)
	errNoCommand       = fmt.Errorf("%w: the message contains no command", wire.ErrMalformed)
)

// release drops the request's bytes, whose memory goes back to the budget before the next request is read.
func (r *request) release() { r.received, r.plain, r.name = nil, nil, nil }

// parse reads r.plain, whose header is r.header.
func (r *request) parse() error {
	r.name, r.traits, r.shape, r.hasReply, r.writes, r.awaitsData = nil, 0, 0, true, false, false
	r.namespace, r.document, r.outer = r.namespace[:0], wire.Span{}, wire.Span{}
	switch r.header.OpCode {
	case wire.OpMsg:
		if err := r.msg.Parse(r.plain); err != nil {
			return err
		}
		r.document = r.msg.Body
		r.hasReply = r.msg.Flags&wire.MoreToCome == 0
		return r.parseCommand(r.document.Of(r.plain))
	case wire.OpQuery:
		return r.parseQuery()
	case wire.OpGetMore:
		return nil
	case wire.OpReply:
		return errReplyFromClient
	}
	r.hasReply = false
	return nil
}

func (r *request) parseQuery() error {
	q, err := wire.ParseQuery(r.plain)
	if err != nil || !q.IsCommand(r.plain) {
		return err
	}
	r.document = q.Document
	doc := r.document.Of(r.plain)
	if first, ok := wire.First(doc); ok && (string(first.Key) == "$query" || string(first.Key) == "query") {
		if inner := wire.Document(first.Value); inner != nil { // the outer document has the read preference
			doc, r.outer = inner, r.document
			r.document = wire.Span{Off: r.outer.Off + first.End() - len(inner), Len: len(inner)}
		}
	}
	if err := r.parseCommand(doc); err != nil {
		return err
	}
	database, _, _ := bytes.Cut(q.Collection.Of(r.plain), []byte(".$cmd"))
	r.namespace = append(append(r.namespace[:0], database...), ".$cmd"...)
	return nil
}

// parseCommand parses the document of a command, whose name is its first key. Requests of one shape have the same
// name, fields and namespace and ask for the same number of documents; other values do not matter.
func (r *request) parseCommand(doc []byte) error {
	var first wire.Element
	var database, collection []byte
	shape := emptyHash
	err := wire.Elements(doc, func(e wire.Element) bool {
		if r.name == nil {
			first, r.name, r.traits = e, e.Key, traitsOf(e.Key)
			shape.addBytes(e.Key)
		}
		switch string(e.Key) {
		case "lsid", "txnNumber", "autocommit", "startTransaction", "comment", "readConcern", "writeConcern":
			return true
		case "$db":
			database = wire.Text(e.Value)
		case "collection":
			if r.traits&continuesCursor != 0 {
				collection = wire.Text(e.Value)
			}
		case "maxTimeMS":
			r.awaitsData = r.traits&continuesCursor != 0
			shape.addBytes(e.Value.Data)
		case "limit", "batchSize", "singleBatch":
			shape.addBytes(e.Value.Data)
		case "pipeline":
			r.writes = endsInWrite(e.Value)
			shape.addKeys(wire.Document(e.Value), e.Value.Type == bsoncore.TypeArray)
		case "filter", "query", "projection":
			shape.addKeys(wire.Document(e.Value), e.Value.Type == bsoncore.TypeArray)
		}
		if len(e.Key) == 0 || e.Key[0] != '$' {
			shape.addBytes(e.Key)
		}
		return true
	})
	if err != nil {
		return err
	}
	if r.name == nil {
		return errNoCommand
	}
	if r.traits&namesCollection != 0 {
		collection = wire.Text(first.Value)
	}
	if collection == nil {
		collection = []byte(noCollection)
	}
	r.namespace = append(append(append(r.namespace[:0], database...), '.'), collection...)
	shape.addBytes(r.namespace)
	r.shape = uint64(shape)
	return nil
}

// withDocument returns the request with another document, in a buffer of the pool.
func (r *request) withDocument(doc []byte) []byte {
	hasChecksum := r.header.OpCode == wire.OpMsg && r.msg.Flags&wire.ChecksumPresent != 0
	out := wire.Replace(memory.GetBuffer(len(r.plain)-r.document.Len+len(doc)), r.plain, r.document, doc, hasChecksum)
	if r.outer.Len != 0 {
		wire.PutLength(out[r.outer.Off : r.outer.End()+len(doc)-r.document.Len])
	}
	return out
}

// hash is the FNV-1a hash of a request's shape.
type hash uint64

const emptyHash hash = 14695981039346656037

func (h *hash) addBytes(b []byte) {
	for _, c := range b {
		*h = (*h ^ hash(c)) * 1099511628211
	}
	*h = (*h ^ 0xff) * 1099511628211
}

// maxShapeElements limits the elements of a filter or pipeline that are hashed.
const maxShapeElements = 32

// addKeys adds the keys of a document, or of the documents in an array.
func (h *hash) addKeys(doc []byte, array bool) {
	n := 0
	_ = wire.Elements(doc, func(e wire.Element) bool {
		if n++; n > maxShapeElements {
			return false
		}
		if stage := wire.Document(e.Value); array && stage != nil {
			h.addKeys(stage, false)
			return true
		}
		h.addBytes(e.Key)
		if string(e.Key) == "$limit" {
			h.addBytes(e.Value.Data)
		}
		return true
	})
}

// noCollection replaces the collection for commands without one.
const noCollection = "$cmd"

// endsInWrite reports whether a pipeline writes its results.
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
