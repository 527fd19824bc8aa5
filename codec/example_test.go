package codec_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/cinch-layer/cinch/codec"
)

// A payload carries neither its algorithm nor its raw length, so the caller stores both beside it.
func ExampleEngine_Compress() {
	type record struct {
		id      codec.ID
		rawLen  int // bytes
		payload []byte
	}
	engine := codec.New(codec.Options{})
	value := []byte(strings.Repeat("a log line that recurs\n", 50))

	setting := codec.Setting{Codec: codec.Zstd, Level: 3}
	payload, err := engine.Compress(nil, value, setting, nil)
	if err != nil {
		log.Fatal(err)
	}
	r := record{setting.Codec, len(value), payload}

	const maxRawBytes = 1 << 20 // Decompress leaves this check to its caller
	if r.rawLen > maxRawBytes {
		log.Fatal("value too large")
	}
	restored, err := engine.Decompress(nil, r.payload, r.id, r.rawLen, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("smaller:", len(r.payload) < r.rawLen/10)
	fmt.Println("restored:", bytes.Equal(restored, value))
	// Output:
	// smaller: true
	// restored: true
}

// A program reads a setting from its configuration.
func ExampleParseSetting() {
	for _, text := range []string{"zstd-3", "lz4", "zstd-99", "brotli"} {
		s, err := codec.ParseSetting(text)
		switch {
		case errors.Is(err, codec.ErrUnknownCodec):
			fmt.Println(text, "is not a codec of this version")
		case err != nil:
			fmt.Println(err)
		default:
			fmt.Printf("%s at level %d\n", s.Codec, s.Level)
		}
	}
	// Output:
	// zstd at level 3
	// lz4 at level 0
	// invalid setting: zstd has levels 0 to 22, not 99
	// brotli is not a codec of this version
}

// Two peers compress short messages with the history of those before. Each message is sent with its raw
// length, and all must arrive in order.
func ExampleEngine_StreamWriter() {
	engine := codec.New(codec.Options{})
	const window = 20 // 1 MiB
	w, err := engine.StreamWriter(3, window)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	r, err := engine.StreamReader(window)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()

	message := []byte("order 4711: two portions of dumplings, one bowl of soup, deliver to the back door")
	for range 2 {
		sent, err := w.Append(nil, message)
		if err != nil {
			log.Fatal(err)
		}
		received, err := r.Append(nil, sent, len(message))
		if err != nil {
			log.Fatal(err) // the stream can't go on
		}
		fmt.Printf("less than half: %t, restored: %t\n", len(sent) < len(message)/2, bytes.Equal(received, message))
	}
	// Output:
	// less than half: false, restored: true
	// less than half: true, restored: true
}
