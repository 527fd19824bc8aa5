package redis

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
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

// desk is the part of a session that handles requests which large passes on.
type desk interface {
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
	readPart []byte   // the part of that value that was read before memory ran out
	left     int      // bytes of an argument, with its line break, that were not read for lack of memory

	asTheyAre bool // the server computes on the values, so only those that begin with the magic are changed
}

// request handles the request whose beginning the parser has seen.
func (b *large) request() error {
	if !b.intake.parser.Started {
		return b.desk.failWith("ERR cinch: an inline request is longer than 32 KiB; use the RESP protocol")
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

// takeHead copies the arguments parsed so far out of the buffer.
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
	case l.talk.isStranger(): // the server has its own limits for these
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

// header returns the length of the next argument, reading its header if necessary.
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

// streamRead streams a request that only reads. Its keys decide which values of the reply are unwrapped to
// bare content.
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

// streamKeys sends MGET. Its reply is carried when all keys have been seen.
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
	if errors.Is(err, errNoRoom) { // the server already has the beginning of the request
		return nil, l.desk.failWith("ERR cinch: " + err.Error())
	}
	if err != nil {
		return nil, err
	}
	return key, l.talk.sendBulk(key)
}

// valueByValue compresses values one at a time, each when it has arrived.
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

// locate reads arguments until the positions of the values are known.
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

// sendHave sends an argument that is in memory, compressed if it is a value to compress.
func (l *largeRequest) sendHave(arg []byte, isValue bool, key, before []byte) error {
	if !isValue {
		return l.talk.sendBulk(arg)
	}
	at := l.seals.address(l.cmd.args.kind, key, before, len(arg))
	out, sealed := l.seals.sealValue(nil, &at, arg, l.asTheyAre)
	defer memory.PutBuffer(out)
	if sealed {
		arg = out
		l.talk.tx.brings = l.talk.tx.brings || l.talk.tx.open
	}
	return l.talk.sendBulk(arg)
}

// sendNext reads and sends the next argument. It returns it, unless it was a value or too long to keep.
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
		memory.PutBuffer(arg)
		return nil, err
	}
	return arg, err
}

// mayHold decides whether a long value of n bytes, whose header has been read, is held to be compressed or
// observed. It is not if it is too long or no rule covers its key. must is set if it begins with the magic,
// so that it has to be held.
func (l *largeRequest) mayHold(n int, key []byte) (hold, must bool, err error) {
	if n > l.seals.vault.maxSeal {
		return false, false, nil
	}
	head, err := l.intake.in.Peek(len(cinch.Magic))
	if err != nil {
		return false, false, err
	}
	if cinch.IsSealed(head) { // must be wrapped
		return true, true, nil
	}
	return !l.asTheyAre && l.seals.rules.MaySeal(l.talk.st.where(), key, true), false, nil
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
	defer l.endAhead()
	addr := l.seals.address(l.cmd.args.kind, key, before, n)
	buf, err := l.gather(n, &addr, must)
	defer func() { memory.PutBuffer(buf) }()
	switch {
	case errors.Is(err, errNoRoom): // the server already has the beginning of the request
		return l.desk.failWith("ERR cinch: " + err.Error())
	case err != nil:
		return err
	case len(buf) < n+len(crlf):
		return l.streamRest(n, buf)
	}
	return l.sendHave(buf[:n], true, key, before)
}

// streamRest sends a value of n bytes unchanged, part of which has been read.
func (l *largeRequest) streamRest(n int, part []byte) error {
	if err := l.talk.up.write(resp.AppendBulkHeader(l.talk.head(), n)); err != nil {
		return err
	}
	if err := l.talk.up.write(part); err != nil {
		return err
	}
	return l.intake.in.CopyTo(int64(n+len(crlf)-len(part)), l.talk.up.lend)
}

// streamUnsealed sends an argument without compressing it. A value must not begin with the magic then, since
// wrapping needs all of it. The server gets the length first, because it may refuse that before any byte of
// the value arrives.
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
		return l.desk.failWith(fmt.Sprintf("ERR cinch: a value that begins like an envelope is limited to %d bytes (max_seal), this one has %d", l.seals.vault.maxSeal, n))
	}
	return l.streamBody(n)
}

// read reads a short argument into a pooled buffer.
func (l *largeRequest) read(n int) ([]byte, error) {
	buf := memory.GetBuffer(n + 2)[:n+2]
	if err := l.intake.in.ReadFull(buf); err != nil {
		memory.PutBuffer(buf)
		return nil, err
	}
	return buf[:n], nil
}

// reserve takes n bytes of the budget. It waits a limited time for them.
func (l *largeRequest) reserve(n int64) error {
	if l.tryReserve(n, n, reservePatience*l.stash.stall) {
		return nil
	}
	l.seals.vault.Stats.Error("budget")
	return errNoRoom
}

