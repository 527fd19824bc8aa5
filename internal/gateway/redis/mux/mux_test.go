package mux

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// server is a small server on pipes: ECHO, SET-like answers, and large replies. Each connection has a number.
type server struct {
	dialed atomic.Int64
	mu     sync.Mutex
	conns  []net.Conn
	hang   chan struct{} // closed: connections are served; nil: always
	refuse atomic.Bool   // AUTH is refused
}

func (s *server) dial(context.Context) (net.Conn, error) {
	a, b := net.Pipe()
	n := s.dialed.Add(1)
	s.mu.Lock()
	s.conns = append(s.conns, b)
	s.mu.Unlock()
	go s.serve(b, n)
	return a, nil
}

// kill closes connection n, from 1.
func (s *server) kill(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.conns[n-1].Close()
}

func (s *server) serve(c net.Conn, number int64) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		args, err := readRequest(in)
		if err != nil {
			return
		}
		if s.hang != nil {
			<-s.hang
		}
		var reply []byte
		switch args[0] {
		case "ECHO":
			reply = resp.AppendBulk(nil, []byte(args[1]))
		case "CONN":
			reply = fmt.Appendf(nil, ":%d\r\n", number)
		case "LONG":
			n, _ := strconv.Atoi(args[1])
			reply = resp.AppendBulk(nil, bytes.Repeat([]byte("x"), n))
		case "NESTED":
			reply = []byte("*3\r\n:1\r\n*2\r\n$-1\r\n+a\r\n%1\r\n+k\r\n*-1\r\n")
		case "AUTH", "SELECT":
			if reply = []byte("+OK\r\n"); s.refuse.Load() {
				reply = []byte("-WRONGPASS no\r\n")
			}
		case "HELLO":
			reply = []byte("%1\r\n$5\r\nproto\r\n:3\r\n")
		default:
			reply = []byte("-ERR unknown command\r\n")
		}
		if _, err := c.Write(reply); err != nil {
			return
		}
	}
}

func readRequest(in *bufio.Reader) (args []string, err error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	for range n {
		if line, err = in.ReadString('\n'); err != nil {
			return nil, err
		}
		k, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		b := make([]byte, k+2)
		if _, err = io.ReadFull(in, b); err != nil {
			return nil, err
		}
		args = append(args, string(b[:k]))
	}
	return args, nil
}

// wallet is a budget.
type wallet struct{ left atomic.Int64 }

func (w *wallet) TryAcquire(n int64) bool {
	if w.left.Add(-n) >= 0 {
		return true
	}
	w.left.Add(n)
	return false
}

func (w *wallet) Release(n int64) { w.left.Add(n) }

func newWallet(n int64) *wallet {
	w := &wallet{}
	w.left.Store(n)
	return w
}

func newPool(s *server, most int) *Pool {
	return NewPool(Config{Dial: s.dial, Lost: func() {}, Slow: func(net.Addr) {}, Most: most, Timeout: time.Minute, Go: func(f, _ func()) { go f() }})
}

func newConn(p *Pool, w *wallet) *Conn {
	c := p.Conn()
	c.SetOwner(Owner{Budget: w, OnWait: func() func() { return func() {} }})
	return c
}

func send(t *testing.T, c *Conn, args ...string) {
	t.Helper()
	if err := sendAll(t, c, 1, resp.AppendCommand(nil, args...)); err != nil {
		t.Error(err)
	}
}

// sendAll sends n requests, which may write.
func sendAll(t *testing.T, c *Conn, n int, requests []byte) error {
	if c.pinned() != nil {
		_, err := c.Write(requests)
		return err
	}
	if _, err := c.Begin(t.Context()); err != nil {
		return err
	}
	if _, err := c.Write(requests); err != nil {
		return err
	}
	return c.Commit(n, true, false)
}

func expect(t *testing.T, c *Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if n, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Errorf("%q, %v; want %q", b[:n], err, want)
	}
}

// expectConn sends CONN and expects the number of the connection.
func expectConn(t *testing.T, c *Conn, want int) {
	t.Helper()
	send(t, c, "CONN")
	expect(t, c, fmt.Sprintf(":%d\r\n", want))
}

