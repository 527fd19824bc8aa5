package tarantool

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

var docBody = []any{0x10, 600, 0x21, []any{1, strings.Repeat("abc ", 30), 3}}

// Requests that the server refused for their stamp are sent again with the next stamp, in their order.
func TestRefusedRequestsAreSentAgain(t *testing.T) {
	p := newParts(t)
	p.sends(1, 9, wire.Insert, docBody...)
	p.sends(2, 9, wire.Select, 0x10, 600, 0x20, []any{1})
	p.moved(10)
	p.reply(wire.ErrorFlag|wire.ErrSchemaVersion, 1)
	p.reply(wire.ErrorFlag|wire.ErrSchemaVersion, 2)
	f := p.server.expect(t, wire.Insert, 1, 10)
	if !hasMagic(f.bytes) {
		t.Error("its value is not sealed")
	}
	p.server.expect(t, wire.Select, 2, 10)
	p.reply(wire.OK, 2)
	p.client.expect(t, wire.OK, 2, 9)
	p.reply(wire.OK, 1)
	p.client.expect(t, wire.OK, 1, 9)
	p.s.background.Wait()
	if p.s.outstanding.busy() || p.s.outstanding.retryBuffer.kept != 0 || p.s.Context().Err() != nil {
		t.Error("something is left")
	}
}

// If the schema keeps changing, requests without envelopes or splices are sent unchanged, and the others are refused.
func TestRetriesEnd(t *testing.T) {
	p := newParts(t)
	if w, refused := p.s.rewriteAgain(p.request(wire.Insert, docBody...), maxTries, 0); w.bytes != nil || w.stamp != 0 || refused != nil {
		t.Errorf("%+v %v", w, refused)
	}
	for _, r := range []*request{
		p.request(wire.Insert, 0x10, 600, 0x21, []any{1, envelope.Magic}),
		p.request(wire.Update, 0x10, 600, 0x20, []any{1}, 0x21, []any{[]any{":", 2, 1, 1, "x"}}),
		p.request(wire.Call, 0x22, "box.space.docs:update", 0x21, []any{1, []any{[]any{":", 3, 1, 1, "x"}}}),
		p.request(wire.Eval, 0x27, "box.space.docs:update(1, {{':', 3, 1, 1, 'x'}})", 0x21, []any{}),
	} {
		if _, refused := p.s.rewriteAgain(r, maxTries, 0); refused == nil || refused.reason != "schema" {
			t.Errorf("%v", refused)
		}
	}
}

// If there is no memory for a copy of a request, to send it again, the request is sent only if it is correct with any
// schema.
func TestRequestsWithoutMemoryForARetry(t *testing.T) {
	splice := []any{":", 2, 0, 1, "X"} // for a field without a rule
	for name, test := range map[string]struct {
		typ    wire.Type
		body   keyed
		passes bool
	}{
		"a value that is to be sealed":     {wire.Insert, docBody, true},
		"a value that begins like sealed":  {wire.Insert, keyed{0x10, 600, 0x21, []any{1, envelope.Magic}}, false},
		"a splice":                         {wire.Update, keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x21, []any{splice}}, false},
		"a splice by UPSERT":               {wire.Upsert, keyed{0x10, 600, 0x21, []any{1, "x"}, 0x28, []any{splice}}, false},
		"a splice beside a sealed value":   {wire.Update, keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{"=", 1, abc}, splice}}, false},
		"a splice in arguments":            {wire.Call, keyed{0x22, "box.space.docs:update", 0x21, []any{1, []any{[]any{":", 3, 1, 1, "x"}}}}, false},
		"a request that only reads":        {wire.Select, keyed{0x10, 600, 0x20, []any{1}}, true},
		"operations that need no envelope": {wire.Update, keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{"+", 0, 1}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParts(t)
			none := memory.NewBudget(1).Share("none").Account(nil, nil)
			defer none.Close()
			p.s.outstanding.retryBuffer.budget, p.s.outstanding.retryBuffer.kept = none, maxKept
			f := frame{encode(t, test.typ, 7, nil, test.body), 5}
			if err := p.s.handleRequest(&f); err != nil {
				t.Fatal(err)
			}
			if err := p.s.toServer.flush(); err != nil {
				t.Fatal(err)
			}
			if !test.passes {
				p.client.expect(t, wire.ErrorFlag|wire.ErrNoMemory, 7, 0)
				p.server.nothing(t)
			} else if got := p.server.expect(t, test.typ, 7, 0); !bytes.Equal(got.bytes, f.body()) {
				t.Errorf("it was changed: % x", got.bytes)
			}
		})
	}
}
