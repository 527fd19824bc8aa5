package clientformat

import (
	"errors"

	"github.com/cinch-layer/cinch/codec"
)

// appendBy appends content compressed by package codec.
func appendBy(dst []byte, id codec.ID, level int, content []byte, e *codec.Engine) ([]byte, error) {
	out, err := e.Compress(dst, content, codec.Setting{Codec: id, Level: min(level, id.MaxLevel())}, nil)
	if errors.Is(err, codec.ErrTooLarge) {
		err = ErrTooLarge
	}
	return out, err
}

// Header and trailer of RFC 1950 around deflate, in bytes.
const (
	zlibHeader  = 2
	zlibTrailer = 4
)

func appendDeflate(dst []byte, level int, content []byte, e *codec.Engine) ([]byte, error) {
	at := len(dst)
	dst, err := appendBy(dst, codec.Zlib, level, content, e)
	if err != nil {
		return nil, err
	}
	return append(dst[:at], dst[at+zlibHeader:len(dst)-zlibTrailer]...), nil
}
