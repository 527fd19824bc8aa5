package cinchredis

import (
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/agreed"
	"github.com/cinch-layer/cinch/internal/policy"
)

// sealed is a copy of a command with its values sealed, to be sent in its place: the caller's own, which it may send again or share, stays
// as it is. What is sealed lies in buffers that are used again after answer.
type sealed struct {
	cmd    redis.Cmder
	places []place
	texts  []string // what was sealed, by place: go-redis takes pointers to strings
	buf    []byte
}

const (
	maxKept  = 1 << 20 // bytes of a buffer that is used again
	overhead = 512     // bytes that sealing may need beside the value's own
)

var spare = sync.Pool{New: func() any { return new(sealed) }}

// seal returns a copy of the command with its values sealed, nil if that would change nothing, or why it is refused.
func (h *hook) seal(cmd redis.Cmder) (*sealed, error) {
	p, mayName := h.keeper.current()
	if isRaw(cmd) {
		return nil, refuseRaw(cmd)
	}
	if key, does := computesOn(p, h.keeper.space, cmd); does {
		return nil, refuseComputation(cmd, key)
	}
	find := writes[cmd.Name()]
	if find == nil {
		return nil, nil
	}
	s := spare.Get().(*sealed)
	s.places = find(s.places[:0], cmd.Args())
	s.texts = slices.Grow(s.texts[:0], len(s.places))[:len(s.places)]
	for i, at := range s.places {
		h.sealAt(s, i, at, cmd, p, mayName)
	}
	if s.cmd == nil {
		s.release()
		return nil, nil
	}
	if !carries(cmd) {
		s.release()
		return nil, refuseCarrier(cmd)
	}
	return s, nil
}

// sealAt seals one value, if it is to be.
func (h *hook) sealAt(s *sealed, i int, at place, cmd redis.Cmder, p *policy.Policy, mayName bool) {
	args := cmd.Args()
	value, ok := payload(args[at.at])
	if !ok {
		return
	}
	a := policy.Address{Space: h.keeper.space, Key: bytesOf(word(args[at.key])), Type: at.kind, Size: len(value)}
	if at.field > 0 {
		a.Field = bytesOf(word(args[at.field]))
	}
	from := len(s.buf)
	s.buf = h.sealValue(slices.Grow(s.buf, len(value)+overhead), value, p, a, mayName)
	if !cinch.IsSealed(s.buf[from:]) {
		s.buf = s.buf[:from]
		return
	}
	if s.cmd == nil {
		s.cmd = cmd.Clone()
	}
	s.texts[i] = stringOf(s.buf[from:])
	s.cmd.Args()[at.at] = &s.texts[i]
}

// sealValue appends a value as it is to be stored, or nothing if that is as it is.
func (h *hook) sealValue(to, value []byte, p *policy.Policy, a policy.Address, mayName bool) []byte {
	if p.Excluded(a.Key) {
		return to
	}
	if !policy.NeverSeal(value) {
		if r := p.Lookup(a); r != nil && r.Seals() && r.MinGain < agreed.NothingGains {
			return h.sealer.Seal(to, value, h.setting(r, mayName), r.WorthFunc(a.Type))
		}
	}
	if cinch.IsSealed(value) {
		return h.sealer.Escape(to, value)
	}
	return to
}

func (h *hook) setting(r *policy.Rule, mayName bool) codec.Setting {
	st := r.Setting
	if st.Dict != 0 && (!mayName || !h.keeper.holds(st.Dict)) {
		st.Dict = 0
	}
	return st
}

// answer gives the reply to the caller's command, and ends the use of s.
func (s *sealed) answer(cmd redis.Cmder) {
	switch c := cmd.(type) {
	case *redis.StatusCmd:
		c.SetVal(s.cmd.(*redis.StatusCmd).Val())
	case *redis.StringCmd:
		c.SetVal(s.cmd.(*redis.StringCmd).Val())
	case *redis.IntCmd:
		c.SetVal(s.cmd.(*redis.IntCmd).Val())
	case *redis.BoolCmd:
		c.SetVal(s.cmd.(*redis.BoolCmd).Val())
	case *redis.Cmd:
		c.SetVal(s.cmd.(*redis.Cmd).Val())
	}
	s.release()
}

// carries reports whether answer knows the command's type: all that go-redis has for commands that write values.
func carries(cmd redis.Cmder) bool {
	switch cmd.(type) {
	case *redis.StatusCmd, *redis.StringCmd, *redis.IntCmd, *redis.BoolCmd, *redis.Cmd:
		return true
	}
	return false
}

// isRaw: commands whose replies go-redis does not read.
func isRaw(cmd redis.Cmder) bool {
	switch cmd.(type) {
	case *redis.RawCmd, *redis.RawWriteToCmd:
		return true
	}
	return false
}

func (s *sealed) release() {
	clear(s.texts)
	s.cmd = nil
	if s.buf = s.buf[:0]; cap(s.buf) > maxKept {
		s.buf = nil
	}
	spare.Put(s)
}
