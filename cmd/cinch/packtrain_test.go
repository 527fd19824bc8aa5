package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/test/testenv"
)

// packed runs the binary, which has to succeed.
func packed(t *testing.T, args ...string) (out string) {
	t.Helper()
	b, err := exec.Command(testenv.Cinch(t), append([]string{"pack"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("pack %q: %v\n%s", args, err, b)
	}
	return string(b)
}

// Rules with dictionary: auto have one from the first pack on, also where no gateway has trained any: a
// dry run says what it brings and writes nothing, and what is packed names one that gateways
// know as theirs.
func TestPackTrainsFirst(t *testing.T) {
	if underRace {
		t.Skip("what trains is a process of its own, without the detector")
	}
	server := testenv.Redis(t)
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr, DisableIdentity: true, ReadTimeout: patience})
	defer client.Close()
	d, raw := documents{random: rand.New(rand.NewPCG(1, 1))}, 0
	const n = 1000
	for at := 0; at < n; at += 500 {
		_, err := client.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
			for i := at; i < at+500; i++ {
				v := d.next()
				raw += len(v)
				p.Set(t.Context(), fmt.Sprintf("doc:%d", i), v, 0)
				p.Set(t.Context(), fmt.Sprintf("n:%d", i), i, 0)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "cinch.yaml")
	text := fmt.Sprintf("gateways:\n  - name: g\n    protocol: redis\n    listen: \"127.0.0.1:0\"\n    upstream: \"redis://%s\"\n    rules:\n"+
		"      - {name: docs, key: \"doc:*\", setting: zstd-3, dictionary: auto}\n      - {name: counters, key: \"n:*\", setting: zstd-3, dictionary: auto}\n", server.Addr)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	dry := packed(t, "--config", file, "--dry-run")
	if !strings.Contains(dry, "rule docs: dictionary ") || !strings.Contains(dry, "rule counters: no dictionary") {
		t.Errorf("%s", dry)
	}
	if left := client.FunctionList(t.Context(), goredis.FunctionListQuery{}).Val(); len(left) > 0 {
		t.Errorf("a dry run has left %v", left)
	}
	if err := client.Do(t.Context(), "ACL", "SETUSER", "tenant", "on", "nopass", "~doc:*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	if several := packed(t, "--config", file, "--dry-run"); !strings.Contains(several, "rule docs: values are sealed without a dictionary") {
		t.Errorf("the values of two users are mixed:\n%s", several)
	}
	if err := client.Do(t.Context(), "ACL", "DELUSER", "tenant").Err(); err != nil {
		t.Fatal(err)
	}
	out := packed(t, "--config", file)
	stored, named := 0, map[uint32]int{}
	for i := range n {
		b, err := client.Get(t.Context(), fmt.Sprintf("doc:%d", i)).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		stored += len(b)
		if h, err := cinch.ParseHeader(b); err == nil {
			named[h.Dict]++
		}
	}
	if len(named) != 1 || named[0] > 0 || float64(stored) > 0.6*float64(raw) {
		t.Fatalf("%d bytes of %d, dictionaries %v\n%s", stored, raw, named, out)
	}
	for number := range named {
		if !strings.Contains(out, fmt.Sprintf("dictionary %08x", number)) {
			t.Errorf("%08x is not in\n%s", number, out)
		}
		listed, err := exec.Command(testenv.Cinch(t), "dict", "ls", "redis://"+server.Addr).CombinedOutput()
		if err != nil || !strings.Contains(string(listed), fmt.Sprintf("%08x", number)) || !strings.Contains(string(listed), "docs") {
			t.Errorf("%v\n%s", err, listed)
		}
	}
	if again := packed(t, "--config", file); strings.Contains(again, "rule docs: dictionary ") {
		t.Errorf("trained again:\n%s", again)
	}
}
