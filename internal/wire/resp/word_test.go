package resp

import "testing"

func TestIsWord(t *testing.T) {
	for arg, want := range map[string]bool{"get": true, "GeT": true, "get\x00x": true, "": false, "ge": false, "gett": false, "g\x00et": false} {
		if got := IsWord([]byte(arg), "get"); got != want {
			t.Errorf("%q: %v", arg, got)
		}
	}
}

func TestParseCount(t *testing.T) {
	for arg, want := range map[string]bool{"0": true, "2147483647": true, "2147483648": false, "-1": false, "x": false, "": false} {
		if _, ok := ParseCount([]byte(arg)); ok != want {
			t.Errorf("%q: %v", arg, ok)
		}
	}
}
