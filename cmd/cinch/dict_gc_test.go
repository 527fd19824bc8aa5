package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/dictionary"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

// recordTo writes the record that gateways would write: current has replaced former.
func recordTo(t *testing.T, addr string, current *codec.Dict, former ...*codec.Dict) {
	t.Helper()
	r := dictionary.Record{Seen: time.Now(), Rule: "orders", Current: &dictionary.Version{
		Dict: dictionary.Number(current.Number()), At: time.Now().Add(-time.Hour), By: "host/g/1", Before: 0.8, Promised: 0.2,
	}}
	for _, d := range former {
		r.Former = append(r.Former, dictionary.Version{Dict: dictionary.Number(d.Number()), At: time.Now().Add(-50 * time.Hour)})
	}
	keepRecord(t, addr, "0123456789abcdef", r)
}

func keepRecord(t *testing.T, addr, name string, r dictionary.Record) {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	d := storeredis.NewDicts(storeredis.DictsOptions{Client: connectTo(t, addr)})
	if next, err := d.ReplaceRecord(t.Context(), name, 0, string(text)); err != nil || next == 0 {
		t.Fatal(next, err)
	}
}

func numberOf(d *codec.Dict) string { return fmt.Sprintf("%08x", d.Number()) }

func runGC(t *testing.T, o dictCollectOptions) (outcomes map[string]collected, notes string, err error) {
	t.Helper()
	var out, diag bytes.Buffer
	o.out, o.notes, o.asJSON, o.unused = &out, &diag, true, defaultUnused
	err = runDictCollect(t.Context(), o)
	var all []collected
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &all); err != nil {
			t.Fatalf("%v: %s", err, &out)
		}
	}
	outcomes = map[string]collected{}
	for _, c := range all {
		outcomes[c.Number+c.Rule] = c
	}
	return outcomes, diag.String(), err
}

