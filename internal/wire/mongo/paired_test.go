package mongo

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
)

// frame makes a whole frame of a head and bytes.
func frame(p Paired, last Numbers, b string) []byte {
	out := append(AppendPaired(nil, p, last), b...)
	FinishPaired(out)
	return out
}

func TestPairedRoundTrip(t *testing.T) {
	for _, p := range []Paired{
		{Header: Header{Length: HeaderLen, OpCode: OpMsg}, Stored: true},
		{Header: Header{Length: HeaderLen + 3, RequestID: 7, ResponseTo: 5, OpCode: OpMsg}, Slot: 15, Wants: true, Session: true},
		{Header: Header{Length: MaxMessage, RequestID: math.MinInt32, ResponseTo: math.MaxInt32, OpCode: OpQuery}},
		{Header: Header{Length: 1000, RequestID: -1, ResponseTo: 0, OpCode: OpReply}, Slot: 1},
	} {
		for _, last := range []Numbers{{}, {7, 5}, {math.MaxInt32, math.MinInt32}} {
			bytes := strings.Repeat("x", min(p.Header.Length-HeaderLen, 100))
			b := frame(p, last, bytes)
			if p.Length, p.Head = len(b), len(b)-len(bytes); p.Head > MaxPairedHead {
				t.Errorf("head of %d bytes", p.Head)
			}
			if got, err := ParsePaired(b, last); err != nil || got != p || !IsPaired(b) {
				t.Errorf("%+v after %+v: %+v, %v", p, last, got, err)
			}
		}
	}
	small := frame(Paired{Header: Header{Length: 400, RequestID: 100, OpCode: OpMsg}}, Numbers{Request: 90}, "")
	if len(small) != 4+1+2+1+1 {
		t.Errorf("the head of the next request takes %d bytes", len(small))
	}
	dict := AppendPairedDict(nil, 3, true, []byte("hash"))
	if got, err := ParsePaired(dict, Numbers{}); err != nil || !got.Dictionary || !got.Known || got.Slot != 3 || got.Length != len(dict) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestPairedRefuses(t *testing.T) {
	stored := Paired{Header: Header{Length: HeaderLen + 3, OpCode: OpMsg}, Stored: true}
	other := frame(Paired{Header: Header{Length: HeaderLen, OpCode: OpQuery}}, Numbers{}, "abc")
	with := func(b []byte, at int, v ...byte) []byte {
		return append(append(bytes.Clone(b[:at]), v...), b[at+len(v):]...)
	}
	for name, c := range map[string]struct {
		frame []byte
		want  error
	}{
		"shorter than its head":    {with(frame(stored, Numbers{}, "abc"), 0, 4), ErrMalformed},
		"longer than any message":  {[]byte{0xff, 0xff, 0xff, 0x83, 0, 0, 0, 0}, ErrTooLarge},
		"a huge dictionary":        {[]byte{0, 0, 9, 0xc0, 1}, ErrTooLarge},
		"a dictionary for no slot": {AppendPairedDict(nil, 0, false, make([]byte, 20)), ErrMalformed},
		"stored, of another size":  {frame(stored, Numbers{}, "abcd"), ErrMalformed},
		"stored by a dictionary":   {with(frame(stored, Numbers{}, "abc"), 4, formStored|1), ErrMalformed},
		"nested":                   {with(other, 5, 0xdc, 0x07), ErrNested},
		"an opcode told in vain":   {with(other, 5, 0xdd, 0x07), ErrOpCode},
		"an unknown opcode":        {with(other, 5, 1, 2), ErrOpCode},
		"opens to too much":        {[]byte{20, 0, 0, 0x80, 0, 0xff, 0xff, 0xff, 0x7f, 0, 0}, ErrTooLarge},
		"a varint that is longer":  {[]byte{20, 0, 0, 0x80, 0, 0x81, 0x00, 0, 0, 0}, ErrMalformed},
		"a varint without an end":  {[]byte{8, 0, 0, 0x80, 0, 0xff, 0xff, 0xff}, ErrMalformed},
		"a number of 33 bits":      {[]byte{30, 0, 0, 0x80, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x1f, 0}, ErrMalformed},
		"ends in its head":         {[]byte{6, 0, 0, 0x80, 0, 1}, ErrMalformed},
	} {
		if p, err := ParsePaired(c.frame, Numbers{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

// FuzzPaired: what parses is made again of what was read, byte for byte.
func FuzzPaired(f *testing.F) {
	f.Add(frame(Paired{Header: Header{Length: 100, RequestID: 5, ResponseTo: 4, OpCode: OpMsg}, Slot: 2, Wants: true}, Numbers{}, "abc"), int32(4), int32(3))
	f.Add(frame(Paired{Header: Header{Length: HeaderLen + 3, OpCode: OpQuery}, Stored: true}, Numbers{}, "abc"), int32(0), int32(-1))
	f.Add(AppendPairedDict(nil, 3, true, []byte("hash")), int32(0), int32(0))
	f.Fuzz(func(t *testing.T, b []byte, request, answer int32) {
		if len(b) < MaxPairedHead || !IsPaired(b) {
			return
		}
		last := Numbers{request, answer}
		p, err := ParsePaired(b, last)
		if err != nil || p.Length > len(b) {
			return
		}
		if p.Head > p.Length || p.Header.Length > MaxMessage || p.Slot >= PairedSlots {
			t.Fatalf("%+v", p)
		}
		again := AppendPairedDict(nil, p.Slot, p.Known, b[p.Head:p.Length])
		if !p.Dictionary {
			again = append(AppendPaired(nil, p, last), b[p.Head:p.Length]...)
			FinishPaired(again)
		}
		if !bytes.Equal(again, b[:p.Length]) {
			t.Errorf("%x became %x", b[:p.Length], again)
		}
	})
}
