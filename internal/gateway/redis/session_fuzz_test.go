package redis

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// socketPair returns two connected sockets that can be half-closed.
func socketPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conns := [2]net.Conn{}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		if conns[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	return conns[0], conns[1]
}

// fakeServer answers every request with something plausible and records the requests as they arrived. It is
// not a Redis server: it only keeps the session going.
type fakeServer struct {
	conn     net.Conn
	requests [][]string
	broken   bool // bytes that Redis would answer with a protocol error
	queued   int  // in MULTI: requests so far; -1 outside
}

func (f *fakeServer) run() {
	defer f.conn.Close()
	f.queued = -1
	var p resp.Parser
	var buf []byte
	for {
		n, err := p.Parse(buf)
		if err != nil {
			f.broken = true
			_, _ = io.WriteString(f.conn, "-ERR Protocol error\r\n")
			return
		}
		if n == 0 {
			chunk := make([]byte, 4096)
			m, err := f.conn.Read(chunk)
			if m == 0 && err != nil {
				return
			}
			buf = append(buf, chunk[:m]...)
			continue
		}
		args := []string{}
		if p.Inline {
			split, ok := resp.SplitInline(bytes.TrimRight(buf[:n], "\r\n"))
			if !ok {
				f.broken = true
				_, _ = io.WriteString(f.conn, "-ERR Protocol error\r\n")
				return
			}
			for _, a := range split {
				args = append(args, string(a))
			}
		}
		for _, s := range p.Args {
			args = append(args, string(buf[s.Off:s.Off+s.Len]))
		}
		if len(args) > 0 {
			f.requests = append(f.requests, args)
			_, _ = io.WriteString(f.conn, f.answer(strings.ToLower(args[0])))
		}
		buf = buf[n:]
		p.Reset()
	}
}

func (f *fakeServer) answer(name string) string {
	switch {
	case name == "echo" && len(f.requests[len(f.requests)-1]) == 1:
		return "-ERR wrong number of arguments\r\n"
	case name == "multi" && f.queued < 0:
		f.queued = 0
		return "+OK\r\n"
	case name == "exec" && f.queued >= 0:
		n := f.queued
		f.queued = -1
		return string(resp.AppendArray(nil, n)) + strings.Repeat("$1\r\n1\r\n", n)
	case name == "discard" || name == "reset":
		f.queued = -1
		return "+OK\r\n"
	case f.queued >= 0:
		f.queued++
		return "+QUEUED\r\n"
	case name == "getrange":
		return "$0\r\n\r\n"
	}
	return ":1\r\n"
}

// oddReplies reports whether the input has commands that do not have exactly one reply.
func oddReplies(input []byte) bool {
	low := bytes.ToLower(input)
	for _, word := range []string{"subscribe", "reply", "monitor", "sync", "quit", "hello", "exec", "multi"} {
		if bytes.Contains(low, []byte(word)) {
			return true
		}
	}
	return false
}

