package redis

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// large handles requests that do not fit the buffer.
type large struct {
	reader   *requestReader
	upstream *upstreamWriter
	rewriter *valueRewriter
	decoded  *decodeBuffer
	handler  requestHandler
}

// requestHandler is the part of a session that handles requests which large passes on.
type requestHandler interface {
	handleCollected([][]byte) error // a request that is complete in memory
	failWith(text string) error     // ends the session; the server has the beginning of the request
	passProtocolError() error       // lets the server send the error
}

// Requests that do not fit the buffer are handled in one of three ways, by the row of their command:
//
//   - streamed: it has nothing to compress, or a value longer than MaxSeal
//   - value by value: MSET, HSET, XADD; one value is in memory at a time
//   - collected: the whole request is needed before anything can be sent
//
// Memory is taken from the request budget before it is used.

// maxCollected limits the bytes collected of one request, beyond the longest value that is compressed and its
// envelope.
const maxCollected = 32 << 20

// largeRequest is the current request.
type largeRequest struct {
	*large
	cmd      *command
	argc     int
	args     [][]byte // complete arguments so far, in memory of their own
	pending  int      // length of the argument whose header has been read; -1: none
	held     int64    // bytes of the request budget
	encoder  int64    // bytes of the request budget for compressing a value while it arrives
	owed     int64    // bytes of small arguments not taken from the budget yet
	arena    []byte   // free memory for small arguments
	unsealed bool     // the value whose header is pending is sent unchanged
	partial  []byte   // the part of that value that was read before memory ran out
	unread   int      // bytes of an argument, with its line break, that were not read for lack of memory

	computed bool // the server computes on the values, so only those that begin with the magic are changed
}

// request handles the request whose beginning the parser has seen.
func (b *large) request() error {
	if !b.reader.parser.Started {
		return b.handler.failWith("ERR cinch: an inline request is longer than 32 KiB; use the RESP protocol")
	}
	b.upstream.beginRequest()
	b.reader.enter()
	defer b.reader.leave()
	l := &largeRequest{large: b, argc: b.reader.parser.Argc, pending: -1}
	defer l.release()
	defer l.closeAhead()
	l.copyParsed()
	b.reader.frame = 0
	l.cmd = unknownCommand
	if len(l.args) > 0 {
		l.cmd = b.reader.rows.table.lookup(l.args[0])
	}
	err := l.run()
	b.reader.parser.Reset()
	if errors.Is(err, resp.ErrProtocol) {
		return b.handler.passProtocolError()
	}
	return err
}

// copyParsed copies the arguments parsed so far out of the buffer.
func (l *largeRequest) copyParsed() {
	p := &l.reader.parser
	buf := l.reader.in.Buffered()
	for _, sp := range p.Args {
		l.args = append(l.args, append([]byte{}, buf[sp.Off:sp.Off+sp.Len]...))
	}
	if n, ok := p.Bulk(); ok {
		l.pending = n
	}
	l.reader.in.Discard(p.Pos())
}

func (l *largeRequest) run() error {
	switch {
	case l.upstream.isUnauthenticated(): // the server has its own limits for unauthenticated clients
		return l.stream(entry{})
	case len(l.args) == 0, !l.cmd.accepts(l.argc), l.cmd.strategy == verbatim,
		l.upstream.isSubscriber() && l.cmd.strategy != controls:
		return l.stream(entry{})
	case l.cmd.strategy == values && l.cmd.args.kind == noValues && l.rewriter.rules.HasToPlain():
		return l.streamRead()
	case l.cmd.strategy == values && l.cmd.args.kind == noValues:
		return l.stream(entry{shape: l.cmd.reply})
	case l.cmd.strategy == values && !l.cmd.args.single:
		return l.valueByValue()
	}
	return l.collect()
}

// header returns the length of the next argument, reading its header if necessary.
func (l *largeRequest) header() (int, error) {
	if n := l.pending; n >= 0 {
		l.pending = -1
		return n, nil
	}
	n, err := l.reader.in.BulkHeader()
	return int(n), err
}

