// Package foreign tests values that other libraries compressed: they are read through a gateway by these
// libraries and as plain values, and re-compressed while they are written.
package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/envelope/clientformat"
	"github.com/cinch-layer/cinch/test/testenv"
)

// library is a library that compresses the values that it stores.
type library struct {
	name, format string // format: that of the rule
	exact        bool   // Cinch's encoder produces the same bytes
	program      string // "": libraries.py
}

var libraries = []library{
	{name: "glide-zstd", format: "glide", exact: true},
	{name: "django-zlib", format: "django"},
	{name: "phpredis-lz4", format: "phpredis", program: php},
	{name: "redisson-zstd", format: "redisson", program: java},
	{name: "glide-lz4", format: "glide"},
	{name: "django-gzip", format: "gzip"},
	{name: "django-zstd", format: "django", exact: true},
	{name: "django-lz4", format: "lz4"},
	{name: "phpredis-lzf", format: "phpredis", program: php},
	{name: "phpredis-zstd", format: "phpredis", exact: true, program: php},
	{name: "redisson-lz4", format: "redisson", program: java},
	{name: "redisson-snappy", format: "snappy", program: java},
}

const (
	php  = "phpredis.php"
	java = "RedissonValues"
)

// run runs the library's program on the values in a file, with the server at addr.
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
	switch l.program {
	case java:
		args = append([]string{"-cp", testenv.JavaClasses(t, "pom.xml", java+".java"), java}, args[1:]...)
		return exec.CommandContext(t.Context(), testenv.Program(t, "java"), args...)
	case php:
		args[0] = php
		return exec.CommandContext(t.Context(), testenv.Program(t, "php"), args...)
	}
	return exec.CommandContext(t.Context(), testenv.Python(t, "requirements.txt"), args...)
}

const values = 150

// documents returns typical values of services that are mostly the same in each, and a file with them for
// the libraries.
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

// dump returns the values that a server stores.
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
		if envelope.IsSealed([]byte(v)) {
			n++
		}
	}
	return n
}

// A library reads its values through a gateway, before and after cinch pack, which makes them smaller.
// Unpack restores the same bytes or, if Cinch's encoder differs, values that the library can read.
func TestLibraries(t *testing.T) {
	file, _ := documents(t)
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			if l.name != "glide-zstd" {
				testenv.Full(t)
			}
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

// Values written through a gateway are as small, and each library reads its own.
func TestThroughGateway(t *testing.T) {
	file, values := documents(t)
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			if l.name != "glide-zstd" {
				testenv.Full(t)
			}
			server := testenv.Redis(t)
			l.run(t, server.Addr, "write", file)
			// Trains a dictionary, which gateways then use.
			testenv.Command(t, testenv.Cinch(t), packed(server, l)...)
			gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: rules(l.format, "")})
			plain := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: rules(l.format, "to: plain, ")})
			testenv.Eventually(t, "values are sealed as they are written", func() bool {
				l.run(t, server.Addr, "write", file)
				l.run(t, gateway.Addr, "write", file)
				return sealed(dump(t, server.Addr)) > len(values)*9/10
			})
			l.run(t, gateway.Addr, "check", file)
			for key, value := range dump(t, plain.Addr) {
				// The serializers of other libraries embed the text.
				if l.program == "" && value != values[key] && value != encoded(t, values[key]) {
					t.Fatalf("%s is %.80q to plain clients, want %.80q", key, value, values[key])
				}
				if !strings.Contains(value, "thermo-") {
					t.Fatalf("%s is %.80q to plain clients", key, value)
				}
			}
		})
	}
}

// encoded returns a string as django-redis' serializer stores it.
func encoded(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// While values are re-compressed repeatedly their writers continue, and no update is lost. The dictionary
// is made by cinch pack: a gateway that trained one at the same time would make it wait.
func TestLiveWriters(t *testing.T) {
	file, _ := documents(t)
	for _, l := range libraries[:4] {
		t.Run(l.name, func(t *testing.T) {
			if l.name != "django-zlib" {
				testenv.Full(t)
			}
			server := testenv.Redis(t)
			gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: fmt.Sprintf(`- {key: "doc:*", setting: zstd-3, format: %s}`, l.format)})
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
				testenv.Command(t, testenv.Cinch(t), append(packed(server, l), "--allow-recode", "--keys-per-second", fmt.Sprint(values))...)
				select {
				case err := <-done:
					if err != nil {
						t.Fatal(err)
					}
					left--
				default:
				}
			}
			// The last values.
			testenv.Command(t, testenv.Cinch(t), append(packed(server, l), "--allow-recode")...)
			l.run(t, gateway.Addr, "updated", file)
			if n := sealed(dump(t, server.Addr)); n == 0 {
				t.Error("nothing is sealed")
			}
			t.Logf("packed %d times", times)
		})
	}
}

