package server

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/test/testenv"
)

// wire is a simulated network in which every address belongs to this machine and nothing listens yet.
type wire struct{ taken []*net.TCPAddr }

// listen fails as the kernel would: if the port is taken at the same address or at all addresses.
func (w *wire) listen(address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return net.Listen("unix", strings.TrimPrefix(path, "//"))
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) == nil && host != "" && host != "localhost" {
		host = "192.0.2.1" // stands for the address of any name
	}
	at, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	all := func(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }
	for _, t := range w.taken {
		if t.Port == at.Port && at.Port != 0 && (t.IP.Equal(at.IP) || all(t.IP) || all(at.IP)) {
			return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: at, Err: syscall.EADDRINUSE}
		}
	}
	w.taken = append(w.taken, at)
	return wired{at}, nil
}

// wired is a listener that receives no connections.
type wired struct{ at *net.TCPAddr }

func (l wired) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (l wired) Close() error              { return nil }
func (l wired) Addr() net.Addr            { return l.at }

// examples returns the configurations in docs, examples and packaging, complete ones and parts.
func examples(t *testing.T) []string {
	t.Helper()
	block := regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```")
	var all []string
	for _, dir := range []string{"docs", "examples", "packaging"} {
		err := filepath.WalkDir("../../"+dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			switch filepath.Ext(path) {
			case ".md":
				for _, m := range block.FindAllStringSubmatch(string(text), -1) {
					all = append(all, m[1])
				}
			case ".yaml":
				all = append(all, string(text))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// whole completes an example that may be a part of a configuration. It returns nil for any other text.
func whole(text string) map[string]any {
	var parsed any
	if yaml.Unmarshal([]byte(text), &parsed) != nil {
		return nil
	}
	if list, ok := parsed.([]any); ok {
		parsed = map[string]any{"gateways": list}
		if first, _ := list[0].(map[string]any); first["protocol"] == nil {
			parsed = map[string]any{"rules": list}
		}
	}
	m, _ := parsed.(map[string]any)
	if m["rules"] != nil {
		protocol := "redis"
		for key, of := range map[string]string{"space:": "tarantool", "function:": "tarantool", "service:": "grpc", "namespace:": "mongo", "path:": "http"} {
			if strings.Contains(text, key) {
				protocol = of
			}
		}
		upstream := map[string]string{"mongo": "mongodb", "grpc": "grpc"}[protocol]
		gateway := map[string]any{"name": "a", "protocol": protocol, "listen": "127.0.0.1:6380", "upstream": cmp.Or(upstream, protocol) + "://h:1"}
		maps.Copy(gateway, m)
		m = map[string]any{"gateways": []any{gateway}}
	}
	if _, ok := m["gateways"].([]any); !ok {
		return nil
	}
	return m
}

// files returns the files that examples name, by key.
func files(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := testenv.NewAuthority(t)
	issued := a.Issue(t, "localhost")
	d, err := codec.NewDict([]byte(strings.Repeat("what values have in common ", 20)))
	if err != nil {
		t.Fatal(err)
	}
	dictionary := filepath.Join(dir, "d.dict")
	if err := dict.Save(dictionary, d); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"cert": issued.Cert, "key": issued.Key, "ca": a.File, "client_ca": a.File,
		"token_file": write("token", []byte("sixteen bytes and more")), "peer_key_file": write("peer", []byte("sixteen bytes and more")), "state_file": filepath.Join(dir, "state"),
		"state": filepath.Join(dir, "position"), "users_file": write("users", nil), "file": dictionary, "path": "",
	}
}

// node is a value in a configuration that can be changed.
type node struct {
	key   string
	value any
	set   func(any)
	drop  func()
	name  func(string) // renames the key
}

// nodes returns all values of a configuration.
func nodes(v any, found []node) []node {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			value := v[key]
			found = append(found, node{
				key: key, value: value, set: func(x any) { v[key] = x }, drop: func() { delete(v, key) },
				name: func(other string) { delete(v, key); v[other] = value },
			})
			found = nodes(value, found)
		}
	case []any:
		for i, value := range v {
			found = nodes(value, append(found, node{
				value: value, set: func(x any) { v[i] = x }, drop: func() { v[i] = nil }, name: func(string) {},
			}))
		}
	}
	return found
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for key, value := range v {
			m[key] = clone(value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = clone(v[i])
		}
		return list
	}
	return v
}

// wrong returns invalid values to replace a valid one.
func wrong(n node) []any {
	list := []any{nil, "", "no-such-thing", -1, []any{"a"}, map[string]any{"a": 1}, "[x"}
	text, _ := n.value.(string)
	switch n.key {
	case "listen", "upstream", "sentinel", "advertise", "standby":
		list = append(list, "127.0.0.1:200010", "unix:/no/such/directory/s", "unix:/", "localhost:6380", "127.0.0.1:6380", "0.0.0.0:6380", "[::1]:6380", ":6380", "[::]:9470",
			"localhost:9470", strings.Replace(text, ":6", ":70", 1), "redis://h:200010", "mongodb://a,b,c", "unix:"+strings.Repeat("x", 120))
	case "cert", "key", "ca", "client_ca", "token_file", "peer_key_file", "file", "users_file", "state_file", "state", "path":
		list = append(list, "/no/such/file", "/")
	case "argument":
		list = append(list, "2.*.3", "2.3.4", "2.", "0")
	}
	return list
}

// attempt returns the results of the check and of a start with a configuration.
func attempt(t *testing.T, text []byte, engine *codec.Engine) (check, start error) {
	t.Helper()
	w := &wire{}
	o := Options{
		Load: func() (*config.Config, error) { return config.Parse("c.yaml", text, nil) }, Log: &testenv.Log{}, listen: w.listen,
		Zstd: Zstd{Engine: func(name string) (*codec.Engine, error) {
			if name == "libzstd" {
				return nil, errors.New("not built in")
			}
			return engine, nil
		}},
	}
	_, check = Check(o)
	p, start := New(o)
	if start == nil {
		p.close()
	}
	return check, start
}

// A configuration passes the check if and only if serve starts with it, apart from conditions outside the
// process: for every example, and every example with an error in it.
func TestCheckIsStart(t *testing.T) {
	given, engine, good, started, refused := files(t), codec.New(codec.Options{}), 0, 0, 0
	try := func(m any, what string) {
		text, err := yaml.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		check, start := attempt(t, text, engine)
		if (check == nil) != (start == nil) {
			t.Fatalf("%s: the check says %v, the start %v\n%s", what, check, start, text)
		}
		if start == nil {
			started++
		} else {
			refused++
		}
	}
	seen := map[string]bool{}
	for _, example := range examples(t) {
		m := whole(example)
		if m == nil {
			continue
		}
		if prices, ok := m["prices"].(map[string]any); ok {
			delete(prices, "file")
		}
		for _, n := range nodes(m, nil) {
			text, isText := n.value.(string)
			if path, ok := given[n.key]; ok && isText {
				n.set(path)
			} else if n.key == "listen" && strings.HasPrefix(text, "unix:") {
				n.set(fmt.Sprintf("unix:%s.%d", given["state"], len(text)))
			}
		}
		text, _ := yaml.Marshal(m)
		if check, _ := attempt(t, text, engine); check != nil {
			t.Logf("left out: %v\n%s", check, text)
			continue
		}
		good++
		count := len(nodes(m, nil))
		for i := range count {
			for k := 0; ; k++ {
				other := clone(m)
				n := nodes(other, nil)[i]
				values, what := wrong(n), ""
				switch {
				case k < len(values):
					n.set(values[k])
					what = fmt.Sprintf("%s: %v", n.key, values[k])
				case k == len(values):
					n.drop()
					what = "without " + n.key
				case k == len(values)+1:
					n.name(n.key + "x")
					what = "another name for " + n.key
				default:
					values = nil
				}
				if values == nil {
					break
				}
				// Many examples have the same part: it is tried once.
				if of := fmt.Sprint(n.key, n.value, k); !seen[of] {
					seen[of] = true
					try(other, what)
				}
			}
		}
		for i, g := range m["gateways"].([]any) {
			other := clone(m).(map[string]any)
			second := clone(g).(map[string]any)
			second["name"] = "another"
			other["gateways"] = append(other["gateways"].([]any), second)
			try(other, fmt.Sprintf("gateway %d twice", i))
			if _, port, err := net.SplitHostPort(fmt.Sprint(second["listen"])); err == nil {
				for _, host := range []string{"localhost", "127.0.0.1", "0.0.0.0", "::", "::1", "", "127.0.0.2"} {
					second["listen"] = net.JoinHostPort(host, port)
					try(other, "the port of another gateway")
				}
			}
		}
	}
	t.Logf("%d examples; of the changed ones %d started and %d were refused", good, started, refused)
	if good < 10 || started < 200 || refused < 500 {
		t.Error("too few cases for a result")
	}
}

// Unusable files are already reported by the check, with their place.
func TestCheckReadsWhatServeReads(t *testing.T) {
	dir := t.TempDir()
	short := filepath.Join(dir, "short")
	if err := os.WriteFile(short, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway := func(more string) string {
		return "gateways: [{name: a, protocol: redis, listen: \"127.0.0.1:6380\", upstream: \"redis://h\", rules: [{setting: lz4}]" + more + "]\n"
	}
	for text, want := range map[string]string{
		"admin: {token_file: /none/token}\n" + gateway("}"):                                                                                                     ":1: admin.token_file: ",
		"admin: {token_file: " + short + "}\n" + gateway("}"):                                                                                                   ":1: admin.token_file: ",
		"admin: {tls: {cert: /none/c, key: /none/k}}\n" + gateway("}"):                                                                                          ":1: admin.tls: ",
		gateway(`}, {name: b, protocol: redis, listen: "localhost:6380", upstream: "redis://h"}`):                                                               "is used by gateways[0].listen, 127.0.0.1:6380",
		gateway(`}, {name: b, protocol: redis, listen: ":9470", upstream: "redis://h"}`):                                                                        "is used by admin.listen, 127.0.0.1:9470",
		gateway(`}, {name: b, protocol: redis, listen: "127.0.0.1:1", upstream: "redis://h:200010"}`):                                                           "port 200010 is above 65535",
		gateway(`}, {name: b, protocol: redis, listen: "unix:/none/x", upstream: "redis://h"}`):                                                                 "/none: no such file",
		gateway(`}, {name: b, protocol: tarantool, listen: "127.0.0.1:1", upstream: "tarantool://h", rules: [{function: f, argument: "2.*.3", setting: lz4}]}`): `"2.*.3" is not an argument`,
		gateway(`}, {name: b, protocol: postgres, listen: "127.0.0.1:1", upstream: "postgres://h", state_file: ` + short + "}"):                                 "not the state of a gateway",
		"zstd: libzstd\n" + gateway("}"): ":1: zstd: not built in",
	} {
		check, start := attempt(t, []byte(text), codec.New(codec.Options{}))
		if check == nil || start == nil || !strings.Contains(check.Error(), want) || check.Error() != start.Error() {
			t.Errorf("%s\ncheck: %v\nstart: %v\nwant %s", text, check, start, want)
		}
	}
}
