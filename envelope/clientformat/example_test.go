package clientformat_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope/clientformat"
)

// A job reads a cache in which django-redis has compressed some of the values.
func ExampleOpenAny() {
	var compressed bytes.Buffer
	w := zlib.NewWriter(&compressed)
	if _, err := w.Write([]byte("a rendered page")); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}

	formats, err := clientformat.Named("django")
	if err != nil {
		log.Fatal(err)
	}
	for _, stored := range [][]byte{compressed.Bytes(), []byte("a short value")} {
		const maxContentBytes = 1 << 20
		content, f, err := clientformat.OpenAny(nil, formats, stored, maxContentBytes)
		switch {
		case errors.Is(err, clientformat.ErrNone):
			fmt.Printf("not compressed: %s\n", stored)
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Printf("%s: %s\n", f, content)
		}
	}
	// Output:
	// zlib: a rendered page
	// not compressed: a short value
}

// A job writes values for clients whose library expects them compressed, here Lettuce with gzip.
func ExampleAppend() {
	engine := codec.New(codec.Options{})
	page := []byte(strings.Repeat("a rendered page, ", 100))
	stored, err := clientformat.Append(nil, clientformat.Gzip, 0, page, engine)
	if err != nil {
		log.Fatal(err)
	}

	r, err := gzip.NewReader(bytes.NewReader(stored)) // as the library does
	if err != nil {
		log.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("smaller:", len(stored) < len(page)/10)
	fmt.Println("the same:", bytes.Equal(content, page))
	// Output:
	// smaller: true
	// the same: true
}
