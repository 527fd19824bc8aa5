package libzstd_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/codec/libzstd"
)

// A program uses libzstd if it was built with cgo, and otherwise zstd in pure Go: both read what the other
// writes.
func ExampleNew() {
	var o codec.Options
	if z, ok := libzstd.New(); ok {
		o.Zstd = z
	}
	engine := codec.New(o)

	value := []byte(strings.Repeat("a log line that recurs\n", 50))
	setting := codec.Setting{Codec: codec.Zstd, Level: 3}
	payload, err := engine.Compress(nil, value, setting, nil)
	if err != nil {
		log.Fatal(err)
	}
	pure := codec.New(codec.Options{})
	restored, err := pure.Decompress(nil, payload, codec.Zstd, len(value), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("smaller:", len(payload) < len(value)/10)
	fmt.Println("restored:", bytes.Equal(restored, value))
	// Output:
	// smaller: true
	// restored: true
}

// Package dict trains with libzstd's trainer, and with its own in a program without cgo.
func ExampleTrain() {
	var samples [][]byte
	for i := range 1000 {
		samples = append(samples, fmt.Appendf(nil, `{"order":%d,"customer":%d,"currency":"EUR"}`,
			100000+37*i, i*i%9973))
	}
	d, err := dict.Train(samples, dict.TrainOptions{Size: 4 << 10, Algorithm: dict.External, External: libzstd.Train})
	if errors.Is(err, libzstd.ErrUnavailable) {
		d, err = dict.Train(samples, dict.TrainOptions{Size: 4 << 10})
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("has entropy tables:", d.Trained())
	// Output: has entropy tables: true
}
