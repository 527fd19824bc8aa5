package main

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/test/testenv"
)

// The dict commands cover all primaries of a cluster, whichever one the URL names.
func TestDictCommandsInCluster(t *testing.T) {
	nodes := testenv.Cluster(t, 3, 0)
	url := "redis://" + nodes[0].Addr
	used, idle := newTestDict(t, "used"), newTestDict(t, "idle")
	for _, n := range nodes {
		publishTo(t, n.Addr, used)
	}
	publishTo(t, nodes[1].Addr, idle)
	recordTo(t, nodes[2].Addr, newTestDict(t, "current"), used, idle)
	const key = "a" // its slot, 15495, is the third node's
	const value = `{"order":"used","state":"open"} {"order":"used","state":"open"}`
	third := connectTo(t, nodes[2].Addr)
	if err := third.Set(t.Context(), key, sealedWith(t, used, value), 0).Err(); err != nil {
		t.Fatal(err)
	}
	states := listed(t, url)
	if i := states[numberOf(used)]; *i.Values != 1 || i.Problem != "" || i.Managed == nil {
		t.Errorf("%+v", i)
	}
	if i := states[numberOf(idle)]; i.State != "live" || i.Problem != "in 1 of 3 nodes only" {
		t.Errorf("%+v", i)
	}
	got, _, err := runGC(t, dictCollectOptions{url: url, wait: time.Millisecond})
	if err != nil || got[numberOf(used)].Outcome != "in use" || got[numberOf(idle)].Outcome != "archived" {
		t.Errorf("%v: %+v", err, got)
	}
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "idle.dict")
	if err := runDictExport(t.Context(), &copiedDicts{out: &out}, url, numberOf(idle), file); err != nil {
		t.Fatal(err)
	}
	if err := runDictExport(t.Context(), &copiedDicts{out: &out}, url, "00000001", file+"2"); exitCode(err) != exitDictMissing {
		t.Errorf("one that is nowhere: %v", err)
	}
	if _, err := dict.LoadHash(file, idle.Hash()); err != nil {
		t.Error(err)
	}
	got, _, err = runGC(t, dictCollectOptions{url: url, numbers: []string{numberOf(idle), numberOf(used)}, forget: true, yes: true})
	if err == nil || got[numberOf(idle)].Outcome != "forgotten" || got[numberOf(used)].Outcome != "in use" {
		t.Errorf("%v: %+v", err, got)
	}
	for _, n := range nodes {
		if i, ok := listed(t, "redis://"+n.Addr)[numberOf(idle)]; ok {
			t.Errorf("%s: %+v", n.Addr, i)
		}
	}
	if err := runDictImport(t.Context(), &copiedDicts{out: &out}, url, file); err != nil {
		t.Fatal(err)
	}
	if i := listed(t, url)[numberOf(idle)]; i.State != "live" || i.Problem != "" {
		t.Errorf("imported: %+v", i)
	}
}
