package codec_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
)

func TestNewDict(t *testing.T) {
	content := codectest.JSON(1000, 1)
	d := codectest.NewDict(t, content)
	hash := sha256.Sum256(content)
	if d.Hash() != hash || d.Number() != binary.BigEndian.Uint32(hash[:4]) {
		t.Errorf("number %08x, hash %x", d.Number(), d.Hash())
	}
	content[0] ^= 1
	if bytes.Equal(d.Content(), content) {
		t.Error("the dictionary changes with the bytes it was made from")
	}
	if d.Trained() {
		t.Error("JSON taken for a trained dictionary")
	}
	if d := codectest.Dicts(t)["trained by go"]; !d.Trained() || d.ZstdID() != 40_000 {
		t.Errorf("trained dictionary: %t, ID %d", d.Trained(), d.ZstdID())
	}
}

func TestNewDictRefuses(t *testing.T) {
	trained := codectest.Dicts(t)["trained by go"].Content()
	noID := bytes.Clone(trained)
	copy(noID[4:8], "\x00\x00\x00\x00")
	for name, content := range map[string][]byte{
		"nothing":              nil,
		"too short":            make([]byte, codec.MinDictLen-1),
		"too long":             make([]byte, codec.MaxDictLen+1),
		"damaged tables":       append([]byte("\x37\xa4\x30\xec\x01\x00\x00\x00"), make([]byte, 100)...),
		"cut inside tables":    trained[:40],
		"trained with ID zero": noID,
	} {
		if _, err := codec.NewDict(content); !errors.Is(err, codec.ErrDictionary) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
