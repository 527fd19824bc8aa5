package archtest

import (
	"slices"
	"testing"
)

// The arrows of a small package: the comment names a and c; b is placed where the fewest run back.
func TestOrderAndBack(t *testing.T) {
	arrows := []Arrow{{"a", "b"}, {"b", "c"}, {"c", "a"}}
	files := order([]string{"a", "b", "c"}, []string{"a", "c"}, arrows)
	if !slices.Equal(files, []string{"a", "b", "c"}) {
		t.Errorf("read as %v", files)
	}
	if up := back(files, arrows); len(up) != 1 || up[0] != (Arrow{"c", "a"}) {
		t.Errorf("back up: %v", up)
	}
	if !apart([][]string{{"x", "y"}, {"y"}, {"z"}}) || apart([][]string{{"x", "y"}, {"y", "z"}}) {
		t.Error("types are told apart by their members")
	}
}
