package redis

import (
	"bufio"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// An FT.CREATE that the server refuses at once, because the client has not logged in or the command does not
// exist, neither decompresses hashes in place nor leaves new ones uncompressed, whether the user may use
// MULTI or not.
func TestRefusedIndexesChangeNothing(t *testing.T) {
	t.Parallel()
	const create = "FT.CREATE i ON HASH PREFIX 1 h: SCHEMA a TEXT"
	sock := startServer(t, "--requirepass", "secret")
	expect(t, clientOf(t, sock, as("", "secret")), "ACL SETUSER app on >pw ~* &* +@all -multi", "OK")
	front, g := startGateway(t, sock)
	for who, c := range sorted(map[string]struct{ user, password string }{
		"a stranger": {}, "another one": {"", "secret"}, "without MULTI": {"app", "pw"},
	}) {
		expect(t, clientOf(t, front, as(c.user, c.password)), create, "error: ERR unknown command")
		g.indexes.mu.Lock()
		if n := len(g.indexes.announced) + len(g.indexes.sweeps); n != 0 {
			t.Errorf("%s: %v, %v", who, g.indexes.announced, g.indexes.sweeps)
		}
		g.indexes.mu.Unlock()
	}
}

// FT.CREATE right behind a login counts as sent by a client that has logged in.
func TestIndexBehindLogin(t *testing.T) {
	t.Parallel()
	// The renamed DEL takes any arguments.
	sock := startServer(t, "--requirepass", "secret", "--rename-command", "DEL", "FT.CREATE")
	front, _ := startGateway(t, sock, func(c *Config) { c.Upstream.Password = "secret" })
	expect(t, clientOf(t, front, as("", "secret")), "HSET h:1 f {long}", "1")
	c := dialRaw(t, front)
	create := strings.Fields("FT.CREATE i ON HASH PREFIX 1 h: SCHEMA f TEXT")
	write(t, c, string(resp.AppendCommand(resp.AppendCommand(nil, "AUTH", "secret"), create...)))
	in := bufio.NewReader(c)
	for _, want := range []string{"+OK\r\n", ":0\r\n"} {
		if line, err := in.ReadString('\n'); line != want || err != nil {
			t.Errorf("%q, %v, want %q", line, err, want)
		}
	}
	expect(t, clientOf(t, sock, as("", "secret")), "HGET h:1 f", "{long}") // decompressed in place before the reply
}

// If the gateway's own user may not run scripts, hashes under a new index are decompressed with the rights of the
// client that creates the index.
func TestIndexByRightsOfTheClient(t *testing.T) {
	t.Parallel()
	sock := startServer(t, "--rename-command", "DEL", "FT.CREATE") // the renamed DEL takes any arguments
	direct := clientOf(t, sock)
	expect(t, direct, "ACL SETUSER gw on >pw ~* &* +@all -eval", "OK")
	front, _ := startGateway(t, sock, func(c *Config) { c.Upstream.User, c.Upstream.Password = "gw", "pw" })
	expect(t, clientOf(t, front), "HSET h:1 f {long}", "1", "FT.CREATE i ON HASH PREFIX 1 h: SCHEMA f TEXT", "0")
	expect(t, direct, "HGET h:1 f", "{long}")
}

// An FT.CREATE that the server will refuse neither decompresses hashes in place nor leaves new ones uncompressed.
func TestRefusedIndexIsNotAnnounced(t *testing.T) {
	p := newParts(t)
	p.withSideServer(map[string]string{
		"MULTI": "+OK\r\n", "FT.CREATE": "+QUEUED\r\n", "DISCARD": "+OK\r\n", "SELECT": "+OK\r\n",
		"FT._LIST": "*1\r\n$3\r\nold\r\n", "SCAN": "*2\r\n$1\r\n0\r\n*0\r\n",
	})
	x := newIndexes(p.codec, p.user.sideConn.dialer, nil, false)
	defer x.stop()
	c := new(control)
	c.init(&Gateway{codec: p.codec, indexes: x}, &p.upstream, &p.user, nil)
	for _, test := range []struct {
		request   string
		announces bool
	}{
		{"FT.CREATE", false},
		{"FT.CREATE new", false},
		{"FT.CREATE new PREFIX 1 a:", false},
		{"FT.CREATE new PREFIX 1 a: SCHEMA", false},
		{"FT.CREATE old PREFIX 1 a: SCHEMA t TEXT", false},
		{"FT.CREATE new PREFIX 1 a: SCHEMA t TEXT", true},
		{"FT.CREATE new PREFIX 1 schema SCHEMA t TEXT", true},
		{"FT.CREATE new STOPWORDS 1 schema", false},
		{"FT.CREATE new STOPWORDS 3 prefix on schema SCHEMA t TEXT", true},
	} {
		if err := c.handle(requestOf(strings.Fields(test.request)...)); err != nil {
			t.Fatal(err)
		}
		p.expect(test.request)
		p.queued()
		x.mu.Lock()
		if n := len(x.announced) + len(x.sweeps); n > 0 != test.announces {
			t.Errorf("%s: announced %v, sweeps %v", test.request, x.announced, x.sweeps)
		}
		clear(x.announced)
		clear(x.sweeps)
		x.mu.Unlock()
	}
	// In another database the name may be free.
	space := "3"
	p.upstream.state.selected.Store(&space)
	if err := c.handle(requestOf("FT.CREATE", "old", "SCHEMA", "t", "TEXT")); err != nil || len(x.announced) == 0 {
		t.Errorf("database 3: %v, announced %v", err, x.announced)
	}
}
