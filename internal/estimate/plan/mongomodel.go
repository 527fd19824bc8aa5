package plan

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/store/mongo"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// modeller makes exchanges of one collection.
type modeller struct {
	w         *mongoWalk
	c         mongo.Collection
	documents []bson.Raw
	total     int64 // number in the collection
	counts    mongo.Counts

	side side            // of the exchange being made
	next [toTest + 1]int // next document, by side
}

// sided is an exchange made of documents of one side.
type sided struct {
	exchange []byte
	of       side
}

// begin selects the documents for the next exchange: alternately those for training and those for measuring.
// An exchange of documents that a link has carried before would take almost no bytes. A single document is measured.
func (m *modeller) begin() {
	if m.side = toTest; len(m.documents) > 1 && m.next[toLearn] <= m.next[toTest] {
		m.side = toLearn
	}
}

// half returns the documents of the side.
func (m *modeller) half() []bson.Raw {
	switch middle := len(m.documents) / 2; {
	case middle == 0:
		return m.documents
	case m.side == toLearn:
		return m.documents[:middle]
	default:
		return m.documents[middle:]
	}
}

// inserted returns n documents as new ones: none twice.
func (m *modeller) inserted(n int) (all []bson.Raw) {
	for range min(n, len(m.half())) {
		all = append(all, m.document())
	}
	return all
}

// returned returns n documents, or all: a query returns none twice, but the next one may return the same. An exchange
// with documents of both halves is measured.
func (m *modeller) returned(n int) []bson.Raw {
	if n > len(m.half()) {
		m.side = toTest
		return m.documents[:min(n, len(m.documents))]
	}
	return m.inserted(n)
}

func (m *modeller) model() {
	if ops := m.w.profile[m.c.Namespace()]; len(ops) > 0 {
		m.fromProfile(ops)
		return
	}
	n := m.counts
	if n.Reads+n.Writes > 0 { // only the kind is known
		n.Queries, n.Inserts = n.Reads, n.Writes
		m.w.note("%s: only the numbers of reads and writes are known: writes count as inserts and reads as finds, including about three reads by each earlier plan", m.c.Namespace())
	}
	if !m.w.counted {
		n.Queries, n.Inserts = int64(len(m.documents)), int64(len(m.documents))
	}
	a := m.w.activity
	if m.knowsReplies(n) {
		batch := m.perReply()
		m.repeat("find", n.Queries, func() (request, reply []byte) { return m.find(batch) })
		m.repeat("getMore", n.GetMores, func() (request, reply []byte) { return m.getMore(batch) })
	} else {
		most := a.Returned * a.Replies // in all replies; 0: unknown
		m.between("find", perReply, n.Queries, 0, m.mostDocuments(most, n.Queries, mostReplyBytes), m.find)
		m.between("getMore", perReply, n.GetMores, 0, m.mostDocuments(most, n.GetMores, mostReplyBytes), m.getMore)
	}
	insert := func(per int) (request, reply []byte) { return m.insert(m.baseInsert(), per) }
	switch {
	case a.Inserts > 0 && (a.Inserted < 1.01 || float64(n.Inserts) >= nearlyAll*a.Inserts):
		m.repeat("insert", n.Inserts, func() (request, reply []byte) { return insert(max(int(a.Inserted+0.5), 1)) })
	case a.Inserts > 0:
		m.between("insert", perInsert, n.Inserts, 1, m.mostDocuments(a.Inserted*a.Inserts-a.Inserts+float64(n.Inserts), n.Inserts, mostInsertBytes), insert)
	default: // they inserted all that the collection has now, if nothing was deleted
		m.between("insert", perInsert, n.Inserts, 1, m.mostDocuments(float64(m.total), n.Inserts, mostInsertBytes), insert)
	}
	m.left("updates", n.Updates)
	m.left("deletes", n.Deletes)
	m.left("other commands", n.Commands)
}

// nearlyAll is the share of a server's replies that a collection must have for the server's average to be used for
// this collection.
const nearlyAll = 0.99

// The server's limits on a message.
const (
	mostReplyBytes  = 16 << 20
	mostInsertBytes = 48_000_000
)

