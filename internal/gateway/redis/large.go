package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// Requests that do not fit the buffer come in three ways, by the row of their command:
//
//   - streamed: nothing in it concerns us, or it is a value above MaxSeal
//   - value by value: MSET, HSET, XADD; one value is in memory at a time
//   - collected: the whole request is needed before anything can be sent
//
// What is held is taken from the request budget first.

// maxCollected is how many bytes of one request are collected beyond the longest value
// that is sealed.
const maxCollected = 32 << 20

// largeRequest is the request at hand.
type largeRequest struct {
	s        *session
	cmd      *command
	argc     int
	args     [][]byte // complete arguments so far, in memory of their own
	pending  int      // length of the argument whose header has been read; -1: none
	held     int64    // of the request budget
	encoder  int64    // of the request budget too, for what seals a value while it arrives
	owed     int64    // held in small pieces that were not taken from the budget yet
	arena    []byte   // rest of the memory that small arguments share
	unsealed bool     // the value whose header is pending goes as it is
}

var errTooLong = errors.New("redis: request is too long to be collected")

// largeRequest handles the request whose beginning the parser has seen.
func (s *session) largeRequest() error {
	if !s.parser.Started() {
		return s.failWith("ERR cinch: an inline request may have 32 KiB; use the RESP protocol for longer ones")
	}
	s.beginRequest()
	s.inside, s.looked = true, false
	defer s.leave()
	l := &largeRequest{s: s, argc: s.parser.Argc, pending: -1}
	defer l.release()
	defer l.endAhead()
	l.takeHead()
	s.frame = 0
	l.cmd = unknownCommand
	if len(l.args) > 0 {
		l.cmd = s.g.table.lookup(l.args[0])
	}
	err := l.run()
	s.parser.Reset()
	if errors.Is(err, resp.ErrProtocol) {
		return s.passProtocolError()
	}
	return err
}

// takeHead copies what the parser has found so far out of the buffer.
func (l *largeRequest) takeHead() {
	p := &l.s.parser
	buf := l.s.in.Buffered()
	for _, sp := range p.Args {
		l.args = append(l.args, append([]byte{}, buf[sp.Off:sp.Off+sp.Len]...))
	}
	if n, ok := p.Bulk(); ok {
		l.pending = n
	}
	l.s.in.Discard(p.Pos())
}

func (l *largeRequest) run() error {
	s := l.s
	switch {
	case len(l.args) == 0, !l.cmd.accepts(l.argc), l.cmd.strategy == verbatim,
		s.subscribed() && l.cmd.strategy != controls:
		return l.stream(entry{})
	case l.cmd.strategy == values && l.cmd.args.kind == noValues:
		return l.stream(entry{shape: l.cmd.reply})
	case l.cmd.strategy == values && !l.cmd.args.single:
		return l.valueByValue()
	}
	return l.collect()
}

// header reads the length of the next argument.
func (l *largeRequest) header() (int, error) {
	if n := l.pending; n >= 0 {
		l.pending = -1
		return n, nil
	}
	n, err := l.s.in.BulkHeader()
	if err == nil && n > 1<<40 {
		err = resp.ErrProtocol
	}
	return int(n), err
}

