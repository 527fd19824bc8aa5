package tarantool

import (
	"reflect"
	"testing"

	wire "github.com/cinch-layer/cinch/internal/wire/iproto"

	"github.com/cinch-layer/cinch/internal/policy"
)

func TestTuplesAreSealedAndOpened(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c, direct := b.client(), b.direct()
	tuple := []any{1, "tag", document(1), nil, []byte(document(2))}
	want := []any{int64(1), "tag", document(1), nil, []byte(document(2))}
	for _, typ := range []wire.Type{wire.Insert, wire.Replace} {
		got := c.must(typ, 0x10, docs, 0x21, tuple).([]any)
		if !reflect.DeepEqual(got[0], want) {
			t.Fatalf("type %d echoes %v", typ, got)
		}
	}
	stored := direct.selectOne(docs, 1)
	if !sealed(stored[2]) || !sealed(stored[4]) || sealed(stored[1]) {
		t.Fatalf("stored: %.80q", stored)
	}
	if _, ok := stored[4].([]byte); !ok {
		t.Errorf("a binary became %T", stored[4])
	}
	if got := c.selectOne(docs, 1); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	if got := c.must(wire.Delete, 0x10, docs, 0x11, 0, 0x20, []any{1}).([]any); !reflect.DeepEqual(got[0], want) {
		t.Errorf("delete answers %v", got)
	}
}
