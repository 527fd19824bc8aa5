// Package storetest is the conformance suite of internal/store, run against real servers. A new store runs it
// from a test beside that of internal/store/open.
package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
)

// Fixture is an empty store, with ways to its values past Cinch.
type Fixture struct {
	Store  store.Store
	Access store.Access
	// Write and Read write and read value number i as a client does, past any gateway. A nil value: it is gone.
	Write func(t *testing.T, i int, value []byte)
	Read  func(t *testing.T, i int) []byte
	// Address returns the address of value number i.
	Address func(i int) store.Address
}

const values = 300

// value returns value number i in the given version.
func value(i, version int) []byte {
	return fmt.Appendf(nil, "value %06d in version %d, which is long enough to be worth a name of its own", i, version)
}

// Store runs the suite.
func Store(t *testing.T, f Fixture) {
	for i := range values {
		f.Write(t, i, value(i, 1))
	}
	t.Run("walk", func(t *testing.T) { walk(t, f) })
	t.Run("limits", func(t *testing.T) { limits(t, f) })
	t.Run("replace", func(t *testing.T) { replace(t, f) })
	t.Run("value", func(t *testing.T) { single(t, f) })
	t.Run("lease", func(t *testing.T) { lease(t, f.Store) })
	t.Run("pause", func(t *testing.T) { Pause(t, f.Store.Pause()) })
	t.Run("words", func(t *testing.T) { words(t, f.Store) })
	t.Run("dictionaries", func(t *testing.T) { Dicts(t, f.Store.Dicts()) })
	t.Run("dictadmin", func(t *testing.T) { dictAdmin(t, f) })
}

// found returns all values of a store, by their content.
func found(t *testing.T, s store.Store) (all map[string]*store.Value, at map[string]store.Space) {
	t.Helper()
	all, at = map[string]*store.Value{}, map[string]store.Space{}
	each(t, s, store.ReadOptions{Types: store.String | store.Hash}, func(v *store.Value, in store.Space) {
		if v.Skip == "" {
			all[string(v.Stored)], at[string(v.Stored)] = v, in
		}
	})
	return all, at
}

// each walks over a store.
func each(t *testing.T, s store.Store, o store.ReadOptions, take func(*store.Value, store.Space)) {
	t.Helper()
	for _, target := range s.Targets() {
		emit := func(v *store.Value) error { take(v, target.Space); return nil }
		before := 0.0
		for cursor := ""; ; {
			page, err := target.Space.Page(t.Context(), cursor, store.ScanOptions{Count: 50, Read: o})
			must(t, err)
			for _, v := range page.Values {
				must(t, emit(v))
			}
			if page.Values == nil && len(page.Keys) > 0 {
				must(t, target.Space.Read(t.Context(), page.Keys, o, emit))
			}
			if cursor = page.Next; cursor == "" {
				break
			}
			share := target.Space.Share(cursor)
			if share < before || share > 1 {
				t.Fatalf("%s: a share of %f after one of %f", target.Space.Name(), share, before)
			}
			before = share
		}
	}
}

func walk(t *testing.T, f Fixture) {
	var keys int64
	for _, target := range f.Store.Targets() {
		n, err := target.Space.Keys(t.Context())
		must(t, err)
		keys += n
		must(t, target.Node.Ping(t.Context()))
		first, err := target.Node.RunID(t.Context())
		must(t, err)
		if second, _ := target.Node.RunID(t.Context()); first == "" || second != first {
			t.Errorf("%s has the run id %q, then %q", target.Node.Name(), first, second)
		}
		if m, err := target.Node.Memory(t.Context()); err != nil || m.Used <= 0 {
			t.Errorf("%s: %+v, %v", target.Node.Name(), m, err)
		}
	}
	all, _ := found(t, f.Store)
	for i := range values {
		if all[string(value(i, 1))] == nil {
			t.Fatalf("value %d was not found", i)
		}
	}
	if moved, err := f.Store.Moved(t.Context()); keys < values || moved || err != nil {
		t.Errorf("%d keys, moved: %v, %v", keys, moved, err)
	}
}

// limits checks that a value above the limit is skipped as TooLarge and not read.
func limits(t *testing.T, f Fixture) {
	longest := len(value(0, 1))
	for most, skip := range map[int]store.Reason{longest: "", longest - 1: store.TooLarge} {
		each(t, f.Store, store.ReadOptions{Types: store.String | store.Hash, MaxBytes: most}, func(v *store.Value, _ store.Space) {
			if v.Skip != skip || (v.Stored == nil) != (skip != "") {
				t.Fatalf("at most %d bytes: %q is skipped as %q, %d bytes were read", most, v.Key, v.Skip, len(v.Stored))
			}
		})
	}
}

