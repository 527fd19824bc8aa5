package policy

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

var (
	zstd3 = codec.Setting{Codec: codec.Zstd, Level: 3}
	lz4   = codec.Setting{Codec: codec.LZ4}
	raw   = codec.Setting{Codec: codec.Raw}
)

func mustNew(t testing.TB, o Options) *Policy {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLookup(t *testing.T) {
	p := mustNew(t, Options{
		Rules: []Rule{
			{Name: "secret", Key: "menu:secret*", Setting: raw},
			{Name: "small", Key: "menu:*", MinSize: 16, MaxSize: 99, Setting: lz4},
			{Name: "menus", Key: "menu:*", Space: "0", Types: String, Setting: zstd3},
			{Name: "bodies", Key: "doc:*", Field: "body*", Setting: zstd3},
			{Name: "events", Key: "ev:*", Types: Stream, Setting: zstd3},
		},
		Exclude: []string{"menu:x*"},
	})
	for _, c := range []struct {
		key, field, space string
		typ               Type
		size              int
		want              string
	}{
		{"menu:1", "", "0", String, 100, "menus"},
		{"menu:1", "", "0", String, 99, "small"},
		{"menu:1", "", "9", String, 99, "small"},
		{"menu:1", "", "0", String, 16, "small"},
		{"menu:1", "", "0", String, 15, ""},
		{"menu:1", "", "1", String, 100, ""},
		{"menu:1", "f", "0", Hash, 100, ""},
		{"menu:1", "f", "0", Hash, 50, "small"},
		{"menu:secret", "", "0", String, 5000, ""},
		{"menu:secret", "", "0", String, 20, ""}, // raw covers small values too
		{"menu:x1", "", "0", String, 5000, ""},
		{"doc:1", "body", "0", Hash, 64, "bodies"},
		{"doc:1", "body", "0", Hash, 63, ""},
		{"doc:1", "title", "0", Hash, 64, ""},
		{"doc:1", "", "0", String, 64, ""},
		{"ev:1", "f", "0", Stream, 64, "events"},
		{"ev:1", "f", "0", Hash, 64, ""},
		{"other", "", "0", String, 64, ""},
	} {
		got := ""
		r := p.Lookup(Address{Space: c.space, Key: []byte(c.key), Field: []byte(c.field), Type: c.typ, Size: c.size})
		if r != nil {
			got = r.Name
		}
		if got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	p := mustNew(t, Options{
		Rules:   []Rule{{Key: "*[a-f]?:*x*", Setting: zstd3}, {Key: "menu:*", Setting: zstd3}},
		Exclude: []string{"bull:*"},
	})
	key, value := []byte("menu:12345"), []byte("1234567890")
	n := testing.AllocsPerRun(100, func() {
		r := p.Lookup(Address{Space: "0", Key: key, Type: String, Size: 1000})
		if !r.SavesEnough(String, 1000, 100) || !r.SavesEnoughFunc(Hash)(1000, 100) || !NeverSeal(value) || !p.MayHoldHash("0", key) {
			t.Fatal("wrong answer")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestOffAndForce(t *testing.T) {
	p := mustNew(t, Options{
		Rules:   []Rule{{Key: "r*", Setting: raw}, {Name: "m", Key: "m*", Types: Hash, Setting: lz4}},
		Exclude: []string{"x*"},
		Force:   true,
	})
	name := func(key string, typ Type) string {
		r := p.Lookup(Address{Key: []byte(key), Type: typ, Size: 1})
		if r == nil {
			return ""
		}
		if !r.SavesEnough(typ, 1, 20) || !r.SavesEnoughFunc(typ)(1, 20) {
			t.Errorf("%s: force cares about loss", key)
		}
		return r.Name
	}
	got := []string{name("m", Hash), name("m", String), name("r", String), name("z", Stream), name("x", String)}
	if want := []string{"m", "force", "force", "force", ""}; !slices.Equal(got, want) {
		t.Errorf("force: got %q, want %q", got, want)
	}
	if !p.MayHoldHash("0", []byte("z")) || p.MayHoldHash("0", []byte("x")) {
		t.Error("MayHoldHash under force")
	}
	p.Off, p.Force = true, false
	if p.Lookup(Address{Key: []byte("m"), Type: Hash, Size: 1000}) != nil {
		t.Error("disabled, but compresses")
	}
	if !p.MayHoldHash("0", []byte("m")) || !p.MayHoldHash("0", []byte("r")) || p.MayHoldHash("0", []byte("z")) {
		t.Error("MayHoldHash must follow the rules even when they are off")
	}
	var none *Policy
	if none.Lookup(Address{}) != nil || none.Excluded(nil) || none.MayHoldHash("", nil) {
		t.Error("a nil policy does something")
	}
}

func TestNewRefuses(t *testing.T) {
	for want, r := range map[string]Rule{
		"min size -1":  {MinSize: -1},
		"max size -5":  {MaxSize: -5},
		"is below min": {MaxSize: 10, Setting: lz4},
		"min gain 1 ":  {MinGain: 1},
		"min gain -0":  {MinGain: -0.1},
		"no type":      {Field: "f", Types: String},
		"no  type":     {Types: 1 << 5},
		"dictionary":   {Setting: codec.Setting{Codec: codec.LZ4, Dict: 7}},
	} {
		_, err := New(Options{Rules: []Rule{{}, r}})
		if !errors.Is(err, ErrRule) || !strings.Contains(err.Error(), strings.ReplaceAll(want, "  ", " ")) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

func TestDefaultsAndDictionaries(t *testing.T) {
	with := func(n uint32) codec.Setting { return codec.Setting{Codec: codec.Zstd, Dict: n} }
	p := mustNew(t, Options{Rules: []Rule{{Setting: with(7)}, {Setting: lz4}, {Setting: with(9)}, {Setting: with(7)}}})
	if got := p.Dictionaries(); !slices.Equal(got, []uint32{7, 9}) {
		t.Errorf("dictionaries %v", got)
	}
	r := p.Rules()[1]
	if r.Name != "rule-2" || r.MinSize != 64 || r.MinGain != 0.10 || r.Types != String|Hash {
		t.Errorf("defaults: %+v", r)
	}
	if got := p.Lookup(Address{Key: []byte("k"), Type: String, Size: 64}); got != p.Rules()[0] {
		t.Error("a rule's address changes")
	}
}

func TestNeverSeal(t *testing.T) {
	for s, want := range map[string]bool{
		"0": true, "7": true, "-1": true, "10": true,
		"9223372036854775807": true, "-9223372036854775808": true,
		"9223372036854775808": false, "-9223372036854775809": false,
		"18446744073709551615": false, "99999999999999999999": false,
		"": false, "-": false, "-0": false, "00": false, "01": false, "+1": false,
		" 1": false, "1 ": false, "1.0": false, "1e3": false, "abc": false,
		"000000000000000000001": false,
		"HYLL":                  true, "HYLL\x01": true, "hyll": false, "HYL": false,
	} {
		if got := NeverSeal([]byte(s)); got != want {
			t.Errorf("NeverSeal(%q) = %v", s, got)
		}
	}
}

func TestCoveringGoesByEveryName(t *testing.T) {
	p, err := New(Options{Off: true, Exclude: []string{"audit"}, Rules: []Rule{
		{Name: "by-number", Key: "512", Field: "3", Types: Tuple, Setting: codec.Setting{Codec: codec.LZ4}},
		{Name: "raw", Key: "docs", Field: "secret", Types: Tuple},
		{Name: "all", Key: "docs", Types: Tuple, Setting: codec.Setting{Codec: codec.Zstd}},
		{Name: "function", Key: "docs", Types: Argument, Setting: codec.Setting{Codec: codec.Zstd}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	names := func(keys, fields string) (got []string) {
		for _, r := range p.Covering(nil, Tuple, bytes.Fields([]byte(keys)), bytes.Fields([]byte(fields))) {
			got = append(got, r.Name)
		}
		return got
	}
	for _, c := range []struct {
		keys, fields string
		want         []string
	}{
		{"docs 512", "body 3", []string{"by-number", "all"}},
		{"docs 512", "secret 2", []string{"raw", "all"}},
		{"other 513", "body 3", nil},
		{"audit 512", "body 3", nil},
	} {
		if got := names(c.keys, c.fields); !slices.Equal(got, c.want) {
			t.Errorf("%s, %s: %v, want %v", c.keys, c.fields, got, c.want)
		}
	}
}
