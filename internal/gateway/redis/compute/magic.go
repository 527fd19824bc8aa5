package compute

import (
	"bytes"
	"slices"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// MayMakeMagic reports that a command could make a value that does not begin with the magic do so.
func MayMakeMagic(args [][]byte) bool {
	switch {
	case resp.IsWord(args[0], "append"):
		for n := range len(cinch.Magic) {
			if bytes.HasPrefix(args[2], []byte(cinch.Magic[n:])) {
				return true
			}
		}
		return false
	case resp.IsWord(args[0], "setrange"):
		at, ok := resp.ParseInt(args[2])
		return ok && at < int64(len(cinch.Magic)) && bytes.ContainsFunc(args[3][:min(len(args[3]), len(cinch.Magic))], func(r rune) bool { return r >= 0x80 })
	}
	return true
}

// CarriesMagic reports that one of the arguments holds the magic somewhere.
func CarriesMagic(args [][]byte) bool {
	return slices.ContainsFunc(args, func(a []byte) bool { return bytes.Contains(a, []byte(cinch.Magic)) })
}

// PartOfAny reports that b is a part of one of list.
func PartOfAny(list [][]byte, b []byte) bool {
	return slices.ContainsFunc(list, func(x []byte) bool { return bytes.Contains(x, b) })
}
