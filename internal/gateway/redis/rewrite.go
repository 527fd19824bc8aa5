package redis

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/foreign"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// seals decides which values of one client are compressed, and how.
type seals struct {
	vault  *vault
	rules  *policy.Policy // the snapshot that the current request took
	st     *standing
	dialed time.Time     // when the upstream connection was made
	ahead  *ahead        // the value of the current large request, compressed while it arrived
	trace  *tracing      // nil: not traced
	took   time.Duration // compressing the values of the current request
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

// reply completes the entry for the reply to a request that may return values: which elements are values,
// whether all keys are excluded, and which values the client gets as bare content.
func (v *seals) reply(r *request, e *entry) {
	if e.shape = replyShape(r); e.shape == shapeNone || len(r.args) < 2 {
		return
	}
	if r.cmd.hash && v.vault.covered(r.args[1]) {
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
	e.op = v.contents(r.cmd, r.args, e.shape)
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

// sealing collects the compressed arguments of one request.
type sealing struct {
	buf []byte // pooled
	at  []sealedArg
}

type sealedArg struct{ arg, off, end int }

// in returns a copy of args with the compressed arguments in their places.
func (b *sealing) in(args [][]byte) [][]byte {
	out := append(make([][]byte, 0, len(args)), args...)
	for _, at := range b.at {
		out[at.arg] = b.buf[at.off:at.end]
	}
	return out
}

// address returns where a value of size bytes will be stored. key is the request's first key, before is the
// argument in front of the value.
func (v *seals) address(kind valueKind, key, before []byte, size int) policy.Address {
	a := policy.Address{Space: v.st.where(), Key: key, Size: size, Type: policy.String}
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
func (v *seals) sealValue(dst []byte, a *policy.Address, value []byte, computed bool) ([]byte, bool) {
	login := v.st.login()
	var st codec.Setting
	var rule *policy.Rule
	var left string
	if !computed {
		st, rule, left = v.setting(a, value, login)
		if s := v.vault.whatIf.Active.Load(); s != nil {
			s.Saw(*a, login, value, left != "")
		}
	}

	// It stays unchanged, or is wrapped.
	if left != "" {
		v.vault.Stats.Left(rule.Name, left, len(value))
		rule = nil
	}
	if rule == nil || rule.Observe {
		switch {
		case !cinch.IsSealed(value):
			if rule != nil {
				v.observe(a.Type, value, st, rule)
			}
			return dst, false
		case v.vault.keepsLookalike(v.rules, a, value):
			return dst, false
		}
		return v.vault.Wrap(dst, value), true
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
	if v.ahead != nil && len(dst) == 0 && v.ahead.is(value, st) {
		memory.PutBuffer(dst)
		dst = nil
		out, did = v.ahead.seal(len(value), rule, a.Type)
	} else {
		out, did = v.vault.Compress(dst, value, rule, st, a.Type)
	}
	v.vault.Count(rule, &did, len(value), len(out)-len(dst))
	v.took += did.Took
	if rule.Auto {
		v.vault.Sample(rule, login, a.Key, value, st, did.Setting, len(out)-len(dst))
	}
	if !did.Sealed {
		return out[:len(dst)], false
	}
	return out, true
}

// setting returns how to compress a value that login writes. rule is nil if no rule covers it; left says why
// the value is not compressed although a rule covers it. The beginning of a long value is enough.
func (v *seals) setting(a *policy.Address, value []byte, login string) (st codec.Setting, rule *policy.Rule, left string) {
	rule = v.rules.Lookup(*a)
	switch {
	case rule == nil:
		return st, nil, ""
	case policy.NeverSeal(value):
		return st, rule, "number_or_hyperloglog"
	case a.Type == policy.Hash && v.vault.covered(a.Key):
		return st, rule, "indexed"
	case !v.rules.Force && v.vault.churn.paused.Load() && v.vault.churn.stopped(a.Key):
		return st, rule, "often_inflated"
	}
	st = rule.SettingFor(login)
	if st.Dict != 0 && (v.vault.dicts == nil || !v.vault.dicts.ReadyOn(st.Dict, v.dialed)) {
		st.Dict = 0
	}
	return st, rule, ""
}

// sealForeign compresses the content of a value that is in one of the rule's library formats. done is false
// if the caller must treat the value like any other: it is in none of the formats, or there is no memory for
// it. If done is true and dst is unchanged, the value is stored unchanged.
func (v *seals) sealForeign(dst []byte, a *policy.Address, value []byte, st codec.Setting, rule *policy.Rule, login string) (out []byte, done bool) {
	limit, free := v.vault.contentRoom(len(value))
	if !free {
		if !v.st.tx.account.TakeSpare(int64(limit)) {
			v.vault.Stats.Error("budget")
			return dst, rule.ToPlain && !cinch.IsSealed(value) // it can still be unwrapped when read
		}
		defer v.st.tx.account.Release(int64(limit))
	}
	start, stint := time.Now(), v.vault.Effort.Begin(len(value))
	content, f, err := foreign.Take(memory.GetBuffer(min(limit, 4*len(value))), rule.Formats, value, limit)
	defer memory.PutBuffer(content)
	if err != nil {
		stint.End()
		// If the content is too large the packer will report it.
		return dst, rule.ToPlain && errors.Is(err, foreign.ErrTooLarge) && !cinch.IsSealed(value)
	}
	wanted := st
	st = v.vault.Effort.Lower(st, len(content))
	dst = memory.GrowBuffer(dst, cinch.MaxSealedLen(st, len(content)))
	of := cinch.Foreign{Format: uint8(f)}
	if rule.ToPlain {
		of = cinch.Foreign{}
	}
	out, did := v.vault.Sealer.SealContent(dst, content, of, len(value), st, rule.WorthFunc(a.Type))
	took := time.Since(start)
	stint.EndOf(st, took)
	v.took += took
	v.vault.Count(rule, &gateway.Compressed{Outcome: did, Setting: st, Took: took, Spent: took}, len(value), len(out)-len(dst))
	if rule.Auto {
		stored := len(value)
		if did.Sealed {
			stored = len(out) - len(dst)
		}
		v.vault.Sample(rule, login, a.Key, content, wanted, st, stored)
	}
	return out, did.Sealed || !cinch.IsSealed(value)
}

// contents returns which values in a command's reply the client gets as bare content; nil: none.
func (v *seals) contents(cmd *command, args [][]byte, sh shape) *op {
	if !v.rules.HasToPlain() || sh == shapeNone || sh >= shapeEntries || len(args) < 2 {
		return nil
	}
	if cmd.name != "mget" {
		t := policy.String
		if cmd.hash {
			t = policy.Hash
		}
		if f := v.rules.ToPlain(v.st.where(), args[1], t); f != nil {
			return v.vault.sharedOp(f)
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
	return &op{contents: all, size: sliceBytes * len(all)}
}

// noteKey records in all the formats to unwrap for the value at key, element i of a reply of n.
func (v *seals) noteKey(all contents, key []byte, i, n int) contents {
	f := v.rules.ToPlain(v.st.where(), key, policy.String)
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

// worksOnPlain reports whether a key of the command is under a rule to plain. The command would work on
// content, while clients know values in their library's format.
func (v *seals) worksOnPlain(r *request) bool {
	rules, space := v.rules, v.st.where()
	if !rules.HasToPlain() || r.cmd.keys.first == 0 {
		return false
	}
	keys, ok := r.cmd.keys.find(r.args)
	return ok && slices.ContainsFunc(keys, func(key []byte) bool {
		return rules.ToPlain(space, key, policy.String) != nil || rules.ToPlain(space, key, policy.Hash) != nil
	})
}

// observe compresses a value, decompresses and compares the result, counts the sizes and discards it. So a
// rule's saving and cost are known from live traffic before anything is stored. For a long value this takes a
// third copy, beside the value and its envelope; without memory for that it is not observed.
func (v *seals) observe(t policy.Type, value []byte, st codec.Setting, rule *policy.Rule) {
	if n := int64(len(value)); n > gateway.FreeBytes {
		if !v.st.tx.account.TakeSpare(n) {
			v.vault.Stats.Error("budget")
			return
		}
		defer v.st.tx.account.Release(n)
	}
	var out []byte
	var did gateway.Compressed
	if v.ahead != nil && v.ahead.is(value, st) {
		out, did = v.ahead.seal(len(value), rule, t)
	} else {
		out, did = v.vault.Compress(nil, value, rule, st, t)
	}
	defer memory.PutBuffer(out)
	stats := v.vault.Stats
	v.took += did.Took
	stats.Left(rule.Name, "observed", len(value))
	if !did.Sealed {
		stats.Observed(rule.Name, did.Setting.Codec, len(value), len(value), did.Spent, 0)
		return
	}
	began, stint := time.Now(), v.vault.Effort.Begin(len(value)) // done for the count alone, so it counts as effort
	back, err := v.vault.Sealer.Open(memory.GetBuffer(len(value)), out)
	stint.End()
	opened := time.Since(began)
	defer memory.PutBuffer(back)
	if err != nil || !bytes.Equal(back, value) {
		stats.Error("observed_mismatch")
		v.vault.log.Error("an observed value differs after compressing and decompressing it", "rule", rule.Name, "bytes", len(value), "err", err)
		return
	}
	v.took += opened
	stats.Observed(rule.Name, did.Codec, len(value), len(out), did.Spent, opened)
}
