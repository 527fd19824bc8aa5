package redis

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// startShared serves a gateway whose clients share at most two connections of each identity.
func startShared(t *testing.T, sock string, change ...func(*Config)) (string, *Gateway) {
	return startGateway(t, sock, append(change, func(c *Config) { c.SharedConns = 2 })...)
}

// exchange sends a command and expects a reply that begins with want.
func exchange(t *testing.T, c net.Conn, command, want string) {
	t.Helper()
	write(t, c, string(resp.AppendCommand(nil, strings.Fields(command)...)))
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("%s: %q, %v; want %q", command, got[:n], err, want)
	}
}

// Hundreds of clients share two connections, also after each has had one of its own for a while.
func TestManyClientsShare(t *testing.T) {
	t.Parallel()
	front, g := startShared(t, startServer(t))
	for i := range 300 {
		c := dialRaw(t, front)
		exchange(t, c, fmt.Sprintf("SET k%d v%d", i, i), "+OK\r\n")
		if i%10 == 0 {
			exchange(t, c, "MULTI", "+OK\r\n")
			exchange(t, c, fmt.Sprintf("SET k%d w%d", i, i), "+QUEUED\r\n")
			exchange(t, c, "EXEC", "*1\r\n+OK\r\n")
			exchange(t, c, fmt.Sprintf("SET k%d v%d", i, i), "+OK\r\n")
		}
		exchange(t, c, fmt.Sprintf("GET k%d", i), fmt.Sprintf("$%d\r\nv%d\r\n", len(fmt.Sprint("v", i)), i))
	}
	if use := g.Connections(); use.Shared != 2 || use.Own != 0 || use.Idle != 1 {
		t.Errorf("%+v", use)
	}
}

// The first clients have a connection each, the next ones share.
func TestFewClientsDoNotShare(t *testing.T) {
	t.Parallel()
	front, g := startShared(t, startServer(t), func(c *Config) { c.UnsharedClients = 2 })
	for range 5 {
		exchange(t, dialRaw(t, front), "SET k v", "+OK\r\n")
	}
	if use := g.Connections(); use.Shared != 1 || use.Own != 0 {
		t.Errorf("%+v", use)
	}
	info, err := clientOf(t, g.cfg.Upstream.Address).ClientList(ctx).Result()
	if n := strings.Count(info, "cmd=set"); err != nil || n != 3 {
		t.Errorf("%d connections, want 2 and a shared one: %v\n%s", n, err, info)
	}
}

// What a client's connection may be, as docs/REDIS.md says for each command: after the command, and after a shared
// command behind it.
func TestConnectionsOfCommands(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	for _, test := range []struct {
		commands   string // separated by ;
		own, later int    // own connections after the commands; and after a SET behind them
	}{
		{"SET k v;GET k;ACL WHOAMI;CONFIG GET maxmemory;SLOWLOG LEN;LATENCY LATEST", 0, 0},
		{"CLIENT SETINFO LIB-NAME x;CLIENT REPLY SKIP;PING", 0, 0},
		{"CLIENT REPLY ON", 1, 0},
		{"CLIENT LIST", 1, 0},
		{"CLIENT KILL ID 1000000", 1, 0},
		{"CLIENT PAUSE 0", 1, 0},
		{"CLIENT UNPAUSE", 1, 0},
		{"CLIENT UNBLOCK 1000000", 1, 0},
		{"CLIENT GETNAME", 1, 0},
		{"CLIENT GETREDIR", 1, 0},
		{"CLIENT TRACKINGINFO", 1, 0},
		{"CLIENT HELP", 1, 0},
		{"CLIENT TRACKING ON", 1, 1},
		{"CLIENT TRACKING ON;CLIENT TRACKING OFF", 1, 0},
		{"CLIENT ID", 1, 1},
		{"CLIENT INFO", 1, 1},
		{"CLIENT SETNAME me", 1, 1},
		{"CLIENT NO-EVICT ON", 1, 1},
		{"CLIENT UNKNOWN", 1, 0},
		{"HELLO 3", 1, 0},
		{"HELLO 2 SETNAME me", 1, 1},
		{"SELECT 3", 1, 0},
		{"AUTH default x", 1, 0},
		{"MULTI", 1, 1},
		{"MULTI;EXEC", 1, 0},
		{"MULTI;DISCARD", 1, 0},
		{"WATCH a", 1, 1},
		{"WATCH a;UNWATCH", 1, 0},
		{"SUBSCRIBE a", 1, 1},
		{"SUBSCRIBE a;UNSUBSCRIBE a", 1, 0},
		{"BLPOP none 0.01", 1, 0},
		{"XREAD STREAMS none 0", 1, 0},
		{"APPEND a b", 1, 0},
		{"STRLEN a", 1, 0},
		{"EVAL return(1) 0", 1, 0},
		{"SET k v;WAIT 0 1", 1, 1},
		{"RESET", 1, 0},
		{"CLIENT SETNAME me;RESET", 1, 1},
	} {
		front, g := startShared(t, sock)
		c := dialRaw(t, front)
		in := bufio.NewReader(c)
		ask := func(command string) {
			write(t, c, string(resp.AppendCommand(nil, strings.Fields(command)...)))
			if !strings.HasSuffix(command, "SKIP") {
				readReply(t, in)
			}
		}
		silent := false
		for command := range strings.SplitSeq(test.commands, ";") {
			if !silent {
				ask(command)
			} else {
				write(t, c, string(resp.AppendCommand(nil, command)))
			}
			silent = strings.HasSuffix(command, "SKIP")
		}
		if strings.Contains(test.commands, "SKIP") {
			ask("PING") // the command before it had no reply to wait for
		}
		own := g.Connections().Own
		ask("SET k v")
		if later := g.Connections().Own; own != test.own || later != test.later {
			t.Errorf("%s: %d, %d own connections; want %d, %d", test.commands, own, later, test.own, test.later)
		}
		_ = c.Close()
	}
}

