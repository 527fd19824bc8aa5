// Package lua has the scripts that the gateway for Redis runs in the server: those that guard
// commands, put values back, and wrap what begins like an envelope. They run under the client's
// identity and see the keys that the client named. Those that meet envelopes which they can't do
// with answer with an array of Marker and the envelopes: then nothing has been done.
//
// The files are written for readers; what is sent is compact, on one line.
package lua

import (
	"embed"
	"path"
	"strings"

	"github.com/cinch-layer/cinch"
)

// Marker begins the answers that hand out envelopes. No stored value of ours equals it, and it is
// longer than the magic, so a value of a client's that does has been wrapped.
const Marker = cinch.Magic + "\x00cinch"

// MaxArgs is how many arguments a guarded command may have: Lua's unpack is bounded.
const MaxArgs = 7000

//go:embed *.lua
var files embed.FS

var (
	// Peek runs a read of a string, PeekField one of a field.
	Peek, PeekField = script("peek.lua"), script("peekfield.lua")

	// Guard puts known values back and runs a command in the same step. What begins with the magic
	// afterwards is wrapped. GuardField does so for a field.
	Guard, GuardField = script("guard.lua"), script("guardfield.lua")
	// GuardRead is Guard for a command that only reads: the envelopes return to their place.
	GuardRead = script("guardread.lua")
	// Compare is Guard for a command that compares, CompareWatched that for a client that watches keys.
	Compare, CompareWatched = script("compare.lua"), script("comparewatched.lua")

	// Sort runs SORT. In SortWatched, for a client that watches keys, weights that are put back stay so,
	// or it would abort the client's transaction each time that it tries.
	Sort        = script("sort.lua")
	SortWatched = strings.NewReplacer(" put(3)", "", " put(3,not failed and nlook>0 and store)", "").Replace(Sort)

	// Escape wraps what begins with the magic, Inflate puts known values back, SealedFields lists the
	// sealed fields of a hash.
	Escape, Inflate, SealedFields = script("escape.lua"), script("inflate.lua"), script("sealedfields.lua")

	prologue = script("prologue.lua") + " "
)

// script is the compact text of a file, with those that it includes in their places.
func script(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // a constant of ours
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

// compact drops the spaces of a line that Lua does not need, but for those in strings.
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
