package redis

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/cinch-layer/cinch/codec"
)

// The library's source. Its third line is read back, the rest is for the server and for operators who find it there.
// The content is in a comment because the server keeps what a function returns again in Lua, but of a comment only the
// source; and compressed, since a dictionary is text for the most part. Together these store 4 KiB in 5 KB instead of
// 15, and 16 KiB in 7 to 11 KB instead of 51 (Redis 7.4; docs/DICTIONARIES.md).
const librarySource = `#!lua name=%[1]s
-- A dictionary of Cinch. Values that name it can't be read without it: don't delete it.
-- zstd %[3]d %[4]s
redis.register_function{
  function_name = '%[1]s',
  description = '%[2]s',
  flags = {'no-writes'},
  callback = function() return redis.error_reply('read it by FUNCTION LIST LIBRARYNAME %[1]s WITHCODE') end,
}
`

// Prefixes of libraries' names, each followed by a number.
const (
	everyPrefix   = "cinch_" // of every library of Cinch
	libraryPrefix = everyPrefix + "dict_"
	archivePrefix = everyPrefix + "archive_" // see archive.go
	markPrefix    = everyPrefix + "retired_"
)

// maxStored limits the bytes that are accepted as a dictionary in the server. It is well above the largest
// dictionary in base64.
const maxStored = 4 << 20

// parseNumber reads the 8 lower-case hexadecimal digits after prefix.
func parseNumber(name, prefix string) (uint32, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok || len(digits) != 8 || strings.ToLower(digits) != digits {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	return uint32(n), err == nil && n != 0
}

// zstdMagic begins every frame of zstd. The codec package leaves it out.
const zstdMagic = "\x28\xb5\x2f\xfd"

// coders holds what compresses dictionaries. A training weighs dozens in a row; afterwards none of their some MB stay.
var coders = sync.Pool{New: func() any { return codec.NewGoZstd() }}

// libraryCode returns the source of the library that holds d under a name.
func libraryCode(name string, d *codec.Dict) string {
	z := coders.Get().(*codec.GoZstd)
	defer coders.Put(z)
	frame, err := z.Compress([]byte(zstdMagic), d.Content(), 9, nil)
	if err != nil {
		panic(err) // only a dictionary, of which there is none here, can be refused
	}
	return fmt.Sprintf(librarySource, name, describe(d), len(d.Content()), base64.StdEncoding.EncodeToString(frame))
}

// DictCost returns the bytes of a server's used_memory that d takes, with the record that names it, or somewhat more.
// Measured on Redis 7.0 to 8.6 and Valkey 8.1 and 9.1: see docs/DICTIONARIES.md.
func DictCost(d *codec.Dict) float64 {
	const (
		slack = 1.2     // what the allocator rounds a size up by
		fixed = 8 << 10 // of a library and a record
	)
	return slack*float64(len(libraryCode("", d))) + fixed
}

// describe returns the function's description, which FUNCTION LIST returns without the code.
func describe(d *codec.Dict) string {
	return fmt.Sprintf("sha256 %x, %d bytes", d.Hash(), len(d.Content()))
}

// parseDescription is the inverse of describe.
func parseDescription(s string) (hash [32]byte, size int, ok bool) {
	digits, rest, _ := strings.Cut(strings.TrimPrefix(s, "sha256 "), ", ")
	sum, err := hex.DecodeString(digits)
	if err != nil || len(sum) != len(hash) {
		return hash, 0, false
	}
	size, err = strconv.Atoi(strings.TrimSuffix(rest, " bytes"))
	return [32]byte(sum), size, err == nil && size >= 0
}

// parseLibrary returns the dictionary that a library's source holds.
func parseLibrary(number uint32, code string) (*codec.Dict, error) {
	if len(code) > maxStored {
		return nil, fmt.Errorf("%w: library of %d bytes, the limit is %d", ErrForeign, len(code), maxStored)
	}
	content, err := libraryContent(code)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return parseContent(number, content)
}

var errNoContent = errors.New("the library holds no content")

// libraryContent returns the content that a library's source holds: compressed in a comment, or, as 0.1.0 stored it, in
// the text that the function returns.
func libraryContent(code string) ([]byte, error) {
	if _, rest, found := strings.Cut(code, "\n-- zstd "); found {
		line, _, _ := strings.Cut(rest, "\n")
		digits, text, _ := strings.Cut(line, " ")
		size, err := strconv.Atoi(digits)
		if err != nil || size < codec.MinDictLen || size > codec.MaxDictLen {
			return nil, fmt.Errorf("%w of %d to %d bytes", errNoContent, codec.MinDictLen, codec.MaxDictLen)
		}
		frame, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, err
		}
		frame, found = bytes.CutPrefix(frame, []byte(zstdMagic))
		if !found {
			return nil, errNoContent
		}
		return codec.NewGoZstd().Decompress(nil, frame, size, nil)
	}
	_, rest, _ := strings.Cut(code, "return '")
	text, _, found := strings.Cut(rest, "'")
	if !found {
		return nil, errNoContent
	}
	return base64.StdEncoding.DecodeString(text)
}

// parseContent makes a dictionary of what was stored under number and checks that it has that number.
func parseContent(number uint32, content []byte) (*codec.Dict, error) {
	d, err := codec.NewDict(content)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	if d.Number() != number {
		return nil, fmt.Errorf("%w: the content's number is %08x", ErrForeign, d.Number())
	}
	return d, nil
}
