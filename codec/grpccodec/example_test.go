package grpccodec_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/cinch-layer/cinch/codec/grpccodec"
)

// A client compresses its calls with zstd at level 3. A server only registers: it answers in the encoding of
// the request.
func ExampleRegister() {
	if err := grpccodec.Register("zstd-3", "gzip"); err != nil { // at the beginning of main
		log.Fatal(err)
	}
	conn, err := grpc.NewClient("orders.internal:443",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.UseCompressor("zstd"))) // the name without the level
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	fmt.Println("client of", conn.Target())
	// Output: client of orders.internal:443
}

// A proxy holds whole messages, and decompresses only those that are short enough.
func ExampleSet_AppendDecompress() {
	set := grpccodec.NewSet(grpccodec.Options{})
	message := []byte(strings.Repeat("a message of a client, ", 1000))
	sent, err := set.AppendCompress(nil, message, "zstd-1")
	if err != nil {
		log.Fatal(err)
	}

	for _, maxBytes := range []int{1 << 20, 1 << 10} {
		received, err := set.AppendDecompress(nil, sent, "zstd", maxBytes)
		switch {
		case errors.Is(err, grpccodec.ErrTooLarge):
			fmt.Println("longer than", maxBytes, "bytes")
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println("restored:", bytes.Equal(received, message))
		}
	}
	// Output:
	// restored: true
	// longer than 1024 bytes
}
