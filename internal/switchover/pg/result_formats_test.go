package pg

import (
	"bytes"
	"slices"
	"testing"
)

// Formats of a Bind's results, after parameters of all kinds. A truncated Bind has no formats that the whole
// one does not have.
func TestResultFormats(t *testing.T) {
	var bind []byte
	bind = append(bind, "portal\x00statement\x00"...)
	bind = append(bind, 0, 2, 0, 1, 0, 0)                      // formats of the parameters
	bind = append(bind, 0, 2, 0, 0, 0, 3, 'a', 'b', 'c')       // a parameter
	bind = append(bind, 0xff, 0xff, 0xff, 0xff)                // NULL
	whole := append(bytes.Clone(bind), 0, 3, 0, 0, 0, 1, 0, 1) // formats of the results
	if got := ResultFormats(whole); !slices.Equal(got, []int16{0, 1, 1}) {
		t.Errorf("%v", got)
	}
	for n := range whole {
		if got := ResultFormats(whole[:n]); len(got) > 0 {
			t.Errorf("cut off at %d: %v", n, got)
		}
	}
	for _, c := range []struct {
		formats []int16
		column  int
		want    int16
	}{{nil, 3, 0}, {[]int16{1}, 3, 1}, {[]int16{0, 1}, 1, 1}, {[]int16{0, 1}, 2, 0}} {
		if got := FormatOf(c.formats, c.column); got != c.want {
			t.Errorf("%v, column %d: %d", c.formats, c.column, got)
		}
	}
}
