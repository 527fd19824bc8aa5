package pack

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/policy"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "--enable-debug-command", "yes")
	c := connect(t, server.Addr)
	fill(t, c, 1000, 100, 900)
	digest := c.Do(t.Context(), "debug", "digest").Val()
	expect(t, 0, []string{"pack", server.URL(), "--dry-run"}, "would save about", "estimated from 1100 keys", "give or take 0 B")
	expect(t, 0, []string{"pack", server.URL(), "--dry-run", "--sample", "300", plainRule}, "packing all 1100 keys would save about")
	e := expect(t, 0, []string{"pack", server.URL(), "--dry-run", "--sample", "300", "--json", plainRule})
	var end struct {
		Report struct {
			Saved  int64 `json:"estimated_saved_bytes"`
			Margin int64 `json:"estimated_margin_bytes"`
			Before int64 `json:"allocated_bytes_before"`
		}
	}
	must(t, json.Unmarshal([]byte(e.out[strings.LastIndex(strings.TrimSpace(e.out), "\n")+1:]), &end))
	// 300 of 1100 values were sampled.
	if r := end.Report; r.Saved <= r.Before || r.Margin <= 0 || r.Margin > r.Saved {
		t.Errorf("estimate: %+v", r)
	}
	expect(t, 0, []string{"verify", server.URL()}, "values read 1300")
	if after := c.Do(t.Context(), "debug", "digest").Val(); after != digest {
		t.Errorf("the data is another: %v, %v", digest, after)
	}
	if n := c.FunctionList(t.Context(), functionsOfAll).Val(); len(n) != 0 {
		t.Error("something was stored")
	}
}

func TestPackUnpackRoundTrip(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "--enable-debug-command", "yes")
	c := connect(t, server.Addr)
	fill(t, c, 500, 100, 900)
	must(t, c.XAdd(t.Context(), streamEntry("plain")).Err())
	must(t, c.LPush(t.Context(), "list", "x").Err())
	digest := c.Do(t.Context(), "debug", "digest").Val()
	used := func() int64 { return c.MemoryUsage(t.Context(), "string:1").Val() }
	before := used()
	expect(t, 0, []string{"pack", server.URL()}, "left: stream", "left: other type", "left: number or HyperLogLog")
	if used() >= before {
		t.Error("nothing was saved")
	}
	if e := expect(t, 0, []string{"pack", server.URL()}, "left: already sealed"); !e.prints("values packed 0") {
		t.Errorf("a second time packs again:\n%s", e.out)
	}
	expect(t, 0, []string{"unpack", server.URL()})
	if after := c.Do(t.Context(), "debug", "digest").Val(); after != digest {
		t.Errorf("the data is another: %v, %v", digest, after)
	}
}

// TestWhatCannotGoBack stores every kind of value that unpack must leave alone.
func TestWhatCannotGoBack(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	c, s := connect(t, server.Addr), newSealer(nil)
	text := []byte(document(1, 1000))
	lost := testDict(t)
	var dicts dict.Set
	must(t, dicts.Add(lost))
	envelope := s.Seal(nil, text, codec.Setting{Codec: codec.Zstd}, nil)
	named := newSealer(known{&dicts}).Seal(nil, text, codec.Setting{Codec: codec.Zstd, Dict: lost.Number()}, nil)
	ctx := t.Context()
	must(t, c.Set(ctx, "good", envelope, 0).Err())
	must(t, c.Set(ctx, "missing", named, 0).Err())
	expect(t, 12, []string{"verify", server.URL()}, `key "missing"`, "dictionary")
	must(t, c.Set(ctx, "damaged", envelope[:30], 0).Err())
	must(t, c.Set(ctx, "nested", s.Escape(nil, envelope), 0).Err())
	must(t, c.HSet(ctx, "hash", "bad", envelope[:30], "good", envelope).Err())
	must(t, c.XAdd(ctx, streamEntry(string(envelope))).Err())
	expect(t, 4, []string{"verify", server.URL()}, `key "damaged": `, `key "hash" field "bad": `, "3 values do not decompress")
	expect(t, 4, []string{"verify", server.URL(), "--before"}, "7 values begin with the magic", `key "stream" entry `)

	e := expect(t, 3, []string{"unpack", server.URL()}, "5 values were not decompressed in place", `key "damaged": `, `key "missing"`, `key "nested": `,
		`key "hash" field "bad": `, `key "stream" entry `)
	if strings.Contains(e.out, `"good"`) {
		t.Errorf("good values are listed:\n%s", e.out)
	}
	for _, got := range []string{c.Get(ctx, "good").Val(), c.HGet(ctx, "hash", "good").Val()} {
		if got != string(text) {
			t.Errorf("not decompressed in place: %.50q", got)
		}
	}
	for key, want := range map[string][]byte{"damaged": envelope[:30], "missing": named, "nested": s.Escape(nil, envelope)} {
		if got := c.Get(ctx, key).Val(); got != string(want) {
			t.Errorf("%s was changed: %.50q", key, got)
		}
	}
	file := filepath.Join(t.TempDir(), "lost.dict")
	must(t, dict.Save(file, lost))
	expect(t, 3, []string{"unpack", server.URL(), "--dict", file}, "4 values were not decompressed in place")
	if got := c.Get(ctx, "missing").Val(); got != string(text) {
		t.Errorf("with its dictionary: %.50q", got)
	}
}

