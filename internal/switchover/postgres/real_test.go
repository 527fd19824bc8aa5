package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
)

// rig is a gateway in front of a real server.
type rig struct {
	g      *Gateway
	node   *testenv.PostgresNode
	host   string
	port   string
	log    testenv.Log
	served chan error
}

// hba has a user for each login method.
const hba = `host all trusted all trust
host all md5er all md5
host all plain all password
host replication all all trust
host all all all scram-sha-256
`

const users = `CREATE ROLE trusted LOGIN; CREATE ROLE plain LOGIN PASSWORD 'plain secret'; CREATE ROLE scrammer LOGIN PASSWORD 'scram secret';
	SET password_encryption = md5; CREATE ROLE md5er LOGIN PASSWORD 'md5 secret'; SET password_encryption = 'scram-sha-256';
	CREATE ROLE cinch LOGIN SUPERUSER PASSWORD 'cinch secret'; GRANT ALL ON SCHEMA public TO PUBLIC`

var passwords = map[string]string{"trusted": "", "plain": "plain secret", "scrammer": "scram secret", "md5er": "md5 secret", "cinch": "cinch secret"}

func TestMain(m *testing.M) { testenv.Main(m) }

// newRig returns a gateway in front of a server that tests share, one at a time.
func newRig(t *testing.T, set func(*Config)) *rig {
	t.Helper()
	return newRigAt(t, testenv.Shared(t, "node", func(t testing.TB) *testenv.PostgresNode { return newNode(t, testenv.PostgresConfig{}) }), "", set)
}

func newNode(t testing.TB, c testenv.PostgresConfig) *testenv.PostgresNode {
	c.HBA = hba
	node := testenv.NewPostgresNode(t, c)
	node.SQL(t, users)
	return node
}

func newRigAt(t *testing.T, node *testenv.PostgresNode, options string, set func(*Config)) *rig {
	t.Helper()
	r := &rig{node: node, served: make(chan error, 1)}
	up, err := endpoint.ParsePostgres("postgres://cinch:cinch%20secret@" + r.node.Addr + "/postgres?" + options)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Name: "test", Upstream: up, MaxConns: 600, Stats: gateway.NewStats("test", "postgres"), Log: r.log.Logger()}
	if set != nil {
		set(&c)
	}
	r.g = NewGateway(c)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.host, r.port, _ = net.SplitHostPort(l.Addr().String())
	go func() { r.served <- r.g.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = r.g.Shutdown(ctx)
		if t.Failed() {
			t.Logf("the gateway's log:\n%s", r.log.String())
		}
	})
	return r
}

// url returns the URL for a user through the gateway.
func (r *rig) url(user, options string) string {
	return "postgres://" + user + ":" + strings.ReplaceAll(passwords[user], " ", "%20") + "@" + net.JoinHostPort(r.host, r.port) + "/postgres?" + options
}

func (r *rig) connect(t *testing.T, user, options string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), r.url(user, options))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func ask(t *testing.T, c *pgx.Conn, text string, args ...any) (answer string) {
	t.Helper()
	if err := c.QueryRow(t.Context(), text, args...).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return answer
}

func TestLogins(t *testing.T) {
	r := newRig(t, nil)
	for user := range passwords {
		c := r.connect(t, user, "sslmode=prefer&application_name=logins")
		if got := ask(t, c, "SELECT current_user || ' ' || current_setting('application_name')"); got != user+" logins" {
			t.Errorf("%s is %s", user, got)
		}
	}
	for _, user := range []string{"scrammer", "md5er", "plain"} {
		_, err := pgx.Connect(t.Context(), strings.Replace(r.url(user, ""), "secret", "wrong", 1))
		if err == nil || !strings.Contains(err.Error(), "28P01") {
			t.Errorf("%s with a wrong password: %v", user, err)
		}
	}
}

// TLS on both hops: the server offers SCRAM bound to a channel, and it is not used.
func TestTLS(t *testing.T) {
	a := testenv.NewAuthority(t)
	own := a.Issue(t, "gateway")
	r := newRig(t, func(c *Config) { c.TLS = own.TLS(t) })
	for _, mode := range []string{"verify-full&sslrootcert=" + a.File, "require"} {
		c := r.connect(t, "scrammer", "sslmode="+mode)
		if _, ok := c.PgConn().Conn().(*tls.Conn); !ok {
			t.Errorf("%s: not encrypted", mode)
		}
		ask(t, c, "SELECT 'x'")
	}
	_, err := pgx.Connect(t.Context(), r.url("scrammer", "sslmode=disable"))
	if err == nil || !strings.Contains(err.Error(), "by TLS only") {
		t.Errorf("without TLS: %v", err)
	}
}