// stream sends the request as it arrives.
func (l *largeRequest) stream(e entry) error {
	if err := l.begin(e); err != nil {
		return err
	}
	for _, a := range l.args {
		if err := l.s.sendBulk(a); err != nil {
			return err
		}
	}
	for range l.argc - len(l.args) {
		n, err := l.header()
		if err == nil {
			err = l.streamArg(n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *largeRequest) begin(e entry) error {
	if err := l.s.expect(e); err != nil {
		return err
	}
	return l.s.up.write(resp.AppendArray(l.s.head(), l.argc))
}

// streamArg sends an argument of n bytes, whose header has been read.
func (l *largeRequest) streamArg(n int) error {
	if err := l.s.up.write(resp.AppendBulkHeader(l.s.head(), n)); err != nil {
		return err
	}
	return l.streamBody(n)
}

func (l *largeRequest) streamBody(n int) error {
	return l.s.in.CopyTo(int64(n)+2, l.s.up.lend)
}

// valueByValue seals values one at a time, each when it has arrived.
func (l *largeRequest) valueByValue() error {
	spec := &l.cmd.args
	first, ok, err := l.locate(spec)
	if err != nil {
		return l.giveUp(err)
	}
	if !ok {
		return l.stream(entry{})
	}
	if err := l.begin(entry{shape: l.cmd.reply}); err != nil {
		return err
	}
	var key, before []byte
	for i := range l.argc {
		isValue := i >= first && (i-first)%spec.step == 0
		var arg []byte
		if i < len(l.args) {
			arg, err = l.args[i], l.sendHave(l.args[i], isValue, key, before)
		} else {
			arg, err = l.sendNext(isValue, key, before)
		}
		if err != nil {
			return err
		}
		if i == 1 {
			key = arg
		}
		before = arg
	}
	return nil
}

// locate reads arguments until the place of the first value is known.
func (l *largeRequest) locate(spec *argValues) (first int, ok bool, err error) {
	for spec.stream {
		if id, found := entryID(l.args); found {
			first = id + 2
			return first, first < l.argc && (l.argc-first)%2 == 1, nil
		}
		if len(l.args) == l.argc {
			return 0, false, nil
		}
		if err := l.take(); err != nil {
			return 0, false, err
		}
	}
	return spec.first, (l.argc-spec.first)%2 == 1, nil
}

// sendHave sends an argument that is in memory.
func (l *largeRequest) sendHave(arg []byte, isValue bool, key, before []byte) error {
	if !isValue {
		return l.s.sendBulk(arg)
	}
	out, sealed := l.s.sealValue(nil, l.s.address(l.cmd.args.kind, key, before, len(arg)), arg)
	defer gateway.PutBuffer(out)
	if sealed {
		arg = out
	}
	return l.s.sendBulk(arg)
}

// sendNext reads and sends the next argument, and returns it unless it was a value or
// too long to be looked at.
func (l *largeRequest) sendNext(isValue bool, key, before []byte) ([]byte, error) {
	n, err := l.header()
	if err != nil {
		return nil, err
	}
	if isValue && n > l.s.g.cfg.MaxSeal || !isValue && n > freeBytes {
		return nil, l.streamUnsealed(n, isValue)
	}
	if isValue && n > freeBytes {
		return nil, l.sealOrStream(n, key, before)
	}
	arg, err := l.read(n)
	if err != nil {
		return nil, err
	}
	err = l.sendHave(arg, isValue, key, before)
	if isValue {
		gateway.PutBuffer(arg)
		return nil, err
	}
	return arg, err
}

// mayHold decides whether the long value of n bytes at hand, whose header has been read, is
// held for sealing: not if it is too long, no rule covers its key, or there is no budget
// and it can go as it is. When it is held the budget has been taken.
func (l *largeRequest) mayHold(n int, key []byte) (bool, error) {
	if n > l.s.g.cfg.MaxSeal {
		return false, nil
	}
	head, err := l.s.in.Peek(len(cinch.Magic))
	if err != nil {
		return false, err
	}
	if cinch.IsSealed(head) { // has to be wrapped
		return true, l.reserve(2 * int64(n))
	}
	if !l.s.mayBeSealed([][]byte{key}) {
		return false, nil
	}
	if !l.tryReserve(2*int64(n), sealPatience) {
		l.s.g.cfg.Stats.Error("budget")
		return false, nil
	}
	return true, nil
}

// sealOrStream seals a long value of n bytes, or sends it as it is.
func (l *largeRequest) sealOrStream(n int, key, before []byte) error {
	at := key
	if l.cmd.args.kind == stringValues {
		at = before
	}
	hold, err := l.mayHold(n, at)
	if errors.Is(err, errTooLong) { // the server has the beginning of the request already
		return l.s.failWith("ERR cinch: " + err.Error())
	}
	if err != nil {
		return err
	}
	if !hold {
		return l.streamUnsealed(n, true)
	}
	defer l.release()
	buf := gateway.GetBuffer(n + 2)[:n+2]
	defer gateway.PutBuffer(buf)
	defer l.endAhead()
	if err := l.fillValue(buf, l.s.address(l.cmd.args.kind, key, before, n)); err != nil {
		return err
	}
	return l.sendHave(buf[:n], true, key, before)
}

// streamUnsealed sends an argument that is not sealed. A value among those must not begin
// with the magic: wrapping needs all of it. The server sees the length first, since it may
// refuse that before any byte of the value comes.
func (l *largeRequest) streamUnsealed(n int, isValue bool) error {
	if !isValue || n < len(cinch.Magic) {
		return l.streamArg(n)
	}
	if err := l.s.up.write(resp.AppendBulkHeader(l.s.head(), n)); err != nil {
		return err
	}
	head, err := l.s.in.Peek(len(cinch.Magic))
	if err != nil {
		return err
	}
	if cinch.IsSealed(head) {
		l.s.g.cfg.Stats.Error("unsealable")
		return l.s.failWith(fmt.Sprintf("ERR cinch: a value that begins like an envelope may have %d bytes, this one has %d", l.s.g.cfg.MaxSeal, n))
	}
	return l.streamBody(n)
}

// failWith ends the session with an error. The request that caused it is incomplete
// upstream, so nothing of it is carried out.
func (s *session) failWith(text string) error {
	s.g.cfg.Log.Warn("session ended", "reason", text)
	s.lastWords.Store(&text)
	s.failed = net.ErrClosed
	return s.failed
}

// read reads an argument of n bytes into a pooled buffer, under the budget for it and its
// sealed form.
func (l *largeRequest) read(n int) ([]byte, error) {
	if n > freeBytes {
		if err := l.reserve(2 * int64(n)); err != nil {
			return nil, err
		}
	}
	buf := gateway.GetBuffer(n + 2)[:n+2]
	if err := l.fill(buf); err != nil {
		gateway.PutBuffer(buf)
		return nil, err
	}
	return buf[:n], nil
}

// fill reads len(buf) bytes, with limited patience while it holds budget.
func (l *largeRequest) fill(buf []byte) error {
	if l.held == 0 {
		return l.s.in.ReadFull(buf)
	}
	l.s.inside = false // the deadlines here are ours
	defer l.s.enter()
	t := l.s.stall(l.s.g.cfg.Requests)
	for len(buf) > 0 {
		_ = l.s.conn.SetReadDeadline(t.deadline())
		n, err := l.s.in.Take(buf)
		buf = buf[n:]
		if err != nil && !t.tolerates(err) {
			return err
		}
	}
	return nil
}

// enter and leave mark where a drain has to wait for the end of a request.
func (s *session) enter() {
	s.inside = true
	_ = s.conn.SetReadDeadline(time.Time{})
}

func (s *session) leave() {
	s.inside = false
	if s.draining.Load() {
		_ = s.conn.SetReadDeadline(time.Now().Add(drainPoll))
	}
}

// reserve takes n bytes of the budget, and waits for them a limited time only: two that
// hold some and wait for each other would wait for ever.
func (l *largeRequest) reserve(n int64) error {
	if l.tryReserve(n, reservePatience*l.s.g.cfg.Stall) {
		return nil
	}
	l.s.g.cfg.Stats.Error("budget")
	return fmt.Errorf("%w: the memory budget is used up", errTooLong)
}

const (
	// reservePatience is how many times Stall a request that must be collected waits.
	reservePatience = 10
	// sealPatience is how long a value waits that could also go as it is.
	sealPatience = 200 * time.Millisecond
)

func (l *largeRequest) tryReserve(n int64, patience time.Duration) bool {
	if !l.s.acquire(n, patience) {
		return false
	}
	l.held += n
	return true
}

// acquire takes n bytes of the request budget.
func (s *session) acquire(n int64, patience time.Duration) bool {
	if s.g.cfg.Requests.TryAcquire(n) {
		return true
	}
	if s.up.flush() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	return s.g.cfg.Requests.Acquire(ctx, n) == nil
}

func (l *largeRequest) release() {
	l.s.g.cfg.Requests.Release(l.held)
	l.s.g.cfg.Requests.Release(l.encoder)
	l.held, l.encoder = 0, 0
}

// collect reads the whole request and handles it as a small one. What is too long to be
// collected is streamed where that is right, and refused where it is not.
func (l *largeRequest) collect() error {
	for len(l.args) < l.argc {
		if l.unsealed {
			return l.streamSingle()
		}
		if err := l.take(); err != nil {
			return l.giveUp(err)
		}
	}
	return l.s.handle(&request{args: l.args})
}

// take reads the next argument into args. A long value of a command that only stores it
// is left at its header when it can't be sealed.
func (l *largeRequest) take() error {
	n, err := l.header()
	if err != nil {
		return err
	}
	isValue := l.cmd.args.single && len(l.args) == l.cmd.args.first
	if isValue && n > freeBytes {
		seal, err := l.mayHold(n, l.args[1])
		if err != nil {
			l.pending = n
			return err
		}
		if !seal {
			l.pending, l.unsealed = n, true
			return nil
		}
	}
	if !isValue && int64(n)+l.held > int64(l.s.g.cfg.MaxSeal)*2+maxCollected || l.argc > maxCollectedArgs {
		l.pending = n
		return errTooLong
	}
	if n <= freeBytes {
		return l.takeSmall(n)
	}
	if !isValue { // what a value takes, mayHold has taken
		if err := l.reserve(2 * int64(n)); err != nil {
			l.pending = n
			return err
		}
	}
	arg := gateway.GetBuffer(n + 2)[:n+2]
	l.args = append(l.args, arg[:n])
	if isValue {
		return l.fillValue(arg, l.s.address(l.cmd.args.kind, l.args[1], l.args[len(l.args)-2], n))
	}
	return l.fill(arg)
}

// takeSmall reads an argument into memory that it shares with others.
func (l *largeRequest) takeSmall(n int) error {
	if l.owed += int64(n) + smallArgBytes; l.owed > freeBytes {
		if err := l.reserve(l.owed); err != nil {
			l.pending = n
			return err
		}
		l.owed = 0
	}
	if len(l.arena) < n+2 {
		l.arena = make([]byte, max(n+2, arenaBytes))
	}
	arg := l.arena[: n+2 : n+2]
	l.arena = l.arena[n+2:]
	l.args = append(l.args, arg[:n:n])
	return l.fill(arg)
}

const (
	maxCollectedArgs = 64 << 10
	arenaBytes       = 16 << 10
	smallArgBytes    = 128 // of bookkeeping, with the copies that guards make of it
)

// streamSingle sends SET and its kin with a value that is not sealed.
func (l *largeRequest) streamSingle() error {
	if err := l.begin(entry{shape: l.cmd.reply}); err != nil {
		return err
	}
	for _, a := range l.args {
		if err := l.s.sendBulk(a); err != nil {
			return err
		}
	}
	for i := len(l.args); i < l.argc; i++ {
		n, err := l.header()
		if err == nil {
			err = l.streamUnsealed(n, i == l.cmd.args.first)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// giveUp swallows the rest of a request that can't be collected and refuses it.
func (l *largeRequest) giveUp(cause error) error {
	if errors.Is(cause, resp.ErrProtocol) { // the server sees what came so far, and the rest
		if err := l.s.up.write(resp.AppendArray(l.s.head(), l.argc)); err != nil {
			return err
		}
		for _, a := range l.args {
			if err := l.s.sendBulk(a); err != nil {
				return err
			}
		}
		return cause
	}
	if !errors.Is(cause, errTooLong) {
		return cause
	}
	args := l.args
	l.args = nil
	l.endAhead()
	l.release()
	for range l.argc - len(args) {
		n, err := l.header()
		if err == nil {
			err = l.s.in.CopyTo(int64(n)+2, func([]byte) error { return nil })
		}
		if err != nil {
			return err
		}
	}
	return l.s.refuse("ERR cinch: " + l.cmd.name + ": " + cause.Error())
}
