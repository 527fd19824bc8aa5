package tarantool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/test/testenv"
)

var _ store.Dicts = (*ClusterDicts)(nil)

// shards are the servers of a test's group.
type shards struct {
	t    *testing.T
	all  []*testenv.TarantoolServer
	conn []*Conn
	now  atomic.Pointer[[]int] // indexes of those in the group
}

func newShards(t *testing.T, n int) *shards {
	s := &shards{t: t}
	for range n {
		server := testenv.Tarantool(t, "")
		c := mustConnect(t, server.Addr, "", "")
		install(t, c, InstallOptions{})
		s.all, s.conn = append(s.all, server), append(s.conn, c)
	}
	return s
}

func (s *shards) set(numbers ...int) { s.now.Store(&numbers) }

// group returns the ClusterDicts of a gateway to server number own. The test calls Recheck itself.
func (s *shards) group(own int) *ClusterDicts {
	g := NewClusterDicts(NewDicts(mustConnect(s.t, s.all[own].Addr, "", ""), nil), ClusterDictsOptions{
		Find: func(context.Context) (found []Shard, err error) {
			if s.now.Load() == nil {
				return nil, ErrShards
			}
			for _, n := range *s.now.Load() {
				found = append(found, Shard{ID: s.all[n].Addr, Own: n == own, Addresses: []string{s.all[n].Addr}})
			}
			slices.SortFunc(found, func(a, b Shard) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) })
			return found, nil
		},
		Connect: func(shard Shard) *Conn {
			return NewConn(Options{Dial: func(ctx context.Context) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", shard.Addresses[0])
			}, Timeout: time.Minute})
		},
	})
	s.t.Cleanup(g.Close)
	return g
}

func (s *shards) has(n int, number uint32) bool {
	s.t.Helper()
	_, err := NewDicts(s.conn[n], nil).Dictionary(number)
	if err != nil && !errors.Is(err, envelope.ErrDictMissing) {
		s.t.Fatal(err)
	}
	return err == nil
}

// Values may name a dictionary only once it is on every shard; a new shard gets it first.
func TestGroupPublishesEverywhere(t *testing.T) {
	s := newShards(t, 3)
	g, ctx, x := s.group(0), t.Context(), testDict(t, "a")
	if err := g.Publish(ctx, x); !errors.Is(err, ErrShards) || g.Ready(x.Number()) {
		t.Errorf("as long as the shards are unknown: ready %t, %v", g.Ready(x.Number()), err)
	}
	s.set(0, 1)
	if err := g.Publish(ctx, x); err != nil || !g.Ready(x.Number()) || !s.has(1, x.Number()) {
		t.Fatalf("published: ready %t, there %t, %v", g.Ready(x.Number()), s.has(1, x.Number()), err)
	}
	s.set(0, 1, 2)
	if _, err := g.Members(ctx, ""); err != nil || g.Ready(x.Number()) {
		t.Errorf("a new shard lacks it, and it is ready: %v", err)
	}
	if err := g.Recheck(ctx); err != nil || !g.Ready(x.Number()) || !s.has(2, x.Number()) {
		t.Errorf("the new shard: ready %t, there %t, %v", g.Ready(x.Number()), s.has(2, x.Number()), err)
	}
	for n, state := range []State{Live, Retired} {
		if err := NewDicts(s.conn[2], nil).SetState(ctx, x.Number(), state); err != nil {
			t.Fatal(err)
		}
		if err := g.Recheck(ctx); err != nil || g.Retired(x.Number()) != (n == 1) || g.Ready(x.Number()) == (n == 1) {
			t.Errorf("%s in one shard: retired %t, ready %t, %v", state, g.Retired(x.Number()), g.Ready(x.Number()), err)
		}
	}
}

