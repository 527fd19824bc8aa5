package tarantool

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// families defines functions with the arguments of crud's functions, of vshard's, and of those that applications
// write.
const families = `
local function upsert_many(space, list) for _, v in ipairs(list) do box.space[space]:upsert(v[1], v[2]) end end
crud = {
    replace = function(space, tuple) return box.space[space]:replace(tuple) end,
    replace_object = function(space, o) return box.space[space]:replace{o.id, o.tag, o.doc, o.extra} end,
    update = function(space, key, operations) return box.space[space]:update(key, operations) end,
    upsert = function(space, tuple, operations) return box.space[space]:upsert(tuple, operations) end,
    upsert_object = function(space, o, operations) return box.space[space]:upsert({o.id, o.tag, o.doc, o.extra}, operations) end,
    upsert_many = upsert_many,
    upsert_object_many = function(space, list)
        for _, v in ipairs(list) do crud.upsert_object(space, v[1], v[2]) end
    end,
}
_crud = {
    call_on_storage = function(user, name, ...) return _crud[name:match('[^.]+$')](...) end,
    update_on_storage = crud.update, upsert_on_storage = crud.upsert, upsert_many_on_storage = upsert_many,
}
vshard = {storage = {call = function(bucket, mode, name, args)
    local found = _G
    for part in name:gmatch('[^.]+') do found = found[part] end
    return true, found(unpack(args))
end}}
function change(what) return box.space.docs:update(what.id, what.operations) end
`

// callBed starts a server with the functions of families, and a gateway with these rules.
func callBed(t *testing.T, rules ...policy.Rule) *bed {
	t.Helper()
	for i := range rules {
		rules[i].Setting = codec.Setting{Codec: codec.Zstd, Level: 3}
	}
	b := newBed(t, policy.Options{Rules: rules}, nil)
	b.direct().must(wire.Eval, 0x27, families, 0x21, []any{})
	return b
}

