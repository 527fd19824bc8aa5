package tunnel

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// pair is a tunnel to one server.
type pair struct {
	entry, exit *testenv.GatewayServer
	errors      float64 // errors of the exit after the start, caused by the readiness check
}

// newPair starts both ends with mutual TLS.
func newPair(t *testing.T, upstream, setting string) pair {
	t.Helper()
	ca := testenv.NewAuthority(t)
	far, near := ca.Issue(t, "exit"), ca.Issue(t, "entry")
	exit := testenv.Gateway(t, testenv.GatewayConfig{
		Protocol: "tunnel-exit", Upstream: "tcp://" + upstream,
		Settings: fmt.Sprintf("setting: %s\ntls: {cert: %q, key: %q, client_ca: %q}", setting, far.Cert, far.Key, ca.File),
	})
	entry := testenv.Gateway(t, testenv.GatewayConfig{
		Protocol: "tunnel", Upstream: "tls://" + exit.Addr,
		Settings: fmt.Sprintf("setting: %s\nupstream_tls: {ca: %q, cert: %q, key: %q}", setting, ca.File, near.Cert, near.Key),
	})
	return pair{entry, exit, exit.Metric(t, "cinch_errors_total")}
}

// saved fails the test unless the link carried at most that share of the bytes that clients received.
func (p pair) saved(t *testing.T, share float64) {
	t.Helper()
	raw := p.exit.Metric(t, "cinch_value_raw_bytes_total")
	stored := p.exit.Metric(t, "cinch_value_stored_bytes_total")
	t.Logf("the exit sent %.0f bytes as %.0f, %.1fx", raw, stored, raw/stored)
	if raw == 0 || stored > raw*share {
		t.Errorf("%.0f of %.0f bytes", stored, raw)
	}
	if n := p.entry.Metric(t, "cinch_errors_total") + p.exit.Metric(t, "cinch_errors_total") - p.errors; n != 0 {
		t.Errorf("%.0f errors", n)
	}
}

// run runs a client with the port of addr in place of PORT and returns its output.
func run(t *testing.T, stdin, addr, name string, args ...string) string {
	t.Helper()
	_, port, _ := strings.Cut(addr, ":")
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "PORT", port)
	}
	cmd := exec.CommandContext(t.Context(), testenv.Program(t, name), args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func TestPostgres(t *testing.T) {
	db := testenv.Postgres(t)
	p := newPair(t, db.Addr, "zstd-1")
	psql := []string{"-h", "127.0.0.1", "-p", "PORT", "-U", "postgres", "-X", "-q", "-t", "-A"}
	through := func(sql string) string { return run(t, sql, p.entry.Addr, "psql", append([]string(nil), psql...)...) }
	direct := func(sql string) string { return run(t, sql, db.Addr, "psql", append([]string(nil), psql...)...) }

	through(`CREATE TABLE docs AS SELECT i AS id, jsonb_build_object('id', i, 'name', 'customer ' || i % 97,
		'address', jsonb_build_object('street', md5(i::text), 'city', 'Berlin'), 'tags', ARRAY['new', 'active']) AS body FROM generate_series(1, 5000) i;`)
	const all = "SELECT * FROM docs ORDER BY id;"
	if a, b := through(all), direct(all); a != b || len(a) < 1<<19 {
		t.Errorf("%d bytes through the tunnel, %d direct", len(a), len(b))
	}
	file := filepath.Join(t.TempDir(), "docs")
	through("\\copy docs TO '" + file + "'\n")
	p.saved(t, 1/3.0)
	through("CREATE TABLE copies (LIKE docs);\n\\copy copies FROM '" + file + "'\n")
	if n := direct("SELECT count(*) FROM copies JOIN docs USING (id, body);"); n != "5000\n" {
		t.Errorf("%q rows came back as they were", n)
	}

	bench := []string{"-h", "127.0.0.1", "-p", "PORT", "-U", "postgres", "-d", "postgres"}
	run(t, "", p.entry.Addr, "pgbench", append(append([]string(nil), bench...), "-i", "-I", "dtGp", "-q")...)
	out := run(t, "", p.entry.Addr, "pgbench", append(append([]string(nil), bench...), "-c", "8", "-t", "20", "-n")...)
	if !strings.Contains(out, "160/160") || !strings.Contains(out, "failed transactions: 0") {
		t.Error(out)
	}
	// With -C, pgbench opens a new connection for each transaction.
	run(t, "", p.entry.Addr, "pgbench", append(append([]string(nil), bench...), "-C", "-c", "4", "-t", "10", "-n", "-S")...)
	if sum := strings.TrimSpace(direct("SELECT count(*) FROM pgbench_history;")); sum != "160" {
		t.Errorf("%s transactions in the history", sum)
	}
}

func TestMariaDB(t *testing.T) {
	db := testenv.MariaDB(t)
	p := newPair(t, db.Addr, "zstd-1")
	mariadb := []string{"--no-defaults", "-h", "127.0.0.1", "-P", "PORT", "-u", "test", "-N", "test"}
	through := func(sql string) string {
		return run(t, sql, p.entry.Addr, "mariadb", append([]string(nil), mariadb...)...)
	}
	direct := func(sql string) string { return run(t, sql, db.Addr, "mariadb", append([]string(nil), mariadb...)...) }
	through(`CREATE TABLE docs (id INT PRIMARY KEY, body TEXT);
		INSERT INTO docs SELECT seq, JSON_OBJECT('id', seq, 'name', CONCAT('customer ', seq % 97), 'street', MD5(seq)) FROM seq_1_to_13000;`)
	const all = "SELECT * FROM docs ORDER BY id;"
	if a, b := through(all), direct(all); a != b || len(a) < 1<<19 {
		t.Errorf("%d bytes through the tunnel, %d direct", len(a), len(b))
	}
	p.saved(t, 1/2.0)
}

func TestRedis(t *testing.T) {
	db := testenv.Redis(t)
	p := newPair(t, db.Addr, "auto")
	for commands, n := range map[string]string{"set,get,mset": "500", "lrange_100": "60"} {
		out := run(t, "", p.entry.Addr, "redis-benchmark", "-p", "PORT", "-n", n, "-c", "20", "-d", "3000", "-P", "4", "-q", "-t", commands)
		if !strings.Contains(out, "requests per second") || strings.Contains(out, "rror") {
			t.Error(out)
		}
	}
	listen(t, p.entry.Addr)
	// A replica receives all data through the tunnel.
	replica := testenv.Redis(t)
	_, port, _ := strings.Cut(p.entry.Addr, ":")
	run(t, "", db.Addr, "redis-cli", "-p", "PORT", "EVAL", "for i=1,2000 do redis.call('SET','key:'..i,'a value that is much like others '..i) end", "0")
	run(t, "", replica.Addr, "redis-cli", "-p", "PORT", "REPLICAOF", "127.0.0.1", port)
	testenv.Eventually(t, "the replica has all keys", func() bool {
		return run(t, "", replica.Addr, "redis-cli", "-p", "PORT", "DBSIZE") == run(t, "", db.Addr, "redis-cli", "-p", "PORT", "DBSIZE")
	})
	if n := run(t, "", replica.Addr, "redis-cli", "-p", "PORT", "GET", "key:1999"); !strings.Contains(n, "others 1999") {
		t.Error(n)
	}
}

// listen subscribes through the entry and waits for a message that is published later.
func listen(t *testing.T, addr string) {
	t.Helper()
	_, port, _ := strings.Cut(addr, ":")
	cmd := exec.CommandContext(t.Context(), testenv.Program(t, "redis-cli"), "-p", port, "SUBSCRIBE", "ch")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }() // it would listen forever
	published := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch {
		case lines.Text() == "a message":
			return
		case !published:
			run(t, "", addr, "redis-cli", "-p", "PORT", "PUBLISH", "ch", "a message")
			published = true
		}
	}
	t.Error("redis-cli ended before the message")
}