// A shard that is down has not lost its dictionaries, but no new ones may be named until it is back.
func TestGroupWithAShardDown(t *testing.T) {
	s := newShards(t, 2)
	s.set(0, 1)
	g, ctx, old, fresh := s.group(0), t.Context(), testDict(t, "old"), testDict(t, "fresh")
	if err := g.Publish(ctx, old); err != nil {
		t.Fatal(err)
	}
	s.all[1].Kill()
	if err := g.Recheck(ctx); err == nil || !g.Ready(old.Number()) {
		t.Errorf("the one that it holds: ready %t, %v", g.Ready(old.Number()), err)
	}
	if err := g.Publish(ctx, fresh); err == nil || g.Ready(fresh.Number()) {
		t.Errorf("a new one: ready %t, %v", g.Ready(fresh.Number()), err)
	}
	if _, err := g.Dictionary(7); err == nil || errors.Is(err, envelope.ErrDictMissing) {
		t.Errorf("it is unknown whether it has another: %v", err)
	}
	if err := s.all[1].Restart(t); err != nil {
		t.Fatal(err)
	}
	if err := g.Recheck(ctx); err != nil || !g.Ready(fresh.Number()) || !g.Ready(old.Number()) {
		t.Errorf("when it is back: ready %t, %v", g.Ready(fresh.Number()), err)
	}
}

// A dictionary of one shard is found from any, and is copied to all before that shard may leave.
func TestGroupFindsAndSpreads(t *testing.T) {
	s := newShards(t, 3)
	ctx, x, archived := t.Context(), testDict(t, "only one"), testDict(t, "archived")
	one := NewDicts(s.conn[1], nil)
	if err := one.Publish(ctx, x, archived); err != nil {
		t.Fatal(err)
	}
	if err := one.SetState(ctx, archived.Number(), Archived); err != nil {
		t.Fatal(err)
	}
	s.set(0, 1)
	g := s.group(0) // just started: it has not looked up the other shards yet
	if got, err := g.Dictionary(x.Number()); err != nil || !bytes.Equal(got.Content(), x.Content()) {
		t.Fatalf("from another shard: %v", err)
	}
	if _, err := g.Dictionary(7); !errors.Is(err, envelope.ErrDictMissing) {
		t.Errorf("one that is nowhere: %v", err)
	}
	if stranger := s.group(2); stranger.own.Check(ctx) != nil {
		t.Fatal("it can't look")
	} else if s.set(2); stranger.Recheck(ctx) != nil {
		t.Fatal("it can't look")
	} else if _, err := stranger.Dictionary(x.Number()); !errors.Is(err, envelope.ErrDictMissing) {
		t.Errorf("another group's: %v", err)
	}
	s.set(0, 1)
	if err := g.Recheck(ctx); err != nil {
		t.Fatal(err)
	}
	s.set(0) // drained and removed
	if err := g.Recheck(ctx); err != nil {
		t.Fatal(err)
	}
	s.all[1].Kill()
	alone := s.group(0)
	if err := alone.Recheck(ctx); err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint32{x.Number(), archived.Number()} {
		if _, err := alone.Dictionary(n); err != nil {
			t.Errorf("%08x, by a gateway that starts when the shard is gone: %v", n, err)
		}
	}
	if !alone.Ready(x.Number()) || alone.Ready(archived.Number()) {
		t.Error("states did not come along")
	}
}

// A gateway whose rules name a dictionary asks for it before it exists, and opens values with it as soon as
// it does.
func TestGroupAdopts(t *testing.T) {
	s := newShards(t, 2)
	s.set(0, 1)
	ctx, x, y := t.Context(), testDict(t, "by another gateway"), testDict(t, "in another shard")
	g := s.group(0)
	for _, d := range []uint32{x.Number(), y.Number()} {
		if err := g.Adopt(ctx, d); !errors.Is(err, envelope.ErrDictMissing) {
			t.Fatalf("before it is there: %v", err)
		}
	}
	if err := s.group(1).Publish(ctx, x); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Dictionary(x.Number()); err != nil {
		t.Errorf("as soon as it is there: %v", err)
	}
	if err := NewDicts(s.conn[1], nil).Publish(ctx, y); err != nil {
		t.Fatal(err)
	}
	if err := g.Adopt(ctx, y.Number()); err != nil {
		t.Errorf("from another shard: %v", err)
	}
	if err := g.Recheck(ctx); err != nil || !g.Ready(y.Number()) || !s.has(0, y.Number()) {
		t.Errorf("ready %t, in the server %t, %v", g.Ready(y.Number()), s.has(0, y.Number()), err)
	}
}

