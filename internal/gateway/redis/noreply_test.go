package redis

import (
	"bufio"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// Some requests have no reply. The following ones keep their own.
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

// MONITOR is answered once.
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

// Only the words after AUTH are credentials.
func TestHelloNames(t *testing.T) {
	t.Parallel()
	sock := startServer(t, "--requirepass", "secret")
	front, _ := startGateway(t, sock)
	c := clientOf(t, front, as("", "secret")).Conn()
	defer c.Close()
	expect(t, c, "HELLO 2 SETNAME auth AUTH default secret", "[server", "SET k {long}", "OK",
		"MULTI", "OK", "APPEND k x", "QUEUED", "EXEC", "[1051]")
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