// rules returns a gateway's rules; packed returns the arguments of cinch pack with the same rules.
func rules(format, more string) string {
	return fmt.Sprintf(`- {key: "doc:*", setting: zstd-3, dictionary: auto, %sformat: %s}`, more, format)
}

func packed(server *testenv.RedisServer, l library) []string {
	return []string{"pack", server.URL(), "--rule", "key=doc:*,setting=zstd-3,dictionary=auto,format=" + l.format}
}

// Values of all libraries, including those that can't be run here, are read through a gateway, as plain
// values, packed, and in their format again.
func TestVectors(t *testing.T) {
	server := testenv.Redis(t)
	c := goredis.NewClient(&goredis.Options{Addr: server.Addr})
	defer c.Close()
	type vector struct {
		format  clientformat.Format
		content []byte
	}
	vectors := map[string]vector{}
	for f := clientformat.GlideZstd; f.Known(); f++ {
		files, err := filepath.Glob(filepath.Join(vectorDir, "*", f.String()))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range append(files, filepath.Join(vectorDir, f.String()+".bin")) {
			stored, err := os.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			content, err := clientformat.Open(nil, f, stored, 1<<20)
			if err != nil {
				t.Fatal(file, err)
			}
			key := fmt.Sprintf("%v:%s", f, filepath.Base(filepath.Dir(file)))
			vectors[key] = vector{f, content}
			if err := c.Set(t.Context(), key, stored, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(vectors) < 20 {
		t.Fatalf("%d vectors", len(vectors))
	}
	kept, plain := vectorRules(""), vectorRules(", to: plain")
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: kept})
	bare := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: plain})
	check := func(when string) {
		for key, v := range vectors {
			if got := get(t, gateway.Addr, key); !bytes.Equal(opened(t, v.format, got), v.content) {
				t.Errorf("%s, %s: %d bytes of another content", key, when, len(got))
			}
			if got := get(t, bare.Addr, key); !bytes.Equal(got, v.content) {
				t.Errorf("%s, %s: %.40q to plain clients", key, when, got)
			}
		}
	}
	check("before")
	config := filepath.Join(t.TempDir(), "cinch.yaml")
	text := fmt.Sprintf("gateways:\n- name: test\n  protocol: redis\n  listen: 127.0.0.1:0\n  upstream: %s\n  rules:\n%s\n", server.URL(), indented(kept))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	testenv.Command(t, testenv.Cinch(t), "pack", "--config", config, "--to", "zstd-19", "--allow-recode")
	sealed := 0
	for key := range vectors {
		if envelope.IsSealed(get(t, server.Addr, key)) {
			sealed++
		}
	}
	if sealed < len(vectors)/2 {
		t.Errorf("%d of %d values are sealed", sealed, len(vectors))
	}
	check("packed")
}

var vectorDir = filepath.Join("..", "..", "envelope", "clientformat", "testdata")

// vectorRules returns one rule per format, for keys that begin with its name.
func vectorRules(more string) string {
	var lines []string
	for f := clientformat.GlideZstd; f.Known(); f++ {
		lines = append(lines, fmt.Sprintf(`- {key: "%v:*", setting: zstd-19, min_gain: 0%%, format: %v%s}`, f, f, more))
	}
	return strings.Join(lines, "\n")
}

func indented(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

func get(t *testing.T, addr, key string) []byte {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr})
	defer c.Close()
	value, err := c.Get(t.Context(), key).Bytes()
	if err != nil {
		t.Fatal(key, err)
	}
	return value
}

func opened(t *testing.T, f clientformat.Format, stored []byte) []byte {
	t.Helper()
	content, err := clientformat.Open(nil, f, stored, 1<<20)
	if err != nil {
		t.Errorf("%v: %v", f, err)
	}
	return content
}
