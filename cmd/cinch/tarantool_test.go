package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// runCLI runs a command line and returns its exit code and both outputs.
func runCLI(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// TestTarantoolFromInitToUnpack follows the steps of docs/TARANTOOL.md.
func TestTarantoolFromInitToUnpack(t *testing.T) {
	server := testenv.Tarantool(t, `local s = box.schema.space.create('docs', {if_not_exists = true,
			format = {{'id', 'unsigned'}, {'body', 'string'}, {'tag', 'string'}}})
		s:create_index('pk', {if_not_exists = true})
		s:create_index('tag', {parts = {{'tag', 'string'}}, unique = false, if_not_exists = true})
		for i = 1, 500 do s:replace{i, ('text that repeats ' .. i .. ' '):rep(20), ('tag '):rep(30)} end
		box.cfg{memtx_max_tuple_size = 4 * 1024 * 1024} s:replace{501, ('x'):rep(2 * 1024 * 1024), ''} box.cfg{memtx_max_tuple_size = 1024 * 1024}`)
	url := "tarantool://" + server.Addr
	step := func(want int, contains string, args ...string) string {
		t.Helper()
		code, out, errs := runCLI(args...)
		if code != want || !strings.Contains(out+errs, contains) {
			t.Fatalf("cinch %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
		}
		return out
	}
	step(exitFailed, "cinch tarantool init", "pack", url)
	step(exitUsage, "begins with tarantool://", "tarantool", "init", "redis://"+server.Addr)
	step(exitFailed, "box.schema.user.create('nobody'", "tarantool", "init", url, "--user", "nobody")
	step(exitOK, "would have created function cinch_replace", "tarantool", "init", url, "--dry-run")
	step(exitOK, "created function cinch_replace", "tarantool", "init", url)
	step(exitOK, "nothing to do", "tarantool", "init", url)
	step(exitConfig, `index "tag" has the field`, "pack", url, "--rule", "space=docs,field=tag,setting=zstd-3")
	step(exitOK, "nothing was changed", "pack", url, "--rule", "space=docs,field=body,setting=zstd-3", "--dry-run")
	step(exitOK, "left: plain", "verify", url)
	state := filepath.Join(t.TempDir(), "state")
	step(exitOK, "values packed", "pack", url, "--rule", "space=docs,field=body,setting=zstd-3", "--state", state)
	if _, err := os.Stat(state); err != nil {
		t.Error(err)
	}
	step(exitOK, "opens: zstd", "verify", url)
	step(exitDifference, "docs", "verify", "--before", url)
	if got := step(exitOK, "", "inspect", url, "--space", "docs", "--field", "body", "7", "--raw"); got != strings.Repeat("text that repeats 7 ", 20) {
		t.Errorf("inspected %.50q", got)
	}
	step(exitSkipped, "max_tuple_size", "unpack", url) // 2 MB no longer fit
	step(exitOK, fmt.Sprintf("%d", 501), "verify", url)
}
