package pack

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

func newSeal(t *testing.T, o policy.Options) *Seal {
	t.Helper()
	p, err := policy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &Seal{Policy: p, Sealer: envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{})}), Ready: func(uint32) bool { return false }}
}

func zstd(level int) codec.Setting { return codec.Setting{Codec: codec.Zstd, Level: level} }

func TestSealJudges(t *testing.T) {
	s := newSeal(t, policy.Options{
		Rules: []policy.Rule{
			{Key: "dict:*", Setting: codec.Setting{Codec: codec.Zstd, Dict: 7}},
			{Key: "raw:*", Setting: codec.Setting{Codec: codec.Raw}},
			{Key: "db1:*", Space: "1", Setting: zstd(3)},
			{Key: "k*", Setting: zstd(3)},
		},
		Exclude: []string{"kept:*"},
	})
	text := strings.Repeat("the same again and again ", 40)
	sealed := string(s.Sealer.Seal(nil, []byte(text), zstd(3), nil))
	for _, c := range []struct {
		key, value string
		left       store.Reason
	}{
		{"k", text, ""},
		{"k", "short", NoRule}, // below the minimum size
		{"k", "1234567890123456789", Computed},
		{"k", "HYLL" + text, Computed},
		{"k", sealed, AlreadySealed},
		{"k", envelope.Magic + "damaged", AlreadySealed},
		{"other", text, NoRule},
		{"raw:k", text, NoRule},
		{"db1:k", text, NoRule},
	} {
		v := &store.Value{Key: []byte(c.key), Type: policy.String, Stored: []byte(c.value)}
		d := s.Decide("0", v)
		if d.Skip != c.left || d.Replace != (c.left == "") || d.Stop != nil || d.Problem != nil {
			t.Errorf("%s %.20q: %+v", c.key, c.value, d)
		}
		if !d.Replace {
			continue
		}
		if opened, err := s.Sealer.Open(nil, d.New); err != nil || string(opened) != c.value {
			t.Errorf("%s: what replaces it does not open to it", c.key)
		}
	}
	if d := s.Decide("0", &store.Value{Key: []byte("dict:1"), Type: policy.String, Stored: []byte(text)}); !errors.Is(d.Stop, ErrNoDictionary) {
		t.Errorf("a dictionary that is not in the store: %+v", d)
	}
	for key, want := range map[string]bool{"k1": true, "kept:1": false, "other": false, "raw:1": false, "db1:1": false, "dict:1": true} {
		if s.Wants("0", []byte(key)) != want {
			t.Errorf("wants %s: %v", key, !want)
		}
	}
	if !s.Wants("1", []byte("db1:1")) {
		t.Error("the rule's database is not minded")
	}
}

func TestSealAnew(t *testing.T) {
	text := []byte(strings.Repeat("the same again and again, but numbers differ: ", 20))
	for i := range 200 {
		text = fmt.Appendf(text, "%d,", i*i*7919)
	}
	s := newSeal(t, policy.Options{Rules: []policy.Rule{{Setting: zstd(1)}}})
	judge := func(stored []byte) Verdict {
		return s.Decide("0", &store.Value{Key: []byte("k"), Type: policy.String, Stored: stored})
	}
	s.Override = zstd(19)
	lz4 := s.Sealer.Seal(nil, text, codec.Setting{Codec: codec.LZ4}, nil)
	best := judge(lz4)
	if !best.Replace || len(best.New) >= len(lz4) {
		t.Fatalf("from lz4: %+v", best.Skip)
	}
	if d := judge(best.New); d.Skip != AlreadySealed {
		t.Errorf("a second time: %+v", d)
	}
	s.Override = codec.Setting{Codec: codec.LZ4}
	if d := judge(best.New); d.Skip != AlreadySealed {
		t.Errorf("to what is larger: %+v", d)
	}
	s.Force = true
	if d := judge(best.New); !d.Replace || !bytes.Equal(d.New, lz4) {
		t.Errorf("to what is larger, asked for: %+v", d)
	}
	if d := judge(lz4); d.Skip != AlreadySealed {
		t.Errorf("a second time: %+v", d)
	}
	small := make([]byte, 100) // incompressible
	for i := range small {
		small[i] = byte(i*i*i*7919>>3) ^ byte(i*31)
	}
	d := s.Sealer.Seal(nil, small, zstd(1), func(int, int) bool { return true })
	if !envelope.IsSealed(d) {
		t.Fatal("not sealed")
	}
	if d := judge(d); !d.Replace || string(d.New) != string(small) {
		t.Errorf("to what is worth nothing, asked for: %+v", d)
	}
	s.Force = false
	if d := judge(d); d.Replace || d.Skip != NoGain {
		t.Errorf("to what is worth nothing: %+v", d)
	}
	if d := judge(append([]byte(nil), lz4[:len(lz4)-3]...)); !errors.Is(d.Problem, envelope.ErrDamaged) {
		t.Errorf("damaged: %+v", d)
	}
}
