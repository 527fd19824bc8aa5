package grpccodec

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/codec"
)

// names lists the encodings of this package, as grpc-encoding and grpc-accept-encoding spell them, in the
// order in which a sender without other preferences should prefer them: small and cheap first. Only Cinch has
// the last one.
var names = [...]string{"zstd", "minlz", "s2", "lz4", "snappy", "gzip", "cinch-proto"}

// Names returns the encodings, best first, as grpc-encoding spells them. The last, cinch-proto, is known to
// Cinch only. The caller owns the slice.
func Names() []string { return append([]string(nil), names[:]...) }

// ErrUnknownName reports a name that this package does not know.
var ErrUnknownName = errors.New("grpccodec: unknown encoding")

// parse parses an encoding's name, with or without a level: "zstd", "zstd-1".
func parse(name string) (codec.Setting, error) {
	s, err := codec.ParseMessageSetting(name)
	if err == nil {
		err = check(s)
	}
	if err != nil {
		return s, fmt.Errorf("%w %q: %w; encodings are %s, with a level or without: zstd-3", ErrUnknownName, name, err, strings.Join(names[:], ", "))
	}
	return s, nil
}

// check returns an error for a setting without a name.
func check(s codec.Setting) error {
	if !slices.Contains(names[:], s.Codec.String()) || s.Dict != 0 {
		return errors.New("not an encoding of gRPC messages")
	}
	return nil
}

// WireName returns the encoding that peers see for a name: "zstd" for "zstd-1". The error wraps
// [ErrUnknownName].
func WireName(name string) (string, error) {
	s, err := parse(name)
	if err != nil {
		return "", err
	}
	return s.Codec.String(), nil
}
