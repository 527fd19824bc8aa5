package budget

import "github.com/cinch-layer/cinch/codec"

// Step is the number of steps by which a value's setting is lowered from its rule's.
type Step uint8

// The steps, from the best down.
const (
	Full  Step = iota // as the rule says
	Fast              // zstd and zlib at their fastest level
	Light             // lz4
	Plain             // not at all

	Steps = int(Plain) + 1
)

var stepNames = [Steps]string{Full: "rule", Fast: "fast", Light: "lz4", Plain: "raw"}

// String returns the name in metrics.
func (s Step) String() string { return stepNames[s] }

// minAloneBytes is the length from which zstd's fastest level without a dictionary costs less than a higher
// level with one: 20 µs against 26 for 16 KB of JSON, but 3.9 against 1.8 for 1 KB.
const minAloneBytes = 16 << 10

// Apply returns the setting that the step gives a value of n bytes in place of its rule's. No step takes more
// memory than the rule's setting: it never prepares a dictionary for another level, but uses none.
func (s Step) Apply(st codec.Setting, n int) codec.Setting {
	switch s {
	case Fast:
		return fastest(st, n)
	case Light:
		return light(st)
	case Plain:
		return codec.Setting{}
	}
	return st
}

func fastest(st codec.Setting, n int) codec.Setting {
	switch {
	case st.Dict != 0 && n < minAloneBytes:
		return st
	case st.Codec == codec.Zstd || st.Codec == codec.Zlib || st.Codec == codec.Gzip:
		return codec.Setting{Codec: st.Codec, Level: 1}
	case st.Codec == codec.LZ4 || st.Codec == codec.S2 || st.Codec == codec.MinLZ || st.Codec == codec.Snappy:
		return codec.Setting{Codec: st.Codec}
	}
	return st
}

func light(st codec.Setting) codec.Setting {
	switch st.Codec {
	case codec.Zstd, codec.Zlib, codec.Gzip:
		return codec.Setting{Codec: codec.LZ4}
	}
	return fastest(st, 0)
}

// ApplyWithin is like Apply, but keeps the codec, since both ends have agreed on it: Fast and Light stand for its
// fastest level. A setting with a dictionary stays unchanged, as for short values in Apply, and so does cinch-proto.
func (s Step) ApplyWithin(st codec.Setting) codec.Setting {
	switch {
	case s == Plain:
		return codec.Setting{}
	case s == Full || st.Codec == codec.Proto || st.Dict != 0:
		return st
	}
	return fastest(st, 0)
}
