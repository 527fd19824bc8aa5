package codectest

import (
	"errors"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
)

// OneFrame checks what gRPC's A122 requires of a message whose encoding is zstd: it is exactly one frame of
// RFC 8878, neither several nor skippable ones, and names no dictionary.
func OneFrame(packed []byte, rawLen int) error {
	rest, ok := strings.CutPrefix(string(packed), zstdframe.Magic)
	if !ok {
		return errors.New("no zstd frame")
	}
	f, err := zstdframe.Parse([]byte(rest), rawLen)
	if err == nil && f.DictID != 0 {
		err = errors.New("a zstd frame that names a dictionary")
	}
	return err
}

// Messages checks that pack turns messages of all sizes into one frame each.
func Messages(t *testing.T, pack func(message []byte) ([]byte, error)) {
	t.Helper()
	for _, n := range []int{0, 1, 255, 256, 350, 1000, 65_535, 65_536, 65_791, 65_792, 128 << 10, 128<<10 + 1, 1 << 20, 9 << 20}[:Amount(13, 14, 14)] {
		for name, message := range map[string][]byte{"text": Text(n, 1), "noise": Random(n, 2)} {
			packed, err := pack(message)
			if err == nil {
				err = OneFrame(packed, n)
			}
			if err != nil {
				t.Errorf("%d bytes of %s: %v", n, name, err)
			}
		}
	}
}
