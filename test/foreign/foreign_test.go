// Package foreign has values that other libraries compressed read through a gateway, by these and plain, and re-sealed while
// they are written.
package foreign

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/test/testenv"
)

// library is one that compresses what it stores.
type library struct {
	name, format string // the rule's
	exact        bool   // our encoder makes its very bytes
	php          bool
}

var libraries = []library{
	{name: "glide-zstd", format: "glide", exact: true},
	{name: "glide-lz4", format: "glide"},
	{name: "django-zlib", format: "django"},
	{name: "django-gzip", format: "gzip"},
	{name: "django-zstd", format: "django", exact: true},
	{name: "django-lz4", format: "lz4"},
	{name: "phpredis-lzf", format: "phpredis", php: true},
	{name: "phpredis-zstd", format: "phpredis", exact: true, php: true},
	{name: "phpredis-lz4", format: "phpredis", php: true},
}

// run has the library do something with the values of a file, at an address.
func (l library) run(t *testing.T, addr string, what, file string) {
	t.Helper()
	if out, err := l.command(t, addr, what, file).CombinedOutput(); err != nil {
		t.Fatalf("%s, %s: %v\n%s", l.name, what, err, out)
	}
}

func (l library) command(t *testing.T, addr string, what, file string) *exec.Cmd {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"libraries.py", l.name, port, what, file}
	if l.php {
		args[0] = "phpredis.php"
		return exec.CommandContext(t.Context(), testenv.Program(t, "php"), args...)
	}
	return exec.CommandContext(t.Context(), testenv.Python(t, "requirements.txt"), args...)
}

const values = 400

// documents are values as services store them, of which most is the same in each, and a file that has them for the libraries.
func documents(t *testing.T) (file string, all map[string]string) {
	t.Helper()
	all = map[string]string{}
	for i := range values {
		all[fmt.Sprint("doc:", i)] = fmt.Sprintf(`{"schema":"https://example.com/schemas/device-state/v4","retention":{"policy":"rolling","days":90,"downsample":"5m"},`+
			`"owner":{"team":"plant-operations","contact":"plant-operations@acme.example","escalation":["shift-lead","site-manager","on-call"]},`+
			`"limits":{"low":-20,"high":85,"hysteresis":2,"unit":"celsius","action":"notify","channels":["pager","mail","dashboard"]},`+
			`"calibration":{"method":"two-point","reference":"ice-bath and boiling-water","interval_days":365,"certificate":"ISO/IEC 17025"},`+
			`"latest":%s}`, testenv.Reading(i))
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "values.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, all
}

// dump is what a server has stored.
func dump(t *testing.T, addr string) map[string]string {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr})
	defer c.Close()
	all := map[string]string{}
	for i := range values {
		key := fmt.Sprint("doc:", i)
		value, err := c.Get(t.Context(), key).Result()
		if err != nil {
			t.Fatal(key, err)
		}
		all[key] = value
	}
	return all
}

func size(stored map[string]string) (n int) {
	for _, v := range stored {
		n += len(v)
	}
	return n
}

func sealed(stored map[string]string) (n int) {
	for _, v := range stored {
		if cinch.IsSealed([]byte(v)) {
			n++
		}
	}
	return n
}

