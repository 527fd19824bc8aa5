package bodies

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
)

const testWindow = 20

func newCoders() Coders {
	return Coders{codec.New(codec.Options{}), grpccodec.NewSet(grpccodec.Options{})}
}

func newPair(t testing.TB) (*Writer, *Reader) {
	t.Helper()
	c := newCoders()
	w, err := c.NewWriter(3, testWindow)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.NewReader(testWindow)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	t.Cleanup(r.Close)
	return w, r
}

// free grants any amount of memory.
func free(int64) error { return nil }

// message returns a message like those of remote write: series with labels and one value each.
func message(round int) (b []byte) {
	for i := range 200 {
		series := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), fmt.Appendf(nil, "pod-%d-of-some-deployment", i))
		series = protowire.AppendFixed64(protowire.AppendTag(series, 2, protowire.Fixed64Type), uint64(1000*i+round))
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), series)
	}
	return b
}

// Bodies of all kinds are restored, and earlier ones make later ones smaller.
func TestBodiesRoundTrip(t *testing.T) {
	w, r := newPair(t)
	noise := make([]byte, 10_000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	var sizes []int
	for i, body := range [][]byte{message(0), message(1), nil, {0}, noise, []byte(strings.Repeat("json ", 9999)), message(2), bytes.Repeat(noise, 300)} {
		out, err := w.Append(nil, body, i%2 == 0)
		if err != nil {
			t.Fatal(err)
		}
		back, err := r.Open(out, 1<<24, free)
		if err != nil || !bytes.Equal(back, body) {
			t.Fatalf("body %d: %d of %d bytes, %v", i, len(back), len(body), err)
		}
		sizes = append(sizes, len(out))
	}
	if sizes[6] > sizes[0]/2 {
		t.Errorf("a message like the first takes %d bytes, the first took %d", sizes[6], sizes[0])
	}
}

func TestBodiesRefuse(t *testing.T) {
	good := func() ([]byte, *Reader) {
		w, r := newPair(t)
		out, err := w.Append(nil, message(0), true)
		if err != nil {
			t.Fatal(err)
		}
		return out, r
	}
	for name, change := range map[string]func([]byte) []byte{
		"empty":       func([]byte) []byte { return nil },
		"cut off":     func(b []byte) []byte { return b[:len(b)-1] },
		"longer":      func(b []byte) []byte { return append(b, 0) },
		"a flag":      func(b []byte) []byte { b[0] |= 0x80; return b },
		"no columns":  func(b []byte) []byte { b[0] = 0; return b },
		"another sum": func(b []byte) []byte { b[4]++; return b },
		"a length": func(b []byte) []byte {
			return append([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, b...)
		},
		"blocks of none": func(b []byte) []byte { return append([]byte{0, 0, 0, 0, 0, 0}, b...) },
	} {
		b, r := good()
		if _, err := r.Open(change(b), 1<<24, free); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b, r := good()
	if _, err := r.Open(b, 100, free); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	b, _ = good()
	_, other := good()
	w, _ := newPair(t)
	_, _ = w.Append(nil, message(7), true)
	second, _ := w.Append(nil, message(8), true)
	if _, err := other.Open(second, 1<<24, free); err == nil {
		t.Error("a body whose history is missing was opened")
	}
	_ = b
}

// Memory for a body is requested before it is allocated.
func TestBodiesAsk(t *testing.T) {
	w, r := newPair(t)
	body := message(0)
	out, err := w.Append(nil, body, true)
	if err != nil {
		t.Fatal(err)
	}
	asked, full := int64(0), errors.New("full")
	_, err = r.Open(out, 1<<24, func(n int64) error {
		if asked += n; asked > int64(len(body)) {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || asked < int64(len(body)) {
		t.Errorf("%v after %d of %d bytes", err, asked, len(body))
	}
}

func FuzzBodies(f *testing.F) {
	f.Add([]byte("a body"), []byte{0, 1, 0, 0, 0, 0})
	f.Add(message(1), []byte{})
	c := newCoders()
	f.Fuzz(func(t *testing.T, body, hostile []byte) {
		w, err := c.NewWriter(1, codec.MinStreamWindow)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		r, err := c.NewReader(codec.MinStreamWindow)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for _, asColumns := range []bool{true, false} {
			out, err := w.Append(nil, body, asColumns)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := r.Open(out, 1<<20, free); err != nil || !bytes.Equal(back, body) {
				t.Fatal(err)
			}
		}
		if back, err := r.Open(hostile, 1<<16, free); err == nil && len(back) > 1<<16 {
			t.Fatalf("%d bytes", len(back))
		}
	})
}