func TestDictCollect(t *testing.T) {
	server := testenv.Redis(t)
	url := "redis://" + server.Addr
	current, idle, used, manual := newTestDict(t, "current"), newTestDict(t, "idle"), newTestDict(t, "used"), newTestDict(t, "manual")
	publishTo(t, server.Addr, current, idle, used, manual)
	recordTo(t, server.Addr, current, idle, used)
	const value = `{"order":"used","state":"open"} {"order":"used","state":"open"}`
	client := connectTo(t, server.Addr)
	client.Set(t.Context(), "k", sealedWith(t, used, value), 0)

	dry, _, err := runGC(t, dictCollectOptions{url: url, dryRun: true})
	if err != nil || len(dry) != 2 || dry[numberOf(idle)].Outcome != "idle" || dry[numberOf(used)].Values != 1 {
		t.Errorf("%v: %+v", err, dry)
	}
	got, notes, err := runGC(t, dictCollectOptions{url: url, wait: time.Millisecond})
	if err != nil || len(got) != 2 || got[numberOf(idle)].Outcome != "archived" || got[numberOf(used)].Outcome != "in use" {
		t.Errorf("%v: %+v\n%s", err, got, notes)
	}
	states := listed(t, url)
	for d, want := range map[*codec.Dict]string{current: "live", idle: "archived", used: "live", manual: "live"} {
		if states[numberOf(d)].State != want {
			t.Errorf("%+v, want %s", states[numberOf(d)], want)
		}
	}
	if m := states[numberOf(current)].Managed; m == nil || !m.Current || m.Rule != "orders" || m.Gain < 0.74 || *states[numberOf(used)].Values != 1 || *states[numberOf(current)].Values != 0 {
		t.Errorf("%+v", m)
	}
	if m := states[numberOf(used)].Managed; m == nil || m.Current || states[numberOf(manual)].Managed != nil {
		t.Errorf("%+v", m)
	}

	file := filepath.Join(t.TempDir(), "idle.dict")
	var out bytes.Buffer
	if err := runDictExport(t.Context(), &copiedDicts{out: &out}, url, numberOf(idle), file); err != nil {
		t.Fatal(err)
	}
	if saved, err := dict.LoadHash(file, idle.Hash()); err != nil || saved.Number() != idle.Number() {
		t.Error(err)
	}
	if _, notes, err := runGC(t, dictCollectOptions{url: url, numbers: []string{numberOf(idle)}, forget: true}); err == nil || !strings.Contains(notes, "never be read again") {
		t.Errorf("without --yes: %v, %s", err, notes)
	}
	got, _, err = runGC(t, dictCollectOptions{url: url, numbers: []string{numberOf(idle), numberOf(used), numberOf(manual)}, forget: true, yes: true})
	if err == nil || got[numberOf(idle)].Outcome != "forgotten" || got[numberOf(used)].Outcome != "in use" || got[numberOf(manual)].Outcome != "kept" {
		t.Errorf("%v: %+v", err, got)
	}
	if err := runDictExport(t.Context(), &copiedDicts{out: &out}, url, numberOf(idle), file+"2"); exitCode(err) != exitDictMissing {
		t.Errorf("%v", err)
	}
	out.Reset()
	moved := &copiedDicts{out: &out, asJSON: true}
	if err := moved.end(runDictImport(t.Context(), moved, url, file)); err != nil || listed(t, url)[numberOf(idle)].State != "live" {
		t.Errorf("import: %v", err)
	}
	var told []copiedDict
	if err := json.Unmarshal(out.Bytes(), &told); err != nil || len(told) != 1 || told[0].Number != numberOf(idle) || told[0].From != file {
		t.Errorf("it tells %s, %v", &out, err)
	}
	for _, bad := range []string{"xyz", "123", "00000000", "0a1b2c3d4"} {
		if _, _, err := runGC(t, dictCollectOptions{url: url, numbers: []string{bad}}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if got, _, err := runGC(t, dictCollectOptions{url: url, numbers: []string{"00000001"}}); err != nil || got["00000001"].Reason == "" {
		t.Errorf("%v, %+v", err, got)
	}
}

func listed(t *testing.T, url string) map[string]dictInfo {
	t.Helper()
	var out bytes.Buffer
	if err := runDictList(t.Context(), dictListOptions{from: []string{url}, asJSON: true, count: true, out: &out}); err != nil {
		t.Fatal(err)
	}
	var infos []dictInfo
	if err := json.Unmarshal(out.Bytes(), &infos); err != nil {
		t.Fatal(err)
	}
	byNumber := map[string]dictInfo{}
	for _, i := range infos {
		byNumber[i.Number] = i
	}
	out.Reset()
	if err := runDictList(t.Context(), dictListOptions{from: []string{url}, out: &out}); err != nil || !strings.Contains(out.String(), "orders") {
		t.Errorf("%v\n%s", err, &out)
	}
	return byNumber
}

func recordsIn(t *testing.T, addr string) map[string]string {
	t.Helper()
	all, err := storeredis.NewDicts(storeredis.DictsOptions{Client: connectTo(t, addr)}).Records(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// When no gateway has a rule any more, its dictionaries are removed once no value names them, and then its record is
// removed.
func TestDictCollectAbandonedRules(t *testing.T) {
	server := testenv.Redis(t)
	url := "redis://" + server.Addr
	current, used, active, shared := newTestDict(t, "current"), newTestDict(t, "used"), newTestDict(t, "active"), newTestDict(t, "shared")
	unannounced := newTestDict(t, "stored when its gateway died")
	publishTo(t, server.Addr, current, used, active, shared, unannounced)
	recordTo(t, server.Addr, active)
	version := func(d *codec.Dict) dictionary.Version {
		return dictionary.Version{Dict: dictionary.Number(d.Number()), At: time.Now().Add(-9000 * time.Hour)}
	}
	old, now := version(current), version(shared)
	keepRecord(t, server.Addr, "00000000000000aa", dictionary.Record{
		Rule: "gone", Current: &old, Former: []dictionary.Version{version(shared)}, Seen: time.Now().Add(-defaultUnused - time.Hour),
		Older: []dictionary.Number{dictionary.Number(used.Number())},
		Lease: &dictionary.Lease{Until: old.At, Dict: dictionary.Number(unannounced.Number())},
	})
	keepRecord(t, server.Addr, "00000000000000bb", dictionary.Record{Rule: "quiet", Current: &now, Seen: time.Now().Add(-defaultUnused + time.Hour)})
	client := connectTo(t, server.Addr)
	const value = `{"order":"used","state":"open"} {"order":"used","state":"open"}`
	client.Set(t.Context(), "k", sealedWith(t, used, value), 0)

	dry, _, err := runGC(t, dictCollectOptions{url: url, dryRun: true})
	if err != nil || len(dry) != 3 || len(recordsIn(t, server.Addr)) != 3 {
		t.Errorf("%v: %+v", err, dry)
	}
	got, _, err := runGC(t, dictCollectOptions{url: url, wait: time.Millisecond})
	if err != nil || len(got) != 3 || got[numberOf(current)].Outcome != "archived" || got[numberOf(unannounced)].Outcome != "archived" || got[numberOf(used)].Outcome != "in use" || len(recordsIn(t, server.Addr)) != 3 {
		t.Errorf("while a value names one: %v: %+v", err, got)
	}
	client.Del(t.Context(), "k")
	got, _, err = runGC(t, dictCollectOptions{url: url, wait: time.Millisecond})
	if err != nil || len(got) != 1 || got[numberOf(used)].Outcome != "archived" {
		t.Errorf("%v: %+v", err, got)
	}
	if all := recordsIn(t, server.Addr); len(all) != 3 {
		t.Errorf("a rule in use names one of its dictionaries still: %v", all)
	}
	if _, _, err = runGC(t, dictCollectOptions{url: url, numbers: []string{numberOf(shared)}, wait: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	got, _, err = runGC(t, dictCollectOptions{url: url})
	if err != nil || len(got) != 1 || got["gone"].Outcome != "removed" {
		t.Errorf("%v: %+v", err, got)
	}
	if all := recordsIn(t, server.Addr); len(all) != 2 || all["00000000000000aa"] != "" {
		t.Errorf("%v", all)
	}
}
