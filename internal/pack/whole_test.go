package pack

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/store"
)

// A key is looked at before and after only when all that is changed of it is changed between.
func TestWholeKey(t *testing.T) {
	for text, want := range map[string]int{
		"s1": 0, "h1 h1 h1": -1, "h1 s1": 1, "h1 h1 h2 h2": -1, "h1 h2 h3": 1, "h1 h1 h2 h2 h3": 2, "s1 h1 h1": 0, "x1 x1 x2 h1": 2,
	} {
		var changes []store.Change
		for word := range strings.FieldsSeq(text) {
			kind := map[byte]store.Type{'s': store.String, 'h': store.Hash, 'x': store.Stream}[word[0]]
			changes = append(changes, store.Change{Value: &store.Value{Key: []byte(word), Type: kind}})
		}
		if got := wholeKey(changes); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}
