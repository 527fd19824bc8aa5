package redis

import (
	"bytes"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// valueRewriter decides which values of one client are compressed, and how.
type valueRewriter struct {
	codec        *valueCodec
	rules        *policy.Policy // the snapshot that the current request took
	state        *sessionState
	ahead        *aheadSealer  // the value of the current large request, compressed while it arrived
	trace        *tracing      // nil: not traced
	compressTime time.Duration // time spent compressing the values of the current request
}

// setOptions reports whether the options behind SET's value are known, whether one compares the stored value,
// and whether the reply contains it.
func setOptions(opts [][]byte) (known, compares, gets bool) {
	for i := 0; i < len(opts); i++ {
		_, n := optionOf(storeOptions, opts[i])
		switch {
		case isComparison(opts[i]):
			compares, n = true, 1
		case resp.IsWord(opts[i], "get"):
			gets, n = true, 0
		case n < 0:
			return false, false, false
		}
		i += n
	}
	return true, compares, gets
}

// prepareReply completes the entry for the reply to a request that may return values: which elements are values,
// whether all keys are excluded, and which values the client gets as bare content.
func (v *valueRewriter) prepareReply(r *request, e *entry) {
	if e.shape = replyShape(r); e.shape == shapeNone || len(r.args) < 2 {
		return
	}
	if r.cmd.hash && v.codec.mayBeIndexed(r.args[1]) {
		e.flags |= flagExcluded
	}
	if !v.rules.SpecialKeys {
		return
	}
	keys := r.args[1:2]
	switch r.cmd.name {
	case "mget":
		keys = r.args[1:]
	case "xread", "xreadgroup", "xinfo":
		keys = nil
	}
	if excluded(v.rules, keys) {
		e.flags |= flagExcluded
	}
	e.data = v.contents(r.cmd, r.args, e.shape)
}

// excluded reports whether the policy promises that none of the keys holds an envelope.
func excluded(p *policy.Policy, keys [][]byte) bool {
	for _, k := range keys {
		if !p.Excluded(k) {
			return false
		}
	}
	return len(keys) > 0
}

// replyShape returns the row's shape, unless the command's options decide.
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

// sealedValues collects the compressed arguments of one request.
type sealedValues struct {
	buf []byte // pooled
	at  []sealedArg
}

type sealedArg struct{ arg, off, end int }

// applyTo returns a copy of args with the compressed arguments in their places.
func (b *sealedValues) applyTo(args [][]byte) [][]byte {
	out := append(make([][]byte, 0, len(args)), args...)
	for _, at := range b.at {
		out[at.arg] = b.buf[at.off:at.end]
	}
	return out
}

// address returns where a value of size bytes will be stored. key is the request's first key, before is the
// argument in front of the value.
func (v *valueRewriter) address(kind valueKind, key, before []byte, size int) policy.Address {
	a := policy.Address{Space: v.state.database(), Key: key, Size: size, Type: policy.String}
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

// sealValue appends the envelope of value to dst and reports true, or returns dst unchanged and false. A
// value that begins with the magic is wrapped whatever the policy says: reads would take it for an envelope
// otherwise. The server works on a computed value, so no rule applies to it.
func (v *valueRewriter) sealValue(dst []byte, a *policy.Address, value []byte, computed bool) ([]byte, bool) {
	login := v.state.login()
	var st codec.Setting
	var rule *policy.Rule
	var left string
	if !computed {
		st, rule, left = v.setting(a, value, login)
		if s := v.codec.whatIf.Active.Load(); s != nil {
			s.Saw(*a, login, value, left != "")
		}
	}

	// If no rule compresses it, the value stays unchanged or is wrapped.
	if left != "" {
		v.codec.Stats.Left(rule.Name, left, len(value))
		rule = nil
	}
	if rule == nil || rule.Observe {
		switch {
		case !envelope.IsSealed(value):
			if rule != nil {
				v.observe(a.Type, value, st, rule)
			}
			return dst, false
		case v.codec.isLookalike(v.rules, a, value):
			return dst, false
		}
		return v.codec.Wrap(dst, value), true
	}

	// Compress the content of a library's format.
	if rule.Formats != nil {
		if out, done := v.sealForeign(dst, a, value, st, rule, login); done {
			return out, len(out) > len(dst)
		}
	}

	// Compress the value itself.
	var out []byte
	var did gateway.Compressed
	if v.ahead != nil && len(dst) == 0 && v.ahead.matches(value, st) {
		memory.PutBuffer(dst)
		dst = nil
		out, did = v.ahead.seal(len(value), rule, a.Type)
	} else {
		out, did = v.codec.Compress(dst, value, rule, st, a.Type)
	}
	v.codec.Count(rule, &did, len(value), len(out)-len(dst))
	v.compressTime += did.Took
	if rule.Auto {
		v.codec.Sample(rule, login, a.Key, value, st, did.Setting, len(out)-len(dst))
	}
	if !did.Sealed {
		return out[:len(dst)], false
	}
	return out, true
}

// setting returns how to compress a value that login writes. rule is nil if no rule covers it; left says why
// the value is not compressed although a rule covers it. value may be only the beginning of a long value.
func (v *valueRewriter) setting(a *policy.Address, value []byte, login string) (st codec.Setting, rule *policy.Rule, left string) {
	rule = v.rules.Lookup(*a)
	switch {
	case rule == nil:
		return st, nil, ""
	case policy.NeverSeal(value):
		return st, rule, "number_or_hyperloglog"
	case a.Type == policy.Hash && v.codec.mayBeIndexed(a.Key):
		return st, rule, "indexed"
	case !v.rules.Force && v.codec.backoff.active.Load() && v.codec.backoff.isPaused(a.Key):
		return st, rule, "often_inflated"
	}
	st = rule.SettingFor(login)
	if st.Dict != 0 && (v.codec.dicts == nil || !v.codec.dicts.ReadyOn(st.Dict, v.state.dialed)) {
		st.Dict = 0
	}
	return st, rule, ""
}

// observe compresses a value, decompresses and compares the result, counts the sizes and discards it. So a
// rule's saving and cost are known from live traffic before anything is stored. A value longer than
// freeBytes takes budget for a third copy, beside the value and its envelope; without budget the value is
// not observed.
func (v *valueRewriter) observe(t policy.Type, value []byte, st codec.Setting, rule *policy.Rule) {
	if n := int64(len(value)); n > freeBytes {
		if !v.state.tx.account.TakeSpare(n) {
			v.codec.Stats.Error("budget")
			return
		}
		defer v.state.tx.account.Release(n)
	}
	var out []byte
	var did gateway.Compressed
	if v.ahead != nil && v.ahead.matches(value, st) {
		out, did = v.ahead.seal(len(value), rule, t)
	} else {
		out, did = v.codec.Compress(nil, value, rule, st, t)
	}
	defer memory.PutBuffer(out)
	stats := v.codec.Stats
	v.compressTime += did.Took
	stats.Left(rule.Name, "observed", len(value))
	if !did.Sealed {
		stats.Observed(rule.Name, did.Setting.Codec, len(value), len(value), did.Spent, 0)
		return
	}
	began, stint := time.Now(), v.codec.Effort.Begin(len(value)) // only the statistics need this, so it counts as effort
	back, err := v.codec.Sealer.Open(memory.GetBuffer(len(value)), out)
	stint.End()
	opened := time.Since(began)
	defer memory.PutBuffer(back)
	if err != nil || !bytes.Equal(back, value) {
		stats.Error("observed_mismatch")
		v.codec.log.Error("an observed value differs after compressing and decompressing it", "rule", rule.Name, "bytes", len(value), "err", err)
		return
	}
	v.compressTime += opened
	stats.Observed(rule.Name, did.Codec, len(value), len(out), did.Spent, opened)
}
