package envelope

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

// dictSet implements Dictionaries by a map.
type dictSet map[uint32]*codec.Dict

func (s dictSet) Dictionary(number uint32) (*codec.Dict, error) {
	if d, ok := s[number]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("%w: %08x", ErrDictMissing, number)
}

func newDictSet(t testing.TB, contents ...[]byte) dictSet {
	t.Helper()
	set := dictSet{}
	for _, c := range contents {
		d, err := codec.NewDict(c)
		if err != nil {
			t.Fatal(err)
		}
		set[d.Number()] = d
	}
	return set
}

// order returns a JSON document as shops store them: small, and similar to the next one.
func order(i int) []byte {
	r := rand.New(rand.NewPCG(7, uint64(i)))
	return fmt.Appendf(nil, `{"id":%d,"customer":{"id":%d,"tier":"%s"},"currency":"EUR","status":"%s","lines":[{"sku":"SKU-%06d","quantity":%d,"price_cents":%d}],"shipping":{"method":"standard","country":"%s"}}`,
		100000+i, r.IntN(9000), []string{"basic", "silver", "gold"}[r.IntN(3)], []string{"open", "paid", "shipped"}[r.IntN(3)],
		r.IntN(1e6), 1+r.IntN(5), r.IntN(50000), []string{"DE", "FR", "ES", "PT"}[r.IntN(4)])
}

// orders returns n bytes of order documents, compressible by every codec.
func orders(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		b.Write(order(i))
		b.WriteByte('\n')
	}
	return b.Bytes()[:n]
}

// noise returns n incompressible bytes.
func noise(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}

// settings returns every codec, and zstd with a dictionary.
func settings(dict uint32) []codec.Setting {
	var all []codec.Setting
	for id := codec.Raw; id.Known(); id++ {
		all = append(all, codec.Setting{Codec: id})
	}
	if dict != 0 {
		all = append(all, codec.Setting{Codec: codec.Zstd, Dict: dict})
	}
	return all
}

// testSealer returns a Sealer with one dictionary, and its number.
func testSealer(t testing.TB) (*Sealer, uint32) {
	t.Helper()
	set := newDictSet(t, orders(4<<10))
	for number := range set {
		return NewSealer(SealerOptions{Dicts: set}), number
	}
	panic("unreachable")
}

func always(int, int) bool { return true }

// class returns the name of the error in testdata/vectors.
func class(err error) string {
	for _, c := range []struct {
		name string
		err  error
	}{
		{"truncated", ErrTruncated},
		{"version", ErrVersion},
		{"reserved", ErrReserved},
		{"header", ErrHeader},
		{"payload", ErrPayload},
		{"checksum", ErrChecksum},
		{"tag", ErrTag},
		{"unknown codec", ErrUnknownCodec},
		{"dictionary missing", ErrDictMissing},
		{"too large", ErrTooLarge},
	} {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return fmt.Sprint(err)
}

// putTag sets the tag of an otherwise complete envelope, if it has a dictionary.
func putTag(d *codec.Dict, sealed []byte) {
	if h, err := ParseHeader(sealed); err == nil && h.HasDict {
		tag := h.tag(d, sealed)
		copy(sealed[h.tagAt():], tag[:])
	}
}
