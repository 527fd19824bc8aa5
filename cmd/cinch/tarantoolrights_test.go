package main

import (
	"strings"
	"testing"

	tnt "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// ownScript has a user with rights on one space, as on managed hosts, where 'cinch tarantool init' can't be
// run.
const ownScript = `local s = box.schema.space.create('docs', {if_not_exists = true, format = {{'id', 'unsigned'}, {'body', 'string'}, {'tag', 'string'}, {'checked', 'string'}}})
	s:create_index('pk', {if_not_exists = true})
	s:create_index('tag', {parts = {3}, unique = false, if_not_exists = true})
	if s.create_check_constraint then s:create_check_constraint('long', '"checked" <> \'short\'') end
	box.schema.user.create('own', {password = 'secret', if_not_exists = true})
	box.schema.user.grant('own', 'read,write', 'space', 'docs', {if_not_exists = true})`

const ownRules = "{name: all, space: docs, field: '*', setting: zstd-3, min_size: 0}"

// ownBed starts a gateway that connects as that user, as does its client.
func ownBed(t *testing.T, script, rules string) (log *tarantoolServe, client, direct *tuples) {
	server := testenv.Tarantool(t, script)
	g := &tarantoolServe{addr: freeAddr(t), upstream: "tarantool://own:secret@" + server.Addr, file: t.TempDir() + "/cinch.yaml"}
	g.write(t, "", rules)
	g.served = startServe(t, serveOptions{configFile: g.file})
	g.logged("schema was read")
	g.client = tuplesAt(t, g.addr, "own", "secret")
	return g, g.client, tuplesAt(t, server.Addr, "", "")
}

var ownBody = strings.Repeat("text that repeats, ", 20)

func ownTuple(id int, body string) []any { return []any{id, body, ownBody, ownBody} }

// sealedFields returns the numbers, from 1, of a stored tuple's fields that are envelopes.
func (c *tuples) sealedFields(id int) (fields []int) {
	c.t.Helper()
	got := c.eval("return box.space.docs:get(...):unpack()", id)
	for i, v := range got {
		if s, ok := v.(string); ok && envelope.IsSealed([]byte(s)) {
			fields = append(fields, i+1)
		}
	}
	return fields
}

func (c *tuples) must(r tnt.Request) []any {
	c.t.Helper()
	got, err := c.c.Do(r).Get()
	if err != nil {
		c.t.Fatal(err)
	}
	return got
}

// If the gateway's user has no right to read constraints, nothing is compressed, and the log says why. Operations
// that cut, move or join the uncompressed values have the same results as without a gateway.
func TestTarantoolUserWithoutRights(t *testing.T) {
	g, client, direct := ownBed(t, ownScript, ownRules)
	defer g.stop(t)
	g.logged("_ck_constraint")
	client.must(tnt.NewReplaceRequest("docs").Tuple(ownTuple(1, ownBody)))
	if got := direct.sealedFields(1); got != nil {
		t.Fatalf("fields %v are compressed, although their readers are unknown", got)
	}
	splice := tnt.NewUpdateRequest("docs").Key([]any{1}).Operations(tnt.NewOperations().Splice(1, 0, 4, "words"))
	if got := client.must(splice)[0].([]any)[1]; got != "words"+ownBody[4:] {
		t.Errorf("cut: %.40v", got)
	}
	client.must(tnt.NewUpsertRequest("docs").Tuple(ownTuple(2, "new")).Operations(tnt.NewOperations().Splice(1, 0, 0, "more ")))
	client.must(tnt.NewUpsertRequest("docs").Tuple(ownTuple(2, "new")).Operations(tnt.NewOperations().Splice(1, 0, 0, "more ")))
	if got := client.get(2); got != "more new" {
		t.Errorf("joined: %q", got)
	}
	client.must(tnt.NewUpdateRequest("docs").Key([]any{2}).Operations(tnt.NewOperations().Delete(1, 1).Insert(1, "moved")))
	if got := client.get(2); got != "moved" {
		t.Errorf("moved: %q", got)
	}
	if _, err := client.c.Do(tnt.NewUpdateRequest("docs").Key([]any{"no number"}).Operations(tnt.NewOperations().Splice(1, 0, 4, "x"))).Get(); err == nil || strings.Contains(err.Error(), "cinch") {
		t.Errorf("a wrong key: %v", err)
	}

	sealed := string(envelope.NewSealer(envelope.SealerOptions{Engine: newEngine()}).Seal(nil, []byte(ownBody), codec.Setting{Codec: codec.Zstd, Level: 3}, nil))
	direct.must(tnt.NewReplaceRequest("docs").Tuple(ownTuple(3, sealed))) // compressed by another user's gateway, or earlier
	splice = tnt.NewUpdateRequest("docs").Key([]any{3}).Operations(tnt.NewOperations().Splice(1, 0, 4, "words"))
	if _, err := client.c.Do(splice).Get(); err == nil || !strings.Contains(err.Error(), "cinch does not support") {
		t.Errorf("the splice changed a compressed field: %v", err)
	}
	if got := client.get(3); got != ownBody {
		t.Errorf("the compressed field reads as %.40q", got)
	}
}

// A rule that asserts that its field is unconstrained needs only the rights to the space. Visible
// computations on fields count all the same.
func TestTarantoolRuleThatVouches(t *testing.T) {
	const rules = "{name: body, space: docs, field: body, setting: zstd-3, unconstrained: true}, {name: tag, space: docs, field: tag, setting: zstd-3, unconstrained: true}"
	g, client, direct := ownBed(t, ownScript, rules)
	defer g.stop(t)
	client.must(tnt.NewReplaceRequest("docs").Tuple(ownTuple(1, ownBody)))
	if got := direct.sealedFields(1); len(got) != 1 || got[0] != 2 {
		t.Errorf("fields %v are compressed, not only the second", got)
	}
	if got := client.get(1); got != ownBody {
		t.Errorf("it reads as %.40q", got)
	}
	g.logged("has the field") // the index
	splice := tnt.NewUpdateRequest("docs").Key([]any{1}).Operations(tnt.NewOperations().Splice(1, 0, 4, "words"))
	if _, err := client.c.Do(splice).Get(); err == nil || !strings.Contains(err.Error(), "cinch tarantool init") {
		t.Errorf("the splice changed a compressed field: %v", err)
	}
}

// A user with the right to run Lua or SQL reads the constraints there.
func TestTarantoolUserWhoMayRunLua(t *testing.T) {
	script := ownScript + `
		box.schema.user.grant('own', 'execute', 'universe', nil, {if_not_exists = true})
		box.execute('CREATE TABLE CHILD (ID INTEGER PRIMARY KEY, DOC UNSIGNED REFERENCES "docs" ("id"), NAME STRING)')
		box.schema.user.grant('own', 'read,write', 'space', 'CHILD', {if_not_exists = true})`
	for _, p := range testenv.TarantoolPrograms(t) {
		t.Run(p.Name, func(t *testing.T) {
			server := testenv.TarantoolOf(t, p.Path, script)
			g := &tarantoolServe{addr: freeAddr(t), upstream: "tarantool://own:secret@" + server.Addr, file: t.TempDir() + "/cinch.yaml"}
			g.write(t, "", ownRules)
			g.served = startServe(t, serveOptions{configFile: g.file})
			g.logged("schema was read")
			g.client = tuplesAt(t, g.addr, "own", "secret")
			defer g.stop(t)
			g.client.must(tnt.NewReplaceRequest("docs").Tuple(ownTuple(1, ownBody)))
			want := 1 // the checked field is not compressed
			if p.Name != "packaged" {
				want = 2 // this server has no such checks
			}
			if got := tuplesAt(t, server.Addr, "", "").sealedFields(1); len(got) != want || got[0] != 2 {
				t.Errorf("fields %v are compressed, not %d of them", got, want)
			}
		})
	}
}
