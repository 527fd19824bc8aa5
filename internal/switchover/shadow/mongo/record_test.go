package mongo

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/mask"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/mongotest"
)

// tape records production's traffic in a file.
type tape struct {
	*shadowtest.Tape
	set        string
	production *mongotest.Server
}

func newTape(t *testing.T, set string, redact ...string) *tape {
	t.Helper()
	p := &tape{set: set, production: startServer(t, set, "production")}
	p.record(t, redact...)
	return p
}

func (p *tape) record(t *testing.T, redact ...string) {
	t.Helper()
	up := upstream(t, p.production.URI())
	filters, err := NewFilters(t.Context(), up, redact)
	if err != nil {
		t.Fatal(err)
	}
	p.Tape = shadowtest.Record(t, "mongo", shadow.RecorderConfig{Production: up, Filters: filters})
}

func (p *tape) client(t *testing.T, more ...*options.ClientOptions) *mongo.Client {
	t.Helper()
	return (&bench{addr: p.Addr}).client(t, more...)
}

// replay plays the tape to two empty servers.
func (p *tape) replay(t *testing.T, speed float64) (*bench, *shadow.Report) {
	t.Helper()
	b := &bench{control: startServer(t, p.set, "control"), test: startServer(t, p.set, "test")}
	dropShop(t, b.control.Client(t))
	dropShop(t, b.test.Client(t))
	c := shadow.Config{Control: upstream(t, b.control.URI()), Test: upstream(t, b.test.URI()), Batch: 200 * time.Millisecond, Patience: time.Minute, Batches: 1 << 20}
	var err error
	if c.Protocol, err = New(t.Context(), c.Control, c.Test); err != nil {
		t.Fatal(err)
	}
	return b, p.Replay(t, speed, c)
}

// A replay leaves production's data at both targets, at any speed, and their answers equal production's,
// including transactions, retried writes, cursors, compressed messages and sections.
func TestReplayHasProductionsData(t *testing.T) {
	p := newTape(t, "rs0")
	var clients sync.WaitGroup
	for i, compressor := range []string{"zlib", "snappy", "zstd", ""} {
		o := options.Client()
		if compressor != "" {
			o.SetCompressors([]string{compressor})
		}
		c := p.client(t, o)
		clients.Go(func() { sendCommands(t, c, fmt.Sprint("own", i), uint64(i)) })
	}
	clients.Wait()
	c := p.client(t)
	for i := range 2 {
		_, _ = c.Database("shop").Collection("accounts").InsertOne(t.Context(), m{"_id": i, "money": 100})
	}
	for i := range 10 {
		transfer(t.Context(), c, i%2, (i+1)%2, i%4 == 3)
	}
	// As fast as possible, and ten times production's pace.
	for _, speed := range codectest.Amount(nil, []float64{0}, []float64{0, 10}) {
		b, r := p.replay(t, speed)
		if r.Compared.Equal < 2*uint64(steps()) || r.Compared.Diverged > 0 || r.Ended != "the recording is over" {
			t.Errorf("speed %g: %+v, %s", speed, r.Compared, r.Ended)
		}
		same(t, p.production, b.control)
		same(t, p.production, b.test)
	}
}