// If the server holds something else under the dictionary's number, Adopt does not use another shard's dictionary
// instead.
func TestGroupAdoptsNothingForeign(t *testing.T) {
	s, x := newShards(t, 2), testDict(t, "damaged in one shard")
	s.set(0, 1)
	for _, c := range s.conn {
		if err := NewDicts(c, nil).Publish(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	lua(t, s.conn[0], fmt.Sprintf(`box.session.su('admin', function() box.space.cinch_dictionaries:update(%d, {{'=', 3, 'damaged'}}) end)`, x.Number()))
	g := s.group(0)
	if err := g.Adopt(t.Context(), x.Number()); !errors.Is(err, ErrForeign) {
		t.Errorf("adopted: %v", err)
	}
	if _, ok := g.own.local.Get(x.Number()); ok {
		t.Error("values are opened with it")
	}
}

// Adopt waits at most dictTimeout for a shard that does not answer, and not at all for one that did not
// answer last time. While it looks up shards, other goroutines may check what they hold.
func TestGroupAdoptsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := map[string]int{}
		connect := func(id string, dial func(context.Context) error) *Conn {
			return NewConn(Options{Timeout: time.Hour, Dial: func(ctx context.Context) (net.Conn, error) {
				dials[id]++
				return nil, dial(ctx)
			}})
		}
		var g *ClusterDicts
		g = NewClusterDicts(NewDicts(connect("own", func(context.Context) error { return errors.New("it is away") }), nil), ClusterDictsOptions{
			Find: func(context.Context) ([]Shard, error) {
				if !g.syncing.TryLock() {
					t.Error("values wait until it is known what shards hold")
				} else {
					g.syncing.Unlock()
				}
				return []Shard{{ID: "failing"}, {ID: "own", Own: true}, {ID: "silent"}}, nil
			},
			Connect: func(s Shard) *Conn {
				return connect(s.ID, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			},
		})
		defer g.Close()
		g.tryLayout().others[0].failing.Store(true)
		began := time.Now()
		if err := g.Adopt(t.Context(), 7); !errors.Is(err, ErrUnreachable) {
			t.Errorf("adopted: %v", err)
		}
		if took := time.Since(began); took != dictTimeout || dials["failing"] != 0 || dials["silent"] != 1 {
			t.Errorf("it took %v, connections %v", took, dials)
		}
	})
}

// All gateways of a group keep a rule's record in one place.
func TestGroupKeepsOneRecord(t *testing.T) {
	s := newShards(t, 2)
	first, second, ctx := s.group(0), s.group(1), t.Context()
	if _, _, err := first.Record(ctx, "r"); !errors.Is(err, ErrShards) {
		t.Errorf("as long as the shards are unknown: %v", err)
	}
	s.set(0, 1)
	if v, err := first.ReplaceRecord(ctx, "r", 0, "text"); v != 1 || err != nil {
		t.Fatal(v, err)
	}
	if text, v, err := second.Record(ctx, "r"); text != "text" || v != 1 || err != nil {
		t.Errorf("%q %d %v", text, v, err)
	}
}

// higher returns a dictionary with a higher number than than's.
func higher(t *testing.T, than *codec.Dict) *codec.Dict {
	for i := 0; ; i++ {
		if x := testDict(t, fmt.Sprint("higher ", i)); x.Number() > than.Number() {
			return x
		}
	}
}

