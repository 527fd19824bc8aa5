package codec

import (
	"fmt"
	"strconv"
	"strings"
)

// ID is the number of an algorithm in the envelope format. It fits in four bits, and a number is never reused
// for another algorithm.
type ID uint8

// The algorithms. The values are part of the format.
const (
	Raw    ID = 0 // uncompressed
	Snappy ID = 1 // snappy block format
	S2     ID = 2 // s2 block format, a superset of snappy's
	MinLZ  ID = 3 // minlz block format, for values up to 8 MiB; longer ones are ErrTooLarge
	LZ4    ID = 4 // lz4 block format
	Zstd   ID = 5 // one zstd frame without its magic number
	Zlib   ID = 6 // RFC 1950
	Gzip   ID = 7 // RFC 1952, one member
)

// Proto is the encoding cinch-proto, for gRPC messages only: no envelope uses it and no [Engine] implements
// it, so it is not Known. See codec/proto.
const (
	Proto     ID = 16
	protoName    = "cinch-proto"
)

// algorithm describes the possible settings of an algorithm.
type algorithm struct {
	name     string
	maxLevel int // levels are 1..maxLevel; 0 if there is no choice
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

// MaxLevel returns the highest level of the algorithm, 0 if there is no choice.
func (id ID) MaxLevel() int {
	if !id.Known() {
		return 0
	}
	return algorithms[id].maxLevel
}

// String returns the name that [ParseID] parses, or "codec(9)" for a number that this version does not know.
func (id ID) String() string {
	if id == Proto {
		return protoName
	}
	if !id.Known() {
		return fmt.Sprintf("codec(%d)", uint8(id))
	}
	return algorithms[id].name
}

// ParseID returns the algorithm with a name, which is in lower case. The error wraps [ErrUnknownCodec].
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

// Setting is a writer's choice. It is comparable, and its zero value is raw.
//
// As text it is the algorithm, then "-" and the level unless that is 0, then "@" and the dictionary's number
// in 8 hex digits unless that is 0: "raw", "lz4", "zstd-3", "zstd-3@0a1b2c3d". Each setting has exactly one
// spelling. Those of cinch-proto, "cinch-proto" and "cinch-proto-raw", are for messages only: see
// [ParseMessageSetting].
type Setting struct {
	Codec ID
	Level int    // 1 is the fastest; 0 is the algorithm's default; see Stored
	Dict  uint32 // number of a dictionary, 0 for none; zstd only
}

// Stored is the level of cinch-proto at which the columns of a message are not compressed: the link that carries the
// messages compresses them, with the history of other messages.
const Stored = -1

// storedSuffix is the text form of Stored.
const storedSuffix = "-raw"

// IsProto reports whether the setting is one of cinch-proto, which no [Engine] implements.
func (s Setting) IsProto() bool {
	return s.Codec == Proto && (s.Level == 0 || s.Level == Stored) && s.Dict == 0
}

// ParseMessageSetting is [ParseSetting] for gRPC messages: it accepts the settings of cinch-proto too, and
// returns the same errors.
func ParseMessageSetting(text string) (Setting, error) {
	for _, s := range []Setting{{Codec: Proto}, {Codec: Proto, Level: Stored}} {
		if s.String() == text {
			return s, nil
		}
	}
	return ParseSetting(text)
}

// String returns the text that [ParseMessageSetting] parses.
func (s Setting) String() string {
	text := s.Codec.String()
	if s.Codec == Proto && s.Level == Stored {
		return text + storedSuffix
	}
	if s.Level != 0 {
		text += "-" + strconv.Itoa(s.Level)
	}
	if s.Dict != 0 {
		text += fmt.Sprintf("@%08x", s.Dict)
	}
	return text
}

// ParseSetting parses the text that [Setting.String] returns for a setting for values, and nothing else. The
// error wraps [ErrSetting], or [ErrUnknownCodec] for the algorithm's name.
func ParseSetting(text string) (Setting, error) {
	var s Setting
	rest, number, hasDict := strings.Cut(text, "@")
	name, level, hasLevel := strings.Cut(rest, "-")
	id, err := ParseID(name)
	if err != nil {
		return Setting{}, err
	}
	s.Codec = id
	if hasLevel {
		if s.Level, err = strconv.Atoi(level); err != nil {
			return Setting{}, fmt.Errorf("%w: level %q", ErrSetting, level)
		}
	}
	if hasDict {
		n, err := strconv.ParseUint(number, 16, 32)
		if err != nil {
			return Setting{}, fmt.Errorf("%w: dictionary number %q", ErrSetting, number)
		}
		s.Dict = uint32(n)
	}
	if err := s.Validate(); err != nil {
		return Setting{}, err
	}
	if s.String() != text { // "zstd-03", "zstd-0", "zstd@0A1B2C3D", …
		return Setting{}, fmt.Errorf("%w: %q, write %q", ErrSetting, text, s)
	}
	return s, nil
}

// Validate checks that an [Engine] can execute the setting, given its dictionary. The error wraps
// [ErrSetting] or [ErrUnknownCodec].
func (s Setting) Validate() error {
	if !s.Codec.Known() {
		return fmt.Errorf("%w: %d", ErrUnknownCodec, uint8(s.Codec))
	}
	switch highest := algorithms[s.Codec].maxLevel; {
	case s.Level < 0 || s.Level > highest:
		return fmt.Errorf("%w: %s has levels 0 to %d, not %d", ErrSetting, s.Codec, highest, s.Level)
	case s.Dict != 0 && s.Codec != Zstd:
		return fmt.Errorf("%w: %s takes no dictionary", ErrSetting, s.Codec)
	}
	return nil
}
