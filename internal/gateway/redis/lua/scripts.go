// Package lua contains the scripts that the Redis gateway runs in the server: they guard commands, decompress
// values in place, and wrap values that begin with the magic. They run with the client's rights and access
// the keys that the client named. A script that meets an envelope which it cannot handle has changed nothing,
// and answers with an array of Marker and the envelopes.
//
// The files are formatted for readers; the gateway sends a compact form on one line.
package lua

import (
	"embed"
	"path"
	"strings"

	"github.com/cinch-layer/cinch/envelope"
)

// Marker begins the answers that return envelopes. No envelope equals it. It begins with the magic, so a
// client's value that equals it has been wrapped.
const Marker = envelope.Magic + "\x00cinch"

// MaxArgs limits the arguments of a guarded command, since Lua's unpack is limited.
const MaxArgs = 7000

//go:embed *.lua
var files embed.FS

var (
	// Peek runs a read of a string, PeekField one of a hash field. For an envelope they return that instead.
	Peek, PeekField = script("peek.lua"), script("peekfield.lua")

	// Guard decompresses known values in place and runs a command in the same step. Then it wraps plain values
	// that begin with the magic. GuardField does the same for a hash field.
	Guard, GuardField = script("guard.lua"), script("guardfield.lua")
	// GuardRead is Guard for a command that only reads: the envelopes are restored.
	GuardRead = script("guardread.lua")
	// Compare is Guard for a command that compares, CompareWatched the same for a client that watches keys.
	Compare, CompareWatched = script("compare.lua"), script("comparewatched.lua")

	// Sort runs SORT. SortWatched is for a client that watches keys: weights decompressed in place stay
	// decompressed, since restoring them would abort the client's transaction each time that it retries.
	Sort        = script("sort.lua")
	SortWatched = strings.NewReplacer(" put(3)", "", " put(3,not failed and nlook>0 and store)", "").Replace(Sort)

	// Escape wraps values that begin with the magic, Inflate decompresses known values in place, SealedFields
	// lists the compressed fields of a hash.
	Escape, Inflate, SealedFields = script("escape.lua"), script("inflate.lua"), script("sealedfields.lua")

	prologue = script("prologue.lua") + " "
)

// script returns the compact text of a file, with included files inserted.
func script(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the names are constants
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if file, included := strings.CutPrefix(line, "-- include "); included {
			line = script(path.Base(file))
		} else if strings.HasPrefix(line, "--") {
			continue
		}
		if out.Len() > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(compact(line))
	}
	return out.String()
}

// compact drops the spaces in a line that Lua does not need, except in strings.
func compact(line string) string {
	var out []byte
	quote := byte(0)
	for i := range len(line) {
		c := line[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == ' ' && (!isName(line[i-1]) || !isName(line[i+1])):
			continue
		}
		out = append(out, c)
	}
	return string(out)
}

func isName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
