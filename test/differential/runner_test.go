package differential

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// side is one of the two stacks that a stream runs against. addrs holds one address for each connection,
// since connections may use different gateways.
type side struct {
	addrs   [connections]string
	clients [connections]*client
	names   *strings.Replacer // replaces addresses of a cluster's nodes by names; nil: no cluster
}

// pipeline sends requests on a connection. In MOVED errors, addresses of cluster nodes are replaced by
// names that are the same on both sides.
func (s *side) pipeline(conn int, requests []byte, n int) ([][]byte, error) {
	frames, err := s.clients[conn].pipeline(requests, n)
	for i, f := range frames {
		if s.names != nil && bytes.HasPrefix(f, []byte("-MOVED ")) {
			frames[i] = []byte(s.names.Replace(string(f)))
		}
	}
	return frames, err
}

func (s *side) reconnect() error {
	for i := range s.clients {
		if err := s.reconnectOne(i); err != nil {
			return err
		}
	}
	return nil
}

func (s *side) reconnectOne(i int) (err error) {
	s.clients[i].close()
	s.clients[i], err = dial(s.addrs[i])
	return err
}

func (s *side) close() {
	for _, c := range s.clients {
		c.close()
	}
}

// difference is a step whose results differ between the two sides.
type difference struct {
	at             int // the step's index
	plain, gateway []byte
	what           string
	sort           string // equal for differences that may have the same cause
}

func (d *difference) Error() string {
	return fmt.Sprintf("step %d: %s\n  plain:   %s\n  gateway: %s", d.at, d.what, clip(d.plain, d.gateway), clip(d.gateway, d.plain))
}

// clip shows a around the first byte that differs from b.
func clip(a, b []byte) string {
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	from := max(0, at-60)
	return fmt.Sprintf("%.240q (of %d bytes, from %d)", a[from:], len(a), from)
}

// documented is a difference that the gateway's documentation announces. The state of the two sides differs
// after it, so it ends a stream.
type documented string

func (d documented) Error() string { return string(d) }

// Putting a value back into a key that a client watches aborts the client's transaction.
const spuriousAbort = documented("a watched key was put back")

// refusals are prefixes of the gateway's own documented errors.
var refusals = []string{
	"-ERR cinch: the value was compressed while this transaction was queued",
	"-ERR cinch: SORT with BY, or with GET and STORE, inside MULTI",
	"-ERR cinch: inside MULTI or WATCH this command could meet a compressed value",
	"-NOSCRIPT No matching script at this gateway",
}

// storesMagic is the gateway's error for an unknown command, or a known one with unknown options, that has
// a value like an envelope among its arguments.
const storesMagic = "would store a value that begins like an envelope"

func refusal(reply []byte) (documented, bool) {
	for _, text := range refusals {
		if bytes.Contains(reply, []byte(text)) {
			return documented(text), true
		}
	}
	if bytes.Contains(reply, []byte(storesMagic)) {
		return storesMagic, true
	}
	return "", false
}

// state is the runner's state of one connection.
type state struct {
	off, skipNext bool
	unsynced      bool // commands were sent after the last one with a reply
	tx            bool
	queued        []norm
}

// runner sends a stream to both sides.
type runner struct {
	plain, gateway side
	states         [connections]state
	steps          []step
	done           int // steps of all streams so far

	answered map[string]bool // commands that the plain server has answered without an error
}

// expected is a reply that has not been read yet.
type expected struct {
	step int
	norm norm
	tx   bool // may be answered with QUEUED
	exec bool
	open bool // the command is MULTI
	name string
}

// sortOf identifies a difference, so that a stream is not shrunk to one that shows another difference.
func sortOf(name string, plain, gateway []byte) string {
	return fmt.Sprintf("%s %.14q %.14q", name, plain, gateway)
}

// run returns the first difference, a documented one included, or an error of the test itself.
func (r *runner) run(steps []step) error {
	r.steps, r.states = steps, [connections]state{}
	if err := errors.Join(r.plain.reconnect(), r.gateway.reconnect()); err != nil {
		return err
	}
	for i := 0; i < len(steps); {
		var err error
		from := i
		switch steps[i].form {
		case formCloses:
			err = r.closing(i)
			i++
		case formRestore:
			err = r.restore(i)
			i++
		default:
			i, err = r.batch(i)
		}
		r.done += i - from
		if err != nil {
			return err
		}
	}
	return nil
}

