package redis

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// large handles requests that do not fit the buffer.
type large struct {
	intake *intake
	talk   *conversation
	seals  *seals
	stash  *stash
	desk   desk
}

// desk is what a session does with requests that large does not carry out itself.
type desk interface {
	handleCollected([][]byte) error // a request that is in memory as a whole
	failWith(text string) error     // the end of the session, of whose request the server has the beginning
	passProtocolError() error       // the server is to word it
}

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
	*large
	cmd      *command
	argc     int
	args     [][]byte // complete arguments so far, in memory of their own
	pending  int      // length of the argument whose header has been read; -1: none
	held     int64    // of the request budget
	encoder  int64    // of the request budget too, for what seals a value while it arrives
	owed     int64    // held in small pieces that were not taken from the budget yet
	arena    []byte   // rest of the memory that small arguments share
	unsealed bool     // the value whose header is pending goes as it is
	readPart []byte   // of that value what has been read: there was no memory for more
	left     int      // bytes of an argument that could not be read on, with its line break

	asTheyAre bool // the server computes on the values, which are not sealed but for what must be
}

// request handles the request whose beginning the parser has seen.
func (b *large) request() error {
	if !b.intake.parser.Started {
		return b.desk.failWith("ERR cinch: an inline request may have 32 KiB; use the RESP protocol for longer ones")
	}
	b.talk.begin()
	b.intake.enter()
	defer b.intake.leave()
	l := &largeRequest{large: b, argc: b.intake.parser.Argc, pending: -1}
	defer l.release()
	defer l.endAhead()
	l.takeHead()
	b.intake.frame = 0
	l.cmd = unknownCommand
	if len(l.args) > 0 {
		l.cmd = b.intake.rows.table.lookup(l.args[0])
	}
	err := l.run()
	b.intake.parser.Reset()
	if errors.Is(err, resp.ErrProtocol) {
		return b.desk.passProtocolError()
	}
	return err
}

// takeHead copies what the parser has found so far out of the buffer.
func (l *largeRequest) takeHead() {
	p := &l.intake.parser
	buf := l.intake.in.Buffered()
	for _, sp := range p.Args {
		l.args = append(l.args, append([]byte{}, buf[sp.Off:sp.Off+sp.Len]...))
	}
	if n, ok := p.Bulk(); ok {
		l.pending = n
	}
	l.intake.in.Discard(p.Pos())
}

