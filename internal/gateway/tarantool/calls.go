package tarantool

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// The arguments of functions may hold operations like those of UPDATE: of crud.update, crud.upsert,
// box.space.docs:update by CALL, and functions that applications write. The gateway does not see what a function
// does with the operations, so it can't carry out a splice in steps. It refuses a splice that may cut an envelope,
// wherever in the arguments the splice is. A splice passes in two cases:
//
//	the function is       and
//	crud's or box's       no rule compresses the field that the splice names
//	any other function    no rule compresses anything
//
// Operations that do not cut a value pass: = and arithmetic, which needs a number.

// collectCall adds edits for the arguments of a CALL that rules name. It refuses a CALL or EVAL that may cut
// envelopes. stamp is the version of the schema by which splices were found harmless; it is zero if the
// schema does not matter.
func (g *Gateway) collectCall(ctx context.Context, r *request) (stamp schemaStamp, refused *refusal) {
	all := g.catalog.spaces.Load()
	if all == nil {
		all = withoutSchema(g.catalog.rules.Load())
	}
	collectArguments(r, all.activeCallRules)
	spliced := mayHoldSplice(r.bytes) && dropSpliceEdits(r)
	lua := r.header.Type == wire.Eval && luaHasSplice(r.body.Expr.Of(r.bytes))
	if !spliced && !lua {
		return stamp, nil
	}
	if g.catalog.readsSchema() {
		if all = g.catalog.awaitSpaces(ctx); all == nil {
			return stamp, schemaUnknown
		}
	}
	to, cuts := calleeOf(r), lua
	for s := range nestedSplices(r) {
		if cuts = cuts || !all.isHarmless(&to, &s); cuts {
			break
		}
	}
	switch {
	case cuts && !all.hasNoEnvelopes():
		return stamp, unsupported("splice", fmt.Sprintf("splices (':') in %s, where values may be compressed and would be cut: assign the whole value with '=', or send an UPDATE or UPSERT request", to.what))
	case r.header.Schema != 0 && r.header.Schema != all.version && all.version != 0:
		return stamp, wrongVersion(g.catalog.seenVersion.Load(), r)
	}
	return schemaStamp{version: all.version, required: all.version != 0}, nil
}

// hasNestedSplice reports whether there is a splice in the arguments of a CALL or EVAL, or in the Lua of an EVAL.
func (r *request) hasNestedSplice() bool {
	if mayHoldSplice(r.bytes) {
		for range nestedSplices(r) {
			return true
		}
	}
	return r.header.Type == wire.Eval && luaHasSplice(r.body.Expr.Of(r.bytes))
}

// nestedSplice is a splice within the arguments of a CALL or EVAL.
type nestedSplice struct {
	at, end int
	field   []byte // MessagePack: number or name
	moved   bool   // an operation before it inserts or deletes fields
}

// mayHoldSplice reports whether a value in a frame may be a string or binary that begins with ":". Most frames have
// none.
func mayHoldSplice(frame []byte) bool {
	for at := 1; at < len(frame); at++ {
		next := bytes.IndexByte(frame[at:], ':')
		if next < 0 {
			return false
		}
		if at += next; mayEndInTextHead(frame[:at]) {
			return true
		}
	}
	return false
}

// mayEndInTextHead reports whether b, which is not empty, may end in the head of a string or binary that is not empty.
func mayEndInTextHead(b []byte) bool {
	n := len(b)
	return b[n-1] > 0xa0 && b[n-1] < 0xc0 ||
		n > 1 && (b[n-2] == 0xd9 || b[n-2] == 0xc4) ||
		n > 2 && (b[n-3] == 0xda || b[n-3] == 0xc5) ||
		n > 4 && (b[n-5] == 0xdb || b[n-5] == 0xc6)
}

