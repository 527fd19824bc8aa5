package tarantool

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/test/testenv"
)

var _ store.Dicts = (*Dicts)(nil)

func testDict(t *testing.T, seed string) *codec.Dict {
	t.Helper()
	x, err := codec.NewDict(bytes.Repeat([]byte("what values have in common \xff "+seed), 20))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestDicts(t *testing.T) {
	server := testenv.Tarantool(t, `box.schema.user.create('app', {password = 'secret', if_not_exists = true})
		box.schema.user.create('other', {password = 'secret', if_not_exists = true})`)
	c := mustConnect(t, server.Addr, "", "")
	install(t, c, InstallOptions{Users: []string{"app"}})
	d := NewDicts(mustConnect(t, server.Addr, "app", "secret"), nil)
	x := testDict(t, "a")
	if _, err := d.Dictionary(x.Number()); !errors.Is(err, envelope.ErrDictMissing) {
		t.Fatalf("a dictionary that was not stored: %v", err)
	}
	early := NewDicts(c, nil)
	if _, err := early.Dictionary(x.Number()); !errors.Is(err, envelope.ErrDictMissing) {
		t.Fatalf("a dictionary that was not stored: %v", err)
	}
	if err := d.Publish(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if !d.Ready(x.Number()) || d.Retired(x.Number()) {
		t.Error("it is not ready")
	}
	if _, err := early.Dictionary(x.Number()); !errors.Is(err, envelope.ErrDictMissing) {
		t.Errorf("asked a moment ago: %v", err)
	}
	if err := early.Recheck(t.Context()); err != nil || !early.Ready(x.Number()) {
		t.Fatalf("not ready for others: %v", err)
	}
	if _, err := early.Dictionary(x.Number()); err != nil {
		t.Errorf("it is ready, and missing: %v", err)
	}
	again := NewDicts(mustConnect(t, server.Addr, "app", "secret"), nil)
	got, err := again.Dictionary(x.Number())
	if err != nil || !bytes.Equal(got.Content(), x.Content()) {
		t.Fatalf("fetched: %v", err)
	}
	list, err := d.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Number != x.Number() || list[0].Bytes != len(x.Content()) || list[0].State != Live {
		t.Errorf("%+v, %v", list, err)
	}
	if err := d.SetState(t.Context(), x.Number(), Archived); err != nil || d.Ready(x.Number()) || !d.Retired(x.Number()) {
		t.Errorf("archived, it is ready: %v", err)
	}
	if _, err := NewDicts(c, nil).Dictionary(x.Number()); err != nil {
		t.Errorf("archived: %v", err)
	}
	other := NewDicts(mustConnect(t, server.Addr, "other", "secret"), nil)
	if _, err := other.Dictionary(x.Number()); !errors.Is(err, ErrDenied) {
		t.Errorf("another user reads it: %v", err)
	}
	if err := other.Publish(t.Context(), testDict(t, "b")); err == nil {
		t.Error("another user adds one")
	}
	checkRestored(t, c, d, x)
}

// checkRestored checks that a lost dictionary is restored, and that a damaged one is refused.
func checkRestored(t *testing.T, c *Conn, d *Dicts, x *codec.Dict) {
	t.Helper()
	lua(t, c, `box.session.su('admin', function() box.space.cinch_dictionaries:truncate() end)`)
	if err := d.Recheck(t.Context()); err != nil || !d.Ready(x.Number()) {
		t.Errorf("lost, it is not put back: %v", err)
	}
	lua(t, c, fmt.Sprintf(`box.session.su('admin', function() box.space.cinch_dictionaries:update(%d, {{'=', 3, 'damaged by whom ever'}}) end)`, x.Number()))
	if _, err := NewDicts(c, nil).Dictionary(x.Number()); !errors.Is(err, ErrForeign) {
		t.Errorf("damaged: %v", err)
	}
}

// A gateway that has a forgotten dictionary in memory never restores it. An operator may.
func TestForgotten(t *testing.T) {
	server := testenv.Tarantool(t, "")
	c := mustConnect(t, server.Addr, "", "")
	install(t, c, InstallOptions{})
	gateway, operator, ctx, x := NewDicts(mustConnect(t, server.Addr, "", ""), nil), NewDicts(c, nil), t.Context(), testDict(t, "secret")
	admin := NewAccess(c, NewClusterDicts(operator, ClusterDictsOptions{}), "server").DictAdmin()
	if err := gateway.Publish(ctx, x); err != nil {
		t.Fatal(err)
	}
	if err := admin.Forget(ctx, x.Number()); !errors.Is(err, ErrNotArchived) {
		t.Errorf("a live one: %v", err)
	}
	forget := func() {
		t.Helper()
		if err := operator.SetState(ctx, x.Number(), Archived); err != nil {
			t.Fatal(err)
		}
		if err := admin.Forget(ctx, x.Number()); err != nil {
			t.Fatal(err)
		}
	}
	forget()
	recheck := func() error { return gateway.Recheck(ctx) }
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"checks", recheck},
		{"publishes it", func() error { return gateway.Publish(ctx, x) }},
		{"keeps what it found elsewhere", func() error { return gateway.Keep(x) }},
		{"checks again", recheck},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("the gateway %s: %v", step.name, err)
		}
		if list, err := operator.List(ctx); err != nil || len(list) != 0 {
			t.Errorf("the gateway %s: %+v, %v", step.name, list, err)
		}
		if _, err := NewDicts(c, nil).Dictionary(x.Number()); !errors.Is(err, envelope.ErrDictMissing) {
			t.Errorf("the gateway %s: %v", step.name, err)
		}
		if gateway.Ready(x.Number()) || !gateway.Retired(x.Number()) || gateway.Has(x.Number()) {
			t.Errorf("the gateway %s: values may name it", step.name)
		}
	}
	if n := len(gateway.kept); n != 0 {
		t.Errorf("the gateway keeps %d", n)
	}
	for _, state := range []State{Live, Retired, Archived} {
		if err := operator.SetState(ctx, x.Number(), state); !errors.Is(err, envelope.ErrDictMissing) {
			t.Errorf("it becomes %s: %v", state, err)
		}
	}
	if err := admin.Forget(ctx, x.Number()); !errors.Is(err, ErrNotArchived) {
		t.Errorf("it is forgotten twice: %v", err)
	}
	if err := admin.Restore(ctx, x); err != nil || !operator.Ready(x.Number()) {
		t.Errorf("restored: %v", err)
	}
	if err := gateway.Publish(ctx, x); err != nil || !gateway.Ready(x.Number()) {
		t.Errorf("restored, for the gateway: %v", err)
	}
	forget()
	if did := install(t, c, InstallOptions{Remove: true}); !slices.Contains(did, "removed space cinch_dictionaries") {
		t.Errorf("only a mark is left, and did %q", did)
	}
}

