package postgres

import (
	"context"
	"net"
	"os"
	"os/exec"
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
