package tarantool

import (
	"fmt"
	"testing"
)

func TestTupleKeys(t *testing.T) {
	for text, want := range map[string]string{
		"7": "[7]", `"7"`: "[7]", "name": "[name]", `[1, "a", 2.5]`: "[1 a 2.5]", "18446744073709551615": "[18446744073709551615]",
	} {
		if got, err := tupleKey(text); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// Name returns the server's name before the other shards have been looked up, for messages about dictionaries.
func TestDictAdminHasAName(t *testing.T) {
	if name := NewAccess(nil, nil, "server").DictAdmin().Name(); name != "server" {
		t.Errorf("%q", name)
	}
}