// Many clients share two connections, each sends pipelines of requests and gets its own replies in order, also while it
// changes to a connection of its own and back.
func TestClientsGetTheirReplies(t *testing.T) {
	s := &server{}
	p := newPool(s, 2)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			c := newConn(p, newWallet(1<<20))
			defer c.Close()
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range 50 {
				n := 1 + rng.IntN(20)
				var requests []byte
				var want strings.Builder
				for k := range n {
					switch rng.IntN(8) {
					case 0:
						size := rng.IntN(3 * readBytes)
						requests = append(requests, resp.AppendCommand(nil, "LONG", strconv.Itoa(size))...)
						fmt.Fprintf(&want, "$%d\r\n%s\r\n", size, strings.Repeat("x", size))
					case 1:
						requests = append(requests, resp.AppendCommand(nil, "NESTED")...)
						want.WriteString("*3\r\n:1\r\n*2\r\n$-1\r\n+a\r\n%1\r\n+k\r\n*-1\r\n")
					case 2:
						requests = append(requests, resp.AppendCommand(nil, "NONE")...)
						want.WriteString("-ERR unknown command\r\n")
					default:
						text := fmt.Sprintf("client %d, request %d", i, k)
						requests = append(requests, resp.AppendCommand(nil, "ECHO", text)...)
						fmt.Fprintf(&want, "$%d\r\n%s\r\n", len(text), text)
					}
				}
				done := make(chan struct{})
				go func() { expect(t, c, want.String()); close(done) }()
				if err := sendAll(t, c, n, requests); err != nil {
					t.Error(err)
				}
				<-done
				switch {
				case c.pinned() != nil:
					c.Unpin(c.id, true)
				case rng.IntN(3) == 0:
					if _, err := c.Pin(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
}

// A client that does not read its replies holds up no other, and its session ends when its budget is used up.
func TestSlowClientIsCut(t *testing.T) {
	s := &server{}
	p := newPool(s, 1)
	slow, other := newConn(p, newWallet(1<<20)), newConn(p, newWallet(0))
	if err := sendAll(t, slow, 40, bytes.Repeat(resp.AppendCommand(nil, "LONG", strconv.Itoa(100<<10)), 40)); err != nil {
		t.Fatal(err)
	}
	send(t, other, "ECHO", "a")
	expect(t, other, "$1\r\na\r\n")
	if _, err := slow.Read(make([]byte, 10)); !errors.Is(err, ErrSlow) {
		t.Error(err)
	}
	if n := slow.owner.Budget.(*wallet).left.Load(); n != 1<<20 {
		t.Errorf("%d bytes of the budget are left", n)
	}
	_ = slow.Close()
	send(t, other, "ECHO", "b")
	expect(t, other, "$1\r\nb\r\n")
	if n := s.dialed.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// When a shared connection breaks, clients that wait for replies see the end of the connection. Others get a new one.
func TestConnectionBreaks(t *testing.T) {
	s := &server{}
	p := newPool(s, 1)
	idle, waiting := newConn(p, newWallet(0)), newConn(p, newWallet(0))
	send(t, idle, "ECHO", "a")
	expect(t, idle, "$1\r\na\r\n")
	s.hang = make(chan struct{})
	send(t, waiting, "ECHO", "b")
	s.kill(1)
	if _, err := waiting.Read(make([]byte, 10)); err != io.EOF {
		t.Error(err)
	}
	close(s.hang)
	send(t, idle, "CONN")
	expect(t, idle, ":2\r\n")
}

// Clients with other logins, databases or versions use other connections. If the server refuses the login no request is
// sent.
func TestIdentities(t *testing.T) {
	s := &server{}
	p := newPool(s, 1)
	for i, id := range []Identity{{Version: 2}, {User: "a", Password: "p", Version: 2}, {User: "a", Password: "p", Version: 3}, {Password: "p", Database: "3", Version: 2}, {User: "a", Password: "q", Version: 2}} {
		c := newConn(p, newWallet(0))
		c.id = id
		send(t, c, "CONN")
		expect(t, c, fmt.Sprintf(":%d\r\n", i+1))
	}
	s.refuse.Store(true)
	c := newConn(p, newWallet(0))
	c.id = Identity{User: "b", Password: "p", Version: 2}
	if err := sendAll(t, c, 1, resp.AppendCommand(nil, "CONN")); err == nil || !strings.Contains(err.Error(), "WRONGPASS no") {
		t.Error(err)
	}
}

// A client that is pinned has a connection of its own. It gives that back for the next one.
func TestPin(t *testing.T) {
	s := &server{}
	p := newPool(s, 1)
	one, two := newConn(p, newWallet(0)), newConn(p, newWallet(0))
	expectConn(t, one, 1)
	expectConn(t, two, 1)
	if _, err := one.Pin(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectConn(t, one, 2)
	expectConn(t, two, 1)
	reading := make(chan error)
	go func() { // as a session's reply pump does
		_, err := one.Read(make([]byte, 1))
		reading <- err
	}()
	one.Unpin(one.id, true)
	if _, err := two.Pin(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectConn(t, two, 2)
	_ = one.Close()
	if err := <-reading; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// Requests of a client whose replies are long wait until it has read earlier ones.
func TestLongRepliesAreFew(t *testing.T) {
	w := newWallet(1 << 20)
	c := newConn(newPool(&server{}, 1), w)
	var waits atomic.Int32
	c.SetOwner(Owner{Budget: w, OnWait: func() func() { waits.Add(1); return func() {} }})
	const size = 128 << 10
	want := fmt.Sprintf("$%d\r\n%s\r\n", size, strings.Repeat("x", size))
	for range 10 {
		send(t, c, "LONG", strconv.Itoa(size))
		expect(t, c, want)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			send(t, c, "LONG", strconv.Itoa(size))
		}
	}()
	for range 100 {
		expect(t, c, want)
	}
	<-done
	if held := 1<<20 - w.left.Load(); held != 0 || waits.Load() == 0 {
		t.Errorf("%d bytes are held, %d waits", held, waits.Load())
	}
}

// A client whose requests and replies fill writes of their own, because they are long or many, moves much. Those with
// short ones, also in a pipeline, and with single long ones do not.
func TestMovesMuch(t *testing.T) {
	for _, c := range []struct {
		command []string
		replies int // bytes of a reply
		depth   int
		want    bool
	}{
		{[]string{"LONG", "16"}, 23, 100, false},
		{[]string{"LONG", "40000"}, 40009, 1, false},
		{[]string{"LONG", "100000"}, 100010, 1, true},
		{[]string{"LONG", "16384"}, 16394, 16, true},
		{[]string{"IGNORE", strings.Repeat("x", 16<<10)}, len("-ERR unknown command\r\n"), 16, true},
		{[]string{"IGNORE", strings.Repeat("x", 16<<10)}, len("-ERR unknown command\r\n"), 1, false},
	} {
		conn := newConn(newPool(&server{}, 1), newWallet(64<<20))
		for range 50 {
			if err := sendAll(t, conn, c.depth, bytes.Repeat(resp.AppendCommand(nil, c.command...), c.depth)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, conn, int64(c.replies*c.depth)); err != nil {
				t.Fatal(err)
			}
		}
		if got := conn.MovesMuch(); got != c.want {
			t.Errorf("%s, %d bytes of reply, depth %d: %t", c.command[0], c.replies, c.depth, got)
		}
	}
}

// A connection that is reserved serves its client alone; others go to another one. It ends with its client.
func TestReserve(t *testing.T) {
	s := &server{}
	p := newPool(s, 1)
	one, two := newConn(p, newWallet(0)), newConn(p, newWallet(0))
	expectConn(t, one, 1)
	expectConn(t, two, 1)
	wait := func(c *Conn) bool {
		t.Helper()
		ok, _, err := c.BeginWait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			expectConn(t, c, 1)
		}
		return ok
	}
	if !wait(one) {
		t.Fatal("not reserved")
	}
	if !wait(two) { // for its write on connection 1
		t.Error("two can't wait for its write on connection 1")
	}
	expectConn(t, two, 2)
	expectConn(t, one, 1)
	_ = one.Close()
	s.mu.Lock()
	c := s.conns[0]
	s.mu.Unlock()
	if _, err := c.Write([]byte("x")); err == nil {
		t.Error("connection 1 is open")
	}
	three := newConn(p, newWallet(0))
	expectConn(t, three, 2)
	s.kill(2)
	for three.up.serves(three) {
		runtime.Gosched()
	}
	if wait(three) {
		t.Error("the connection of the latest write is gone")
	}
	send(t, three, "ECHO", "a")
	expect(t, three, "$1\r\na\r\n")
}

// A connection breaks before the requests that a client has begun are sent: the client sees its end.
func TestConnectionBreaksBeforeCommit(t *testing.T) {
	s := &server{}
	c := newConn(newPool(s, 1), newWallet(0))
	if _, err := c.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.kill(1)
	for c.up.serves(c) {
		runtime.Gosched()
	}
	_, _ = c.Write(resp.AppendCommand(nil, "ECHO", "a"))
	if err := c.Commit(1, true, false); err == nil {
		t.Error("no error")
	}
	if _, err := c.Read(make([]byte, 10)); err != io.EOF {
		t.Error(err)
	}
}

// A connection is reserved for a WAIT once other clients have sent what they have begun.
func TestReserveWaitsForRequestsThatHaveBegun(t *testing.T) {
	s := &server{}
	p := newPool(s, 1)
	one, two := newConn(p, newWallet(0)), newConn(p, newWallet(0))
	send(t, two, "ECHO", "a")
	expect(t, two, "$1\r\na\r\n")
	if _, err := one.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	reserved := make(chan bool)
	go func() {
		ok, _, _ := two.BeginWait(t.Context())
		reserved <- ok
	}()
	for one.up.serves(one) {
		runtime.Gosched()
	}
	_, _ = one.Write(resp.AppendCommand(nil, "CONN"))
	select {
	case <-reserved:
		t.Error("the request is behind WAIT")
	default:
	}
	if err := one.Commit(1, true, false); err != nil {
		t.Error(err)
	}
	if !<-reserved {
		t.Error("not reserved")
	}
	expect(t, one, ":1\r\n")
	send(t, one, "CONN")
	expect(t, one, ":2\r\n")
}

// The server refuses another connection: those that there are serve more clients.
func TestGrowthFails(t *testing.T) {
	s := &server{}
	p := newPool(s, 2)
	id := Identity{User: "a", Password: "p", Version: 2}
	for i := range clientsPerConn + 1 {
		s.refuse.Store(i == clientsPerConn)
		c := newConn(p, newWallet(0))
		c.id = id
		if err := c.Open(t.Context()); err != nil {
			t.Fatal(i, err)
		}
	}
}

// A client that reads slowly holds up the others for shortTime in all, not for each piece of a reply.
func TestTricklingReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(&server{}, 1)
		slow, other := newConn(p, newWallet(64<<10)), newConn(p, newWallet(0))
		send(t, slow, "LONG", strconv.Itoa(4<<20))
		send(t, other, "ECHO", "a")
		began := time.Now()
		var reading sync.WaitGroup
		reading.Go(func() {
			for b := make([]byte, 64<<10); ; time.Sleep(shortTime / 2) {
				if _, err := io.ReadFull(slow, b); err != nil {
					return
				}
			}
		})
		expect(t, other, "$1\r\na\r\n")
		if took := time.Since(began); took > 2*shortTime {
			t.Errorf("held up for %v", took)
		}
		_, _ = slow.Close(), other.Close()
		p.Close()
		reading.Wait()
	})
}

// FuzzReplies: however the bytes of replies are cut, their ends are found at the same places.
func FuzzReplies(f *testing.F) {
	f.Add([]byte("*3\r\n:1\r\n*2\r\n$-1\r\n+a\r\n%1\r\n+k\r\n*-1\r\n$3\r\nabc\r\n|1\r\n+a\r\n+b\r\n#t\r\n>2\r\n+x\r\n:1\r\n"), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		ends := func(step int) (at []int, failed bool) {
			var r replies
			n, have := 0, 0
			for {
				k, ended, err := r.next(b[n:have])
				if err != nil {
					return at, true
				}
				if k < 0 || n+k > have {
					t.Fatalf("%d of %d bytes", k, have-n)
				}
				n += k
				if ended {
					at = append(at, n)
				}
				if k == 0 || n == have {
					if have == len(b) {
						return at, false
					}
					have = min(have+step, len(b))
				}
			}
		}
		whole, failed := ends(len(b) + 1)
		parts, failedToo := ends(int(step)%7 + 1)
		if failed != failedToo || fmt.Sprint(whole) != fmt.Sprint(parts) {
			t.Errorf("%v, %v; in parts %v, %v", whole, failed, parts, failedToo)
		}
	})
}