// knowsReplies reports whether the number of documents per reply is known: it was given, or the server's
// average is of one command on this collection. An average over other collections says nothing about this
// one, and it includes documents that aggregations return, such as plans.
func (m *modeller) knowsReplies(n mongo.Counts) bool {
	a := m.w.activity
	if m.w.o.Batch > 0 {
		return true
	}
	return a.Replies > 0 && a.Aggregations == 0 && float64(max(n.Queries, n.GetMores)) >= nearlyAll*a.Replies
}

// mostDocuments returns an upper limit of the documents in one of n messages. It depends on all, the number of
// documents in these messages together (0: unknown), on the collection, and on the server's limits on a message.
func (m *modeller) mostDocuments(all float64, n int64, bytes float64) float64 {
	size := 0
	for _, d := range m.documents {
		size += len(d)
	}
	most := min(bytes/max(float64(size)/float64(len(m.documents)), 1), mostDocumentsReply)
	if all > 0 && n > 0 {
		most = min(most, all/float64(n))
	}
	if m.total > 0 {
		most = min(most, float64(m.total))
	}
	return most
}

// Limits of the messages modelled for each end of a range.
const (
	rangeMessages = 60
	rangeBytes    = 1 << 20
)

// between adds commands whose number of documents is unknown, as messages with the fewest and with the most.
func (m *modeller) between(command, what string, n int64, fewest, most float64, exchange func(documents int) (request, reply []byte)) {
	if n <= 0 {
		return
	}
	m.w.exchanges += float64(n)
	most = max(most, fewest)
	numbers := []float64{fewest}
	for _, x := range []float64{1, math.Round(math.Sqrt(most))} { // the saving may be lower or higher in between
		if x > numbers[len(numbers)-1] && x < most {
			numbers = append(numbers, x)
		}
	}
	if most > fewest {
		numbers = append(numbers, most)
	}
	b := &between{what: what, n: float64(n), halves: len(m.documents) > 1}
	sampled := max(len(m.documents)/2, 1)
	for _, documents := range numbers {
		x := variant{documents: documents, scale: max(documents/float64(sampled), 1)}
		for size := 0; len(x.messages) < rangeMessages && (len(x.messages) < 4 || size < rangeBytes); {
			m.side = b.side(len(x.messages))
			request, reply := exchange(min(int(math.Ceil(documents)), sampled))
			size += len(request) + len(reply)
			x.messages = append(x.messages, append(request, reply...))
		}
		b.all = append(b.all, x)
	}
	m.w.c.between(escapeGlob(m.c.Namespace()), command, b)
}

func (m *modeller) left(what string, n int64) {
	if n > 0 {
		m.w.c.SkipInSpace("", m.c.Namespace(), what, what+", whose contents are unknown", float64(n))
	}
}

// perReply returns the number of documents per reply if the profiler does not tell.
func (m *modeller) perReply() int {
	switch {
	case m.w.o.Batch > 0:
		return min(m.w.o.Batch, mostDocumentsReply)
	case m.w.activity.Returned >= 1:
		return min(int(m.w.activity.Returned+0.5), mostDocumentsReply)
	}
	return 1
}

// repeat adds as many exchanges as there is room for, which together stand for n.
func (m *modeller) repeat(command string, n int64, exchange func() (request, reply []byte)) {
	if n <= 0 {
		return
	}
	var all []sided
	size := 0
	for len(all) < modelledExchanges && (int64(len(all)) < n || len(all) < 2) && size < modelledBytes {
		m.begin()
		request, reply := exchange()
		all = append(all, sided{append(request, reply...), m.side})
		size += len(all[len(all)-1].exchange)
	}
	m.add(command, all, float64(n))
}

func (m *modeller) add(command string, all []sided, n float64) {
	m.w.exchanges += n
	for _, x := range all {
		if len(all) < 2*trainAtLeast { // too few to train on
			x.of = toTest
		}
		m.w.c.AddTo(x.of, escapeGlob(m.c.Namespace()), command, x.exchange, n/float64(len(all)))
	}
}

