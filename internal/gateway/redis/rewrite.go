package redis

import (
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// handleValues seals the values among a request's arguments. A request in which nothing
// is sealed goes as it came.
func (s *session) handleValues(r *request) error {
	e := entry{shape: replyShape(r)}
	if s.readsExcluded(r) {
		e.flags = flagExcluded
	}
	spec := &r.cmd.args
	if spec.kind == noValues {
		return s.forward(r, e)
	}
	compares := false
	if r.cmd.name == "set" {
		known := false
		if known, compares = setOptions(r.args[3:]); !known {
			return s.handled(s.handleUnknown(r))
		}
	}
	at, is := spec.places(r.args, len(r.args))
	switch is {
	case strange:
		return s.handled(s.handleUnknown(r))
	case refused, cutOff:
		return s.forward(r, e)
	}
	b := sealing{buf: nil}
	defer b.free()
	for i := at.first; i < at.end; i += at.step {
		s.sealArg(&b, r, i, at.computed)
	}
	if compares {
		return s.handled(s.handleCompared(&request{cmd: comparedSet, args: b.in(r.args)}))
	}
	if len(b.at) == 0 {
		return s.forward(r, e)
	}
	if err := s.expect(e); err != nil {
		return err
	}
	return s.sendSealed(r.args, &b)
}

// setOptions reports whether the options behind SET's value are known, and whether one of them
// compares the stored value.
func setOptions(opts [][]byte) (known, compares bool) {
	for i := 0; i < len(opts); i++ {
		if isComparison(opts[i]) {
			compares = true
			i++
			continue
		}
		_, n := optionOf(storeOptions, opts[i])
		if n < 0 && !resp.IsWord(opts[i], "get") {
			return false, false
		}
		i += max(n, 0)
	}
	return true, compares
}

// replyShape is the row's shape, but for commands whose options decide.
func replyShape(r *request) shape {
	switch r.cmd.reply {
	case shapeRandomPairs:
		if len(r.args) != 4 {
			return shapeNone
		}
	case shapeScanPairs:
		if resp.IsWord(r.args[len(r.args)-1], "novalues") {
			return shapeNone
		}
	case shapeStreamInfo:
		if !resp.IsWord(r.args[1], "stream") {
			return shapeNone
		}
	}
	return r.cmd.reply
}

// sealing gathers the sealed forms of some arguments of one request.
type sealing struct {
	buf []byte // pooled
	at  []sealedArg
}

type sealedArg struct{ arg, off, end int }

func (b *sealing) free() { gateway.PutBuffer(b.buf) }

// in returns the arguments with the sealed ones in their places.
func (b *sealing) in(args [][]byte) [][]byte {
	out := append(make([][]byte, 0, len(args)), args...)
	for _, at := range b.at {
		out[at.arg] = b.buf[at.off:at.end]
	}
	return out
}

// sealArg seals argument i of r, if the policy and the value say so. With asItIs the policy doesn't.
func (s *session) sealArg(b *sealing, r *request, i int, asItIs bool) {
	if (asItIs || s.rules().SealsNothing()) && !cinch.IsSealed(r.args[i]) {
		return
	}
	kind := r.cmd.args.kind
	a := s.address(kind, r.args[1], r.args[i-1], len(r.args[i]))
	off := len(b.buf)
	if asItIs {
		a = policy.Address{}
	}
	out, sealed := s.sealValue(b.buf, a, r.args[i])
	b.buf = out
	if !sealed {
		return
	}
	b.at = append(b.at, sealedArg{i, off, len(out)})
	if s.tx.open {
		s.tx.remember(out[off:], r.args[i])
	}
}

// address is where a value of size bytes will be stored: key is the request's first key,
// before is the argument in front of the value.
func (s *session) address(kind valueKind, key, before []byte, size int) policy.Address {
	a := policy.Address{Space: s.where(), Key: key, Size: size, Type: policy.String}
	switch kind {
	case stringValues:
		a.Key = before
	case hashValues:
		a.Type, a.Field = policy.Hash, before
	case streamValues:
		a.Type, a.Field = policy.Stream, before
	}
	return a
}

// sealValue appends the envelope of value to dst and reports true, or leaves dst as it
// is. A value that begins with the magic is wrapped whatever the policy says: or it would
// be taken for an envelope when it is read.
func (s *session) sealValue(dst []byte, a policy.Address, value []byte) ([]byte, bool) {
	st, rule := s.setting(a, value)
	if rule == nil && (!cinch.IsSealed(value) || s.keepsLookalike(&a, value)) {
		return dst, false
	}
	var worth func(raw, sealed int) bool
	if rule != nil {
		worth = rule.WorthFunc(a.Type)
	}
	out, took, before := s.seal(dst, value, st, worth)
	s.g.cfg.Stats.Latency(took)
	s.countSeal(rule, st.Codec, len(value), out[len(dst):], took+before)
	if login := s.login(); rule != nil && s.g.cfg.Sampler != nil && login != notSure {
		s.g.cfg.Sampler.Sample(rule, login, a.Key, value, len(out)-len(dst))
	}
	if !cinch.IsSealed(out[len(dst):]) {
		return out[:len(dst)], false
	}
	s.tx.brings = s.tx.open
	return out, true
}

// setting is how the policy wants the value sealed; the rule is nil when it does not.
func (s *session) setting(a policy.Address, value []byte) (codec.Setting, *policy.Rule) {
	st, rule, left := s.settingOf(a, value)
	if left != "" {
		s.g.cfg.Stats.Left(rule.Name, left, len(value))
		return codec.Setting{}, nil
	}
	return st, rule
}

// settingOf is setting without counting: left says why a rule's value is not sealed after all. The
// beginning of a long value is enough.
func (s *session) settingOf(a policy.Address, value []byte) (st codec.Setting, rule *policy.Rule, left string) {
	if rule = s.rules().Lookup(a); rule == nil {
		return codec.Setting{}, nil, ""
	}
	if policy.NeverSeal(value) {
		return codec.Setting{}, rule, "number_or_hyperloglog"
	}
	if a.Type == policy.Hash && s.g.indexes.cover(a.Key) {
		return codec.Setting{}, rule, "indexed"
	}
	if !s.rules().Force && s.g.churn.stopped(a.Key) {
		return codec.Setting{}, rule, "often_inflated"
	}
	st = rule.SettingFor(s.login())
	if st.Dict != 0 && (s.g.cfg.Dicts == nil || !s.g.cfg.Dicts.ReadyOn(st.Dict, s.dialed)) {
		st.Dict = 0
	}
	return st, rule, ""
}

func (s *session) countSeal(rule *policy.Rule, id codec.ID, raw int, stored []byte, d time.Duration) {
	stats := s.g.cfg.Stats
	switch {
	case rule == nil:
		stats.Sealed("escape", codec.Raw, raw, len(stored), d)
	case cinch.IsSealed(stored):
		stats.Sealed(rule.Name, stored2codec(stored, id), raw, len(stored), d)
	default:
		stats.SealTime(rule.Name, id, d)
		stats.Left(rule.Name, leftReason(raw, s.g.cfg.MaxSeal), raw)
	}
}

// stored2codec is the codec that the envelope really has: raw for an escaped value.
func stored2codec(stored []byte, wanted codec.ID) codec.ID {
	if h, err := cinch.ParseHeader(stored); err == nil {
		return h.Codec
	}
	return wanted
}

func leftReason(raw, limit int) string {
	if raw > limit {
		return "too_big"
	}
	return "no_gain"
}

// sendSealed writes a request with the sealed arguments in place of the originals.
func (s *session) sendSealed(args [][]byte, b *sealing) error {
	if err := s.up.write(resp.AppendArray(s.head(), len(args))); err != nil {
		return err
	}
	at := b.at
	for i, a := range args {
		if len(at) > 0 && at[0].arg == i {
			a = b.buf[at[0].off:at[0].end]
			at = at[1:]
		}
		if err := s.sendBulk(a); err != nil {
			return err
		}
	}
	return nil
}
