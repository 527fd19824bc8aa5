package codectest

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/dict"
	"github.com/klauspost/compress/zstd"

	"github.com/cinch-layer/cinch/codec"
)

// Dicts returns dictionaries for [JSON] and [Documents]: raw content, and one
// trained in pure Go.
func Dicts(t testing.TB) map[string]*codec.Dict {
	t.Helper()
	docs := Documents(400, 7)
	trained, err := dict.BuildZstdDict(docs, dict.Options{MaxDictSize: 8 << 10, HashBytes: 6, ZstdDictID: 40_000, ZstdLevel: zstd.SpeedDefault})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*codec.Dict{
		"raw content":   NewDict(t, bytes.Join(docs[:40], nil)),
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
