package grpc

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func TestPairedLengths(t *testing.T) {
	for _, c := range []struct {
		frame string
		want  uint64
	}{
		{"\x20\x07", 7},
		{"\x20\xff", 255},
		{"\x60\x00\x00", 256},
		{"\x60\xff\xff", 256 + 65535},
		{"\xa0\x01\x00\x00\x80", 1 + 1<<31},
		{"\x80\x58\x01\x00\x00\x00", 1},
		{"\xe0\x01\x00\x00\x00\x00\x00\x00\x80", 1 + 1<<63},
	} {
		m := append(AppendPaired(nil, 0x0a0b0c0d), c.frame...)
		p, err := ParsePaired(m)
		if err != nil || p.Number != 0x0a0b0c0d || p.Len != c.want || string(p.Frame) != c.frame {
			t.Errorf("%x: %+v, %v, want %d", c.frame, p, err, c.want)
		}
		for n := range len(m) {
			if _, err := ParsePaired(m[:n]); !errors.Is(err, ErrPair) {
				t.Errorf("%x cut to %d bytes: %v", m, n, err)
			}
		}
	}
	for _, bad := range []string{"", "\x00\x00\x00\x00\x20\x07", "\x01\x02\x03\x04\x21\x07", "\x01\x02\x03\x04\x00\x58\x07"} {
		if p, err := ParsePaired([]byte(bad)); !errors.Is(err, ErrPair) {
			t.Errorf("%x: %+v, %v", bad, p, err)
		}
	}
	plain := []byte(zstdMagic + "\x20\x00")
	if p, err := ParsePaired(plain); err != nil || p.Number != 0 || !bytes.Equal(p.Frame, plain) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestDictionaryMessage(t *testing.T) {
	content := []byte("what messages have in common")
	m := AppendDictionary(nil, sha256.Sum256(content), content)
	if got, err := ParseDictionary(m); err != nil || !bytes.Equal(got, content) {
		t.Error(got, err)
	}
	for i := range m {
		m[i] ^= 1
		if _, err := ParseDictionary(m); !errors.Is(err, ErrPair) {
			t.Fatalf("byte %d was changed: %v", i, err)
		}
		m[i] ^= 1
	}
	for _, n := range []int{0, 1, HashLen, len(m) - 1} {
		if _, err := ParseDictionary(m[:n]); !errors.Is(err, ErrPair) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestHeaders(t *testing.T) {
	hash := sha256.Sum256([]byte("x"))
	if got, err := ParseHash(hex.EncodeToString(hash[:])); err != nil || got != hash {
		t.Error(got, err)
	}
	if n, err := ParseNumber(FormatNumber(0xa1)); err != nil || n != 0xa1 {
		t.Error(n, err)
	}
	for _, bad := range []string{"", "0a", "0a1b2c3", "0a1b2c3x", " a1b2c3d"} {
		if n, err := ParseNumber(bad); !errors.Is(err, ErrPair) {
			t.Errorf("%q: %x, %v", bad, n, err)
		}
	}
	if got := ParseIDs("0a1b2c3d00000000,0000000000000001"); len(got) != 2 || got[0] != 0x0a1b2c3d00000000 || got[1] != 1 {
		t.Errorf("%x", got)
	}
	full := strings.TrimSuffix(strings.Repeat("0a1b2c3d4e5f6071,", MaxIDs), ",")
	if len(ParseIDs(full)) != MaxIDs {
		t.Error("a list at its limit")
	}
	for _, bad := range []string{full + ",0a1b2c3d4e5f6071", full[:33] + ",", ",", "0a", full[:16] + ", " + full[:16], full[:32] + "x"} {
		if got := ParseIDs(bad); got != nil {
			t.Errorf("%q: %x", bad, got)
		}
	}
}

// What parses is written back the same, and nothing that is claimed is believed.
func FuzzPair(f *testing.F) {
	f.Add([]byte("\x0a\x0b\x0c\x0d\x20\x07abc"), "0a1b2c3d4e5f6071,0000000000000001")
	f.Add([]byte(zstdMagic+"\x20\x00"), "")
	f.Add(AppendDictionary(nil, sha256.Sum256([]byte("content")), []byte("content")), strings.Repeat("0a1b2c3d4e5f6071,", 70))
	f.Fuzz(func(t *testing.T, b []byte, s string) {
		if p, err := ParsePaired(b); err == nil {
			again := p.Frame
			if p.Number != 0 {
				again = append(AppendPaired(nil, p.Number), p.Frame...)
			}
			if !bytes.Equal(again, b) {
				t.Errorf("%x became %x", b, again)
			}
		} else if !errors.Is(err, ErrPair) {
			t.Error(err)
		}
		if content, err := ParseDictionary(b); err == nil && !bytes.Equal(AppendDictionary(nil, sha256.Sum256(content), content), b) {
			t.Errorf("%x", b)
		}
		if hash, err := ParseHash(s); err == nil && !strings.EqualFold(hex.EncodeToString(hash[:]), s) {
			t.Error(s)
		}
		if ids := ParseIDs(s); len(ids) > 0 && !strings.EqualFold(FormatIDs(ids), s) {
			t.Error(s, ids)
		}
	})
}
