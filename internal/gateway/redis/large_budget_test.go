package redis

import (
	"bufio"
	"bytes"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// What stands in front of a stored value or behind it is taken from the budget too, however short
// the value is.
func TestLongOptionsTakeBudget(t *testing.T) {
	sock := startServer(t)
	front, g := startGateway(t, sock, func(c *Config) { c.Requests, c.Stall = gateway.NewBudget(3<<20), 10*time.Millisecond })
	option := strings.Repeat("x", 1<<20)
	for _, args := range [][]string{
		{"SET", "k", "v", option, option, option},
		{"SET", option, "v", option, option},
		{"SETEX", option, option, "v"},
		{"XADD", option, "MAXLEN", option, "*", "f", "v"},
	} {
		c := dialRaw(t, front)
		go func() { _, _ = c.Write(resp.AppendCommand(nil, args...)) }()
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.Contains(line, "the memory budget is used up") {
			t.Errorf("%s: %.60q, %v", args[0], line, err)
		}
		write(t, c, "PING\r\n")
		readExactly(t, c, "+PONG\r\n")
	}
	if n := g.cfg.Requests.InUse(); n != 0 {
		t.Errorf("%d bytes of the budget are still taken", n)
	}
}

// What is no request any more in the middle gets the server's answer to all of it.
func TestProtocolErrorBeforeValues(t *testing.T) {
	sock := startServer(t)
	front, _ := startGateway(t, sock)
	request := resp.AppendCommand(nil, "XADD", "k", "MAXLEN", strings.Repeat("x", 2*bufferBytes))
	request = append(bytes.Replace(request, []byte("*4"), []byte("*7"), 1), ":1\r\n"...)
	want, err := answerTo(t, sock, request)
	if got, e := answerTo(t, front, request); err != nil || e != nil || got != want {
		t.Errorf("%q, %v; want %q, %v", got, e, want, err)
	}
}

func answerTo(t *testing.T, sock string, request []byte) (string, error) {
	t.Helper()
	c := dialRaw(t, sock)
	write(t, c, string(request))
	return bufio.NewReader(c).ReadString('\n')
}

// A request that is refused while its end is still to come holds nothing meanwhile, though some of
// it was compressed already.
func TestRefusedRequestHoldsNothing(t *testing.T) {
	sock := startServer(t)
	front, g := startGateway(t, sock)
	const n = 24 << 20
	head := append(resp.AppendArray(nil, 4), resp.AppendCommand(nil, "SET", "k", aheadValues(n)["text"])[len("*3\r\n"):]...)
	before := heapBytes()
	c := dialRaw(t, front)
	write(t, c, string(head))
	for g.cfg.Requests.InUse() <= 2*n {
		time.Sleep(time.Millisecond)
	}
	write(t, c, "$1073741824\r\nand so on")
	for g.cfg.Requests.InUse() != 0 {
		time.Sleep(time.Millisecond)
	}
	if now := heapBytes(); now > before+n/2 {
		t.Errorf("%d bytes are held", now-before)
	}
	runtime.KeepAlive(head)
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC() // pools keep what they had for one more
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