// tryReserve takes n bytes now, of claim that will be needed, and reports whether it got them.
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

// collect reads the whole request and handles it like a small one. A value that is too long is streamed if
// that is possible; the request is refused otherwise.
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

// take reads the next argument into args. It leaves a long value of a command that only stores it at its
// header if the value can't be compressed.
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

// takeSmall reads an argument into memory shared with others.
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
	smallArgBytes    = 128 // overhead, including copies that guards make
)

// streamSingle sends SET or a similar command with a value that is not compressed.
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

// maxWordBytes is longer than any option.
const maxWordBytes = 32

// sendOption sends an argument behind a value that was too long to hold. An option that compares the stored
// value comes too late: that would have to be decompressed in place before.
func (l *largeRequest) sendOption(n int) error {
	word, err := l.read(n)
	if err != nil {
		return err
	}
	defer memory.PutBuffer(word)
	if isComparison(word) && !excluded(l.seals.rules, l.args[1:2]) {
		return l.desk.failWith(fmt.Sprintf("ERR cinch: SET with %s is limited to values of %d bytes (max_seal)", word, l.seals.vault.maxSeal))
	}
	return l.talk.sendBulk(word)
}

// giveUp discards the rest of a request that can't be collected, and refuses the request.
func (l *largeRequest) giveUp(cause error) error {
	if errors.Is(cause, resp.ErrProtocol) { // the server gets all of it and reports the error
		_ = l.talk.up.write(resp.AppendArray(l.talk.head(), l.argc)) // an error is returned at the end, too
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

// gather reads a long argument of n bytes and its line break. It reserves memory as the argument arrives,
// with the last piece also for its envelope. Without memory it returns the beginning, or, if must is set,
// errNoRoom; the rest is still unread then. A value is compressed while it arrives, with the setting for
// address at; at is nil for other arguments.
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
			memory.PutBuffer(buf)
			return nil, errNoRoom
		}
		grown := append(memory.GetBuffer(size), buf...)
		memory.PutBuffer(buf)
		buf = grown[:size]
		if size == total {
			err = l.fillLast(buf, have, at)
		} else {
			err = l.intake.in.ReadFull(buf[have:])
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
		patience = reservePatience * l.stash.stall
	}
	return l.tryReserve(want, claim, patience)
}

// fillLast reads the rest of an argument after its first have bytes. If it is a value worth it, it is
// compressed while it arrives.
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

// sealAhead starts compressing a value of which have bytes have arrived. It reports false if the value is not
// to be compressed, looks incompressible, or there is no budget for the encoder.
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
	buf := memory.GetBuffer(cinch.MaxSealedLen(st, len(value)))
	a := l.seals.vault.Sealer.Ahead(buf, value, st)
	if a == nil {
		memory.PutBuffer(buf)
		return false
	}
	l.seals.ahead = &ahead{Ahead: a, effort: effort, wanted: wanted, lowered: st}
	l.seals.ahead.arrived(have)
	return true
}

// endAhead must be called before the value's memory is released.
func (l *largeRequest) endAhead() {
	if l.seals.ahead != nil {
		l.seals.ahead.Close()
		l.seals.ahead = nil
	}
}

// A long value is compressed by zstd while it arrives, block by block between reads. The kernel receives more
// bytes meanwhile, so that after the last byte only one block is left to compress, not the whole value. The
// reading goroutine does it: handing blocks to another one would save the time of copying them from the
// kernel, a tenth of what compressing takes.
//
// Nothing is sent early, since the envelope's length comes first, and the value stays in memory: if
// compressing it gains nothing, or its command turns out to need something else, it is sent unchanged.

// ahead compresses the current value while it arrives.
type ahead struct {
	*cinch.Ahead
	effort          *gateway.Effort
	wanted, lowered codec.Setting // the rule's setting, and the one used
	spent           time.Duration // time spent compressing
}

// is reports whether value is the one being compressed and wanted is the setting that was given for it.
func (a *ahead) is(value []byte, wanted codec.Setting) bool {
	return a.wanted == wanted && a.Is(value, a.lowered)
}

// seal is like gateway.Compressor.Compress for the value of n bytes, most of which is compressed already.
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

// minStreamedBytes is the shortest value that is streamed before it has arrived completely.
const minStreamedBytes = 4 << 10

// streamsValue reports whether the rest of the request, of which the buffer holds the beginning, can be sent
// while it arrives: it is a long value at the end of a request that only stores it, is not to be compressed,
// and does not begin with the magic. Collecting it would cost a copy and delay its beginning.
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

// streamValue sends the current request byte for byte.
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
