package history_test

import (
	"bytes"
	"fmt"
	"log"

	pb "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/proto/history"
)

// report returns a message as an agent sends it every few seconds.
func report(i int) ([]byte, error) {
	var list structpb.ListValue
	for sensor := range 20 {
		list.Values = append(list.Values, structpb.NewStringValue(fmt.Sprintf("building 3, sensor %d", sensor)),
			structpb.NewNumberValue(float64(1_700_000_000+10*i)))
	}
	return pb.Marshal(&list)
}

// One link carries all messages of an agent. The writer leaves text to the link's own compression, which here
// is a stream of package codec.
func Example() {
	const window, maxBytes = 20, 1 << 20 // 1 MiB each
	engine := codec.New(codec.Options{})
	compress, err := engine.StreamWriter(1, window)
	if err != nil {
		log.Fatal(err)
	}
	defer compress.Close()
	decompress, err := engine.StreamReader(window)
	if err != nil {
		log.Fatal(err)
	}
	defer decompress.Close()

	var w history.Writer
	var r history.Reader
	for i := range 3 {
		message, err := report(i)
		if err != nil {
			log.Fatal(err)
		}
		split := w.Append(nil, message)
		sent, err := compress.Append(nil, split)
		if err != nil {
			log.Fatal(err)
		}

		if split, err = decompress.Append(nil, sent, len(split)); err != nil {
			log.Fatal(err)
		}
		received, err := r.Append(nil, split, maxBytes)
		if err != nil {
			log.Fatal(err) // the reader can't go on: both ends begin anew
		}
		fmt.Printf("less than a tenth: %t, restored: %t\n", len(sent) < len(message)/10, bytes.Equal(received, message))
	}
	// Output:
	// less than a tenth: false, restored: true
	// less than a tenth: true, restored: true
	// less than a tenth: true, restored: true
}
