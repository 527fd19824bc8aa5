package redis

import (
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
)

const (
	// firstPiece of a long argument has room at once, and each further piece growth times as much as
	// has come: so memory follows what comes, and not what is declared.
	firstPiece = 64 << 10
	growth     = 4
)

// gather reads a long argument of n bytes and the line break behind it, for which memory is taken as
// it comes, with the last piece for its sealed form too. When there is none it returns the beginning,
// or, where that is of no use, errNoRoom; the rest is still to be read then. A value is compressed
// while it arrives, by the setting for at; other arguments have no such address.
func (l *largeRequest) gather(n int, at *policy.Address, must bool) (buf []byte, err error) {
	total := n + len(crlf)
	for have := 0; have < total; have = len(buf) {
		size := min(total, max(firstPiece, growth*have))
		if !l.roomFor(n, have, size, must) {
			l.s.g.cfg.Stats.Error("budget")
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
			err = l.s.in.ReadFull(buf[have:])
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
		patience = reservePatience * l.s.g.cfg.Stall
	}
	return l.tryReserve(want, claim, patience)
}

// fillLast reads the rest of an argument, have bytes of which are there, and seals what has arrived of
// it if it is a value for which that is worth it.
func (l *largeRequest) fillLast(buf []byte, have int, at *policy.Address) error {
	const step = codec.FrameBlock
	value := buf[:len(buf)-len(crlf)]
	if at == nil || have < step || !l.sealAhead(value, have, at) {
		return l.s.in.ReadFull(buf[have:])
	}
	for have < len(buf) {
		to := min(have+step, len(buf))
		if err := l.s.in.ReadFull(buf[have:to]); err != nil {
			return err
		}
		have = to
		l.s.ahead.arrived(min(to, len(value)))
	}
	return nil
}

// sealAhead begins to seal a value, have bytes of which have arrived, if it is to be sealed, does not
// look incompressible, and there is budget for the encoder.
func (l *largeRequest) sealAhead(value []byte, have int, at *policy.Address) bool {
	s, begun := l.s, value[:codec.FrameBlock]
	st, rule, left := s.settingOf(*at, begun)
	if rule == nil || left != "" || codec.Incompressible(begun) {
		return false
	}
	n := int64(s.g.sealer.AheadBytes(len(value), st))
	if n == 0 || !s.requestRoom.TryAcquire(n) {
		return false
	}
	l.encoder = n
	a := s.g.sealer.Ahead(gateway.GetBuffer(encodedBytes(st, len(value))), value, st)
	if a == nil {
		return false
	}
	s.ahead = &ahead{Ahead: a}
	s.ahead.arrived(have)
	return true
}
