package tarantool

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/envelope"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// Reading the stored tuple leaves the request's edits unchanged, however many values the request wraps.
func TestLooksLeaveEditsAlone(t *testing.T) {
	p := newParts(t)
	p.g.catalog.spaces.Load().byID[600].touchesHidden = true
	p.g.cfg.ReadTuple = func(context.Context, uint32, uint32, []byte) ([]byte, error) { return nil, nil }
	operations := []any{[]any{":", 1, 0, 1, "X"}}
	for range 2 * maxIdleEdits {
		operations = append(operations, []any{"=", 2, envelope.Magic})
	}
	w, refused := p.g.rewrite(t.Context(), p.request(wire.Update, 0x10, 600, 0x11, 0, 0x20, []any{1}, 0x21, operations), updates, 0)
	if refused != nil {
		t.Fatal(refused)
	}
	if got, want := bytes.Count(w.bytes, magic), 4*maxIdleEdits; got != want || w.stamp != 9 {
		t.Errorf("the magic is there %d times, want %d", got, want)
	}
}

// splicing parks a splice of a field whose value is compressed.
func (p *partsOf) splicing() {
	p.t.Helper()
	f := frame{encode(p.t, wire.Update, 7, nil, keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x15, 1, 0x21, []any{[]any{":", 2, 1, 1, "X"}}}), 5}
	e := exchange{kind: wire.Update}
	if !p.s.outstanding.retryBuffer.keep(&e, &f, 3) {
		p.t.Fatal("no room")
	}
	p.s.park(7, e)
}

// call reads the frame of a step, and returns its arguments.
func (p *partsOf) call() (sync uint64, args [][]byte) {
	p.t.Helper()
	f := p.server.next(p.t)
	spans, _, err := wire.Elements(nil, f.bytes, f.body.Tuple.At, 7)
	if err != nil || f.header.Type != wire.Call || f.header.Schema != 9 || len(spans) < 6 {
		p.t.Fatalf("%+v: %v", f.header, err)
	}
	for _, at := range spans {
		args = append(args, at.Of(f.bytes))
	}
	return f.header.Sync, args
}

func TestSpliceTakesSteps(t *testing.T) {
	p := newParts(t)
	p.s.serverVersion.Store(&schema.Version{Major: 2, Minor: 11})
	p.splicing()
	first, args := p.call()
	if args[3][0] != 0xc0 {
		t.Errorf("the first step expects % x", args[3])
	}
	p.reply(wire.OK, first, 0x30, []any{nil, []any{1, p.sealed(abc), 3}})
	second, args := p.call()
	if expected, _ := wire.Text(args[3]); !hasMagic(expected) {
		t.Error("the second step does not expect what is stored")
	}
	ops, _ := wire.Text(args[4])
	found := wire.NewStrings(ops, wire.Span{Len: len(ops)})
	values := ""
	for found.Next() {
		v, err := p.g.codec.Sealer.Open(nil, found.Content.Of(ops))
		if err != nil {
			t.Fatal(err)
		}
		values += string(v)
	}
	if values != ":X"+abc[1:] {
		t.Errorf("it pastes %q", values)
	}
	p.client.nothing(t)
	p.reply(wire.OK, second, 0x30, []any{[]any{1, p.sealed("X" + abc[1:]), 3}})
	if f := p.client.expect(t, wire.OK, 7, 9); !bytes.Contains(f.bytes, []byte("X"+abc[1:])) {
		t.Error("the reply is not opened")
	}
	p.s.background.Wait()
	if p.s.outstanding.retryBuffer.kept != 0 || p.s.outstanding.busy() {
		t.Error("something is left")
	}
}

