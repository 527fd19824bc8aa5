package tarantool

import (
	"errors"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// sealedBy returns an envelope that names the dictionary.
func sealedBy(t *testing.T, d *Dicts, x *codec.Dict) string {
	t.Helper()
	s := envelope.NewSealer(envelope.SealerOptions{Dicts: d, Engine: codec.New(codec.Options{})})
	stored := s.Seal(nil, []byte("what values have in common, what values have in common"), codec.Setting{Codec: codec.Zstd, Level: 3, Dict: x.Number()}, nil)
	if h, err := envelope.ParseHeader(stored); err != nil || h.Dict != x.Number() {
		t.Fatalf("%+v, %v", h, err)
	}
	return string(stored)
}

func TestCollect(t *testing.T) {
	server := testenv.Tarantool(t, `local s = box.schema.space.create('docs', {if_not_exists = true}) s:create_index('pk', {if_not_exists = true})
		local h = box.schema.space.create('hashed', {if_not_exists = true}) h:create_index('pk', {type = 'hash', if_not_exists = true})
		for i = 1, 700 do h:replace{i, 'plain'} end`)
	c := mustConnect(t, server.Addr, "", "")
	install(t, c, InstallOptions{})
	d, ctx := NewDicts(c, nil), t.Context()
	idle, used, nested, late := testDict(t, "idle"), testDict(t, "used"), testDict(t, "nested"), testDict(t, "late")
	if err := d.Publish(ctx, idle, used, nested, late); err != nil {
		t.Fatal(err)
	}
	insert := func(lua string, x *codec.Dict) {
		t.Helper()
		if err := c.eval(ctx, lua, []any{text(sealedBy(t, d, x))}, nil); err != nil {
			t.Fatal(err)
		}
	}
	insert("box.space.hashed:replace{701, ...}", used)
	insert("box.space.docs:replace{1, {a = {1, {b = ...}}}}", nested)
	counts, err := Count(ctx, c)
	if err != nil || counts.Tuples != 702 || len(counts.ByDict) != 2 || counts.ByDict[used.Number()] != 1 || counts.ByDict[nested.Number()] != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
	admin := NewAccess(c, NewClusterDicts(d, ClusterDictsOptions{}), "server").DictAdmin()
	told := 0
	o := CollectOptions{Wait: time.Millisecond, Tell: func(string, ...any) {
		if told++; told == 2 { // retired; a gateway that does not know it yet stores a value
			insert("box.space.docs:replace{2, ...}", late)
		}
	}}
	outcomes, err := Collect(ctx, []*Dicts{d}, o, []uint32{idle.Number(), used.Number(), nested.Number(), late.Number(), 7})
	if err != nil {
		t.Fatal(err)
	}
	got := map[uint32]Outcome{}
	for _, out := range outcomes {
		got[out.Number] = out
	}
	if !got[idle.Number()].Archived || got[used.Number()].Values != 1 || got[nested.Number()].Archived || got[late.Number()].Archived || got[7].Reason == "" || len(got) != 5 {
		t.Errorf("%+v", got)
	}
	if d.Ready(idle.Number()) || !d.Ready(used.Number()) || !d.Ready(late.Number()) {
		t.Error("what is idle can be named, or what is in use can't")
	}
	if _, err := NewDicts(c, nil).Dictionary(idle.Number()); err != nil {
		t.Errorf("archived, it does not open any more: %v", err)
	}
	if err := admin.Forget(ctx, used.Number()); !errors.Is(err, ErrNotArchived) {
		t.Errorf("one in use is forgotten: %v", err)
	}
	if err := d.Restore(ctx, idle); err != nil || !d.Ready(idle.Number()) {
		t.Errorf("restored: %v", err)
	}
	if _, err := Collect(ctx, []*Dicts{d}, o, []uint32{idle.Number()}); err != nil {
		t.Fatal(err)
	}
	if err := admin.Forget(ctx, idle.Number()); err != nil {
		t.Fatal(err)
	}
	if _, err := NewDicts(c, nil).Dictionary(idle.Number()); !errors.Is(err, envelope.ErrDictMissing) {
		t.Errorf("forgotten: %v", err)
	}
}

func TestRecordsAreListedAndRemoved(t *testing.T) {
	server := testenv.Tarantool(t, "")
	c := mustConnect(t, server.Addr, "", "")
	install(t, c, InstallOptions{})
	d, ctx := NewDicts(c, nil), t.Context()
	version, err := d.ReplaceRecord(ctx, "rule", 0, "text")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lease("x", "a").Acquire(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	if all, err := d.Records(ctx); err != nil || len(all) != 1 || all["rule"] != "text" {
		t.Errorf("%v, %v", all, err)
	}
	if removed, err := d.DeleteRecord(ctx, "rule", version+1); removed || err != nil {
		t.Errorf("another version is removed: %v", err)
	}
	if removed, err := d.DeleteRecord(ctx, "rule", version); !removed || err != nil {
		t.Errorf("not removed: %v", err)
	}
	if all, err := d.Records(ctx); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if version, err := d.ReplaceRecord(ctx, "rule", 0, "again"); version == 0 || err != nil {
		t.Errorf("it can't be written again: %v", err)
	}
}

// The zero options are valid: a default wait, no messages.
func TestCollectWithoutOptions(t *testing.T) {
	all, err := Collect(t.Context(), nil, CollectOptions{}, []uint32{7})
	if err != nil || len(all) != 1 || all[0].Reason == "" {
		t.Errorf("%+v, %v", all, err)
	}
}