// once waits for text in the log and checks that it occurs once. Output arrives a moment after the client
// was served.
func once(t *testing.T, g *testenv.GatewayServer, text string) {
	t.Helper()
	testenv.Eventually(t, text, func() bool { return strings.Contains(g.Output(), text) })
	if n := strings.Count(g.Output(), text); n != 1 {
		t.Errorf("%d lines with %q", n, text)
	}
}

// An entry without a certificate that the exit trusts is refused, and the exit logs it.
func TestStrangers(t *testing.T) {
	db := testenv.Redis(t)
	p := newPair(t, db.Addr, "auto")
	other := testenv.NewAuthority(t)
	theirs := other.Issue(t, "entry")
	for name, settings := range map[string]string{
		"wrong certificate": fmt.Sprintf("upstream_tls: {insecure_skip_verify: true, cert: %q, key: %q}", theirs.Cert, theirs.Key),
		"none":              "upstream_tls: {insecure_skip_verify: true}",
		"mistrust":          fmt.Sprintf("upstream_tls: {ca: %q}", other.File),
	} {
		stranger := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "tunnel", Upstream: "tls://" + p.exit.Addr, Settings: settings})
		_, port, _ := strings.Cut(stranger.Addr, ":")
		if out, _ := exec.CommandContext(t.Context(), testenv.Program(t, "redis-cli"), "-p", port, "PING").CombinedOutput(); strings.Contains(string(out), "PONG") {
			t.Errorf("%s: %s", name, out)
		}
		once(t, stranger, "no link to the exit")
	}
	testenv.Eventually(t, "the exit logs them", func() bool { return strings.Contains(p.exit.Output(), "not a trusted tunnel entry") })
	if n := p.exit.Metric(t, "cinch_errors_total"); n-p.errors < 3 {
		t.Errorf("%.0f errors counted", n)
	}
	if out := run(t, "", p.entry.Addr, "redis-cli", "-p", "PORT", "PING"); !strings.Contains(out, "PONG") {
		t.Error(out)
	}
}
