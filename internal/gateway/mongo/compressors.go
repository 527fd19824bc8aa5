package mongo

import (
	"errors"

	"github.com/cinch-layer/cinch/codec"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// plain says that a message is not compressed; it is no number of the protocol's.
const plain wire.CompressorID = 255

// minCompressed is the length in bytes from which a message may gain by itself.
const minCompressed = 96

// pairName is what gateways offer each other in handshakes.
const pairName = "cinch"

var errCompressor = errors.New("unknown compressor")

// algorithm is what a compressor is called here and in handshakes.
type algorithm struct {
	id    wire.CompressorID
	name  string
	codec codec.ID
}

// algorithms are those that we read and write, in the order in which we like them.
var algorithms = [...]algorithm{
	{wire.Zstd, "zstd", codec.Zstd},
	{wire.Snappy, "snappy", codec.Snappy},
	{wire.Zlib, "zlib", codec.Zlib},
}

func algorithmOf(id wire.CompressorID) (algorithm, bool) {
	for _, a := range algorithms {
		if a.id == id {
			return a, true
		}
	}
	return algorithm{id: id, name: "noop", codec: codec.Raw}, id == wire.Noop
}

func compressorOf(id codec.ID) wire.CompressorID {
	for _, a := range algorithms {
		if a.codec == id {
			return a.id
		}
	}
	return plain
}

func compressorNamed(name []byte) wire.CompressorID {
	for _, a := range algorithms {
		if a.name == string(name) {
			return a.id
		}
	}
	if string(name) == pairName {
		return wire.BetweenGateways
	}
	return plain
}

// nameOf is what a compressor is called in handshakes.
func nameOf(id wire.CompressorID) string {
	if id == wire.BetweenGateways {
		return pairName
	}
	a, _ := algorithmOf(id)
	return a.name
}

// codecOf is the codec in which messages came.
func codecOf(id wire.CompressorID) codec.ID {
	if id == wire.BetweenGateways {
		return codec.Zstd
	}
	a, _ := algorithmOf(id)
	return a.codec
}

// compressors is the number of algorithms that are remembered separately.
const compressors = int(wire.BetweenGateways) + 1

// compressorSet is a set of compressors, one bit each.
type compressorSet uint32

func (s compressorSet) has(id wire.CompressorID) bool { return id <= 31 && s&(1<<id) != 0 }
func (s *compressorSet) add(id wire.CompressorID)     { *s |= 1 << id }

// only is the set of what gateways agree on.
const only compressorSet = 1 << wire.BetweenGateways