// stream sends the request as it arrives.
func (l *largeRequest) stream(e entry) error {
	if err := l.begin(e); err != nil {
		return err
	}
	for _, a := range l.args {
		_ = l.upstream.sendBulk(a)
	}
	if l.upstream.out.err != nil {
		return l.upstream.out.err
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
	if err := l.upstream.expect(e); err != nil {
		return err
	}
	return l.upstream.out.write(resp.AppendArray(l.upstream.head(), l.argc))
}

// streamArg sends an argument of n bytes, whose header has been read.
func (l *largeRequest) streamArg(n int) error {
	if err := l.upstream.out.write(resp.AppendBulkHeader(l.upstream.head(), n)); err != nil {
		return err
	}
	return l.streamBody(n)
}

func (l *largeRequest) streamBody(n int) error {
	return l.reader.in.CopyTo(int64(n)+2, l.upstream.out.lend)
}

// streamRead streams a request that only reads. Its keys decide which values of the reply are unwrapped to
// bare content.
func (l *largeRequest) streamRead() error {
	if l.cmd.name == "mget" {
		return l.streamKeys()
	}
	for len(l.args) < min(2, l.argc) {
		if err := l.readArg(); err != nil {
			return l.giveUp(err)
		}
	}
	return l.stream(entry{shape: l.cmd.reply, data: l.rewriter.contents(l.cmd, l.args, l.cmd.reply)})
}

// streamKeys sends MGET. Its reply is carried when all keys have been seen.
func (l *largeRequest) streamKeys() error {
	o := &entryData{size: sliceBytes * l.argc, seen: make(chan struct{})}
	defer close(o.seen)
	if err := l.begin(entry{shape: l.cmd.reply, data: o}); err != nil {
		return err
	}
	for i := range l.argc {
		var key []byte
		var err error
		if i < len(l.args) {
			key, err = l.args[i], l.upstream.sendBulk(l.args[i])
		} else {
			key, err = l.sendKey()
		}
		if err != nil {
			return err
		}
		if i > 0 {
			o.contents = l.rewriter.noteKey(o.contents, key, i-1, l.argc-1)
		}
		if i >= len(l.args) {
			memory.PutBuffer(key)
			l.release()
		}
	}
	return nil
}

// sendKey reads and sends the next argument, whatever its length. The caller owns the returned buffer.
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
	if errors.Is(err, errNoMemory) { // the server already has the beginning of the request
		return nil, l.handler.failWith("ERR cinch: " + err.Error())
	}
	if err != nil {
		return nil, err
	}
	return key, l.upstream.sendBulk(key)
}

