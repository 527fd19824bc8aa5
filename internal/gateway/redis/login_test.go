package redis

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// A client that does not wait for the answer to its login counts as logged in for the requests behind it.
func TestLongRequestsBehindALogin(t *testing.T) {
	t.Parallel()
	sock := startServer(t, "--requirepass", "secret")
	front, _ := startGateway(t, sock)
	direct := clientOf(t, sock, as("", "secret"))
	more := strings.Repeat("and more of it; ", 4<<10)
	magic := envelope.Magic + strings.Repeat("no envelope; ", 8<<10)
	for _, login := range []string{"AUTH secret\r\n", "AUTH default secret\r\n", "HELLO 2 AUTH default secret SETNAME me\r\n"} {
		expect(t, clientOf(t, front, as("", "secret")), "SET k {long}", "OK")
		if !isSealed(t, direct, "k") {
			t.Fatal("not sealed")
		}
		c := dialRaw(t, front)
		b := []byte(login)
		for _, args := range [][]string{{"APPEND", "k", more}, {"SET", "m", magic}, {"GET", "k"}, {"GET", "m"}, {"QUIT"}} {
			b = resp.AppendArray(b, len(args))
			for _, a := range args {
				b = resp.AppendBulk(b, a)
			}
		}
		go func() { _, _ = c.Write(b) }()
		got, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{long + more, magic} {
			if !bytes.Contains(got, resp.AppendBulk(nil, want)) {
				t.Errorf("%.10s: %d bytes of answers, without %.20q", login, len(got), want)
			}
		}
		_ = c.Close()
	}
}