func TestRecords(t *testing.T) {
	server := testenv.Tarantool(t, "")
	c := mustConnect(t, server.Addr, "", "")
	install(t, c, InstallOptions{})
	d := NewDicts(c, nil)
	if text, version, err := d.Record(t.Context(), "r"); text != "" || version != 0 || err != nil {
		t.Fatalf("%q %d %v", text, version, err)
	}
	for want := uint64(1); want < 4; want++ {
		if got, err := d.ReplaceRecord(t.Context(), "r", want-1, "text"); got != want || err != nil {
			t.Fatalf("version %d, %v", got, err)
		}
	}
	if got, err := d.ReplaceRecord(t.Context(), "r", 1, "old"); got != 0 || err != nil {
		t.Errorf("an old version is replaced: %d, %v", got, err)
	}
	if text, version, err := d.Record(t.Context(), "r"); text != "text" || version != 3 || err != nil {
		t.Errorf("%q %d %v", text, version, err)
	}
}

// A flood of made-up numbers does not hide a dictionary that is published meanwhile.
func TestFoundInAFloodOfNumbers(t *testing.T) {
	server := testenv.Tarantool(t, "")
	c := mustConnect(t, server.Addr, "", "")
	install(t, c, InstallOptions{})
	x, d := testDict(t, "late"), NewDicts(c, nil)
	d.LimitLookups()
	number := uint32(1)
	flood := func(n int) (unasked int) {
		for range n {
			number++
			_, err := d.Dictionary(number)
			if err == nil {
				t.Fatalf("%08x was found", number)
			}
			if errors.Is(err, store.ErrLookupLimit) {
				unasked++
			}
		}
		return unasked
	}
	if n := flood(10_000); n < 5000 {
		t.Errorf("%d of 10,000 were not asked for", n)
	}
	if err := NewDicts(mustConnect(t, server.Addr, "", ""), nil).Publish(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "it is found in the flood", func() bool {
		flood(200)
		_, err := d.Dictionary(x.Number())
		return err == nil
	})
}

// A dictionary that was found is usable at once, even while the server is asked for something else.
func TestFoundDictionaryDoesNotWaitForChecks(t *testing.T) {
	d, x := NewDicts(nil, nil), testDict(t, "found")
	d.ioMu.Lock() // as a check does
	defer d.ioMu.Unlock()
	if err := d.Keep(x); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Dictionary(x.Number()); err != nil || got != x {
		t.Error(got, err)
	}
}