// On a server where other gateways may have rules, the first step carries out a splice of a field without rules, unless
// the stored tuple holds an envelope. Then the second step stores the value uncompressed.
func TestSpliceOfAFieldWithoutRules(t *testing.T) {
	cut := keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x15, 1, 0x21, []any{[]any{":", 3, 1, 1, "X"}}}
	begin := func(t *testing.T, typ wire.Type, body keyed) (p *partsOf, first uint64) {
		p = newParts(t)
		all := p.g.catalog.spaces.Load()
		all.initialized = true
		all.byID[600].Indexes = []schema.Index{{Unique: true, Parts: []schema.Part{{Field: 0}}}}
		p.s.serverVersion.Store(&schema.Version{Major: 2, Minor: 11})
		if err := p.s.handleRequest(&frame{encode(t, typ, 7, nil, body), 5}); err != nil {
			t.Fatal(err)
		}
		first, args := p.call()
		if len(args) != 7 || args[3][0] != 0xc0 || !bytes.HasSuffix(args[6], magic) {
			t.Fatalf("the first step: % x", args)
		}
		return p, first
	}
	t.Run("plain", func(t *testing.T) {
		p, first := begin(t, wire.Upsert, keyed{0x10, 600, 0x15, 1, 0x21, []any{1}, 0x28, cut[9]})
		p.reply(wire.OK, first, 0x30, []any{})
		p.client.expect(t, wire.OK, 7, 9)
		p.s.background.Wait()
		p.server.nothing(t)
	})
	t.Run("compressed", func(t *testing.T) {
		p, first := begin(t, wire.Update, cut)
		p.reply(wire.OK, first, 0x30, []any{nil, []any{1, "a", p.sealed(abc)}})
		second, args := p.call()
		if expected, _ := wire.Text(args[3]); len(args) != 6 || !hasMagic(expected) || hasMagic(args[4]) || !bytes.Contains(args[4], []byte("X"+abc[1:])) {
			t.Errorf("the second step: % x", args)
		}
		p.reply(wire.OK, second, 0x30, []any{[]any{1, "a", "X" + abc[1:]}})
		p.client.expect(t, wire.OK, 7, 9)
		p.s.background.Wait()
	})
	t.Run("in a space without rules", func(t *testing.T) {
		p := newParts(t)
		all := p.g.catalog.spaces.Load()
		for _, prepared := range []bool{false, true} {
			for _, calls := range []bool{false, true} {
				all.initialized, all.callRules = prepared, nil
				if calls {
					all.callRules = all.activeCallRules
				}
				all.byID[601] = &space{Space: &schema.Space{ID: 601, Name: "other"}}
				w, refused := p.g.rewrite(t.Context(), p.request(wire.Update, 0x10, 601, 0x20, []any{1}, 0x21, cut[9]), updates, 0)
				if refused != nil || (w.steps.space != nil) != (prepared || calls) || w.steps.onlyIfPlain != (prepared && !calls) {
					t.Errorf("prepared %t, rules for functions %t: %+v, %v", prepared, calls, w.steps, refused)
				}
				w, refused = p.g.rewrite(t.Context(), p.request(wire.Update, 0x10, 601, 0x20, []any{1}, 0x21, []any{[]any{":", "[3].a", 1, 1, "X"}, []any{"=", 2, abc}}), updates, 0)
				if refused != nil || w.steps.space != nil {
					t.Errorf("within a field: %+v, %v", w.steps, refused)
				}
			}
		}
	})
}

func TestSpliceWithoutTheFunction(t *testing.T) {
	p := newParts(t)
	p.splicing()
	sync, _ := p.call()
	p.reply(wire.ErrorFlag|wire.ErrNoProcedure, sync, 0x31, "Procedure '"+schema.UpdateFunction+"' is not defined")
	p.client.expect(t, wire.ErrorFlag|wire.ErrUnsupported, 7, 9)
	p.s.background.Wait()
}

func TestSpliceEndsWithTheReplies(t *testing.T) {
	p := newParts(t)
	p.splicing()
	p.call()
	p.s.PumpedSession.Run(func() {
		<-p.s.RepliesDone()
		p.s.background.Wait()
	}, func() {})
	if p.s.Context().Err() == nil {
		t.Error("the session continues")
	}
}

func TestReadStep(t *testing.T) {
	p := newParts(t)
	read := func(x *steppedRequest, typ wire.Type, body ...any) (stepAnswer, bool, *refusal) {
		r := &reply{bytes: encode(t, typ, 1<<63, nil, body)[5:]}
		if err := r.header.Parse(r.bytes); err != nil {
			t.Fatal(err)
		}
		if err := r.setSync(3); err != nil || r.header.Sync != 3 {
			t.Fatal(err)
		}
		a, again, refused, err := p.s.readStep(x, r)
		if err != nil {
			t.Fatal(err)
		}
		return a, again, refused
	}
	x := &steppedRequest{kind: wire.Update}
	if _, again, refused := read(x, wire.ErrorFlag|wire.ErrConflict); !again || refused != nil {
		t.Error("a conflict outside of a transaction of the client's is no reason to try again")
	}
	x.stream = 1
	if _, again, refused := read(x, wire.ErrorFlag|wire.ErrConflict); again || refused != nil {
		t.Error("one within is")
	}
	if _, again, refused := read(x, wire.OK, 0x30, []any{nil, []any{strings.Repeat("a", 1<<20)}}); again || refused != noMemory {
		t.Error("more is kept than the budget has room for")
	}
	if _, again, refused := read(x, wire.OK, 0x30, []any{nil, []any{envelope.Magic + "\x01"}}); again || refused == nil {
		t.Error("a broken envelope is expected")
	}
	r := &reply{bytes: encode(t, wire.OK, 1, nil, nil)[5:]}
	if err := r.header.Parse(r.bytes); err != nil {
		t.Fatal(err)
	}
	r.header.SyncAt.Len = 1
	if r.setSync(3) == nil {
		t.Error("there is no room for another sync")
	}
}