func TestRecompress(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 300, 50, 900)
	before := contents(t, c, newSealer(nil))
	file := filepath.Join(t.TempDir(), "d.dict")
	d := testDict(t)
	must(t, dict.Save(file, d))
	var dicts dict.Set
	must(t, dicts.Add(d))
	with := fmt.Sprintf("zstd-3@%08x", d.Number())
	expect(t, 12, []string{"pack", server.URL(), "--to", with}, "hint: ")
	expect(t, 0, []string{"pack", server.URL(), "--rule", "setting=lz4"})
	expect(t, 0, []string{"pack", server.URL(), "--to", with, "--dict", file})
	// Dictionaries are read from the store itself.
	expect(t, 0, []string{"verify", server.URL()}, fmt.Sprintf("opens: zstd@%08x", d.Number()))
	if e := expect(t, 0, []string{"pack", server.URL(), "--to", "lz4"}); !e.prints("values packed 0") {
		t.Errorf("it went back to what is larger:\n%s", e.out)
	}
	sameContents(t, "with a dictionary", contents(t, c, newSealer(known{&dicts})), before)
	expect(t, 0, []string{"pack", server.URL(), "--to", "lz4", "--even-larger"})
	sameContents(t, "without it again", contents(t, c, newSealer(nil)), before)
}

// TestDictionaries packs with a dictionary from a file, and with one that gateways made.
func TestDictionaries(t *testing.T) {
	t.Parallel()
	d, dir := testDict(t), t.TempDir()
	must(t, dict.Save(filepath.Join(dir, "d.dict"), d))
	for name, rest := range map[string]string{"mine": "dictionaries: [{name: mine, file: d.dict}]\n", "auto": ""} {
		t.Run(name, func(t *testing.T) {
			server := testenv.Redis(t)
			c := connect(t, server.Addr)
			fill(t, c, 200, 0, 300)
			before := contents(t, c, newSealer(nil))
			config := filepath.Join(dir, name+".yaml")
			must(t, os.WriteFile(config, fmt.Appendf(nil, "%sgateways:\n  - {name: g, protocol: redis, listen: 127.0.0.1:0, upstream: %q,\n"+
				"     rules: [{key: 'string:*', setting: zstd-3, dictionary: %s}]}\n", rest, server.URL(), name), 0o600))
			if name == "auto" {
				announce(t, c, d, policy.Rule{Key: "string:*", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, Auto: true}, "")
			}
			expect(t, 0, []string{"pack", "--config", config, "--dry-run"}, "give or take 0 B")
			expect(t, 0, []string{"pack", "--config", config})
			expect(t, 0, []string{"verify", server.URL()}, fmt.Sprintf("opens: zstd@%08x 200", d.Number()))
			var dicts dict.Set
			must(t, dicts.Add(d))
			sameContents(t, "with a dictionary", contents(t, c, newSealer(known{&dicts})), before)
			expect(t, 0, []string{"unpack", server.URL()})
			sameContents(t, "unpacked", contents(t, c, newSealer(nil)), before)
		})
	}
}

