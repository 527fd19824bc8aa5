package redis

import "github.com/cinch-layer/cinch"

// streamsValue reports that the rest of the request at hand, of which the buffer holds the
// beginning, can go upstream as it arrives: it is a long value at the end of a request that only
// stores it, it is not to be sealed, and begins unlike an envelope. Waiting for all of it would
// cost a copy, and hold up the beginning.
func (s *session) streamsValue() bool {
	p := &s.parser
	n, ok := p.Bulk()
	if !ok || n < minStreamedBytes || len(p.Args) < 2 || p.Argc != len(p.Args)+1 || s.tx.open {
		return false
	}
	buf := s.in.Buffered()
	arg := func(i int) []byte { return buf[p.Args[i].Off : p.Args[i].Off+p.Args[i].Len] }
	cmd := s.lookup(arg(0))
	if cmd.strategy != values || !cmd.args.single || cmd.args.first != len(p.Args) || len(buf) < p.Pos()+len(cinch.Magic) {
		return false
	}
	at := s.address(cmd.args.kind, arg(1), arg(len(p.Args)-1), n)
	return s.rules().Lookup(at) == nil && !cinch.IsSealed(buf[p.Pos():])
}

// minStreamedBytes is from where a value that has not arrived as a whole is not waited for.
const minStreamedBytes = 4 << 10

// streamValue sends the request at hand, byte for byte.
func (s *session) streamValue() error {
	s.beginRequest()
	s.inside, s.looked = true, false
	defer s.leave()
	n, _ := s.parser.Bulk()
	head := s.in.Buffered()[:s.parser.Pos()]
	shape := s.lookup(head[s.parser.Args[0].Off:][:s.parser.Args[0].Len]).reply
	s.parser.Reset()
	s.frame = 0
	if s.subscribed() { // the server refuses it
		shape = shapeNone
	}
	if err := s.expect(entry{shape: shape}); err != nil {
		return err
	}
	if err := s.up.lend(head); err != nil {
		return err
	}
	s.in.Discard(len(head))
	return s.in.CopyTo(int64(n)+2, s.up.lend)
}
