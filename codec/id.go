package codec

import "fmt"

// ID is the number of an algorithm in the envelope format. It fits in four
// bits, and a number is never given to another algorithm.
type ID uint8

// The algorithms. The values are part of the format.
const (
	Raw    ID = 0 // the value as it is
	Snappy ID = 1 // snappy block format
	S2     ID = 2 // s2 block format, a superset of snappy's
	MinLZ  ID = 3 // minlz block format, for values up to 8 MiB
	LZ4    ID = 4 // lz4 block format
	Zstd   ID = 5 // one zstd frame without its magic number
	Zlib   ID = 6 // RFC 1950
	Gzip   ID = 7 // RFC 1952, one member
)

// Proto is the encoding cinch-proto, of gRPC messages only: no envelope has it and no [Engine]
// carries it out, so it is not Known. See codec/proto.
const (
	Proto     ID = 16
	protoName    = "cinch-proto"
)

// algorithm says what a setting may ask of an algorithm.
type algorithm struct {
	name     string
	maxLevel int // levels are 1..maxLevel; 0 where there is no choice
}

var algorithms = [...]algorithm{
	Raw:    {"raw", 0},
	Snappy: {"snappy", 3},
	S2:     {"s2", 3},
	MinLZ:  {"minlz", 3},
	LZ4:    {"lz4", 9},
	Zstd:   {"zstd", 22},
	Zlib:   {"zlib", 9},
	Gzip:   {"gzip", 9},
}

// Known reports whether this version can read the algorithm.
func (id ID) Known() bool { return int(id) < len(algorithms) }

// MaxLevel returns the highest level of the algorithm, 0 where there is no choice.
func (id ID) MaxLevel() int {
	if !id.Known() {
		return 0
	}
	return algorithms[id].maxLevel
}

// String returns the name that [ParseID] reads, or "codec(9)" for a number
// this version does not know.
func (id ID) String() string {
	if id == Proto {
		return protoName
	}
	if !id.Known() {
		return fmt.Sprintf("codec(%d)", uint8(id))
	}
	return algorithms[id].name
}

// ParseID returns the algorithm called name, which is in lower case. The
// error wraps [ErrUnknownCodec].
func ParseID(name string) (ID, error) {
	if name == protoName {
		return Proto, nil
	}
	for id, a := range algorithms {
		if a.name == name {
			return ID(id), nil
		}
	}
	return 0, fmt.Errorf("%w: %q", ErrUnknownCodec, name)
}