// replace replaces values, but not one that a client has changed meanwhile.
func replace(t *testing.T, f Fixture) {
	all, at := found(t, f.Store)
	f.Write(t, 1, value(1, 7))
	for i := range 3 {
		v := all[string(value(i, 1))]
		out, err := at[string(value(i, 1))].Replace(t.Context(), []store.Change{{Value: v, New: value(i, 2)}})
		must(t, err)
		if len(out) != 1 || out[0].Err != nil || out[0].Replaced != (i != 1) {
			t.Fatalf("value %d: %+v", i, out)
		}
	}
	for i, version := range []int{2, 7, 2, 1} {
		if got := f.Read(t, i); !bytes.Equal(got, value(i, version)) {
			t.Errorf("value %d is %q", i, got)
		}
	}
	again, err := at[string(value(1, 1))].Reread(t.Context(), []*store.Value{all[string(value(1, 1))]})
	must(t, err)
	if len(again) != 1 || !bytes.Equal(again[0].Stored, value(1, 7)) {
		t.Errorf("read again: %+v", again)
	}
	f.Write(t, 4, nil)
	again, err = at[string(value(4, 1))].Reread(t.Context(), []*store.Value{all[string(value(4, 1))]})
	if err != nil || len(again) > 0 && again[0].Skip == "" {
		t.Errorf("what is gone, read again: %+v, %v", again, err)
	}
	f.Write(t, 4, value(4, 1))
}

