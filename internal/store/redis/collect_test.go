package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// clusterToCollect starts a cluster and returns its primaries in order of their slots.
func clusterToCollect(t *testing.T) (o CollectOptions, nodes []*testenv.RedisServer) {
	nodes = testenv.Cluster(t, 3, 0)
	for _, n := range nodes {
		d, _ := gatewayOn(t, n.Addr, &testenv.Log{})
		o.Nodes = append(o.Nodes, CollectNode{d, &goredis.Options{Addr: n.Addr}})
	}
	s, err := Open(t.Context(), OpenOptions{Client: goredis.Options{Addr: nodes[0].Addr}})
	must(t, err)
	t.Cleanup(s.Close)
	o.Layout, o.Wait = s.Layout, time.Millisecond
	return o, nodes
}

// keyOn returns a key in a slot of the n-th of three nodes.
func keyOn(t *testing.T, n int) string {
	return map[int]string{0: "b", 1: "c", 2: "a"}[n] // slots 3300, 7365, 15495
}

// A value in any node keeps a dictionary live in all of them. One that no node's values name is archived in
// all, also in those that never had it.
func TestCollectCluster(t *testing.T) {
	o, nodes := clusterToCollect(t)
	idle := testDict(t, "idle")
	mustPublish(t, o.Nodes[1].Dicts, idle) // one node only
	numbers := []uint32{idle.Number()}
	var used []*codec.Dict
	for i, n := range nodes {
		x := testDict(t, "used in "+keyOn(t, i))
		used, numbers = append(used, x), append(numbers, x.Number())
		for _, node := range o.Nodes {
			mustPublish(t, node.Dicts, x)
		}
		sealed, _ := sealedBy(t, x)
		must(t, connect(t, goredis.Options{Addr: n.Addr}).Set(t.Context(), keyOn(t, i), sealed, 0).Err())
	}
	outcomes, err := Collect(t.Context(), o, numbers)
	must(t, err)
	for _, out := range outcomes {
		if out.Archived != (out.Number == idle.Number()) || out.Archived == (out.Values == 1) {
			t.Errorf("%+v", out)
		}
	}
	for _, node := range o.Nodes {
		if _, err := node.Dicts.Dictionary(0x12345678); !errors.Is(err, envelope.ErrDictMissing) {
			t.Errorf("one that is nowhere: %v", err)
		}
		wantState(t, node.Dicts, idle, Archived)
		for _, x := range used {
			wantState(t, node.Dicts, x, Live)
		}
	}
}

// Both scans may miss the values of a slot that moves meanwhile.
func TestCollectFailsWhenSlotsMove(t *testing.T) {
	o, nodes := clusterToCollect(t)
	x := testDict(t, "moved")
	for _, node := range o.Nodes {
		mustPublish(t, node.Dicts, x)
	}
	asked, layout := 0, o.Layout
	o.Layout = func(ctx context.Context) (string, error) {
		if asked++; asked == 4 { // the end of the second scan
			testenv.MoveSlots(t, nodes[0], nodes[2], 0, 9)
		}
		return layout(ctx)
	}
	if outcomes, err := Collect(t.Context(), o, []uint32{x.Number()}); !errors.Is(err, ErrMoved) || len(outcomes) > 0 {
		t.Errorf("%v: %+v", err, outcomes)
	}
	for _, node := range o.Nodes {
		wantState(t, node.Dicts, x, Retired) // and still opens values
	}
}

// Forgetting that was interrupted between two nodes does not keep other dictionaries from being copied, and the
// dictionary does not come back.
func TestSpreadAfterHalfAForget(t *testing.T) {
	o, nodes := clusterToCollect(t)
	x := testDict(t, "half forgotten")
	y := x
	for i := 0; y.Number() <= x.Number(); i++ {
		y = testDict(t, fmt.Sprint("higher ", i))
	}
	for _, n := range o.Nodes[:2] { // the third has never had it
		mustPublish(t, n.Dicts, x)
		must(t, n.Dicts.Archive(t.Context(), x.Number()))
	}
	must(t, o.Nodes[0].Dicts.Forget(t.Context(), x.Number()))
	mustPublish(t, o.Nodes[1].Dicts, y)
	a, err := NewAccess(t.Context(), "store", goredis.Options{Addr: nodes[0].Addr}, new(dict.Set))
	must(t, err)
	defer a.Close()
	copied := map[uint32]int{}
	_, err = a.DictAdmin().Spread(t.Context(), func(number uint32, _ string) { copied[number]++ })
	must(t, err)
	if copied[x.Number()] != 1 || copied[y.Number()] != 2 {
		t.Errorf("copies: %v", copied)
	}
	for i, n := range o.Nodes {
		wantState(t, n.Dicts, y, Live)
		wantState(t, n.Dicts, x, []State{"", Archived, Archived}[i])
	}
	lacks, err := a.DictAdmin().Missing(t.Context(), []uint32{x.Number(), y.Number()})
	must(t, err)
	if len(lacks) != 1 || lacks[0].Number != x.Number() || lacks[0].Node != nodes[0].Addr {
		t.Errorf("lacking: %+v", lacks)
	}
}

// A node with something else under a dictionary's name, or without an answer, does not hide the dictionary of
// another node.
func TestDictionaryOfAnyNode(t *testing.T) {
	_, nodes := clusterToCollect(t)
	x, y := testDict(t, "anywhere"), testDict(t, "foreign")
	holder, _ := gatewayOn(t, nodes[2].Addr, &testenv.Log{})
	mustPublish(t, holder, x)
	foreign := strings.ReplaceAll(libraryCode(libraryName(y.Number()), y), libraryName(y.Number()), libraryName(x.Number()))
	must(t, connect(t, goredis.Options{Addr: nodes[0].Addr}).FunctionLoad(t.Context(), foreign).Err())
	a, err := NewAccess(t.Context(), "store", goredis.Options{Addr: nodes[0].Addr}, new(dict.Set))
	must(t, err)
	defer a.Close()
	if got, err := a.DictAdmin().Dictionary(x.Number()); err != nil || got.Hash() != x.Hash() {
		t.Errorf("in another node: %v", err)
	}
	must(t, holder.dictBackends.functions.client.FunctionFlush(t.Context()).Err())
	b, err := NewAccess(t.Context(), "store", goredis.Options{Addr: nodes[0].Addr}, new(dict.Set))
	must(t, err)
	defer b.Close()
	if _, err := b.DictAdmin().Dictionary(x.Number()); !errors.Is(err, ErrForeign) || errors.Is(err, envelope.ErrDictMissing) {
		t.Errorf("nowhere else: %v", err)
	}
}
