package iproto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/tinylib/msgp/msgp"
)

func TestPrefix(t *testing.T) {
	for _, c := range []struct {
		b       []byte
		n, size int
		err     error
	}{
		{nil, 0, 0, nil},
		{[]byte{0x00}, 0, 1, nil},
		{[]byte{0x7f}, 127, 1, nil},
		{[]byte{0xcc}, 0, 0, nil},
		{[]byte{0xcc, 200}, 200, 2, nil},
		{[]byte{0xcd, 1}, 0, 0, nil},
		{[]byte{0xcd, 1, 2}, 0x102, 3, nil},
		{[]byte{0xce, 0, 0, 1, 2, 9}, 0x102, 5, nil},
		{[]byte{0xcf, 0, 0, 0, 0, 0, 0, 1, 2}, 0x102, 9, nil},
		{[]byte{0xce, 0x80, 0, 0, 0}, MaxFrame, 5, nil},
		{[]byte{0xce, 0x80, 0, 0, 1}, 0, 5, ErrTooLarge},
		{[]byte{0xcf, 255, 255, 255, 255, 255, 255, 255, 255}, 0, 9, ErrTooLarge},
		{[]byte{0x80}, 0, 0, ErrMalformed},
		{[]byte{0xd0, 1}, 0, 0, ErrMalformed},
		{[]byte{0xff}, 0, 0, ErrMalformed},
	} {
		n, size, err := Prefix(c.b)
		if n != c.n || size != c.size || !errors.Is(err, c.err) {
			t.Errorf("% x: %d, %d, %v", c.b, n, size, err)
		}
	}
}

func TestHeadsAreAsTheServerWritesThem(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 255, 256, 65535, 65536} {
		for kind, want := range map[Kind][]byte{
			String: msgp.AppendStringFromBytes(nil, make([]byte, n)),
			Binary: msgp.AppendBytes(nil, make([]byte, n)),
		} {
			got := append(AppendHead(nil, kind, n), make([]byte, n)...)
			if !bytes.Equal(got, want) {
				t.Errorf("kind %d of %d bytes: % .8x, want % .8x", kind, n, got, want)
			}
		}
	}
}

func TestStampReplacesOrAdds(t *testing.T) {
	for _, h := range []string{"\x82\x00\x02\x01\x07", "\x83\x05\xce\x00\x00\x00\x09\x00\x02\x01\x07", "\x84\x00\x02\x01\x07\x05\x01\x0a\x03", "\x80"} {
		var before, after Header
		if err := before.Parse([]byte(h)); err != nil {
			t.Fatal(err)
		}
		got := AppendStamped(nil, []byte(h), &before, 77777)
		if err := after.Parse(got); err != nil || after.Map.Len != len(got) {
			t.Fatalf("% x: %v", got, err)
		}
		if after.Schema != 77777 || after.Type != before.Type || after.Sync != before.Sync || after.Stream != before.Stream {
			t.Errorf("% x becomes % x", h, got)
		}
	}
}

// Lengths and counts that exceed the bytes given are errors, and cause no work or allocation.
func TestClaims(t *testing.T) {
	for _, b := range [][]byte{
		{0xdd, 0xff, 0xff, 0xff, 0xff},
		{0xdf, 0xff, 0xff, 0xff, 0xff},
		{0xdf, 0x80, 0, 0, 0, 1, 2},
		{0xdb, 0xff, 0xff, 0xff, 0xff, 1},
		{0xc6, 0xff, 0xff, 0xff, 0xff, 1},
		{0xc9, 0xff, 0xff, 0xff, 0xff, 1, 1},
		{0x92, 1},
		{0x81, 1},
		{0xc1},
		{},
		bytes.Repeat([]byte{0x9f}, 1<<20),
	} {
		if _, err := Skip(b, 0); !errors.Is(err, ErrMalformed) {
			t.Errorf("% .8x: %v", b, err)
		}
	}
	deep := append(bytes.Repeat([]byte{0x91}, 4<<20), 0xc0) // nesting takes no stack or memory
	if end, err := Skip(deep, 0); err != nil || end != len(deep) {
		t.Errorf("%d, %v", end, err)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x0b\x82\x00\x02\x01\x07\x82\x10\xcd\x02\x58\x21\x92\x01\xa1x"))
	f.Add(AppendError(nil, 1<<40, 5, 109, "Wrong schema version"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, size, err := Prefix(b)
		if err != nil || size == 0 || len(b) < size+n {
			return
		}
		frame := b[size : size+n]
		var h Header
		if h.Parse(frame) != nil {
			return
		}
		if h.Map.Len > len(frame) {
			t.Fatal("the header is longer than the frame")
		}
		var body Body
		if body.Parse(frame, h.Map.End()) != nil {
			return
		}
		for _, s := range []Span{h.Version, body.Tuple, body.Ops, body.Key, body.Data, body.SQLText, body.Features} {
			if s.Len > 0 && (s.At < h.Entries || s.End() > len(frame)) {
				t.Fatalf("span %v of %d bytes", s, len(frame))
			}
		}
		found := 0
		strings := NewStrings(frame, Span{body.At, body.End - body.At})
		for strings.Next() {
			if head := AppendHead(nil, strings.Kind, strings.Content.Len); len(head) > strings.Content.At-strings.At {
				t.Fatal("a head is shorter than the shortest form")
			}
			found++
		}
		if strings.Err() != nil || found > len(frame) {
			t.Fatalf("%d found in %d bytes: %v", found, len(frame), strings.Err())
		}
		stamped := AppendStamped(nil, frame, &h, math.MaxUint64)
		var again Header
		if err := again.Parse(stamped); err != nil || again.Schema != math.MaxUint64 || again.Sync != h.Sync || again.Type != h.Type {
			t.Fatalf("stamped % x: %v", stamped, err)
		}
	})
}

// FuzzSkip compares Skip with msgp.Skip, which recurses.
func FuzzSkip(f *testing.F) {
	f.Add([]byte{0x92, 0x81, 1, 0xa1, 'x', 0xc4, 1, 2})
	f.Add([]byte{0xc7, 0, 5, 0xd4, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<12 {
			return
		}
		end, err := Skip(b, 0)
		rest, want := msgp.Skip(b)
		if (err == nil) != (want == nil) || err == nil && len(b)-end != len(rest) {
			t.Fatalf("%d, %v; the library says %d, %v", end, err, len(b)-len(rest), want)
		}
	})
}

func TestErrorFrames(t *testing.T) {
	b := AppendError(nil, 7, 1<<33+9, ErrUnsupported, "cinch does not support this")
	var h Header
	var body Body
	if h.Parse(b[5:]) != nil || body.Parse(b[5:], h.Map.End()) != nil {
		t.Fatal("it does not parse")
	}
	if text, ok := Text(body.Error.Of(b[5:])); h.Type != ErrorFlag|ErrUnsupported || h.Sync != 7 || !ok || string(text) != "cinch does not support this" {
		t.Errorf("%+v %q", h, text)
	}
	if int(binary.BigEndian.Uint32(b[1:])) != len(b)-5 {
		t.Error("wrong length")
	}
}
