package redis

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/envelope/clientformat"
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
	dialed       time.Time     // when the upstream connection was made
	ahead        *aheadSealer  // the value of the current large request, compressed while it arrived
	trace        *tracing      // nil: not traced
	compressTime time.Duration // compressing the values of the current request
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

	// It stays unchanged, or is wrapped.
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
// the value is not compressed although a rule covers it. The beginning of a long value is enough.
func (v *valueRewriter) setting(a *policy.Address, value []byte, login string) (st codec.Setting, rule *policy.Rule, left string) {
	rule = v.rules.Lookup(*a)
	switch {
	case rule == nil:
		return st, nil, ""
	case policy.NeverSeal(value):
		return st, rule, "number_or_hyperloglog"
	case a.Type == policy.Hash && v.codec.mayBeIndexed(a.Key):
		return st, rule, "indexed"
	case !v.rules.Force && v.codec.backoff.paused.Load() && v.codec.backoff.isPaused(a.Key):
		return st, rule, "often_inflated"
	}
	st = rule.SettingFor(login)
	if st.Dict != 0 && (v.codec.dicts == nil || !v.codec.dicts.ReadyOn(st.Dict, v.dialed)) {
		st.Dict = 0
	}
	return st, rule, ""
}

// sealForeign compresses the content of a value that is in one of the rule's library formats. done is false
// if the caller must treat the value like any other: it is in none of the formats, or there is no memory for
// it. If done is true and dst is unchanged, the value is stored unchanged.
func (v *valueRewriter) sealForeign(dst []byte, a *policy.Address, value []byte, st codec.Setting, rule *policy.Rule, login string) (out []byte, done bool) {
	limit, free := v.codec.contentLimit(len(value))
	if !free {
		if !v.state.tx.account.TakeSpare(int64(limit)) {
			v.codec.Stats.Error("budget")
			return dst, rule.ToPlain && !envelope.IsSealed(value) // it can still be unwrapped when read
		}
		defer v.state.tx.account.Release(int64(limit))
	}
	start, stint := time.Now(), v.codec.Effort.Begin(len(value))
	content, f, err := clientformat.OpenAny(memory.GetBuffer(min(limit, 4*len(value))), rule.Formats, value, limit)
	defer memory.PutBuffer(content)
	if err != nil {
		stint.End()
		// If the content is too large, cinch pack reports it.
		return dst, rule.ToPlain && errors.Is(err, clientformat.ErrTooLarge) && !envelope.IsSealed(value)
	}
	wanted := st
	st = v.codec.Effort.Lower(st, len(content))
	dst = memory.GrowBuffer(dst, envelope.MaxSealedLen(st, len(content)))
	of := envelope.Foreign{Format: uint8(f)}
	if rule.ToPlain {
		of = envelope.Foreign{}
	}
	out, did := v.codec.Sealer.SealContent(dst, content, of, len(value), st, rule.SavesEnoughFunc(a.Type))
	took := time.Since(start)
	stint.EndOf(st, took)
	v.compressTime += took
	v.codec.Count(rule, &gateway.Compressed{Outcome: did, Setting: st, Took: took, Spent: took}, len(value), len(out)-len(dst))
	if rule.Auto {
		stored := len(value)
		if did.Sealed {
			stored = len(out) - len(dst)
		}
		v.codec.Sample(rule, login, a.Key, content, wanted, st, stored)
	}
	return out, did.Sealed || !envelope.IsSealed(value)
}

// contents returns which values in a command's reply the client gets as bare content; nil: none.
func (v *valueRewriter) contents(cmd *command, args [][]byte, sh shape) *entryData {
	if !v.rules.HasToPlain() || sh == shapeNone || sh >= shapeEntries || len(args) < 2 {
		return nil
	}
	if cmd.name != "mget" {
		t := policy.String
		if cmd.hash {
			t = policy.Hash
		}
		if f := v.rules.ToPlain(v.state.database(), args[1], t); f != nil {
			return v.codec.sharedData(f)
		}
		return nil
	}
	var all contents
	for i, key := range args[1:] {
		all = v.noteKey(all, key, i, len(args)-1)
	}
	if all == nil {
		return nil
	}
	return &entryData{contents: all, size: sliceBytes * len(all)}
}

// noteKey sets all[i] to the formats to unwrap for the value at key, element i of a reply of n elements. It returns
// all, which is nil until a key has formats.
func (v *valueRewriter) noteKey(all contents, key []byte, i, n int) contents {
	f := v.rules.ToPlain(v.state.database(), key, policy.String)
	if f == nil {
		return all
	}
	if all == nil {
		all = make(contents, max(2, n))
	}
	all[i] = f
	return all
}

// sliceBytes is the size of an element of contents.
const sliceBytes = 24

// hasToPlainKey reports whether a key of the command is under a rule to plain. The command would work on
// content, while clients know values in their library's format.
func (v *valueRewriter) hasToPlainKey(r *request) bool {
	rules, database := v.rules, v.state.database()
	if !rules.HasToPlain() || r.cmd.keys.first == 0 {
		return false
	}
	keys, ok := r.cmd.keys.find(r.args)
	return ok && slices.ContainsFunc(keys, func(key []byte) bool {
		return rules.ToPlain(database, key, policy.String) != nil || rules.ToPlain(database, key, policy.Hash) != nil
	})
}

// observe compresses a value, decompresses and compares the result, counts the sizes and discards it. So a
// rule's saving and cost are known from live traffic before anything is stored. For a long value this takes a
// third copy, beside the value and its envelope; without memory for that it is not observed.
func (v *valueRewriter) observe(t policy.Type, value []byte, st codec.Setting, rule *policy.Rule) {
	if n := int64(len(value)); n > gateway.FreeBytes {
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
	began, stint := time.Now(), v.codec.Effort.Begin(len(value)) // done for the count alone, so it counts as effort
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
