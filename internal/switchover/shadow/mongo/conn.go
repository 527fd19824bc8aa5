package mongo

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// conn is a connection to a target, with its own session.
type conn struct {
	net.Conn
	t          *shadow.Target
	standalone bool
	in         *bufio.Reader
	out        []byte
	reply      []byte
	id         int32
	session    []byte // an lsid element
	number     int64  // of the last transaction or retryable write
}

// Dial connects to a target and logs in as its own user.
func (p *Protocol) Dial(ctx context.Context, t *shadow.Target) (shadow.Conn, error) {
	raw, err := t.Upstream.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	c := &conn{Conn: raw, t: t, standalone: p.standalone, in: bufio.NewReaderSize(raw, 16<<10), session: newSession()}
	if err := c.login(t.Upstream); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("login: %w", err)
	}
	return c, nil
}

// newSession returns a new lsid element.
func newSession() []byte {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	at, out := bsoncore.AppendDocumentElementStart(nil, "lsid")
	out = bsoncore.AppendBinaryElement(out, "id", uuidSubtype, id[:])
	out, _ = bsoncore.AppendDocumentEnd(out, at)
	return out
}

const uuidSubtype = 4

// Send sends operations one by one. A latency lasts from the first byte sent to the last byte of the last
// reply.
func (c *conn) Send(ops []*shadow.Operation, deadline time.Time, answered func(int, shadow.Answer)) error {
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	for i, op := range ops {
		a, err := c.carryOut(op.Private.(*work))
		if err != nil {
			return err
		}
		answered(i, a)
	}
	return nil
}

// maxTries limits the attempts of a transaction that conflicts with another one.
const maxTries = 100

func (c *conn) carryOut(w *work) (a shadow.Answer, err error) {
	for range maxTries {
		began := time.Now()
		var again bool
		if w.transaction {
			a, again, err = c.transact(w)
		} else {
			a, err = c.statements(w)
		}
		a.Took = time.Since(began)
		if !again || err != nil {
			return a, err
		}
		time.Sleep(time.Millisecond)
	}
	return a, nil
}

// statements executes statements outside a transaction.
func (c *conn) statements(w *work) (all shadow.Answer, err error) {
	for _, s := range w.statements {
		var elements []byte
		if s.retryable && !c.standalone {
			c.number++
			elements = bsoncore.AppendInt64Element(append(elements, c.session...), "txnNumber", c.number)
		}
		a, _, err := c.statement(s, elements)
		if err != nil {
			return all, err
		}
		if len(w.statements) == 1 {
			return a, nil
		}
		all = join(all, a, s.check)
	}
	return all, nil
}

// transact executes a transaction. again: it conflicted with another one, and must be repeated.
func (c *conn) transact(w *work) (all shadow.Answer, again bool, err error) {
	c.number++
	of := bsoncore.AppendInt64Element(append([]byte(nil), c.session...), "txnNumber", c.number)
	of = bsoncore.AppendBooleanElement(of, "autocommit", false)
	for i, s := range w.statements {
		elements := of
		if i == 0 {
			elements = bsoncore.AppendBooleanElement(append([]byte(nil), of...), "startTransaction", true)
		}
		a, reply, err := c.statement(s, elements)
		if err != nil {
			return all, false, err
		}
		all = join(all, a, s.check)
		if a.Error != "" {
			return all, labelled(reply, "TransientTransactionError"), nil
		}
	}
	end := "commitTransaction"
	if w.aborts {
		end = "abortTransaction"
	}
	reply, err := c.ask(adminCommand(end), of, nil)
	if err != nil {
		return all, false, err
	}
	return join(all, answerOf(reply, many), shadow.Success), labelled(reply, "TransientTransactionError"), nil
}

// adminCommand returns a command on the database admin.
func adminCommand(name string, elements ...[]byte) []byte {
	body := bsoncore.AppendInt32Element([]byte{0, 0, 0, 0}, name, 1)
	body = bsoncore.AppendStringElement(body, "$db", "admin")
	for _, e := range elements {
		body = append(body, e...)
	}
	return wire.FinishDocument(body, 0)
}

// statement executes one command. The reply is valid until the next call.
func (c *conn) statement(s *statement, elements []byte) (a shadow.Answer, reply []byte, err error) {
	body := s.body
	ended := false
	if s.moves != nil {
		id := s.moves.at(c.t)
		if ended = id == 0; ended {
			body = adminCommand("ping") // the cursor ended earlier here than in production
		} else {
			body = append([]byte(nil), body...)
			binary.LittleEndian.PutUint64(body[s.idAt:], uint64(id))
		}
	}
	if reply, err = c.ask(body, elements, s.rest); err != nil {
		return a, nil, err
	}
	if ended {
		return shadow.Answer{Missing: true}, reply, nil
	}
	if s.opens != nil {
		s.opens.set(c.t, cursorOf(reply))
	}
	if s.moves != nil {
		s.moves.set(c.t, cursorOf(reply))
	}
	return answerOf(reply, s.form), reply, nil
}

// ask sends a command with further elements, and returns the body of the reply.
func (c *conn) ask(body, elements, rest []byte) ([]byte, error) {
	c.id++
	c.out = appendMsg(c.out[:0], c.id, body, elements, rest)
	if _, err := c.Write(c.out); err != nil {
		return nil, err
	}
	if cap(c.out) > maxKept {
		c.out = nil
	}
	return c.next()
}

// maxKept limits the buffer that is kept for the next message.
const maxKept = 1 << 20

// next reads a reply.
func (c *conn) next() ([]byte, error) {
	head, err := c.in.Peek(wire.HeaderLen)
	if err != nil {
		return nil, err
	}
	h, err := wire.ParseHeader(head)
	if err != nil {
		return nil, err
	}
	if cap(c.reply) < h.Length || cap(c.reply) > maxKept {
		c.reply = make([]byte, h.Length)
	}
	c.reply = c.reply[:h.Length]
	if _, err := io.ReadFull(c.in, c.reply); err != nil {
		return nil, err
	}
	m, err := parse(h, c.reply)
	if err != nil {
		return nil, err
	}
	if m.ResponseTo != c.id || m.body == nil {
		return nil, fmt.Errorf("%w: an answer to another request", wire.ErrMalformed)
	}
	return m.body, nil
}
