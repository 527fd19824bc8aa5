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
	spec := &r.cmd.args
	if spec.kind == noValues {
		return s.forward(r, e)
	}
	if r.cmd.name == "set" && !knownSetOptions(r.args[3:]) {
		return s.handled(s.handleUnknown(r)) // a comparison with the stored value, perhaps
	}
	first, ok := spec.locate(r.args)
	if !ok {
		return s.forward(r, e) // the server refuses it
	}
	b := sealing{buf: nil}
	defer b.free()
	for i := first; i < len(r.args); i += spec.stride() {
		s.sealArg(&b, r, i)
	}
	if len(b.at) == 0 {
		return s.forward(r, e)
	}
	if err := s.expect(e); err != nil {
		return err
	}
	return s.sendSealed(r.args, &b)
}

// stride is the distance between values; beyond any request for a single one.
func (a *argValues) stride() int {
	if a.single {
		return 1 << 30
	}
	return a.step
}

// locate returns the index of the first value; ok is false where the server will refuse
// the request.
func (a *argValues) locate(args [][]byte) (first int, ok bool) {
	first = a.first
	if a.stream {
		id, found := entryID(args)
		if !found {
			return 0, false
		}
		first = id + 2
	}
	if first >= len(args) || (a.pairs || a.stream) && (len(args)-first)%2 == 0 {
		return 0, false
	}
	return first, true
}

// entryID returns the index of XADD's id, behind its options.
func entryID(args [][]byte) (int, bool) {
	for i := 2; i < len(args); i++ {
		switch {
		case isWord(args[i], "nomkstream"):
		case isWord(args[i], "limit"):
			i++
		case isWord(args[i], "maxlen"), isWord(args[i], "minid"):
			i++
			if i < len(args) && (string(args[i]) == "=" || string(args[i]) == "~") {
				i++
			}
		default:
			return i, true
		}
	}
	return 0, false
}

// knownSetOptions reports whether the options behind SET's value are those that do not
// look at the stored value.
func knownSetOptions(opts [][]byte) bool {
	for i := 0; i < len(opts); i++ {
		switch {
		case isWord(opts[i], "ex"), isWord(opts[i], "px"), isWord(opts[i], "exat"), isWord(opts[i], "pxat"):
			i++
		case isWord(opts[i], "nx"), isWord(opts[i], "xx"), isWord(opts[i], "get"), isWord(opts[i], "keepttl"):
		default:
			return false
		}
	}
	return true
}

// replyShape is the row's shape, but for commands whose options decide.
func replyShape(r *request) shape {
	switch r.cmd.reply {
	case shapeRandomPairs:
		if len(r.args) != 4 {
			return shapeNone
		}
	case shapeScanPairs:
		if isWord(r.args[len(r.args)-1], "novalues") {
			return shapeNone
		}
	case shapeStreamInfo:
		if !isWord(r.args[1], "stream") {
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

// sealArg seals argument i of r, if the policy and the value say so.
func (s *session) sealArg(b *sealing, r *request, i int) {
	if s.rules().SealsNothing() && !cinch.IsSealed(r.args[i]) {
		return
	}
	kind := r.cmd.args.kind
	a := s.address(kind, r.args[1], r.args[i-1], len(r.args[i]))
	off := len(b.buf)
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
	if rule == nil && !cinch.IsSealed(value) {
		return dst, false
	}
	var worth func(raw, sealed int) bool
	if rule != nil {
		worth = rule.WorthFunc(a.Type)
	}
	out, took, before := s.seal(dst, value, st, worth)
	s.g.cfg.Stats.Latency(took)
	s.countSeal(rule, st.Codec, len(value), out[len(dst):], took+before)
	if rule != nil && s.g.cfg.Sampler != nil {
		s.g.cfg.Sampler.Sample(rule, a.Key, value, len(out)-len(dst))
	}
	if !cinch.IsSealed(out[len(dst):]) {
		return out[:len(dst)], false
	}
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
	if !s.rules().Force && s.g.churn.stopped(a.Key) {
		return codec.Setting{}, rule, "often_inflated"
	}
	st = rule.Setting
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
