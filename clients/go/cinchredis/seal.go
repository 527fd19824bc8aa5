package cinchredis

import (
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/policy/published"
)

// sealed is a copy of a command with sealed values, to be sent instead. The caller's command, which may be
// sent again or shared, stays unchanged. The sealed values are in buffers that are reused after answer.
type sealed struct {
	cmd    redis.Cmder
	places []place
	texts  []string // sealed values, by place; go-redis accepts pointers to strings
	buf    []byte
}

const (
	maxKept  = 1 << 20 // largest buffer that is reused, in bytes
	overhead = 512     // bytes that sealing may need in addition to the value's
)

var spare = sync.Pool{New: func() any { return new(sealed) }}

// seal returns a copy of the command with sealed values, nil if that would change nothing, or an error if the
// command is refused.
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

// sealAt seals one value if the policy says so.
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
	if !envelope.IsSealed(s.buf[from:]) {
		s.buf = s.buf[:from]
		return
	}
	if s.cmd == nil {
		s.cmd = cmd.Clone()
	}
	s.texts[i] = stringOf(s.buf[from:])
	s.cmd.Args()[at.at] = &s.texts[i]
}

// sealValue appends the stored form of a value, or nothing if that is the value itself.
func (h *hook) sealValue(to, value []byte, p *policy.Policy, a policy.Address, mayName bool) []byte {
	if p.Excluded(a.Key) {
		return to
	}
	if !policy.NeverSeal(value) {
		if r := p.Lookup(a); r != nil && r.Compresses() && r.MinGain < published.Disabled {
			return h.sealer.Seal(to, value, h.setting(r, mayName), r.SavesEnoughFunc(a.Type))
		}
	}
	if envelope.IsSealed(value) {
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

// answer copies the reply to the caller's command, and releases s.
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

// carries reports whether answer supports the command's type. It supports all types that go-redis uses for
// commands that write values.
func carries(cmd redis.Cmder) bool {
	switch cmd.(type) {
	case *redis.StatusCmd, *redis.StringCmd, *redis.IntCmd, *redis.BoolCmd, *redis.Cmd:
		return true
	}
	return false
}

// isRaw reports whether go-redis does not parse the command's reply.
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
