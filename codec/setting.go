package codec

import (
	"fmt"
	"strconv"
	"strings"
)

// Setting is what a writer chose. It is comparable, and its zero value is raw.
//
// In text it is the algorithm, then "-" and the level unless that is 0, then
// "@" and the dictionary's number in 8 hex digits unless that is 0: "raw",
// "lz4", "zstd-3", "zstd-3@0a1b2c3d". There is one spelling for a setting.
// Those of cinch-proto, "cinch-proto" and "cinch-proto-raw", are for messages
// only: see [ParseMessageSetting].
type Setting struct {
	Codec ID
	Level int    // 1 is the fastest; 0 is the algorithm's default; see Stored
	Dict  uint32 // number of a dictionary, 0 for none; zstd only
}

// Stored is the level of cinch-proto at which the columns of a message are not
// compressed: a link that carries the messages does that, with the history of others.
const Stored = -1

// storedSuffix is how Stored is written.
const storedSuffix = "-raw"

// IsProto reports whether the setting is one of cinch-proto's, which no [Engine]
// carries out.
func (s Setting) IsProto() bool {
	return s.Codec == Proto && (s.Level == 0 || s.Level == Stored) && s.Dict == 0
}

// ParseMessageSetting is ParseSetting for gRPC messages, which may have the
// settings of cinch-proto too.
func ParseMessageSetting(text string) (Setting, error) {
	for _, s := range []Setting{{Codec: Proto}, {Codec: Proto, Level: Stored}} {
		if s.String() == text {
			return s, nil
		}
	}
	return ParseSetting(text)
}

// String returns the text that [ParseMessageSetting] reads.
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

// ParseSetting reads what [Setting.String] prints of a setting for values, and
// nothing else. The error wraps [ErrSetting], or [ErrUnknownCodec] for the algorithm's name.
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

// Validate reports whether an [Engine] can carry out the setting, given its
// dictionary. The error wraps [ErrSetting] or [ErrUnknownCodec].
func (s Setting) Validate() error {
	switch {
	case !s.Codec.Known():
		return fmt.Errorf("%w: %d", ErrUnknownCodec, uint8(s.Codec))
	case s.Level < 0 || s.Level > s.Codec.MaxLevel():
		return fmt.Errorf("%w: %s has levels 0 to %d, not %d", ErrSetting, s.Codec, s.Codec.MaxLevel(), s.Level)
	case s.Dict != 0 && s.Codec != Zstd:
		return fmt.Errorf("%w: %s takes no dictionary", ErrSetting, s.Codec)
	}
	return nil
}
