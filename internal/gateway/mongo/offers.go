package mongo

import (
	"encoding/hex"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/codec"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// compressorsIn reads a list of names, each one once, and leaves out what we don't know, and
// what gateways agree on unless the other end may be one.
func compressorsIn(v bsoncore.Value, gateway bool) []wire.CompressorID {
	var list []wire.CompressorID
	_ = wire.Elements(wire.Document(v), func(e wire.Element) bool {
		id := compressorNamed(wire.Text(e.Value))
		if id == wire.BetweenGateways && !gateway {
			return true
		}
		if id != plain && !slices.Contains(list, id) {
			list = append(list, id)
		}
		return true
	})
	return list
}

func appendCompression(dst []byte, list []wire.CompressorID, held []*codec.Dict) []byte {
	index, dst := bsoncore.AppendArrayElementStart(dst, "compression")
	n := 0
	add := func(name string) {
		dst = bsoncore.AppendStringElement(dst, arrayKey(n), name)
		n++
	}
	for _, id := range list {
		add(nameOf(id))
	}
	for _, d := range held {
		hash := d.Hash()
		add(heldName + hex.EncodeToString(hash[:len(hashPrefix{})]))
	}
	dst, _ = bsoncore.AppendArrayEnd(dst, index)
	return dst
}

// arrayKey is the key of an array's n-th element.
func arrayKey(n int) string { return strconv.Itoa(n) }