// TestSplicesInCallsDontCutEnvelopes calls functions that take operations, with all forms of operations. The field's
// value was compressed by a rule for another function, or for a space.
func TestSplicesInCallsDontCutEnvelopes(t *testing.T) {
	type list = []any
	type object = map[string]any
	doc := document(1)
	cut := list{list{":", "doc", 1, 3, "XXX"}}
	byNumber := list{list{"=", "tag", "new"}, list{":", 3, 1, 3, "XXX"}}
	calls := []struct {
		name string
		args list
	}{
		{"crud.update", list{"docs", 1, cut}},
		{"crud.update", list{"docs", 1, byNumber, object{"timeout": 2}}},
		{"crud.update", list{"docs", 1, list{list{":", -3, 1, 3, "XXX"}}}},
		{"crud.update", list{"docs", 1, list{list{":", "[3]", 1, 3, []byte("XXX")}}}},
		{"crud.upsert", list{"docs", list{1, "tag", "never"}, cut}},
		{"crud.upsert_object", list{"docs", object{"id": 1, "tag": "tag", "doc": "never"}, cut}},
		{"crud.upsert_many", list{"docs", list{list{list{1, "tag", "never"}, byNumber}}}},
		// More operations than one UPDATE may have: in a batch the limit applies to each tuple.
		{"crud.upsert_many", list{"docs", append(slices.Repeat(list{list{list{2, "tag", "plain"}, list{list{":", 2, 1, 0, ""}}}}, maxOperations), list{list{1, "tag", "never"}, byNumber})}},
		{"crud.upsert_object_many", list{"docs", list{list{object{"id": 1, "tag": "tag", "doc": "never"}, cut}}}},
		{"vshard.storage.call", list{1, "write", "_crud.update_on_storage", list{"docs", 1, byNumber}}},
		{"vshard.storage.call", list{1, "write", "_crud.call_on_storage", list{"guest", "_crud.upsert_many_on_storage", "docs", list{list{list{1, "tag", "never"}, byNumber}}}}},
		{"box.space.docs:update", list{1, cut}},
		{"box.space.docs:upsert", list{list{1, "tag", "never"}, cut}},
		{"box.space.docs.index.pk:update", list{1, byNumber}},
		{"change", list{object{"id": 1, "operations": cut}}},
		{"change", list{object{"id": 1, "operations": list{msgp.Raw("\x85\x02\x03\x01\xa1:\x03\x01\x04\x03\x05\xa3XXX")}}}}, // a map that Lua treats as a list
	}
	replaceTuple := policy.Rule{Name: "tuple", Key: "crud.replace", Field: "2.3", Types: policy.Argument}
	replaceObject := policy.Rule{Name: "object", Key: "crud.replace_object", Field: "2.doc", Types: policy.Argument}
	field := policy.Rule{Name: "field", Key: "docs", Field: "doc", Types: policy.Tuple}
	for name, rules := range map[string][]policy.Rule{"functions": {replaceTuple, replaceObject}, "field": {field}} {
		t.Run(name, func(t *testing.T) {
			b := callBed(t, rules...)
			c := b.client()
			if name == "functions" {
				c.must(wire.Call, 0x22, "crud.replace", 0x21, list{"docs", list{1, "tag", doc}})
			} else {
				b.put(c, 1, doc)
			}
			b.check(c, 1, doc, true)
			for _, call := range calls {
				for _, typ := range []wire.Type{wire.Call, wire.Call16} {
					if a := c.do(typ, 0x22, call.name, 0x21, call.args); a.code != wire.ErrorFlag|wire.ErrUnsupported || !strings.Contains(a.text, "splice") {
						t.Errorf("%s%.200v: %#x %.200q, want a refusal", call.name, call.args, a.code, a.text)
					}
				}
				b.check(c, 1, doc, true)
			}
			for _, text := range []string{
				"return box.space.docs:update(1, {{':', 3, 1, 3, 'XXX'}})",
				`return box.space.docs:update(1, { { ":", 'doc', 1, 3, 'XXX'}})`,
				"return box.space.docs:update(1, {{[[:]], 3, 1, 3, 'XXX'}})",
			} {
				if a := c.do(wire.Eval, 0x27, text, 0x21, list{}); a.code != wire.ErrorFlag|wire.ErrUnsupported {
					t.Errorf("%s: %#x %.200q, want a refusal", text, a.code, a.text)
				}
			}
			if a := c.do(wire.Eval, 0x27, "return box.space.docs:update(...)", 0x21, list{1, cut}); a.code != wire.ErrorFlag|wire.ErrUnsupported {
				t.Errorf("arguments of EVAL: %#x %.200q, want a refusal", a.code, a.text)
			}
			b.check(c, 1, doc, true)
		})
	}
}