// Forgetting that was interrupted between two shards can be repeated. Until then the dictionary does not come
// back, and others are copied.
func TestHalfForgotten(t *testing.T) {
	s, x := newShards(t, 3), testDict(t, "half forgotten")
	y := higher(t, x)
	s.set(0, 1, 2)
	ctx, first, second := t.Context(), NewDicts(s.conn[0], nil), NewDicts(s.conn[1], nil)
	for _, d := range []*Dicts{first, second} { // the third has never had it
		if err := d.Publish(ctx, x); err != nil {
			t.Fatal(err)
		}
		if err := d.SetState(ctx, x.Number(), Archived); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(first.mark(ctx, x.Number()), second.Publish(ctx, y)); err != nil {
		t.Fatal(err)
	}
	g := s.group(0)
	if _, err := g.Dictionary(x.Number()); err != nil {
		t.Errorf("it is still in a shard: %v", err)
	}
	for range 2 {
		if err := g.Recheck(ctx); err != nil || s.has(0, x.Number()) || !s.has(0, y.Number()) || !s.has(2, y.Number()) {
			t.Errorf("forgotten, it is back: %t; the other: %t; %v", s.has(0, x.Number()), s.has(0, y.Number()), err)
		}
	}
	admin := NewAccess(mustConnect(t, s.all[2].Addr, "", ""), s.group(2), "server").DictAdmin()
	if err := admin.Forget(ctx, x.Number()); err != nil {
		t.Fatal(err)
	}
	if err := g.Recheck(ctx); err != nil {
		t.Fatal(err)
	}
	for n := range s.all {
		if s.has(n, x.Number()) {
			t.Errorf("it is in shard %d", n)
		}
	}
}

// Forget also marks shards that never had the dictionary. Otherwise a gateway that has the dictionary in memory would
// store it there.
func TestForgottenEverywhere(t *testing.T) {
	s, x := newShards(t, 2), testDict(t, "in one shard")
	s.set(0, 1)
	ctx, one, other := t.Context(), NewDicts(s.conn[0], nil), NewDicts(mustConnect(t, s.all[1].Addr, "", ""), nil)
	if err := errors.Join(one.Publish(ctx, x), one.SetState(ctx, x.Number(), Archived), other.Keep(x)); err != nil {
		t.Fatal(err)
	}
	if err := NewAccess(s.conn[1], s.group(1), "server").DictAdmin().Forget(ctx, x.Number()); err != nil {
		t.Fatal(err)
	}
	if err := other.Recheck(ctx); err != nil || s.has(0, x.Number()) || s.has(1, x.Number()) {
		t.Errorf("it is in the shards: %t, %t, %v", s.has(0, x.Number()), s.has(1, x.Number()), err)
	}
}

// A damaged dictionary does not keep others from being copied.
func TestSpreadPastADamagedOne(t *testing.T) {
	s, x := newShards(t, 2), testDict(t, "damaged")
	y := higher(t, x)
	s.set(0, 1)
	if err := NewDicts(s.conn[1], nil).Publish(t.Context(), x, y); err != nil {
		t.Fatal(err)
	}
	lua(t, s.conn[1], fmt.Sprintf(`box.session.su('admin', function() box.space.cinch_dictionaries:update(%d, {{'=', 3, 'damaged'}}) end)`, x.Number()))
	if err := s.group(0).Recheck(t.Context()); !errors.Is(err, ErrForeign) || !s.has(0, y.Number()) {
		t.Errorf("the other is there: %t; %v", s.has(0, y.Number()), err)
	}
}

// Moved is true for a walk over all shards if shards have joined or left meanwhile, so that the walk must be repeated.
func TestWalkSeesOtherShards(t *testing.T) {
	s, ctx := newShards(t, 3), t.Context()
	lua(t, s.conn[0], `box.schema.space.create('docs'):create_index('pk')`)
	open := func(everywhere bool) *Walk {
		t.Helper()
		w, err := OpenWalk(ctx, mustConnect(t, s.all[0].Addr, "", ""), s.group(0), WalkOptions{Name: "server", ReadOnly: true, Everywhere: everywhere})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Close)
		return w
	}
	check := func(what string, w *Walk, want bool) {
		t.Helper()
		if moved, err := w.Moved(ctx); moved != want || err != nil {
			t.Errorf("%s: moved %v, %v", what, moved, err)
		}
	}
	s.set(0, 1)
	all, one := open(true), open(false)
	if check("the same shards", all, false); len(all.masters) != 2 {
		t.Errorf("%d masters", len(all.masters))
	}
	s.now.Store(nil)
	if moved, err := all.Moved(ctx); moved || !errors.Is(err, ErrShards) {
		t.Errorf("unknown shards: moved %v, %v", moved, err)
	}
	check("unknown shards, of a walk over one", one, false)
	s.set(0, 1, 2)
	check("a new shard", all, true)
	check("a new shard, of a walk over one", one, false)
	all = open(true)
	if check("opened again", all, false); len(all.masters) != 3 {
		t.Errorf("opened again: %d masters", len(all.masters))
	}
	s.set(0, 2)
	check("a shard that has left", all, true)
}

// A command that looks up a dictionary first of all finds it in any shard.
func TestDictAdminFindsInAnyShard(t *testing.T) {
	s, x := newShards(t, 2), testDict(t, "elsewhere")
	s.set(0, 1)
	if err := NewDicts(s.conn[1], nil).Publish(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	admin := NewAccess(mustConnect(t, s.all[0].Addr, "", ""), s.group(0), "server").DictAdmin()
	if got, err := admin.Dictionary(x.Number()); err != nil || got.Hash() != x.Hash() {
		t.Errorf("in another shard: %v", err)
	}
	if _, err := admin.Dictionary(7); !errors.Is(err, envelope.ErrDictMissing) {
		t.Errorf("nowhere: %v", err)
	}
}
