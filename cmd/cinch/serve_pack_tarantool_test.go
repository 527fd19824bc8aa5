package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/store/open"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/test/testenv"
)

// packedTuples is a `cinch serve` with two gateways to one Tarantool server. Both gateways should pack.
type packedTuples struct {
	*served
	file, url string
}

func (p *packedTuples) configure(t *testing.T, pack, rules string) {
	t.Helper()
	text := "admin: {listen: off}\ngateways:\n"
	for _, name := range []string{"one", "two"} {
		text += fmt.Sprintf("  - {name: %s, protocol: tarantool, listen: %q, upstream: %q, pack: %s, %s}\n",
			name, "127.0.0.1:"+fmt.Sprint(testenv.FreePort(t)), p.url, pack, rules)
	}
	if err := os.WriteFile(p.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// opens returns the number of values that 'cinch verify' can open, by setting.
func opens(t *testing.T, url string) map[string]string {
	t.Helper()
	code, out, errs := runCLI("verify", url)
	if code != exitOK {
		t.Fatalf("verify: %d\n%s%s", code, out, errs)
	}
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`opens: (\S+) +(\d+)`).FindAllStringSubmatch(out, -1) {
		found[m[1]] = m[2]
	}
	return found
}

func TestServePacksTarantool(t *testing.T) {
	server := testenv.Tarantool(t, `for _, name in ipairs{'docs', 'late', 'enterprise'} do
			local s = box.schema.space.create(name, {if_not_exists = true, format = {{'id', 'unsigned'},
				{name = 'body', type = 'string', compression = name == 'enterprise' and 'lz4' or nil}, {'tag', 'string'}}})
			s:create_index('pk', {if_not_exists = true})
			s:create_index('tag', {parts = {{'tag', 'string'}}, unique = false, if_not_exists = true})
			for i = 1, 600 do s:replace{i, ('text that repeats ' .. i .. ' '):rep(20), ('tag '):rep(30)} end
		end`)
	p := &packedTuples{url: "tarantool://" + server.Addr, file: filepath.Join(t.TempDir(), "cinch.yaml")}
	const pack = "{background: true, every: 1h, keys_per_second: 0}"
	p.configure(t, pack, "rules: [{space: docs, setting: zstd-3}]")
	p.served = startServe(t, serveOptions{configFile: p.file})
	p.logged("cinch's functions are not installed") // and it continues
	p.stop(syscall.SIGTERM)
	if code, out, errs := runCLI("tarantool", "init", p.url); code != exitOK {
		t.Fatal(out, errs)
	}
	p.served = startServe(t, serveOptions{configFile: p.file})
	p.logged("packed stored values")
	got := opens(t, p.url)
	if got["zstd"] != "600" || got["lz4"] != "600" || len(got) != 2 {
		t.Errorf("opens %v: want the bodies of docs by the rule and of enterprise by its format, and no tag", got)
	}

	// With changed rules the next pass begins without waiting for an hour.
	p.configure(t, pack, "rules: [{space: late, field: body, setting: zlib-6}]")
	p.signals <- syscall.SIGHUP
	testenv.Eventually(t, "the new rules are carried out", func() bool { return opens(t, p.url)["zlib"] == "600" })
	testenv.Eventually(t, "the pass ends", func() bool { return p.log.count("msg=\"packed stored values\"") == 2 })
	if n := p.log.count("msg=\"packing stored values\""); n != 2 {
		t.Errorf("%d passes were begun by two gateways for two tasks\n%s", n, p.log.String())
	}
	p.configure(t, pack, "enabled: false, rules: [{space: '*', setting: zstd-3}]")
	p.signals <- syscall.SIGHUP
	p.stop(syscall.SIGTERM)
	if code, out, errs := runCLI("unpack", p.url); code != exitOK || !strings.Contains(out, "1800") {
		t.Errorf("unpack: %d\n%s%s", code, out, errs)
	}
	if got := opens(t, p.url); len(got) != 0 {
		t.Errorf("unpacked, and it decompresses %v", got)
	}
}

// TestServePacksTarantoolWithDictionary checks that values are not packed before the dictionary of their rule
// exists: they would stay without it.
func TestServePacksTarantoolWithDictionary(t *testing.T) {
	server := testenv.Tarantool(t, `local s = box.schema.space.create('docs', {if_not_exists = true, format = {{'id', 'unsigned'}, {'body', 'string'}}})
		s:create_index('pk', {if_not_exists = true})
		for i = 1, 300 do s:replace{i, ('{"order":"orders","state":"open","number":%d} '):format(i):rep(10)} end`)
	p := &packedTuples{url: "tarantool://" + server.Addr, file: filepath.Join(t.TempDir(), "cinch.yaml")}
	if code, out, errs := runCLI("tarantool", "init", p.url); code != exitOK {
		t.Fatal(out, errs)
	}
	d := newTestDict(t, "orders")
	p.configure(t, "{background: true, every: 1h, keys_per_second: 0}", fmt.Sprintf("rules: [{space: docs, setting: zstd-3@%08x}]", d.Number()))
	p.served = startServe(t, serveOptions{configFile: p.file})
	p.logged("can't use a rule's dictionary")
	if got := opens(t, p.url); len(got) != 0 {
		t.Errorf("without its dictionary it packs %v", got)
	}
	publishToTarantool(t, p.url, d)
	p.logged("packed stored values")
	if got := opens(t, p.url); got[fmt.Sprintf("zstd@%08x", d.Number())] != "300" || len(got) != 1 {
		t.Errorf("opens %v\n%s", got, p.log.String())
	}
	p.stop(syscall.SIGTERM)
}

func publishToTarantool(t *testing.T, url string, dicts ...*codec.Dict) {
	t.Helper()
	conn, _, err := open.ConnectTarantool(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := storetarantool.NewDicts(conn, nil).Publish(t.Context(), dicts...); err != nil {
		t.Fatal(err)
	}
}
