// Package codectest is the test suite for every implementation of zstd, with the test data for it and the
// other codecs. The suite of the other codecs is engine_test.go of package codec.
package codectest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"sync"
)

// Sizes are lengths in bytes around the boundaries of the formats: literals,
// content size fields, hash windows, blocks.
var Sizes = []int{
	0, 1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 4095, 4096, 4097,
	65535, 65536, 65537, 65791, 65792, 65793, 128<<10 - 1, 128 << 10, 128<<10 + 1,
	1<<20 - 1, 1 << 20, 1<<20 + 1,
}

// Kinds holds generators of test data by name. Each is a function of size and seed.
var Kinds = map[string]func(n int, seed uint64) []byte{
	"zeros":  func(n int, _ uint64) []byte { return make([]byte, n) },
	"random": Random,
	"json":   JSON,
	"text":   Text,
	"base64": func(n int, seed uint64) []byte {
		return []byte(base64.StdEncoding.EncodeToString(Random(n, seed)))[:n]
	},
	"mixed": Mixed,
}

// Values returns values of all kinds, by kind and in the order of Sizes. They are made once and must not be
// modified.
var Values = sync.OnceValue(func() map[string][][]byte {
	all := map[string][][]byte{}
	for kind, generate := range Kinds {
		for _, n := range Sizes {
			all[kind] = append(all[kind], generate(n, uint64(n)))
		}
	}
	return all
})

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)) }

// Random returns n bytes without any structure.
func Random(n int, seed uint64) []byte {
	r := source(seed)
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// JSON returns the first n bytes of a list of order records.
func JSON(n int, seed uint64) []byte {
	r := source(seed)
	var b bytes.Buffer
	for b.Len() < n {
		order(&b, r)
		b.WriteByte('\n')
	}
	return b.Bytes()[:n]
}

var (
	cities   = []string{"Amsterdam", "Lisboa", "Tallinn", "Kyōto", "Montréal", "Valparaíso"}
	statuses = []string{"new", "paid", "packed", "shipped", "delivered", "returned"}
	goods    = []string{"lamp", "chair", "notebook", "kettle", "bicycle pump", "blanket", "globe"}
)

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

// order writes one record of 300 to 400 bytes.
func order(b *bytes.Buffer, r *rand.Rand) {
	fmt.Fprintf(b, `{"order_id":%d,"customer":{"id":"%08x-%04x","city":%q,"vip":%t},"status":%q,`,
		1e9+r.IntN(1e9), r.Uint32(), r.IntN(1<<16), pick(r, cities), r.IntN(9) == 0, pick(r, statuses))
	fmt.Fprintf(b, `"created_at":"2026-%02d-%02dT%02d:%02d:%02dZ","lines":[`,
		1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60))
	for i := range 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, `{"sku":"SKU-%06d","title":%q,"quantity":%d,"price_cents":%d}`,
			r.IntN(1e6), pick(r, goods), 1+r.IntN(5), 100+r.IntN(90000))
	}
	fmt.Fprintf(b, `],"currency":"EUR","note":null,"score":%.4f}`, r.Float64())
}

// Documents returns count records of about 350 bytes, all different.
func Documents(count int, seed uint64) [][]byte {
	r := source(seed)
	docs := make([][]byte, count)
	for i := range docs {
		var b bytes.Buffer
		order(&b, r)
		docs[i] = b.Bytes()
	}
	return docs
}

var words = []string{
	"the", "of", "a", "river", "stone", "between", "quietly", "and", "window", "remember",
	"light", "under", "seven", "morning", "without", "paper", "house", "or", "together", "long",
}

// Text returns n bytes of words.
func Text(n int, seed uint64) []byte {
	r := source(seed)
	var b bytes.Buffer
	for b.Len() < n {
		b.WriteString(pick(r, words))
		b.WriteByte(" ,.\n"[min(r.IntN(30), 3)&^r.IntN(2)])
	}
	return b.Bytes()[:n]
}

// Mixed alternates between stretches that compress and stretches that don't,
// so that frames have blocks of all types.
func Mixed(n int, seed uint64) []byte {
	b := make([]byte, 0, n)
	for i := seed; len(b) < n; i++ {
		stretch := min(n-len(b), 150_000)
		switch i % 3 {
		case 0:
			b = append(b, JSON(stretch, i)...)
		case 1:
			b = append(b, Random(stretch, i)...)
		default:
			b = append(b, make([]byte, stretch)...)
		}
	}
	return b
}