// No value of a matching collection is recorded: in no command, reply or error, and not through a view. Equal
// values stay equal, and other collections are unchanged.
func TestRedaction(t *testing.T) {
	p := newTape(t, "rs0", "shop.users")
	direct := p.production.Client(t).Database("shop")
	if err := direct.CreateView(t.Context(), "old", "users", bson.A{}); err != nil {
		t.Fatal(err)
	}
	p.record(t, "shop.users") // again, now with the view
	ctx := t.Context()
	db := p.client(t, options.Client().SetMonitor(nil)).Database("shop")
	writeSecrets(t, db)
	readSecretsOtherwise(t, db)
	p.Finish(t)
	all := p.Bytes(t)
	for _, leak := range []string{secret, "s3cret", "\x67\x12\x00\x00", "\xae\x47\xe1\x7a\x14\x8e\x47\x40"} { // 4711, 47.11
		if i := bytes.Index(all, []byte(leak)); i >= 0 {
			t.Errorf("the file has %q: %q", leak, all[max(i-200, 0):min(i+50, len(all))])
		}
	}
	for _, want := range []string{"harmless", "users", "born"} {
		if !bytes.Contains(all, []byte(want)) {
			t.Errorf("%q is missing", want)
		}
	}
	b, r := p.replay(t, 0)
	if left := p.Recorder.State().Left; len(left) < 4 || r.Compared.Equal < 15 {
		t.Errorf("%+v; left out: %v", r.Compared, left)
	}
	same(t, b.control, b.test)
	var got struct {
		ID   string `bson:"_id"`
		Name string
		N    int32
	}
	have := b.test.Client(t).Database("shop")
	if err := have.Collection("users").FindOne(ctx, m{"more": m{"$exists": true}}).Decode(&got); err != nil || len(got.ID) != len(secret)+1 || len(got.Name) != len(secret) || strings.Contains(got.Name, "s3") || got.N == 4711 {
		t.Errorf("the test target has %+v, %v", got, err)
	}
	if n, _ := have.Collection("users").CountDocuments(ctx, m{"name": got.Name}); n < 3 {
		t.Errorf("%d documents have what was equal", n)
	}
	if n, _ := have.Collection("plain").CountDocuments(ctx, m{"name": "harmless"}); n != 1 {
		t.Error("what does not match has changed")
	}
}

const secret = "s3cret-of-somebody"

// writeSecrets fills a collection and another one, reads it, and changes it in all ways that contain values.
func writeSecrets(t *testing.T, db *mongo.Database) {
	t.Helper()
	ctx, users := t.Context(), db.Collection("users")
	docs := []any{}
	for i := range 5 {
		docs = append(docs, m{"_id": fmt.Sprint(secret, i), "name": secret, "n": 4711, "price": 47.11, "born": time.UnixMilli(471147114711), "raw": []byte(secret), "tags": bson.A{secret, m{"in": secret}}, "ok": true, "re": bson.Regex{Pattern: secret}})
	}
	if _, err := users.InsertMany(ctx, docs); err != nil {
		t.Fatal(err)
	}
	_, _ = db.Collection("plain").InsertOne(ctx, m{"_id": 1, "name": "harmless"})
	readSecrets(t, db)
	_, _ = users.InsertOne(ctx, docs[0]) // refused, with its key in the error
	_, _ = users.UpdateOne(ctx, m{"_id": secret + "0"}, m{"$set": m{"name": secret + secret}, "$push": m{"tags": m{"$each": bson.A{secret}}}, "$inc": m{"n": 4711}})
	_, _ = users.UpdateOne(ctx, m{"_id": secret + "1"}, bson.A{m{"$set": m{"name": secret}}})
	_, _ = users.UpdateOne(ctx, m{"_id": secret + "new"}, m{"$setOnInsert": m{"name": secret}}, options.UpdateOne().SetUpsert(true))
	_, _ = users.ReplaceOne(ctx, m{"_id": secret + "2"}, m{"name": secret})
	_ = users.FindOneAndUpdate(ctx, m{"_id": secret + "3"}, m{"$set": m{"more": secret}}, options.FindOneAndUpdate().SetReturnDocument(options.After))
	_, _ = users.DeleteOne(ctx, m{"_id": secret + "4", "name": m{"$ne": secret + "x"}})
	_, _ = users.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: m{"name": 1}, Options: options.Index().SetPartialFilterExpression(m{"name": secret})})
	_, _ = users.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: m{"n": 1}})
}

// readSecrets reads the collection's documents by their values.
func readSecrets(t *testing.T, db *mongo.Database) {
	t.Helper()
	ctx, users := t.Context(), db.Collection("users")
	reads := func(filter any) {
		drain(ctx, users.Find, filter, options.Find().SetBatchSize(2).SetSort(m{"_id": 1}))
		_, _ = users.CountDocuments(ctx, filter)
		_ = users.Distinct(ctx, "name", filter)
	}
	reads(m{"name": secret})
	reads(m{"$or": bson.A{m{"n": m{"$in": bson.A{4711, int64(4711), 4711.0}}}, m{"tags": m{"$elemMatch": m{"in": secret}}}}})
	reads(m{"name": m{"$regex": secret}})
	reads(m{"name": bson.Regex{Pattern: secret}})
	reads(m{"$expr": m{"$eq": bson.A{"$name", secret}}})
}

