package compute

import (
	"bytes"
	"testing"

	"github.com/cinch-layer/cinch/envelope"
)

func TestMayMakeMagic(t *testing.T) {
	m := envelope.Magic
	for name, test := range map[string]struct {
		args [][]byte
		want bool
	}{
		"append of other bytes":        {[][]byte{[]byte("APPEND"), []byte("k"), []byte("plain")}, false},
		"append of the end of it":      {[][]byte{[]byte("append"), []byte("k"), []byte(m[1:] + "x")}, true},
		"append of all of it":          {[][]byte{[]byte("append"), []byte("k"), []byte(m)}, true},
		"setrange of ASCII":            {[][]byte{[]byte("SETRANGE"), []byte("k"), []byte("0"), []byte("abc")}, false},
		"setrange of it":               {[][]byte{[]byte("SETRANGE"), []byte("k"), []byte("0"), []byte(m)}, true},
		"setrange behind its place":    {[][]byte{[]byte("SETRANGE"), []byte("k"), []byte("3"), []byte(m)}, false},
		"setrange of nothing":          {[][]byte{[]byte("SETRANGE"), []byte("k"), []byte("0"), nil}, false},
		"setrange at what is no index": {[][]byte{[]byte("SETRANGE"), []byte("k"), []byte("x"), []byte(m)}, false},
		"bits":                         {[][]byte{[]byte("SETBIT"), []byte("k"), []byte("0"), []byte("1")}, true},
	} {
		if got := MayMakeMagic(test.args); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestIsWide(t *testing.T) {
	for line, want := range map[string]bool{
		"BITFIELD k GET u53 0": false, "BITFIELD k GET u54 0": true, "bitfield_ro k get i64 0": true,
		"BITFIELD k GET u8 0": false, "GETRANGE k u63 0": false,
		"BITFIELD k INCRBY i64\x00 0 1": true, // the server reads a type up to its first zero byte
	} {
		if got := IsWide(bytes.Fields([]byte(line))); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