func TestCancel(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t, "scrammer", "")
	stopped := make(chan error, 1)
	go func() {
		_, err := c.PgConn().Exec(context.Background(), "SELECT pg_sleep(600)").ReadAll()
		stopped <- err
	}()
	testenv.Eventually(t, "the statement runs", func() bool {
		return r.node.SQL(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1"
	})
	if err := c.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err == nil || !strings.Contains(err.Error(), "57014") {
		t.Errorf("cancelled: %v", err)
	}
	ask(t, c, "SELECT 'still there'")
}

// pgbench and psql, with every protocol.
func TestPrograms(t *testing.T) {
	r := newRig(t, nil)
	r.run(t, "pgbench", "-i", "-q", "-s", "1", "--no-vacuum")
	for _, mode := range []string{"simple", "extended", "prepared"} {
		out := r.run(t, "pgbench", "-n", "-c", "8", "-j", "2", "-t", "10", "-M", mode)
		if !strings.Contains(out, "80/80") {
			t.Errorf("%s: %s", mode, out)
		}
	}
	out := r.run(t, "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", "CREATE TEMP TABLE x (a int)", "-c",
		"\\copy x from program 'seq 50000'", "-c", "SELECT sum(a) FROM x", "-c", "SELECT repeat('v', 5000000)", "-c", "\\copy x to '/dev/null'")
	if !strings.Contains(out, "1250025000") || len(out) < 5_000_000 {
		t.Errorf("psql: %.200s", out)
	}
	s := r.g.counts.transactions.Load()
	if s < 240 {
		t.Errorf("%d transactions were counted", s)
	}
}

// run runs a PostgreSQL program through the gateway.
func (r *rig) run(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(testenv.Program(t, program), args...)
	cmd.Env = append(os.Environ(), "PGHOST="+r.host, "PGPORT="+r.port, "PGUSER=scrammer", "PGPASSWORD=scram secret", "PGDATABASE=postgres")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%.2000s", program, args, err, out)
	}
	return string(out)
}

