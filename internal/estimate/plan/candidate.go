package plan

import (
	"errors"
	"fmt"
	"strings"

	"github.com/andybalholm/brotli"

	"github.com/cinch-layer/cinch/codec"
)

// A Candidate is a setting to measure.
type Candidate struct {
	Setting    codec.Setting // without a dictionary's number
	Dictionary bool          // with a dictionary trained for the group

	encoding encoding // for exchanges of messages; "" for values

	// Brotli is a quality to compare with, unless it is 0. Cinch can't store it.
	Brotli int
}

// String returns the candidate as in tables and --candidates: "zstd-3", "zstd-3+dict".
func (c Candidate) String() string {
	switch {
	case c.Brotli > 0:
		return fmt.Sprintf("brotli-%d", c.Brotli)
	case c.encoding == encodingPair:
		return pairPrefix + c.Setting.String()
	case c.Dictionary:
		return c.Setting.String() + "+dict"
	}
	return c.Setting.String()
}

const pairPrefix = "pair "

// ErrCandidate reports text that is not a candidate.
var ErrCandidate = errors.New("invalid candidate")

// ParseCandidate parses what String returns.
func ParseCandidate(text string) (Candidate, error) {
	var c Candidate
	if n, ok := strings.CutPrefix(text, "brotli-"); ok {
		if _, err := fmt.Sscanf(n, "%d", &c.Brotli); err != nil || c.Brotli < 1 || c.Brotli > brotli.BestCompression || c.String() != text {
			return c, fmt.Errorf("%w: %q: brotli has qualities 1 to %d", ErrCandidate, text, brotli.BestCompression)
		}
		return c, nil
	}
	setting, dictionary := strings.CutSuffix(text, "+dict")
	var err error
	if c.Setting, err = codec.ParseSetting(setting); err != nil {
		return c, fmt.Errorf("%w: %w", ErrCandidate, err)
	}
	if c.Dictionary = dictionary; dictionary && c.Setting.Codec != codec.Zstd || c.Setting.Dict != 0 {
		return c, fmt.Errorf("%w: %q: only zstd supports dictionaries, as in zstd-3+dict", ErrCandidate, text)
	}
	return c, nil
}

// DefaultCandidates returns the candidates to measure if none are named.
func DefaultCandidates() []Candidate {
	var all []Candidate
	for _, text := range []string{
		"snappy", "s2", "minlz", "lz4", "zstd-1", "zstd-3", "zstd-6", "zstd-9", "zlib-6", "brotli-5",
		"zstd-1+dict", "zstd-3+dict", "zstd-9+dict", "zstd-12+dict",
	} {
		c, err := ParseCandidate(text)
		if err != nil {
			panic(err)
		}
		all = append(all, c)
	}
	return all
}

// WireCandidates returns the candidates for exchanges of MongoDB: those of the protocol, and a link between two
// gateways.
func WireCandidates() []Candidate {
	zstd := func(level int) codec.Setting { return codec.Setting{Codec: codec.Zstd, Level: level} }
	return []Candidate{
		{Setting: codec.Setting{Codec: codec.Snappy}, encoding: encodingProtocol},
		{Setting: zstd(3), encoding: encodingProtocol},
		{Setting: codec.Setting{Codec: codec.Zlib, Level: 6}, encoding: encodingProtocol},
		{Setting: zstd(3), encoding: encodingPair},
	}
}