// announce stores a dictionary in the server and records that a rule uses it, as a gateway does.
func announce(t *testing.T, c *goredis.Client, d *codec.Dict, rule policy.Rule, login string) {
	t.Helper()
	s := storeredis.NewDicts(storeredis.DictsOptions{Client: c})
	must(t, s.Publish(t.Context(), d))
	p, err := policy.New(policy.Options{Rules: []policy.Rule{rule}})
	must(t, err)
	text, err := json.Marshal(dictionary.Record{Rule: "r", Current: &dictionary.Version{Dict: dictionary.Number(d.Number())}})
	must(t, err)
	_, err = s.ReplaceRecord(t.Context(), dictionary.FingerprintFor(p.Rules()[0], login), 0, string(text))
	must(t, err)
}

func TestNoRoom(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "--maxmemory-policy", "allkeys-lru")
	c := connect(t, server.Addr)
	fill(t, c, 3000, 0, 4000)
	expect(t, 0, []string{"pack", server.URL(), plainRule})
	must(t, c.ConfigSet(t.Context(), "maxmemory", "8mb").Err())
	expect(t, 1, []string{"unpack", server.URL()}, "not enough memory left", "hint: raise maxmemory")
	if n := c.DBSize(t.Context()).Val(); n != 3000 {
		t.Errorf("%d keys are left", n)
	}
	must(t, c.ConfigSet(t.Context(), "maxmemory", "0").Err())
	expect(t, 0, []string{"unpack", server.URL()})
}

// TestBoundedMemory checks that neither many keys nor large values make the packer's memory grow.
func TestBoundedMemory(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	keys := codectest.Amount(5000, 5000, 100_000)
	fill(t, c, keys, 0, 150)
	large := document(7, 8<<20)
	for i := range 12 {
		must(t, c.Set(t.Context(), fmt.Sprint("large:", i), large, 0).Err())
	}
	e := expect(t, 0, []string{"pack", server.URL(), "--json", plainRule})
	const limit = 200 << 20
	if e.rss > limit {
		t.Errorf("it took %d MiB", e.rss>>20)
	}
	t.Logf("at most %d MiB", e.rss>>20)
	var last struct {
		Event  string
		Report struct{ Keys, Replaced int }
	}
	lines := strings.Split(strings.TrimSpace(e.out), "\n")
	must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	if last.Event != "end" || last.Report.Keys < keys+12 || last.Report.Replaced < keys {
		t.Errorf("%+v", last)
	}
	if n := c.StrLen(t.Context(), "large:3").Val(); n > 4<<20 {
		t.Errorf("a large value takes %d bytes", n)
	}
}

// A user who may not read the dictionary can't verify values. That must not count as an error of the
// values.
func TestDictionariesThatMayNotBeAskedFor(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 500, 0, 600)
	d := testDict(t)
	must(t, storeredis.NewDicts(storeredis.DictsOptions{Client: c}).Publish(t.Context(), d))
	setting := fmt.Sprintf("zstd-3@%08x", d.Number())
	expect(t, 0, []string{"pack", server.URL(), "--to", setting})
	must(t, c.Do(t.Context(), "acl", "setuser", "some", "on", ">pw", "~*", "+@all", "-function").Err())
	url := "redis://some:pw@" + server.Addr
	for _, args := range [][]string{{"verify", url}, {"unpack", url}, {"pack", url, "--to", "lz4"}} {
		e := expect(t, 1, args, "can't look up a dictionary in the store", "hint: ", "function|list")
		if n := strings.Count(e.out, "NOPERM"); n > 1 {
			t.Errorf("%v says so %d times", args, n)
		}
	}
	expect(t, 0, []string{"verify", server.URL()}, "opens: zstd@")
	expect(t, 0, []string{"unpack", server.URL()})
}
