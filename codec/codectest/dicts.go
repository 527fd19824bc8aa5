package codectest

import (
	"bytes"
	_ "embed" // testdata
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
)

// trained was made by klauspost's builder from Documents(400, 7). It is frozen since the builder makes a
// different one every time.
//
//go:embed testdata/trained.dict
var trained []byte

// covered is made by Cinch's trainer, which always makes the same.
var covered = sync.OnceValues(func() (*codec.Dict, error) {
	return dict.Train(Documents(1500, 7), dict.TrainOptions{Size: 16 << 10})
})

// Dicts returns dictionaries for [JSON] and [Documents]: raw content, and two trained in pure Go by different
// trainers.
func Dicts(t testing.TB) map[string]*codec.Dict {
	t.Helper()
	own, err := covered()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*codec.Dict{
		"raw content":   NewDict(t, bytes.Join(Documents(40, 7), nil)),
		"short content": NewDict(t, []byte(`{"order_id":1000`)),
		"trained by go": NewDict(t, trained),
		"trained by us": own,
	}
}

// NewDict returns a dictionary, and fails the test if content is invalid.
func NewDict(t testing.TB, content []byte) *codec.Dict {
	t.Helper()
	d, err := codec.NewDict(content)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