// fromProfile models each operation in the profile, and lets those of a command stand for all that were
// counted.
func (m *modeller) fromProfile(ops []mongo.Operation) {
	seen := map[string][]sided{}
	size := map[string]int{}
	unknown := map[string]int{}
	times := map[string]int{}
	for _, op := range ops {
		m.begin()
		command, request, reply := m.operation(op)
		if request == nil {
			unknown[command]++
			continue
		}
		if times[command]++; size[command] < modelledBytes {
			seen[command] = append(seen[command], sided{append(request, reply...), m.side})
			size[command] += len(request) + len(reply)
		}
	}
	counted := map[string]int64{"find": m.counts.Queries, "getMore": m.counts.GetMores, "insert": m.counts.Inserts, "update": m.counts.Updates, "delete": m.counts.Deletes}
	for command, all := range seen {
		m.add(command, all, float64(max(counted[command], int64(times[command]))))
	}
	for command, n := range unknown {
		m.left(command, int64(n))
	}
}

// operation returns an entry of the profile as messages; no request if it has too little information.
func (m *modeller) operation(op mongo.Operation) (command string, request, reply []byte) {
	first, ok := wire.First(op.Command)
	if !ok {
		return op.Op, nil, nil
	}
	withSession(op.Command)
	switch command = string(first.Key); command {
	case "find", "aggregate":
		return command, m.message(modelledRequest, op.Command), m.reply("firstBatch", min(op.Returned, mostDocumentsReply))
	case "getMore":
		return command, m.message(modelledRequest, op.Command), m.reply("nextBatch", min(op.Returned, mostDocumentsReply))
	case "insert":
		request, reply = m.insert(op.Command, max(op.Inserted, 1))
		return command, request, reply
	case "q", "update", "delete":
		return map[string]string{"update": "update", "remove": "delete"}[op.Op], nil, nil
	}
	return command, nil, nil
}

// withSession replaces the session by the one of all modelled requests.
func withSession(command bson.Raw) {
	if id, err := command.LookupErr("lsid", "id"); err == nil {
		if _, b, ok := id.BinaryOK(); ok && len(b) == len(sessionID) {
			copy(b, sessionID[:])
		}
	}
}

// upcoming returns the next document without advancing.
func (m *modeller) upcoming() bson.Raw {
	half := m.half()
	return half[m.next[m.side]%len(half)]
}

// document returns the next document of the sample, cyclically.
func (m *modeller) document() bson.Raw {
	d := m.upcoming()
	m.next[m.side]++
	return d
}

// tail appends the elements that drivers add to every command.
func (m *modeller) tail(doc []byte) []byte {
	at, doc := bsoncore.AppendDocumentElementStart(doc, "lsid")
	doc = bsoncore.AppendBinaryElement(doc, "id", bson.TypeBinaryUUID, sessionID[:])
	doc, _ = bsoncore.AppendDocumentEnd(doc, at)
	doc = m.clusterTime(doc)
	return bsoncore.AppendStringElement(doc, "$db", m.c.Database)
}

// clusterTime appends the element that replica sets add to every message.
func (m *modeller) clusterTime(doc []byte) []byte {
	if !m.w.o.Server.Clustered() {
		return doc
	}
	at, doc := bsoncore.AppendDocumentElementStart(doc, "$clusterTime")
	doc = bsoncore.AppendTimestampElement(doc, "clusterTime", 1763800000, 1)
	inner, doc := bsoncore.AppendDocumentElementStart(doc, "signature")
	doc = bsoncore.AppendBinaryElement(doc, "hash", 0, append(slices.Clone(sessionID[:]), 1, 2, 3, 4))
	doc = bsoncore.AppendInt64Element(doc, "keyId", 0)
	doc, _ = bsoncore.AppendDocumentEnd(doc, inner)
	doc, _ = bsoncore.AppendDocumentEnd(doc, at)
	return doc
}

func (m *modeller) find(batch int) (request, reply []byte) {
	at, doc := bsoncore.AppendDocumentStart(nil)
	doc = bsoncore.AppendStringElement(doc, "find", m.c.Name)
	filter, doc := bsoncore.AppendDocumentElementStart(doc, "filter")
	if id, err := m.upcoming().LookupErr("_id"); err == nil && batch == 1 {
		doc = bsoncore.AppendValueElement(doc, "_id", bsoncore.Value{Type: bsoncore.Type(id.Type), Data: id.Value})
	}
	doc, _ = bsoncore.AppendDocumentEnd(doc, filter)
	if batch > 0 {
		doc = bsoncore.AppendInt64Element(doc, "limit", int64(batch))
		doc = bsoncore.AppendBooleanElement(doc, "singleBatch", true)
	}
	doc, _ = bsoncore.AppendDocumentEnd(m.tail(doc), at)
	return m.message(modelledRequest, doc), m.reply("firstBatch", batch)
}

