package codectest

import (
	"bytes"
	_ "embed" // testdata
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

// trained was made by klauspost's builder from Documents(400, 7). It is frozen
// since the builder makes another one every time.
//
//go:embed testdata/trained.dict
var trained []byte

// Dicts returns dictionaries for [JSON] and [Documents]: raw content, and one
// trained in pure Go.
func Dicts(t testing.TB) map[string]*codec.Dict {
	t.Helper()
	return map[string]*codec.Dict{
		"raw content":   NewDict(t, bytes.Join(Documents(40, 7), nil)),
		"short content": NewDict(t, []byte(`{"order_id":1000`)),
		"trained by go": NewDict(t, trained),
	}
}

// NewDict fails the test where content is no dictionary.
func NewDict(t testing.TB, content []byte) *codec.Dict {
	t.Helper()
	d, err := codec.NewDict(content)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
