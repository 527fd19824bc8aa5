package proto_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"

	pb "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/cinch-layer/cinch/codec/proto"
)

// A client compresses a message of Protocol Buffers, whose schema neither side needs.
func ExampleEncoder() {
	var list structpb.ListValue
	for i := range 1000 {
		list.Values = append(list.Values,
			structpb.NewStringValue(fmt.Sprintf("sensor.%d", i%7)), structpb.NewNumberValue(float64(i)))
	}
	message, err := pb.Marshal(&list)
	if err != nil {
		log.Fatal(err)
	}

	engine := proto.NewEngine(0) // one for all encoders and decoders of the process
	encoder := proto.NewEncoder(proto.Options{Engine: engine})
	sent := encoder.Append(nil, message)

	decoder := proto.NewDecoder(proto.Options{Engine: engine})
	const maxBytes = 4 << 20
	received, err := decoder.Append(nil, sent, maxBytes)
	switch {
	case errors.Is(err, proto.ErrTooLarge):
		log.Fatal("the client sends too much: ", err)
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println("smaller:", len(sent) < len(message)/4)
	fmt.Println("restored:", bytes.Equal(received, message))
	// Output:
	// smaller: true
	// restored: true
}
