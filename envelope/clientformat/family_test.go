package clientformat

import (
	"errors"
	"slices"
	"testing"
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