// What a library has stored it reads through a gateway, before and after cinch pack, which makes it smaller; unpack gives
// back the very bytes, or, where our encoder differs, values that the library opens.
func TestLibraries(t *testing.T) {
	file, _ := documents(t)
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			server := testenv.Redis(t)
			l.run(t, server.Addr, "write", file)
			before := dump(t, server.Addr)
			gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: rules(l.format, "")})
			l.run(t, gateway.Addr, "check", file)

			out := testenv.Command(t, testenv.Cinch(t), packed(server, l)...)
			if n := sealed(dump(t, server.Addr)); l.exact && n < values/2 {
				t.Errorf("%d of %d values are sealed:\n%s", n, values, out)
			}
			testenv.Command(t, testenv.Cinch(t), "unpack", server.URL())
			if !maps.Equal(dump(t, server.Addr), before) {
				t.Fatal("other bytes come back, though none were to be recoded")
			}
			out = testenv.Command(t, testenv.Cinch(t), append(packed(server, l), "--allow-recode")...)
			after := dump(t, server.Addr)
			t.Logf("%d bytes -> %d", size(before), size(after))
			if n := sealed(after); n < values*9/10 || 2*size(after) > size(before) {
				t.Errorf("%d of %d values are sealed, %d bytes of %d are left:\n%s", n, values, size(after), size(before), out)
			}
			l.run(t, gateway.Addr, "check", file)

			testenv.Command(t, testenv.Cinch(t), "unpack", server.URL())
			if n := sealed(dump(t, server.Addr)); n > 0 {
				t.Errorf("%d values are sealed still", n)
			}
			l.run(t, server.Addr, "check", file)
		})
	}
}

// Written through a gateway, values are as small, and each library reads what it wrote.
func TestThroughGateway(t *testing.T) {
	file, all := documents(t)
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			server := testenv.Redis(t)
			l.run(t, server.Addr, "write", file)
			testenv.Command(t, testenv.Cinch(t), packed(server, l)...) // trains a dictionary, of which gateways hear
			gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: rules(l.format, "")})
			plain := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: rules(l.format, "to: plain, ")})
			testenv.Eventually(t, "values are sealed as they are written", func() bool {
				l.run(t, server.Addr, "write", file)
				l.run(t, gateway.Addr, "write", file)
				return sealed(dump(t, server.Addr)) > values*9/10
			})
			l.run(t, gateway.Addr, "check", file)
			for key, value := range dump(t, plain.Addr) {
				if !l.php && value != all[key] && value != encoded(t, all[key]) { // PHP's serializer has the text in it
					t.Fatalf("%s is %.80q to plain clients, want %.80q", key, value, all[key])
				}
				if !strings.Contains(value, "thermo-") {
					t.Fatalf("%s is %.80q to plain clients", key, value)
				}
			}
		})
	}
}

// encoded is a string as django-redis' serializer has it.
func encoded(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// While values are re-sealed again and again their writers go on: no update is lost.
func TestLiveWriters(t *testing.T) {
	file, _ := documents(t)
	for _, l := range []library{libraries[0], libraries[2], libraries[8]} {
		t.Run(l.name, func(t *testing.T) {
			server := testenv.Redis(t)
			gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: rules(l.format, "")})
			l.run(t, server.Addr, "write", file)
			writers := []*exec.Cmd{l.command(t, server.Addr, "update", file), l.command(t, gateway.Addr, "update", file)}
			for _, w := range writers {
				if err := w.Start(); err != nil {
					t.Fatal(err)
				}
			}
			done := make(chan error, len(writers))
			for _, w := range writers {
				go func() { done <- w.Wait() }()
			}
			times := 0
			for left := len(writers); left > 0; times++ {
				testenv.Command(t, testenv.Cinch(t), append(packed(server, l), "--allow-recode")...)
				select {
				case err := <-done:
					if err != nil {
						t.Fatal(err)
					}
					left--
				default:
				}
			}
			l.run(t, gateway.Addr, "updated", file)
			if n := sealed(dump(t, server.Addr)); n == 0 {
				t.Error("nothing is sealed")
			}
			t.Logf("packed %d times", times)
		})
	}
}

// rules are a gateway's, packed how cinch pack is called with the same.
func rules(format, more string) string {
	return fmt.Sprintf(`- {key: "doc:*", setting: zstd-3, dictionary: auto, %sformat: %s}`, more, format)
}

func packed(server *testenv.RedisServer, l library) []string {
	return []string{"pack", server.URL(), "--rule", "key=doc:*,setting=zstd-3,dictionary=auto,format=" + l.format}
}
