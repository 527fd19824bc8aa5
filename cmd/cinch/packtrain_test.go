package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

// packed runs cinch pack, which must succeed.
func packed(t *testing.T, args ...string) (out string) {
	t.Helper()
	code, out := runCommand(t, append([]string{"pack"}, args...)...)
	if code != exitOK {
		t.Fatalf("pack %q: %d\n%s", args, code, out)
	}
	return out
}

// fillForTraining stores n documents and n numbers, and returns the documents' bytes.
func fillForTraining(t *testing.T, client *goredis.Client, n int) (raw int) {
	t.Helper()
	d := documents{random: rand.New(rand.NewPCG(1, 1))}
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
	return raw
}

func writeTrainingConfig(t *testing.T, file, upstream string) {
	t.Helper()
	text := fmt.Sprintf("gateways:\n  - name: g\n    protocol: redis\n    listen: \"127.0.0.1:0\"\n    upstream: \"redis://%s\"\n    rules:\n"+
		"      - {name: docs, key: \"doc:*\", setting: zstd-3, dictionary: auto}\n      - {name: counters, key: \"n:*\", setting: zstd-3, dictionary: auto}\n", upstream)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serverForTraining returns a server with n documents to train on, and their size in bytes.
func serverForTraining(t *testing.T, n int) (server *testenv.RedisServer, client *goredis.Client, raw int) {
	t.Helper()
	if testenv.RaceDetector {
		t.Skip("too slow; internal/dictionary has tests of what goroutines share")
	}
	server = testenv.Redis(t)
	client = goredis.NewClient(&goredis.Options{Addr: server.Addr, DisableIdentity: true, ReadTimeout: patience})
	t.Cleanup(func() { _ = client.Close() })
	return server, client, fillForTraining(t, client, n)
}

// storedAndNamed returns the stored bytes of n documents, and how many of them name which dictionary.
func storedAndNamed(t *testing.T, client *goredis.Client, n int) (stored int, named map[uint32]int) {
	t.Helper()
	named = map[uint32]int{}
	for i := range n {
		b, err := client.Get(t.Context(), fmt.Sprintf("doc:%d", i)).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		stored += len(b)
		if h, err := envelope.ParseHeader(b); err == nil {
			named[h.Dict]++
		}
	}
	return stored, named
}

// The user as whom Cinch itself logs in does not count as a writer. So the values of an application with one user
// are packed with that user's dictionary.
func TestPackDoesNotCountItsOwnUser(t *testing.T) {
	const n = 1000
	server, client, raw := serverForTraining(t, n)
	acl := func(args ...any) {
		t.Helper()
		if err := client.Do(t.Context(), append([]any{"ACL", "SETUSER"}, args...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	acl("app", "on", ">pw", "~doc:*", "+@all")
	acl("cinch", "on", ">pw", "~*", "+@all")
	file := filepath.Join(t.TempDir(), "cinch.yaml")
	writeTrainingConfig(t, file, "cinch:pw@"+server.Addr)
	if both := packed(t, "--config", file, "--dry-run"); !strings.Contains(both, "rule docs: values are compressed without a dictionary") {
		t.Errorf("the values of the default user, which is on, and of another are mixed:\n%s", both)
	}
	acl("default", "off")
	out := packed(t, "--config", file)
	stored, named := storedAndNamed(t, client, n)
	if len(named) != 1 || named[0] > 0 || float64(stored) > 0.6*float64(raw) {
		t.Fatalf("%d bytes of %d, dictionaries %v\n%s", stored, raw, named, out)
	}
	if again := packed(t, "--config", file); strings.Contains(again, "rule docs: dictionary ") {
		t.Errorf("trained again:\n%s", again)
	}
	acl("tenant", "on", ">pw", "~doc:*", "+@all")
	fillForTraining(t, client, 500)
	if several := packed(t, "--config", file, "--dry-run"); !strings.Contains(several, "rule docs: values are compressed without a dictionary") {
		t.Errorf("the values of two users are mixed:\n%s", several)
	}
}

// Each user whose keys no other may write has a dictionary of its own, from its own values. Values under keys that two
// users may write have none.
func TestPackTrainsForEachUser(t *testing.T) {
	server, client, _ := serverForTraining(t, 0)
	for _, rights := range [][]any{
		{"anna", "on", ">pw", "~a:*", "~both:*", "+@all"},
		{"ben", "on", ">pw", "~b:*", "~both:*", "+@all"},
		{"reader", "on", ">pw", "~*", "-@all", "+@read"},
		{"cinch", "on", ">pw", "~*", "&*", "+@all"},
	} {
		if err := client.Do(t.Context(), append([]any{"ACL", "SETUSER"}, rights...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	d := documents{random: rand.New(rand.NewPCG(1, 1))}
	const n = 600
	for prefix, mark := range map[string]string{"a": "written by anna, who sells apples", "b": "written by ben, who sells bicycles", "both": "written by either"} {
		for i := range n {
			v := fmt.Sprintf(`{"note":%q,"document":%s}`, mark, d.next())
			if err := client.Set(t.Context(), fmt.Sprintf("%s:%d", prefix, i), v, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := client.Do(t.Context(), "ACL", "SETUSER", "default", "off").Err(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cinch.yaml")
	text := fmt.Sprintf("gateways:\n  - name: g\n    protocol: redis\n    listen: \"127.0.0.1:0\"\n    upstream: \"redis://cinch:pw@%s\"\n    rules:\n"+
		"      - {name: docs, key: \"*\", setting: zstd-3, dictionary: auto}\n", server.Addr)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := packed(t, "--config", file)
	for _, want := range []string{"rule docs, values of user anna: dictionary ", "rule docs, values of user ben: dictionary ", "rule docs: values are compressed without a dictionary where several users may write"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	named := map[string]uint32{}
	for _, prefix := range []string{"a", "b", "both"} {
		for i := range n {
			b, err := client.Get(t.Context(), fmt.Sprintf("%s:%d", prefix, i)).Bytes()
			if err != nil {
				t.Fatal(err)
			}
			var dictionary uint32 // 0 also where compression does not pay
			if h, err := envelope.ParseHeader(b); err == nil {
				dictionary = h.Dict
			}
			if i > 0 && dictionary != named[prefix] {
				t.Fatalf("%s:%d: dictionary %08x, others have %08x", prefix, i, dictionary, named[prefix])
			}
			named[prefix] = dictionary
		}
	}
	if named["a"] == 0 || named["b"] == 0 || named["a"] == named["b"] || named["both"] != 0 {
		t.Fatalf("dictionaries: %v", named)
	}
	for prefix, foreign := range map[string]string{"a": "bicycles", "b": "apples"} {
		d, err := storeredis.NewDicts(storeredis.DictsOptions{Client: client}).Dictionary(named[prefix])
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(d.Content()), foreign) {
			t.Errorf("the dictionary for %s holds %q", prefix, foreign)
		}
	}
	if again := packed(t, "--config", file); strings.Contains(again, "was trained") {
		t.Errorf("trained again:\n%s", again)
	}
}

// Rules with dictionary: auto have a dictionary from the first pack on, even if no gateway has trained any. A
// dry run reports the gain and writes nothing. Packed values name a dictionary that gateways accept as
// theirs.
func TestPackTrainsFirst(t *testing.T) {
	const n = 1000
	server, client, raw := serverForTraining(t, n)
	file := filepath.Join(t.TempDir(), "cinch.yaml")
	writeTrainingConfig(t, file, server.Addr)
	dry := packed(t, "--config", file, "--dry-run")
	if !strings.Contains(dry, "rule docs: dictionary ") || !strings.Contains(dry, "rule counters: no dictionary") ||
		!strings.Contains(dry, "was trained on stored values (cpu=") || !strings.Contains(dry, "CPU of training dictionaries") {
		t.Errorf("%s", dry)
	}
	if left := client.FunctionList(t.Context(), goredis.FunctionListQuery{}).Val(); len(left) > 0 {
		t.Errorf("a dry run has left %v", left)
	}
	if err := client.Do(t.Context(), "ACL", "SETUSER", "tenant", "on", "nopass", "~doc:*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	if several := packed(t, "--config", file, "--dry-run"); !strings.Contains(several, "rule docs: values are compressed without a dictionary") {
		t.Errorf("the values of two users are mixed:\n%s", several)
	}
	if err := client.Do(t.Context(), "ACL", "DELUSER", "tenant").Err(); err != nil {
		t.Fatal(err)
	}
	out := packed(t, "--config", file)
	stored, named := storedAndNamed(t, client, n)
	if len(named) != 1 || named[0] > 0 || float64(stored) > 0.6*float64(raw) {
		t.Fatalf("%d bytes of %d, dictionaries %v\n%s", stored, raw, named, out)
	}
	for number := range named {
		if !strings.Contains(out, fmt.Sprintf("dictionary %08x", number)) {
			t.Errorf("%08x is not in\n%s", number, out)
		}
		code, listed := runCommand(t, "dict", "ls", "redis://"+server.Addr)
		if code != exitOK || !strings.Contains(listed, fmt.Sprintf("%08x", number)) || !strings.Contains(listed, "docs") {
			t.Errorf("%d\n%s", code, listed)
		}
	}
	if again := packed(t, "--config", file); strings.Contains(again, "rule docs: dictionary ") || strings.Contains(again, "was trained on") {
		t.Errorf("trained again:\n%s", again)
	}
}

// Three processes that begin together on a store without a dictionary use the same one, whichever trained it.
func TestPackWorkersShareADictionary(t *testing.T) {
	const n = 1000
	server, client, raw := serverForTraining(t, n)
	file := filepath.Join(t.TempDir(), "cinch.yaml")
	writeTrainingConfig(t, file, server.Addr)
	var workers sync.WaitGroup
	for i := range 3 {
		workers.Go(func() {
			code, out := runCommand(t, "pack", "--config", file, "--worker", fmt.Sprintf("%d/3", i+1))
			if code != exitOK || strings.Contains(out, "rule docs: no dictionary") || strings.Contains(out, "rule docs: values are compressed without") {
				t.Errorf("worker %d: %d\n%s", i+1, code, out)
			}
		})
	}
	workers.Wait()
	if stored, named := storedAndNamed(t, client, n); len(named) != 1 || named[0] > 0 || float64(stored) > 0.6*float64(raw) {
		t.Errorf("%d bytes of %d, dictionaries %v", stored, raw, named)
	}
}

// A worker trains a rule's dictionary, which is that of all workers, on keys of all workers, not on its few own.
func TestPackWorkerTrainsOnAllKeys(t *testing.T) {
	const n, workers = 1000, 100
	server, client, _ := serverForTraining(t, n)
	file := filepath.Join(t.TempDir(), "cinch.yaml")
	writeTrainingConfig(t, file, server.Addr)
	out := packed(t, "--config", file, "--worker", fmt.Sprint("1/", workers))
	if !strings.Contains(out, "rule docs: dictionary ") {
		t.Errorf("no dictionary:\n%s", out)
	}
	if _, named := storedAndNamed(t, client, n); len(named) != 1 || slices.Max(slices.Collect(maps.Values(named))) > 3*n/workers {
		t.Errorf("values by dictionary: %v\n%s", named, out)
	}
}