// valueByValue compresses values one at a time, each when it has arrived.
func (l *largeRequest) valueByValue() error {
	at, is, err := l.locate(&l.cmd.args)
	switch {
	case err != nil:
		return l.giveUp(err)
	case is == unknownOptions:
		return l.collect()
	case is == refused:
		return l.stream(entry{})
	}
	if err := l.begin(entry{shape: l.cmd.reply}); err != nil {
		return err
	}
	l.computed, l.rewriter.compressTime = at.computed, 0
	var key, before []byte
	for i := range l.argc {
		isValue := at.holds(i)
		var arg []byte
		if i < len(l.args) {
			arg, err = l.args[i], l.sendBuffered(l.args[i], isValue, key, before)
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
	if l.rewriter.compressTime > 0 {
		l.rewriter.codec.Stats.Latency(l.rewriter.compressTime)
	}
	return nil
}

// locate reads arguments until the positions of the values are known.
func (l *largeRequest) locate(spec *argValues) (at valuePositions, is positionStatus, err error) {
	for {
		if at, is = spec.positions(l.args, l.argc); is != needMore {
			return at, is, nil
		}
		if err := l.readArg(); err != nil {
			return at, is, err
		}
	}
}

// sendBuffered sends an argument that is in memory, compressed if it is a value to compress.
func (l *largeRequest) sendBuffered(arg []byte, isValue bool, key, before []byte) error {
	if !isValue {
		return l.upstream.sendBulk(arg)
	}
	at := l.rewriter.address(l.cmd.args.kind, key, before, len(arg))
	out, sealed := l.rewriter.sealValue(nil, &at, arg, l.computed)
	defer memory.PutBuffer(out)
	if sealed {
		arg = out
		l.upstream.tx.mayAddEnvelope = l.upstream.tx.mayAddEnvelope || l.upstream.tx.open
	}
	return l.upstream.sendBulk(arg)
}

// sendNext reads and sends the next argument. It returns the argument, unless that was a value or too long to keep.
func (l *largeRequest) sendNext(isValue bool, key, before []byte) ([]byte, error) {
	n, err := l.header()
	if err != nil {
		return nil, err
	}
	if isValue && n > l.rewriter.codec.maxSeal || !isValue && n > freeBytes {
		return nil, l.streamUnsealed(n, isValue)
	}
	if isValue && n > freeBytes {
		return nil, l.sealOrStream(n, key, before)
	}
	arg, err := l.read(n)
	if err != nil {
		return nil, err
	}
	err = l.sendBuffered(arg, isValue, key, before)
	if isValue {
		memory.PutBuffer(arg)
		return nil, err
	}
	return arg, err
}

// mayHold decides whether a long value of n bytes, whose header has been read, is held in memory to be compressed or
// observed. A value that is too long, or whose key no rule covers, is not held. must is set if the value has to be
// held because it begins with the magic.
func (l *largeRequest) mayHold(n int, key []byte) (hold, must bool, err error) {
	if n > l.rewriter.codec.maxSeal {
		return false, false, nil
	}
	head, err := l.reader.in.Peek(len(envelope.Magic))
	if err != nil {
		return false, false, err
	}
	if envelope.IsSealed(head) { // must be wrapped
		return true, true, nil
	}
	return !l.computed && l.rewriter.rules.MaySeal(l.upstream.state.database(), key, true), false, nil
}

// sealOrStream compresses a long value of n bytes, or sends it unchanged.
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
	defer l.closeAhead()
	addr := l.rewriter.address(l.cmd.args.kind, key, before, n)
	buf, err := l.gather(n, &addr, must)
	defer func() { memory.PutBuffer(buf) }()
	switch {
	case errors.Is(err, errNoMemory): // the server already has the beginning of the request
		return l.handler.failWith("ERR cinch: " + err.Error())
	case err != nil:
		return err
	case len(buf) < n+len(crlf):
		return l.streamRest(n, buf)
	}
	return l.sendBuffered(buf[:n], true, key, before)
}

// streamRest sends a value of n bytes unchanged, part of which has been read.
func (l *largeRequest) streamRest(n int, part []byte) error {
	if err := l.upstream.out.write(resp.AppendBulkHeader(l.upstream.head(), n)); err != nil {
		return err
	}
	if err := l.upstream.out.write(part); err != nil {
		return err
	}
	return l.reader.in.CopyTo(int64(n+len(crlf)-len(part)), l.upstream.out.lend)
}

// streamUnsealed sends an argument without compressing it. A value must not begin with the magic then, since
// wrapping needs all of it. The server gets the length first, because it may refuse that before any byte of
// the value arrives.
func (l *largeRequest) streamUnsealed(n int, isValue bool) error {
	switch {
	case isValue && l.partial != nil:
		return l.streamRest(n, l.partial)
	case !isValue || n < len(envelope.Magic):
		return l.streamArg(n)
	}
	if err := l.upstream.out.write(resp.AppendBulkHeader(l.upstream.head(), n)); err != nil {
		return err
	}
	head, err := l.reader.in.Peek(len(envelope.Magic))
	if err != nil {
		return err
	}
	if envelope.IsSealed(head) {
		l.rewriter.codec.Stats.Error("unsealable")
		return l.handler.failWith(fmt.Sprintf("ERR cinch: a value that begins like an envelope is limited to %d bytes (max_seal), this one has %d", l.rewriter.codec.maxSeal, n))
	}
	return l.streamBody(n)
}

// read reads a short argument into a pooled buffer.
func (l *largeRequest) read(n int) ([]byte, error) {
	buf := memory.GetBuffer(n + 2)[:n+2]
	if err := l.reader.in.ReadFull(buf); err != nil {
		memory.PutBuffer(buf)
		return nil, err
	}
	return buf[:n], nil
}

// reserve takes n bytes of the budget. It waits a limited time for them.
func (l *largeRequest) reserve(n int64) error {
	if l.tryReserve(n, n, reservePatience*l.decoded.stall) {
		return nil
	}
	l.rewriter.codec.Stats.Error("budget")
	return errNoMemory
}

// tryReserve takes n bytes of the budget, waits for them at most patience, and reports whether it got them. claim is
// how many bytes will be needed, n included.
func (l *largeRequest) tryReserve(n, claim int64, patience time.Duration) bool {
	if !l.decoded.acquire(n, claim, patience) {
		return false
	}
	l.held += n
	return true
}

func (l *largeRequest) release() {
	l.upstream.life.Requests.Release(l.held)
	l.upstream.life.Requests.Release(l.encoder)
	l.held, l.encoder = 0, 0
}

// collect reads the whole request and handles it like a small one. A value that is too long is streamed if
// that is possible; the request is refused otherwise.
func (l *largeRequest) collect() error {
	for len(l.args) < l.argc {
		if l.unsealed {
			return l.streamSingle()
		}
		if err := l.readArg(); err != nil {
			return l.giveUp(err)
		}
	}
	return l.handler.handleCollected(l.args)
}

// readArg reads the next argument into args. If that is the long value of a command that only stores it, and the value
// will not be compressed, readArg stops behind its header and sets unsealed.
func (l *largeRequest) readArg() error {
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
	if !isValue && int64(n)+l.held > int64(l.rewriter.codec.maxSeal)*2+maxCollected || l.argc > maxCollectedArgs {
		l.pending = n
		return errTooLong
	}
	if n <= freeBytes {
		return l.readSmallArg(n)
	}
	var at *policy.Address
	if isValue {
		a := l.rewriter.address(l.cmd.args.kind, l.args[1], l.args[len(l.args)-1], n)
		at = &a
	}
	arg, err := l.gather(n, at, must)
	switch {
	case err != nil:
		return err
	case len(arg) < n+len(crlf):
		l.partial, l.pending, l.unsealed = arg, n, true
		return nil
	}
	l.args = append(l.args, arg[:n])
	return nil
}

// readSmallArg reads an argument into memory shared with others.
func (l *largeRequest) readSmallArg(n int) error {
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
	return l.reader.in.ReadFull(arg)
}

const (
	maxCollectedArgs = 64 << 10
	arenaBytes       = 16 << 10
	smallArgBytes    = 128 // overhead per argument, including copies that guards make
)

// streamSingle sends SET or a similar command with a value that is not compressed.
func (l *largeRequest) streamSingle() error {
	if err := l.begin(entry{shape: l.cmd.reply, data: l.rewriter.contents(l.cmd, l.args, l.cmd.reply)}); err != nil {
		return err
	}
	for _, a := range l.args {
		_ = l.upstream.sendBulk(a)
	}
	if l.upstream.out.err != nil {
		return l.upstream.out.err
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

// maxWordBytes is longer than any option.
const maxWordBytes = 32

// sendOption sends an argument behind a value that was too long to hold. An option that compares the stored
// value comes too late: the stored value would have to be decompressed in place before the request is sent.
func (l *largeRequest) sendOption(n int) error {
	word, err := l.read(n)
	if err != nil {
		return err
	}
	defer memory.PutBuffer(word)
	if isComparison(word) && !excluded(l.rewriter.rules, l.args[1:2]) {
		return l.handler.failWith(fmt.Sprintf("ERR cinch: SET with %s is limited to values of %d bytes (max_seal)", word, l.rewriter.codec.maxSeal))
	}
	return l.upstream.sendBulk(word)
}

// giveUp discards the rest of a request that can't be collected, and refuses the request.
func (l *largeRequest) giveUp(cause error) error {
	if errors.Is(cause, resp.ErrProtocol) { // the server gets all of it and reports the error
		_ = l.upstream.out.write(resp.AppendArray(l.upstream.head(), l.argc)) // an error is returned at the end, too
		for _, a := range l.args {
			_ = l.upstream.sendBulk(a)
		}
		return cmp.Or(l.upstream.out.err, cause)
	}
	if !errors.Is(cause, errTooLong) && !errors.Is(cause, errNoMemory) {
		return cause
	}
	args := l.args
	l.args = nil
	l.closeAhead()
	l.release()
	missing := l.argc - len(args)
	if l.unread > 0 {
		missing--
		if err := l.reader.in.CopyTo(int64(l.unread), discardBytes); err != nil {
			return err
		}
	}
	for range missing {
		n, err := l.header()
		if err == nil {
			err = l.reader.in.CopyTo(int64(n)+2, discardBytes)
		}
		if errors.Is(err, resp.ErrProtocol) { // without an array, the server would take the header for an inline command
			_ = l.upstream.out.write(resp.AppendArray(l.upstream.head(), 1)) // an error is returned later, too
		}
		if err != nil {
			return err
		}
	}
	return l.upstream.refuse("ERR cinch: " + l.cmd.name + ": " + cause.Error())
}

// gather reads a long argument of n bytes and its line break. It reserves memory as the argument arrives,
// with the last piece also for its envelope. Without memory it returns the beginning, or, if must is set,
// errNoMemory; the rest is still unread then. A value is compressed while it arrives, with the setting for
// address at; at is nil for other arguments.
func (l *largeRequest) gather(n int, at *policy.Address, must bool) (buf []byte, err error) {
	total := n + len(crlf)
	for have := 0; have < total; have = len(buf) {
		size := min(total, max(firstPiece, growth*have))
		if !l.roomFor(n, have, size, must) {
			l.rewriter.codec.Stats.Error("budget")
			if !must {
				return buf, nil
			}
			l.unread = total - have
			memory.PutBuffer(buf)
			return nil, errNoMemory
		}
		grown := append(memory.GetBuffer(size), buf...)
		memory.PutBuffer(buf)
		buf = grown[:size]
		if size == total {
			err = l.fillLast(buf, have, at)
		} else {
			err = l.reader.in.ReadFull(buf[have:])
		}
		if err != nil {
			memory.PutBuffer(buf)
			return nil, err
		}
	}
	return buf, nil
}

// roomFor reserves budget for the piece of an argument of n bytes that ends at size.
func (l *largeRequest) roomFor(n, have, size int, must bool) bool {
	want, claim := int64(size-have), int64(2*n-have)
	if size > n {
		want = claim
	}
	patience := sealPatience
	if must {
		patience = reservePatience * l.decoded.stall
	}
	return l.tryReserve(want, claim, patience)
}

// minStreamedBytes is the shortest value that is streamed before it has arrived completely.
const minStreamedBytes = 4 << 10

// canStreamValue reports whether the rest of the request, of which the buffer holds the beginning, can be sent
// while it arrives: it is a long value at the end of a request that only stores it, is not to be compressed,
// and does not begin with the magic. Collecting it would cost a copy and delay its beginning.
func (b *large) canStreamValue() bool {
	p := &b.reader.parser
	n, ok := p.Bulk()
	if !ok || n < minStreamedBytes || len(p.Args) < 2 || p.Argc != len(p.Args)+1 || b.upstream.tx.open {
		return false
	}
	buf := b.reader.in.Buffered()
	arg := func(i int) []byte { return buf[p.Args[i].Off : p.Args[i].Off+p.Args[i].Len] }
	cmd := b.reader.rows.lookup(arg(0))
	if cmd.strategy != values || !cmd.args.single || cmd.args.first != len(p.Args) || len(buf) < p.Pos()+len(envelope.Magic) {
		return false
	}
	at := b.rewriter.address(cmd.args.kind, arg(1), arg(len(p.Args)-1), n)
	return b.rewriter.rules.Lookup(at) == nil && !envelope.IsSealed(buf[p.Pos():])
}

// streamValue sends the current request byte for byte.
func (b *large) streamValue() error {
	b.upstream.beginRequest()
	b.reader.enter()
	defer b.reader.leave()
	n, _ := b.reader.parser.Bulk()
	head := b.reader.in.Buffered()[:b.reader.parser.Pos()]
	var args [2][]byte
	for i := range args {
		args[i] = head[b.reader.parser.Args[i].Off:][:b.reader.parser.Args[i].Len]
	}
	cmd := b.reader.rows.lookup(args[0])
	shape := cmd.reply
	b.reader.parser.Reset()
	b.reader.frame = 0
	if b.upstream.isSubscriber() { // the server refuses it
		shape = shapeNone
	}
	if err := b.upstream.expect(entry{shape: shape, data: b.rewriter.contents(cmd, args[:], shape)}); err != nil {
		return err
	}
	if err := b.upstream.out.lend(head); err != nil {
		return err
	}
	b.reader.in.Discard(len(head))
	return b.reader.in.CopyTo(int64(n)+2, b.upstream.out.lend)
}