// nestedSplices yields all splices in the arguments, at any depth. There is no limit on their number, since functions
// such as crud.upsert_many take operations for each of many tuples.
func nestedSplices(r *request) iter.Seq[nestedSplice] {
	return func(yield func(nestedSplice) bool) {
		moved := false
		for at := r.body.Tuple.At; at < r.body.Tuple.End(); {
			h, err := wire.ReadHead(r.bytes, at)
			if err != nil {
				return // can't happen: the body has been parsed
			}
			switch op, field, end := operationAt(r.bytes, &h); op {
			case '!', '#':
				moved = true
			case ':':
				if !yield(nestedSplice{at, end, field, moved}) {
					return
				}
			}
			at = h.Content.End() // of an array or map: the start of its first element
		}
	}
}

// dropSpliceEdits removes the edits that lie within splices, so that no rule compresses a part of one. It
// reports whether there are splices.
func dropSpliceEdits(r *request) (spliced bool) {
	for s := range nestedSplices(r) {
		spliced = true
		r.edits = slices.DeleteFunc(r.edits, func(e edit) bool { return s.at < e.at && e.at < s.end })
	}
	return spliced
}

// operationAt reads an operation that moves fields or cuts one: a list as in UPDATE, or a map with the keys 1, 2, …,
// which Lua treats in the same way. op is the first byte of the operator, since the server ignores the rest; 0 if there
// is no such operation. The offset and length of a splice must be numbers.
func operationAt(b []byte, h *wire.Head) (op byte, field []byte, end int) {
	if h.Count != 3 && h.Count != 5 || h.Kind != wire.Array && h.Kind != wire.Map {
		return 0, nil, 0
	}
	var list [5][]byte // the operator, the field, and a splice's offset, length and text
	end = h.Content.At
	for i := range h.Count {
		n := float64(i + 1)
		if h.Kind == wire.Map {
			key := scalarAt(b, end)
			end += len(key)
			n, _ = wire.Number(key)
		}
		v := scalarAt(b, end)
		if v == nil {
			return 0, nil, 0
		}
		end += len(v)
		for k := range list {
			if n == float64(k+1) {
				list[k] = v
			}
		}
	}
	name, err := wire.ReadHead(list[0], 0)
	if err != nil || name.Kind != wire.String && name.Kind != wire.Binary || name.Content.Len == 0 {
		return 0, nil, 0
	}
	_, hasOffset := wire.Number(list[2])
	_, hasLength := wire.Number(list[3])
	op = name.Content.Of(list[0])[0]
	if op == ':' && h.Count == 5 && hasOffset && hasLength || (op == '!' || op == '#') && h.Count == 3 {
		return op, list[1], end
	}
	return 0, nil, 0
}

// scalarAt returns the value at b[at:], nil if it is a list or a map.
func scalarAt(b []byte, at int) []byte {
	v, err := wire.ReadHead(b, at)
	if err != nil || v.Kind == wire.Array || v.Kind == wire.Map {
		return nil
	}
	return b[at:v.Content.End()]
}

// luaSplice matches the beginning of a splice in Lua code: {':', field, …}.
var luaSplice = regexp.MustCompile(`(?s)\{\s*(?:\[\s*1\s*\]\s*=\s*)?(?:':(?:[^'\\\n]|\\.)*'|":(?:[^"\\\n]|\\.)*"|\[\[:.*?\]\])\s*[,;]`)

// luaHasSplice reports whether Lua code contains a splice.
func luaHasSplice(lua []byte) bool {
	if bytes.IndexByte(lua, ':') < 0 {
		return false
	}
	return slices.ContainsFunc(luaSplice.FindAllIndex(lua, -1), func(at []int) bool { return hasOperands(lua[at[1]:]) })
}

// hasOperands reports whether a Lua table may have the four elements that follow ':' in a splice. rest is the code
// behind the table's first element. It returns false only for plain lists with fewer elements, such as {':', ';'}.
func hasOperands(rest []byte) bool {
	list, _, closed := bytes.Cut(rest, []byte("}"))
	count := func(sep string) int { return bytes.Count(list, []byte(sep)) }
	plain := closed && !bytes.ContainsAny(list, "{[(\\") && count("--") == 0 && count("...") == 0 && count("'")%2 == 0 && count(`"`)%2 == 0
	return !plain || count(",")+count(";") >= 3
}

