package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/store/open"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/test/testenv"
)

// TestDictCommandsOfTarantool runs through the lifecycle of dictionaries with the commands.
func TestDictCommandsOfTarantool(t *testing.T) {
	server := testenv.Tarantool(t, `local s = box.schema.space.create('docs', {if_not_exists = true, format = {{'id', 'unsigned'}, {'body', 'string'}}})
		s:create_index('pk', {if_not_exists = true})
		for i = 1, 300 do s:replace{i, ('{"order":"used","state":"open","number":%d} '):format(i):rep(10)} end
		box.schema.user.create('app', {password = 'secret', if_not_exists = true})`)
	url := "tarantool://" + server.Addr
	step := func(want int, contains string, args ...string) string {
		t.Helper()
		code, out, errs := runCLI(args...)
		if code != want || !strings.Contains(out+errs, contains) {
			t.Fatalf("cinch %s: exit code %d, want %d and %q\n%s%s", strings.Join(args, " "), code, want, contains, out, errs)
		}
		return out
	}
	step(exitFailed, "cinch tarantool init", "dict", "ls", url)
	step(exitOK, "", "tarantool", "init", url, "--user", "app")
	if got := step(exitOK, "", "dict", "ls", url, "--json"); strings.TrimSpace(got) != "[]" {
		t.Errorf("of an empty store: %s", got)
	}
	used, idle, dir := newTestDict(t, "used"), newTestDict(t, "idle"), t.TempDir()
	app := "tarantool://app:secret@" + server.Addr
	for name, d := range map[string]*codec.Dict{"used.dict": used, "idle.dict": idle} {
		if err := dict.Save(filepath.Join(dir, name), d); err != nil {
			t.Fatal(err)
		}
		step(exitOK, "stored in tcp://"+server.Addr, "dict", "import", app, filepath.Join(dir, name))
	}
	step(exitOK, "values packed", "pack", url, "--rule", "space=docs,field=body,setting=zstd-3@"+numberOf(used))
	announceToTarantool(t, url, used, idle)

	all := dictsOf(t, step(exitOK, "", "dict", "ls", url, "--count", "--json"))
	if d := all[numberOf(used)]; d.Place != "space" || d.State != "live" || *d.Values != 300 || d.Managed == nil || !d.Managed.Current || len(d.SHA256) != 64 {
		t.Errorf("%+v", d)
	}
	if d := all[numberOf(idle)]; *d.Values != 0 || d.Managed == nil || d.Managed.Current {
		t.Errorf("%+v", d)
	}
	step(exitOK, "orders (former)", "dict", "ls", url)
	step(exitOK, "idle", "dict", "gc", url, "--dry-run")
	step(exitOK, "archived", "dict", "gc", url, "--wait", "1ms")
	step(exitOK, "in use", "dict", "gc", url, numberOf(used), "--wait", "1ms")
	if d := dictsOf(t, step(exitOK, "", "dict", "ls", url, "--json"))[numberOf(idle)]; d.State != "archived" {
		t.Errorf("collected: %+v", d)
	}
	step(exitOK, "bytes written", "dict", "export", app, numberOf(idle), filepath.Join(dir, "again.dict"))
	step(exitOK, "", "dict", "import", app, filepath.Join(dir, "again.dict"))
	if d := dictsOf(t, step(exitOK, "", "dict", "ls", url, "--json"))[numberOf(idle)]; d.State != "live" {
		t.Errorf("imported again: %+v", d)
	}
	step(exitFailed, "not an archived dictionary", "dict", "gc", url, numberOf(idle), "--forget", "--yes")
	step(exitOK, "archived", "dict", "gc", url, numberOf(idle), "--wait", "1ms")
	step(exitFailed, "nothing was erased", "dict", "gc", url, numberOf(idle), "--forget")
	step(exitFailed, "lacks a right", "dict", "gc", app, numberOf(idle), "--forget", "--yes")
	step(exitOK, "forgotten", "dict", "gc", url, numberOf(idle), "--forget", "--yes")
	step(exitDictMissing, numberOf(idle), "dict", "export", url, numberOf(idle), filepath.Join(dir, "gone.dict"))
	step(exitOK, "replicas", "dict", "sync", url)
	step(exitUnreachable, "", "dict", "ls", "tarantool://127.0.0.1:1")
}

func dictsOf(t *testing.T, text string) map[string]dictInfo {
	t.Helper()
	var list []dictInfo
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	all := map[string]dictInfo{}
	for _, d := range list {
		all[d.Number] = d
	}
	return all
}

// announceToTarantool writes the record that gateways would write: current has replaced former.
func announceToTarantool(t *testing.T, url string, current, former *codec.Dict) {
	t.Helper()
	conn, _, err := open.ConnectTarantool(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	text, err := json.Marshal(dictionary.Record{
		Seen: time.Now(), Rule: "orders", Current: &dictionary.Version{Dict: dictionary.Number(current.Number()), At: time.Now().Add(-time.Hour)},
		Former: []dictionary.Version{{Dict: dictionary.Number(former.Number()), At: time.Now().Add(-50 * time.Hour)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := storetarantool.NewDicts(conn, nil).ReplaceRecord(t.Context(), "0123456789abcdef", 0, string(text)); err != nil || v == 0 {
		t.Fatal(v, err)
	}
}
