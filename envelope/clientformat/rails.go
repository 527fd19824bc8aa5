package clientformat

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
)

// Entries of ActiveSupport::Cache in RedisCacheStore, by config.active_support.cache_format_version:
//
//	7.0  01 zlib of the entry in Marshal's form                 compressed
//	     00 the entry in Marshal's form                         not compressed
//	7.1  00 11 type(1) expires at(8, a double, little endian)
//	     version's length(4, little endian, -1 for none) version payload
//
// The type of 7.1 has its top bit set if the payload is compressed by zlib; its other bits say whether the payload
// is Marshal's or a string. The content is the entry in its uncompressed form, which Rails reads too. It includes
// the header, from which the compressed form is restored.
const (
	rails70Plain    = 0
	rails70Deflated = 1

	rails71Type     = 2 // offset
	rails71Version  = 11
	rails71Fixed    = 15
	rails71Deflated = 0x80
	rails71MaxType  = 4
)

var (
	rails71Magic = []byte{0x00, 0x11}
	marshalMagic = []byte{4, 8}
)

// rails71Header returns the length of an entry's header, 0 if it has none.
func rails71Header(entry []byte) int {
	if len(entry) < rails71Fixed || !bytes.HasPrefix(entry, rails71Magic) {
		return 0
	}
	if is := entry[rails71Type] &^ rails71Deflated; is == 0 || is > rails71MaxType {
		return 0
	}
	version := int64(int32(binary.LittleEndian.Uint32(entry[rails71Version:])))
	if version < -1 || version > int64(len(entry)-rails71Fixed) {
		return 0
	}
	return rails71Fixed + int(max(version, 0))
}

func isRails70(stored []byte) bool {
	return len(stored) > 0 && stored[0] == rails70Deflated && isZlib(stored[1:])
}

func isRails71(stored []byte) bool {
	n := rails71Header(stored)
	return n > 0 && stored[rails71Type]&rails71Deflated != 0 && isZlib(stored[n:])
}

func openRails(dst []byte, f Format, stored []byte, maxRaw int) ([]byte, error) {
	header := 0
	switch {
	case f == Rails70 && isRails70(stored):
		header = 1
	case f == Rails71 && isRails71(stored):
		header = rails71Header(stored)
	default:
		return nil, ErrCorrupt
	}
	if header > maxRaw {
		return nil, ErrTooLarge
	}
	start := len(dst)
	out, err := openStream(append(dst, stored[:header]...), Zlib, stored[header:], maxRaw-header)
	if err != nil {
		return nil, err
	}
	if f == Rails71 {
		out[start+rails71Type] &^= rails71Deflated
		return out, nil
	}
	if !bytes.HasPrefix(out[start+header:], marshalMagic) {
		return nil, fmt.Errorf("%w: not data of Ruby's Marshal", ErrCorrupt)
	}
	out[start] = rails70Plain
	return out, nil
}

func appendRails(dst []byte, f Format, level int, content []byte, e *codec.Engine) ([]byte, error) {
	start, header := len(dst), 0
	switch {
	case f == Rails71:
		header = rails71Header(content)
	case len(content) > 0 && content[0] == rails70Plain && bytes.HasPrefix(content[1:], marshalMagic):
		header = 1
	}
	if header == 0 || f == Rails71 && content[rails71Type]&rails71Deflated != 0 {
		return nil, ErrContent
	}
	dst = append(dst, content[:header]...)
	if f == Rails71 {
		dst[start+rails71Type] |= rails71Deflated
	} else {
		dst[start] = rails70Deflated
	}
	return appendBy(dst, codec.Zlib, level, content[header:], e)
}
