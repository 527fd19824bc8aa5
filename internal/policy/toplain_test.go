package policy

import (
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope/clientformat"
)

// Values written by a rule with to: plain are read by it, and the reverse, for any sizes and fields of rules.
func TestToPlainIsOneDecision(t *testing.T) {
	zstd, glide := codec.Setting{Codec: codec.Zstd}, []clientformat.Format{clientformat.GlideZstd}
	plain := Rule{Name: "plain", Key: "web:*", Setting: zstd, Formats: glide, ToPlain: true}
	sized := plain
	sized.MinSize, sized.MaxSize = 4000, 8000
	for name, rules := range map[string][]Rule{
		"alone":             {plain, {Setting: zstd}},
		"with sizes":        {sized, {Setting: zstd, MinSize: 1}},
		"behind sizes":      {{Key: "web:*", Setting: zstd, MinSize: 5000}, plain, {Setting: zstd}},
		"behind a field":    {{Key: "web:*", Setting: zstd, Field: "raw*"}, plain, {Setting: zstd}},
		"behind raw":        {{Key: "web:1*"}, plain},
		"behind small ones": {{Key: "web:1*", Setting: zstd}, plain},
	} {
		p, err := New(Options{Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"web:1", "web:2", "other"} {
			for _, kind := range []Type{String, Hash} {
				reads := p.ToPlain("0", []byte(key), kind) != nil
				for _, size := range []int{1, 64, 4000, 5000, 9000} {
					r := p.Lookup(Address{Space: "0", Key: []byte(key), Field: []byte("f"), Type: kind, Size: size})
					if r != nil && r.ToPlain != reads {
						t.Errorf("%s: %s %s of %d bytes: read to plain %v, written by %s", name, kind, key, size, reads, r.Name)
					}
				}
			}
		}
	}
}

func TestToPlainIsForWholeHashes(t *testing.T) {
	rule := Rule{Setting: codec.Setting{Codec: codec.Zstd}, Formats: []clientformat.Format{clientformat.Zlib}, ToPlain: true}
	field, stream := rule, rule
	field.Field, stream.Types = "f*", String|Stream
	for _, r := range []Rule{field, stream} {
		if _, err := New(Options{Rules: []Rule{r}}); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
}
