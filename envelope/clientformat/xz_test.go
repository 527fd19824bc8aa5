package clientformat

import (
	"bytes"
	"errors"
	"hash/crc32"
	"runtime"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
)

// A header may declare a dictionary of 4 GiB for a value of a few bytes.
func TestXZTakesNoDictionaryThatIsDeclared(t *testing.T) {
	stored, want := read(t, "xz.bin"), read(t, "value.json")
	copy(stored, appendXZHead(nil, 40))
	took := allocated(func() {
		if got, err := Open(nil, XZ, stored, 1<<20); err != nil || !bytes.Equal(got, want) {
			t.Error(len(got), err)
		}
	})
	if took > 1<<20 {
		t.Errorf("took %d KiB", took>>10)
	}
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Streams that xz writers may make but Python's lzma.compress doesn't are refused before anything is decoded.
func TestXZIsOneBlock(t *testing.T) {
	stored := read(t, "xz.bin")
	tail := stored[len(stored)-20:]
	for name, bad := range map[string][]byte{
		"two streams":         append(bytes.Clone(stored), stored...),
		"two blocks":          append(append(bytes.Clone(stored[:len(stored)-20]), stored[xzStreamHeader:len(stored)-20]...), tail...),
		"no block":            append(append(bytes.Clone(stored[:xzStreamHeader]), 0, 0, 0, 0, 0x1c, 0xdf, 0x44, 0x21), stored[len(stored)-xzFooter:]...),
		"another filter":      replaced(stored, xzStreamHeader, 8, []byte{2, 0, 3, 1, 0, 0, 0, 0}),
		"sizes in the header": replaced(stored, xzStreamHeader, 8, []byte{2, 0xc0, 0x21, 1, 20, 0, 0, 0}),
		"another check":       replaced(stored, len(xzMagic), 2, []byte{0, 1}),
	} {
		if _, err := Open(nil, XZ, bad, 1<<20); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// replaced returns stored with other bytes at a position, followed by the right CRC-32.
func replaced(stored []byte, at, n int, by []byte) []byte {
	out := bytes.Clone(stored)
	copy(out[at:], by)
	sum := crc32.ChecksumIEEE(by)
	copy(out[at+n:], []byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)})
	return out
}

// The encoder is slow, so by default it compresses only content that is worth it.
func TestXZIsStoredWhereThatTakesTooLong(t *testing.T) {
	e := codec.New(codec.Options{})
	for name, c := range map[string]struct {
		content []byte
		less    bool
	}{
		"json": {codectest.JSON(20_000, 1), true}, "noise": {codectest.Random(20_000, 1), false}, "long": {codectest.JSON(xzMostByDefault+1, 1), false},
	} {
		stored, err := Append(nil, XZ, 0, c.content, e)
		if err != nil || (len(stored) < len(c.content)) != c.less {
			t.Errorf("%s: %d of %d bytes, %v", name, len(stored), len(c.content), err)
		}
	}
}
