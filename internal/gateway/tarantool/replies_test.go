package tarantool

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestOpenWithinBudget(t *testing.T) {
	p := newParts(t)
	s := p.s
	open := func(kind wire.Type, values ...any) ([]byte, *refusal) {
		r := &reply{bytes: encode(t, wire.OK, 1, nil, keyed{0x30, values})[5:]}
		if err := r.header.Parse(r.bytes); err != nil {
			t.Fatal(err)
		}
		return s.decodeReply(r, &exchange{kind: kind})
	}
	if out, refused := open(wire.Select, "plain"); out != nil || refused != nil {
		t.Error("what holds no envelope changes")
	}
	large := strings.Repeat("abc ", 64<<10)
	if out, refused := open(wire.Select, p.sealed(large)); refused != nil || !bytes.Contains(out, []byte(large)) || s.decodedBytes == 0 {
		t.Errorf("%v, %d bytes are held", refused, s.decodedBytes)
	}
	if s.releaseDecoded(); s.decodedBytes != 0 {
		t.Error("release holds on")
	}
	other := p.replies.Account(nil, nil) // takes the gateway's oversize place: no other message may exceed its share
	defer other.Close()
	if err := other.Acquire(t.Context(), 2<<20); err != nil {
		t.Fatal(err)
	}
	if _, refused := open(wire.Select, p.sealed(large)); refused == nil || refused.reason != "budget" {
		t.Errorf("while others have the budget: %v", refused)
	}
	if _, refused := open(wire.Select, envelope.Magic+"\x01"); refused == nil {
		t.Error("a broken envelope passes in a tuple")
	}
	if out, refused := open(wire.Call, envelope.Magic+"\x01"); out != nil || refused != nil {
		t.Error("what Lua made is taken for an envelope")
	}
}

// A part of a reply that can't be decompressed is not sent, and the reply is replaced by an error.
func TestBrokenPart(t *testing.T) {
	p := newParts(t)
	p.sends(1, 0, wire.Select, 0x10, 600)
	p.reply(wire.Chunk, 1, 0x30, []any{envelope.Magic + "\x01"})
	p.client.nothing(t)
	p.reply(wire.OK, 1, 0x30, []any{1})
	p.client.expect(t, wire.ErrorFlag|wire.ErrSystem, 1, 9)
}

// A damaged envelope, or one with a missing dictionary or too large a value, becomes an error reply like the
// server's.
func TestBrokenEnvelopes(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c, direct := b.client(), b.direct()
	s := envelope.NewSealer(envelope.SealerOptions{})
	good := s.Seal(nil, []byte(document(1)), codec.Setting{Codec: codec.LZ4}, nil)
	damaged := append([]byte{}, good...)
	damaged[len(damaged)-1] ^= 1
	missing := envelope.Header{Version: 1, Codec: codec.Zstd, HasDict: true, Dict: 77, RawLen: 10}.Append(nil)
	huge := envelope.Header{Version: 1, Codec: codec.Zstd, RawLen: 1 << 34}.Append(nil)
	for i, bad := range [][]byte{damaged, missing, huge, []byte(envelope.Magic)} {
		direct.must(wire.Replace, 0x10, docs, 0x21, []any{1, "tag", string(bad)})
		a := c.do(wire.Select, 0x10, docs, 0x11, 0, 0x12, 1, 0x13, 0, 0x14, 0, 0x20, []any{1})
		if a.code != wire.ErrorFlag|wire.ErrSystem || !strings.Contains(a.text, "can't be decompressed") {
			t.Errorf("%d: %#x %s", i, a.code, a.text)
		}
		if i < 3 {
			c.send(wire.Call, 0x22, "push", 0x21, []any{1})
			if a := c.read(); a.code != wire.ErrorFlag|wire.ErrSystem {
				t.Errorf("%d, pushed: %#x", i, a.code)
			}
		}
	}
	// Lua may return any bytes.
	if got := c.must(wire.Eval, 0x27, "return '\xC1\xDD\xDC'", 0x21, []any{}).([]any); got[0] != envelope.Magic {
		t.Errorf("got %q", got)
	}
	for class, n := range map[string]uint64{"damaged": 3, "dictionary_missing": 2, "too_large": 2} {
		if got := b.stats.Snapshot().Errors[class]; got != n {
			t.Errorf("%s: %d, want %d", class, got, n)
		}
	}
}

// A reply that does not fit into the memory budget is replaced by an error, until other sessions release their memory.
func TestRepliesWithinBudget(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, func(c *Config) {
		c.Replies, c.Stall = memory.NewBudget(1<<20), 10*time.Millisecond
	})
	c := b.client()
	doc := strings.Repeat(document(1), (512<<10)/len(document(1)))
	c.must(wire.Replace, 0x10, docs, 0x21, []any{1, "tag", doc})
	other := b.g.replies.Account(nil, nil) // takes the gateway's oversize place: no other message may exceed its share
	if err := other.Acquire(t.Context(), 2<<20); err != nil {
		t.Fatal(err)
	}
	a := c.do(wire.Select, 0x10, docs, 0x11, 0, 0x12, 1, 0x13, 0, 0x14, 0, 0x20, []any{1})
	if a.code != wire.ErrorFlag|wire.ErrNoMemory {
		t.Errorf("%#x %s", a.code, a.text)
	}
	other.Close()
	testenv.Eventually(t, "the reply fits", func() bool { return b.g.cfg.Replies.InUse() == 0 })
	b.check(c, 1, doc, true)
}