// readSecretsOtherwise reads through a view, by pipelines, and by commands that are refused.
func readSecretsOtherwise(t *testing.T, db *mongo.Database) {
	t.Helper()
	ctx, users := t.Context(), db.Collection("users")
	drain(ctx, db.Collection("old").Find, m{})
	for _, pipeline := range []bson.A{
		{m{"$match": m{"name": secret}}, m{"$group": m{"_id": "$name", "n": m{"$sum": 1}}}},
		{m{"$addFields": m{"x": m{"$concat": bson.A{"$name", secret}}}}},
	} {
		cur, err := users.Aggregate(ctx, pipeline, options.Aggregate().SetBatchSize(1))
		if err == nil {
			_ = cur.All(ctx, &[]bson.Raw{})
		}
	}
	cur, err := db.Collection("plain").Aggregate(ctx, bson.A{m{"$lookup": m{"from": "users", "pipeline": bson.A{}, "as": "all"}}, m{"$unwind": "$all"}}, options.Aggregate().SetBatchSize(1))
	if err == nil {
		_ = cur.All(ctx, &[]bson.Raw{})
	}
	_ = db.RunCommand(ctx, bson.D{{Key: "explain", Value: bson.D{{Key: "find", Value: "users"}, {Key: "filter", Value: m{"name": secret}}}}}).Err()
	_ = db.RunCommand(ctx, bson.D{{Key: "find", Value: "users"}, {Key: "filter", Value: m{}}, {Key: "comment", Value: secret}}).Err()
	_ = db.RunCommand(ctx, bson.D{{Key: "nosuchcommand", Value: "users"}, {Key: "x", Value: secret}}).Err()
	_ = db.Client().Database("admin").RunCommand(ctx, bson.D{{Key: "createUser", Value: "u"}, {Key: "pwd", Value: secret}, {Key: "roles", Value: bson.A{}}}).Err()
	_ = db.Collection("plain").FindOne(ctx, m{"_id": 1})
}

// Logins are never recorded, nor reads of the server's own collections, with their cursors.
func TestLoginsAreNotRecorded(t *testing.T) {
	p := &tape{production: locked(t)}
	addUser(t, administrator(t, p.production), "app", "s3cret", "SCRAM-SHA-256")
	up := upstream(t, p.production.URI())
	if _, err := NewFilters(t.Context(), up, []string{"shop.*"}); err == nil || !strings.Contains(err.Error(), "views") {
		t.Errorf("without a login: %v", err)
	}
	up.User, up.Password = "app", "s3cret"
	if _, err := NewFilters(t.Context(), up, []string{"shop.*"}); err != nil {
		t.Errorf("with a login: %v", err)
	}
	p.record(t)
	c := p.client(t, options.Client().SetAuth(options.Credential{Username: "app", Password: "s3cret"}))
	for i := range 5 {
		_, _ = c.Database("admin").Collection("things").InsertOne(t.Context(), m{"_id": i, "text": "kept by the server"})
		_, _ = c.Database("shop").Collection("things").InsertOne(t.Context(), m{"_id": i, "text": "recorded"})
	}
	drain(t.Context(), c.Database("admin").Collection("system.users").Find, m{})
	drain(t.Context(), c.Database("admin").Collection("things").Find, m{}, options.Find().SetBatchSize(1))
	p.Finish(t)
	all := p.Bytes(t)
	for _, no := range []string{"saslStart", "SCRAM", "payload", "s3cret", "StoredKey", "storedKey", "kept by the server"} {
		if bytes.Contains(all, []byte(no)) {
			t.Errorf("%q was recorded", no)
		}
	}
	if !bytes.Contains(all, []byte("recorded")) || p.Recorder.State().Requests == 0 {
		t.Error("nothing was recorded")
	}
}