func single(t *testing.T, f Fixture) {
	for _, s := range []store.Access{f.Access, f.Store} {
		if got, err := s.Value(t.Context(), f.Address(5)); err != nil || !bytes.Equal(got, value(5, 1)) {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := s.Value(t.Context(), f.Address(values)); err == nil || errors.Is(err, store.ErrUnreachable) {
			t.Errorf("one that is not there: %q, %v", got, err)
		}
	}
}

func lease(t *testing.T, s store.Store) {
	a, b := s.Lease("suite", "a"), s.Lease("suite", "b")
	take := func(l store.Lease, want bool) {
		t.Helper()
		wait, err := l.Acquire(t.Context(), time.Hour)
		must(t, err)
		if (wait == 0) != want {
			t.Fatalf("to wait %v, want the turn: %v", wait, want)
		}
	}
	take(a, true)
	take(b, false)
	take(s.Lease("another", "b"), true)
	for l, want := range map[store.Lease]bool{a: true, b: false} {
		if kept, err := l.Renew(t.Context(), time.Hour); err != nil || kept != want {
			t.Errorf("kept %v, %v", kept, err)
		}
	}
	must(t, b.Release(t.Context(), 0)) // not b's turn
	take(b, false)
	must(t, a.Release(t.Context(), time.Hour))
	take(b, false) // the pause applies to all
	take(a, false)
}

// Pause tests a store.Pause that is not set yet.
func Pause(t *testing.T, p store.Pause) {
	expect := func(since time.Time, want bool) {
		t.Helper()
		got, paused, err := p.Get(t.Context())
		must(t, err)
		if paused != want || !got.Equal(since) {
			t.Errorf("paused %v since %v, want %v since %v", paused, got, want, since)
		}
	}
	first := time.Date(2026, 11, 24, 12, 30, 1, 0, time.UTC)
	must(t, p.Clear(t.Context())) // none to clear
	expect(time.Time{}, false)
	for _, at := range []time.Time{first.Add(time.Millisecond), first.Add(time.Hour)} { // the second has no effect
		if since, err := p.Set(t.Context(), at); err != nil || !since.Equal(first) {
			t.Errorf("since %v, %v", since, err)
		}
		expect(first, true)
	}
	must(t, p.Clear(t.Context()))
	expect(time.Time{}, false)
}

func words(t *testing.T, s store.Store) {
	if s.Name() == "" || s.MemorySetting() == "" || s.CanRead(store.ReadOptions{}) != nil {
		t.Errorf("%q, %q, %v", s.Name(), s.MemorySetting(), s.CanRead(store.ReadOptions{}))
	}
	once := s.Explain(store.ErrReadOnly)
	if !errors.Is(once, store.ErrReadOnly) || !store.IsHinted(once) || s.Explain(once) != once || s.Explain(nil) != nil {
		t.Errorf("%v, and again %v", once, s.Explain(once))
	}
}

// Dicts is the part of the suite for store.Dicts.
func Dicts(t *testing.T, d store.Dicts) {
	x := dictionary(t, "dictionaries")
	if _, err := d.Dictionary(x.Number()); !errors.Is(err, envelope.ErrDictMissing) || d.Ready(x.Number()) {
		t.Fatalf("before it is there: %v", err)
	}
	must(t, d.Publish(t.Context(), x))
	must(t, d.Publish(t.Context(), x)) // no effect
	got, err := d.Dictionary(x.Number())
	if err != nil || got.Hash() != x.Hash() || !store.ReadyNow(t.Context(), d, x.Number(), time.Minute) || d.Retired(x.Number()) {
		t.Fatalf("published: %v, ready %v", err, d.Ready(x.Number()))
	}
	if text, version, err := d.Record(t.Context(), "suite"); text != "" || version != 0 || err != nil {
		t.Fatalf("%q, %d, %v", text, version, err)
	}
	first, err := d.ReplaceRecord(t.Context(), "suite", 0, "one")
	must(t, err)
	second, err := d.ReplaceRecord(t.Context(), "suite", first, "two")
	must(t, err)
	late, err := d.ReplaceRecord(t.Context(), "suite", first, "late")
	must(t, err)
	if text, version, err := d.Record(t.Context(), "suite"); first == 0 || second == 0 || late != 0 || text != "two" || version != second || err != nil {
		t.Errorf("%q in version %d after %d, %d, %d: %v", text, version, first, second, late, err)
	}
}

// dictAdmin takes a dictionary through all its states.
func dictAdmin(t *testing.T, f Fixture) {
	s, x := f.Access.DictAdmin(), dictionary(t, "dictadmin")
	state := func(want store.State) {
		t.Helper()
		list, err := s.List(t.Context())
		must(t, err)
		for _, i := range list {
			if i.Number == x.Number() {
				if i.State != want || i.Problem != "" || i.Bytes != len(x.Content()) || i.SHA256 != fmt.Sprintf("%x", x.Hash()) {
					t.Fatalf("%+v", i)
				}
				return
			}
		}
		if want != "" {
			t.Fatalf("not %s: it is in no list", want)
		}
	}
	collect := func() store.Collected {
		t.Helper()
		all, err := s.Collect(t.Context(), store.CollectOptions{Wait: time.Millisecond, Tell: func(string, ...any) {}}, []uint32{x.Number()})
		must(t, err)
		if len(all) != 1 {
			t.Fatalf("%+v", all)
		}
		return all[0]
	}
	state("")
	must(t, s.Restore(t.Context(), x))
	state(store.Live)
	if err := s.Forget(t.Context(), x.Number()); err == nil {
		t.Fatal("a live one was forgotten")
	}
	sealer := envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{}), Dicts: s})
	f.Write(t, 6, sealer.Seal(nil, value(6, 1), codec.Setting{Codec: codec.Zstd, Level: 3, Dict: x.Number()}, nil))
	if out := collect(); out.Archived || out.Values != 1 {
		t.Errorf("one that is in use: %+v", out)
	}
	lacks, err := f.Store.DictAdmin().Missing(t.Context(), []uint32{x.Number()})
	must(t, err)
	nothing, err := s.Spread(t.Context(), func(number uint32, node string) { t.Errorf("%08x was put onto %s", number, node) })
	if err != nil || nothing == "" || len(lacks) != 0 {
		t.Errorf("to spread: %q, %v, lacking: %v", nothing, err, lacks)
	}
	f.Write(t, 6, value(6, 1))
	if out := collect(); !out.Archived {
		t.Errorf("one that is in use no more: %+v", out)
	}
	state(store.Archived)
	if got, err := s.Dictionary(x.Number()); err != nil || got.Hash() != x.Hash() {
		t.Errorf("archived: %v", err)
	}
	must(t, s.Restore(t.Context(), x))
	state(store.Live)
	collect()
	must(t, s.Forget(t.Context(), x.Number()))
	state("")
	must(t, s.Restore(t.Context(), x))
	state(store.Live)
	collect()
	must(t, s.Forget(t.Context(), x.Number()))
	state("")
	records(t, s)
}

// records checks that the records of Dicts are in the DictAdmin.
func records(t *testing.T, s store.DictAdmin) {
	all, err := s.Records(t.Context())
	must(t, err)
	for _, r := range all {
		if r.Name != "suite" || r.Text != "two" {
			t.Fatalf("%+v", r)
		}
		if deleted, err := s.DeleteRecord(t.Context(), r, func(string) bool { return false }); err != nil || deleted {
			t.Errorf("deleted although still returned false: %v, %v", deleted, err)
		}
		if deleted, err := s.DeleteRecord(t.Context(), r, func(text string) bool { return text == "two" }); err != nil || !deleted {
			t.Errorf("not deleted: %v", err)
		}
	}
	if left, err := s.Records(t.Context()); err != nil || len(all) != 1 || len(left) != 0 {
		t.Errorf("%d records, then %v, %v", len(all), left, err)
	}
}

func dictionary(t *testing.T, about string) *codec.Dict {
	t.Helper()
	content := fmt.Appendf(nil, "%s of a conformance suite: value 000000 in version 1, which is long enough to be worth a name of its own", about)
	d, err := codec.NewDict(content)
	must(t, err)
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
