package grpc

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

func TestHeader(t *testing.T) {
	for _, h := range []Header{{false, 0}, {true, 0}, {false, 1}, {true, math.MaxUint32}} {
		b := AppendHeader([]byte("x"), h.Compressed, int(h.Len))
		got, err := ParseHeader(b[1:])
		if err != nil || got != h || len(b) != 1+HeaderLen {
			t.Errorf("%+v: got %+v, %v, %x", h, got, err, b)
		}
	}
	for _, flag := range []byte{2, 128, 255} {
		if _, err := ParseHeader([]byte{flag, 0, 0, 0, 0}); !errors.Is(err, ErrFlag) {
			t.Errorf("flag %d: %v", flag, err)
		}
	}
}

func TestScannerInPieces(t *testing.T) {
	var body []byte
	sizes := []int{0, 1, 5, 4, 300, 0, 0, 7}
	for i, n := range sizes {
		body = append(AppendHeader(body, i%2 == 1, n), make([]byte, n)...)
	}
	for piece := 1; piece <= len(body); piece++ {
		var s Scanner
		var got []int
		for at := 0; at < len(body); at += piece {
			if err := s.Scan(body[at:min(at+piece, len(body))], func(h Header) { got = append(got, int(h.Len)) }); err != nil {
				t.Fatal(err)
			}
		}
		if len(got) != len(sizes) || s.have != 0 || s.left != 0 {
			t.Fatalf("in pieces of %d: %v, and %d bytes of a header and %d of a message are open", piece, got, s.have, s.left)
		}
	}
}

// FuzzScanner checks that the headers that a scanner finds do not depend on how the body is cut, and that
// they marshal back to the bytes they were parsed from.
func FuzzScanner(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 'a', 1, 0, 0, 0, 0}, 3)
	f.Add([]byte{1, 255, 255, 255, 255, 'a'}, 1)
	f.Add([]byte{2, 0, 0, 0, 0}, 5)
	f.Fuzz(func(t *testing.T, body []byte, cut int) {
		var whole, pieces Scanner
		var a, b []Header
		errWhole := whole.Scan(body, func(h Header) { a = append(a, h) })
		cut = max(0, min(cut, len(body)))
		errPieces := pieces.Scan(body[:cut], func(h Header) { b = append(b, h) })
		if errPieces == nil {
			errPieces = pieces.Scan(body[cut:], func(h Header) { b = append(b, h) })
		}
		if (errWhole == nil) != (errPieces == nil) || len(a) != len(b) || errWhole == nil && whole != pieces {
			t.Fatalf("whole %v %v %+v, in pieces %v %v %+v", errWhole, a, whole, errPieces, b, pieces)
		}
		rest := body
		for i, h := range a {
			if h != b[i] || !bytes.HasPrefix(rest, AppendHeader(nil, h.Compressed, int(h.Len))) {
				t.Fatalf("header %d: %+v, %+v", i, h, b[i])
			}
			rest = rest[min(len(rest), HeaderLen+int(h.Len)):]
		}
	})
}
