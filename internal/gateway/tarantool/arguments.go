package tarantool

import (
	"bytes"
	"strconv"

	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// collectArguments finds the arguments of a stored function that rules name. What the function
// does with them is its own affair, so there is no schema to be fenced by, and what begins like
// an envelope goes as it is.
func collectArguments(r *request, rules []*policy.Rule) {
	if len(rules) == 0 || r.body.Function.Len == 0 || r.body.Tuple.Len == 0 {
		return
	}
	name, ok := wire.Text(r.body.Function.Of(r.bytes))
	if !ok {
		return
	}
	for _, rule := range rules {
		if rule.CoversKey(name) {
			collectArgument(r, rule)
		}
	}
}

// collectArgument takes one argument, counted from 1, or a field of it: "2", "2.3", "2.body".
func collectArgument(r *request, rule *policy.Rule) {
	argument, inside, _ := bytes.Cut([]byte(rule.Field), []byte("."))
	n, err := strconv.Atoi(string(argument))
	if err != nil {
		return
	}
	at, ok := element(r.bytes, r.body.Tuple.At, n-1)
	if ok && len(inside) > 0 {
		at, ok = member(r.bytes, at, inside)
	}
	if !ok {
		return
	}
	h, err := wire.ReadHead(r.bytes, at)
	if err != nil || h.Kind != wire.String && h.Kind != wire.Binary || !rule.Fits(h.Content.Len) || rule.Raw() {
		return
	}
	for i := range r.edits {
		if r.edits[i].at == at {
			return // an earlier rule has it
		}
	}
	r.edits = append(r.edits, edit{at: at, content: h.Content, kind: h.Kind, rule: rule})
}

// member finds a field of an array by its number from 1, or of a map by its key.
func member(b []byte, at int, name []byte) (int, bool) {
	h, err := wire.ReadHead(b, at)
	if err != nil || h.Kind != wire.Array && h.Kind != wire.Map {
		return 0, false
	}
	if h.Kind == wire.Array {
		n, err := strconv.Atoi(string(name))
		if err != nil {
			return 0, false
		}
		return element(b, at, n-1)
	}
	next := h.Content.At
	for range h.Count {
		end, err := wire.Skip(b, next)
		if err != nil {
			return 0, false
		}
		if key, ok := wire.Text(b[next:end]); ok && bytes.Equal(key, name) {
			return end, true
		}
		if next, err = wire.Skip(b, end); err != nil {
			return 0, false
		}
	}
	return 0, false
}

// element finds an element of an array by its number from 0.
func element(b []byte, at, n int) (int, bool) {
	h, err := wire.ReadHead(b, at)
	if err != nil || h.Kind != wire.Array || n < 0 || n >= h.Count {
		return 0, false
	}
	next := h.Content.At
	for range n {
		if next, err = wire.Skip(b, next); err != nil {
			return 0, false
		}
	}
	return next, true
}