// batch sends the steps from i that form one pipeline.
func (r *runner) batch(i int) (next int, err error) {
	var requests []byte
	var due []expected
	conn := r.steps[i].conn
	for next = i; next < len(r.steps); next++ {
		s := &r.steps[next]
		if s.conn != conn || s.form == formCloses || s.form == formRestore {
			break
		}
		var replies []expected
		if requests, replies = r.states[conn].send(requests, s, next); len(replies) > 0 {
			due = append(due, replies...)
		}
		if s.drain {
			next++
			break
		}
	}
	if c := &r.states[conn]; c.unsynced {
		var replies []expected
		requests, replies = c.sync(requests, next-1)
		due = append(due, replies...)
	}
	return next, r.exchange(conn, requests, due, i)
}

// sync makes a muted connection send one reply, so that the next connection's commands can't overtake those
// already sent.
func (c *state) sync(dst []byte, at int) ([]byte, []expected) {
	words := []string{"PING"}
	switch {
	case c.off:
		words = []string{"CLIENT REPLY ON", "CLIENT REPLY OFF"}
	case c.skipNext:
		words = []string{"PING", "PING"}
	}
	for _, w := range words {
		dst = append(dst, w+"\r\n"...)
	}
	c.skipNext, c.unsynced = false, c.off
	return dst, []expected{{step: at}}
}

func (r *runner) exchange(conn int, requests []byte, due []expected, at int) error {
	type outcome struct {
		frames [][]byte
		err    error
	}
	other := make(chan outcome, 1)
	go func() {
		frames, err := r.gateway.pipeline(conn, requests, len(due))
		other <- outcome{frames, err}
	}()
	plain, err := r.plain.pipeline(conn, requests, len(due))
	got := <-other
	if err != nil {
		return fmt.Errorf("plain server, step %d: %w\n%s", at, err, describe(r.steps[at:min(at+8, len(r.steps))]))
	}
	for i, frame := range got.frames {
		if plain[i][0] != '-' && r.answered != nil && !due[i].tx {
			r.answered[strings.ToLower(due[i].name)] = true
		}
		if err := r.states[conn].check(due[i], plain[i], frame); err != nil {
			return err
		}
	}
	if got.err != nil {
		step := r.steps[min(len(r.steps)-1, at)]
		if n := len(got.frames); n < len(due) {
			at, step = due[n].step, r.steps[due[n].step]
		}
		return &difference{at: at, what: fmt.Sprintf("no reply: %v\n  to %v", got.err, &step), sort: "no reply"}
	}
	return nil
}

// send appends the request of s and returns the replies to expect.
func (c *state) send(dst []byte, s *step, at int) ([]byte, []expected) {
	name := strings.ToUpper(string(s.args[0]))
	mutes := name == "CLIENT" && len(s.args) == 3 && strings.EqualFold(string(s.args[1]), "REPLY")
	if mutes && c.tx {
		return dst, nil // the gateway does not support it
	}
	if name == "AUTH" && c.tx {
		// Redis 7.4 leaves AUTH's reply out of EXEC's array, so that no client can tell where the array
		// ends.
		return dst, nil
	}
	skip := c.skipNext
	quiet := c.off || skip
	if quiet && name == "MULTI" {
		return dst, nil // its end could not be waited for
	}
	c.skipNext = false
	e := expected{step: at, norm: s.norm, tx: c.tx, name: name}
	switch {
	case mutes && strings.EqualFold(string(s.args[2]), "OFF"):
		c.off, quiet = true, true
	case mutes && strings.EqualFold(string(s.args[2]), "SKIP"):
		c.skipNext, quiet = !c.off, true
	case mutes && strings.EqualFold(string(s.args[2]), "ON"):
		c.off, quiet = false, false
	case name == "MULTI" && len(s.args) == 1:
		e.open = !c.tx
		e.tx, c.tx = false, true
	// EXEC ends a transaction even if it is refused.
	case name == "EXEC" || name == "DISCARD" && len(s.args) == 1:
		e.exec = c.tx && name == "EXEC"
		e.tx, c.tx = false, false
	case name == "RESET" && len(s.args) == 1:
		e.tx, c.tx, c.off, quiet = false, false, false, skip // RESET ends OFF, but not a SKIP before it
	}
	dst = s.encode(dst)
	if c.unsynced = quiet; quiet {
		return dst, nil
	}
	return dst, []expected{e}
}

// encode appends the request in the form of the step.
func (s *step) encode(dst []byte) []byte {
	if s.form == formInline && inlinable(s.args) {
		for i, a := range s.args {
			if i > 0 {
				dst = append(dst, ' ')
			}
			dst = appendQuoted(dst, a)
		}
		return append(dst, "\r\n"...)
	}
	return encode(dst, s.args)
}

