package library

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// values returns typical values of applications, and unusual ones.
func values() map[string][]byte {
	noise := make([]byte, 5000)
	r := rand.NewChaCha8([32]byte{20})
	_, _ = r.Read(noise)
	all := map[string][]byte{
		"empty": {}, "one byte": {7}, "text": []byte("Grüße, " + string(bytes.Repeat([]byte("many of them, "), 20))), "noise": noise,
		"magic": {0xC1, 0xDD, 0xDC}, "magic and text": append([]byte{0xC1, 0xDD, 0xDC}, bytes.Repeat([]byte("text"), 99)...),
		"magic and noise": append([]byte{0xC1, 0xDD, 0xDC, 0x15, 0x80}, noise...), "zeros": make([]byte, 1<<20),
		"every byte": []byte(everyByte()),
	}
	for _, size := range []int{200, 2000, 12_000, 100_000} {
		all[fmt.Sprint("JSON of ", size)] = readings(size)
	}
	return all
}

func everyByte() (text string) {
	for i := range 256 {
		text += string([]byte{byte(i), byte(i)})
	}
	return text
}

// readings returns JSON of at least size bytes.
func readings(size int) (b []byte) {
	for n := 0; len(b) < size; n++ {
		b = append(b, testenv.Reading(n)...)
	}
	return b
}

// dictionaries returns a dictionary of each kind, and none.
func dictionaries(t *testing.T) map[string][]byte {
	t.Helper()
	return map[string][]byte{
		"no dictionary": nil,
		"trained":       vectorFile(t, "dictionaries/trained.dict"),
		"raw":           readings(8000),
	}
}

func vectorFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "envelope", "testdata", "vectors", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// held implements Dictionaries with the dictionaries of a question.
type held map[uint32]*codec.Dict

func (h held) Dictionary(number uint32) (*codec.Dict, error) {
	if d := h[number]; d != nil {
		return d, nil
	}
	return nil, envelope.ErrDictMissing
}

func prepared(t *testing.T, contents ...[]byte) held {
	t.Helper()
	h := held{}
	for _, content := range contents {
		d, err := codec.NewDict(content)
		if err != nil {
			t.Fatal(err)
		}
		h[d.Number()] = d
	}
	return h
}

// opened returns Go's answer to a question.
func opened(t *testing.T, q question) answer {
	t.Helper()
	s := envelope.NewSealer(envelope.SealerOptions{Dicts: prepared(t, q.Dictionaries...), MaxOpen: q.MaxRaw})
	value, err := s.Open(nil, q.Value)
	return answer{Value: value, Error: class(err)}
}

// class returns the workers' name for an error.
func class(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, envelope.ErrDictMissing):
		return "dictionary missing"
	case errors.Is(err, envelope.ErrUnknownCodec):
		return "unknown codec"
	case errors.Is(err, envelope.ErrTooLarge):
		return "too large"
	}
	return "damaged"
}
