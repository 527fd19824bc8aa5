package mongo

import (
	"encoding/binary"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// say has a client send a command, and production answer it. It returns the operations that this completes.
func say(t *testing.T, r shadow.Reader, at time.Time, command bson.D) []*shadow.Operation {
	t.Helper()
	body, err := bson.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Request(appendMsg(nil, 1, body, nil, nil), at); err != nil {
		t.Fatal(err)
	}
	reply := appendMsg(nil, 2, fine, nil, nil)
	binary.LittleEndian.PutUint32(reply[8:], 1)
	done, err := r.Reply(reply, at)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// inSession returns a command of a session's transaction.
func inSession(session string, starts bool, command ...bson.E) bson.D {
	command = append(command, bson.E{Key: "$db", Value: "shop"}, bson.E{Key: "lsid", Value: bson.D{{Key: "id", Value: session}}},
		bson.E{Key: "txnNumber", Value: int64(1)}, bson.E{Key: "autocommit", Value: false})
	if starts {
		command = append(command, bson.E{Key: "startTransaction", Value: true})
	}
	return command
}

func insertOf(session string) bson.D {
	return inSession(session, true, bson.E{Key: "insert", Value: "things"}, bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "_id", Value: session}}}})
}

// Open transactions are bounded in number. Those that clients have left open make room after a time.
func TestOpenTransactionsAreBounded(t *testing.T) {
	p := &Protocol{transactions: newTransactions(), cursors: cursors{}}
	r, began := p.Reader(), time.Now()
	for i := range maxTransactions {
		if done := say(t, r, began, insertOf(fmt.Sprint(i))); len(done) > 0 {
			t.Fatalf("transaction %d: %+v", i, done[0])
		}
	}
	later := began.Add(transactionTime)
	if done := say(t, r, later, insertOf("one more")); len(done) != 1 || done[0].SkipReason == "" || len(p.transactions.open) != maxTransactions {
		t.Errorf("%d are open, after %v", len(p.transactions.open), done)
	}
	commit := func(session string) bson.D {
		return inSession(session, false, bson.E{Key: "commitTransaction", Value: 1})
	}
	if done := say(t, r, later, commit("0")); len(done) != 1 || done[0].SkipReason != "" {
		t.Errorf("the first one: %v", done)
	}
	later = later.Add(1)
	if done := say(t, r, later, insertOf("after the first one")); len(done) > 0 {
		t.Errorf("in its place: %+v", done[0])
	}
	if done := say(t, r, later, insertOf("after a time")); len(done) > 0 || len(p.transactions.open) != 2 {
		t.Errorf("after a time: %v, %d are open", done, len(p.transactions.open))
	}
	if done := say(t, r, later, commit("after a time")); len(done) != 1 || done[0].SkipReason != "" || p.transactions.bytes >= maxTransactionBytes {
		t.Errorf("its end: %v", done)
	}
}

// The bytes of transactions that clients have left open do not keep out all later ones.
func TestBytesOfOpenTransactions(t *testing.T) {
	p := &Protocol{transactions: newTransactions(), cursors: cursors{}}
	r, began := p.Reader(), time.Now()
	say(t, r, began, insertOf("left open"))
	for _, tx := range p.transactions.open {
		p.add(tx, nil, maxTransactionBytes)
	}
	if done := say(t, r, began.Add(transactionTime), insertOf("soon")); len(done) != 1 || done[0].SkipReason == "" {
		t.Errorf("beside it: %v", done)
	}
	if done := say(t, r, began.Add(transactionTime+1), insertOf("after a time")); len(done) > 0 || len(p.transactions.open) != 1 {
		t.Errorf("after a time: %v, %d are open", done, len(p.transactions.open))
	}
}

// A retried write is recognized, however many other sessions write meanwhile, up to half of the bound.
func TestRetriedAmongManySessions(t *testing.T) {
	all := newTransactions()
	write := func(session int) bool { return all.retried(&request{session: fmt.Sprint(session), transaction: 1}) }
	const before = maxSessions/2 - 1
	for i := range 2 * maxSessions {
		if write(i) {
			t.Fatalf("the write of session %d counts as retried", i)
		}
		if i >= before && !write(i-before) {
			t.Fatalf("the write of session %d does not count as retried after session %d", i-before, i)
		}
	}
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