// TestSplicesInCallsOfOtherFields checks that splices that can't meet an envelope are not refused.
func TestSplicesInCallsOfOtherFields(t *testing.T) {
	type list = []any
	tag := func(how any) list { return list{list{":", how, 1, 1, "T"}} }
	check := func(b *bed, c *raw, call string, args list, want string) {
		b.t.Helper()
		if a := c.do(wire.Call, 0x22, call, 0x21, args); a.code != wire.OK {
			b.t.Fatalf("%s%v: %#x %q", call, args, a.code, a.text)
		}
		if got := b.direct().selectOne(docs, 1)[1]; got != want {
			b.t.Errorf("after %s%v the field is %v, want %s", call, args, got, want)
		}
		b.put(c, 1, document(1))
	}
	t.Run("of a space's rule", func(t *testing.T) {
		b := callBed(t, policy.Rule{Key: "docs", Field: "doc", Types: policy.Tuple})
		c := b.client()
		b.put(c, 1, document(1))
		check(b, c, "crud.update", list{"docs", 1, tag("tag")}, "Tag")
		check(b, c, "crud.update", list{"docs", 1, tag(2)}, "Tag")
		check(b, c, "crud.upsert_many", list{"docs", list{list{list{1, "tag", "never"}, tag("[2]")}}}, "Tag")
		check(b, c, "box.space.docs:update", list{1, tag("tag")}, "Tag")
		check(b, c, "vshard.storage.call", list{1, "write", "_crud.call_on_storage", list{"guest", "_crud.update_on_storage", "docs", 1, tag(2)}}, "Tag")
		c.must(wire.Eval, 0x27, "return {':'}", 0x21, list{})
	})
	t.Run("of crud's rules", func(t *testing.T) {
		b := callBed(t, policy.Rule{Key: "crud.replace", Field: "2.3", Types: policy.Argument})
		c := b.client()
		b.put(c, 1, document(1))
		check(b, c, "crud.update", list{"docs", 1, tag(2)}, "Tag")
		if a := c.do(wire.Call, 0x22, "crud.update", 0x21, list{"docs", 1, tag("tag")}); a.code != wire.ErrorFlag|wire.ErrUnsupported {
			t.Errorf("a field by its name: %#x %q, though the rule has a number", a.code, a.text)
		}
	})
	t.Run("without rules", func(t *testing.T) {
		b := callBed(t)
		b.direct().must(wire.Eval, 0x27, "box.space.kept:drop()", 0x21, list{}) // its format asks for compression
		c := b.client()
		b.put(c, 1, document(1))
		check(b, c, "change", list{map[string]any{"id": 1, "operations": tag("tag")}}, "Tag")
		check(b, c, "crud.update", list{"docs", 1, tag("tag")}, "Tag")
	})
}

// TestSplicesOfWhatFunctionsStored sends UPDATE and UPSERT to a space without rules whose values were
// compressed by a rule for a function.
func TestSplicesOfWhatFunctionsStored(t *testing.T) {
	type list = []any
	doc := document(1)
	want := "XXX" + doc[3:]
	cut := list{list{":", "doc", 0, 3, "XXX"}}
	for _, installed := range []bool{false, true} {
		for _, off := range []bool{false, true} {
			t.Run(fmt.Sprintf("init %t, off %t", installed, off), func(t *testing.T) {
				b := callBed(t, policy.Rule{Key: "crud.replace", Field: "2.3", Types: policy.Argument})
				if installed {
					b.install()
				}
				c := b.client()
				c.must(wire.Call, 0x22, "crud.replace", 0x21, list{"docs", list{1, "tag", doc}})
				b.check(c, 1, doc, true)
				if off {
					p, err := policy.New(policy.Options{Off: true, Rules: []policy.Rule{{Key: "crud.replace", Field: "2.3", Types: policy.Argument, Setting: codec.Setting{Codec: codec.Zstd, Level: 3}}}})
					if err != nil {
						t.Fatal(err)
					}
					b.g.SetPolicy(p)
				}
				update := c.do(wire.Update, 0x10, docs, 0x11, 0, 0x20, list{1}, 0x21, cut)
				if !installed {
					if update.code != wire.ErrorFlag|wire.ErrUnsupported {
						t.Errorf("UPDATE: %#x %q, want a refusal", update.code, update.text)
					}
					b.check(c, 1, doc, true)
					return
				}
				if update.code != wire.OK {
					t.Fatalf("UPDATE: %#x %q", update.code, update.text)
				}
				if got := c.selectOne(docs, 1)[2]; got != want {
					t.Errorf("UPDATE makes %.60q of the document", got)
				}
				c.must(wire.Upsert, 0x10, docs, 0x21, list{1, "tag", "never"}, 0x28, list{list{":", "doc", 0, 3, "YYY"}})
				if got := c.selectOne(docs, 1)[2]; got != "YYY"+doc[3:] {
					t.Errorf("UPSERT makes %.60q of the document", got)
				}
				if off {
					if a := c.do(wire.Call, 0x22, "crud.update", 0x21, list{"docs", 1, cut}); a.code != wire.ErrorFlag|wire.ErrUnsupported {
						t.Errorf("crud.update: %#x %q, want a refusal", a.code, a.text)
					}
				}
			})
		}
	}
}

