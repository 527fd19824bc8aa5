package redis

import (
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

// Some client libraries compress values themselves. Under a rule that names such a format, the gateway unwraps the
// value and compresses its content instead. Clients get the content in the library's format again, or bare if the
// rule has "to: plain".

// contentLimit returns how many bytes of content of a value of n bytes may be unwrapped, and whether that
// needs no budget.
func (v *valueCodec) contentLimit(n int) (limit int, free bool) {
	limit = clientformat.MaxContentLen(n, v.maxSeal)
	return limit, limit <= freeBytes
}

// contents holds the library formats to unwrap for the values in a reply: one entry for all values, or one for each
// element. nil unwraps nothing.
type contents [][]clientformat.Format

// at returns the formats for the element at path.
func (c contents) at(path []level) []clientformat.Format {
	switch {
	case c == nil:
		return nil
	case len(c) == 1:
		return c[0]
	case len(path) == 1 && int(path[0].index) < len(c):
		return c[path[0].index]
	}
	return nil
}

// openBytes returns the bytes that decompressing an envelope may take. For a foreign value that is its
// content, the value, and the reply with it.
func openBytes(h envelope.Header) int {
	if h.IsForeign() {
		return h.RawLen + 2*h.MaxValueLen()
	}
	return h.RawLen
}

// clientValue returns what clients read for an envelope made of value: value itself, another encoding of it in
// the library's format, or its content.
func (v *valueCodec) clientValue(sealed, value []byte) []byte {
	h, err := envelope.ParseHeader(sealed)
	if err != nil || !h.IsForeign() && h.RawLen == len(value) {
		return value
	}
	if opened, err := v.Sealer.Open(nil, sealed); err == nil {
		return opened
	}
	return value
}

// sharedData returns one entryData for all replies with these formats, so that their queue entries can be merged.
func (v *valueCodec) sharedData(formats []clientformat.Format) *entryData {
	if o := v.sharedBare.Load(); o != nil && &o.contents[0][0] == &formats[0] {
		return o
	}
	o := &entryData{shared: true, contents: contents{formats}}
	v.sharedBare.Store(o)
	return o
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

// openForeign sends the content of the current bulk string of n bytes if it is in one of the formats, otherwise
// the bytes unchanged. It asks for the memory for the value and the content at once: a session that
// holds some and asks again may wait for ever.
func (o *replyDecoder) openForeign(n int64, formats []clientformat.Format) error {
	head, err := o.frames.in.Peek(int(min(n, clientformat.HeadBytes)))
	if err != nil {
		return err
	}
	limit, _ := o.codec.contentLimit(int(n))
	most, may := clientformat.Expect(formats, head, int(n), limit)
	if !may {
		return o.passBulk(n)
	}
	stored, err := o.stage(n, 2*int64(most))
	if err != nil {
		return err
	}
	defer stored.free()
	if o.frames.mute {
		return nil
	}
	content, _, err := clientformat.OpenAny(memory.GetBuffer(min(most, 4*int(n))), formats, stored.buf, limit)
	defer func() { memory.PutBuffer(content) }()
	if err != nil {
		content = append(content[:0], stored.buf...)
	}
	if err := o.frames.emit(resp.AppendBulkHeader(nil, len(content))); err != nil {
		return err
	}
	if err := o.emitHeld(content, stored.n > 0); err != nil {
		return err
	}
	return o.frames.emit(crlf)
}

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

// needsNoValue reports whether a command may run on the server even under a rule to plain, because it works on a
// stored number like INCR, or reads no value.
func (r *request) needsNoValue() bool {
	return r.cmd.strategy == floats || r.cmd.name == "delex" && len(r.args) == 2
}

// textToPlain refuses a command on stored values: those may be in the library's format, compressed from it,
// or compressed bare.
const textToPlain = "ERR cinch: a rule with to: plain covers this key, so its value may still be in the format of a client's library, and only whole values can be read and written: " +
	"finish with cinch pack --allow-recode, then remove format and to from the rule"
