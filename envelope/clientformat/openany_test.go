package clientformat

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

func TestTake(t *testing.T) {
	for name, v := range vectors(t) {
		for family, formats := range families {
			got, is, err := OpenAny([]byte("before "), formats, v.stored, len(v.content))
			switch {
			case slices.Contains(formats, v.f) && (err != nil || is != v.f || string(got) != "before "+string(v.content)):
				t.Errorf("%s: %s takes it for %v: %d bytes, %v", name, family, is, len(got), err)
			case !slices.Contains(formats, v.f) && (!errors.Is(err, ErrNone) || string(got) != "before "):
				t.Errorf("%s: %s takes it for %v: %v", name, family, is, err)
			}
		}
	}
}

func TestTakeLeavesOthersAlone(t *testing.T) {
	for _, stored := range []string{"", "1", `{"id":1}`, "plain", "a:1:{i:0;i:1;}", "\x80\x04K\x01.", "\x00\x01\x02\x00\x03 of nobody"} {
		for family, formats := range families {
			if got, f, err := OpenAny(nil, formats, []byte(stored), 1<<20); !errors.Is(err, ErrNone) || f != 0 || got != nil {
				t.Errorf("%q: %s takes it for %v: %q, %v", stored, family, f, got, err)
			}
		}
	}
}

// OpenAny returns the error of Open, not ErrNone, for a value that has the header of a format but does not open in it.
// If another format opens the value, there is no error.
func TestTakeSaysWhatIsDamaged(t *testing.T) {
	stored := read(t, "glide-zstd.bin")
	if _, _, err := OpenAny(nil, families["glide"], stored[:len(stored)-1], 1<<20); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
	withDict := bytes.Clone(stored)
	withDict[bytes.Index(stored, zstdMagic)+len(zstdMagic)] |= 1 // a dictionary ID of one byte follows
	if _, _, err := OpenAny(nil, families["glide"], withDict, 1<<20); !errors.Is(err, ErrCorrupt) || strings.Contains(err.Error(), "%!") {
		t.Error(err)
	}
	if _, _, err := OpenAny(nil, families["glide"], stored, 100); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	literals, err := Append(nil, LZF, 0, []byte("\x00\x00\x00\x02, igbinary's"), codec.New(codec.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, f, err := OpenAny(nil, families["phpredis"], literals, 1<<20); f != LZF || err != nil {
		t.Error(f, err)
	}
}
