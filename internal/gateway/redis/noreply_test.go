package redis

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// Some requests have no reply. The requests behind them still get theirs.
func TestSilentCommands(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	front, _ := startGateway(t, sock)
	expect(t, clientOf(t, front), "SET k {long}", "OK")
	for _, silent := range []string{
		"REPLCONF ACK 0", "replconf ack 0", "REPLCONF GETACK *", "REPLCONF ACK x y z",
		"REPLCONF ACK 0 FACK 0",
	} {
		c := dialRaw(t, front)
		var all []byte
		for _, words := range []string{silent, "GET k", "ECHO x"} {
			all = resp.AppendCommand(all, strings.Fields(words)...)
		}
		write(t, c, string(all))
		readExactly(t, c, string(resp.AppendBulk(nil, long))+"$1\r\nx\r\n")
	}
	c := dialRaw(t, front)
	var all []byte
	for _, words := range []string{"REPLCONF FOO 1", "GET k", "REPLCONF ACK", "GET k"} {
		all = resp.AppendCommand(all, strings.Fields(words)...)
	}
	value := string(resp.AppendBulk(nil, long))
	write(t, c, string(all))
	readExactly(t, c, "-ERR Unrecognized REPLCONF option: FOO\r\n"+value+"-ERR syntax error\r\n"+value)
}

// While MONITOR is on, another MONITOR is not answered.
func TestMonitorTwice(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	front, _ := startGateway(t, sock)
	expect(t, clientOf(t, front), "SET k {long}", "OK")
	c := dialRaw(t, front)
	for range 2 {
		write(t, c, string(resp.AppendCommand(nil, "MONITOR")))
	}
	readExactly(t, c, "+OK\r\n")
	write(t, c, string(resp.AppendCommand(resp.AppendCommand(nil, "RESET"), "GET", "k")))
	in := bufio.NewReader(c)
	for line := ""; line != "+RESET\r\n"; {
		var err error
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	readExactly(t, in, string(resp.AppendBulk(nil, long)))
}

// The server refuses CLIENT REPLY to a RESP2 subscriber, and continues to answer.
func TestSubscriberAsksForSilence(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	front, _ := startGateway(t, sock)
	c := dialRaw(t, front)
	write(t, c, "SUBSCRIBE a\r\nCLIENT REPLY OFF\r\nPING\r\n")
	readExactly(t, c, "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n-ERR Can't execute 'client|reply': only")
}

// CLIENT REPLY SKIP silences exactly the next request, however large that is.
func TestReplySkip(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock)
	big := strings.Repeat("x", 20<<10)
	for _, next := range [][]string{
		{"GET", "k"},
		{"SET", "k", long},
		{"SET", "k", big},
		{"HSET", "h", "f", big, "g", "1"},
		{"MSET", "a", big, "b", big},
		{"RPUSH", "l", big},
		{"APPEND", "k", big},
		{"STRLEN", "k"},
		{"INCRBYFLOAT", "n", "1"},
		{"EVAL", "return 1", "1", "k"},
		{"BITOP", "AND", "d", "k", "k"},
		{"NOSUCH", "k"},
		{"RESET"},
	} {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		request := resp.AppendCommand(nil, "CLIENT", "REPLY", "SKIP")
		request = resp.AppendCommand(request, next...)
		request = resp.AppendCommand(request, "ECHO", "one")
		request = resp.AppendCommand(request, "CLIENT", "REPLY", "OFF")
		request = resp.AppendCommand(request, next...)
		request = resp.AppendCommand(request, "CLIENT", "REPLY", "ON")
		request = resp.AppendCommand(request, "QUIT")
		go func() { _, _ = conn.Write(request) }()
		b, err := io.ReadAll(conn)
		want := "$3\r\none\r\n+OK\r\n+OK\r\n"
		if next[0] == "RESET" { // ends CLIENT REPLY OFF
			want = "$3\r\none\r\n+RESET\r\n+OK\r\n+OK\r\n"
		}
		if err != nil || string(b) != want {
			t.Errorf("%s: %q %v", next[0], b, err)
		}
		_ = conn.Close()
	}
}