// TestOperationsInArguments checks, without a server, which calls are refused by a gateway that compresses field 2 (a)
// of the space docs and arguments of the function f.
func TestOperationsInArguments(t *testing.T) {
	type list = []any
	long := strings.Repeat("abc ", 30)
	splice := func(field any) list { return list{":", field, 1, 3, "XXX"} }
	for _, c := range []struct {
		typ     wire.Type
		name    string
		args    list
		called  bool // rules for functions may have stored envelopes
		refused bool
	}{
		{wire.Call, "crud.update", list{"docs", 1, list{splice("a")}}, false, true},
		{wire.Call, "crud.update", list{"docs", 1, list{splice(2)}}, false, true},
		{wire.Call, "crud.update", list{"docs", 1, list{splice("doc")}}, false, false},
		{wire.Call, "crud.update", list{"docs", 1, list{splice("doc.x")}}, false, false},
		{wire.Call, "crud.update", list{"docs", 1, list{list{"#", 2, 1}, splice("doc")}}, false, true},
		{wire.Call, "crud.update", list{"docs", 1, list{list{"=", 2, ":"}, list{"+", 3, 1}}}, true, false},
		{wire.Call, "crud.update", list{"other", 1, list{splice("a")}}, false, false},
		{wire.Call, "crud.update", list{"docs", 1, list{splice("doc")}}, true, true},
		// The server looks only at the first byte of an operator.
		{wire.Call, "crud.update", list{"docs", 1, list{list{":x", "a", 1, 3, "XXX"}}}, false, true},
		{wire.Call, "crud.update", list{"docs", 1, list{list{":" + long, "a", 1, 3, "XXX"}}}, false, true},
		{wire.Call, "crud.update", list{"docs", 1, list{list{":" + long + long + long, "a", 1, 3, "XXX"}}}, false, true},
		{wire.Call, "crud.update", list{"docs", 1, list{list{[]byte(":x"), "a", 1, 3, "XXX"}}}, false, true},
		{wire.Call, "crud.update", list{"docs", 1, list{list{":x", "doc", 1, 3, "XXX"}}}, false, false},
		{wire.Call, "crud.update", list{"docs", 1, list{list{"#x", 2, 1}, splice("doc")}}, false, true},
		{wire.Call, "crud.update", list{"docs", 1, list{list{"x:", "a", 1, 3, "XXX"}}}, false, false},
		{wire.Call, "g", list{list{":x", "a", 1.0, float32(3), "XXX"}}, false, true},
		{wire.Call, "g", list{list{":smile:", "a", "b", "c", "d"}}, false, false},
		// Maps that Lua treats as lists, with unsigned, signed and floating-point keys.
		{wire.Call, "g", list{msgp.Raw("\x85\x02\xa1a\x01\xa1:\x03\x01\x04\x03\x05\xa3XXX")}, false, true},
		{wire.Call, "g", list{msgp.Raw("\x85\xd0\x01\xa1:\xd1\x00\x02\xa1a\xd2\x00\x00\x00\x03\x01\xd3\x00\x00\x00\x00\x00\x00\x00\x04\x03\xd0\x05\xa3XXX")}, false, true},
		{wire.Call, "g", list{msgp.Raw("\x85\xcb?\xf0\x00\x00\x00\x00\x00\x00\xa1:\xca@\x00\x00\x00\xa1a\x03\x01\x04\x03\x05\xa3XXX")}, false, true},
		{wire.Call, "g", list{msgp.Raw("\x85\xcb?\xf8\x00\x00\x00\x00\x00\x00\xa1:\x02\xa1a\x03\x01\x04\x03\x05\xa3XXX")}, false, false},
		{wire.Call, "g", list{msgp.Raw("\x85\xa1:\xa1:\xa1a\xa1a\x03\x01\x04\x03\x05\xa3XXX")}, false, false},
		{wire.Call, "g", list{splice("doc")}, false, true},
		{wire.Call, "g", list{list{":", "a", list{}, 3, "XXX"}}, false, false},
		{wire.Call, "g", list{list{":", 1, 2, 3}}, false, false},
		{wire.Call, "g", list{":", 1, 2, 3, 4, 5}, false, false},
		{wire.Call16, "box.space.docs:update", list{1, list{splice("doc")}}, false, false},
		{wire.Call16, "box.space.docs.index.pk:update", list{1, list{splice(4)}}, false, true},
		{wire.Call16, "box.space.docs:other", list{1, list{splice("doc")}}, false, true},
		{wire.Eval, "return {':', 1, 2, 3, 4}", list{}, false, true},
		{wire.Eval, "return {':x', 1, 2, 3, 4}", list{}, false, true},
		{wire.Eval, `return {":\"", 1, 2, 3, 4}`, list{}, false, true},
		{wire.Eval, "return {[[:x]], 1, 2, 3, 4}", list{}, false, true},
		{wire.Eval, "return {'x:', 1, 2, 3, 4}", list{}, false, false},
		{wire.Eval, "return (':'):rep(3), {':'}", list{}, false, false},
		{wire.Eval, "for _, sep in ipairs({':', ';'}) do f(sep, 1, 2, 3) end", list{}, false, false},
		{wire.Eval, `return {":", "a, b", x}, {':', '|', '-'}`, list{}, false, false},
		{wire.Eval, "return {':', ';'}, {':', 'a', 1, 2, 'x'}", list{}, false, true},
		{wire.Eval, "return {':', ...}", list{}, false, true},
		{wire.Eval, "return {':', unpack(t)}", list{}, false, true},
		{wire.Eval, "return {':', 'a}', 1, 2, 'x'}", list{}, false, true},
		{wire.Eval, `return {':', '\'}', 1, 2, 'x'}`, list{}, false, true},
		{wire.Eval, "return {':', ({f})[1], 1, 2, 'x'}", list{}, false, true},
		{wire.Eval, "return {':', f --}\n, 1, 2, 'x'}", list{}, false, true},
	} {
		key := any(0x22)
		if c.typ == wire.Eval {
			key = 0x27
		}
		g := offline(t)
		all := *g.catalog.spaces.Load()
		if c.called {
			all.callRules = all.activeCallRules
		}
		g.catalog.spaces.Store(&all)
		g.catalog.seenVersion.Store(9)
		r := &request{bytes: encode(t, c.typ, 1, nil, keyed{key, c.name, 0x21, c.args})[5:]}
		if err := parse(r); err != nil {
			t.Fatal(err)
		}
		out, refused := g.rewrite(t.Context(), r, handlingOf(c.typ), 0)
		if (refused != nil) != c.refused {
			t.Errorf("%s%v, functions %t: %v, want a refusal: %t", c.name, c.args, c.called, refused, c.refused)
		}
		if named := out.stamp == 9; refused == nil && named != dropSpliceEdits(r) {
			t.Errorf("%s%v: stamp %d", c.name, c.args, out.stamp)
		}
	}
	// No rule compresses the text that a splice pastes.
	g := offline(t)
	r := &request{bytes: encode(t, wire.Call, 1, nil, keyed{0x22, "f", 0x21, list{long, map[string]any{"a": long, "b": list{":", 1, 2, 3, "paste " + long}}}})[5:]}
	if err := parse(r); err != nil {
		t.Fatal(err)
	}
	collectArguments(r, g.catalog.spaces.Load().activeCallRules)
	before := len(r.edits)
	r.edits = append(r.edits, edit{at: strings.Index(string(r.bytes), "paste ") - 2})
	if !dropSpliceEdits(r) || len(r.edits) != before {
		t.Errorf("%d values to compress, want a splice and %d", len(r.edits), before)
	}
}
