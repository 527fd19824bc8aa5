package published

import (
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

const text = `{"format":1,"at":"2026-11-26T00:00:00Z","by":"g","exclude":["lock:*"],"rules":[
	{"name":"later","types":["graph"],"min_size":1,"min_gain":0.1,"codec":"zstd"},
	{"name":"notes","key":"note:*","types":["hash"],"min_size":0,"min_gain":0.1,"codec":"raw"},
	{"name":"fast","key":"fast:*","types":["string"],"min_size":64,"min_gain":0.1,"codec":"lz4"},
	{"name":"docs","types":["string","stream"],"min_size":64,"min_gain":0.1,"codec":"zstd","level":9,"record":"0123456789abcdef"}]}`

func TestPolicy(t *testing.T) {
	doc, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := doc.Policy(func(r *Rule) policy.Choice {
		if r.Record == "" {
			return policy.Choice{}
		}
		return policy.Choice{Dict: 7, Level: 5}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key  string
		kind policy.Type
		want codec.Setting // zero: none
	}{
		{"a", policy.String, codec.Setting{Codec: codec.Zstd, Level: 5, Dict: 7}},
		{"a", policy.Stream, codec.Setting{Codec: codec.Zstd, Level: 5, Dict: 7}},
		{"a", policy.Hash, codec.Setting{}},
		{"note:1", policy.Hash, codec.Setting{}},
		{"fast:1", policy.String, codec.Setting{Codec: codec.Zstd, Level: 3}},
		{"lock:1", policy.String, codec.Setting{}},
	} {
		var got codec.Setting
		if r := p.Lookup(policy.Address{Space: "0", Key: []byte(c.key), Type: c.kind, Size: 100}); r != nil {
			got = r.Setting
		}
		if got != c.want {
			t.Errorf("%s %s: %v, want %v", c.kind, c.key, got, c.want)
		}
	}
}

// Parse returns a policy that compresses nothing for an empty record, for a record of a later format whatever its
// fields are, and for a damaged record.
func TestNoPolicy(t *testing.T) {
	for text, fails := range map[string]bool{"": false, `{"format":2,"rules":{"other":true}}`: false, "{": true, `{"format":1,"rules":3}`: true} {
		doc, err := Parse(text)
		if !doc.Off || (err != nil) != fails {
			t.Errorf("%q: off %v, %v", text, doc.Off, err)
		}
	}
}

// A user has separate records unless the rule is shared. clients/python/cinch/policy.py uses the same names.
func TestRecordFor(t *testing.T) {
	r := Rule{Record: "0123456789abcdef"}
	if r.RecordFor("") != r.Record || r.RecordFor("ann") != "7ab647c605de23dd" {
		t.Error(r.RecordFor(""), r.RecordFor("ann"))
	}
	if r.Shared = true; r.RecordFor("ann") != r.Record {
		t.Error(r.RecordFor("ann"))
	}
}

func TestCurrent(t *testing.T) {
	for text, want := range map[string]policy.Choice{
		"":                {},
		`{"rule":"docs"}`: {},
		`{"current":{"dict":"0a1b2c3d","level":2}}`: {Dict: 0x0a1b2c3d, Level: 2},
	} {
		if got, err := Current(text); err != nil || got.Dict != want.Dict || got.Level != want.Level {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if _, err := Current(`{"current":{"dict":"x"}}`); err == nil {
		t.Error("no error")
	}
}
