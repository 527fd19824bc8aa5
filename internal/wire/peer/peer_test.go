package peer

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
)

func hellos() []Hello {
	return []Hello{
		{Lowest: 1, Highest: 1, Codecs: 1},
		{Lowest: 1, Highest: 9, Window: MaxWindow, Status: StatusRefused, Codecs: math.MaxUint16},
		{Lowest: 0, Highest: 1, Window: MinWindow, Codecs: 0x21},
		{Lowest: 1, Highest: 1, Codecs: 1, Extensions: AppendExtension("", Lanes, "\x01")},
		{Lowest: 1, Highest: 1, Codecs: 1, Extensions: strings.Repeat("\xff", MaxExtensions)},
		{Lowest: 1, Highest: 1, Codecs: 1, Extensions: AppendExtension("", Key, strings.Repeat("n", NonceLen))},
		{Lowest: 1, Highest: 1, Codecs: 1, Status: StatusKey, Extensions: AppendExtension("", Key, strings.Repeat("n", NonceLen+ProofLen))},
	}
}

func TestHello(t *testing.T) {
	for _, h := range hellos() {
		b := h.Append(nil)
		if got, err := ParseHello(b); err != nil || got != h {
			t.Errorf("%+v came back as %+v, %v", h, got, err)
		}
		for n := range b {
			if _, err := ParseHello(b[:n]); err == nil {
				t.Errorf("%d bytes of a hello are a hello", n)
			}
		}
	}
	b := Hello{Lowest: 1, Highest: 1, Codecs: 1}.Append(nil)
	b[HelloLen-1] = 3 // extensions of a later version
	if n, err := HelloSize(b); n != HelloLen+3 || err != nil {
		t.Errorf("size %d, %v", n, err)
	}
	if _, err := ParseHello(append(b, "new"...)); err != nil {
		t.Errorf("extensions: %v", err)
	}
}

func TestExtensions(t *testing.T) {
	all := AppendExtension(AppendExtension(AppendExtension("", 9, "abc"), Lanes, "\x01"), 7, "")
	for n := range len(all) + 1 {
		content, ok := Hello{Extensions: all[:n]}.Find(Lanes)
		if want := n >= 8; ok != want || ok && content != "\x01" {
			t.Errorf("in %d bytes: %q, %v", n, content, ok)
		}
	}
	if _, ok := (Hello{Extensions: all}).Find(7); !ok {
		t.Error("the last one was not found")
	}
}

// A proof depends on the key, the side, and every byte of both hellos except the far one's proof.
func TestKeyProof(t *testing.T) {
	key := []byte("sixteen bytes or more")
	near, far := hellos()[5], hellos()[6]
	proof := KeyProof(key, Near, near, far)
	changed := far
	changed.Extensions = far.Extensions[:len(far.Extensions)-ProofLen] + strings.Repeat("p", ProofLen)
	if again := KeyProof(key, Near, near, changed); !bytes.Equal(again, proof) {
		t.Error("the proof covers that of the far gateway")
	}
	seen := map[string]bool{string(proof): true}
	once := func(what string, proof []byte) {
		if seen[string(proof)] {
			t.Errorf("the proof does not depend on %s", what)
		}
		seen[string(proof)] = true
	}
	once("the key", KeyProof(key[1:], Near, near, far))
	once("the side", KeyProof(key, Far, near, far))
	once("which hello is whose", KeyProof(key, Near, far, near))
	for _, change := range []func(*Hello){
		func(h *Hello) { h.Lowest-- },
		func(h *Hello) { h.Highest++ },
		func(h *Hello) { h.Window = MaxWindow },
		func(h *Hello) { h.Status++ },
		func(h *Hello) { h.Codecs = 3 },
		func(h *Hello) { h.Extensions = h.Extensions[:2] + "m" + h.Extensions[3:] },
		func(h *Hello) { h.Extensions = AppendExtension("", Lanes, "\x01") + h.Extensions },
	} {
		other := near
		change(&other)
		once("the near one's hello", KeyProof(key, Near, other, far))
		other = far
		change(&other)
		once("the far one's hello", KeyProof(key, Near, near, other))
	}
}

