package clientformat

import (
	"errors"
	"slices"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

func TestNamed(t *testing.T) {
	for f := GlideZstd; f <= lastFormat; f++ {
		if got, err := Named(f.String()); err != nil || len(got) != 1 || got[0] != f {
			t.Errorf("%v: %v, %v", f, got, err)
		}
	}
	for name, n := range map[string]int{"glide": 2, "phpredis": 3, "django": 5, "redisson": 3, "rails": 2, "lettuce": 2, "symfony": 1} {
		if got, err := Named(name); err != nil || len(got) != n {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if all := Names(); len(all) != int(lastFormat)+len(families) || !slices.IsSorted(all) {
		t.Error(all)
	}
	if _, err := Named("memcached"); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

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

// A value whose header names a format but whose rest is not of it gives a separate error, unless another
// format opens it.
func TestTakeSaysWhatIsDamaged(t *testing.T) {
	stored := read(t, "glide-zstd.bin")
	if _, _, err := OpenAny(nil, families["glide"], stored[:len(stored)-1], 1<<20); !errors.Is(err, ErrCorrupt) {
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