func (m *modeller) getMore(batch int) (request, reply []byte) {
	at, doc := bsoncore.AppendDocumentStart(nil)
	doc = bsoncore.AppendInt64Element(doc, "getMore", 0x5b2f80c41e6a97d3)
	doc = bsoncore.AppendStringElement(doc, "collection", m.c.Name)
	doc, _ = bsoncore.AppendDocumentEnd(m.tail(doc), at)
	return m.message(modelledRequest, doc), m.reply("nextBatch", batch)
}

func (m *modeller) baseInsert() []byte {
	at, doc := bsoncore.AppendDocumentStart(nil)
	doc = bsoncore.AppendStringElement(doc, "insert", m.c.Name)
	doc = bsoncore.AppendBooleanElement(doc, "ordered", true)
	doc, _ = bsoncore.AppendDocumentEnd(m.tail(doc), at)
	return doc
}

// insert returns an insert with the documents in a section of their own, as drivers send them.
func (m *modeller) insert(command []byte, n int) (request, reply []byte) {
	request = m.message(modelledRequest, command)
	start := len(request) + 1
	request = append(request, 1, 0, 0, 0, 0)
	request = append(request, "documents\x00"...)
	for _, d := range m.inserted(n) {
		request = append(request, d...)
		if len(request) > modelledBytes {
			break
		}
	}
	binary.LittleEndian.PutUint32(request[start:], uint32(len(request)-start))
	wire.PutLength(request)
	at, doc := bsoncore.AppendDocumentStart(nil)
	doc = bsoncore.AppendInt32Element(doc, "n", int32(n))
	return request, m.message(modelledReply, m.finish(doc, at, true))
}

func (m *modeller) reply(batch string, n int) []byte {
	at, doc := bsoncore.AppendDocumentStart(nil)
	cursor, doc := bsoncore.AppendDocumentElementStart(doc, "cursor")
	list, doc := bsoncore.AppendArrayElementStart(doc, batch)
	for i, d := range m.returned(n) {
		doc = bsoncore.AppendDocumentElement(doc, fmt.Sprint(i), bsoncore.Document(d))
		if len(doc) > modelledBytes {
			break
		}
	}
	doc, _ = bsoncore.AppendArrayEnd(doc, list)
	doc = bsoncore.AppendInt64Element(doc, "id", 0)
	doc = bsoncore.AppendStringElement(doc, "ns", m.c.Namespace())
	doc, _ = bsoncore.AppendDocumentEnd(doc, cursor)
	return m.message(modelledReply, m.finish(doc, at, false))
}

// finish ends the document of a reply as servers do.
func (m *modeller) finish(doc []byte, at int32, write bool) []byte {
	if write && m.w.o.Server.Clustered() {
		doc = bsoncore.AppendObjectIDElement(doc, "electionId", bson.ObjectID{7: 1})
		opTime, d := bsoncore.AppendDocumentElementStart(doc, "opTime")
		d = bsoncore.AppendTimestampElement(d, "ts", 1763800000, 1)
		d = bsoncore.AppendInt64Element(d, "t", 1)
		doc, _ = bsoncore.AppendDocumentEnd(d, opTime)
	}
	doc = bsoncore.AppendDoubleElement(doc, "ok", 1)
	if m.w.o.Server.Clustered() {
		doc = m.clusterTime(doc)
		doc = bsoncore.AppendTimestampElement(doc, "operationTime", 1763800000, 1)
	}
	doc, _ = bsoncore.AppendDocumentEnd(doc, at)
	return doc
}

// message returns an OP_MSG of a document.
func (m *modeller) message(number int32, doc []byte) []byte {
	h := wire.Header{RequestID: number, OpCode: wire.OpMsg}
	if number == modelledReply {
		h.ResponseTo = modelledRequest
	}
	b := wire.AppendHeader(make([]byte, 0, wire.HeaderLen+5+len(doc)), h)
	b = append(append(b, 0, 0, 0, 0, 0), doc...)
	wire.PutLength(b)
	return b
}
