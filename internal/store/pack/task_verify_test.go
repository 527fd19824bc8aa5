package pack

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

func TestUnpackAndVerifyJudge(t *testing.T) {
	sealer := envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{})})
	text := []byte(strings.Repeat("text ", 100))
	sealed := sealer.Seal(nil, text, zstd(3), nil)
	wrapped := sealer.Escape(nil, sealed)
	value := func(b []byte, kind policy.Type) *store.Value {
		return &store.Value{Key: []byte("k"), Type: kind, Stored: b}
	}
	u, v, before := &Unpack{Sealer: sealer}, &Verify{Sealer: sealer}, &Verify{Sealer: sealer, Before: true}
	if d := u.Decide("0", value(sealed, policy.Hash)); !d.Replace || !bytes.Equal(d.New, text) {
		t.Errorf("%+v", d)
	}
	for name, c := range map[string]struct {
		v                    *store.Value
		unpack, verify, befo error
	}{
		"plain":   {value(text, policy.String), nil, nil, nil},
		"wrapped": {value(wrapped, policy.String), ErrMustStay, nil, ErrMagic},
		"stream":  {value(sealed, policy.Stream), ErrImmutable, nil, ErrMagic},
		"damaged": {value(sealed[:20], policy.String), envelope.ErrDamaged, envelope.ErrDamaged, ErrMagic},
	} {
		for task, want := range map[Task]error{u: c.unpack, v: c.verify, before: c.befo} {
			d := task.Decide("0", c.v)
			if !errors.Is(d.Problem, want) || d.Replace || d.Stop != nil {
				t.Errorf("%s, %T: %+v, want %v", name, task, d, want)
			}
		}
	}
}

// TestVerifyFindsCutEnvelopes damages envelopes as commands on parts of values do. None of the results counts
// as plain.
func TestVerifyFindsCutEnvelopes(t *testing.T) {
	sealer := envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{})})
	v := &Verify{Sealer: sealer}
	judge := func(stored []byte) Verdict {
		return v.Decide("0", &store.Value{Key: []byte("k"), Type: policy.Tuple, Stored: stored})
	}
	text := []byte(strings.Repeat("text ", 100))
	for _, setting := range []codec.Setting{zstd(3), {Codec: codec.LZ4}, {Codec: codec.S2}, {Codec: codec.Zlib, Level: 6}, {}} {
		sealed := sealer.Seal(nil, text, setting, nil)
		if setting == (codec.Setting{}) {
			sealed = sealer.Escape(nil, text)
		}
		splice := func(offset, length int, paste string) []byte {
			return slices.Concat(sealed[:offset], []byte(paste), sealed[offset+length:])
		}
		for name, stored := range map[string][]byte{
			"the magic overwritten":    splice(0, 3, "XXX"),
			"one byte overwritten":     splice(0, 1, "X"),
			"the magic replaced":       splice(0, 3, "something longer"),
			"the magic cut off":        splice(0, 3, ""),
			"text before it":           splice(0, 0, "XXX"),
			"text after it":            splice(len(sealed), 0, "XXX"),
			"the end cut off":          splice(len(sealed)-3, 3, ""),
			"cut within the header":    splice(4, 3, "XXX"),
			"cut within the payload":   splice(20, 3, "XXX"),
			"nothing but the magic":    splice(3, len(sealed)-3, ""),
			"written without Cinch":    []byte(envelope.Magic + " is how it begins"),
			"the end of the magic cut": splice(1, 2, "XX"),
		} {
			d := judge(stored)
			if !errors.Is(d.Problem, envelope.ErrDamaged) && !errors.Is(d.Problem, envelope.ErrUnknownCodec) {
				t.Errorf("%v, %s: %+v, want it damaged", setting, name, d)
			}
			if errors.Is(d.Problem, ErrBehind) != (name == "text before it") {
				t.Errorf("%v, %s: %v", setting, name, d.Problem)
			}
		}
		if d := judge(sealed); d.Skip != Opened || d.Problem != nil {
			t.Errorf("%v, whole: %+v", setting, d)
		}
		if d := judge(slices.Concat(text, sealed)); d.Problem != nil || d.Skip != Plain {
			t.Errorf("%v, far behind other content: %+v", setting, d)
		}
	}
	random := rand.NewChaCha8([32]byte{})
	for range 20_000 {
		b := make([]byte, 300)
		_, _ = random.Read(b)
		if d := judge(b); d.Problem != nil {
			t.Fatalf("random bytes %x: %+v", b, d)
		}
	}
}

// Numbers of two bytes can look like the beginnings of many envelopes. The value is not copied for each.
func TestVerifyCopiesAValueOnce(t *testing.T) {
	v := &Verify{Sealer: envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{})})}
	numbers := &store.Value{Key: []byte("k"), Type: policy.String, Stored: bytes.Repeat([]byte{0x12, 0}, 1<<19)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if d := v.Decide("0", numbers); d.Problem != nil || d.Skip != Plain {
		t.Errorf("%+v", d)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
		t.Errorf("%d bytes were allocated for a value of 1 MiB", n)
	}
}
