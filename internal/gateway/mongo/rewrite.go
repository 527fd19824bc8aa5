package mongo

import (
	"bytes"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// request is one request of the client. Its bytes are valid until it has been handled.
type request struct {
	received   []byte            // as the client sent it
	plain      []byte            // the same decompressed; received itself if it was not compressed
	header     wire.Header       // of plain
	compressor wire.CompressorID // its compressor as received; plain: none

	msg               wire.Msg  // of an OP_MSG
	document          wire.Span // of the command
	outer             wire.Span // of the document around it in old queries; empty: none
	name              []byte    // of the command; nil for legacy operations
	traits            traits
	namespace         []byte   // "database.collection"; its memory is kept for the next request
	others            [][]byte // further namespaces whose documents it, or its reply, may have
	unknownNamespaces bool     // it may have documents of namespaces that are not in others
	cursor            int64    // the cursor that it continues; 0: none
	shape             uint64   // requests of the same shape have similar replies
	hasReply          bool     // a reply will come
	writes            bool     // its pipeline ends in a write
	awaitsData        bool     // it lets the server wait for a cursor's next documents
}

var (
	errReplyFromClient = fmt.Errorf("%w: the client sent a reply", wire.ErrMalformed)
	errNoCommand       = fmt.Errorf("%w: the message contains no command", wire.ErrMalformed)
)

// release drops the request's bytes, whose memory goes back to the budget before the next request is read.
func (r *request) release() { r.received, r.plain, r.name, r.others = nil, nil, nil, nil }

// parse reads r.plain, whose header is r.header.
func (r *request) parse() error {
	r.name, r.traits, r.shape, r.hasReply, r.writes, r.awaitsData = nil, 0, 0, true, false, false
	r.namespace, r.document, r.outer = r.namespace[:0], wire.Span{}, wire.Span{}
	r.others, r.unknownNamespaces, r.cursor = nil, false, 0
	switch r.header.OpCode {
	case wire.OpMsg:
		if err := r.msg.Parse(r.plain); err != nil {
			return err
		}
		r.document = r.msg.Body
		r.hasReply = r.msg.Flags&wire.MoreToCome == 0
		return r.parseCommand(r.document.Of(r.plain), nil)
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
	database, _, _ := bytes.Cut(q.Collection.Of(r.plain), []byte(".$cmd"))
	return r.parseCommand(doc, database)
}

// parseCommand parses the document of a command, whose name is its first key. Requests of one shape have the same name,
// fields and namespace and ask for the same number of documents; other values do not matter. An OP_MSG names its
// database in the document.
func (r *request) parseCommand(doc, database []byte) error {
	var first wire.Element
	var collection []byte
	var pipeline bsoncore.Value
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
			pipeline = e.Value
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
	command, traits := doc, r.traits
	if r.traits&wrapsCommand != 0 {
		command = wire.Document(first.Value)
		first, _ = wire.First(command)
		traits = traitsOf(first.Key)
		stages, _, _ := wire.Find(command, "pipeline")
		pipeline = stages.Value
	}
	switch {
	case traits&namesCollection != 0:
		collection = wire.Text(first.Value)
		r.unknownNamespaces = first.Value.Type == bsoncore.TypeBinary || first.Value.Type == bsoncore.TypeSymbol // a UUID or a symbol names it in another way
	case traits&continuesCursor != 0:
		r.cursor, _ = first.Value.AsInt64OK()
	case traits&listsNamespaces != 0:
		r.addListed(command)
	case traits&anyNamespace != 0:
		r.unknownNamespaces = true
	}
	if pipeline.Type == bsoncore.TypeArray {
		r.addStages(database, pipeline, 0)
	}
	if collection == nil {
		collection = []byte(noCollection)
	}
	if len(database)+1+len(collection) > maxNamespaceBytes {
		r.unknownNamespaces = true
		database, collection = nil, []byte(noCollection)
	}
	r.namespace = append(append(append(r.namespace[:0], database...), '.'), collection...)
	if traits&listsNamespaces != 0 && len(r.others) > 0 {
		r.namespace, r.others = append(r.namespace[:0], r.others[0]...), r.others[1:]
	}
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

// requestSnappy is the level of snappy for requests, the one that Go drivers use. With level 1 inserts of
// many documents are a tenth larger.
const requestSnappy = 2

// rewrite returns the request as it goes to the server, and records in x the decisions about the reply. The request is
// compressed if that saves enough on it and its reply, but not over a link, which compresses what it carries. covered
// means that the request may enter a link's history. The caller gives pooled back to the pool when out has been sent.
func (s *session) rewrite(r *request, x *exchange) (out, pooled []byte, covered bool) {
	if r.name == nil || r.traits&neverCompressed != 0 {
		return r.plain, nil, false
	}
	p, fromGateway, linked := s.policy.Load(), s.nearClient.Load(), s.toServer.stream != nil
	if s.nsCommands.sample || s.toClient.stream != nil {
		x.nsCommand = s.nsCommands.get(r.namespace, r.name)
	}
	x.others, x.uncovered = r.others, r.unknownNamespaces
	if r.cursor != 0 {
		x.others, x.uncovered = s.cursors.find(r.cursor)
	}
	if linked {
		covered := x.lookup(p, r.namespace, r.name, policy.Request, len(r.plain)) != nil
		return r.plain, nil, covered && !s.effort.IsSteppedDown()
	}
	if fromGateway { // the gateway runs beside the server
		return r.plain, nil, false
	}
	est := estimate{requestBytes: len(r.plain), hasReply: r.hasReply}
	est.requestRule = x.lookup(p, r.namespace, r.name, policy.Request, len(r.plain))
	if r.hasReply {
		est.expected = s.forecasts.predict(r.shape, r.traits)
		est.replyRule = x.lookup(p, r.namespace, r.name, policy.Reply, int(est.expected.bytes))
		x.rule = est.replyRule
	}
	lead := est.mainRule()
	if lead == nil {
		return r.plain, nil, false
	}
	out, pooled, x.reason = s.compressRequest(r, &est, p.Force)
	if x.reason != "" && est.requestRule != nil {
		s.stats.Left(est.requestRule.Name, x.reason, len(r.plain))
	}
	return out, pooled, true
}

// lookup returns the rule that covers a message of n bytes. It returns nil if no rule does, or if no rule would cover
// it in one of its other namespaces.
func (x *exchange) lookup(p *policy.Messages, namespace, command []byte, d policy.Direction, n int) *policy.MessageRule {
	if x.uncovered {
		return nil
	}
	for _, other := range x.others {
		if p.Lookup(policy.MessageAddress{Space: other, Command: command, Direction: d, Size: n}) == nil {
			return nil
		}
	}
	return p.Lookup(policy.MessageAddress{Space: namespace, Command: command, Direction: d, Size: n})
}

// compressRequest returns a request compressed if that saves enough; otherwise plain, and reason says why.
func (s *session) compressRequest(r *request, est *estimate, forced bool) (out, pooled []byte, reason string) {
	accepted := compressorSet(s.accepted.Load())
	id, level, reason := s.chooseCompressor(est, accepted)
	if reason == "" && id != r.compressor && !forced {
		if id, level = s.limitEffort(id, level, len(r.plain), accepted); id == plain {
			reason = gateway.SteppedDown
		}
	}
	if reason != "" {
		return r.plain, nil, reason
	}
	saving := est.replySaving(id)
	if saving <= 0 && !forced {
		switch {
		case est.requestRule == nil || len(r.plain) < minCompressed:
			return r.plain, nil, "small"
		case codec.Incompressible(r.plain[wire.HeaderLen:]):
			return r.plain, nil, "incompressible"
		}
	}
	began := time.Now()
	compressed := r.received
	if r.compressor != id {
		if id == wire.Snappy && level == 0 {
			level = requestSnappy
		}
		if compressed = s.compress(r.plain, r.header, id, level); compressed == nil {
			return r.plain, nil, "error"
		}
		pooled = compressed
		s.forecasts.observeRequest(r.shape, len(r.plain), len(compressed), id)
	}
	spent := time.Since(began)
	a, _ := algorithmOf(id)
	rule := est.mainRule().Name
	if est.requestRule != nil { // the request gets smaller here, whichever rule chose the compressor
		rule = est.requestRule.Name
	}
	if gain := float64(len(r.plain)-len(compressed)) + saving; (gain <= 0 || gain < est.minSaving()) && !forced {
		s.stats.SealTime(rule, a.codec, spent)
		return r.plain, pooled, "no_gain"
	}
	if pooled != nil {
		s.link.measure(&s.link.compressSpeed, id, len(r.plain), spent)
	}
	s.stats.Sealed(rule, a.codec, len(r.plain), len(compressed), spent)
	return compressed, pooled, ""
}