func (l *largeRequest) run() error {
	switch {
	case l.talk.isStranger(): // the server has limits of its own for it
		return l.stream(entry{})
	case len(l.args) == 0, !l.cmd.accepts(l.argc), l.cmd.strategy == verbatim,
		l.talk.subscribed() && l.cmd.strategy != controls:
		return l.stream(entry{})
	case l.cmd.strategy == values && l.cmd.args.kind == noValues && l.seals.rules.HasToPlain():
		return l.streamRead()
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
	n, err := l.intake.in.BulkHeader()
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
		_ = l.talk.sendBulk(a)
	}
	if l.talk.up.err != nil {
		return l.talk.up.err
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
	if err := l.talk.expect(e); err != nil {
		return err
	}
	return l.talk.up.write(resp.AppendArray(l.talk.head(), l.argc))
}

// streamArg sends an argument of n bytes, whose header has been read.
func (l *largeRequest) streamArg(n int) error {
	if err := l.talk.up.write(resp.AppendBulkHeader(l.talk.head(), n)); err != nil {
		return err
	}
	return l.streamBody(n)
}

func (l *largeRequest) streamBody(n int) error {
	return l.intake.in.CopyTo(int64(n)+2, l.talk.up.lend)
}

// streamRead sends a request that only reads as it arrives. Which of the values in its reply clients get the content of depends on the keys.
func (l *largeRequest) streamRead() error {
	if l.cmd.name == "mget" {
		return l.streamKeys()
	}
	for len(l.args) < min(2, l.argc) {
		if err := l.take(); err != nil {
			return l.giveUp(err)
		}
	}
	return l.stream(entry{shape: l.cmd.reply, op: l.seals.contents(l.cmd, l.args, l.cmd.reply)})
}

// streamKeys sends MGET. Its reply comes when all of its keys have been seen.
func (l *largeRequest) streamKeys() error {
	o := &op{size: sliceBytes * l.argc, seen: make(chan struct{})}
	defer close(o.seen)
	if err := l.begin(entry{shape: l.cmd.reply, op: o}); err != nil {
		return err
	}
	for i := range l.argc {
		var key []byte
		var err error
		if i < len(l.args) {
			key, err = l.args[i], l.talk.sendBulk(l.args[i])
		} else {
			key, err = l.sendKey()
		}
		if err != nil {
			return err
		}
		if i > 0 {
			o.contents = l.seals.noteKey(o.contents, key, i-1, l.argc-1)
		}
		if i >= len(l.args) {
			gateway.PutBuffer(key)
			l.release()
		}
	}
	return nil
}

// sendKey reads and sends the next argument, whatever its length, into a buffer that is the caller's.
func (l *largeRequest) sendKey() ([]byte, error) {
	n, err := l.header()
	if err != nil {
		return nil, err
	}
	var key []byte
	if n <= freeBytes {
		key, err = l.read(n)
	} else if key, err = l.gather(n, nil, true); err == nil {
		key = key[:n]
	}
	if errors.Is(err, errNoRoom) { // the server has the beginning of the request already
		return nil, l.desk.failWith("ERR cinch: " + err.Error())
	}
	if err != nil {
		return nil, err
	}
	return key, l.talk.sendBulk(key)
}

// valueByValue seals values one at a time, each when it has arrived.
func (l *largeRequest) valueByValue() error {
	at, is, err := l.locate(&l.cmd.args)
	switch {
	case err != nil:
		return l.giveUp(err)
	case is == strange:
		return l.collect()
	case is == refused:
		return l.stream(entry{})
	}
	if err := l.begin(entry{shape: l.cmd.reply}); err != nil {
		return err
	}
	l.asTheyAre, l.seals.took = at.computed, 0
	var key, before []byte
	for i := range l.argc {
		isValue := at.holds(i)
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
	if l.seals.took > 0 {
		l.seals.vault.Stats.Latency(l.seals.took)
	}
	return nil
}

// locate reads arguments until the places of the values are known.
func (l *largeRequest) locate(spec *argValues) (at places, is placing, err error) {
	for {
		if at, is = spec.places(l.args, l.argc); is != cutOff {
			return at, is, nil
		}
		if err := l.take(); err != nil {
			return at, is, err
		}
	}
}

// sendHave sends an argument that is in memory.
func (l *largeRequest) sendHave(arg []byte, isValue bool, key, before []byte) error {
	if !isValue {
		return l.talk.sendBulk(arg)
	}
	at := l.seals.address(l.cmd.args.kind, key, before, len(arg))
	out, sealed := l.seals.sealValue(nil, &at, arg, l.asTheyAre)
	defer gateway.PutBuffer(out)
	if sealed {
		arg = out
		l.talk.tx.brings = l.talk.tx.brings || l.talk.tx.open
	}
	return l.talk.sendBulk(arg)
}

// sendNext reads and sends the next argument, and returns it unless it was a value or
// too long to be looked at.
func (l *largeRequest) sendNext(isValue bool, key, before []byte) ([]byte, error) {
	n, err := l.header()
	if err != nil {
		return nil, err
	}
	if isValue && n > l.seals.vault.maxSeal || !isValue && n > freeBytes {
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
// held for sealing, or to be observed: not if it is too long, or no rule covers its key. It must be when it begins
// like an envelope.
func (l *largeRequest) mayHold(n int, key []byte) (hold, must bool, err error) {
	if n > l.seals.vault.maxSeal {
		return false, false, nil
	}
	head, err := l.intake.in.Peek(len(cinch.Magic))
	if err != nil {
		return false, false, err
	}
	if cinch.IsSealed(head) { // has to be wrapped
		return true, true, nil
	}
	return !l.asTheyAre && l.seals.rules.MaySeal(l.talk.st.where(), key, true), false, nil
}

// sealOrStream seals a long value of n bytes, or sends it as it is.
func (l *largeRequest) sealOrStream(n int, key, before []byte) error {
	at := key
	if l.cmd.args.kind == stringValues {
		at = before
	}
	hold, must, err := l.mayHold(n, at)
	if err != nil {
		return err
	}
	if !hold {
		return l.streamUnsealed(n, true)
	}
	defer l.release()
	defer l.endAhead()
	addr := l.seals.address(l.cmd.args.kind, key, before, n)
	buf, err := l.gather(n, &addr, must)
	defer func() { gateway.PutBuffer(buf) }()
	switch {
	case errors.Is(err, errNoRoom): // the server has the beginning of the request already
		return l.desk.failWith("ERR cinch: " + err.Error())
	case err != nil:
		return err
	case len(buf) < n+len(crlf):
		return l.streamRest(n, buf)
	}
	return l.sendHave(buf[:n], true, key, before)
}

// streamRest sends a value of n bytes unchanged, of which part has been read.
func (l *largeRequest) streamRest(n int, part []byte) error {
	if err := l.talk.up.write(resp.AppendBulkHeader(l.talk.head(), n)); err != nil {
		return err
	}
	if err := l.talk.up.write(part); err != nil {
		return err
	}
	return l.intake.in.CopyTo(int64(n+len(crlf)-len(part)), l.talk.up.lend)
}

// streamUnsealed sends an argument that is not sealed. A value among those must not begin
// with the magic: wrapping needs all of it. The server sees the length first, since it may
// refuse that before any byte of the value comes.
func (l *largeRequest) streamUnsealed(n int, isValue bool) error {
	switch {
	case isValue && l.readPart != nil:
		return l.streamRest(n, l.readPart)
	case !isValue || n < len(cinch.Magic):
		return l.streamArg(n)
	}
	if err := l.talk.up.write(resp.AppendBulkHeader(l.talk.head(), n)); err != nil {
		return err
	}
	head, err := l.intake.in.Peek(len(cinch.Magic))
	if err != nil {
		return err
	}
	if cinch.IsSealed(head) {
		l.seals.vault.Stats.Error("unsealable")
		return l.desk.failWith(fmt.Sprintf("ERR cinch: a value that begins like an envelope may have %d bytes, this one has %d", l.seals.vault.maxSeal, n))
	}
	return l.streamBody(n)
}

// read reads a short argument into a pooled buffer.
func (l *largeRequest) read(n int) ([]byte, error) {
	buf := gateway.GetBuffer(n + 2)[:n+2]
	if err := l.intake.in.ReadFull(buf); err != nil {
		gateway.PutBuffer(buf)
		return nil, err
	}
	return buf[:n], nil
}

// reserve takes n bytes of the budget, and waits for them a limited time only.
func (l *largeRequest) reserve(n int64) error {
	if l.tryReserve(n, n, reservePatience*l.stash.stall) {
		return nil
	}
	l.seals.vault.Stats.Error("budget")
	return errNoRoom
}

// tryReserve takes n bytes now, of claim that will be needed.
func (l *largeRequest) tryReserve(n, claim int64, patience time.Duration) bool {
	if !l.stash.acquire(n, claim, patience) {
		return false
	}
	l.held += n
	return true
}

func (l *largeRequest) release() {
	l.talk.life.Requests.Release(l.held)
	l.talk.life.Requests.Release(l.encoder)
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
	return l.desk.handleCollected(l.args)
}

// take reads the next argument into args. A long value of a command that only stores it
// is left at its header when it can't be sealed.
func (l *largeRequest) take() error {
	n, err := l.header()
	if err != nil {
		return err
	}
	isValue := l.cmd.args.single && len(l.args) == l.cmd.args.first
	hold, must := false, true
	if isValue && n > freeBytes {
		if hold, must, err = l.mayHold(n, l.args[1]); err != nil || !hold {
			l.pending, l.unsealed = n, true
			return err
		}
	}
	if !isValue && int64(n)+l.held > int64(l.seals.vault.maxSeal)*2+maxCollected || l.argc > maxCollectedArgs {
		l.pending = n
		return errTooLong
	}
	if n <= freeBytes {
		return l.takeSmall(n)
	}
	var at *policy.Address
	if isValue {
		a := l.seals.address(l.cmd.args.kind, l.args[1], l.args[len(l.args)-1], n)
		at = &a
	}
	arg, err := l.gather(n, at, must)
	switch {
	case err != nil:
		return err
	case len(arg) < n+len(crlf):
		l.readPart, l.pending, l.unsealed = arg, n, true
		return nil
	}
	l.args = append(l.args, arg[:n])
	return nil
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
	return l.intake.in.ReadFull(arg)
}

const (
	maxCollectedArgs = 64 << 10
	arenaBytes       = 16 << 10
	smallArgBytes    = 128 // of bookkeeping, with the copies that guards make of it
)

// streamSingle sends SET and its kin with a value that is not sealed.
func (l *largeRequest) streamSingle() error {
	if err := l.begin(entry{shape: l.cmd.reply, op: l.seals.contents(l.cmd, l.args, l.cmd.reply)}); err != nil {
		return err
	}
	for _, a := range l.args {
		_ = l.talk.sendBulk(a)
	}
	if l.talk.up.err != nil {
		return l.talk.up.err
	}
	for i := len(l.args); i < l.argc; i++ {
		n, err := l.header()
		if err == nil && i > l.cmd.args.first && n <= maxWordBytes {
			err = l.sendOption(n)
		} else if err == nil {
			err = l.streamUnsealed(n, i == l.cmd.args.first)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxWordBytes is more than the longest option has.
const maxWordBytes = 32

// sendOption sends an argument behind a value that was too long to be held. What compares the stored
// value comes too late: it would have to be put back before.
func (l *largeRequest) sendOption(n int) error {
	word, err := l.read(n)
	if err != nil {
		return err
	}
	defer gateway.PutBuffer(word)
	if isComparison(word) && !excluded(l.seals.rules, l.args[1:2]) {
		return l.desk.failWith(fmt.Sprintf("ERR cinch: SET with %s may have a value of %d bytes here", word, l.seals.vault.maxSeal))
	}
	return l.talk.sendBulk(word)
}

// giveUp swallows the rest of a request that can't be collected and refuses it.
func (l *largeRequest) giveUp(cause error) error {
	if errors.Is(cause, resp.ErrProtocol) { // the server sees what came so far, and the rest
		_ = l.talk.up.write(resp.AppendArray(l.talk.head(), l.argc)) // a failure is told of at the end, too
		for _, a := range l.args {
			_ = l.talk.sendBulk(a)
		}
		return cmp.Or(l.talk.up.err, cause)
	}
	if !errors.Is(cause, errTooLong) && !errors.Is(cause, errNoRoom) {
		return cause
	}
	args := l.args
	l.args = nil
	l.endAhead()
	l.release()
	missing := l.argc - len(args)
	if l.left > 0 {
		missing--
		if err := l.intake.in.CopyTo(int64(l.left), swallow); err != nil {
			return err
		}
	}
	for range missing {
		n, err := l.header()
		if err == nil {
			err = l.intake.in.CopyTo(int64(n)+2, swallow)
		}
		if err != nil {
			return err
		}
	}
	return l.talk.refuse("ERR cinch: " + l.cmd.name + ": " + cause.Error())
}

// gather reads a long argument of n bytes and the line break behind it, for which memory is taken as
// it comes, with the last piece for its sealed form too. When there is none it returns the beginning,
// or, where that is of no use, errNoRoom; the rest is still to be read then. A value is compressed
// while it arrives, by the setting for at; other arguments have no such address.
func (l *largeRequest) gather(n int, at *policy.Address, must bool) (buf []byte, err error) {
	total := n + len(crlf)
	for have := 0; have < total; have = len(buf) {
		size := min(total, max(firstPiece, growth*have))
		if !l.roomFor(n, have, size, must) {
			l.seals.vault.Stats.Error("budget")
			if !must {
				return buf, nil
			}
			l.left = total - have
			gateway.PutBuffer(buf)
			return nil, errNoRoom
		}
		grown := append(gateway.GetBuffer(size), buf...)
		gateway.PutBuffer(buf)
		buf = grown[:size]
		if size == total {
			err = l.fillLast(buf, have, at)
		} else {
			err = l.intake.in.ReadFull(buf[have:])
		}
		if err != nil {
			gateway.PutBuffer(buf)
			return nil, err
		}
	}
	return buf, nil
}

// roomFor takes budget for the piece of an argument of n bytes that ends at size.
func (l *largeRequest) roomFor(n, have, size int, must bool) bool {
	want, claim := int64(size-have), int64(2*n-have)
	if size > n {
		want = claim
	}
	patience := sealPatience
	if must {
		patience = reservePatience * l.stash.stall
	}
	return l.tryReserve(want, claim, patience)
}

// fillLast reads the rest of an argument, have bytes of which are there, and seals what has arrived of
// it if it is a value for which that is worth it.
func (l *largeRequest) fillLast(buf []byte, have int, at *policy.Address) error {
	const step = codec.FrameBlock
	value := buf[:len(buf)-len(crlf)]
	if at == nil || have < step || !l.sealAhead(value, have, at) {
		return l.intake.in.ReadFull(buf[have:])
	}
	for have < len(buf) {
		to := min(have+step, len(buf))
		if err := l.intake.in.ReadFull(buf[have:to]); err != nil {
			return err
		}
		have = to
		l.seals.ahead.arrived(min(to, len(value)))
	}
	return nil
}

// sealAhead begins to seal a value, have bytes of which have arrived, if it is to be sealed, does not
// look incompressible, and there is budget for the encoder.
func (l *largeRequest) sealAhead(value []byte, have int, at *policy.Address) bool {
	beginning := value[:codec.FrameBlock]
	st, rule, left := l.seals.setting(at, beginning, l.seals.st.login())
	if rule == nil || left != "" || rule.Formats != nil || codec.Incompressible(beginning) {
		return false
	}
	wanted, effort := st, l.seals.vault.Effort
	st = effort.Lower(st, len(value))
	n := int64(l.seals.vault.Sealer.AheadBytes(len(value), st))
	if n == 0 || !l.talk.life.Requests.TryAcquire(n) {
		return false
	}
	l.encoder = n
	buf := gateway.GetBuffer(cinch.MaxSealedLen(st, len(value)))
	a := l.seals.vault.Sealer.Ahead(buf, value, st)
	if a == nil {
		gateway.PutBuffer(buf)
		return false
	}
	l.seals.ahead = &ahead{Ahead: a, effort: effort, wanted: wanted, lowered: st}
	l.seals.ahead.arrived(have)
	return true
}

// endAhead comes before the value's memory is given back.
func (l *largeRequest) endAhead() {
	if l.seals.ahead != nil {
		l.seals.ahead.Close()
		l.seals.ahead = nil
	}
}

// A long value that is sealed by zstd is compressed while it arrives, block by block between
// reads: the kernel takes in what comes meanwhile, so that after the last byte one block is left
// to do, and not the whole value. It is done by the goroutine that reads: handing blocks to
// another would save the time of copying them from the kernel, a tenth of what compressing takes.
//
// Nothing is sent ahead (the envelope's length comes first), and the value stays in memory: if
// sealing it gains nothing, or its command turns out to be another case, it goes as it came.

// ahead is the value at hand, of which some is compressed already.
type ahead struct {
	*cinch.Ahead
	effort          *gateway.Effort
	wanted, lowered codec.Setting // the rule's, and what it is sealed with
	spent           time.Duration // compressing
}

// is reports whether value is the one, and its rule's setting that with which it was begun.
func (a *ahead) is(value []byte, wanted codec.Setting) bool {
	return a.wanted == wanted && a.Is(value, a.lowered)
}

// seal does what gateway.Compressor.Compress does for the value of n bytes, of which most is done.
func (a *ahead) seal(n int, rule *policy.Rule, t policy.Type) ([]byte, gateway.Compressed) {
	began, stint := time.Now(), a.effort.Begin(n)
	out, did := a.Seal(rule.WorthFunc(t))
	took := time.Since(began)
	stint.EndOf(a.lowered, took)
	return out, gateway.Compressed{Outcome: did, Setting: a.lowered, Took: took, Spent: took + a.spent}
}

func (a *ahead) arrived(n int) {
	start, stint := time.Now(), a.effort.Begin(n)
	a.Arrived(n)
	stint.End()
	a.spent += time.Since(start)
}

// minStreamedBytes is from where a value that has not arrived as a whole is not waited for.
const minStreamedBytes = 4 << 10

// streamsValue reports that the rest of the request at hand, of which the buffer holds the
// beginning, can go upstream as it arrives: it is a long value at the end of a request that only
// stores it, it is not to be sealed, and begins unlike an envelope. Waiting for all of it would
// cost a copy, and hold up the beginning.
func (b *large) streamsValue() bool {
	p := &b.intake.parser
	n, ok := p.Bulk()
	if !ok || n < minStreamedBytes || len(p.Args) < 2 || p.Argc != len(p.Args)+1 || b.talk.tx.open {
		return false
	}
	buf := b.intake.in.Buffered()
	arg := func(i int) []byte { return buf[p.Args[i].Off : p.Args[i].Off+p.Args[i].Len] }
	cmd := b.intake.rows.lookup(arg(0))
	if cmd.strategy != values || !cmd.args.single || cmd.args.first != len(p.Args) || len(buf) < p.Pos()+len(cinch.Magic) {
		return false
	}
	at := b.seals.address(cmd.args.kind, arg(1), arg(len(p.Args)-1), n)
	return b.seals.rules.Lookup(at) == nil && !cinch.IsSealed(buf[p.Pos():])
}

// streamValue sends the request at hand, byte for byte.
func (b *large) streamValue() error {
	b.talk.begin()
	b.intake.enter()
	defer b.intake.leave()
	n, _ := b.intake.parser.Bulk()
	head := b.intake.in.Buffered()[:b.intake.parser.Pos()]
	var args [2][]byte
	for i := range args {
		args[i] = head[b.intake.parser.Args[i].Off:][:b.intake.parser.Args[i].Len]
	}
	cmd := b.intake.rows.lookup(args[0])
	shape := cmd.reply
	b.intake.parser.Reset()
	b.intake.frame = 0
	if b.talk.subscribed() { // the server refuses it
		shape = shapeNone
	}
	if err := b.talk.expect(entry{shape: shape, op: b.seals.contents(cmd, args[:], shape)}); err != nil {
		return err
	}
	if err := b.talk.up.lend(head); err != nil {
		return err
	}
	b.intake.in.Discard(len(head))
	return b.intake.in.CopyTo(int64(n)+2, b.talk.up.lend)
}