// callee describes the function whose arguments hold operations.
type callee struct {
	what  string // its name, for error texts
	space string // the space that the operations change; "": unknown
	crud  bool   // a function of the module crud, which stores tuples unchanged
}

// crudOperations holds the functions of crud that take operations: the functions of a router, and those that a router
// calls on storages.
var crudOperations = map[string]bool{
	"crud.update": true, "crud.upsert": true, "crud.upsert_object": true, "crud.upsert_many": true, "crud.upsert_object_many": true,
	"_crud.update_on_storage": true, "_crud.upsert_on_storage": true, "_crud.upsert_many_on_storage": true,
}

// calleeOf returns the function that a request calls. For functions of vshard and crud that call another function by
// name it returns that one.
func calleeOf(r *request) callee {
	if r.header.Type == wire.Eval {
		return callee{what: "EVAL"}
	}
	b, args, first := r.bytes, r.body.Tuple.At, 0
	name, _ := wire.Text(r.body.Function.Of(b))
	text := func(n int) string {
		at, ok := element(b, args, n)
		if !ok {
			return ""
		}
		s, _ := wire.Text(b[at:])
		return string(s)
	}
	to, function := callee{what: fmt.Sprintf("arguments of %.100s", name)}, string(name)
	if function == "vshard.storage.call" {
		at, ok := element(b, args, 3)
		if !ok {
			return to
		}
		function, args = text(2), at
	}
	if function == "_crud.call_on_storage" {
		function, first = text(1), 2
	}
	if crudOperations[function] {
		to.space, to.crud = text(first), true
	} else if path, isBox := strings.CutPrefix(function, "box.space."); isBox {
		path, method, _ := strings.Cut(path, ":")
		if method == "update" || method == "upsert" {
			to.space, _, _ = strings.Cut(path, ".") // an index may follow
		}
	}
	return to
}

// isHarmless reports whether a splice can't meet an envelope.
func (all *spaces) isHarmless(to *callee, s *nestedSplice) bool {
	if to.space == "" {
		return false
	}
	for _, rule := range all.callRules {
		if !to.crud || s.moved || mayStoreIn(rule, s.field) {
			return false
		}
	}
	space := all.byName[to.space]
	if space == nil {
		return len(all.missing) == 0 || all.schema.SpaceByName(to.space) != nil // a system space holds no envelopes
	}
	t := space.target(s.field, 1)
	if t.known && !s.moved {
		return t.nested || !all.mayHoldEnvelope(space.at(t.position))
	}
	return !space.ruled && (!all.initialized || len(space.fields) == 0)
}

// mayStoreIn reports whether the argument that a rule compresses may be stored as the field that an operation
// names. Only for functions of crud the gateway knows how they store an argument. A field number can be compared only
// with a number, and a name only with a name.
func mayStoreIn(rule *policy.Rule, field []byte) bool {
	dot := strings.LastIndexByte(rule.Field, '.')
	if dot < 0 || !strings.HasPrefix(rule.Key, "crud.") {
		return true
	}
	stored := rule.Field[dot+1:]
	number, err := strconv.ParseInt(stored, 10, 64)
	if n, ok := wire.Int(field); ok {
		return n < 0 || err != nil || n == number
	}
	name, _ := wire.Text(field)
	return err == nil || !isLiteral(stored) || len(name) == 0 || bytes.ContainsAny(name, `.['"`) || string(name) == stored
}

// collectArguments adds edits for the arguments of a stored function that rules name. The gateway does not know what
// the function does with them, so it requires no schema version, and values that begin like an envelope pass
// unchanged.
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

// collectArgument adds an edit for one argument, counted from 1, or for a field of it: "2", "2.3", "2.body".
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
			return // an earlier rule compresses it
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
