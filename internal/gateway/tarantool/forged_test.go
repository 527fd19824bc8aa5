package tarantool

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// oneDict implements Dicts with a single dictionary.
type oneDict struct{ d *codec.Dict }

func (o oneDict) Dictionary(number uint32) (*codec.Dict, error) {
	if number != o.d.Number() {
		return nil, envelope.ErrDictMissing
	}
	return o.d, nil
}

func (o oneDict) Ready(number uint32) bool { return number == o.d.Number() }

// A client that forges an envelope learns nothing about the dictionary that the envelope names. The envelope is
// never decoded, and the error is the same for a wrong tag, a missing dictionary and damage.
func TestPlantedEnvelopesTellNothing(t *testing.T) {
	d, err := codec.NewDict([]byte(strings.Repeat(document(1), 3)))
	if err != nil {
		t.Fatal(err)
	}
	zstd := &codectest.CountingZstd{ZstdCoder: codec.NewGoZstd()}
	b := newBed(t, policy.Options{Rules: rules()}, func(c *Config) {
		c.Engine, c.Dicts = codec.New(codec.Options{Zstd: zstd}), oneDict{d}
	})
	c, direct := b.client(), b.direct()
	b.install()
	owner := envelope.NewSealer(envelope.SealerOptions{Dicts: oneDict{d}})
	good := owner.Seal(nil, []byte(document(1)), codec.Setting{Codec: codec.Zstd, Dict: d.Number()}, nil)
	h, err := envelope.ParseHeader(good)
	if err != nil {
		t.Fatal(err)
	}
	const text = "cinch: compressed value can't be decompressed: it is damaged or its dictionary is missing, see the gateway's log"
	untagged, missing, other := h, h, h
	untagged.Tag, other.RawLen = [8]byte{}, h.RawLen-1
	missing.Dict++
	for name, bad := range map[string][]byte{
		"no tag":               append(untagged.Append(nil), good[h.Len:]...),
		"lifted":               append(other.Append(nil), good[h.Len:]...),
		"a missing dictionary": append(missing.Append(nil), good[h.Len:]...),
		"damage":               append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1),
		"cut header":           good[:6],
	} {
		direct.must(wire.Replace, 0x10, docs, 0x21, []any{1, "tag", string(bad)})
		for what, ask := range map[string]func() answer{
			"select": func() answer {
				return c.do(wire.Select, 0x10, docs, 0x11, 0, 0x12, 1, 0x13, 0, 0x14, 0, 0x20, []any{1})
			},
			"splice": func() answer {
				return c.do(wire.Update, 0x10, docs, 0x20, []any{1}, 0x21, []any{[]any{":", 2, 0, 1, "x"}})
			},
		} {
			if a := ask(); a.code != wire.ErrorFlag|wire.ErrSystem || a.text != text {
				t.Errorf("%s, %s: %#x %s", name, what, a.code, a.text)
			}
		}
	}
	if n := zstd.Decoded.Load(); n != 0 {
		t.Errorf("the decoder was called %d times", n)
	}
	for _, class := range []string{"wrong_tag", "dictionary_missing", "damaged"} {
		if b.stats.Snapshot().Errors[class] == 0 {
			t.Errorf("%s is not counted", class)
		}
	}
	foreign, did := owner.SealContent(nil, []byte(document(1)), envelope.Foreign{Format: 3}, 1<<20, codec.Setting{Codec: codec.Zstd, Dict: d.Number()}, nil)
	if !did.Sealed {
		t.Fatal("not sealed")
	}
	direct.must(wire.Replace, 0x10, docs, 0x21, []any{1, "tag", string(foreign)}) // declares a length that is not the value's
	for name, a := range map[string]answer{
		"select": c.do(wire.Select, 0x10, docs, 0x11, 0, 0x12, 1, 0x13, 0, 0x14, 0, 0x20, []any{1}),
		"splice": c.do(wire.Update, 0x10, docs, 0x20, []any{1}, 0x21, []any{[]any{":", 2, 0, 1, "x"}}),
	} {
		if a.code != wire.ErrorFlag|wire.ErrSystem || !strings.Contains(a.text, "unknown codec") {
			t.Errorf("a foreign value, %s: %#x %s", name, a.code, a.text)
		}
	}
	direct.must(wire.Replace, 0x10, docs, 0x21, []any{1, "tag", string(good)})
	if got := c.selectOne(docs, 1); got[2] != document(1) {
		t.Errorf("the owner's envelope: %.60q", got[2])
	}
}
