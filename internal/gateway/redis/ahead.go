package redis

import (
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
)

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
	spent time.Duration // compressing
}

// fillValue reads a value and the line break behind it into buf, as fill does, and seals what has
// arrived of it.
func (l *largeRequest) fillValue(buf []byte, at policy.Address) error {
	const step = codec.FrameBlock
	value := buf[:len(buf)-len(crlf)]
	if len(value) < cinch.MinAhead {
		return l.fill(buf)
	}
	if err := l.fill(buf[:step]); err != nil {
		return err
	}
	if !l.sealAhead(value, at) {
		return l.fill(buf[step:])
	}
	for from := step; from < len(buf); from += step {
		to := min(from+step, len(buf))
		if err := l.fill(buf[from:to]); err != nil {
			return err
		}
		l.s.ahead.arrived(min(to, len(value)))
	}
	return nil
}

// sealAhead begins to seal a value of which the first block has arrived, if it is to be sealed, does
// not look incompressible, and there is budget for the encoder.
func (l *largeRequest) sealAhead(value []byte, at policy.Address) bool {
	s, begun := l.s, value[:codec.FrameBlock]
	st, rule, left := s.settingOf(at, begun)
	if rule == nil || left != "" || codec.Incompressible(begun) {
		return false
	}
	n := int64(s.g.sealer.AheadBytes(len(value), st))
	if n == 0 || !s.g.cfg.Requests.TryAcquire(n) {
		return false
	}
	l.encoder = n
	a := s.g.sealer.Ahead(gateway.GetBuffer(codec.MaxEncodedLen(st.Codec, len(value))+cinch.MaxHeaderLen), value, st)
	if a == nil {
		return false
	}
	s.ahead = &ahead{Ahead: a}
	s.ahead.arrived(len(begun))
	return true
}

// endAhead comes before the value's memory is given back.
func (l *largeRequest) endAhead() {
	if l.s.ahead != nil {
		l.s.ahead.Close()
		l.s.ahead = nil
	}
}

func (a *ahead) arrived(n int) {
	start := time.Now()
	a.Arrived(n)
	a.spent += time.Since(start)
}

// seal appends the sealed form of value to dst, or the value. It tells how long that took, and how
// much of it was done before.
func (s *session) seal(dst, value []byte, st codec.Setting, worth func(raw, sealed int) bool) (out []byte, took, before time.Duration) {
	start := time.Now()
	if a := s.ahead; a != nil && len(dst) == 0 && a.Is(value, st) {
		out, before = a.Seal(worth), a.spent
		gateway.PutBuffer(dst)
	} else {
		if dst == nil {
			dst = gateway.GetBuffer(len(value) + cinch.MaxHeaderLen + 512)
		}
		out = s.g.sealer.Seal(dst, value, st, worth)
	}
	return out, time.Since(start), before
}
