package arrows

import (
	"slices"
	"testing"
)

// What a reader can hold. `go run ./internal/arrows/cmd -back` says where it is exceeded, and by what.
const mostBack = 14 // arrows of a package's files that run back up

// What exceeds that, and by how much: nothing today.
var (
	manyBack = map[string]int{}
	// sharedNames are names of types in several gateways that mean several things.
	sharedNames []string
)

func TestHouseRules(t *testing.T) {
	all, err := Measure("../..", Product...)
	if err != nil {
		t.Fatal(err)
	}
	back := map[string]int{}
	for _, p := range all {
		back[p.Path] = len(p.Back)
	}
	within(t, back, mostBack, manyBack, "arrows between its files that run back up")
	for _, name := range Homonyms(all) {
		if !slices.Contains(sharedNames, name) {
			t.Errorf("one name, several meanings: %s", name)
		}
	}
}

// within reports what exceeds most, or what is excepted, and exceptions that are needed no more.
func within(t *testing.T, counts map[string]int, most int, except map[string]int, what string) {
	t.Helper()
	for name, n := range counts {
		if n > max(most, except[name]) {
			t.Errorf("%s has %d %s, more than %d", name, n, what, max(most, except[name]))
		}
	}
	for name, n := range except {
		if counts[name] <= most {
			t.Errorf("%s has %d %s: its exception can go", name, counts[name], what)
		} else if counts[name] < n {
			t.Logf("%s has %d %s: write that in place of %d", name, counts[name], what, n)
		}
	}
}

// The arrows of a small package: the comment names a and c, b goes where least runs back.
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