func TestBadHellos(t *testing.T) {
	good := Hello{Lowest: 1, Highest: 1, Codecs: 1, Window: 20}
	for name, c := range map[string]struct {
		change func(b []byte)
		want   error
	}{
		"magic":      {func(b []byte) { b[0] = 'G' }, ErrMagic},
		"too new":    {func(b []byte) { b[8], b[9] = 2, 3 }, ErrVersion},
		"too old":    {func(b []byte) { b[8], b[9] = 0, 0 }, ErrVersion},
		"upside":     {func(b []byte) { b[8], b[9] = 2, 1 }, ErrMalformed},
		"window 15":  {func(b []byte) { b[10] = MinWindow - 1 }, ErrMalformed},
		"window 24":  {func(b []byte) { b[10] = MaxWindow + 1 }, ErrMalformed},
		"no raw":     {func(b []byte) { b[13] = 2 }, ErrMalformed},
		"extensions": {func(b []byte) { b[14] = 1 }, ErrMalformed},
	} {
		b := good.Append(nil)
		c.change(b)
		if _, err := ParseHello(b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func frames() [][]byte {
	payload := []byte("payload")
	coded := func(f Frame, n int) []byte {
		return append(AppendCoded(nil, f, n), bytes.Repeat([]byte{'x'}, n)...)
	}
	return [][]byte{
		append(AppendRaw(nil, len(payload)), payload...),
		append(AppendRaw(nil, MaxRaw), make([]byte, MaxRaw)...),
		coded(Frame{Kind: Block, Codec: 5, RawLen: 100, Sum: 1 << 31}, 7),
		coded(Frame{Kind: Piece, RawLen: 1, Sum: 1}, 1+maxOverhead),
		coded(Frame{Kind: Begin, Window: 17, RawLen: MaxRaw, Sum: 1}, MaxRaw+maxOverhead),
		AppendPlain(nil, Frame{Kind: Open}),
		AppendPlain(nil, Frame{Kind: Fin}),
		AppendPlain(nil, Frame{Kind: Reset, Reason: ReasonUnreachable}),
		AppendPlain(nil, Frame{Kind: Grant, Window: 23, Epoch: 255}),
		AppendPlain(nil, Frame{Kind: Grant}),
		AppendPlain(nil, Frame{Kind: Drop}),
		AppendPlain(nil, Frame{Kind: Speed, Speed: math.MaxUint32}),
	}
}

// again appends what f says.
func again(f Frame) []byte {
	switch {
	case f.Kind == Block && f.Codec == 0:
		return append(AppendRaw(nil, f.RawLen), f.Payload...)
	case f.Payload != nil:
		return append(AppendCoded(nil, f, len(f.Payload)), f.Payload...)
	}
	return AppendPlain(nil, f)
}

func TestFrames(t *testing.T) {
	for _, b := range frames() {
		f, size, err := Parse(b)
		if err != nil || size != len(b) || !bytes.Equal(again(f), b) {
			t.Fatalf("%.20x: %+v, size %d of %d, %v", b, f.Kind, size, len(b), err)
		}
		if len(b) > MaxFrame {
			t.Errorf("a frame of %d bytes", len(b))
		}
		for _, n := range []int{0, 1, 2, 3, len(b) - 1} {
			if n >= len(b) {
				continue
			}
			if _, size, err := Parse(b[:n]); err != nil || size <= n || size > len(b) {
				t.Fatalf("%d bytes of %.20x: size %d, %v", n, b, size, err)
			}
		}
	}
}

func TestBadFrames(t *testing.T) {
	for name, b := range map[string][]byte{
		"kind":           {0x60},
		"kind of piece":  {0x12},
		"empty":          {0x00, 0},
		"too long":       {0x00, 0x81, 0x80, 0x04},
		"number":         {0x00, 0x81, 0x00},
		"long number":    {0x50, 0x80, 0x80, 0x80, 0x80, 0x80},
		"large number":   {0x50, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"nothing":        {0x10, 5, 0},
		"payload":        {0x10, 1, 0x82, 0x08},
		"begin window":   {0x11, 15},
		"begin window 0": {0x11, 0},
		"grant window":   {0x40, 24},
	} {
		if _, _, err := Parse(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, b := range frames() {
		f.Add(b[:min(len(b), 100)])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, size, err := Parse(b)
		switch {
		case err != nil:
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
		case size > MaxFrame || size < 1:
			t.Fatalf("size %d", size)
		case size <= len(b):
			if !bytes.Equal(again(frame), b[:size]) {
				t.Fatalf("%x is %+v", b, frame)
			}
		}
	})
}

func FuzzHello(f *testing.F) {
	for _, h := range hellos() {
		f.Add(h.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHello(b)
		if err != nil {
			return
		}
		if got, err := ParseHello(h.Append(nil)); err != nil || got != h {
			t.Fatalf("%+v became %+v, %v", h, got, err)
		}
	})
}