func inlinable(args [][]byte) bool {
	n := 0
	for _, a := range args {
		n += 4*len(a) + 3
	}
	return n < 8000 && len(args[0]) > 0 && args[0][0] != '*'
}

func appendQuoted(dst, a []byte) []byte {
	plain := len(a) > 0
	for _, c := range a {
		plain = plain && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == ':' || c == '_' || c == '-')
	}
	if plain {
		return append(dst, a...)
	}
	dst = append(dst, '"')
	for _, c := range a {
		dst = fmt.Appendf(dst, `\x%02x`, c)
	}
	return append(dst, '"')
}

// check compares one reply and tracks the commands queued in a transaction.
func (c *state) check(e expected, plain, gateway []byte) error {
	if e.open {
		c.queued = nil
	}
	if e.tx && string(plain) == "+QUEUED\r\n" {
		c.queued = append(c.queued, e.norm)
	}
	if e.exec {
		defer func() { c.queued = nil }()
		return c.checkExec(e, plain, gateway)
	}
	if !agree(e.norm, plain, gateway) {
		if plain[0] == '-' && !e.tx && bytes.Contains(gateway, []byte(storesMagic)) {
			return nil // refused by both, and nothing is stored
		}
		if d, ok := refusal(gateway); ok {
			return d
		}
		return &difference{at: e.step, plain: plain, gateway: gateway, what: "replies differ", sort: sortOf(e.name, plain, gateway)}
	}
	return nil
}

func (c *state) checkExec(e expected, plain, gateway []byte) error {
	if bytes.Equal(plain, gateway) {
		return nil
	}
	a, err1 := parse(plain)
	b, err2 := parse(gateway)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if !a.null && a.kind == '*' && (b.null || b.kind == '_') {
		return spuriousAbort
	}
	if d, ok := refusal(gateway); ok {
		return d
	}
	if len(a.items) != len(c.queued) || len(b.items) != len(c.queued) {
		return &difference{at: e.step, plain: plain, gateway: gateway, what: "transactions differ"}
	}
	for i, n := range c.queued {
		if a.items[i].String() != b.items[i].String() && !agreeTrees(n, a.items[i], b.items[i]) {
			return &difference{
				at: e.step, plain: []byte(a.items[i].String()), gateway: []byte(b.items[i].String()),
				what: fmt.Sprintf("element %d of a transaction differs", i),
			}
		}
	}
	return nil
}

// closing sends raw bytes, compares everything received until the connection closes, and reconnects.
func (r *runner) closing(i int) error {
	s := &r.steps[i]
	if c := &r.states[s.conn]; c.off || c.skipNext || c.tx {
		return nil
	}
	plain, err := r.plain.clients[s.conn].lastWords(s.args[0])
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("plain server, step %d: %w", i, err)
	}
	gateway, err := r.gateway.clients[s.conn].lastWords(s.args[0])
	if err != nil {
		return &difference{at: i, plain: plain, gateway: gateway, what: "the connection does not end: " + err.Error()}
	}
	if !bytes.Equal(plain, gateway) {
		return &difference{at: i, plain: plain, gateway: gateway, what: "last words differ"}
	}
	r.states[s.conn] = state{}
	return errors.Join(r.plain.reconnectOne(s.conn), r.gateway.reconnectOne(s.conn))
}

// restore copies a value with DUMP and RESTORE on each side.
func (r *runner) restore(i int) error {
	s := &r.steps[i]
	if c := &r.states[s.conn]; c.off || c.skipNext || c.tx {
		return nil
	}
	plain, err := r.plain.dumpRestore(s)
	if err != nil {
		return fmt.Errorf("plain server, step %d: %w", i, err)
	}
	gateway, err := r.gateway.dumpRestore(s)
	if err != nil {
		return &difference{at: i, plain: plain, what: err.Error()}
	}
	if !bytes.Equal(plain, gateway) {
		return &difference{at: i, plain: plain, gateway: gateway, what: "DUMP and RESTORE differ"}
	}
	return nil
}

func (s *side) dumpRestore(of *step) ([]byte, error) {
	args := of.args
	frames, err := s.pipeline(of.conn, encode(nil, [][]byte{[]byte("DUMP"), args[0]}), 1)
	if err != nil {
		return nil, err
	}
	dump, err := parse(frames[0])
	if err != nil || dump.null || dump.kind != '$' {
		return frames[0], err
	}
	request := [][]byte{[]byte("RESTORE"), args[1], []byte("0"), []byte(dump.text), args[2]}
	if frames, err = s.pipeline(of.conn, encode(nil, request), 1); err != nil {
		return nil, err
	}
	return frames[0], nil
}
