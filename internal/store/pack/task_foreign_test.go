package pack

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/envelope/clientformat"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// oneDict provides one dictionary.
type oneDict struct{ *codec.Dict }

func (d oneDict) Dictionary(uint32) (*codec.Dict, error) { return d.Dict, nil }

// foreignTask returns a Seal for values in the format, by a rule with a dictionary.
func foreignTask(t *testing.T, format string, toPlain bool) *Seal {
	t.Helper()
	formats, err := clientformat.Named(format)
	if err != nil {
		t.Fatal(err)
	}
	d, err := codec.NewDict(foreignContent(2))
	if err != nil {
		t.Fatal(err)
	}
	setting := codec.Setting{Codec: codec.Zstd, Level: 3, Dict: d.Number()}
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{Setting: setting, Formats: formats, ToPlain: toPlain}}})
	if err != nil {
		t.Fatal(err)
	}
	return &Seal{Policy: p, Sealer: envelope.NewSealer(envelope.SealerOptions{Dicts: oneDict{d}}), Ready: func(uint32) bool { return true }}
}

// foreignContent returns some kilobytes of JSON.
func foreignContent(i int) []byte {
	var b bytes.Buffer
	r := rand.New(rand.NewPCG(uint64(i), 0))
	words := strings.Fields("rice bean curry soup bread salad noodle pepper lime mango basil onion")
	for n := range 150 {
		fmt.Fprintf(&b, `{"id":%d,"name":"%s %s with %s","price":%d},`, n, words[r.IntN(12)], words[r.IntN(12)], words[r.IntN(12)], r.IntN(1000))
	}
	return b.Bytes()
}

