package redis

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/codec"
)

// The library's source. Only the quoted text after return is read back; the rest is for the server and for operators
// who find it there.
const librarySource = `#!lua name=%[1]s
-- A dictionary of Cinch. Values that name it can't be read without it: don't delete it.
redis.register_function{
  function_name = '%[1]s',
  description = '%[2]s',
  flags = {'no-writes'},
  callback = function() return '%[3]s' end,
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

// libraryCode returns the source of the library that holds d under a name.
func libraryCode(name string, d *codec.Dict) string {
	content := base64.StdEncoding.EncodeToString(d.Content())
	return fmt.Sprintf(librarySource, name, describe(d), content)
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
	_, rest, _ := strings.Cut(code, "return '")
	text, _, found := strings.Cut(rest, "'")
	if !found {
		return nil, fmt.Errorf("%w: the library returns no string", ErrForeign)
	}
	content, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return parseContent(number, content)
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
