package proto

import (
	"bytes"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
)

// Stored columns of any message are restored, and none of them is compressed.
func TestStored(t *testing.T) {
	e, d := NewEncoder(Options{Stored: true}), NewDecoder(Options{})
	for name, message := range vectors() {
		sealed := roundTrip(t, e, d, message)
		if codec.ID(sealed[1]) != codec.Raw {
			t.Errorf("%s: codec %d", name, sealed[1])
		}
		if most := len(message) + 16; len(sealed) > most {
			t.Errorf("%s: %d bytes of %d", name, len(sealed), len(message))
		}
	}
	if sealed := roundTrip(t, e, d, records(400, 1)); sealed[0] != formColumns || !bytes.Contains(sealed, []byte("attribute.0")) {
		t.Error("text is not to be seen in the columns")
	}
}

// With the history of earlier messages, a message of the same kind is much shorter than alone.
func TestStoredWithHistory(t *testing.T) {
	const messages, window = 20, 20
	engine := codec.New(codec.Options{})
	w, err := engine.StreamWriter(3, window)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	stored, alone := NewEncoder(Options{Stored: true}), NewEncoder(Options{})
	together, each := 0, 0
	for i := range uint64(messages) {
		message := records(40, i)
		packed, err := w.Append(nil, stored.Append(nil, message))
		if err != nil {
			t.Fatal(err)
		}
		together += len(packed)
		each += len(alone.Append(nil, message))
	}
	if together*8 > each*7 {
		t.Errorf("%d bytes with a history, %d without", together, each)
	}
}

// A message that is too long for columns can still profit from a history.
func TestStoredLong(t *testing.T) {
	e := NewEncoder(Options{Stored: true})
	message := bytes.Repeat([]byte("one line as all others\n"), MaxBytes/20)
	sealed := e.Append(nil, message)
	if sealed[0] != FormStream || len(sealed) < len(message) {
		t.Fatalf("form %#x, %d bytes of %d", sealed[0], len(sealed), len(message))
	}
	opened, err := codec.New(codec.Options{}).Decompress(nil, sealed[1+len(zstdframe.Magic):], codec.Zstd, len(message), nil)
	if err != nil || !bytes.Equal(opened, message) {
		t.Fatalf("%d bytes, %v", len(opened), err)
	}
}