// stored returns content as a library stores it.
func stored(t *testing.T, f clientformat.Format, level int) *store.Value {
	t.Helper()
	out, err := clientformat.Append(nil, f, level, foreignContent(1), codec.New(codec.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return &store.Value{Key: []byte("k"), Type: store.String, Stored: out}
}

// replaced returns v as replaced by the task, and fails if it is not replaced.
func replaced(t *testing.T, task Task, v *store.Value, recoded bool) *store.Value {
	t.Helper()
	d := task.Decide("0", v)
	if !d.Replace || d.Recoded != recoded {
		t.Fatalf("%+v, want a replacement, recoded %v", d, recoded)
	}
	next := *v
	next.Stored = d.New
	return &next
}

// Unpacking restores the library's bytes for values of every level.
func TestForeignIsPutBack(t *testing.T) {
	for _, level := range []int{1, 3} {
		task, v := foreignTask(t, "glide", false), stored(t, clientformat.GlideZstd, level)
		sealed := replaced(t, task, v, false)
		if h, err := envelope.ParseHeader(sealed.Stored); err != nil || !h.IsForeign() || len(sealed.Stored) >= len(v.Stored) {
			t.Fatalf("%+v, %v: %d bytes of %d", h, err, len(sealed.Stored), len(v.Stored))
		}
		if d := task.Decide("0", sealed); d.Replace || d.Skip != AlreadySealed {
			t.Errorf("a second time: %+v", d)
		}
		if back := replaced(t, &Unpack{Sealer: task.Sealer}, sealed, false); !bytes.Equal(back.Stored, v.Stored) {
			t.Errorf("level %d: other bytes come back", level)
		}
	}
}

// othersLevel returns a stream that Cinch's encoder makes at no level, since its header names another one.
func othersLevel(t *testing.T) *store.Value {
	t.Helper()
	v := stored(t, clientformat.Zlib, 6)
	v.Stored[0], v.Stored[1] = 0x78, 0xda
	return v
}

func TestForeignRecodes(t *testing.T) {
	task, v := foreignTask(t, "zlib", false), othersLevel(t)
	if d := task.Decide("0", v); d.Replace || d.Skip != OtherBytes {
		t.Fatalf("%+v, want %q", d, OtherBytes)
	}
	task.AllowRecode = true
	back := replaced(t, &Unpack{Sealer: task.Sealer}, replaced(t, task, v, true), false)
	if content, err := clientformat.Open(nil, clientformat.Zlib, back.Stored, 1<<20); err != nil || !bytes.Equal(content, foreignContent(1)) {
		t.Errorf("comes back as %d bytes, %v", len(content), err)
	}
}

// A rule with to: plain recodes values too: those that the library has compressed, and their envelopes.
func TestForeignToPlain(t *testing.T) {
	task, v := foreignTask(t, "glide", true), stored(t, clientformat.GlideLZ4, 1)
	if d := task.Decide("0", v); d.Replace || d.Skip != OtherBytes {
		t.Fatalf("%+v, want %q", d, OtherBytes)
	}
	kept := foreignTask(t, "glide", false)
	kept.AllowRecode, task.AllowRecode = true, true
	for _, v := range []*store.Value{v, replaced(t, kept, stored(t, clientformat.GlideZstd, 3), false)} {
		sealed := replaced(t, task, v, true)
		if got, err := task.Sealer.Open(nil, sealed.Stored); err != nil || !bytes.Equal(got, foreignContent(1)) {
			t.Errorf("opens to %.40q, %v", got, err)
		}
	}
}

// Sealing again keeps the format. Values in no format are sealed without one.
func TestForeignSealedAnew(t *testing.T) {
	task := foreignTask(t, "glide", false)
	task.Override = codec.Setting{Codec: codec.Zlib, Level: 9}
	sealed := replaced(t, task, stored(t, clientformat.GlideLZ4, 1), false)
	task.Override, task.Force = task.Policy.Rules()[0].Setting, true
	if h, err := envelope.ParseHeader(replaced(t, task, sealed, false).Stored); err != nil || h.Codec != codec.Zstd || !h.IsForeign() {
		t.Errorf("%+v, %v", h, err)
	}
	// An envelope that holds the library's bytes, sealed before the rule had a format.
	raw := stored(t, clientformat.GlideLZ4, 1)
	raw.Stored = task.Sealer.Seal(nil, raw.Stored, codec.Setting{Codec: codec.Zstd, Level: 3}, func(int, int) bool { return true })
	task.AllowRecode = true
	if h, err := envelope.ParseHeader(replaced(t, task, raw, false).Stored); err != nil || !h.IsForeign() {
		t.Errorf("%+v, %v", h, err)
	}
	plain := &store.Value{Key: []byte("k"), Type: store.String, Stored: foreignContent(1)}
	if h, err := envelope.ParseHeader(replaced(t, foreignTask(t, "glide", false), plain, false).Stored); err != nil || h.IsForeign() {
		t.Errorf("%+v, %v", h, err)
	}
}

// To plain covers all values of a library, also those too small to be sealed.
func TestForeignToPlainIsWhole(t *testing.T) {
	task := foreignTask(t, "glide", true)
	v := &store.Value{Key: []byte("k"), Type: store.String}
	var err error
	if v.Stored, err = clientformat.Append(nil, clientformat.GlideZstd, 0, []byte("a short one"), codec.New(codec.Options{})); err != nil {
		t.Fatal(err)
	}
	if d := task.Decide("0", v); d.Replace || d.Skip != OtherBytes {
		t.Errorf("%+v, want %q", d, OtherBytes)
	}
	task.AllowRecode = true
	if got := replaced(t, task, v, true); string(got.Stored) != "a short one" {
		t.Errorf("becomes %q", got.Stored)
	}
	sealed := task.Sealer.Seal(nil, stored(t, clientformat.GlideLZ4, 1).Stored, codec.Setting{Codec: codec.Zstd}, func(int, int) bool { return true })
	task.Override, task.Force = codec.Setting{Codec: codec.Zlib}, true
	d := task.Decide("0", &store.Value{Key: []byte("k"), Type: store.String, Stored: sealed})
	if got, err := task.Sealer.Open(nil, d.New); err != nil || !bytes.Equal(got, stored(t, clientformat.GlideLZ4, 1).Stored) {
		t.Errorf("what a client has stored sealed is opened as a library's: %+v, %v", d, err)
	}
}
