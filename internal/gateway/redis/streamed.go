package redis

import "github.com/cinch-layer/cinch"

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
	b.seals.rules = b.seals.vault.rules()
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
