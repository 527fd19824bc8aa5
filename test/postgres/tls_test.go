package postgres

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// guarded starts a server that requires TLS and a password of all users but the tests' own superuser.
func guarded(t *testing.T, a *testenv.Authority, name string, users string) (*testenv.SQLServer, testenv.Issued) {
	t.Helper()
	dir, err := os.MkdirTemp("", "cinch-pg-tls-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	own := a.Issue(t, name)
	hba := filepath.Join(dir, "hba")
	const rules = "host all postgres 127.0.0.1/32 trust\nhostssl all old 127.0.0.1/32 md5\nhostssl all all 127.0.0.1/32 scram-sha-256\nhost all plain 127.0.0.1/32 scram-sha-256\n"
	if err := os.WriteFile(hba, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"cert": own.Cert, "key": own.Key, "hba": hba}
	for name, from := range files {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = filepath.Join(dir, name)
		if err := os.WriteFile(files[name], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if u, err := user.Lookup("postgres"); err == nil && os.Getuid() == 0 {
		uid, _ := strconv.Atoi(u.Uid)
		for _, name := range []string{"", "cert", "key", "hba"} {
			if err := os.Chown(filepath.Join(dir, name), uid, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := testenv.Postgres(t, "ssl=on", "ssl_cert_file="+files["cert"], "ssl_key_file="+files["key"], "hba_file="+files["hba"])
	testenv.Command(t, "psql", "-Xq", "-h", "127.0.0.1", "-p", s.Port, "-U", "postgres", "-c", users)
	return s, own
}

// fortress is production and targets that require TLS and passwords, with their own users.
type fortress struct {
	production *testenv.SQLServer
	authority  *testenv.Authority
	own        testenv.Issued // production's certificate
	urls       [3]string
}

func newFortress(t *testing.T) *fortress {
	t.Helper()
	f := &fortress{authority: testenv.NewAuthority(t)}
	f.production, f.own = guarded(t, f.authority, "production", `CREATE ROLE app LOGIN SUPERUSER PASSWORD 'p@ss word'; CREATE ROLE plain LOGIN PASSWORD 'plain';
		SET password_encryption = md5; CREATE ROLE old LOGIN PASSWORD 'old'`)
	control, _ := guarded(t, f.authority, "control", `CREATE ROLE mirror_c LOGIN SUPERUSER PASSWORD 'control'`)
	test, _ := guarded(t, f.authority, "test", `CREATE ROLE mirror_t LOGIN SUPERUSER PASSWORD 'test'`)
	verified := "/postgres?sslmode=verify-full&sslrootcert=" + f.authority.File
	f.urls = [3]string{
		"postgres://" + f.production.Addr + verified, "postgres://mirror_c:control@" + control.Addr + verified, "postgres://mirror_t:test@" + test.Addr + verified,
	}
	return f
}

// mirror starts a mirror that presents a certificate to clients, or has no TLS for them.
func (f *fortress) mirror(t *testing.T, shown testenv.Issued) *mirror {
	t.Helper()
	var more []string
	if shown.Cert != "" {
		more = []string{"--tls-cert", shown.Cert, "--tls-key", shown.Key}
	}
	return startMirror(t, f.urls[0], f.urls[1], f.urls[2], more...)
}

// libpq runs a query for each conninfo with psycopg, which bundles the newest libpq, and returns the
// answers or errors.
func libpq(t *testing.T, conninfo []string) (answers []string) {
	t.Helper()
	const program = `import json, psycopg, sys
def ask(conninfo):
    try:
        with psycopg.connect(conninfo) as c:
            return "user %s tls %s" % (c.execute("SELECT user").fetchone()[0], c.pgconn.ssl_in_use)
    except psycopg.Error as e:
        return "error %s" % e
print(json.dumps([ask(c) for c in sys.argv[1:]]))`
	out, err := exec.CommandContext(t.Context(), testenv.Python(t, "python/requirements.txt"), append([]string{"-c", program}, conninfo...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := json.Unmarshal(out, &answers); err != nil || len(answers) != len(conninfo) {
		t.Fatalf("%v: %s", err, out)
	}
	return answers
}

// login is a way to connect, and a part of the expected result.
type login struct {
	with, want string
}

const (
	scram = "user=app password='p@ss word' "
	inTLS = "user app tls True"
)

// Logins of libpq work through the mirror, with production and targets that require TLS.
func TestLogins(t *testing.T) {
	f := newFortress(t)
	verify := fmt.Sprintf("sslmode=verify-full sslrootcert=%s ", f.authority.File)
	for _, way := range []struct {
		name   string
		shown  testenv.Issued
		logins []login
	}{
		{"production's certificate", f.own, []login{
			{scram + verify, inTLS}, // SCRAM with channel binding, which libpq prefers
			{scram + "sslmode=require channel_binding=require", inTLS},
			{scram + verify + "sslnegotiation=direct", inTLS},
			{scram + verify + "sslnegotiation=direct channel_binding=require min_protocol_version=3.2 max_protocol_version=latest", "server only supports protocol version 3.0"},
			{scram + "sslmode=require max_protocol_version=latest", inTLS},
			{scram + "sslmode=prefer gssencmode=prefer", inTLS},
			{"user=app password=wrong sslmode=require", "password authentication failed"},
			{"user=old password=old sslmode=require", "user old tls True"}, // md5
			{"user=plain password=plain sslmode=disable", "user plain tls False"},
		}},
		{"a certificate of its own", f.authority.Issue(t, "mirror"), []login{
			{scram + verify + "channel_binding=disable", inTLS},
			{scram + verify + "channel_binding=disable sslnegotiation=direct", inTLS},
			{scram + verify, "channel_binding=disable"}, // the hint in the error
			{scram + verify + "channel_binding=require", "channel binding is required, but server did not offer"},
			{"user=old password=old " + verify, "user old tls True"},
			{scram + "sslmode=disable", "user app tls False"},
		}},
		{"no TLS for clients", testenv.Issued{}, []login{
			{scram + "sslmode=prefer", "user app tls False"},
			{scram + "sslmode=require", "server does not support SSL"},
			{scram + "sslmode=require sslnegotiation=direct", "error"},
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			if way.shown != f.own {
				testenv.Full(t)
			}
			m := f.mirror(t, way.shown)
			at := fmt.Sprintf("host=127.0.0.1 port=%s dbname=postgres connect_timeout=30 ", m.port)
			var conninfo []string
			for _, l := range way.logins {
				conninfo = append(conninfo, at+l.with)
			}
			answers := libpq(t, conninfo)
			for i, l := range way.logins {
				if got := answers[i]; !strings.Contains(got, l.want) {
					t.Errorf("%s: %s, not %q", l.with, got, l.want)
				} else {
					t.Logf("%s: %s", l.with, got)
				}
			}
			m.settle(t, 0)
		})
	}
}

// A statement can be cancelled by another connection, with TLS or, as older clients do it, without.
func TestCancelWithinTLS(t *testing.T) {
	testenv.Full(t)
	f := newFortress(t)
	m := f.mirror(t, f.own)
	const program = `import psycopg, sys, threading
with psycopg.connect(sys.argv[1]) as c:
    for cancel in (c.cancel_safe, c.cancel):
        over = threading.Event()
        def stop():
            while not over.wait(0.05):
                cancel()
        t = threading.Thread(target=stop)
        t.start()
        try:
            c.execute("SELECT pg_sleep(600)")
        except psycopg.errors.QueryCanceled as e:
            print("cancelled", e.sqlstate)
        over.set()
        t.join()
        c.rollback()`
	conninfo := fmt.Sprintf("host=127.0.0.1 port=%s dbname=postgres sslmode=verify-full sslrootcert=%s %s", m.port, f.authority.File, scram)
	if got := output(t, "", testenv.Python(t, "python/requirements.txt"), "-c", program, conninfo); strings.Count(got, "cancelled 57014") != 2 {
		t.Errorf("%s", got)
	}
	m.settle(t, 1)
}
