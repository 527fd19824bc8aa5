package redis

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/test/testenv"
)

// certified is a gateway that shows a certificate to a Redis server, which accepts it as a login.
type certified struct {
	front   string // the gateway's socket
	gateway *Gateway
}

// startCertified starts a server with additional configuration and two users: "gateway" with all rights, and
// "alice". name is the name in the gateway's certificate.
func startCertified(t *testing.T, name string, config ...string) certified {
	t.Helper()
	ca := testenv.NewAuthority(t)
	its, own, port := ca.Issue(t, "server"), ca.Issue(t, name), testenv.FreePort(t)
	config = append(config,
		"tls-port "+strconv.Itoa(port), "tls-cert-file "+its.Cert, "tls-key-file "+its.Key, "tls-ca-cert-file "+ca.File,
		"tls-auth-clients yes", "tls-auth-clients-user CN",
		"user gateway on >secret ~* &* +@all", "user alice on >pw ~a:* &* +@all")
	file := filepath.Join(t.TempDir(), "conf")
	if err := os.WriteFile(file, []byte(strings.Join(config, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	testenv.RedisOf(t, "redis-8.6", "--include", file)
	var c certified
	c.front, c.gateway = startGateway(t, "", func(cfg *Config) {
		shown := own.TLS(t)
		shown.RootCAs = ca.Pool
		cfg.Upstream = endpoint.Upstream{Network: "tcp", Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Host: "127.0.0.1", TLS: shown}
	})
	return c
}

// lines returns the first lines of the answers to inline commands on one connection.
func (c certified) lines(t *testing.T, commands ...string) (lines []string) {
	t.Helper()
	conn, err := net.Dial("unix", c.front)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	in := bufio.NewReader(conn)
	for _, command := range commands {
		_, _ = conn.Write([]byte(command + "\r\n"))
		line, err := in.ReadString('\n')
		if err != nil {
			return append(lines, err.Error())
		}
		if strings.HasPrefix(line, "$") && line != "$-1\r\n" {
			line, _ = in.ReadString('\n')
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// A server that accepts the gateway's certificate as a login must not treat its clients as the gateway: they
// have no login before AUTH, and again after RESET.
func TestCertificateIsNoLoginForClients(t *testing.T) {
	for what, c := range map[string]struct {
		config    string
		loggedOut string // the server's answer to ACL WHOAMI without a login
	}{
		"password":  {"requirepass sesame", "-NOAUTH Authentication required."},
		"few keys":  {"user default on nopass resetkeys ~open:* &* +@all", "default"},
		"off":       {"user default off", "-NOAUTH Authentication required."},
		"nothing":   {"user default on nopass -@all +ping", "-NOPERM User default has no permissions to run the 'acl|whoami' command"},
		"no whoami": {"user default on nopass resetkeys ~open:* &* +@all -acl", "-NOPERM User default has no permissions to run the 'acl|whoami' command"},
	} {
		t.Run(what, func(t *testing.T) {
			s := startCertified(t, "gateway", c.config)
			got := s.lines(t, "ACL WHOAMI", "GET a:1", "AUTH alice pw", "ACL WHOAMI", "GET b:1", "RESET", "ACL WHOAMI", "GET a:1")
			for at, want := range map[int]string{0: c.loggedOut, 1: "-NO", 2: "+OK", 3: "alice", 4: "-NOPERM", 5: "+RESET", 6: c.loggedOut, 7: "-NO"} {
				if at >= len(got) || !strings.HasPrefix(got[at], want) {
					t.Fatalf("answer %d should be %q: %q", at, want, got)
				}
			}
			s.checkOthers(t, c.loggedOut)
		})
	}
}

// checkOthers checks the other connections that the gateway makes.
func (c certified) checkOthers(t *testing.T, loggedOut string) {
	t.Helper()
	whoami := func(client *goredis.Client) string {
		name, err := client.Do(ctx, "ACL", "WHOAMI").Text()
		if err != nil {
			return "-" + err.Error()
		}
		return name
	}
	g := c.gateway
	beside := g.dialer.clientAs(&credentials{}, defaultDatabase, false)
	defer beside.Close()
	if got := whoami(beside); got != loggedOut {
		t.Errorf("beside a client without a login: %s", got)
	}
	beside = g.dialer.clientAs(&credentials{"alice", "pw"}, defaultDatabase, false)
	defer beside.Close()
	if got := whoami(beside); got != "alice" {
		t.Errorf("beside alice: %s", got)
	}
	if got := whoami(g.indexes.client); got != "gateway" {
		t.Errorf("the gateway's own connection: %s", got)
	}
	closed, err := g.dialer.requiresLogin(t.Context())
	if want := strings.HasPrefix(loggedOut, "-NOAUTH"); err != nil || closed != want {
		t.Errorf("the server asks for a login: %v, %v", closed, err)
	}
}

// If the server has no RESET the gateway checks the login of its connection, and serves no client under the
// gateway's own login.
func TestCertificateOnServerWithoutReset(t *testing.T) {
	const without = `rename-command RESET ""`
	got := startCertified(t, "gateway", without).lines(t, "GET a:1")
	if len(got) == 0 || !strings.HasPrefix(got[0], "-ERR cinch: the server accepts the gateway's certificate as a login") {
		t.Errorf("%q", got)
	}
	for name, config := range map[string]string{
		"unknown": "",                                   // the server has no such user
		"other":   "requirepass sesame",                 // no such user here either; a login is required
		"barred":  "user default on nopass -@all +ping", // the default user may not ask which user it is
		"default": "user default on nopass ~* &* +@all", // the user of every connection
	} {
		got := startCertified(t, name, without, config).lines(t, "PING")
		if len(got) == 0 || got[0] != "+PONG" && !strings.HasPrefix(got[0], "-NOAUTH") && !strings.HasPrefix(got[0], "-NOPERM User default") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A certificate with the name of the default user does not replace that user's password.
func TestCertificateOfTheDefaultUser(t *testing.T) {
	got := startCertified(t, "default", "requirepass sesame").lines(t, "GET a:1", "AUTH sesame", "GET a:1")
	if want := []string{"-NOAUTH Authentication required.", "+OK", "$-1"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	got = startCertified(t, "default", "requirepass sesame", `rename-command RESET ""`).lines(t, "GET a:1")
	if len(got) == 0 || !strings.HasPrefix(got[0], "-ERR cinch: the server accepts the gateway's certificate as a login") {
		t.Errorf("where nothing logs out: %q", got)
	}
}

// RESET needs no right: a user that lacks it is logged out nevertheless.
func TestCertificateOfAUserWithoutReset(t *testing.T) {
	s := startCertified(t, "limited", "requirepass sesame", "user limited on nopass ~* &* +@all -reset")
	if got := s.lines(t, "GET a:1", "AUTH alice pw", "GET a:1"); !slices.Equal(got, []string{"-NOAUTH Authentication required.", "+OK", "$-1"}) {
		t.Errorf("%q", got)
	}
}