// readReply reads a whole reply.
func readReply(t *testing.T, in *bufio.Reader) {
	t.Helper()
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	_, _ = fmt.Sscanf(line[1:], "%d", &n)
	switch line[0] {
	case '$', '=':
		if n >= 0 {
			_, err = in.Discard(n + 2)
		}
	case '%':
		n *= 2
		fallthrough
	case '*', '~', '>':
		for range n {
			readReply(t, in)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// WAIT waits for the client's own writes, not for those of others: its reply counts replicas that have them.
func TestSharedWait(t *testing.T) {
	t.Parallel()
	primary := testenv.Redis(t)
	replica := testenv.Redis(t, "--replicaof", strings.Replace(primary.Addr, ":", " ", 1))
	testenv.Eventually(t, "the replica follows", func() bool {
		return strings.Contains(clientAt(t, replica.Addr).Info(ctx, "replication").Val(), "master_link_status:up")
	})
	front, g := startShared(t, "", func(c *Config) { c.Upstream.Network, c.Upstream.Address = "tcp", primary.Addr })
	c, other := dialRaw(t, front), dialRaw(t, front)
	exchange(t, other, "SET b 1", "+OK\r\n")
	exchange(t, c, "SET a 1", "+OK\r\n")
	exchange(t, c, "WAIT 1 30000", ":1\r\n")
	clientAt(t, replica.Addr).Do(ctx, "REPLICAOF", "NO", "ONE")
	testenv.Eventually(t, "the primary has no replica", func() bool {
		return strings.Contains(clientAt(t, primary.Addr).Info(ctx, "replication").Val(), "connected_slaves:0")
	})
	exchange(t, c, "SET a 2", "+OK\r\n")
	write(t, c, "WAIT 1 0\r\n")
	exchange(t, other, "SET b 2", "+OK\r\n") // not behind WAIT
	if use := g.Connections(); use.Own != 1 {
		t.Errorf("%+v", use)
	}
	_ = c.Close()
	testenv.Eventually(t, "the blocked connection ends with its client", func() bool { return g.Connections().Own == 0 })
}

// A client whose user is deleted is disconnected, and a changed password ends the shared use.
func TestSharedLogins(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	admin := clientOf(t, sock)
	admin.Do(ctx, "ACL", "SETUSER", "some", "on", ">first", "~*", "+@all")
	front, g := startShared(t, sock)
	login := func(password, want string) net.Conn {
		c := dialRaw(t, front)
		exchange(t, c, "AUTH some "+password, want)
		return c
	}
	one, two := login("first", "+OK\r\n"), login("first", "+OK\r\n")
	for _, c := range []net.Conn{one, two} {
		exchange(t, c, "SET k v", "+OK\r\n")
		exchange(t, c, "ACL WHOAMI", "$4\r\nsome\r\n")
	}
	if use := g.Connections(); use.Own != 0 {
		t.Errorf("%+v", use)
	}
	admin.Do(ctx, "ACL", "SETUSER", "some", "resetpass", ">second")
	login("first", "-WRONGPASS")
	exchange(t, login("second", "+OK\r\n"), "ACL WHOAMI", "$4\r\nsome\r\n")
	exchange(t, one, "GET k", "$1\r\nv\r\n") // it has logged in before, as without sharing
	admin.Do(ctx, "ACL", "DELUSER", "some")
	testenv.Eventually(t, "only the default user's connection is left", func() bool { return g.Connections().Shared == 1 })
	exchange(t, one, "GET k", "-ERR cinch: no connection to the server: ")
	login("second", "-WRONGPASS")
}

// The server closes a shared connection: a client that waits is disconnected, one that does not goes on.
func TestSharedConnectionIsKilled(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	admin := clientOf(t, sock)
	front, _ := startShared(t, sock, func(c *Config) { c.SharedConns = 1 })
	waits, idle := dialRaw(t, front), dialRaw(t, front)
	exchange(t, waits, "SET k v", "+OK\r\n")
	exchange(t, idle, "SET k v", "+OK\r\n")
	admin.Do(ctx, "CLIENT", "PAUSE", "60000", "WRITE")
	write(t, waits, "INCR n\r\n")
	testenv.Eventually(t, "it waits", func() bool { return strings.Contains(admin.ClientList(ctx).Val(), "cmd=incr") })
	admin.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	admin.Do(ctx, "CLIENT", "UNPAUSE")
	if rest, err := io.ReadAll(waits); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	exchange(t, idle, "GET n", "$-1\r\n") // nothing was sent again
}

// A client that does not read holds up no other. When its replies take too much memory it is disconnected, and its
// address gets connections of its own, where the server waits for it.
func TestSlowClientOfSharedConnection(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	clientOf(t, sock).Set(ctx, "long", bytes.Repeat([]byte("x"), 2<<20), 0)
	front, g := startShared(t, sock, func(c *Config) {
		c.SharedConns, c.Policy, c.Replies = 1, nil, memory.NewBudget(4<<20)
	})
	slow, other := dialRaw(t, front), dialRaw(t, front)
	exchange(t, slow, "SET k v", "+OK\r\n")
	exchange(t, other, "SET k v", "+OK\r\n")
	write(t, slow, strings.Repeat("GET long\r\n", 20))
	for range 100 {
		exchange(t, other, "GET k", "$1\r\nv\r\n")
	}
	if _, err := io.Copy(io.Discard, slow); err != nil {
		t.Log(err) // it may be reset
	}
	again := dialRaw(t, front)
	write(t, again, strings.Repeat("GET long\r\n", 20))
	if use := g.Connections(); use.Shared != 1 {
		t.Errorf("%+v", use)
	}
	if n, err := io.CopyN(io.Discard, again, 20*int64(len("$2097152\r\n")+2<<20+2)); err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// What a request that the server refuses has left on a connection stays with its client.
func TestRefusedRequestsLeaveNothing(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	admin := clientOf(t, sock)
	for _, test := range []struct{ rights, commands string }{
		{"+@all -discard", "MULTI;DISCARD"},
		{"+@all -unwatch", "WATCH k;UNWATCH"},
		{"+@all -multi", "WATCH k;MULTI"},
		{"+@all", "HELLO 3 AUTH admin pw BOGUS"},
		{"+@all", "MULTI;AUTH admin pw;EXEC"},
	} {
		admin.Do(ctx, "ACL", "SETUSER", "admin", "on", ">pw", "~*", "+@all")
		set := []any{"ACL", "SETUSER", "some", "reset", "on", ">pw", "~*"}
		for right := range strings.FieldsSeq(test.rights) {
			set = append(set, right)
		}
		admin.Do(ctx, set...)
		front, _ := startShared(t, sock)
		one, two := dialRaw(t, front), dialRaw(t, front)
		exchange(t, two, "AUTH some pw", "+OK\r\n")
		exchange(t, two, "SET k v", "+OK\r\n")
		in := bufio.NewReader(one)
		for command := range strings.SplitSeq("AUTH some pw;"+test.commands+";SET k w;SET k w", ";") {
			write(t, one, string(resp.AppendCommand(nil, strings.Fields(command)...)))
			readReply(t, in)
		}
		for range 3 { // on an idle connection, if there is one
			write(t, two, string(resp.AppendCommand(resp.AppendCommand(nil, "CLIENT", "GETNAME"), "ACL", "WHOAMI")))
			readExactly(t, two, "$-1\r\n$4\r\nsome\r\n")
			if !strings.Contains(test.rights, "-multi") {
				exchange(t, two, "MULTI", "+OK\r\n")
				exchange(t, two, "SET x y", "+QUEUED\r\n")
				exchange(t, two, "EXEC", "*1\r\n+OK\r\n")
			}
			exchange(t, two, "SET k v", "+OK\r\n")
		}
	}
}

// slowClients forgets addresses, and remembers a limited number.
func TestSlowClientsAreForgotten(t *testing.T) {
	s := slowClients{}
	for i := range maxSlow + 10 {
		s.add(&net.TCPAddr{IP: net.IPv4(10, byte(i>>16), byte(i>>8), byte(i))})
	}
	first := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 0)}
	if len(s.until) != maxSlow || !s.has(first) || s.has(&net.TCPAddr{IP: net.IPv4(11, 0, 0, 0)}) {
		t.Errorf("%d addresses", len(s.until))
	}
	for name := range s.until {
		s.until[name] = time.Now().Add(-time.Second)
	}
	last := &net.TCPAddr{IP: net.IPv4(12, 0, 0, 0)}
	s.add(last)
	if s.has(first) || !s.has(last) || len(s.until) != 1 {
		t.Errorf("%d addresses", len(s.until))
	}
}

// clientAt is clientOf for a TCP address.
func clientAt(t *testing.T, addr string) *goredis.Client {
	return clientOf(t, addr, func(o *goredis.Options) { o.Network = "tcp" })
}