// Whatever a client sends: the session ends, the bytes that reach the server are well formed up to where the
// client's are not, every request has one reply, and compressed values decompress to what the client sent.
func FuzzSession(f *testing.F) {
	for _, s := range []string{
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhello\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
		"MSET a 1 b {\"x\":1}\r\nHSET h f v\r\nXADD s * f v\r\nAPPEND a x\r\nSTRLEN a\r\n",
		"MULTI\r\nSET a b\r\nAPPEND a c\r\nEXEC\r\nWATCH a\r\nEVAL s 1 a\r\n",
		"SORT l BY w_* GET x_* STORE d\r\nBITOP AND d a b\r\nSET a b IFEQ c\r\nFOO bar\r\n",
		"CLIENT REPLY SKIP\r\nGET a\r\nSUBSCRIBE a b\r\nUNSUBSCRIBE\r\nRESET\r\nHELLO 3\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000\r\n" + strings.Repeat("x", 20000) + "\r\n",
		"*5\r\n$4\r\nMSET\r\n$1\r\nk\r\n$20000\r\n" + strings.Repeat("x", 20000) + "\r\n$1\r\nl\r\n$3\r\n\xC1\xDD\xDC\r\n",
		"*5\r\n$4\r\nMSET\r\n$1\r\nk\r\n$20000\r\n" + strings.Repeat("x", 20000) + "\r\n\r\n",
		"*5\r\n$4\r\nMSET\r\n$1\r\nk\r\n$20000\r\n" + strings.Repeat("x", 20000) + "\r\n$1\rxl\r\n$3\r\n\xC1\xDD\xDC\r\n",
		"*1\r\n$-5\r\n", "SET a \"x\r\n", "*3\r\n$3\r\nSET\r\n",
	} {
		f.Add([]byte(s))
	}
	rules, err := policy.New(policy.Options{Force: true})
	if err != nil {
		f.Fatal(err)
	}
	rules.Force = true
	g := NewGateway(Config{
		Upstream: endpoint.Upstream{Network: "unix", Address: "/nonexistent"}, Policy: rules, MaxSeal: 64 << 10,
		Requests: memory.NewBudget(1 << 20), Replies: memory.NewBudget(1 << 20),
	})
	f.Fuzz(func(t *testing.T, input []byte) {
		client, side := socketPair(t)
		up, down := socketPair(t)
		server := &fakeServer{conn: down}
		served := make(chan struct{})
		go func() { defer close(served); server.run() }()
		ended := make(chan struct{})
		go func() { defer close(ended); newSession(g, side, up, time.Now()).Run() }()
		go func() {
			_, _ = client.Write(input)
			_ = gateway.CloseWrite(client)
		}()
		_ = client.SetReadDeadline(time.Now().Add(2 * time.Minute))
		replies, err := io.ReadAll(client)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%q: the session hangs", input)
		}
		<-ended
		<-served
		_ = client.Close()
		checkSession(t, g, input, server, replies)
	})
}

func checkSession(t *testing.T, g *Gateway, input []byte, server *fakeServer, replies []byte) {
	var sent [][]string
	var p resp.Parser
	rest, ok := input, true
	for ok {
		n, err := p.Parse(rest)
		if n == 0 || err != nil {
			ok = err == nil && len(rest) == 0
			break
		}
		args := []string{}
		if p.Inline {
			split, good := resp.SplitInline(bytes.TrimRight(rest[:n], "\r\n"))
			if !good {
				ok = false
				break
			}
			for _, a := range split {
				args = append(args, string(a))
			}
		}
		for _, s := range p.Args {
			args = append(args, string(rest[s.Off:s.Off+s.Len]))
		}
		if len(args) > 0 {
			sent = append(sent, args)
		}
		rest = rest[n:]
		p.Reset()
	}
	if ok && server.broken {
		t.Fatalf("%q became malformed on its way", input)
	}
	if !ok || oddReplies(input) {
		return
	}
	if n := countReplies(replies); n != len(sent) {
		t.Fatalf("%q: %d requests, %d replies %q", input, len(sent), n, replies)
	}
	checkSealed(t, g, sent, server.requests)
}

func countReplies(b []byte) (n int) {
	open := 0
	for len(b) > 0 {
		end := bytes.Index(b, []byte("\r\n"))
		if end < 0 {
			return -1
		}
		h, err := resp.ParseHead(b[:end+2])
		if err != nil {
			return -1
		}
		b = b[end+2:]
		if h.IsString() && h.N >= 0 {
			b = b[h.N+2:]
		}
		if open > 0 {
			open--
		}
		if h.IsAggregate() && h.N > 0 {
			open += int(h.N)
		}
		if open == 0 {
			n++
		}
	}
	return n
}

// checkSealed looks for each SETNX and MSET of the client among the requests that the server got.
func checkSealed(t *testing.T, g *Gateway, sent, got [][]string) {
	for _, args := range sent {
		if name := strings.ToLower(args[0]); name != "setnx" && name != "mset" || len(args) < 3 || len(args)%2 == 0 {
			continue
		}
		if !containsOpened(g, args, got) {
			t.Fatalf("%q did not arrive: %q", args, got)
		}
	}
}

func containsOpened(g *Gateway, want []string, got [][]string) bool {
	for _, args := range got {
		same := len(args) == len(want)
		for i := 0; same && i < len(args); i++ {
			arg := args[i]
			if i%2 == 0 && i > 0 && envelope.IsSealed([]byte(arg)) {
				value, err := g.codec.Sealer.Open(nil, []byte(arg))
				if err != nil {
					return false
				}
				arg = string(value)
			}
			same = arg == want[i]
		}
		if same {
			return true
		}
	}
	return false
}
