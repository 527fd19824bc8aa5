package library

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

const (
	drillRules = `- {name: readings, key: "reading:*", setting: zstd-3, dictionary: auto}`
	drillSoon  = "training: {min_samples: 300, interval: 50ms, poll: 50ms, cpu: 99%}"
)

// TestDisaster follows the page on disasters: a gateway that has compressed with a dictionary is dead, and
// so is its server. A backup is restored, and each language reads all values, with dictionaries from the
// backup, from a replica, and from an export. Then cinch unpack runs.
func TestDisaster(t *testing.T) {
	primary := testenv.Redis(t)
	replica := testenv.Redis(t, "--replicaof", "127.0.0.1", strconv.Itoa(primary.Port))
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: primary.Addr, Rules: drillRules, Process: drillSoon})
	values := writtenWithDictionary(t, gateway, client(t, primary.Addr))
	if n, err := client(t, primary.Addr).Wait(t.Context(), 1, time.Minute).Result(); n != 1 {
		t.Fatalf("the replica has not got everything: %v", err)
	}
	exported := export(t, primary)
	gateway.Kill()
	restored := restore(t, primary)
	primary.Kill()

	for _, from := range []*testenv.RedisServer{restored, replica} {
		readers(t, from, values)
	}
	t.Run("export", func(t *testing.T) {
		stored := dump(t, client(t, restored.Addr))
		each(t, func(t *testing.T, _ language, w *worker) {
			for key, value := range stored {
				a := w.ask(t, question{Op: "open", Value: value, Dictionaries: exported})
				same(t, key, a.Value, values[key])
			}
		})
	})
	testenv.Command(t, testenv.Cinch(t), "unpack", restored.URL())
	for key, value := range dump(t, client(t, restored.Addr)) {
		same(t, key, value, values[key])
	}
}

func client(t *testing.T, addr string) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// writtenWithDictionary writes through a gateway until it has trained a dictionary, and then some more
// values.
func writtenWithDictionary(t *testing.T, g *testenv.GatewayServer, plain *goredis.Client) map[string][]byte {
	t.Helper()
	through, values, more := client(t, g.Addr), map[string][]byte{}, 400
	write := func() {
		for range more {
			n := len(values)
			key, value := fmt.Sprint("reading:", n), testenv.Reading(n)
			values[key] = []byte(value)
			if err := through.Set(t.Context(), key, value, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	testenv.Eventually(t, "values are sealed with a dictionary", func() bool {
		write()
		more = 10 // there are enough values to train from
		stored, err := plain.Get(t.Context(), fmt.Sprint("reading:", len(values)-1)).Bytes()
		if err != nil || !envelope.IsSealed(stored) {
			return false
		}
		h, err := envelope.ParseHeader(stored)
		return err == nil && h.HasDict
	})
	write()
	return values
}

// export exports all dictionaries with cinch, and returns them.
func export(t *testing.T, s *testenv.RedisServer) (all [][]byte) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dicts")
	testenv.Command(t, testenv.Cinch(t), "dict", "export", s.URL(), "--all", dir)
	files, err := filepath.Glob(filepath.Join(dir, "*.dict"))
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing was exported: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	return all
}

// restore starts a server with a copy of another one's snapshot.
func restore(t *testing.T, s *testenv.RedisServer) *testenv.RedisServer {
	t.Helper()
	if err := client(t, s.Addr).Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dump.rdb"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return testenv.Redis(t, "--dir", dir)
}

// readers runs a program of each language whose library reads dictionaries from the server.
func readers(t *testing.T, s *testenv.RedisServer, values map[string][]byte) {
	for name, command := range map[string]func(t *testing.T) []string{
		"py":  func(t *testing.T) []string { return []string{pythonOf(t)} },
		"php": func(t *testing.T) []string { return []string{testenv.Program(t, "php")} },
		"rb":  func(t *testing.T) []string { return []string{testenv.Program(t, "ruby")} },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "rb" {
				testenv.Full(t)
			}
			args := append(command(t), filepath.Join("restored", "read."+name), strconv.Itoa(s.Port))
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Env, cmd.Stderr = append(os.Environ(), "PYTHONPATH="+filepath.Join(root(t), "clients", "python")), os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			checkPrinted(t, string(out), values)
		})
	}
}

func checkPrinted(t *testing.T, out string, values map[string][]byte) {
	t.Helper()
	if n := strings.Count(out, "\n"); n != len(values) {
		t.Errorf("%d of %d values", n, len(values))
	}
	for line := range strings.Lines(out) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		value, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		same(t, key, value, values[key])
	}
}

// dump returns the values that a server stores under this test's keys.
func dump(t *testing.T, c *goredis.Client) map[string][]byte {
	t.Helper()
	keys, err := c.Keys(t.Context(), "reading:*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	all := map[string][]byte{}
	for _, key := range keys {
		if all[key], err = c.Get(t.Context(), key).Bytes(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func same(t *testing.T, key string, got, want []byte) {
	t.Helper()
	if string(got) != string(want) {
		t.Fatalf("%s: %q, not %q", key, got, want)
	}
}
