package postgres

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// conn is a connection to a target.
type conn struct {
	target *shadow.Target
	probe  *progressProbe
	pid    atomic.Uint32
	start  *shadow.Operation // the connect operation; nil before it
	status byte              // of the transaction
	in     []byte

	mu     sync.Mutex
	net    net.Conn // nil before the first operation
	closed bool
}

// Close ends the connection. It may be called while it is being made.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pid := c.pid.Load(); pid != 0 && !c.closed {
		c.probe.processes.add(pid, -1)
	}
	c.closed = true
	if c.net == nil {
		return nil
	}
	return c.net.Close()
}

// Send sends operations, in one write where possible. A latency is measured from the first byte sent to the
// last byte of the answer.
func (c *conn) Send(ops []*shadow.Operation, deadline time.Time, answered func(int, shadow.Answer)) error {
	done := 0
	if ops[0].Form == formStart || c.net == nil {
		began := time.Now()
		if err := c.connect(ops[0], deadline); err != nil {
			return err
		}
		if ops[0].Form == formStart {
			answered(0, shadow.Answer{Took: time.Since(began)})
			done = 1
		}
	}
	if done == len(ops) {
		return nil
	}
	for from := done; from < len(ops); {
		n := batchSize(ops[from:])
		if err := c.sendWithExtras(ops[from:from+n], deadline, func(i int, a shadow.Answer) { answered(i+from, a) }); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// batchSize returns how many of the first operations can be sent together, at least one: those that need no
// further statements.
func batchSize(ops []*shadow.Operation) (n int) {
	for n < len(ops) && !opDataOf(ops[n]).hasExtraStatements() {
		n++
	}
	return max(n, 1)
}

// sendWithExtras sends operations with the further statements that one of them needs.
func (c *conn) sendWithExtras(ops []*shadow.Operation, deadline time.Time, answered func(int, shadow.Answer)) error {
	b := opDataOf(ops[0])
	if !b.hasExtraStatements() {
		return c.sendWithEffect(sequenceEffectOf(ops), ops, deadline, answered)
	}
	got, err := c.sendNumbered(ops[0], b, deadline)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	answered(0, got)
	return nil
}

// sendWithEffect sends operations that may take numbers from sequences and don't return them. It marks the
// positions of sequences as uncertain before they run, since they may wait for a lock, and before each
// answer, since operations that wait for it then continue.
func (c *conn) sendWithEffect(how sequenceEffect, ops []*shadow.Operation, deadline time.Time, answered func(int, shadow.Answer)) error {
	c.probe.sequences.markEffect(how)
	defer c.probe.sequences.markEffect(how)
	return c.send(ops, deadline, func(i int, a shadow.Answer) {
		c.probe.sequences.markEffect(how)
		answered(i, a)
	})
}

// sendNumbered carries out an operation. Before it, sequences are set to the numbers that production took.
// After it, sequences that had given higher numbers before are set forward again.
func (c *conn) sendNumbered(op *shadow.Operation, b *opData, deadline time.Time) (got shadow.Answer, err error) {
	if err := c.net.SetDeadline(deadline); err != nil {
		return got, err
	}
	c.probe.sequences.markEffect(b.effect)
	defer func() { _ = c.forEachSequence(b.numbers, (*sequences).release) }()
	if err := c.adjustSequences(b.numbers, (*sequences).prepare); err != nil {
		return got, err
	}
	if b.guide != nil {
		got, err = c.sendGuided(op, b.guide, deadline)
	} else {
		err = c.send([]*shadow.Operation{op}, deadline, func(_ int, a shadow.Answer) { got = a })
	}
	if err != nil {
		return got, err
	}
	c.probe.sequences.markEffect(b.effect)
	return got, c.adjustSequences(b.numbers, (*sequences).restore)
}

// adjustSequences calls do for each sequence that numbers were taken from. In a failed transaction nothing
// can be done.
func (c *conn) adjustSequences(numbers []sequenceNumbers, do func(*sequences, string, sequenceNumbers, session) error) error {
	if len(numbers) == 0 || c.status == inFailed {
		return nil
	}
	return c.forEachSequence(numbers, do)
}

func (c *conn) forEachSequence(numbers []sequenceNumbers, do func(*sequences, string, sequenceNumbers, session) error) error {
	parameters, _ := pg.StartupParameters(c.start.Request)
	for _, d := range numbers {
		if err := do(&c.probe.sequences, parameters["database"]+"\x00"+parameters["user"]+"\x00"+d.sequence, d, c); err != nil {
			return err
		}
	}
	return nil
}

// exchange sends one operation and adds its answer to d.
func (c *conn) exchange(op *shadow.Operation, d *digest, deadline time.Time, answered func(shadow.Answer)) error {
	if err := c.net.SetDeadline(deadline); err != nil {
		return err
	}
	began := time.Now()
	if _, err := c.net.Write(op.Request); err != nil {
		return err
	}
	a, err := c.read(op, d, began)
	answered(a)
	return err
}

func (c *conn) send(ops []*shadow.Operation, deadline time.Time, answered func(int, shadow.Answer)) error {
	return shadow.Pipeline(c.net, c.Close, ops, deadline, c.answer, answered)
}

// answer reads a target's answer to an operation.
func (c *conn) answer(op *shadow.Operation, began time.Time) (shadow.Answer, error) {
	if op.Form == formEnd {
		_, err := io.Copy(io.Discard, c.net) // the server closes after it has released all locks
		return shadow.Answer{Took: time.Since(began)}, err
	}
	d := &digest{form: op.Form}
	if b, ok := op.Private.(*opData); ok {
		d.excluded = b.excluded
	}
	return c.read(op, d, began)
}

func (c *conn) read(op *shadow.Operation, d *digest, began time.Time) (shadow.Answer, error) {
	for left := max(op.Replies, 1); left > 0; {
		m, err := c.message()
		if err != nil {
			if d.code != "" {
				err = errors.Join(errors.New("error "+d.code), err)
			}
			return shadow.Answer{}, err
		}
		d.add(m)
		if m.Type == pg.ReadyForQuery {
			c.status = m.Body[0]
			left--
		}
	}
	return d.answer(time.Since(began)), nil
}

// message returns the next message, which is valid until the next call.
func (c *conn) message() (pg.Message, error) {
	for {
		m, ok, err := pg.Cut(c.in)
		if err != nil {
			return m, err
		}
		if ok {
			if c.in = c.in[len(m.Raw):]; len(c.in) == 0 && cap(c.in) < shadow.ReadBytes/2 {
				c.in = nil
			}
			return m, nil
		}
		if c.in, err = shadow.ReadMore(c.net, c.in); err != nil {
			return m, err
		}
	}
}

// exec runs a statement of the tool itself.
func (c *conn) exec(text string) error {
	_, err := c.value(text)
	return err
}

// value runs a statement of the tool itself and returns the first value of its result. It uses a named
// prepared statement, because a simple query would drop the client's unnamed statement.
func (c *conn) value(text string) (string, error) {
	const name = "cinch_own\x00"
	// An error may have left the statement and the portal.
	request := pg.Append(pg.Append(nil, pg.Close, []byte("S"+name)), pg.Close, []byte("P"+name))
	request = pg.Append(request, pg.Parse, []byte(name+text+"\x00\x00\x00"))
	request = pg.Append(request, pg.Bind, []byte(name+name+"\x00\x00\x00\x00\x00\x00"))
	request = pg.Append(request, pg.Execute, []byte(name+"\x00\x00\x00\x00"))
	request = pg.Append(pg.Append(request, pg.Close, []byte("S"+name)), pg.Close, []byte("P"+name))
	request = pg.Append(request, pg.Sync)
	if _, err := c.net.Write(request); err != nil {
		return "", err
	}
	return c.readFirst(text)
}

// readFirst reads the response and returns its first value.
func (c *conn) readFirst(text string) (value string, err error) {
	failed := ""
	for {
		m, err := c.message()
		if err != nil {
			return "", err
		}
		switch m.Type {
		case pg.DataRow:
			err = pg.Fields(m.Body, func(i int, v []byte) {
				if i == 0 {
					value = string(v)
				}
			})
		case pg.ErrorResponse:
			failed = pg.Code(m.Body)
		case pg.ReadyForQuery:
			c.status = m.Body[0]
			if failed != "" {
				err = toolError{text, failed}
			}
			return value, err
		}
		if err != nil {
			return "", err
		}
	}
}

// toolError is the error of a statement of the tool itself.
type toolError struct{ text, code string }

func (e toolError) Error() string { return "error " + e.code + " to " + e.text }