// Documents nested deeper than any server accepts cost no more than their bytes.
func TestDeepDocuments(t *testing.T) {
	const depth = 1 << 20
	var deep []byte
	for range depth {
		deep = append(deep, 0, 0, 0, 0, 3, 'a', 0)
	}
	deep = append(deep, 5, 0, 0, 0, 0)
	for i := range depth {
		deep = append(deep, 0)
		at := 7 * (depth - 1 - i)
		binary.LittleEndian.PutUint32(deep[at:], uint32(len(deep)-at))
	}
	raw := func(filter string, name string) []byte {
		body := bsoncore.AppendStringElement([]byte{0, 0, 0, 0}, name, "users")
		body = bsoncore.AppendValueElement(body, filter, bsoncore.Value{Type: bsoncore.TypeEmbeddedDocument, Data: deep})
		body = bsoncore.AppendBooleanElement(body, "upsert", true)
		return appendMsg(nil, 1, wire.FinishDocument(bsoncore.AppendStringElement(body, "$db", "shop"), 0), nil, nil)
	}
	filters := &Filters{key: mask.New()}
	filters.hide("shop.*")
	reply := appendMsg(nil, 2, []byte(fine), nil, nil)
	binary.LittleEndian.PutUint32(reply[8:], 1)
	for _, message := range [][]byte{raw("query", "findAndModify"), raw("filter", "find"), raw("pipeline", "aggregate")} {
		if _, err := filters.Filter().Request(message); err != nil {
			t.Error(err)
		}
		r := (&Protocol{transactions: newTransactions(), cursors: cursors{}}).Reader()
		if err := r.Request(message, time.Now()); err != nil {
			t.Error(err)
		}
		if _, err := r.Reply(reply, time.Now()); err != nil {
			t.Error(err)
		}
	}
}

func FuzzFilter(f *testing.F) {
	command, _ := bson.Marshal(bson.D{{Key: "update", Value: "users"}, {Key: "updates", Value: bson.A{m{"q": m{"a": m{"$in": bson.A{1, 2.5, "x", []byte{1}}}}, "u": m{"$push": m{"b": m{"$each": bson.A{bson.D{}}}}}}}}, {Key: "$db", Value: "shop"}})
	f.Add(command)
	command, _ = bson.Marshal(bson.D{{Key: "find", Value: "users"}, {Key: "filter", Value: m{"$or": bson.A{m{"a": bson.NewDecimal128(1, 2)}}}}, {Key: "$db", Value: "shop"}})
	f.Add(command)
	f.Fuzz(func(_ *testing.T, body []byte) {
		if len(body) < 5 {
			return
		}
		filters := &Filters{key: mask.New()}
		filters.hide("shop.*")
		one := filters.Filter()
		_, _ = one.Request(appendMsg(nil, 1, body, nil, nil))
		_ = filters.reply(body)
	})
}

// While there are too many cursors of commands that are left out, any cursor may be one of them; afterwards
// it may not.
func TestLeftCursorsAreBounded(t *testing.T) {
	reply := func(id int64) []byte {
		b, _ := bson.Marshal(bson.D{{Key: "cursor", Value: bson.D{{Key: "id", Value: id}}}})
		return b
	}
	synctest.Test(t, func(t *testing.T) {
		var c leftCursors
		const other = maxCursors + 2
		for i := range int64(maxCursors) {
			c.leave(0, reply(i+1))
		}
		if c.has(other) || !c.has(1) || !c.has(maxCursors) {
			t.Fatal("with as many as fit")
		}
		c.leave(1, fine) // it failed, and may be open
		if !c.has(1) {
			t.Error("a cursor is dropped without its last batch")
		}
		c.leave(1, reply(0))
		if c.has(1) {
			t.Error("a cursor is held after its last batch")
		}
		c.leave(0, reply(1))
		c.leave(0, reply(maxCursors+1))
		if !c.has(maxCursors+1) || !c.has(other) || len(c.open) != maxCursors {
			t.Errorf("with one too many, %d are held", len(c.open))
		}
		time.Sleep(cursorTime)
		for i := range int64(maxCursors) {
			c.leave(i+1, reply(i+1)) // they are read
		}
		c.leave(maxCursors+1, reply(maxCursors+1)) // and so is this one
		time.Sleep(cursorTime)
		if !c.has(other) {
			t.Error("the one too many may be another")
		}
		time.Sleep(time.Nanosecond)
		if c.has(other) || !c.has(1) {
			t.Error("after the server has closed the one too many")
		}
		c.leave(0, reply(maxCursors+1))
		if len(c.open) != 1 || c.has(other) {
			t.Errorf("%d are held when the others are closed", len(c.open))
		}
	})
}
