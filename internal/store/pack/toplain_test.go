package pack

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/envelope/clientformat"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

var zstd3 = codec.Setting{Codec: codec.Zstd, Level: 3}

// toPlainTask returns a task with a rule with to: plain for keys under web:, with sizes, followed by another rule.
func toPlainTask(t *testing.T, library string, minSize, maxSize int) (*Seal, []clientformat.Format) {
	t.Helper()
	formats, err := clientformat.Named(library)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.New(policy.Options{Rules: []policy.Rule{
		{Key: "web:*", Setting: zstd3, MinSize: minSize, MaxSize: maxSize, Formats: formats, ToPlain: true},
		{Setting: zstd3, MinGain: policy.AnyGain},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &Seal{Policy: p, Sealer: envelope.NewSealer(envelope.SealerOptions{}), Ready: func(uint32) bool { return true }, AllowRecode: true}, formats
}

func webValue(stored []byte) *store.Value {
	return &store.Value{Key: []byte("web:x"), Type: store.String, Stored: stored}
}

func asLibrary(t *testing.T, f clientformat.Format, content []byte) []byte {
	t.Helper()
	out, err := clientformat.Append(nil, f, 0, content, codec.New(codec.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// clientGets returns a gateway's answer for stored bytes under the rule.
func clientGets(t *testing.T, task *Seal, formats []clientformat.Format, stored []byte) []byte {
	t.Helper()
	if envelope.IsSealed(stored) {
		value, err := task.Sealer.OpenContent(nil, stored)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	if value, _, err := clientformat.OpenAny(nil, formats, stored, clientformat.MaxContentLen(len(stored), 1<<25)); err == nil {
		return value
	}
	return stored
}

// Content that looks like a library's value itself, such as a cached .gz file, is not opened once more: not
// for clients, by a second run, or by unpacking.
func TestToPlainUnwrapsOnce(t *testing.T) {
	task, formats := toPlainTask(t, "django", 0, 0)
	file := asLibrary(t, clientformat.Gzip, foreignContent(1))
	v := webValue(asLibrary(t, clientformat.Zlib, file))
	for run := range 3 {
		if run == 2 {
			task.Override, task.Force = codec.Setting{Codec: codec.Zlib}, true
		}
		if d := task.Decide("0", v); d.Replace {
			v = webValue(d.New)
		} else if run == 0 {
			t.Fatalf("%+v", d)
		}
		if got := clientGets(t, task, formats, v.Stored); !bytes.Equal(got, file) {
			t.Fatalf("after run %d a client gets %d bytes, not the file's %d", run, len(got), len(file))
		}
	}
	if d := (&Unpack{Sealer: task.Sealer, Policy: task.Policy}).Decide("0", v); d.Replace || !errors.Is(d.Problem, ErrLooksForeign) {
		t.Errorf("unpacking: %+v", d)
	}
	if d := (&Unpack{Sealer: task.Sealer}).Decide("0", v); !d.Replace || !bytes.Equal(d.New, file) {
		t.Errorf("unpacking without the rule: %+v", d)
	}
}

// In formats without a header, noise may open as a library's value by chance.
func TestToPlainOfNoise(t *testing.T) {
	task, formats := toPlainTask(t, "phpredis", 0, 0)
	r, replaced := rand.New(rand.NewPCG(1, 2)), 0
	for range 4_000 {
		content := make([]byte, 16+r.IntN(16))
		for i := range content {
			content[i] = byte(r.Uint32())
		}
		d := task.Decide("0", webValue(asLibrary(t, clientformat.PHPRedisLZ4, content)))
		if !d.Replace {
			continue
		}
		replaced++
		if got := clientGets(t, task, formats, d.New); !bytes.Equal(got, content) {
			t.Errorf("%q is read as %q", content, got)
		}
	}
	if replaced < 3_000 {
		t.Errorf("%d replaced", replaced)
	}
}

// A rule with to: plain applies to a library's values, and envelopes of them, of all sizes. No later rule seals them
// in the library's format.
func TestToPlainWhateverTheSize(t *testing.T) {
	content := foreignContent(1)
	lib := asLibrary(t, clientformat.GlideLZ4, content)
	s := envelope.NewSealer(envelope.SealerOptions{})
	sealed, did := s.SealContent(nil, content, envelope.Foreign{Format: uint8(clientformat.GlideZstd), Level: 3}, len(content), zstd3, nil)
	if !did.Sealed {
		t.Fatal("not sealed")
	}
	for name, stored := range map[string][]byte{"value": lib, "envelope": sealed} {
		for _, sizes := range [][2]int{{}, {0, 100}, {len(content) + 1, 0}} {
			task, formats := toPlainTask(t, "glide", sizes[0], sizes[1])
			task.AllowRecode = false
			if d := task.Decide("0", webValue(stored)); d.Replace || d.Skip != OtherBytes {
				t.Errorf("%s, sizes %v, without --allow-recode: %+v", name, sizes, d)
			}
			task.AllowRecode = true
			d := task.Decide("0", webValue(stored))
			if h, err := envelope.ParseHeader(d.New); err == nil && h.IsForeign() {
				t.Error("it is a library's still")
			}
			if !d.Replace || !d.Recoded || !bytes.Equal(clientGets(t, task, formats, d.New), content) {
				t.Errorf("%s, sizes %v: %+v", name, sizes, d.Skip)
			}
		}
	}
}

// A value that opens to more than gateways open stays unchanged, and the report says so. If the rule lost format
// and to, clients would get the library's bytes.
func TestToPlainOfTooMuch(t *testing.T) {
	rows := bytes.Repeat([]byte(`{"a":"row of a table, all alike"},`), 6000)
	for _, minSize := range []int{0, 1 << 20} {
		task, _ := toPlainTask(t, "django", minSize, 0)
		if d := task.Decide("0", webValue(asLibrary(t, clientformat.Zlib, rows))); d.Replace || d.Skip != OpensTooLong {
			t.Errorf("min size %d: %+v", minSize, d)
		}
	}
}