// A drain ends idle sessions at once, others when their transaction has ended, and new ones a moment later.
func TestDrain(t *testing.T) {
	r := newRig(t, nil)
	quiet, busy, fresh := r.connect(t, "trusted", ""), r.connect(t, "trusted", ""), r.connect(t, "trusted", "application_name=fresh")
	tx, err := busy.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// On a busy machine the usual moment may be over already.
	just := map[string]time.Time{"fresh": time.Now().Add(time.Hour)}
	for _, s := range r.g.all() {
		s.mu.Lock()
		s.newUntil = just[s.params["application_name"]]
		s.mu.Unlock()
	}
	ended := make(chan error, 1)
	go func() { ended <- r.g.Shutdown(context.Background()) }()
	_, err = quiet.WaitForNotification(t.Context())
	if err == nil || !strings.Contains(err.Error(), "57P01") {
		t.Errorf("an idle client got %v", err)
	}
	ask(t, fresh, "SELECT 'first'")
	for _, s := range r.g.all() {
		if s.params["application_name"] == "fresh" {
			s.mu.Lock()
			s.newUntil = time.Time{}
			s.mu.Unlock()
			s.Drain() // as its timer does
		}
	}
	if _, err = fresh.WaitForNotification(t.Context()); err == nil || !strings.Contains(err.Error(), "57P01") {
		t.Errorf("a client that is no longer new got %v", err)
	}
	if err := tx.QueryRow(t.Context(), "SELECT 1").Scan(new(int)); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Sessions that a drain no longer waits for get the shutdown error, and nothing of their transactions is
// committed.
func TestEndOfADrain(t *testing.T) {
	r := newRig(t, nil)
	r.node.SQL(t, "DROP TABLE IF EXISTS kept; CREATE TABLE kept (a int); GRANT ALL ON kept TO PUBLIC")
	waits, runs, copies := r.connect(t, "trusted", ""), r.connect(t, "trusted", ""), r.connect(t, "trusted", "")
	tx, err := waits.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 3)
	go func() {
		_, err := runs.Exec(context.Background(), "INSERT INTO kept SELECT 1 FROM pg_sleep(600)")
		told <- err
	}()
	data, more := io.Pipe()
	defer more.Close()
	go func() {
		_, err := copies.PgConn().CopyFrom(context.Background(), data, "COPY kept FROM STDIN")
		told <- err
	}()
	_, _ = more.Write([]byte("2\n"))
	program := exec.Command(testenv.Program(t, "psql"), "-X", "-c", "INSERT INTO kept SELECT 3 FROM pg_sleep(600)")
	program.Env = append(os.Environ(), "PGHOST="+r.host, "PGPORT="+r.port, "PGUSER=trusted", "PGDATABASE=postgres")
	go func() {
		out, err := program.CombinedOutput()
		if err != nil && strings.Contains(string(out), "FATAL:  terminating connection") {
			err = errors.New("57P01: " + string(out))
		}
		told <- fmt.Errorf("psql: %w: %s", err, out)
	}()
	testenv.Eventually(t, "the statements run", func() bool {
		return r.node.SQL(t, "SELECT count(*) FILTER (WHERE wait_event = 'PgSleep'), count(*) FILTER (WHERE query LIKE 'COPY kept%') FROM pg_stat_activity") == "2|1"
	})
	ended := make(chan error, 1)
	go func() { ended <- r.g.Shutdown(context.Background()) }()
	testenv.Eventually(t, "all drain", func() bool {
		return !slices.ContainsFunc(r.g.all(), func(s *session) bool { s.mu.Lock(); defer s.mu.Unlock(); return !s.draining })
	})
	expireSessions(r.g.all())
	for range cap(told) {
		if err := <-told; err == nil || !strings.Contains(err.Error(), "57P01") {
			t.Errorf("told %v", err)
		}
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO kept VALUES (4)"); err == nil || !strings.Contains(err.Error(), "57P01") {
		t.Errorf("a client in a transaction got %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	testenv.Eventually(t, "the server has nothing to do", func() bool {
		return r.node.SQL(t, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'trusted'") == "0"
	})
	if got := r.node.SQL(t, "SELECT count(*) FROM kept"); got != "0" {
		t.Errorf("%s rows are kept", got)
	}
}

// Last messages get noticeTime of time; a short drain gives them half of its time.
func TestUntilLastWords(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{30 * time.Second: 29 * time.Second, time.Second: time.Second / 2, 0: 0} {
		if got := untilNotice(left); got != want {
			t.Errorf("of %v: %v", left, got)
		}
	}
}

// A client that does not speak PostgreSQL's protocol, or stops doing so, gets an error and is cut off. Others
// notice nothing.
func TestHostileClients(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxConns = 3 })
	c := r.connect(t, "trusted", "")
	for name, bytes := range map[string]string{
		"http":      "GET / HTTP/1.0\r\n\r\n",
		"long":      "\x00\xff\xff\xff\x00\x03\x00\x00",
		"short":     "\x00\x00\x00\x04\x00\x03\x00\x00",
		"no end":    "\x00\x00\x00\x0d\x00\x03\x00\x00user\x00",
		"cancel":    "\x00\x00\x00\x10\x04\xd2\x16\x2e\x00\x00\x00\x01\x00\x00\x00\x02",
		"cancelled": "\x00\x00\x00\x08\x04\xd2\x16\x2e",
	} {
		conn, err := net.Dial("tcp", net.JoinHostPort(r.host, r.port))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(bytes))
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		buf := make([]byte, 1000)
		for err == nil {
			_, err = conn.Read(buf)
		}
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			t.Errorf("%s: not cut off", name)
		}
		_ = conn.Close()
	}
	raw := c.PgConn().Conn()
	_, _ = raw.Write([]byte("Q\x00\x00\x00\x01"))
	buf := make([]byte, 1000)
	if n, _ := raw.Read(buf); !strings.Contains(string(buf[:n]), "08P01") {
		t.Errorf("a length of 1 is answered with %q", buf[:n])
	}
	ask(t, r.connect(t, "trusted", ""), "SELECT 'x'")
}

// When the server is unreachable clients get an error in their protocol.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, newNode(t, testenv.PostgresConfig{}), "", nil)
	r.node.Stop()
	_, err := pgx.Connect(t.Context(), r.url("trusted", ""))
	if err == nil || !strings.Contains(err.Error(), "57P03") {
		t.Errorf("%v", err)
	}
	r.node.Start(t)
	ask(t, r.connect(t, "trusted", ""), "SELECT 'x'")
}
